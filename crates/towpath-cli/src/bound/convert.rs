//! A topology with requests as a network of servers: bits and seconds.
//!
//! Each port is a server of its own rate, whose latency is the one packet of unreserved traffic
//! that may be in the way. FCFS ports are FIFO; every other work-conserving port is bound for any
//! order between channels (blind), which holds whatever its scheduler does. What switches and
//! wires add is the same for every packet and is added at the end.
//!
//! Only bounded channels are there, since they go before all others; where a port is FCFS,
//! statistical channels and shares are in their way and count as well.

use std::time::Duration;

use anyhow::{anyhow, bail};
use towpath_bound::{Envelope, Flow, Multiplexing, Network, Rational, Server, TokenBucket};
use towpath_qos::admission::file::{Asked, Want};
use towpath_qos::topology::{DisciplineName, NodeKind, Port, PortId, Topology};

/// A network, and what no queue has a part in.
pub(super) struct Converted {
    pub(super) network: Network,
    /// Per flow: forwarding and propagation.
    pub(super) fixed: Vec<Duration>,
    /// Requests that bounded channels need not wait for, left out.
    pub(super) left_out: usize,
}

/// Converts what has a bound, or is in the way of it.
pub(super) fn convert(topology: &Topology, asked: &[Asked]) -> anyhow::Result<Converted> {
    let in_order = topology.ports().iter().any(|p| p.scheduler == DisciplineName::Fcfs);
    let counts = |a: &&Asked| match a.want {
        Want::Bounded { .. } => true,
        Want::Statistical { .. } | Want::Share { .. } => in_order,
        Want::BestEffort => false,
    };
    let reserved: Vec<&Asked> = asked.iter().filter(counts).collect();
    if reserved.is_empty() {
        bail!("none of the {} requests asks for a bound on delay", asked.len());
    }
    let routes: Vec<Vec<PortId>> =
        reserved.iter().map(|a| topology.route(a.from, a.to).collect()).collect();
    let mut largest = vec![0_u64; topology.ports().len()];
    for (a, route) in reserved.iter().zip(&routes) {
        if route.is_empty() {
            bail!("request {:?}: a channel to oneself has no bound to compute", a.name);
        }
        for port in route {
            let frame = &mut largest[port.0 as usize];
            *frame = a.demand.packet_bits.max(*frame);
        }
    }
    // Only ports that are passed become servers.
    let mut server_of = vec![usize::MAX; largest.len()];
    let mut servers = Vec::new();
    for (index, port) in topology.ports().iter().enumerate().filter(|(i, _)| largest[*i] > 0) {
        server_of[index] = servers.len();
        servers.push(server(topology, PortId(index as u32), port, largest[index])?);
    }
    let mut flows = Vec::with_capacity(reserved.len());
    let mut fixed = Vec::with_capacity(reserved.len());
    for (a, route) in reserved.iter().zip(&routes) {
        let path = route.iter().map(|p| server_of[p.0 as usize]).collect();
        let piece = |b: &towpath_qos::spec::Bucket| {
            TokenBucket::new(Rational::whole(b.rate_bps), Rational::whole(b.burst_bits))
        };
        let pieces = a.demand.buckets.as_slice().iter().map(piece).collect();
        let arrival = Envelope::min_of(pieces)
            .ok_or_else(|| anyhow!("request {:?}: no arrival curve", a.name))?;
        let ports: Vec<&Port> = route.iter().filter_map(|p| topology.port(*p)).collect();
        let sent = |port: &&Port| {
            let bits = Rational::whole(a.demand.packet_min_bits);
            bits.checked_div(&Rational::whole(port.rate_bps)).unwrap_or_default()
        };
        let flow = Flow {
            frame: Rational::whole(a.demand.packet_bits),
            delay_least: ports.iter().map(sent).sum(),
            ..Flow::new(&a.name, arrival, path)
        };
        flows.push(flow);
        fixed.push(Duration::from_nanos(ports.iter().map(|p| fixed_ns(topology, p)).sum()));
    }
    let left_out = asked.len() - reserved.len();
    Ok(Converted { network: Network::new(servers, flows)?, fixed, left_out })
}

/// Propagation behind a port, and forwarding before it where it is a switch's.
fn fixed_ns(topology: &Topology, port: &Port) -> u64 {
    let node = topology.node(port.node);
    let forwarding = match node.map(|n| &n.kind) {
        Some(NodeKind::Switch { latency_ns, .. }) => *latency_ns,
        _ => 0,
    };
    port.delay_ns.saturating_add(forwarding)
}

fn server(topology: &Topology, id: PortId, port: &Port, frame: u64) -> anyhow::Result<Server> {
    let name = topology.port_name(id).to_string();
    let order = match port.scheduler {
        DisciplineName::Fcfs => Multiplexing::Fifo,
        DisciplineName::Rcsp | DisciplineName::JitterEdf | DisciplineName::Cbq => bail!(
            "port {name}: {} may hold packets back, which these methods do not know\n\
             hint: `towpath reserve` bounds it by its own rule",
            port.scheduler
        ),
        _ => Multiplexing::Blind,
    };
    let rate = Rational::whole(port.rate_bps);
    let in_the_way = if order == Multiplexing::Fifo { 0 } else { port.packet_bits };
    let latency = Rational::whole(in_the_way).checked_div(&rate).unwrap_or_default();
    let frame = Rational::whole(frame);
    let server = Server::new(&name, rate.clone(), latency, order).with_line(rate, frame.clone());
    // A port towards a host is the last of every path through it.
    let last = topology.node(port.peer).is_some_and(|n| matches!(n.kind, NodeKind::Host { .. }));
    Ok(if last { server } else { server.store_and_forward(&frame) })
}
