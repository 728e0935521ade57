//! `links`: every path to every other host, and why it carries nothing where that is so.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use towpath::protocol::{Coded, Network, Way, WayState};
use towpath::{Client, VmDir};
use towpath_wire::HostId;

use crate::control::{ask_networks, connect, sockets};
use crate::units::rate_text;
use crate::words::percent;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath links
  towpath links --json

A path is a pair of links: one of this host, one of another. Hosts with several addresses (`up
--listen A --listen B`) find their paths by themselves, one for each network attachment of the host
with fewer. RATE is what the path delivered of late at its best, SHARE its part of the bytes sent to
that host, LOST datagrams that counted as lost, LEFT how often it was given up for the others and
returned. Where packets are coded across the paths (`up --coding`), a line below says what came of
it. Daemons on this machine are asked; for others, run it there.

Exit status: 0 told, 255 could not.")]
pub(crate) struct LinksArgs {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn links(vm: &VmDir, args: &LinksArgs) -> anyhow::Result<ExitCode> {
    connect(vm)?;
    let mut all = Vec::new();
    for socket in sockets(vm)? {
        let Ok(mut client) = Client::connect(&socket) else { continue };
        let Some(me) = client.info()?.me else { continue };
        ask_networks(&mut client, me, &mut all)?;
    }
    if args.json {
        let rows = all.iter().flat_map(|(me, network)| {
            network.paths.iter().map(|way| with_hosts(*me, network, way_json(network, way)))
        });
        let coding = all.iter().map(|(me, n)| with_hosts(*me, n, json!(n.coding)));
        let coding = coding.collect::<Vec<_>>();
        putln!("{}", json!({ "paths": rows.collect::<Vec<_>>(), "coding": coding }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        eprintln!("no connection to another host now: made when something is sent");
        return Ok(ExitCode::SUCCESS);
    }
    putln!(
        "{:<6} {:<6} {:>4} {:<22} {:<22} {:>9} {:>12} {:>6} {:>7} {:>9}  STATE",
        "HOST",
        "PEER",
        "PATH",
        "FROM",
        "TO",
        "RTT",
        "RATE",
        "SHARE",
        "LOST",
        "LEFT"
    )?;
    for (me, network) in &all {
        for way in &network.paths {
            putln!("{}", line(*me, network, way))?;
        }
        if let Some(coded) = coded(&network.coding) {
            putln!("{:<6} {:<6} {coded}", me.to_string(), network.host.to_string())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn line(me: HostId, network: &Network, way: &Way) -> String {
    let known = |text: String| if way.rtt.is_zero() { "-".to_string() } else { text };
    format!(
        "{:<6} {:<6} {:>4} {:<22} {:<22} {:>9} {:>12} {:>6} {:>7} {:>9}  {}",
        me.to_string(),
        network.host.to_string(),
        way.path,
        way.local.to_string(),
        way.remote.to_string(),
        known(format!("{:.0} us", way.rtt.as_secs_f64() * 1e6)),
        known(rate_text(way.rate_bps as f64)),
        share(network, way).map_or("-".to_string(), percent),
        way.packets_lost,
        format!("{}/{}", way.left, way.returned),
        why(way),
    )
}

/// What is coded across the paths to a host, if anything is.
fn coded(coding: &Coded) -> Option<String> {
    let Coded { usual, groups, parities_sent, rebuilt_there, .. } = coding;
    let Coded { parities_received, rebuilt_here, unrebuilt, .. } = coding;
    coding.is_used().then(|| {
        format!(
            "coded ({usual}): {groups} groups, {parities_sent} parities sent, {rebuilt_there} \
             packets rebuilt there; {parities_received} received, {rebuilt_here} rebuilt here, \
             {unrebuilt} groups not"
        )
    })
}

/// Its part of what was sent to that host.
fn share(network: &Network, way: &Way) -> Option<f64> {
    let sum: u64 = network.paths.iter().map(|w| w.bytes_sent).sum();
    (sum > 0).then(|| way.bytes_sent as f64 / sum as f64)
}

const fn state(state: WayState) -> &'static str {
    match state {
        WayState::Carries => "carries",
        WayState::Down => "down",
        WayState::Silent => "silent",
        WayState::Unproven => "unproven",
        WayState::Retired => "retired",
        WayState::Standby => "standby",
    }
}

/// How it stands, and why it carries nothing where it does not.
pub(crate) fn why(way: &Way) -> String {
    match way.state {
        WayState::Carries if way.in_flight_bytes == 0 => "carries; nothing under way".into(),
        WayState::Carries => "carries".into(),
        WayState::Down => "down: its link has no carrier".into(),
        WayState::Silent => "silent: no answer while others got one; it is asked on".into(),
        WayState::Unproven => format!(
            "unproven: {} has not answered there yet{}",
            way.remote,
            if way.packets_received == 0 { ", and nothing came from there" } else { "" }
        ),
        WayState::Retired => "retired: used no more".into(),
        WayState::Standby => "standby: it carries when no other path does".into(),
    }
}

fn with_hosts(me: HostId, network: &Network, mut row: Value) -> Value {
    row["host"] = me.to_string().into();
    row["peer"] = network.host.to_string().into();
    row
}

/// A path of an association.
pub(crate) fn way_json(network: &Network, way: &Way) -> Value {
    let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    json!({
        "path": way.path, "link": way.link, "from": way.local.to_string(),
        "to": way.remote.to_string(), "state": state(way.state), "why": why(way),
        "rtt_us": us(way.rtt), "rtt_min_us": us(way.rtt_min), "rate_bps": way.rate_bps,
        "share": share(network, way), "window_bytes": way.window_bytes,
        "in_flight_bytes": way.in_flight_bytes, "datagram_bytes": way.datagram_bytes,
        "packets_sent": way.packets_sent, "bytes_sent": way.bytes_sent,
        "packets_lost": way.packets_lost, "packets_received": way.packets_received,
        "left": way.left, "returned": way.returned,
    })
}
