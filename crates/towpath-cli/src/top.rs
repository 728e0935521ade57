//! `top`: hosts, tasks, rates and routes, again and again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::tcgetwinsize;
use serde_json::json;
use towpath::protocol::{Network, Reply, Request, TaskLoad, Ways};
use towpath::{Client, VmDir};
use towpath_report::text::{harmless, visible};
use towpath_vm::{Host, HostState, TaskInfo};
use towpath_wire::{HostId, TaskId};

use crate::control::{self, ANSWER, ask_networks, connect, host_table};
use crate::explain::{network_json, words};
use crate::interrupt::Interrupt;

/// Between two looks.
const SECOND: Duration = Duration::from_secs(1);
/// Tasks shown at most; the rest is counted.
const SHOWN: usize = 40;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath top
  towpath top --once
  towpath top --once --json

Rates are what tasks send by whatever way: shared memory (RINGS says to how many tasks), streams
to tasks of other hosts (STREAMS), and the daemons (among that, channels of its own: CHANNELS).
What a task sends by a direct route it counts itself, in memory that its daemon reads. Tasks of
hosts on other machines are listed without rates.

Exit status: 0 shown, 255 could not.")]
pub(crate) struct TopArgs {
    /// Look for one second, print, and end
    #[arg(long)]
    once: bool,
    /// Print JSON objects, one a line
    #[arg(long)]
    json: bool,
}

/// What a task has to do with others, and what it has sent.
#[derive(Clone, Copy)]
struct Load {
    of_daemon: TaskLoad,
    ways: Ways,
}

impl Load {
    /// Bytes sent by all ways; those by the daemons with 64 for each piece.
    const fn bytes(&self) -> u64 {
        self.of_daemon.sent_bytes + self.ways.by_ring.bytes + self.ways.by_stream.bytes
    }
}

/// What was seen at one time.
struct Look {
    at: Instant,
    hosts: Vec<Host>,
    tasks: Vec<TaskInfo>,
    loads: BTreeMap<TaskId, Load>,
    networks: Vec<(HostId, Network)>,
    /// Hosts that did not tell their tasks.
    silent: usize,
}

/// One task, as a row shows it.
struct Row<'a> {
    task: &'a TaskInfo,
    load: Option<Load>,
    /// Bytes per second that it sent since the look before.
    rate: Option<f64>,
}

pub(crate) fn top(vm: &VmDir, args: &TopArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::new()?;
    let mut before = look(vm)?;
    loop {
        if interrupted_within(&interrupt, SECOND) {
            return Ok(ExitCode::SUCCESS);
        }
        let now = look(vm)?;
        let rows = rows(&before, &now);
        let mut out = std::io::stdout().lock();
        if args.json {
            writeln!(out, "{}", harmless(&as_json(&now, &rows).to_string()))?;
        } else if args.once || !out.is_terminal() {
            out.write_all(text(&now, &rows).as_bytes())?;
        } else {
            // Home, then each line over what was there, then nothing below.
            let size = tcgetwinsize(&out).map_or((80, 24), |size| (size.ws_col, size.ws_row));
            let text = fitted(&text(&now, &rows), size).replace('\n', "\x1b[K\n");
            write!(out, "\x1b[H{text}\x1b[J")?;
        }
        out.flush()?;
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        before = now;
    }
}

/// Waits; true when an interrupt came meanwhile.
fn interrupted_within(interrupt: &Interrupt, time: Duration) -> bool {
    let wait =
        Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
    let _ = poll(&mut [PollFd::new(interrupt, PollFlags::IN)], Some(&wait));
    interrupt.is_set()
}

fn look(vm: &VmDir) -> anyhow::Result<Look> {
    let mut client = connect(vm)?;
    let hosts = host_table(&mut client)?;
    let (tasks, silent) = control::tasks_of(&mut client, &hosts)?;
    let silent = silent.len();
    let (mut loads, mut networks) = (BTreeMap::new(), Vec::new());
    for socket in control::sockets(vm)? {
        let Ok(mut client) = Client::connect(&socket) else { continue };
        let Some(me) = client.info()?.me else { continue };
        ask_loads(&mut client, &mut loads)?;
        ask_networks(&mut client, me, &mut networks)?;
    }
    Ok(Look { at: Instant::now(), hosts, tasks, loads, networks, silent })
}

/// What a daemon's tasks have to do, so many at a time.
fn ask_loads(client: &mut Client, loads: &mut BTreeMap<TaskId, Load>) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let Reply::Loads { tasks, ways, more } = client.ask(&Request::Loads { after }, ANSWER)?
        else {
            bail!("the daemon answers something else than was asked");
        };
        after = tasks.last().map(|load| load.task);
        let ways: BTreeMap<TaskId, Ways> = ways.into_iter().collect();
        let of = |task| ways.get(&task).copied().unwrap_or_default();
        let load = |load: TaskLoad| Load { of_daemon: load, ways: of(load.task) };
        loads.extend(tasks.into_iter().map(|task| (task.task, load(task))));
        if !more || after.is_none() {
            return Ok(());
        }
    }
}

/// The busiest first.
fn rows<'a>(before: &Look, now: &'a Look) -> Vec<Row<'a>> {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let row = |task: &'a TaskInfo| {
        let load = now.loads.get(&task.id).copied();
        let rate = load.zip(before.loads.get(&task.id)).map(|(now, before)| {
            // Less than before: a peer has ended, and its share is gone.
            now.bytes().saturating_sub(before.bytes()) as f64 / seconds
        });
        Row { task, load, rate }
    };
    let mut rows: Vec<Row<'a>> = now.tasks.iter().map(row).collect();
    let busy = |row: &Row<'_>| row.rate.unwrap_or(0.0);
    rows.sort_by(|a, b| busy(b).total_cmp(&busy(a)).then(a.task.id.cmp(&b.task.id)));
    rows
}

fn text(now: &Look, rows: &[Row<'_>]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let up = now.hosts.iter().filter(|h| h.state == HostState::Up).count();
    let cpus: u32 = now.hosts.iter().map(|h| u32::from(h.cpus)).sum();
    // An empty sum of floats is -0.
    let total = rows.iter().filter_map(|r| r.rate).fold(0.0, |sum, rate| sum + rate);
    let _ = writeln!(
        out,
        "{} hosts, {up} up, {cpus} processors; {} tasks; {:.3} MB/s\n",
        now.hosts.len(),
        rows.len(),
        total / 1e6
    );
    let _ = writeln!(out, "{:<8} {:<20} {:>4} {:>6}  NETWORK", "HOST", "NAME", "CPUS", "TASKS");
    for host in &now.hosts {
        let tasks = now.tasks.iter().filter(|t| t.id.host() == host.id).count();
        let (id, name, cpus) = (host.id.to_string(), visible(&host.name), host.cpus);
        let mut networks = now.networks.iter().filter(|(me, _)| *me == host.id).map(|(_, n)| n);
        let first = match (host.state, networks.next()) {
            (HostState::Lost, _) => "lost".to_string(),
            (_, Some(network)) => format!("{}: {}", network.host, words(network)),
            (_, None) => String::new(),
        };
        let line = format!("{id:<8} {name:<20} {cpus:>4} {tasks:>6}  {first}");
        let _ = writeln!(out, "{}", line.trim_end());
        for network in networks {
            let _ = writeln!(out, "{:<42}{}: {}", "", network.host, words(network));
        }
    }
    let _ = writeln!(
        out,
        "\n{:<14} {:>8} {:>9} {:>6} {:>6} {:>7} {:>8} {:>10} {:>10}  COMMAND",
        "TASK", "PID", "AGE", "PEERS", "RINGS", "STREAMS", "CHANNELS", "MB/s", "MB"
    );
    for row in rows.iter().take(SHOWN) {
        let pid = if row.task.pid == 0 { "waits".into() } else { row.task.pid.to_string() };
        let (id, age) = (row.task.id.to_string(), row.task.age_us as f64 / 1e6);
        let dash = || "-".to_string();
        let of = |f: fn(&Load) -> String| row.load.as_ref().map_or_else(dash, f);
        let peers = of(|l| l.of_daemon.peers.to_string());
        let rings = of(|l| l.ways.rings.to_string());
        let streams = of(|l| l.ways.streams.to_string());
        let channels = of(|l| l.of_daemon.channels.to_string());
        let rate = row.rate.map_or_else(dash, |r| format!("{:.3}", r / 1e6));
        let sent = of(|l| format!("{:.3}", l.bytes() as f64 / 1e6));
        let command = visible(&row.task.command);
        let _ = writeln!(
            out,
            "{id:<14} {pid:>8} {age:>8.1}s {peers:>6} {rings:>6} {streams:>7} \
             {channels:>8} {rate:>10} {sent:>10}  {command}"
        );
    }
    if rows.len() > SHOWN {
        let _ = writeln!(out, "and {} more tasks", rows.len() - SHOWN);
    }
    if now.silent > 0 {
        let _ = writeln!(out, "{} hosts did not tell their tasks", now.silent);
    }
    out
}

/// As much of a text as a window shows: columns and lines. What is cut off ends with `…`; the last
/// line stays free, where the cursor waits.
fn fitted(text: &str, (columns, lines): (u16, u16)) -> String {
    // What does not tell its size is as wide as it likes.
    let columns = if columns == 0 { usize::MAX } else { columns.into() };
    let lines = if lines == 0 { usize::MAX } else { usize::from(lines).max(2) - 1 };
    let all = text.lines().count();
    let shown = if all > lines { lines - 1 } else { all };
    let mut out = String::new();
    for line in text.lines().take(shown) {
        if line.chars().count() > columns {
            out.extend(line.chars().take(columns - 1));
            out.push_str("…\n");
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    if shown < all {
        let _ = writeln!(out, "… {} more lines", all - shown);
    }
    out
}

fn as_json(now: &Look, rows: &[Row<'_>]) -> serde_json::Value {
    let hosts = now.hosts.iter().map(|h| {
        let networks = now.networks.iter().filter(|(me, _)| *me == h.id);
        json!({
            "host": h.id.to_string(), "name": h.name, "cpus": h.cpus,
            "up": h.state == HostState::Up,
            "networks": networks.map(|(_, n)| network_json(n)).collect::<Vec<_>>(),
        })
    });
    let tasks = rows.iter().map(|r| {
        json!({
            "task": r.task.id.to_string(), "pid": r.task.pid, "age_us": r.task.age_us,
            "command": r.task.command, "peers": r.load.map(|l| l.of_daemon.peers),
            "rings": r.load.map(|l| l.ways.rings), "streams": r.load.map(|l| l.ways.streams),
            "channels": r.load.map(|l| l.of_daemon.channels),
            "by_daemons_bytes": r.load.map(|l| l.of_daemon.sent_bytes),
            "by_ring_bytes": r.load.map(|l| l.ways.by_ring.bytes),
            "by_ring_messages": r.load.map(|l| l.ways.by_ring.messages),
            "by_stream_bytes": r.load.map(|l| l.ways.by_stream.bytes),
            "by_stream_messages": r.load.map(|l| l.ways.by_stream.messages),
            "bytes_per_s": r.rate,
        })
    });
    json!({
        "hosts": hosts.collect::<Vec<_>>(), "tasks": tasks.collect::<Vec<_>>(),
        "silent_hosts": now.silent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_fits_the_window() {
        let text = "a long first line\nshort\nthird\nfourth\n";
        assert_eq!(fitted(text, (100, 30)), text);
        assert_eq!(fitted(text, (6, 30)), "a lon…\nshort\nthird\nfourth\n");
        assert_eq!(fitted(text, (17, 4)), "a long first line\nshort\n… 2 more lines\n");
        assert_eq!(fitted(text, (0, 0)), text);
        for (columns, lines) in (1..20).flat_map(|c| (1..8).map(move |l| (c, l))) {
            let shown = fitted(text, (columns, lines));
            assert!(shown.lines().count() < usize::from(lines).max(2), "{shown}");
            let widest = shown.lines().filter(|l| !l.ends_with("more lines"));
            assert!(widest.map(|l| l.chars().count()).max().unwrap_or(0) <= columns.into());
        }
    }
}
