//! How fast the inner loops are on one core: best of several rounds, for a quiet machine.

use std::time::Instant;

use clap::Args;
use towpath_report::plot::{Column, Table};

use crate::exchange::{Exchange, local};
use crate::options::rates as options;
use crate::report::Report;
use crate::{field, jpeg, kernels, tracker};

const ROUNDS_MAX: u32 = 1000;
/// Rounds beside a library: a median of fewer says little.
const LEAST: u32 = 5;

#[derive(Clone, Debug, Args)]
pub(crate) struct RatesArgs {
    /// How often each is tried
    #[arg(long, default_value_t = 9,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(ROUNDS_MAX)))]
    rounds: u32,
}

/// Seconds of the fastest round.
fn best(rounds: u32, mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..rounds {
        let begun = Instant::now();
        work()?;
        least = least.min(begun.elapsed().as_secs_f64());
    }
    Ok(least)
}

/// A line of the table.
struct Row {
    what: &'static str,
    rate: f64,
    unit: &'static str,
    /// A library that does the same, and its rate.
    library: Option<(&'static str, f64)>,
}

/// What has no library beside it.
fn alone(rounds: u32) -> anyhow::Result<Vec<Row>> {
    let row = |what, rate, unit| Row { what, rate, unit, library: None };
    let repeat = 100;
    let seconds = best(rounds, || {
        (0..repeat).for_each(|_| options::batch());
        Ok(())
    })?;
    let prices = f64::from(repeat) * options::BATCH as f64;
    let scene = tracker::hundred()?;
    let tracked = best(rounds.min(5), || scene.track())?;
    Ok(vec![
        row("BS, batch of 4096", prices / seconds / 1e6, "million prices a second"),
        row("EUS, 17 steps", best(rounds, options::eus)? * 1e3, "ms a price"),
        row("AMS, 17 steps", best(rounds, options::ams)? * 1e3, "ms a price"),
        row("surface of 10 000 AMC prices", best(rounds.min(3), options::surface)? * 1e3, "ms"),
        row("field: 96 unknowns, 181 directions", best(rounds, field::once)? * 1e3, "ms"),
        row("tracker, 100 targets", scene.measurements() / tracked, "measurements a second"),
    ])
}

/// What is a library's, or could be: a row for each library.
fn beside(exchange: &mut dyn Exchange, rounds: u32) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for mut rated in kernels::rated().into_iter().chain(jpeg::rated()?) {
        let times = rated.times(exchange, rounds.max(LEAST))?;
        let (what, unit, rate) = (rated.what, rated.unit, rated.amount / times.ours);
        let theirs = rated.peers.iter().zip(&times.peers);
        let library = |((name, _), time): (&(&'static str, _), &f64)| Row {
            what,
            rate,
            unit,
            library: Some((*name, rated.amount / time)),
        };
        rows.extend(theirs.map(library));
        if rated.peers.is_empty() {
            rows.push(Row { what, rate, unit, library: None });
        }
    }
    Ok(rows)
}

/// Measures on the root; other tasks have nothing to do.
pub(crate) fn rates(
    exchange: &mut dyn Exchange,
    args: &RatesArgs,
) -> anyhow::Result<Option<Report>> {
    if exchange.rank() != 0 {
        return Ok(None);
    }
    let mut all = alone(args.rounds)?;
    for rows in local::run(1, |exchange| beside(exchange, args.rounds)) {
        all.extend(rows?);
    }
    let mut table = Table::new(&[
        Column::words("what", "what"),
        Column::figures("rate", "rate"),
        Column::words("of", "unit"),
        Column::words("beside", "library"),
        Column::figures("its rate", "library_rate"),
        Column::figures("ratio", "ratio"),
    ]);
    let words = |text: &str| (text.to_owned(), text.to_owned());
    let figure = |rate: f64| (format!("{rate:.4}"), format!("{rate}"));
    for row in &all {
        let (library, rate, ratio) = match row.library {
            Some((name, rate)) => (words(name), figure(rate), figure(row.rate / rate)),
            None => (words(""), words(""), words("")),
        };
        table.push(vec![words(row.what), figure(row.rate), words(row.unit), library, rate, ratio]);
    }
    let lead = format!(
        "on one core: best of {} rounds; beside a library medians of as many, at least {LEAST}, \
         in turn, by processor time",
        args.rounds
    );
    let mut report = Report::new("Rates", &lead);
    report.table("Inner loops", &table);
    report.file("rates.csv", table.csv());
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::local::run;

    #[test]
    #[ignore = "nightly: takes seconds, and its figures mean nothing beside other work"]
    fn all_are_measured() {
        let all = run(2, |exchange| rates(exchange, &RatesArgs { rounds: 1 }));
        let mut reports = all.into_iter().map(Result::unwrap);
        assert!(reports.next().unwrap().unwrap().text().contains("AMS, 17 steps"));
        assert!(reports.next().unwrap().is_none());
    }
}
