//! `schedulers compare`: every packet scheduler under the same loads.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use towpath_qos::file::BYTES_MAX;
use towpath_qos::scheduler::Discipline;
use towpath_sim::qos::compare::{Churn, Comparison, Load, LoadError, Row, churn, compare};

use super::report;
use crate::batch::in_order;
use crate::files::{FilesError, print, shown};
use crate::outputs::Outputs;
use crate::plot::{Page, Section};
use crate::topology::{self, read_text};

/// Where what a load looks like is written.
const HINT: &str = "`towpath schedulers compare --help` has an example";
/// Packets per measurement of the time a packet takes.
const PACKETS: u64 = 200_000;

#[derive(Debug, Args)]
pub(crate) struct SchedulersArgs {
    #[command(subcommand)]
    command: SchedulersCommand,
}

#[derive(Debug, Subcommand)]
enum SchedulersCommand {
    /// Put packet schedulers under the same loads
    Compare(CompareArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath schedulers compare
  towpath schedulers compare --discipline edf --discipline hfsc --discipline drr --classes
  towpath schedulers compare --html schedulers.html --csv out/
  towpath schedulers compare --scenario load.toml --no-cost --json

A load (--scenario) names what competes; these are the defaults:

  link_bps = 100_000_000
  hops = 3                          # ports in a row
  duration_ms = 1000
  seed = 1
  bulk_weights = [1, 2, 3, 4]       # saturating channels at each port
  region_max = [24, 400]            # most channels of the first two classes to try

  [[classes]]
  name = \"video\"
  channels = 6
  rate_bps = 4_000_000
  burst_bytes = 15_380
  packet_bytes = 1538
  deadline_us = 12_000              # per port
  sending = \"on_off\"                # or \"greedy\", \"periodic\"

  [[classes]]
  name = \"voice\"
  channels = 20
  rate_bps = 96_000
  burst_bytes = 300
  packet_bytes = 300
  deadline_us = 3000
  sending = \"on_off\"

  [[classes]]
  name = \"control\"
  channels = 4
  rate_bps = 200_000
  burst_bytes = 1200
  packet_bytes = 300
  deadline_us = 1000
  sending = \"on_off\"

WORST is the largest delay over deadline of any class; LATE counts packets beyond their deadline;
UNFAIR is the largest deviation of a saturating queue from its share; HARM is how much worse the
worst delay of the first class becomes beside one that sends eight times what it may; REGION is
the fullest mix of the first two classes of which no packet is late, as a share of the link; COST
is nanoseconds per packet (enqueue and dequeue) on this machine now. All but COST repeat exactly.

Exit status: 0; 255 for errors.")]
struct CompareArgs {
    /// A load, in TOML (default: the built-in one)
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Only these, by name; may be repeated
    #[arg(long, value_name = "NAME")]
    discipline: Vec<String>,
    /// Do not measure time per packet
    #[arg(long)]
    no_cost: bool,
    /// Show each class of the load
    #[arg(long)]
    classes: bool,
    #[command(flatten)]
    outputs: Outputs,
}

pub(crate) fn run(args: &SchedulersArgs) -> anyhow::Result<ExitCode> {
    let SchedulersCommand::Compare(args) = &args.command;
    let load = match &args.scenario {
        Some(path) => {
            let text = read_text(path, BYTES_MAX)?;
            match Load::parse(&text) {
                Err(LoadError::Syntax(e)) => return Err(topology::in_file(path, &text, &e, HINT)),
                parsed => parsed.with_context(|| format!("in {}", shown(path)))?,
            }
        }
        None => Load::default(),
    };
    let disciplines = chosen(&args.discipline)?;
    args.outputs.prepare()?;
    let bar = ProgressBar::new(disciplines.len() as u64);
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    let mut rows = Vec::new();
    let mut failed = None;
    let work = |d: &Discipline| compare(&load, &[*d], None);
    in_order(&disciplines, work, |_, result| {
        bar.inc(1);
        match result {
            Ok(mut one) => rows.append(&mut one.rows),
            Err(e) => failed = failed.take().or(Some(e)),
        }
    });
    bar.finish_and_clear();
    if let Some(e) = failed {
        return Err(e.into());
    }
    if !args.no_cost {
        // One after another and alone: two at once would slow each other down.
        for (row, discipline) in rows.iter_mut().zip(&disciplines) {
            row.churn = costs(&load, *discipline)?;
        }
    }
    let comparison = Comparison { load, rows };
    write(&args.outputs, &comparison)?;
    print(&if args.outputs.json {
        format!("{}\n", serde_json::to_string(&comparison)?)
    } else {
        text(args, &comparison)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<Discipline>> {
    if names.is_empty() {
        return Ok(Discipline::ALL.to_vec());
    }
    let by_name = |name: &String| {
        Discipline::by_name(name).ok_or_else(|| {
            let all: Vec<&str> = Discipline::ALL.iter().map(|d| d.facts().name).collect();
            anyhow!("unknown discipline {name:?}\nhint: there are {}", all.join(", "))
        })
    };
    names.iter().map(by_name).collect()
}

/// Time per packet: the median of three.
fn costs(load: &Load, discipline: Discipline) -> anyhow::Result<Vec<Churn>> {
    let started = Instant::now();
    let mut clock = || u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut found = Vec::new();
    for &queues in &load.queues {
        let mut three = Vec::new();
        for _ in 0..3 {
            three.push(churn(discipline, queues, PACKETS, &mut clock)?);
        }
        three.sort_by_key(|c| c.ns_per_packet);
        found.push(three[1]);
    }
    Ok(found)
}

fn text(args: &CompareArgs, comparison: &Comparison) -> String {
    let mut out = report::summary(comparison).text();
    if args.classes {
        out.push('\n');
        out.push_str(&report::classes(comparison).text());
    }
    let bound = |row: &Row| {
        let bound = row.delay_bound.as_deref().unwrap_or("none");
        format!("{:<14} {}; cost {}; bound {bound}\n", row.name, row.title, row.cost)
    };
    out.push('\n');
    out.extend(comparison.rows.iter().map(bound));
    out
}

fn write(outputs: &Outputs, comparison: &Comparison) -> Result<(), FilesError> {
    let tables = [
        ("summary", report::summary(comparison)),
        ("classes", report::classes(comparison)),
        ("region", report::region(comparison)),
        ("cost", report::cost(comparison)),
    ];
    let charts = report::charts(comparison);
    outputs.tables(|| tables.iter().map(|(name, table)| ((*name).to_string(), table)).collect())?;
    outputs.charts(|| charts.iter().map(|(name, chart)| ((*name).to_string(), chart)).collect())?;
    let lead = "Every discipline under the same loads, in virtual time.";
    let mut page = Page::new("Packet schedulers compared", lead);
    page.push(&Section::new("Summary").table(&tables[0].1).charts(charts.iter().map(|c| &c.1)));
    page.push(&Section::new("Classes").table(&tables[1].1));
    page.push(&Section::new("Schedulable region").table(&tables[2].1));
    page.push(&Section::new("Time per packet").table(&tables[3].1));
    outputs.page(&page)
}
