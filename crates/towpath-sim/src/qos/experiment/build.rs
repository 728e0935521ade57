//! From the names of a scenario to the indices of a network.

use std::collections::{HashMap, VecDeque};

use towpath_qos::scheduler::{Discipline, PortConfig, QueueConfig, QueueId};
use towpath_qos::spec::TSpec;
use towpath_wire::{ByteSize, Rate};

use super::scenario::{Channel, Queues, Scenario, ScenarioError, Send};
use crate::qos::network::{
    FlowSpec, Gate, Hop, Network, NetworkError, Pattern, PortSpec, Sizes, Source,
};

/// Classes where channels of a priority share a queue.
const CLASSES: u32 = 8;

/// A directed link with the node that sends on it.
pub(super) struct Egress {
    pub(super) name: String,
    pub(super) node: usize,
    pub(super) to: usize,
    pub(super) rate_bps: u64,
    propagation_ns: u64,
}

/// A scenario with its names resolved: nodes are hosts, then switches.
pub(super) struct Plan<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) egresses: Vec<Egress>,
    /// Per channel: sending host, receiving host, egresses.
    pub(super) routes: Vec<(u32, u32, Vec<u32>)>,
}

fn unknown(place: &str, what: &'static str, name: &str) -> ScenarioError {
    ScenarioError::Unknown { place: place.into(), what, name: name.into() }
}

impl<'a> Plan<'a> {
    pub(super) fn new(scenario: &'a Scenario) -> Result<Self, ScenarioError> {
        let names = scenario.hosts.iter().map(|h| &h.name);
        let names: Vec<&String> = names.chain(scenario.switches.iter().map(|s| &s.name)).collect();
        let index: HashMap<&str, usize> =
            names.iter().enumerate().map(|(i, n)| (n.as_str(), i)).collect();
        let mut egresses = Vec::new();
        for link in &scenario.links {
            let find = |name: &str| {
                let place = || format!("link {}", link.between.join("-"));
                index.get(name).copied().ok_or_else(|| unknown(&place(), "node", name))
            };
            let [a, b] = [find(&link.between[0])?, find(&link.between[1])?];
            for (node, to) in [(a, b), (b, a)] {
                egresses.push(Egress {
                    name: format!("{}-{}", names[node], names[to]),
                    node,
                    to,
                    rate_bps: link.rate_bps,
                    propagation_ns: link.propagation_ns,
                });
            }
        }
        let mut plan = Self { scenario, egresses, routes: Vec::new() };
        for c in &scenario.channels {
            let host = |name: &str| match index.get(name) {
                Some(i) if *i < scenario.hosts.len() => Ok(*i),
                _ => Err(unknown(&format!("channel {:?}", c.name), "host", name)),
            };
            let (from, to) = (host(&c.from)?, host(&c.to)?);
            let route = plan.route(from, to).ok_or_else(|| ScenarioError::NoRoute {
                channel: c.name.clone(),
                from: c.from.clone(),
                to: c.to.clone(),
            })?;
            plan.routes.push((from as u32, to as u32, route));
        }
        Ok(plan)
    }

    /// The route with fewest links; of several, the one over the links that were written first.
    /// Hosts do not forward. None to itself.
    fn route(&self, from: usize, to: usize) -> Option<Vec<u32>> {
        let nodes = self.scenario.hosts.len() + self.scenario.switches.len();
        let mut came: Vec<Option<u32>> = vec![None; nodes];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if node != from && node < self.scenario.hosts.len() {
                continue;
            }
            for (i, e) in self.egresses.iter().enumerate().filter(|(_, e)| e.node == node) {
                if e.to != from && came[e.to].is_none() {
                    came[e.to] = Some(i as u32);
                    queue.push_back(e.to);
                }
            }
        }
        let (mut route, mut at) = (Vec::new(), to);
        while at != from {
            let egress = came[at]?;
            route.push(egress);
            at = self.egresses[egress as usize].node;
        }
        route.reverse();
        (!route.is_empty()).then_some(route)
    }

    /// What a channel reserves: its share of its sender's link.
    pub(super) fn reserved_bps(&self, channel: usize) -> u64 {
        let first = self.routes[channel].2[0];
        let rate = self.egresses[first as usize].rate_bps;
        rate / 100 * u64::from(self.scenario.channels[channel].share_percent)
    }

    /// The network with all its ports and queues, and the flows of channels that `may_send`.
    pub(super) fn network(
        &self,
        may_send: impl Fn(usize) -> bool,
    ) -> Result<(Network, Vec<Option<u32>>), ScenarioError> {
        let mut net = Network::new(self.scenario.seed);
        for host in &self.scenario.hosts {
            net.add_host(&host.name, host.cpu)?;
        }
        for (i, egress) in self.egresses.iter().enumerate() {
            self.add_port(&mut net, i as u32, egress)?;
        }
        let mut flows = Vec::new();
        for (i, c) in self.scenario.channels.iter().enumerate() {
            if !may_send(i) {
                flows.push(None);
                continue;
            }
            let (from, to, route) = &self.routes[i];
            let hops = route
                .iter()
                .map(|port| {
                    let queue = match self.node(self.egresses[*port as usize].node).1 {
                        Queues::Channel => i as u32,
                        Queues::Class => u32::from(c.priority),
                    };
                    Hop::new(*port, QueueId(queue))
                })
                .collect();
            let flow = net.add_flow(FlowSpec {
                name: c.name.clone(),
                from: *from,
                to: *to,
                hops,
                source: self.source(c)?,
                pacing: c.pacing,
                shaper: None,
                bound_ns: None,
                series: (c.series_skip, c.series_keep),
            })?;
            flows.push(Some(flow));
        }
        Ok((net, flows))
    }

    /// Scheduler, queues, packets per queue and latency of a node.
    fn node(&self, node: usize) -> (&str, Queues, u32, u64) {
        let hosts = &self.scenario.hosts;
        if let Some(h) = hosts.get(node) {
            return (&h.scheduler, h.queues, h.queue_packets, 0);
        }
        let s = &self.scenario.switches[node - hosts.len()];
        (&s.scheduler, s.queues, s.queue_packets, s.latency_ns)
    }

    fn add_port(
        &self,
        net: &mut Network,
        index: u32,
        egress: &Egress,
    ) -> Result<(), ScenarioError> {
        let (scheduler, queues, packets, _) = self.node(egress.node);
        let discipline = Discipline::by_name(scheduler)
            .ok_or_else(|| unknown(&egress.name, "scheduler", scheduler))?;
        let channels = &self.scenario.channels;
        let here = |i: &usize| self.routes[*i].2.contains(&index);
        let ids: Vec<usize> = match queues {
            Queues::Channel => (0..channels.len()).filter(here).collect(),
            Queues::Class => (0..CLASSES as usize).collect(),
        };
        let largest = channels.iter().map(|c| c.packet_bytes).max().unwrap_or(1500);
        let config = PortConfig {
            rate: Rate::from_bps(egress.rate_bps),
            packet_bytes_max: largest + self.scenario.overhead_bytes,
            queues_max: ids.last().map_or(1, |i| *i as u32 + 1),
            packets_max: (packets * ids.len() as u32).max(1),
        };
        // A packet waits for the next node's processing before it can be queued there.
        let latency_ns = egress.propagation_ns + self.node(egress.to).3;
        let name = egress.name.clone();
        net.add_port(PortSpec { name, discipline, config, latency_ns })?;
        for id in ids {
            let queue = match queues {
                Queues::Channel => self.channel_queue(id, packets),
                Queues::Class => QueueConfig {
                    rate: Rate::from_bps(egress.rate_bps / u64::from(CLASSES)),
                    priority: id as u8,
                    packets_max: packets,
                    ..QueueConfig::default()
                },
            };
            net.add_queue(index, QueueId(id as u32), &queue)?;
        }
        Ok(())
    }

    fn channel_queue(&self, channel: usize, packets: u32) -> QueueConfig {
        let c = &self.scenario.channels[channel];
        let wire = u64::from(c.packet_bytes + self.scenario.overhead_bytes);
        QueueConfig {
            rate: Rate::from_bps(self.reserved_bps(channel).max(1_000_000)),
            weight: (c.share_percent / self.share_unit()).max(1) as u16,
            priority: c.priority,
            burst: ByteSize::from_bytes(wire),
            delay: core::time::Duration::from_micros(c.budget_us),
            packets_max: packets,
            ..QueueConfig::default()
        }
    }

    /// Greatest common divisor of all shares: round robins work in small turns.
    fn share_unit(&self) -> u32 {
        let gcd = |mut a: u32, mut b: u32| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        self.scenario.channels.iter().map(|c| c.share_percent).fold(0, gcd).max(1)
    }

    fn source(&self, c: &Channel) -> Result<Source, ScenarioError> {
        let sizes = Sizes::Fixed(c.packet_bytes + self.scenario.overhead_bytes);
        let interval =
            |rate_bps: u64| (u64::from(c.packet_bytes) * 8_000_000_000).div_ceil(rate_bps);
        let pattern = match &c.send {
            Send::Saturating | Send::Greedy { .. } => Pattern::Greedy(Gate::Open),
            Send::Periodic { rate_bps, jitter_us } => {
                Pattern::Periodic { interval_ns: interval(*rate_bps), jitter_ns: jitter_us * 1000 }
            }
            Send::Poisson { rate_bps } => Pattern::Poisson { mean_ns: interval(*rate_bps) },
        };
        let mut source = Source::new(pattern, sizes);
        if let Send::Greedy { spec } = &c.send {
            let fail = |error| ScenarioError::Spec { channel: c.name.clone(), error };
            source.spec = Some(TSpec::try_from(spec.clone()).map_err(fail)?);
        }
        if c.start_us > 3_600_000_000 {
            let of = format!("channel {:?}", c.name);
            let must = "at most an hour";
            return Err(
                NetworkError::Range { of, field: "start_us", value: c.start_us, must }.into()
            );
        }
        source.start_ns = c.start_us * 1000;
        Ok(source)
    }
}
