//! The replicated log alone: replicas that fail, and what must hold whatever happens.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use towpath_sim::consensus::{ConsensusOutcome, ConsensusScenario, run as run_seed};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath sim consensus                        five replicas, twelve seconds of faults
  towpath sim consensus --seeds 500            five hundred such runs
  towpath sim consensus --nodes 3 --seed 17    one of three replicas again

Six clients set and read registers. Replicas crash, are killed, lose what was not synced, lose their
disks and are replaced by newcomers; networks lose, repeat, delay and cut, also one way; clocks jump
and stand still; disks are slow or take nothing. Checked: one leader in a term; no committed entry
lost or changed; equal logs and equal states; a history that some order explains; every client
answered within six seconds of the last fault's end.

Same options and seed, same run (the trace hash tells). docs/decisions/0018 says what is checked.

Exit status: 0 when all held in every run, 1 when not, 255 for errors.")]
pub(super) struct ConsensusArgs {
    /// Hosts, each with a voter
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(3..=9))]
    nodes: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds to run, one after the other
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Print one JSON object per run
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ConsensusArgs) -> anyhow::Result<ExitCode> {
    let Some(end) = args.seed.checked_add(args.seeds) else {
        anyhow::bail!("--seed {} with --seeds {} goes beyond the last seed", args.seed, args.seeds)
    };
    let scenario = ConsensusScenario { nodes: args.nodes as usize, ..ConsensusScenario::default() };
    let mut failed = false;
    for seed in args.seed..end {
        let begin = Instant::now();
        let outcome = run_seed(&scenario, seed);
        let took = begin.elapsed().as_secs_f64();
        let mut out = std::io::stdout().lock();
        if args.json {
            writeln!(out, "{}", as_json(&outcome, took))?;
        } else {
            writeln!(out, "{}", line(&outcome))?;
        }
        for violation in &outcome.violations {
            eprintln!("seed {seed}: {violation}");
        }
        if !outcome.violations.is_empty() {
            failed = true;
            eprintln!("replay: towpath sim consensus --nodes {} --seed {seed}", args.nodes);
        }
    }
    Ok(ExitCode::from(u8::from(failed)))
}

fn as_json(o: &ConsensusOutcome, took: f64) -> serde_json::Value {
    json!({
        "seed": o.seed, "trace_hash": format!("{:016x}", o.trace_hash), "faults": o.faults,
        "elections": o.elections, "committed": o.committed, "answered": o.answered,
        "repeated": o.repeated, "replaced": o.replaced, "snapshots": o.snapshots,
        "torn": o.torn, "messages": o.messages, "available_ms": o.available_ms, "took_s": took,
        "violations": o.violations,
    })
}

fn line(o: &ConsensusOutcome) -> String {
    format!(
        "seed {:5}  {:016x}  {} faults, {} elections, {} entries, {} answers ({} asked for \
         again), {} disks lost, {} torn, again after {} ms: {}",
        o.seed,
        o.trace_hash,
        o.faults,
        o.elections,
        o.committed,
        o.answered,
        o.repeated,
        o.replaced,
        o.torn,
        o.available_ms,
        if o.violations.is_empty() { "held" } else { "BROKEN" }
    )
}
