//! The rounds, and what is reported of them.

use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use towpath::task::panel::Parameter;
use towpath_report::units;

use super::helm::Helm;
use super::subject::{Picture, Round, Subject};
use crate::exchange::Exchange;
use crate::picture::Field;
use crate::report::Report;

const ROUNDS_MAX: usize = 1_000_000_000;

#[derive(Clone, Debug, Args)]
pub(crate) struct SteerArgs {
    /// What is computed again and again
    #[arg(long, value_enum, default_value_t = Subject::Prices)]
    pub(crate) of: Subject,
    /// How often
    #[arg(long, default_value_t = 50)]
    pub(crate) rounds: usize,
    /// A round begins no sooner after the one before
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::duration)]
    pub(crate) every: Duration,
    /// Show the panel under this name (`towpath panel NAME`) rather than the subject's
    #[arg(long, value_name = "NAME")]
    pub(crate) panel: Option<String>,
    /// Take changes from standard input, one a line (`volatility=0.4`)
    #[arg(long)]
    pub(crate) listen: bool,
}

/// What the root has in the end.
pub(super) struct Steered {
    pub(super) last: Option<Picture>,
    pub(super) log: Vec<String>,
    pub(super) rounds: usize,
}

/// Computes the rounds; `before` may change something before each.
pub(super) fn rounds(
    exchange: &mut dyn Exchange,
    args: &SteerArgs,
    mut before: impl FnMut(&mut Helm, usize),
) -> anyhow::Result<Steered> {
    let count = args.rounds;
    ensure!((1..=ROUNDS_MAX).contains(&count), "{count} rounds: from 1 to {ROUNDS_MAX}");
    let panel = args.of.panel(args.panel.as_deref())?;
    let running = panel.parameters().len() - 1;
    let mut values: Vec<f64> = panel.parameters().iter().map(Parameter::value).collect();
    let mut helm = Helm::new(panel);
    if args.listen {
        helm.listen(exchange);
    }
    helm.show(exchange, args.panel.is_some())?;
    let (mut last, mut done) = (None, 0);
    for round in 0..count {
        let begun = Instant::now();
        before(&mut helm, round);
        let wanted = helm.round(exchange)?;
        if wanted[running] < 1.0 {
            break;
        }
        match args.of.check(&wanted) {
            Ok(()) => values = wanted,
            Err(why) => helm.back(&values, &why.to_string())?,
        }
        if let Some(Round { picture, told }) = args.of.round(exchange, &values)? {
            for (series, numbers) in told {
                helm.push(exchange, series, round as f64, &numbers)?;
            }
            last = Some(picture);
            let left = args.every.saturating_sub(begun.elapsed());
            if !left.is_zero() {
                exchange.rest(left)?;
            }
        }
        done = round + 1;
    }
    helm.finish(exchange)?;
    Ok(Steered { last, log: helm.log, rounds: done })
}

/// The whole demonstration.
pub(crate) fn steer(
    exchange: &mut dyn Exchange,
    args: &SteerArgs,
) -> anyhow::Result<Option<Report>> {
    let begun = Instant::now();
    let Steered { last, log, rounds } = rounds(exchange, args, |_, _| {})?;
    if exchange.rank() != 0 {
        return Ok(None);
    }
    let each = begun.elapsed().as_secs_f64() / rounds.max(1) as f64;
    let mut report = Report::new("Steering", &format!("{rounds} rounds of {:?}", args.of));
    report.say("Each took", &units::time_text(each));
    report.say("Changes", &if log.is_empty() { "none".to_owned() } else { log.join("\n") });
    let Some(Picture { columns, values }) = last else { return Ok(Some(report)) };
    match args.of {
        Subject::Prices => {
            let heading = "The last one: spot across, volatility down";
            report.field(heading, &Field::new(columns, values));
        }
        Subject::Slots => {
            let line = |(degree, f): (usize, &f64)| format!("{degree},{f:e}\n");
            let lines: String = values.iter().enumerate().map(line).collect();
            report.chart("The last one", &crate::field::pattern_chart(&values));
            report.file("far.csv", format!("theta_deg,f\n{lines}"));
        }
    }
    Ok(Some(report))
}
