//! Virtual machines with tasks: random programs on hosts that fail, every promise checked.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use towpath_sim::vm::{VmOutcome, VmScenario, run as run_seed};

/// More would not fit into what simulated hosts have for addresses and slots.
const HOSTS_MAX: u64 = 4000;
/// Tasks at once on one host are bounded by the daemon; these are all that there ever are.
const TASKS_MAX: u64 = 1_000_000;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath sim vm                                      six hosts, sixty tasks, two faults
  towpath sim vm --seeds 100                          a hundred such runs
  towpath sim vm --links 2 --seeds 100                each host on two networks, which may fail
  towpath sim vm --voters 3 --faults 3 --seeds 100     the founder may be lost, too
  towpath sim vm --voters 3 --restarts 3 --seeds 100   hosts also start again, some with wiped disks
  towpath sim vm --voters 3 --endings 4 --seeds 100    hosts are told to end, and start again
  towpath sim vm --aparts 3 --seeds 100                two hosts lose each other, all others do not
  towpath sim vm --voters 3 --mail-bytes 100000        long mailbox entries, which outlive leaders
  towpath sim vm --unique --aparts 3 --faults 5 --seeds 100
                                                       no unique task outlives its host's loss
  towpath sim vm --lost-after-ms 10000 --seeds 100     only a crash may cost a host
  towpath sim vm --hosts 1000 --tasks 20000 --faults 20
  towpath sim vm --hosts 100 --tasks 200 --faults 0 --json

Tasks come, spawn others, send, multicast, watch, join groups, leave messages in mailboxes, stop
reading for a while, are killed. Hosts crash, stand still, are cut off alone or together, lose half
of all packets, and have clocks that jump by up to 100 minutes. Checked is every promise made to
tasks: each message once, whole and in order; an end told once and after the last message; each
question answered once; no member twice in a group; memory within its bounds; nothing left of what
ended.

Same options and seed, same run (the trace hash tells). docs/vm.md says what grows with the number
of hosts.

Exit status: 0 when every promise was kept in every run, 1 when not, 255 for errors.")]
pub(super) struct VmArgs {
    /// Hosts
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=HOSTS_MAX))]
    hosts: u64,
    /// Tasks in all; the first third is started from outside, the others are spawned by tasks
    #[arg(long, value_name = "N", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=TASKS_MAX))]
    tasks: u64,
    /// Faults of hosts
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1000))]
    faults: u64,
    /// Times that a host crashes and starts again, with what is on its disk or with a wiped one
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1000))]
    restarts: u64,
    /// Times that all hosts that keep the log crash at once and start again
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1000))]
    power_cuts: u64,
    /// Times that a host is told to end, by a signal, and starts again
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1000))]
    endings: u64,
    /// Times that two hosts do not reach each other for seconds, or one of them not the other,
    /// while all others reach both
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1000))]
    aparts: u64,
    /// Half of the spawned tasks are unique: none of them may run where its host is lost
    #[arg(long)]
    unique: bool,
    /// Longest entry of mailboxes, in bytes, which tasks use often then
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=524_288))]
    mail_bytes: u32,
    /// Links of a host, each to a network of its own; of several, networks may fail, too
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=8))]
    links: u8,
    /// Hosts that keep the log of changes, and may come to lead: 1, 3 or 5. Of more than one, the
    /// founder fails like any other
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = towpath::daemon::voters)]
    voters: u8,
    /// A host that answers nothing for so long is lost, in milliseconds. With 10000, no fault but a
    /// crash lasts as long, and none may cost a host
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    #[arg(value_parser = clap::value_parser!(u32).range(200..=20_000))]
    lost_after_ms: u32,
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

impl VmArgs {
    fn scenario(&self) -> VmScenario {
        // Long messages and many acts of each task are for small ones.
        let base = if self.hosts > 50 { VmScenario::large() } else { VmScenario::default() };
        VmScenario {
            hosts: self.hosts as usize,
            tasks: self.tasks as usize,
            faults: self.faults as usize,
            restarts: self.restarts as usize,
            power_cuts: self.power_cuts as usize,
            endings: self.endings as usize,
            aparts: self.aparts as usize,
            unique: self.unique,
            mail_bytes_max: self.mail_bytes,
            links: self.links,
            voters: self.voters,
            lost_after_ms: self.lost_after_ms,
            ..base
        }
    }

    /// The command that runs one seed again.
    fn replay(&self, seed: u64) -> String {
        let Self { hosts, tasks, faults, links, voters, .. } = self;
        let times = |name, n: u64| if n > 0 { format!(" --{name} {n}") } else { String::new() };
        let restarts = times("restarts", self.restarts)
            + &times("power-cuts", self.power_cuts)
            + &times("endings", self.endings)
            + &times("aparts", self.aparts)
            + &times("mail-bytes", self.mail_bytes.into())
            + if self.unique { " --unique" } else { "" };
        let more = |name, n: u8| if n > 1 { format!(" --{name} {n}") } else { String::new() };
        let (links, voters) = (more("links", *links), more("voters", *voters));
        let after = match self.lost_after_ms {
            2000 => String::new(),
            ms => format!(" --lost-after-ms {ms}"),
        };
        format!(
            "towpath sim vm --hosts {hosts} --tasks {tasks} --faults {faults}{restarts}{links}\
             {voters}{after} --seed {seed}"
        )
    }
}

pub(super) fn run(args: &VmArgs) -> anyhow::Result<ExitCode> {
    let Some(end) = args.seed.checked_add(args.seeds) else {
        anyhow::bail!("--seed {} with --seeds {} goes beyond the last seed", args.seed, args.seeds)
    };
    let (scenario, mut failed) = (args.scenario(), false);
    for seed in args.seed..end {
        let begin = Instant::now();
        let outcome = run_seed(&scenario, seed);
        let took = begin.elapsed().as_secs_f64();
        let mut out = std::io::stdout().lock();
        if args.json {
            writeln!(out, "{}", as_json(&outcome, took))?;
        } else if args.seeds == 1 {
            out.write_all(report(&outcome, took).as_bytes())?;
        } else {
            writeln!(out, "{}", line(&outcome, took))?;
        }
        for violation in &outcome.violations {
            eprintln!("seed {seed}: {violation}");
        }
        if !outcome.violations.is_empty() {
            failed = true;
            eprintln!("replay: {}", args.replay(seed));
        }
    }
    Ok(ExitCode::from(u8::from(failed)))
}

fn as_json(o: &VmOutcome, took: f64) -> serde_json::Value {
    let g = &o.growth;
    let peaks: serde_json::Map<String, serde_json::Value> =
        o.peaks.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "seed": o.seed, "trace_hash": format!("{:016x}", o.trace_hash), "hosts": o.hosts,
        "hosts_lost": o.hosts_lost, "faults": o.faults, "tasks": o.tasks, "spawned": o.spawned,
        "messages": o.messages, "bytes": o.bytes, "on_channels": o.on_channels,
        "cut_short": o.cut_short,
        "mail": o.mail,
        "mail_lost": o.mail_lost,
        "datagrams": o.datagrams, "simulated_s": o.seconds, "took_s": took,
        "growth": {
            "joined_s": g.joined_s, "join_datagrams": g.join_datagrams,
            "log_entries": g.log_entries, "log_messages": g.log_messages,
            "table": g.table, "snapshot_bytes": g.snapshot_bytes,
            "idle_datagrams_per_s": g.idle_datagrams_per_s,
            "idle_leader_packets_per_s": g.idle_leader_packets_per_s,
        },
        "most_on_a_host": peaks, "violations": o.violations,
    })
}

fn line(o: &VmOutcome, took: f64) -> String {
    format!(
        "seed {:5}  {:016x}  {} tasks, {} messages, {} faults, {} hosts lost, {:.1} s: {}",
        o.seed,
        o.trace_hash,
        o.tasks,
        o.messages,
        o.faults,
        o.hosts_lost,
        took,
        if o.violations.is_empty() { "kept" } else { "BROKEN" }
    )
}

fn report(o: &VmOutcome, took: f64) -> String {
    let g = &o.growth;
    let peak = |name: &str| o.peaks.iter().find(|(n, _)| n == name).map_or(0, |(_, value)| *value);
    let rows = [
        ("seed", o.seed.to_string()),
        ("trace hash", format!("{:016x}", o.trace_hash)),
        ("hosts", format!("{} ({} times one was declared lost)", o.hosts, o.hosts_lost)),
        ("faults", o.faults.to_string()),
        ("tasks", format!("{}, {} of them spawned by tasks", o.tasks, o.spawned)),
        ("messages", format!("{}, {} bytes", o.messages, o.bytes)),
        ("on channels", format!("{} messages", o.on_channels)),
        ("mail", format!("{} entries read, the content of {} was lost", o.mail, o.mail_lost)),
        ("cut short", format!("{} ends, by a lost host or connection", o.cut_short)),
        ("joining", format!("{:.3} s, {} datagrams", g.joined_s, g.join_datagrams)),
        ("log entries", format!("{}, told in {} messages", g.log_entries, g.log_messages)),
        ("snapshot", format!("{} bytes for {} hosts", g.snapshot_bytes, g.table)),
        (
            "idle",
            format!(
                "{:.1} datagrams/s in all, {:.1} packets/s at the leader",
                g.idle_datagrams_per_s, g.idle_leader_packets_per_s
            ),
        ),
        ("daemon's memory", format!("{} bytes at most on a host", peak("message_memory_max"))),
        ("datagrams", o.datagrams.to_string()),
        ("simulated time", format!("{:.3} s, in {took:.1} s", o.seconds)),
        ("promises broken", o.violations.len().to_string()),
    ];
    rows.map(|(name, value)| format!("{name:16} {value}\n")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        args: VmArgs,
    }

    #[test]
    fn what_is_said_to_replay_is_the_same_run() {
        for given in ["vm --hosts 9 --tasks 70 --faults 3 --seeds 5", "vm --hosts 60", "vm"] {
            let args = Only::parse_from(given.split(' ')).args;
            let replay = args.replay(17);
            let again = Only::parse_from(replay.split(' ').skip(2)).args;
            assert_eq!(again.scenario(), args.scenario(), "{replay}");
            assert_eq!((again.seed, again.seeds), (17, 1), "{replay}");
        }
    }
}
