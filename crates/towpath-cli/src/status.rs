//! `hosts` and `ps`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use towpath::VmDir;
use towpath::protocol::Info;
use towpath_report::text::visible;
use towpath_report::words;
use towpath_vm::{Host, HostState};
use towpath_wire::HostId;

use crate::control::{self, connect, host_table};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath hosts
  towpath hosts --json | python3 -m json.tool

STATE is `up`, `lost`, `silent` or `not heard from`. A silent host has answered nothing for 1.5 s
and more; nothing of it has ended, and nothing new is given to it: either it is heard again, or it
is lost (`towpath up --lost-after-ms`). One that is not heard from the leader, started again, knows
of before: either it comes back or is given up as lost after a minute. Behind it stand who leads
and may, and `drained` (`towpath host drain`).")]
pub(crate) struct HostsArgs {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath ps
  towpath ps --host h2

CHANNELS counts channels of the task's own; RESERVED is what its host's links keep free for what it
sends on those of them that are reserved. `towpath explain TASK TASK` shows each channel.

Exit status: 0 all hosts told their tasks, 1 some did not, 255 could not ask.")]
pub(crate) struct PsArgs {
    /// Only this host's tasks
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn hosts(vm: &VmDir, args: &HostsArgs) -> anyhow::Result<ExitCode> {
    let mut client = connect(vm)?;
    let info = client.info()?;
    let hosts = host_table(&mut client)?;
    let unheard = control::unheard(&mut client, &hosts)?;
    let local: BTreeMap<HostId, Info> =
        control::infos(vm)?.into_iter().filter_map(|info| Some((info.me?, info))).collect();
    for line in control::stopped(vm)? {
        eprintln!("{line}");
    }
    if args.json {
        let list = hosts_json(&info, &hosts, &unheard, &local);
        putln!(
            "{}",
            json!({
                "vm": info.vm, "frozen": info.frozen, "trouble": info.trouble, "hosts": list,
            })
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    putln!(
        "{:<8} {:<20} {:<22} {:<14} {:>4} {:>5}  STATE",
        "HOST",
        "NAME",
        "ADDRESS",
        "ARCH",
        "CPUS",
        "SLOTS"
    )?;
    for h in &hosts {
        let leads = match Some(h.id) == info.leader {
            true => ", leader",
            false if info.voters.contains(&h.id) => ", may lead",
            false => "",
        };
        let state = match unheard.contains(&h.id) {
            true if info.silent.contains(&h.id) => "silent",
            true => "not heard from",
            false => state(h.state),
        };
        let (id, addr) = (h.id.to_string(), h.addr.to_string());
        let Host { name, arch, cpus, slots, .. } = h;
        let (name, arch) = (visible(name), visible(arch));
        let drains = if h.drains() { ", drained" } else { "" };
        putln!(
            "{id:<8} {name:<20} {addr:<22} {arch:<14} {cpus:>4} {slots:>5}  {state}{leads}{drains}"
        )?;
    }
    let mut told = BTreeSet::new();
    if info.frozen {
        let until = if info.voters.len() > 1 { "another one leads" } else { "it is back" };
        eprintln!("the leader is lost: hosts can neither join nor leave until {until}");
    }
    for line in info.trouble.iter().chain(local.values().flat_map(|info| &info.trouble)) {
        if told.insert(line) {
            eprintln!("{line}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn hosts_json(
    info: &Info,
    hosts: &[Host],
    unheard: &BTreeSet<HostId>,
    local: &BTreeMap<HostId, Info>,
) -> Vec<serde_json::Value> {
    hosts
        .iter()
        .map(|h| {
            json!({
                "id": h.id.to_string(), "slot": h.id.slot(),
                "incarnation": h.id.incarnation(), "name": h.name,
                "addr": h.addr.to_string(), "arch": h.arch, "cpus": h.cpus, "slots": h.slots,
                "state": state(h.state), "heard": !unheard.contains(&h.id),
                "silent": info.silent.contains(&h.id),
                "drains": h.drains(),
                "leader": Some(h.id) == info.leader,
                "votes": info.voters.contains(&h.id),
                "pid": local.get(&h.id).map(|i| i.pid),
                "counters": local.get(&h.id).map(|i| -> BTreeMap<_, _> {
                    i.counters.iter().cloned().collect()
                }),
            })
        })
        .collect()
}

const fn state(state: HostState) -> &'static str {
    match state {
        HostState::Up => "up",
        HostState::Lost => "lost",
    }
}

pub(crate) fn ps(vm: &VmDir, args: &PsArgs) -> anyhow::Result<ExitCode> {
    let mut client = connect(vm)?;
    let mut hosts = control::among_hosts(&mut client, |all| match &args.host {
        Some(wanted) => Ok(vec![control::find_host(all, wanted)?]),
        None => Ok(all.to_vec()),
    })?;
    hosts.retain(|h| h.state == HostState::Up);
    let (tasks, silent) = control::tasks_of(&mut client, &hosts)?;
    if args.json {
        let list: Vec<_> = tasks
            .iter()
            .map(|t| {
                json!({
                    "task": t.id.to_string(), "host": t.id.host().to_string(), "pid": t.pid,
                    "age_us": t.age_us, "requester": t.requester.to_string(),
                    "command": t.command, "channels": t.channels, "reserved_bps": t.reserved_bps,
                })
            })
            .collect();
        putln!("{}", json!({ "tasks": list }))?;
    } else {
        let [task, pid, age, channels, reserved] = ["TASK", "PID", "AGE", "CHANNELS", "RESERVED"];
        putln!("{task:<14} {pid:>8} {age:>9} {channels:>8} {reserved:>12}  COMMAND")?;
        for t in &tasks {
            let pid = if t.pid == 0 { "waits".into() } else { t.pid.to_string() };
            let (id, age) = (t.id.to_string(), t.age_us as f64 / 1e6);
            let channels = t.channels;
            let reserved = match t.reserved_bps {
                0 => "-".into(),
                bps => words::bps_text(bps),
            };
            let command = visible(&t.command);
            putln!("{id:<14} {pid:>8} {age:>8.1}s {channels:>8} {reserved:>12}  {command}")?;
        }
    }
    for line in &silent {
        eprintln!("{line}");
    }
    Ok(ExitCode::from(u8::from(!silent.is_empty())))
}
