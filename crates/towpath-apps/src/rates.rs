//! How fast the inner loops are on one core: best of several rounds, for a quiet machine.

use std::time::Instant;

use clap::Args;
use towpath_report::plot::{Column, Table};

use crate::exchange::Exchange;
use crate::options::rates as options;
use crate::report::Report;
use crate::{field, jpeg, kernels, tracker};

const ROUNDS_MAX: u32 = 1000;

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

/// Measures on the root; other tasks have nothing to do.
pub(crate) fn rates(
    exchange: &mut dyn Exchange,
    args: &RatesArgs,
) -> anyhow::Result<Option<Report>> {
    if exchange.rank() != 0 {
        return Ok(None);
    }
    let rounds = args.rounds;
    let mut table = Table::new(&[
        Column::words("what", "what"),
        Column::figures("rate", "rate"),
        Column::words("of", "unit"),
    ]);
    let mut row = |what: &str, rate: f64, unit: &str| {
        let words = |text: &str| (text.to_owned(), text.to_owned());
        table.push(vec![words(what), (format!("{rate:.4}"), format!("{rate}")), words(unit)]);
    };
    let repeat = 100;
    let seconds = best(rounds, || {
        (0..repeat).for_each(|_| options::batch());
        Ok(())
    })?;
    let prices = f64::from(repeat) * options::BATCH as f64;
    row("BS, batch of 4096", prices / seconds / 1e6, "million prices a second");
    row("EUS, 17 steps", best(rounds, options::eus)? * 1e3, "ms a price");
    row("AMS, 17 steps", best(rounds, options::ams)? * 1e3, "ms a price");
    row("surface of 10 000 AMC prices", best(rounds.min(3), options::surface)? * 1e3, "ms");
    row("field: 96 unknowns, 181 directions", best(rounds, field::once)? * 1e3, "ms");
    let scene = tracker::hundred()?;
    let seconds = best(rounds.min(5), || scene.track())?;
    row("tracker, 100 targets", scene.measurements() / seconds, "measurements a second");
    let picture = jpeg::Sample::new()?;
    let bytes = picture.bytes() / 1e6;
    row("JPEG, compressed", bytes / best(rounds, || picture.encode())?, "MB a second");
    row("JPEG, decompressed", bytes / best(rounds, || picture.decode())?, "MB a second");
    for (what, flops, work) in kernels::RATED {
        row(what, flops / best(rounds.min(5), work)? / 1e9, "Gflop a second");
    }
    let lead = format!("best of {rounds} rounds on one core");
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
