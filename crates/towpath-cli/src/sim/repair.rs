//! `sim repair`: the scheme of 1997 beside the present one, over a range of losses.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use towpath_sim::repair::{RepairOutcome, RepairSpec, Scheme, run as run_one};
use towpath_sim::segments::SegmentConfig;
use towpath_wire::{ByteSize, Rate};

use crate::batch::{in_order, work_bar};
use crate::cells::{count, rate, share, time, words};
use crate::files::{make_dir, print, write_file};
use crate::plot::{Axis, Chart, Column, Shape, Table, Unit};
use crate::units;

/// Losses and seeds together at most.
const RUNS_MAX: usize = 10_000;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath sim repair                            0 to 20 % loss, on the link of the first source
  towpath sim repair --loss 0.1,1,10 --rate 1Gbit/s --delay 10ms --svg out/
  towpath sim repair --timeout 10ms --retries 50 --json
  towpath sim repair --loss 10 --seed 100 --seeds 20

The scheme of 1997 (Hsieh 1997, §2.3.4.1) sends segments of 64 packets and waits for a map of 64
bits after each; the default link is the one that its Figures 3.13 to 3.15 were measured on
(135.632 Mbit/s, 2.75 ms there and back). An association sends packets with as many content bytes
over the same link. As much is lost on the way back. Each row is the run of median time of several
seeds.

Exit status: 0; 1 a scheme did not deliver everything; 255 for errors.")]
pub(super) struct RepairArgs {
    /// Losses in per cent, each way
    #[arg(long, value_name = "LIST", default_value = "0,1,2,5,10,15,20", value_delimiter = ',')]
    #[arg(value_parser = loss)]
    loss: Vec<u32>,
    /// Rate of the link
    #[arg(long, default_value = "135.632Mbit/s", value_parser = units::rate)]
    rate: Rate,
    /// Delay of the link, each way
    #[arg(long, default_value = "1.375ms", value_parser = units::duration)]
    delay: Duration,
    /// Bytes to send
    #[arg(long, default_value = "32MiB", value_parser = units::size)]
    bytes: ByteSize,
    /// Length of each message
    #[arg(long, default_value = "1MiB", value_parser = units::size)]
    message: ByteSize,
    /// Scheme of 1997: how long the sender waits for a map; the receiver waits half as long for
    /// the next packet (the source gives no times)
    #[arg(long, default_value = "200ms", value_parser = units::duration)]
    timeout: Duration,
    /// Scheme of 1997: repetitions of a segment before it gives up (the source gives no number)
    #[arg(long, default_value_t = 16, value_name = "N")]
    retries: u8,
    /// Association: congestion controller instead of the default (docs/transport.md lists them)
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Runs per row
    #[arg(long, default_value_t = 5, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// First of these seeds
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    seed: u64,
    /// Write the table as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw charts
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Print one JSON object per row
    #[arg(long)]
    json: bool,
}

/// Per cent, in parts per million.
fn loss(text: &str) -> Result<u32, String> {
    let percent: f64 = text.trim().parse().map_err(|_| format!("{text:?} is no number"))?;
    if (0.0..=100.0).contains(&percent) {
        Ok((percent * 1e4).round() as u32)
    } else {
        Err(format!("{text} % is lost, must be between 0 and 100"))
    }
}

pub(super) fn run(args: &RepairArgs) -> anyhow::Result<ExitCode> {
    let runs = args.loss.len().saturating_mul(2 * args.seeds as usize);
    if runs > RUNS_MAX {
        anyhow::bail!("{runs} runs, at most {RUNS_MAX}\nhint: fewer --seeds or losses");
    }
    let base = RepairSpec {
        rate_bps: args.rate.as_bps(),
        delay_us: u64::try_from(args.delay.as_micros()).unwrap_or(u64::MAX),
        loss_ppm: 0,
        bytes: args.bytes.as_bytes(),
        message_bytes: u32::try_from(args.message.as_bytes())
            .with_context(|| format!("--message {} is too long", args.message))?,
        segments: SegmentConfig {
            retries: args.retries,
            map_timeout: args.timeout,
            gap_timeout: args.timeout / 2,
            ..SegmentConfig::default()
        },
        congestion: args.congestion.clone(),
        seed: 0,
    };
    let mut jobs = Vec::new();
    for loss_ppm in &args.loss {
        for scheme in [Scheme::Segments, Scheme::Association] {
            let spec = |seed| RepairSpec { loss_ppm: *loss_ppm, seed, ..base.clone() };
            jobs.extend((0..args.seeds).map(|n| (spec(args.seed.wrapping_add(n)), scheme)));
        }
    }
    let (mut outcomes, mut trouble) = (Vec::new(), None);
    let bar = work_bar(jobs.len());
    in_order(
        &jobs,
        |(spec, scheme)| run_one(spec, *scheme),
        |_, outcome| {
            bar.inc(1);
            match outcome {
                Ok(o) => outcomes.push(o),
                Err(e) => trouble = trouble.take().or(Some(e)),
            }
        },
    );
    bar.finish_and_clear();
    if let Some(e) = trouble {
        return Err(e.into());
    }
    let rows: Vec<RepairOutcome> = outcomes.chunks_mut(args.seeds as usize).map(median).collect();
    tell(args, &rows)
}

/// The run of median time; one that failed is worse than any that did not.
fn median(runs: &mut [RepairOutcome]) -> RepairOutcome {
    runs.sort_by(|a, b| {
        let key = |o: &RepairOutcome| (o.failed.is_some(), o.seconds);
        let ((a_failed, a), (b_failed, b)) = (key(a), key(b));
        a_failed.cmp(&b_failed).then(a.total_cmp(&b))
    });
    let worst = runs.iter().find(|o| o.failed.is_some());
    let middle = &runs[runs.len() / 2];
    let failed = worst.and_then(|o| o.failed.clone());
    RepairOutcome { failed, ..middle.clone() }
}

fn tell(args: &RepairArgs, rows: &[RepairOutcome]) -> anyhow::Result<ExitCode> {
    let table = table(rows);
    if args.json {
        for row in rows {
            let mut value = serde_json::to_value(row)?;
            value["version"] = json!(1);
            value["goodput_bps"] = json!(goodput(row));
            value["overhead"] = json!(overhead(row));
            print(&format!("{value}\n"))?;
        }
    } else {
        print(&table.text())?;
    }
    if let Some(path) = &args.csv {
        write_file(path, table.csv())?;
    }
    if let Some(dir) = &args.svg {
        make_dir(dir)?;
        for (name, chart) in charts(rows) {
            write_file(&dir.join(format!("repair-{name}.svg")), chart.svg())?;
        }
    }
    for row in rows {
        if let Some(why) = &row.failed {
            let loss = f64::from(row.loss_ppm) / 1e4;
            eprintln!("{} at {loss} % loss: {why}", name(row.scheme));
        }
    }
    Ok(ExitCode::from(u8::from(rows.iter().any(|r| r.failed.is_some()))))
}

fn name(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Segments => "1997",
        Scheme::Association => "association",
    }
}

fn goodput(row: &RepairOutcome) -> f64 {
    if row.seconds > 0.0 { row.bytes as f64 * 8.0 / row.seconds } else { 0.0 }
}

/// Bytes on the link, both ways, per byte delivered.
fn overhead(row: &RepairOutcome) -> f64 {
    (row.there_bytes + row.back_bytes) as f64 / row.bytes.max(1) as f64
}

fn table(rows: &[RepairOutcome]) -> Table {
    let mut table = Table::new(&[
        Column::figures("LOSS", "loss_ppm"),
        Column::words("SCHEME", "scheme"),
        Column::figures("TIME", "time_ns"),
        Column::figures("GOODPUT", "goodput_bps"),
        Column::figures("SENT PER BYTE", "bytes_sent_per_byte"),
        Column::figures("REPEATED", "repeated_packets"),
        Column::figures("TIME-OUTS", "timeouts"),
        Column::words("", "failed"),
    ]);
    for row in rows {
        let failed = row.failed.clone().unwrap_or_default();
        table.push(vec![
            share(row.loss_ppm.into()),
            words(name(row.scheme)),
            time((row.seconds * 1e9) as u64),
            rate(goodput(row) as u64),
            words(&format!("{:.3}", overhead(row))),
            count(row.repeated),
            count(row.timeouts),
            (if failed.is_empty() { String::new() } else { "not delivered".into() }, failed),
        ]);
    }
    table
}

fn charts(rows: &[RepairOutcome]) -> Vec<(&'static str, Chart)> {
    let chart = |title: &str, label: &str, unit, value: fn(&RepairOutcome) -> f64| {
        let axis = Axis::new("loss in per cent, each way", Unit::Count);
        let mut chart = Chart::new(title, axis, Axis::new(label, unit));
        for scheme in [Scheme::Segments, Scheme::Association] {
            let own = rows.iter().filter(|r| r.scheme == scheme && r.failed.is_none());
            let points = own.map(|r| (f64::from(r.loss_ppm) / 1e4, value(r)));
            let mut points: Vec<_> = points.collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            chart = chart.with(name(scheme), Shape::Line, points);
        }
        chart.caption("1997: segments of 64 packets of 4 KiB and a map each (Hsieh 1997).")
    };
    vec![
        ("time", chart("Time to deliver", "time", Unit::Seconds, |r| r.seconds)),
        ("goodput", chart("Goodput", "delivered", Unit::BitsPerSecond, goodput)),
        ("overhead", chart("Bytes sent per byte delivered", "bytes", Unit::Count, overhead)),
    ]
}
