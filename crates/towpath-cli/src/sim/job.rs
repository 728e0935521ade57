//! `sim job`: a recorded job over a simulated network.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use towpath_sim::job::{FILE_BYTES_MAX, JobNetwork, Outcome, Record, Row, replay, scaling};
use towpath_sim::scenario::{BYTES_MAX, ScenarioError};

use crate::cells::{Cell, count, share, time, words};
use crate::files::{not_among, print, shown, write_file};
use crate::plot::{Column, Table};
use crate::topology::{at_line, in_file, read_text};
use crate::units;
use crate::words::{bytes_text, ns_text};

/// Records, and networks, of one call.
const FILES_MAX: usize = 256;
/// Links that are told of; --json tells of all.
const LINKS_SHOWN: usize = 4;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath-apps tracker --tasks 4 --record t4       what each of four tasks did
  towpath sim job t4 --network scenarios/job/ethernet-10.toml --slower 2000
  towpath sim job t1 t2 t4 --network scenarios/job/nynet.toml --one-rank 180.75s
  towpath sim job k* --network scenarios/job/gigabit-switched.toml --json

A record tells how long each task worked between its messages, and what these were. Over another
network, and on processors so many times slower, they take other times; work stays in the order and
in the hands in which it was recorded. Of several records of as many tasks the least work of each
step counts: a busy machine disturbs one less than the other. One number of tasks: a table of
ranks. Several, of one application: a table by number of ranks; efficiency is speed-up over ranks,
and what there is of it is the share of work over its growth. scenarios/job has networks,
docs/applications.md what came of them.

Exit status: 0; 255 for errors, also where a record waits for a message that never comes.")]
pub(super) struct JobArgs {
    /// What `towpath-apps APP --record FILE` wrote
    #[arg(value_name = "RECORD", required = true)]
    records: Vec<PathBuf>,
    /// The network, see scenarios/job; several are compared
    #[arg(long, value_name = "FILE", required = true)]
    network: Vec<PathBuf>,
    /// Recorded work takes so many times as long, instead of what the network's file says
    #[arg(long, value_name = "X", conflicts_with = "one_rank")]
    slower: Option<f64>,
    /// The same, such that the work of the record of one rank takes so long
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    one_rank: Option<Duration>,
    /// Write the table as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print one JSON object per record and network
    #[arg(long)]
    json: bool,
}

struct Network {
    /// The file's name without folder and ending.
    name: String,
    spec: JobNetwork,
}

fn record(path: &Path) -> anyhow::Result<Record> {
    let text = read_text(path, FILE_BYTES_MAX)?;
    Record::parse(&text)
        .map_err(|e| anyhow!("{}", at_line(path, &text, e.line, &e.message, e.hint)))
}

/// A record, and where it is from.
type Recorded = (Record, PathBuf);

/// One for each number of ranks, in their order.
fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<Recorded>> {
    let mut all: Vec<Recorded> = Vec::new();
    for path in paths {
        let record = record(path)?;
        match all.iter_mut().find(|(other, _)| other.ranks.len() == record.ranks.len()) {
            Some((same, _)) if same.application == record.application => {
                same.lessen(record);
            }
            Some((same, _)) => bail!(
                "{} is of {:?}, another record of {:?}: a table is of one application",
                shown(path),
                record.application,
                same.application
            ),
            None => all.push((record, path.clone())),
        }
    }
    all.sort_by_key(|(record, _)| record.ranks.len());
    Ok(all)
}

impl JobArgs {
    fn network(&self, path: &Path, records: &[Recorded]) -> anyhow::Result<Network> {
        let text = read_text(path, BYTES_MAX)?;
        let mut spec = JobNetwork::parse(&text).map_err(|e| match e {
            ScenarioError::Syntax(e) => in_file(path, &text, &e, "scenarios/job has examples"),
            e @ ScenarioError::Range { .. } => anyhow!(e).context(format!("in {}", shown(path))),
        })?;
        if let Some(slower) = self.factor(records)?.or(self.slower) {
            spec.processor.slower = Some(slower);
        }
        if let Some((_, value, must)) = spec.out_of_range() {
            bail!("recorded work takes {value} times as long, must be {must}");
        }
        let name = path.file_stem().map_or_else(|| "-".into(), |name| shown(Path::new(name)));
        Ok(Network { name, spec })
    }

    /// What `--one-rank` asks for.
    fn factor(&self, records: &[Recorded]) -> anyhow::Result<Option<f64>> {
        let Some(wanted) = self.one_rank else { return Ok(None) };
        let one = records.iter().find(|(record, _)| record.ranks.len() == 1);
        let (one, _) = one.context("--one-rank needs a record of one rank among those given")?;
        Ok(Some(wanted.as_nanos() as f64 / one.work_ns().max(1) as f64))
    }
}

pub(super) fn run(args: &JobArgs) -> anyhow::Result<ExitCode> {
    not_among(args.csv.as_deref(), &args.records)?;
    not_among(args.csv.as_deref(), &args.network)?;
    for (what, list) in [("records", &args.records), ("networks", &args.network)] {
        if list.len() > FILES_MAX {
            bail!("{what} are {}, at most {FILES_MAX} at once", list.len());
        }
    }
    let records = read(&args.records)?;
    let mut tables = Vec::new();
    let mut all = scaling_table();
    for path in &args.network {
        let network = args.network(path, &records)?;
        let mut outcomes = Vec::new();
        for (record, path) in &records {
            let outcome = replay(record, &network.spec);
            outcomes.push(outcome.with_context(|| format!("in {}", shown(path)))?);
        }
        if args.json {
            let lines = outcomes.iter().map(|outcome| json_line(&network, outcome));
            print(&lines.collect::<String>())?;
        }
        match &outcomes[..] {
            [outcome] => tables.push((summary(&network, outcome), ranks_table(outcome))),
            outcomes => {
                for row in scaling(outcomes)? {
                    all.push(cells(&network, &row));
                }
            }
        }
    }
    if records.len() > 1 {
        tables.push((format!("{}\n", records[0].0.application), all));
    }
    if !args.json {
        let text = |(words, table): &(String, Table)| format!("{words}{}", table.text());
        print(&tables.iter().map(text).collect::<Vec<_>>().join("\n"))?;
    }
    if let Some(path) = &args.csv {
        write_file(path, tables.iter().map(|(_, table)| table.csv()).collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn json_line(network: &Network, outcome: &Outcome) -> String {
    let mut value: Value = json!(outcome);
    value["version"] = json!(1);
    value["network"] = json!(network.name);
    value["slower"] = json!(network.spec.slower());
    format!("{value}\n")
}

/// Whose run it is, when it ended, and which links were busy.
fn summary(network: &Network, outcome: &Outcome) -> String {
    let [work, overhead, waiting] = outcome.shares_ppm().map(|ppm| share(ppm).0);
    let mut out = format!(
        "{} on {}: {} ranks end after {}, {:.1} times their work one after the other\n\
         work {work}, overhead of messages {overhead}, waiting {waiting}\n",
        outcome.application,
        network.name,
        outcome.ranks.len(),
        ns_text(outcome.makespan_ns),
        outcome.busy_ns() as f64 / outcome.makespan_ns.max(1) as f64,
    );
    let mut links: Vec<_> = outcome.links.iter().filter(|link| link.frames > 0).collect();
    links.sort_by_key(|link| std::cmp::Reverse(link.busy_ns));
    for link in links.iter().take(LINKS_SHOWN) {
        let busy = link.busy_ns as f64 / outcome.makespan_ns.max(1) as f64;
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            out,
            "link {}: {} messages, {}, busy {:.1} % of the time",
            link.name,
            link.messages,
            bytes_text(link.bytes),
            busy * 100.0
        );
    }
    if outcome.unreceived > 0 {
        let _ = writeln!(out, "{} messages were received by nobody", outcome.unreceived);
    }
    out
}

fn ranks_table(outcome: &Outcome) -> Table {
    let mut table = Table::new(&[
        Column::figures("RANK", "rank"),
        Column::figures("END", "end_ns"),
        Column::figures("WORK", "busy_ns"),
        Column::figures("OVERHEAD", "overhead_ns"),
        Column::figures("WAITING", "waiting_ns"),
        Column::figures("SENT", "messages_sent"),
        Column::figures("BYTES", "bytes_sent"),
        Column::figures("RECEIVED", "messages_received"),
        Column::figures("BYTES", "bytes_received"),
    ]);
    let size = |bytes: u64| (bytes_text(bytes), bytes.to_string());
    for (number, rank) in outcome.ranks.iter().enumerate() {
        table.push(vec![
            count(number as u64),
            time(rank.end_ns),
            time(rank.busy_ns),
            time(rank.overhead_ns),
            time(rank.waiting_ns),
            count(rank.messages_sent),
            size(rank.bytes_sent),
            count(rank.messages_received),
            size(rank.bytes_received),
        ]);
    }
    table
}

fn scaling_table() -> Table {
    Table::new(&[
        Column::words("NETWORK", "network"),
        Column::figures("RANKS", "ranks"),
        Column::figures("TIME", "makespan_ns"),
        Column::figures("SPEED-UP", "speed_up"),
        Column::figures("EFFICIENCY", "efficiency"),
        Column::figures("WORK GROWS", "work_growth"),
        Column::figures("WORK", "busy_ppm"),
        Column::figures("OVERHEAD", "overhead_ppm"),
        Column::figures("WAITING", "waiting_ppm"),
    ])
}

fn cells(network: &Network, row: &Row) -> Vec<Cell> {
    let ratio = |value: Option<f64>| {
        value.map_or_else(|| words(""), |value| (format!("{value:.2}"), format!("{value:.4}")))
    };
    let [work, overhead, waiting] = row.shares_ppm.map(share);
    vec![
        words(&network.name),
        count(row.ranks as u64),
        time(row.makespan_ns),
        ratio(row.speed_up),
        ratio(row.efficiency),
        ratio(row.work_growth),
        work,
        overhead,
        waiting,
    ]
}
