//! From promises to a network that must keep them.

use core::time::Duration;

use towpath_proto::Rng;
use towpath_qos::admission::{Promise, PromisedHop};
use towpath_qos::scheduler::{Discipline, PortConfig, QueueConfig, QueueId, Service};
use towpath_qos::spec::{SigmaRho, TSpec};
use towpath_qos::topology::{DisciplineName, Node, NodeKind, Port, Topology};
use towpath_wire::{ByteSize, Rate};

use super::attack::Attack;
use super::draw::Wanted;
use crate::qos::cpu::Sharing;
use crate::qos::network::{
    Early, FlowSpec, Gate, Hop, HostSpec, Network, NetworkError, Pacing, Pattern, PortSpec, Sizes,
    Source,
};

/// An admitted channel.
#[derive(Clone, Debug)]
pub struct Channel {
    /// What was asked.
    pub wanted: Wanted,
    /// What was promised.
    pub promise: Promise,
}

/// A network with a flow per channel, in their order.
pub struct Deployment {
    /// The network, at time zero.
    pub net: Network,
    /// The channels' flows.
    pub flows: Vec<u32>,
}

/// Nobody sends more than this many packets at once in a drawn network.
const QUEUE_PACKETS_MAX: u64 = 4096;

/// Builds the network of a topology with queues as promised, and sources as the attack has them.
pub fn deploy(
    topology: &Topology,
    channels: &[Channel],
    attack: &Attack,
    seed: u64,
) -> Result<Deployment, NetworkError> {
    let mut net = Network::new(seed);
    for node in topology.nodes() {
        net.add_host(&node.name, host(node))?;
    }
    // Unreserved packets come from elsewhere and take no processor time here.
    let elsewhere = net.add_host("elsewhere", HostSpec::default())?;
    let mut used: Vec<Vec<(usize, &PromisedHop)>> = vec![Vec::new(); topology.ports().len()];
    for (i, channel) in channels.iter().enumerate() {
        for hop in &channel.promise.hops {
            used[hop.port_id as usize].push((i, hop));
        }
    }
    let mut hops: Vec<Vec<Hop>> = vec![Vec::new(); channels.len()];
    for (port, used) in topology.ports().iter().zip(&used) {
        let index = add_port(&mut net, topology, port, channels, used)?;
        for (queue, (channel, promised)) in used.iter().enumerate() {
            let mut hop = Hop::new(index, QueueId(queue as u32));
            let budget_ns = promised.delay_ns;
            hop.early = match port.scheduler {
                DisciplineName::JitterEdf => Early::Hold { budget_ns },
                _ => Early::Carry { budget_ns },
            };
            hops[*channel].push(hop);
        }
        if port.scheduler != DisciplineName::Fcfs && !used.is_empty() {
            let queue = QueueId(used.len() as u32);
            add_bulk(&mut net, port, (elsewhere, index, queue), attack)?;
        }
    }
    let mut rng = Rng::new(seed, 0x0a77_ac4a);
    let mut flows = Vec::new();
    for (i, channel) in channels.iter().enumerate() {
        let route = order(&channel.promise, &hops[i], &used, i);
        flows.push(net.add_flow(FlowSpec {
            name: format!("channel {i}"),
            from: channel.wanted.request.from.0,
            to: channel.wanted.request.to.0,
            hops: route,
            source: attack.source(&mut rng, i, channel),
            pacing: Pacing::Open,
            shaper: Some(channel.wanted.spec.clone()),
            bound_ns: channel.promise.delay_ns,
            series: (0, 0),
        })?);
    }
    Ok(Deployment { net, flows })
}

/// A channel's hops in the order of its route.
fn order(
    promise: &Promise,
    hops: &[Hop],
    used: &[Vec<(usize, &PromisedHop)>],
    channel: usize,
) -> Vec<Hop> {
    let queue = |port: u32| used[port as usize].iter().position(|(i, _)| *i == channel);
    let hop = |h: &PromisedHop| {
        hops.iter()
            .copied()
            .find(|hop| hop.port == h.port_id && Some(hop.queue.0 as usize) == queue(h.port_id))
    };
    promise.hops.iter().filter_map(hop).collect()
}

/// A host's processor as admission takes it: never away for longer than `blocking_ns`, with at
/// least `limit_ppm` of its time. A periodic reservation of Q in P is away for at most 2(P − Q).
fn host(node: &Node) -> HostSpec {
    let NodeKind::Host { cpu: Some(cpu) } = &node.kind else { return HostSpec::default() };
    let share = u64::from(cpu.limit_ppm);
    let period_us = (cpu.blocking_ns / 1000 * 500_000 / (1_000_000 - share).max(1)).max(1);
    let runtime_us = (period_us * share).div_ceil(1_000_000).min(period_us);
    HostSpec {
        sharing: Sharing::Reserved { runtime_us, period_us },
        send_ns: cpu.packet_ns,
        send_ns_per_kib: cpu.byte_ps * 1024 / 1000,
        receive_ns: cpu.packet_ns,
        receive_ns_per_kib: cpu.byte_ps * 1024 / 1000,
        ..HostSpec::default()
    }
}

/// The scheduler that keeps a port's promises beside unreserved traffic: for EDF its three-queue
/// form, whose deterministic queues are plain EDF.
pub const fn discipline(name: DisciplineName) -> Discipline {
    match name {
        DisciplineName::Fcfs => Discipline::Fcfs,
        DisciplineName::StaticPriority => Discipline::StaticPriority,
        DisciplineName::Rcsp => Discipline::Rcsp,
        DisciplineName::Edf => Discipline::ThreeQueue,
        DisciplineName::JitterEdf => Discipline::JitterEdd,
        DisciplineName::Hfsc => Discipline::Hfsc,
        DisciplineName::Wfq => Discipline::Wfq,
        DisciplineName::Wf2qPlus => Discipline::Wf2q,
        DisciplineName::VirtualClock => Discipline::VirtualClock,
        DisciplineName::Cbq => Discipline::CbqTopLevel,
        DisciplineName::Drr => Discipline::Drr,
        DisciplineName::Scfq => Discipline::Scfq,
    }
}

fn add_port(
    net: &mut Network,
    topology: &Topology,
    port: &Port,
    channels: &[Channel],
    used: &[(usize, &PromisedHop)],
) -> Result<u32, NetworkError> {
    let next = topology.node(port.peer).map(|n| &n.kind);
    let processing_ns = match next {
        Some(NodeKind::Switch { latency_ns, .. }) => *latency_ns,
        _ => 0,
    };
    // Exactly what admission took: DRR's quanta are multiples of it.
    let packet_bytes_max = (port.packet_bits / 8) as u32;
    let packets = |i: usize, hop: &PromisedHop| {
        let least = u64::from(channels[i].wanted.packets.0) * 8;
        (hop.buffer_bits / least + 2).min(QUEUE_PACKETS_MAX) as u32
    };
    let total: u32 = used.iter().map(|(i, hop)| packets(*i, hop)).sum();
    let index = net.add_port(PortSpec {
        name: port.name.clone(),
        discipline: discipline(port.scheduler),
        config: PortConfig {
            rate: Rate::from_bps(port.rate_bps),
            packet_bytes_max,
            queues_max: used.len() as u32 + 1,
            packets_max: total + BULK_PACKETS,
        },
        latency_ns: port.delay_ns + processing_ns,
    })?;
    for (queue, (i, hop)) in used.iter().enumerate() {
        let bytes_max = hop.buffer_bits.div_ceil(8).max(packet_bytes_max.into());
        let config = QueueConfig {
            // With a service curve this is its second slope.
            rate: Rate::from_bps(hop.curve.map_or(hop.rate_bps, |(_, _, bps)| bps)),
            priority: hop.level.unwrap_or(0),
            burst: ByteSize::from_bytes(hop.burst_bits.div_ceil(8)),
            delay: Duration::from_nanos(hop.delay_ns),
            packets_max: packets(*i, hop),
            bytes_max: bytes_max.min(u32::MAX.into()) as u32,
            service: Service::Deterministic,
            first: hop.curve.map(|(bps, ns, _)| (Rate::from_bps(bps), Duration::from_nanos(ns))),
            weight: hop.weight.unwrap_or(1).min(u16::MAX.into()) as u16,
            ..QueueConfig::default()
        };
        net.add_queue(index, QueueId(queue as u32), &config)?;
    }
    let reserved: u64 = used.iter().map(|(_, hop)| hop.rate_bps).sum();
    let left = port.rate_bps.saturating_sub(reserved).max(1000);
    let bulk = QueueConfig {
        // HFSC: no real-time curve, only link sharing.
        rate: Rate::from_bps(if port.scheduler == DisciplineName::Hfsc { 0 } else { left }),
        share: Some(Rate::from_bps(left)),
        priority: 63,
        burst: ByteSize::from_bytes(port.packet_bits / 8 * u64::from(BULK_PACKETS)),
        delay: Duration::from_secs(4),
        packets_max: BULK_PACKETS,
        service: Service::BestEffort,
        ..QueueConfig::default()
    };
    net.add_queue(index, QueueId(used.len() as u32), &bulk)?;
    Ok(index)
}

const BULK_PACKETS: u32 = 16;

/// Unreserved packets of the largest size, just ahead of the bursts and again and again: what an
/// urgent packet may have to wait for. They take a tenth of the link.
fn add_bulk(
    net: &mut Network,
    port: &Port,
    (host, index, queue): (u32, u32, QueueId),
    attack: &Attack,
) -> Result<(), NetworkError> {
    let bytes = (port.packet_bits / 8) as u32;
    let rate = Rate::from_bps(port.rate_bps / 10);
    let sigma = ByteSize::from_bytes(u64::from(bytes) * 4);
    let (Ok(spec), true) = (SigmaRho::new(sigma, rate), bytes > 0) else { return Ok(()) };
    let mut source = Source::greedy(TSpec::SigmaRho(spec), bytes, attack.meet_ns() - 1);
    let refill_ns = u64::from(bytes) * 320_000_000_000 / port.rate_bps;
    source.sizes = Sizes::Fixed(bytes);
    source.pattern = Pattern::Greedy(Gate::Random { on: refill_ns, off: refill_ns });
    source.stop_ns = attack.stop_ns();
    net.add_flow(FlowSpec {
        name: "bulk".into(),
        from: host,
        to: host,
        hops: vec![Hop::new(index, queue)],
        source,
        pacing: Pacing::Open,
        shaper: None,
        bound_ns: None,
        series: (0, 0),
    })?;
    Ok(())
}
