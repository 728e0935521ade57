//! `sim parallel`: one application over many processors and rings, as the fifth source has it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::json;
use towpath_sim::parallel::{
    ParallelOutcome, ParallelSpec, Policy, Scheduler, Timer, run as run_one,
};

use crate::batch::{in_order, work_bar};
use crate::cells::{count, rate, share, time, words};
use crate::files::{print, write_file};
use crate::plot::{Column, Table};
use crate::units;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath sim parallel                                   the source's node, all four policies
  towpath sim parallel --policy drda --scheduler rr --timer source,usual,ours --repeat
  towpath sim parallel --policy drda --processors 12 --links 18 --bus 8Gbit/s
  towpath sim parallel --loss 1 --json

An application's packets of 36 kbit go by protocol processors over FDDI rings that others use, too.
The policies say who keeps timers and repeats, and who acknowledges: distributed (D) or one central
processor (C), as in DRCA: distributed retransmissions, centralized acknowledgements. SOURCE is what
the source printed for that run (Table 3, 2-bus). It counts time-outs without repeating anything;
--repeat has them repeat. docs/parallel.md says what was chosen where the source is silent.

Exit status: 0, 255 for errors.")]
pub(super) struct ParallelArgs {
    /// Who keeps timers, and who acknowledges
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_values_t = [PolicyArg::Drda, PolicyArg::Crca, PolicyArg::Drca, PolicyArg::Crda])]
    policy: Vec<PolicyArg>,
    /// Which ring is next
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_values_t = [SchedulerArg::Rr, SchedulerArg::Adaptive])]
    scheduler: Vec<SchedulerArg>,
    /// Time-out rules
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_values_t = [TimerArg::Source])]
    timer: Vec<TimerArg>,
    /// Load of others on the rings
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_values_t = [LoadArg::Even, LoadArg::Uneven])]
    load: Vec<LoadArg>,
    /// Protocol processors of a node
    #[arg(long, default_value_t = ParallelSpec::TWO_BUS.processors, value_name = "N")]
    processors: usize,
    /// Rings
    #[arg(long, default_value_t = ParallelSpec::TWO_BUS.links, value_name = "N")]
    links: usize,
    /// Packets that each processor may have under way
    #[arg(long, default_value_t = ParallelSpec::TWO_BUS.window, value_name = "N")]
    window: usize,
    /// Rate of each of a node's two buses
    #[arg(long, default_value = "800Mbit/s", value_parser = units::rate, value_name = "RATE")]
    bus: towpath_wire::Rate,
    /// Per cent of packets lost
    #[arg(long, default_value = "0", value_name = "PERCENT")]
    loss: f64,
    /// A time-out repeats a packet of which no copy was lost, too
    #[arg(long)]
    repeat: bool,
    /// Simulated time that is measured
    #[arg(long, default_value = "1s", value_parser = units::duration, value_name = "TIME")]
    measured: Duration,
    /// Feeds every random draw
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    seed: u64,
    /// Write the table as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print one JSON object per row
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PolicyArg {
    Drda,
    Crca,
    Drca,
    Crda,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SchedulerArg {
    /// In turn
    Rr,
    /// In turn, each processor in an order of its own
    Permuted,
    /// The least of queue and last rotation of the token
    Adaptive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TimerArg {
    /// srtt = 0.8 rtt + 0.2 srtt, rto = 2 srtt
    Source,
    /// srtt = 0.2 rtt + 0.8 srtt, rto = 2 srtt
    Usual,
    /// As an association's probes
    Ours,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoadArg {
    /// 30 % everywhere
    Even,
    /// Steps of a tenth, up on one half of the rings and down on the other
    Uneven,
}

impl ParallelArgs {
    fn specs(&self) -> anyhow::Result<Vec<ParallelSpec>> {
        let mut specs = Vec::new();
        let base = self.base()?;
        for load in &self.load {
            for scheduler in &self.scheduler {
                for policy in &self.policy {
                    for timer in &self.timer {
                        specs.push(ParallelSpec {
                            policy: policy_of(*policy),
                            scheduler: scheduler_of(*scheduler),
                            timer: timer_of(*timer),
                            uneven: *load == LoadArg::Uneven,
                            ..base
                        });
                    }
                }
            }
        }
        Ok(specs)
    }

    fn base(&self) -> anyhow::Result<ParallelSpec> {
        if !(0.0..=50.0).contains(&self.loss) {
            bail!("--loss {}, must be between 0 and 50", self.loss);
        }
        let base = ParallelSpec {
            processors: self.processors,
            links: self.links,
            window: self.window,
            bus_bps: self.bus.as_bps(),
            loss_ppm: (self.loss * 1e4).round() as u32,
            repeats: self.repeat,
            measured: self.measured,
            seed: self.seed,
            ..ParallelSpec::default()
        };
        match base.out_of_range() {
            None => Ok(base),
            Some((field, value, must)) => bail!("{field} is {value}, must be {must}"),
        }
    }
}

const fn policy_of(arg: PolicyArg) -> Policy {
    match arg {
        PolicyArg::Drda => Policy::Drda,
        PolicyArg::Crca => Policy::Crca,
        PolicyArg::Drca => Policy::Drca,
        PolicyArg::Crda => Policy::Crda,
    }
}

const fn scheduler_of(arg: SchedulerArg) -> Scheduler {
    match arg {
        SchedulerArg::Rr => Scheduler::RoundRobin,
        SchedulerArg::Permuted => Scheduler::Permuted,
        SchedulerArg::Adaptive => Scheduler::Adaptive,
    }
}

const fn timer_of(arg: TimerArg) -> Timer {
    match arg {
        TimerArg::Source => Timer::Source,
        TimerArg::Usual => Timer::Usual,
        TimerArg::Ours => Timer::Ours,
    }
}

pub(super) fn run(args: &ParallelArgs) -> anyhow::Result<ExitCode> {
    let specs = args.specs()?;
    let mut rows = Vec::new();
    let bar = work_bar(specs.len());
    in_order(&specs, run_one, |_, outcome| {
        bar.inc(1);
        rows.push(outcome);
    });
    bar.finish_and_clear();
    let table = table(&rows);
    if args.json {
        for row in &rows {
            let mut value = serde_json::to_value(row)?;
            value["version"] = json!(1);
            if let Some((mbps, us)) = row.spec.source() {
                value["source"] = json!({ "delivered_bps": mbps * 1_000_000, "rtt_us": us });
            }
            print(&format!("{value}\n"))?;
        }
    } else {
        print(&table.text())?;
    }
    if let Some(path) = &args.csv {
        write_file(path, table.csv())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[ParallelOutcome]) -> Table {
    let mut table = Table::new(&[
        Column::words("LOAD", "load"),
        Column::words("SCHEDULER", "scheduler"),
        Column::words("POLICY", "policy"),
        Column::words("TIMER", "timer"),
        Column::figures("DELIVERED", "delivered_bps"),
        Column::figures("SOURCE", "source_bps"),
        Column::figures("ROUND TRIP", "rtt_ns_mean"),
        Column::figures("SOURCE", "source_rtt_ns"),
        Column::figures("P99", "rtt_ns_p99"),
        Column::figures("TIME-OUTS", "timeouts_ppm"),
        Column::figures("SPURIOUS", "spurious"),
        Column::figures("WAITING", "waiting_max"),
        Column::figures("BUSIEST", "busy_ppm"),
    ]);
    for row in rows {
        let spec = &row.spec;
        let source = spec.source();
        let none = || words("");
        table.push(vec![
            words(if spec.uneven { "uneven" } else { "even" }),
            words(spec.scheduler.name()),
            words(spec.policy.name()),
            words(spec.timer.name()),
            rate(row.delivered_bps),
            source.map_or_else(none, |(mbps, _)| rate(mbps * 1_000_000)),
            time(row.rtt.mean_ns),
            source.map_or_else(none, |(_, us)| time(us * 1000)),
            time(row.rtt.p99_ns),
            share(row.timeouts * 1_000_000 / row.sent.max(1)),
            count(row.spurious),
            count(row.waiting_max as u64),
            share(row.busy_ppm),
        ]);
    }
    table
}
