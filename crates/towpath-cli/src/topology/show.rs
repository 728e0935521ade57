//! `topology show`: a network as text, as a picture, as JSON.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use towpath_qos::topology::{Discipline, Node, NodeId, NodeKind, Port, PortId, Topology};

use super::diagram::{self, Diagram};
use super::load::load;
use crate::files::{print, write_file};
use crate::plot::{Column, Table};
use crate::words::{bits_text, bps_text, ns_text};

#[derive(Debug, Args)]
pub(crate) struct TopologyArgs {
    #[command(subcommand)]
    command: TopologyCommand,
}

#[derive(Debug, Subcommand)]
enum TopologyCommand {
    /// Check a topology file and draw it
    Show(ShowArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath topology show scenarios/topology/two-switches.toml
  towpath topology show net.toml --svg net.svg
  towpath topology show net.toml --route h1 h4
  towpath topology show net.toml --json | jq '.ports[] | select(.scheduler == \"fcfs\")'

A topology file names hosts, switches and the full-duplex links between them:

  [[host]]
  name = \"h1\"
  cpu = { packet_ns = 2000, byte_ps = 500 }   # optional: what traffic costs its processor

  [[host]]
  name = \"h2\"

  [[switch]]
  name = \"s1\"
  scheduler = \"edf\"                           # of all its ports; the default
  port = [{ name = \"up\", scheduler = \"priority\", budgets_ns = [1000000, 4000000] }]

  [[link]]
  ends = [\"h1\", \"s1\"]
  rate_bps = 100_000_000
  delay_ns = 500

  [[link]]
  ends = [\"h2\", \"s1:up\"]
  rate_bps = 1_000_000_000

Each port and interface has a queue of 1 MiB; `queue_bytes` of a port that is named sets another
(`interface = [{ name = \"nic\", queue_bytes = 4194304 }]` of a host), `memory_bytes` of a switch
what all its ports share. A refusal names what is short.

Schedulers: fcfs, priority, rcsp, edf, jitter-edd, hfsc, wfq, wf2q, virtual-clock, cbq, drr, scfq
(as `towpath schedulers compare` calls them). Only switches forward. Routes are fixed: fewest hops,
then the order of the links in the file. Switches may form cycles. See docs/admission.md.

Exit status: 0 the file is a topology; 255 it is not, or cannot be read.")]
struct ShowArgs {
    /// The topology, in TOML; `-` is standard input
    file: PathBuf,
    /// Write a picture
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Show only the hops from one host to another
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"])]
    route: Option<Vec<String>>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &TopologyArgs) -> anyhow::Result<ExitCode> {
    let TopologyCommand::Show(args) = &args.command;
    let topology = load(&args.file)?;
    if let Some(path) = &args.svg {
        let title = counts(&topology);
        write_file(path, diagram_of(&topology, None).svg(&title))?;
    }
    let ports: Vec<PortId> = match &args.route {
        Some(ends) => {
            let (from, to) = (host(&topology, &ends[0])?, host(&topology, &ends[1])?);
            topology.route(from, to).collect()
        }
        None => (0..topology.ports().len() as u32).map(PortId).collect(),
    };
    if args.json {
        print(&format!("{}\n", as_json(&topology, &ports)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = String::new();
    if args.route.is_none() {
        let tree = diagram_of(&topology, None).text();
        out = format!("{}\n\n{tree}\n", counts(&topology));
    }
    print(&(out + &port_table(&topology, &ports).text()))?;
    Ok(ExitCode::SUCCESS)
}

/// A host by name, or an error that lists what there is.
pub(crate) fn host(topology: &Topology, name: &str) -> anyhow::Result<NodeId> {
    topology.host_named(name).ok_or_else(|| {
        let names = topology.hosts().filter_map(|id| topology.node(id));
        let mut names: Vec<&str> = names.map(|node| node.name.as_str()).take(13).collect();
        let more = if names.len() > 12 { ", …" } else { "" };
        names.truncate(12);
        anyhow::anyhow!("unknown host {name:?}\nhint: hosts are {}{more}", names.join(", "))
    })
}

fn counts(topology: &Topology) -> String {
    let (hosts, all) = (topology.hosts().count(), topology.nodes().len());
    let links = topology.ports().len() / 2;
    // Every host reaches every other: with more links than a tree has, there is a cycle.
    let cycle = if links >= all && all > 0 { ", with cycles: routes are fixed" } else { "" };
    let plural = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let switches = (all - hosts, if all - hosts == 1 { "switch" } else { "switches" });
    format!(
        "{}, {} {}, {}{cycle}",
        plural(hosts, "host"),
        switches.0,
        switches.1,
        plural(links, "link")
    )
}

/// The drawing; `load` gives the reserved share of a port.
pub(crate) fn diagram_of(topology: &Topology, load: Option<&dyn Fn(PortId) -> f64>) -> Diagram {
    let node = |n: &Node| diagram::Node {
        name: n.name.clone(),
        switch: matches!(n.kind, NodeKind::Switch { .. }),
        note: schedulers(topology, n),
    };
    // A link's two directions stand beside each other.
    let link = |(index, pair): (usize, &[Port])| {
        let port = &pair[0];
        let id = |k: usize| PortId((2 * index + k) as u32);
        let delay = match port.delay_ns {
            0 => String::new(),
            ns => format!(", {}", ns_text(ns)),
        };
        diagram::Link {
            ends: [port.node.0 as usize, port.peer.0 as usize],
            note: bps_text(port.rate_bps) + &delay,
            load: load.map(|of| [of(id(0)), of(id(1))]),
        }
    };
    Diagram {
        nodes: topology.nodes().iter().map(node).collect(),
        links: topology.ports().chunks_exact(2).enumerate().map(link).collect(),
    }
}

/// The schedulers of a node's ports, each once.
fn schedulers(topology: &Topology, node: &Node) -> String {
    let mut names: Vec<String> = Vec::new();
    for port in node.ports.iter().filter_map(|id| topology.port(*id)) {
        let name = port.scheduler.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

fn budgets(discipline: &Discipline) -> Vec<u64> {
    match discipline {
        Discipline::Fcfs(budget) => vec![*budget],
        Discipline::StaticPriority(budgets) | Discipline::Rcsp(budgets) => budgets.clone(),
        _ => Vec::new(),
    }
}

fn port_table(topology: &Topology, ports: &[PortId]) -> Table {
    let mut table = Table::new(&[
        Column::words("PORT", "port"),
        Column::words("TO", "to"),
        Column::figures("RATE", "rate_bps"),
        Column::figures("DELAY", "delay_ns"),
        Column::words("SCHEDULER", "scheduler"),
        Column::figures("QUEUE", "queue_bytes"),
        Column::figures("LARGEST", "packet_bytes"),
        Column::words("BUDGETS", "budgets_ns"),
    ]);
    for &id in ports {
        let Some(port) = topology.port(id) else { continue };
        let budgets = budgets(&port.discipline);
        let shown: Vec<String> = budgets.iter().map(|b| ns_text(*b)).collect();
        let peer = topology.node(port.peer).map_or(String::new(), |n| n.name.clone());
        let cells = [
            topology.port_name(id).to_string(),
            peer,
            bps_text(port.rate_bps),
            ns_text(port.delay_ns),
            port.scheduler.to_string(),
            bits_text(port.queue_bits.into()),
            bits_text(port.packet_bits.into()),
            shown.join(", "),
        ];
        table.push(cells.into_iter().map(|c| (c, String::new())).collect());
    }
    table
}

fn as_json(topology: &Topology, ports: &[PortId]) -> Value {
    let nodes = topology.nodes().iter().map(|node| match &node.kind {
        NodeKind::Host { cpu } => json!({
            "name": node.name, "kind": "host",
            "cpu": cpu.as_ref().map(|c| json!({
                "packet_ns": c.packet_ns, "byte_ps": c.byte_ps, "limit_ppm": c.limit_ppm,
                "blocking_ns": c.blocking_ns, "budget_ns": c.budget_ns,
            })),
        }),
        NodeKind::Switch { latency_ns, fabric_bps, memory_bits } => json!({
            "name": node.name, "kind": "switch", "latency_ns": latency_ns,
            "fabric_bps": fabric_bps, "memory_bytes": memory_bits.map(|b| b / 8),
        }),
    });
    let port = |id: &PortId| {
        let port = topology.port(*id)?;
        Some(json!({
            "name": topology.port_name(*id).to_string(),
            "to": topology.node(port.peer)?.name, "rate_bps": port.rate_bps,
            "delay_ns": port.delay_ns, "scheduler": port.scheduler.to_string(),
            "queue_bytes": port.queue_bits / 8, "packet_bytes": port.packet_bits / 8,
            "budgets_ns": budgets(&port.discipline),
        }))
    };
    json!({
        "version": 1,
        "nodes": nodes.collect::<Vec<_>>(),
        "ports": ports.iter().filter_map(port).collect::<Vec<_>>(),
    })
}
