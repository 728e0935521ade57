//! `explain`: which way messages between two tasks take, why, and what it costs.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use towpath::protocol::{
    Account, DirectState, Explanation, Network, Reply, Request, RouteState, Sent, WayState,
};
use towpath::{Client, VmDir};
use towpath_vm::channel::ChannelStatus;
use towpath_wire::{HostId, TaskId};

use crate::control::{ANSWER, connect, host_table, sockets};
use crate::links::way_json;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath explain h1:t3 h2:t1
  towpath explain h1:t3 h1:t4 --json

Each direction is told by the daemon of the sender's host, where that runs on this machine.

Exit status: 0 told, 255 could not.")]
pub(crate) struct ExplainArgs {
    /// A task, as `towpath ps` lists it: h1:t3
    #[arg(value_name = "TASK")]
    from: String,
    /// Another task
    #[arg(value_name = "TASK")]
    to: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// A task by its name: `h1:t3`, or `h1.2:t3` in host 1's second life.
pub(crate) fn task(text: &str, hosts: &[HostId]) -> anyhow::Result<TaskId> {
    let bad = || format!("{text:?} is no task\nhint: `towpath ps` lists them, such as h1:t3");
    let (host, number) = text.split_once(':').with_context(bad)?;
    let number: u32 = number.trim_start_matches('t').parse().ok().with_context(bad)?;
    let plain = |id: &HostId| format!("h{}", id.slot());
    let found = hosts.iter().find(|id| id.to_string() == host || plain(id) == host);
    let Some(found) = found else { bail!("no host `{host}`\nhint: `towpath hosts` lists them") };
    found.task(number).with_context(bad)
}

pub(crate) fn explain(vm: &VmDir, args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let hosts = host_table(&mut connect(vm)?)?;
    let ids: Vec<HostId> = hosts.iter().map(|h| h.id).collect();
    let (a, b) = (task(&args.from, &ids)?, task(&args.to, &ids)?);
    if a == b {
        bail!("{a} twice: messages to oneself go nowhere");
    }
    let mut ways = Vec::new();
    for (from, to) in [(a, b), (b, a)] {
        ways.push(((from, to), ask(vm, from, to)?));
    }
    if ways.iter().all(|(_, told)| told.is_none()) {
        let (a, b) = (a.host(), b.host());
        bail!("neither {a} nor {b} runs on this machine\nhint: ask on the machine of one of them");
    }
    if args.json {
        let all = ways.iter().map(|((from, to), told)| {
            json!({
                "from": from.to_string(), "to": to.to_string(),
                "route": told.as_ref().map(|t| route(t).0), "why": told.as_ref().map(why),
                "direct": told.as_ref().and_then(|t| t.account).map(|a| a.direct.text()),
                "sent": told.as_ref().and_then(|t| t.account).as_ref().map(sent_json),
                "by_daemons_bytes": told.as_ref().map(|t| t.way.by_daemons.sent_bytes),
                "limit_bytes": told.as_ref().map(|t| t.way.by_daemons.limit_bytes),
                "channels": told.as_ref().map(|t| {
                    t.way.channels.iter().map(channel_json).collect::<Vec<_>>()
                }),
                "network": told.as_ref().and_then(|t| t.way.network.as_ref()).map(network_json),
            })
        });
        putln!("{}", json!({ "ways": all.collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for ((from, to), told) in &ways {
        putln!("{from} to {to}")?;
        match told {
            Some(told) => put!("{}", text(told))?,
            None => putln!("  {} does not run on this machine: ask there", from.host())?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A plain command is in the list of `ps`, but has no messages whose way could be told.
fn absent(task: TaskId) -> String {
    format!(
        "{task} is not there, or is no program that exchanges messages\n\
         hint: `towpath ps` lists what runs; plain commands among it exchange none"
    )
}

/// What the daemon of the sender's host says, and the sender itself.
struct Told {
    way: Explanation,
    account: Option<Account>,
}

/// What the daemon of `from`'s host says, if that is on this machine.
fn ask(vm: &VmDir, from: TaskId, to: TaskId) -> anyhow::Result<Option<Told>> {
    for socket in sockets(vm)? {
        let Ok(mut client) = Client::connect(&socket) else { continue };
        if client.info()?.me != Some(from.host()) {
            continue;
        }
        return match client.ask(&Request::Explain { from, to }, ANSWER)? {
            Reply::Explained { way, .. } if !way.known => bail!(absent(from)),
            Reply::Explained { way, .. } if way.peer_known == Some(false) => bail!(absent(to)),
            Reply::Explained { way, account } => Ok(Some(Told { way, account })),
            _ => bail!("the daemon answers something else than was asked"),
        };
    }
    Ok(None)
}

/// The route and what a message costs on it.
fn route(told: &Told) -> (&'static str, &'static str) {
    let one_host = told.way.from.host() == told.way.to.host();
    match told.way.direct {
        DirectState::Ring => (
            "shared memory",
            "one copy in and one out, no system call while both are awake, one to wake a sleeper",
        ),
        DirectState::Stream if told.stands() => {
            ("a stream between the tasks", "a system call at each end; sealed once, opened once")
        }
        _ if one_host => ("the daemon", "two Unix sockets: four copies, the daemon wakes up once"),
        _ => (
            "the daemons",
            "a Unix socket at each end and datagrams between: two daemons wake up, each piece is \
             sealed once",
        ),
    }
}

fn why(told: &Told) -> &'static str {
    match told.way.direct {
        DirectState::Ring => "both run on one host and each could map the other's memory",
        DirectState::RingFailed => {
            "shared memory was offered, but one of them could not map it (descriptors, memory)"
        }
        DirectState::Stream if told.stands() => "one of them asked for it, and both opened it",
        DirectState::Stream => "a stream was asked for, and does not stand",
        DirectState::Paced => "this host's links are paced (--link-rate): all goes by its daemon",
        DirectState::Full => "no room for another direct route: of this host, or of one of the two",
        DirectState::None => {
            "nobody asked for a direct route yet (after 4 messages, or one of more than 16 KiB), \
             a task does not want one, or it could not be had"
        }
    }
}

impl Told {
    /// Whether the sender has opened its direct route.
    fn stands(&self) -> bool {
        self.account.is_some_and(|account| account.direct == RouteState::Stands)
    }
}

fn count(sent: Sent) -> String {
    format!("{} messages, {} bytes", sent.messages, sent.bytes)
}

fn text(told: &Told) -> String {
    let (route, cost) = route(told);
    let why = why(told);
    let way = &told.way;
    let e = way.by_daemons;
    let left = e.limit_bytes.saturating_sub(e.sent_bytes);
    let direct = told.account.map_or("not asked for yet", |account| account.direct.text());
    let sent = match told.account {
        Some(Account { by_ring, by_stream, by_daemons, .. }) => {
            let (ring, stream) = (count(by_ring), count(by_stream));
            let daemons = by_daemons.messages;
            format!("{ring} by shared memory; {stream} by streams; {daemons} messages by daemons")
        }
        None => "by daemons only".to_string(),
    };
    let channels: String = way.channels.iter().map(channel_words).collect();
    let network = match &way.network {
        Some(network) => words(network),
        None if way.from.host() == way.to.host() => "none: one host".to_string(),
        None => "no association now: made when something is sent".to_string(),
    };
    format!(
        "  route    {route}\n  why      {why}\n  direct   {direct}\n  costs    {cost}\n  \
         sent     {sent}\n  daemons  {} bytes sent, {left} more may go now\n  \
         network  {network}\n{channels}",
        e.sent_bytes
    )
}

/// A line for a channel of the task's own.
fn channel_words(c: &ChannelStatus) -> String {
    let class = format!("{:?}", c.spec.class).to_lowercase();
    let deadline = c.spec.deadline.map(|d| format!(", of use for {:.1} ms", d.as_secs_f64() * 1e3));
    let reserved = c.spec.reserve.filter(|_| c.reserved).map(|r| {
        let (every, within) = (r.every.as_secs_f64() * 1e3, r.within.as_secs_f64() * 1e3);
        format!(
            ", reserved for {} bytes every {every} ms, {} at once, to leave within {within} ms",
            r.bytes, r.burst
        )
    });
    format!(
        "  channel  {}: {class}, priority {}{}{}; {} messages sent ({} bytes), {} given up, \
         {} late, {} pieces repaired; {} received ({} bytes); {} of {} bytes of room in use\n",
        c.number,
        c.spec.priority,
        deadline.unwrap_or_default(),
        reserved.unwrap_or_default(),
        c.sent,
        c.bytes_sent,
        c.abandoned,
        c.late,
        c.repaired,
        c.received,
        c.bytes_received,
        c.waiting,
        c.spec.window,
    )
}

fn channel_json(c: &ChannelStatus) -> serde_json::Value {
    json!({
        "number": c.number, "class": format!("{:?}", c.spec.class).to_lowercase(),
        "priority": c.spec.priority, "window_bytes": c.spec.window,
        "deadline_us": c.spec.deadline.map(|d| d.as_secs_f64() * 1e6),
        "messages_sent": c.sent, "bytes_sent": c.bytes_sent, "messages_given_up": c.abandoned,
        "messages_late": c.late, "pieces_repaired": c.repaired, "messages_received": c.received,
        "bytes_received": c.bytes_received, "waiting_bytes": c.waiting,
        "reserved": c.spec.reserve.filter(|_| c.reserved).map(|r| json!({
            "bytes": r.bytes, "every_us": r.every.as_secs_f64() * 1e6, "burst": r.burst,
            "within_us": r.within.as_secs_f64() * 1e6,
        })),
    })
}

fn sent_json(account: &Account) -> serde_json::Value {
    let sent = |sent: Sent| json!({ "messages": sent.messages, "bytes": sent.bytes });
    json!({
        "by_ring": sent(account.by_ring), "by_stream": sent(account.by_stream),
        "messages_by_daemons": account.by_daemons.messages,
    })
}

/// Bytes that pass in a second at most: a window in each round trip.
fn rate(network: &Network) -> f64 {
    network.window_bytes as f64 / network.rtt.as_secs_f64().max(1e-9)
}

pub(crate) fn words(network: &Network) -> String {
    let sealed = if network.sealed { "sealed" } else { "in clear" };
    let paths = network.paths.iter().filter(|w| w.state == WayState::Carries).count();
    let many = format!("; {paths} of {} paths carry (towpath links)", network.paths.len());
    let many = if network.paths.len() > 1 { many } else { String::new() };
    format!(
        "{sealed} datagrams of {} bytes to {}; round trip {:.0} us, at most {:.0} MB/s now; {} of \
         {} packets lost{many}",
        network.datagram_bytes,
        network.addr,
        network.rtt.as_secs_f64() * 1e6,
        rate(network) / 1e6,
        network.packets_lost,
        network.packets_sent,
    )
}

pub(crate) fn network_json(network: &Network) -> serde_json::Value {
    json!({
        "host": network.host.to_string(), "addr": network.addr.to_string(),
        "sealed": network.sealed, "rtt_us": network.rtt.as_secs_f64() * 1e6,
        "rate_max_bytes_per_s": rate(network), "datagram_bytes": network.datagram_bytes,
        "packets_sent": network.packets_sent, "packets_lost": network.packets_lost,
        "paths": network.paths.iter().map(|way| way_json(network, way)).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_named_as_they_are_listed() {
        let hosts = [HostId::new(1, 0).unwrap(), HostId::new(2, 7).unwrap()];
        for (id, name) in [(hosts[0].task(3), "h1:t3"), (hosts[1].task(9), "h2.7:t9")] {
            assert_eq!(task(name, &hosts).ok(), id);
            assert_eq!(id.unwrap().to_string(), name);
        }
        assert_eq!(task("h2:t9", &hosts).ok(), hosts[1].task(9));
        for bad in ["h1", "h1:", "h1:t0", "h3:t1", ":t1", "h1:x"] {
            assert!(task(bad, &hosts).is_err(), "{bad}");
        }
    }
}
