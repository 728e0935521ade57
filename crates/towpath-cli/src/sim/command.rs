//! Arguments, and which kind of scenario a file is.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};
use serde::Deserialize;
use towpath_qos::file;
use towpath_sim::scenario::{BYTES_MAX, ScenarioError};

use super::{consensus, job, node, parallel, repair, stream, swarm, transfer, vm};
use crate::files::{not_among, shown};
use crate::topology::{in_file, read_text};
use crate::units::duration;

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Debug, Subcommand)]
enum SimCommand {
    /// Run scenarios: random ones with faults and a check of every promise, or flows over links
    Run(SimRunArgs),
    /// Compare the repair of lost packets with that of 1997
    Repair(repair::RepairArgs),
    /// Run one application over many processors and rings, as the fifth source has it
    Parallel(parallel::ParallelArgs),
    /// Run the fifth source's nodes, and put its tables beside what comes of it
    Node(node::NodeArgs),
    /// Run virtual machines with tasks under faults, and check every promise made to tasks
    Vm(vm::VmArgs),
    /// Send video to a client with a processor: feedback off, after and before degradation
    Stream(stream::StreamArgs),
    /// Run the replicated log alone under faults, and check that nothing committed is ever lost
    Consensus(consensus::ConsensusArgs),
    /// Run a recorded job over another network, on other processors
    Job(job::JobArgs),
    /// Run experiments with reserved and unreserved channels
    Qos(crate::experiment::QosArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath sim run                               100 seeds of the built-in swarm
  towpath sim run --seed 17                     one of them again
  towpath sim run scenarios/swarm.toml --seeds 1000 --csv runs.csv
  towpath sim run scenarios/two-links.toml      a link to each of two networks for every host
  towpath sim run scenarios/transfer/*.toml     flows over links, a table each
  towpath sim run scenarios/transfer/burst.toml --svg out/ --zoom 500ms..600ms
  towpath sim run scenarios/transfer/lan.toml --dump packets.txt

A file with `kind = \"transfer\"` holds links and flows over them; any other is a swarm. Same file
and seed, same result. docs/transport.md says how to read tables, charts and dumps.

Exit status: 0 when every promise was kept in every run, 1 when not, 255 for errors.")]
pub(super) struct SimRunArgs {
    /// Scenario files: transfers, or one swarm (default: the built-in one, see
    /// scenarios/swarm.toml)
    #[arg(value_name = "FILE")]
    pub(super) scenarios: Vec<PathBuf>,
    /// Run only this seed; a transfer with this seed instead of the file's
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    pub(super) seed: Option<u64>,
    /// Swarm: how many seeds to run [default: 100]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seeds: Option<u64>,
    /// Swarm: the first seed [default: 0]
    #[arg(long, value_name = "SEED")]
    pub(super) from: Option<u64>,
    /// Swarm: runs at once [default: as many as there are processors]
    #[arg(long, short, value_name = "N")]
    pub(super) jobs: Option<usize>,
    /// Swarm: a line per run; transfers: a line per flow and sample
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Transfers: draw rate, round trip, queue, and sequence numbers over time
    #[arg(long, value_name = "DIR")]
    pub(super) svg: Option<PathBuf>,
    /// Transfers: write a page with all tables and charts
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Transfers: the part of the sequence numbers that is drawn large, as in 500ms..600ms
    /// (default: around the first loss)
    #[arg(long, value_name = "FROM..TO", value_parser = zoom)]
    pub(super) zoom: Option<(f64, f64)>,
    /// Transfers: congestion controller of every flow, instead of the file's (docs/transport.md
    /// lists them)
    #[arg(long, value_name = "NAME")]
    pub(super) congestion: Option<String>,
    /// Write every datagram in words, a line each; takes one transfer, or one seed of a swarm
    #[arg(long, value_name = "FILE")]
    pub(super) dump: Option<PathBuf>,
    /// Print one JSON object per run
    #[arg(long)]
    pub(super) json: bool,
}

/// Seconds from and to.
fn zoom(text: &str) -> Result<(f64, f64), String> {
    let (from, to) = text.split_once("..").ok_or("two times with .. between them are needed")?;
    let (from, to) = (duration(from)?.as_secs_f64(), duration(to)?.as_secs_f64());
    if from < to { Ok((from, to)) } else { Err(format!("{text} is empty")) }
}

pub(crate) fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        SimCommand::Run(args) => run_scenarios(args),
        SimCommand::Repair(args) => repair::run(args),
        SimCommand::Parallel(args) => parallel::run(args),
        SimCommand::Node(args) => node::run(args),
        SimCommand::Vm(args) => vm::run(args),
        SimCommand::Stream(args) => stream::run(args),
        SimCommand::Consensus(args) => consensus::run(args),
        SimCommand::Job(args) => job::run(args),
        SimCommand::Qos(args) => crate::experiment::run(args),
    }
}

/// A scenario file's text, and whether it is a transfer.
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) text: String,
    is_transfer: bool,
}

impl File {
    /// What is wrong with it, for people.
    pub(super) fn fault(&self, e: ScenarioError) -> anyhow::Error {
        match e {
            ScenarioError::Syntax(e) if self.is_transfer => {
                in_file(&self.path, &self.text, &e, "scenarios/transfer has examples")
            }
            ScenarioError::Syntax(e) => {
                in_file(&self.path, &self.text, &e, "scenarios/swarm.toml has all keys")
            }
            e @ ScenarioError::Range { .. } => {
                anyhow!(e).context(format!("in {}", shown(&self.path)))
            }
        }
    }
}

/// What tells the kinds of scenarios apart.
#[derive(Deserialize)]
struct Kind {
    kind: Option<toml::Value>,
}

fn read(path: &Path) -> anyhow::Result<File> {
    let text = read_text(path, BYTES_MAX)?;
    let kind = file::read(&text, BYTES_MAX);
    let Kind { kind } =
        kind.map_err(|e| in_file(path, &text, &e, "scenarios/ has files of each kind"))?;
    let is_transfer = match kind.as_ref().map(toml::Value::as_str) {
        None => false,
        Some(Some("transfer")) => true,
        Some(Some("tap")) => bail!(
            "{} is for real links\nhint: towpath tap END END --script FILE runs it",
            shown(path)
        ),
        Some(kind) => bail!(
            "in {}: kind is {}, must be \"transfer\", or absent for a swarm",
            shown(path),
            kind.map_or("no text".into(), |k| format!("{k:?}"))
        ),
    };
    Ok(File { path: path.into(), text, is_transfer })
}

fn run_scenarios(args: &SimRunArgs) -> anyhow::Result<ExitCode> {
    for out in [&args.csv, &args.html, &args.dump] {
        not_among(out.as_deref(), &args.scenarios)?;
    }
    let mut files = Vec::new();
    for path in &args.scenarios {
        files.push(read(path)?);
    }
    if let Some(first) = files.first()
        && let Some(other) = files.iter().find(|f| f.is_transfer != first.is_transfer)
    {
        let (swarm, transfer) = if first.is_transfer { (other, first) } else { (first, other) };
        bail!(
            "{} is a swarm, {} a transfer\nhint: run them one after the other",
            shown(&swarm.path),
            shown(&transfer.path)
        );
    }
    if files.first().is_some_and(|f| f.is_transfer) {
        let unfit = [("seeds", args.seeds.is_some()), ("from", args.from.is_some())];
        refuse(&unfit, "swarms", "--seed gives a transfer's seed")?;
        refuse(&[("jobs", args.jobs.is_some())], "swarms", "leave it out")?;
        return transfer::run(args, &files);
    }
    let unfit = [
        ("svg", args.svg.is_some()),
        ("html", args.html.is_some()),
        ("congestion", args.congestion.is_some()),
        ("zoom", args.zoom.is_some()),
    ];
    refuse(&unfit, "transfers", "give a file with kind = \"transfer\", see scenarios/transfer")?;
    if args.dump.is_some() && args.seed.is_none() {
        bail!("--dump takes one run\nhint: name its --seed");
    }
    if let [_, second, ..] = &files[..] {
        bail!("more than one swarm: {}\nhint: run one after the other", shown(&second.path));
    }
    swarm::run(args, files.first())
}

fn refuse(options: &[(&str, bool)], whose: &str, hint: &str) -> anyhow::Result<()> {
    match options.iter().find(|(_, given)| *given) {
        Some((name, _)) => bail!("--{name} is for {whose} only\nhint: {hint}"),
        None => Ok(()),
    }
}
