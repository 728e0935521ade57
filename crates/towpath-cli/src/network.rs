//! `network` and `channels`: what the virtual machine knows of its network, and has promised there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use towpath::protocol::{Reply, Request};
use towpath::{Client, VmDir};
use towpath_qos::topology::Topology;
use towpath_report::text::visible;
use towpath_report::words::{bps_text, bytes_text, counted, ns_text};
use towpath_vm::promises::{Standing, TOPOLOGY_MAX, name_in, usable};
use towpath_vm::{Host, HostState};
use towpath_wire::HostId;
use towpath_wire::units::nanos;

use crate::control::{self, ANSWER, host_table};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath network set office.toml     promises count on this network from now on
  towpath network show                what is known, as it was set
  towpath network clear               nothing is known, and nothing is promised
  towpath up --topology office.toml   the same from the start

The file is a topology as `towpath topology show` reads it. Its hosts are called as `towpath hosts`
shows, by name or as h1, h2 and so on; hosts that are not in it take part as ever, and are promised
nothing. Switch ports are to have `scheduler = \"priority\"` with one of `budgets_ns`: what is
promised carries one mark (DSCP 46), which the switch has to serve first. Hosts' own ports are
`edf`, which is what their daemons do (`towpath up --link-rate`). See docs/reservation.md.

What is promised stays: another network is taken where all of it can be kept there as it was
promised. Run it on the machine of the host that leads.

Exit status: 0 success, 255 it could not be done.")]
pub(crate) struct NetworkArgs {
    #[command(subcommand)]
    command: NetworkCommand,
}

#[derive(Debug, Subcommand)]
enum NetworkCommand {
    /// Say what the network is
    Set(SetArgs),
    /// Print what is known of it
    Show(ShowArgs),
    /// Say that nothing is known of it
    Clear,
}

#[derive(Debug, Args)]
struct SetArgs {
    /// A topology file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath channels          what is promised to whom, and what each port on the way was given
  towpath channels --json   the same for programs

A channel is listed once its task has asked for a promise of the whole way (`Until::Arrived`, in C
TOWPATH_ARRIVED) and got it, and until nothing of it is on its way any more. RATE and BURST are in
wire bytes, with all headers. What messages really took, its task can ask (`channel_status`), and
`towpath metrics` says. Only the host that leads can tell: run it on its machine.

Exit status: 0 success, 255 could not ask.")]
pub(crate) struct ChannelsArgs {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn network(vm: &VmDir, args: &NetworkArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        NetworkCommand::Set(args) => {
            let text = read(&args.file)?;
            set(vm, text)?;
        }
        NetworkCommand::Show(args) => show(vm, args)?,
        NetworkCommand::Clear => {
            ask_for(&mut control::leader(vm)?, String::new())?;
            eprintln!("nothing is known of the network, and nothing is promised there");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A topology that promises can count on.
pub(crate) fn read(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let len = std::fs::metadata(file).with_context(|| format!("cannot read {shown}"))?.len();
    if len > TOPOLOGY_MAX as u64 {
        bail!("{shown} has {len} bytes, a topology for promises {TOPOLOGY_MAX} at most");
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    if text.trim().is_empty() {
        bail!("{shown} is empty\nhint: `towpath network clear` forgets what is known");
    }
    usable(&text).map_err(|why| anyhow::anyhow!("{shown}: {why}"))?;
    Ok(text)
}

/// The virtual machine counts on this network from now on.
pub(crate) fn set(vm: &VmDir, text: String) -> anyhow::Result<()> {
    let mut leader = control::leader(vm)?;
    let topology = usable(&text).map_err(anyhow::Error::msg)?;
    ask_for(&mut leader, text)?;
    let (hosts, all) = (topology.hosts().count(), topology.nodes().len());
    eprintln!(
        "network of {} and {}: promises count on it",
        counted(hosts as u64, "host"),
        counted((all - hosts) as u64, "switch")
    );
    for line in strangers(&topology, &host_table(&mut leader)?) {
        eprintln!("{line}");
    }
    Ok(())
}

fn ask_for(leader: &mut Client, topology: String) -> anyhow::Result<()> {
    match leader.ask(&Request::SetNetwork { topology }, ANSWER)? {
        Reply::Done => Ok(()),
        _ => bail!("the daemon answers something else than was asked"),
    }
}

/// Hosts that are in the one and not in the other.
fn strangers(topology: &Topology, table: &[Host]) -> Vec<String> {
    let there: BTreeSet<&str> =
        topology.hosts().filter_map(|id| Some(&*topology.node(id)?.name)).collect();
    let up = table.iter().filter(|h| h.state == HostState::Up);
    let up: Vec<String> = up.map(|h| name_in(topology, h)).collect();
    let up: BTreeSet<&str> = up.iter().map(String::as_str).collect();
    let list = |names: Vec<&&str>| {
        let shown: Vec<String> = names.iter().take(8).map(|name| visible(name).into()).collect();
        format!("{}{}", shown.join(", "), if names.len() > 8 { ", …" } else { "" })
    };
    let (not_there, not_up): (Vec<_>, Vec<_>) =
        (up.difference(&there).collect(), there.difference(&up).collect());
    let mut lines = Vec::new();
    if !not_there.is_empty() {
        lines.push(format!("not in it, and promised nothing: {}", list(not_there)));
    }
    if !not_up.is_empty() {
        lines.push(format!("in it, and no hosts that are up: {}", list(not_up)));
    }
    lines
}

/// What is known, and all that is promised.
fn ask_all(client: &mut Client) -> anyhow::Result<(Option<String>, Vec<Standing>)> {
    let (mut text, mut all, mut after) = (None, Vec::new(), None);
    loop {
        let Reply::Promises { topology, promises, more } =
            client.ask(&Request::Promises { after }, ANSWER)?
        else {
            bail!("the daemon answers something else than was asked");
        };
        text = text.or(topology);
        after = promises.last().map(|p| (p.promise.host, p.promise.number));
        all.extend(promises);
        if !more || after.is_none() {
            return Ok((text, all));
        }
    }
}

fn show(vm: &VmDir, args: &ShowArgs) -> anyhow::Result<()> {
    let mut leader = control::leader(vm)?;
    let (text, all) = ask_all(&mut leader)?;
    if args.json {
        putln!("{}", json!({ "vm": vm.name, "topology": text, "promises": all.len() }))?;
        return Ok(());
    }
    match text {
        Some(text) => putln!("{}", text.trim_end())?,
        None => eprintln!("nothing is known of the network\nhint: `towpath network set FILE`"),
    }
    Ok(())
}

pub(crate) fn channels(vm: &VmDir, args: &ChannelsArgs) -> anyhow::Result<ExitCode> {
    let mut leader = control::leader(vm)?;
    let hosts = host_table(&mut leader)?;
    let (text, all) = ask_all(&mut leader)?;
    if args.json {
        let list: Vec<Value> = all.iter().map(|p| row_json(&hosts, p)).collect();
        putln!("{}", json!({ "vm": vm.name, "network": text.is_some(), "channels": list }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let [from, to, task, rate] = ["FROM", "TO", "TASK", "RATE"];
    let [burst, asked, promised] = ["BURST", "WITHIN", "PROMISED"];
    putln!("{from:<12} {to:<12} {task:<14} {rate:>13} {burst:>9} {asked:>9} {promised:>9}  PORTS")?;
    for p in &all {
        let terms = &p.promise.terms;
        let (rate, burst) = (bps_text(terms.rate.as_bps()), bytes_text(terms.burst.as_bytes()));
        let (asked, promised) = (ns_text(nanos(terms.within)), ns_text(nanos(p.delay)));
        let hop = |(port, delay): &(String, std::time::Duration)| {
            format!("{} {}", visible(port), ns_text(nanos(*delay)))
        };
        let hops: Vec<String> = p.hops.iter().map(hop).collect();
        let (from, to) = (name(&hosts, p.promise.host), name(&hosts, p.promise.to));
        putln!(
            "{from:<12} {to:<12} {:<14} {rate:>13} {burst:>9} {asked:>9} {promised:>9}  {}",
            p.promise.task.to_string(),
            hops.join(", ")
        )?;
    }
    if text.is_none() {
        eprintln!("nothing is known of the network\nhint: `towpath network set FILE`");
    }
    Ok(ExitCode::SUCCESS)
}

fn name(hosts: &[Host], id: HostId) -> String {
    let host = hosts.iter().find(|h| h.id == id);
    host.map_or_else(|| id.to_string(), |h| visible(&h.name).into())
}

fn row_json(hosts: &[Host], p: &Standing) -> Value {
    let Standing { promise, delay, hops } = p;
    let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let hops: Vec<Value> = hops
        .iter()
        .map(|(port, within)| json!({ "port": port, "within_us": us(*within) }))
        .collect();
    json!({
        "from": name(hosts, promise.host), "to": name(hosts, promise.to),
        "task": promise.task.to_string(), "number": promise.number,
        "rate_bps": promise.terms.rate.as_bps(), "burst_bytes": promise.terms.burst.as_bytes(),
        "packet_bytes": promise.terms.packet.as_bytes(), "within_us": us(promise.terms.within),
        "promised_us": us(*delay), "ports": hops,
    })
}
