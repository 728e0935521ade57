//! Random runs with faults, seed by seed.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use towpath_io::RealCrypto;
use towpath_proto::{Crypto, Rng};
use towpath_sim::network::Sent;
use towpath_sim::swarm::{run_watched, stand_in};
use towpath_sim::{Outcome, Scenario};

use super::command::{File, SimRunArgs};
use super::dump::Dump;
use crate::files::{FilesError, shown, write_file};

/// Every sixteenth run seals and opens with real keys.
fn is_sealed(seed: u64) -> bool {
    seed % 16 == 15
}

fn crypto_of(seed: u64) -> fn(Rng) -> Box<dyn Crypto> {
    if is_sealed(seed) { |rng| Box::new(RealCrypto::seeded(rng)) } else { stand_in }
}

/// Runs the seeds of a scenario, or of the built-in one.
pub(super) fn run(args: &SimRunArgs, file: Option<&File>) -> anyhow::Result<ExitCode> {
    let scenario = match file {
        Some(f) => Scenario::parse(&f.text).map_err(|e| f.fault(e))?,
        None => Scenario::default(),
    };
    let (from, seeds) = (args.from.unwrap_or(0), args.seeds.unwrap_or(100));
    let (first, count) = match args.seed {
        Some(seed) => (seed, 1),
        None if from.checked_add(seeds).is_none() => {
            anyhow::bail!("--from {from} with --seeds {seeds} goes beyond the last seed")
        }
        None => (from, seeds),
    };
    let started = std::time::Instant::now();
    let mut outcomes = match &args.dump {
        Some(path) => vec![run_dumped(&scenario, first, path)?],
        None => run_all(&scenario, first, count, args.jobs),
    };
    outcomes.sort_by_key(|o| o.seed);
    if let Some(path) = &args.csv {
        write_csv(path, &outcomes)?;
    }
    let failed = outcomes.iter().filter(|o| !o.violations.is_empty()).count();
    for o in &outcomes {
        if args.json {
            putln!("{}", as_json(o))?;
        } else if count == 1 {
            print_one(o)?;
        }
        for v in &o.violations {
            eprintln!("seed {}: {}", o.seed, v.0);
        }
        if !o.violations.is_empty() {
            let file = file.map_or(String::new(), |f| format!("{} ", shown(&f.path)));
            eprintln!("replay: towpath sim run {file}--seed {}", o.seed);
        }
    }
    if count != 1 && !args.json {
        print_many(&outcomes, failed, started.elapsed().as_secs_f64())?;
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

fn run_dumped(scenario: &Scenario, seed: u64, path: &Path) -> anyhow::Result<Outcome> {
    let dump = Dump::create(path)?;
    let way = |sent: &Sent<'_>| {
        let way = format!("host {} > {}", sent.from, sent.to);
        if sent.fabric == 0 { way } else { format!("{way} on network {}", sent.fabric) }
    };
    let tap = dump.tap(way, !is_sealed(seed));
    let outcome = run_watched(scenario, seed, &crypto_of(seed), &|_| {}, Some(tap));
    dump.finish(path)?;
    Ok(outcome)
}

fn run_all(scenario: &Scenario, first: u64, count: u64, jobs: Option<usize>) -> Vec<Outcome> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = jobs.unwrap_or(cpus).clamp(1, 256);
    let bar = if count > 1 { ProgressBar::new(count) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} seeds, {per_sec}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let next = AtomicU64::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    let seed = first.wrapping_add(index);
                    let outcome = towpath_sim::run(scenario, seed, &crypto_of(seed), &|_| {});
                    outcomes
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push(outcome);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn as_json(o: &Outcome) -> serde_json::Value {
    let violations: Vec<&str> = o.violations.iter().map(|v| v.0.as_str()).collect();
    json!({
        "seed": o.seed, "trace_hash": format!("{:016x}", o.trace_hash), "hosts": o.hosts,
        "flows": o.flows, "messages": o.messages, "abandoned": o.abandoned, "bytes": o.bytes,
        "data_packets": o.data_packets, "datagrams": o.datagrams, "faults": o.faults,
        "requests": o.requests, "requests_lost": o.requests_lost, "hosts_lost": o.hosts_lost,
        "simulated_s": o.seconds, "violations": violations,
    })
}

fn print_one(o: &Outcome) -> Result<(), FilesError> {
    putln!("seed             {}", o.seed)?;
    putln!("trace hash       {:016x}", o.trace_hash)?;
    putln!("hosts            {} ({} times one was declared lost)", o.hosts, o.hosts_lost)?;
    putln!("faults           {}", o.faults)?;
    putln!("messages         {} in {} flows, {} bytes", o.messages, o.flows, o.bytes)?;
    putln!("given up         {} timely or unreliable messages", o.abandoned)?;
    putln!("data packets     {}, {} datagrams in all", o.data_packets, o.datagrams)?;
    putln!("tasks            {}, {} of them lost with their host", o.requests, o.requests_lost)?;
    putln!("simulated time   {:.3} s", o.seconds)?;
    putln!("promises broken  {}", o.violations.len())
}

fn print_many(outcomes: &[Outcome], failed: usize, elapsed: f64) -> Result<(), FilesError> {
    let sum = |f: fn(&Outcome) -> u64| outcomes.iter().map(f).sum::<u64>();
    let least = |f: fn(&Outcome) -> u64| outcomes.iter().map(f).min().unwrap_or(0);
    putln!("{} seeds in {elapsed:.1} s, {failed} broke a promise", outcomes.len())?;
    putln!(
        "data packets {} (least {} per seed), datagrams {}, faults {} (least {})",
        sum(|o| o.data_packets),
        least(|o| o.data_packets),
        sum(|o| o.datagrams),
        sum(|o| o.faults),
        least(|o| o.faults)
    )?;
    putln!(
        "messages {} ({} timely or unreliable ones given up)",
        sum(|o| o.messages),
        sum(|o| o.abandoned)
    )?;
    putln!(
        "tasks {} ({} lost with their host), hosts declared lost {}",
        sum(|o| o.requests),
        sum(|o| o.requests_lost),
        sum(|o| o.hosts_lost)
    )
}

fn write_csv(path: &Path, outcomes: &[Outcome]) -> Result<(), FilesError> {
    let mut text = String::from(
        "seed,trace_hash,hosts,flows,messages,bytes,data_packets,datagrams,faults,requests,\
         requests_lost,hosts_lost,simulated_s,violations,abandoned\n",
    );
    for o in outcomes {
        let numbers = [o.messages, o.bytes, o.data_packets, o.datagrams, o.faults, o.requests];
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{},{:016x},{},{},{},{},{},{:.6},{},{}",
            o.seed,
            o.trace_hash,
            o.hosts,
            o.flows,
            numbers.join(","),
            o.requests_lost,
            o.hosts_lost,
            o.seconds,
            o.violations.len(),
            o.abandoned
        );
    }
    write_file(path, &text)
}
