//! The decision on one request: source, destination, then the whole route.

use alloc::vec::Vec;

use towpath_wire::units::nanos;

use super::crowd::{Member, strictness};
use super::load::Load;
use super::plan::{Ask, AtHop, Budgeting, Totals};
use super::port::{Slot, SlotKind};
use super::ports::Network;
use super::refusal::{Phase, Refusal, Resource, Shortage};
use super::request::{Request, Wish};
use crate::spec::limits::INTERVAL_NS_MAX;
use crate::topology::{HOPS_MAX, Topology};

/// What stands in the way, before names are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Obstacle {
    pub(super) phase: Phase,
    pub(super) at: Place,
    pub(super) shortage: Shortage,
    /// The least bound that passes, where that is all that lacks.
    pub(super) least_ns: Option<u64>,
    /// What the wish left for queues, where that was asked.
    pub(super) queues_ns: u64,
}

/// Where an obstacle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Request,
    Cpu(u32),
    Port(u32),
    Route,
}

impl Obstacle {
    const fn new(phase: Phase, at: Place, shortage: Shortage) -> Self {
        Self { phase, at, shortage, least_ns: None, queues_ns: 0 }
    }
}

impl Ask {
    pub(super) fn of(request: &Request) -> Self {
        Self {
            load: Load::of(&request.demand),
            counted_bits: request.demand.counted_bits,
            kept_bits: request.demand.kept_bits,
            from: request.from.0,
            to: request.to.0,
            wish: request.wish,
        }
    }
}

/// The route of a request between two different hosts.
pub(super) fn check_request<'r>(
    topology: &Topology,
    ask: &Ask,
    route: &'r mut [u32; HOPS_MAX],
) -> Result<&'r [u32], Obstacle> {
    let obstacle = |shortage| Obstacle::new(Phase::Request, Place::Request, shortage);
    let hosts = topology.hosts().count() as u32;
    for node in [ask.from, ask.to] {
        if node >= hosts {
            return Err(obstacle(Shortage::NoHost(node)));
        }
    }
    if ask.from == ask.to {
        return Err(obstacle(Shortage::ToItself));
    }
    let (from, to) = (crate::topology::NodeId(ask.from), crate::topology::NodeId(ask.to));
    let mut hops = 0;
    for (place, port) in route.iter_mut().zip(topology.route(from, to)) {
        *place = port.0;
        hops += 1;
    }
    debug_assert!(hops > 0, "every host reaches every other");
    Ok(&route[..hops])
}

impl Network {
    /// Decides a request. On success `slots` is its plan; nothing has been reserved.
    pub(super) fn decide(
        &self,
        topology: &Topology,
        ask: &Ask,
        slots: &mut Vec<Slot>,
    ) -> Result<Totals, Obstacle> {
        self.decide_as(topology, ask, Budgeting::Loose, slots)
    }

    /// The same, with budgets that are no more than they have to be.
    pub(super) fn decide_least(
        &self,
        topology: &Topology,
        ask: &Ask,
        slots: &mut Vec<Slot>,
    ) -> Result<Totals, Obstacle> {
        self.decide_as(topology, ask, Budgeting::Least, slots)
    }

    fn decide_as(
        &self,
        topology: &Topology,
        ask: &Ask,
        budgeting: Budgeting,
        slots: &mut Vec<Slot>,
    ) -> Result<Totals, Obstacle> {
        let mut route = [0_u32; HOPS_MAX];
        let route = check_request(topology, ask, &mut route)?;
        let rate_bps = ask.load.rate_bps();
        let hard = !matches!(ask.wish, Wish::Statistical { .. });
        let mut totals = Totals {
            source_work: self.cpu(ask.from).work(&ask.load, ask.counted_bits),
            ..Totals::default()
        };
        let port_check = |phase, port: u32| -> Result<(), Obstacle> {
            let obstacle = |shortage| Obstacle::new(phase, Place::Port(port), shortage);
            let state = self.port(port);
            state
                .check_rate(if hard { rate_bps } else { 0 }, ask.load.packet_bits)
                .map_err(obstacle)?;
            state.check_turns(rate_bps).map_err(obstacle)?;
            let free = self.free_fabric_bps(port);
            if rate_bps > free {
                return Err(obstacle(Shortage::RateBps { asked: rate_bps, free }));
            }
            Ok(())
        };
        // Phase one: both ends. What the receiver's processor must take in is known after the
        // route is; here its rate is tested, with the burst as it was sent.
        let cpu = |phase, node: u32, work| {
            let of = |shortage| Obstacle::new(phase, Place::Cpu(node), shortage);
            self.cpu(node).check(work).map_err(of)
        };
        cpu(Phase::Source, ask.from, totals.source_work)?;
        port_check(Phase::Source, route[0])?;
        let arriving = self.cpu(ask.to).work(&ask.load, ask.counted_bits);
        cpu(Phase::Destination, ask.to, arriving)?;
        port_check(Phase::Destination, route[route.len() - 1])?;
        // Phase two: the whole route.
        for &port in &route[..route.len() - 1] {
            port_check(Phase::Route, port)?;
        }
        let mut receive = |budgeting| -> Result<Totals, Obstacle> {
            let jitter_ns = self.place_all(ask, route, budgeting, slots, &mut totals)?;
            let received = ask.load.after(jitter_ns);
            totals.destination_work = self.cpu(ask.to).work(&received, ask.counted_bits);
            cpu(Phase::Destination, ask.to, totals.destination_work)?;
            Ok(totals)
        };
        // Loose budgets bunch packets up at the receiver: if that is too much for its processor,
        // or for the jitter asked for, the least budgets may not be.
        match receive(budgeting) {
            decided if budgeting == Budgeting::Least => decided,
            Err(obstacle @ Obstacle { at: Place::Cpu(_), .. }) => {
                receive(Budgeting::Least).map_err(|_| obstacle)
            }
            Err(Obstacle { at: Place::Route, .. }) => receive(Budgeting::Least),
            decided => decided,
        }
    }

    /// Places a channel of any kind on its route; sets the totals; gives the variation with
    /// which its packets reach the receiver.
    fn place_all(
        &self,
        ask: &Ask,
        route: &[u32],
        budgeting: Budgeting,
        slots: &mut Vec<Slot>,
        totals: &mut Totals,
    ) -> Result<u64, Obstacle> {
        let at_hop =
            |(hop, shortage): AtHop| Obstacle::new(Phase::Route, Place::Port(route[hop]), shortage);
        let fixed_ns = self.fixed_of_route(ask, route);
        match ask.wish {
            Wish::Bounded { delay, jitter } => {
                let left_ns = self.left_for_queues(ask, route, nanos(delay), fixed_ns)?;
                let found = self.budgets(ask, route, (left_ns, budgeting), slots);
                let (queued, spread) = found.map_err(|none| {
                    let mut obstacle = at_hop(none.at);
                    obstacle.queues_ns = left_ns;
                    let Some((queued, spread)) = none.least else { return obstacle };
                    // In the terms of the wish, all parts counted.
                    let (asked, least) = (nanos(delay), fixed_ns.saturating_add(queued));
                    if least > asked {
                        obstacle.shortage = Shortage::DelayNs { asked, least };
                        obstacle.least_ns = Some(least);
                    } else if let Some(asked) = jitter.map(nanos) {
                        let least = self.variation(ask, spread);
                        let shortage = Shortage::JitterNs { asked, least };
                        obstacle = Obstacle::new(Phase::Route, Place::Route, shortage);
                    }
                    obstacle
                })?;
                totals.delay_ns = fixed_ns.saturating_add(queued);
                totals.jitter_ns = self.variation(ask, spread);
                if let Some(asked) = jitter.map(nanos)
                    && totals.jitter_ns > asked
                {
                    let shortage = Shortage::JitterNs { asked, least: totals.jitter_ns };
                    return Err(Obstacle::new(Phase::Route, Place::Route, shortage));
                }
                Ok(spread)
            }
            Wish::Share { .. } => {
                self.shares(ask, route, SlotKind::Share, slots).map_err(at_hop)?;
                Ok(0)
            }
            Wish::Statistical { delay, late_ppm } => {
                let member = self.member(ask, route, late_ppm);
                for (hop, &port) in route.iter().enumerate() {
                    self.port(port).check_member(member).map_err(|s| at_hop((hop, s)))?;
                }
                self.left_for_queues(ask, route, nanos(delay), fixed_ns)?;
                self.shares(ask, route, SlotKind::Statistical(member), slots).map_err(at_hop)?;
                totals.delay_ns = nanos(delay);
                totals.jitter_ns = self.variation(ask, nanos(delay) - fixed_ns);
                Ok(0)
            }
        }
    }

    /// A statistical channel as the crowds at its hops count it.
    pub(super) fn member(&self, ask: &Ask, route: &[u32], late_ppm: u32) -> Member {
        let line_bps = self.port(route[0]).rate_bps();
        let peak_bps = if ask.load.fast == ask.load.slow {
            line_bps
        } else {
            ask.load.fast.rate_bps.min(line_bps)
        };
        let strict = strictness(late_ppm, route.len());
        Member { mean_bps: ask.load.rate_bps(), peak_bps, strict }
    }

    /// Processors at both ends, switch latencies and propagation.
    pub(super) fn fixed_of_route(&self, ask: &Ask, route: &[u32]) -> u64 {
        let links: u64 = route.iter().map(|&port| self.fixed_ns(port)).sum();
        links + self.cpu(ask.from).budget_ns() + self.cpu(ask.to).budget_ns()
    }

    /// The variation of delay from end to end: what queues and the processors at both ends may
    /// take, of which those may also take nothing.
    pub(super) fn variation(&self, ask: &Ask, queues_ns: u64) -> u64 {
        let cpus = self.cpu(ask.from).budget_ns().saturating_add(self.cpu(ask.to).budget_ns());
        queues_ns.saturating_add(cpus)
    }

    /// What a wish leaves for queues and transmission. A jitter bound is one on them, too: the
    /// delay varies by no more than it exceeds the fastest packet's, and by the processors' part.
    fn left_for_queues(
        &self,
        ask: &Ask,
        route: &[u32],
        delay_ns: u64,
        fixed_ns: u64,
    ) -> Result<u64, Obstacle> {
        let left = delay_ns.checked_sub(fixed_ns).filter(|&left| left > 0);
        let Some(left) = left else {
            let shortage = Shortage::Unreachable { asked: delay_ns, fixed: fixed_ns };
            return Err(Obstacle::new(Phase::Request, Place::Request, shortage));
        };
        let left = left.min(INTERVAL_NS_MAX);
        let Wish::Bounded { jitter: Some(jitter), .. } = ask.wish else { return Ok(left) };
        if route.iter().any(|&port| self.port(port).holds()) {
            return Ok(left);
        }
        let fastest = route.iter().fold(0_u64, |sum, &port| {
            let rate_bps = self.port(port).rate_bps();
            sum.saturating_add(super::load::time_down(ask.load.packet_min_bits, rate_bps))
        });
        let jitter = nanos(jitter).saturating_sub(self.variation(ask, 0));
        Ok(left.min(jitter.saturating_add(fastest)))
    }

    /// Rate and memory at each hop, without a delay: room for the burst.
    pub(super) fn shares(
        &self,
        ask: &Ask,
        route: &[u32],
        kind: SlotKind,
        slots: &mut Vec<Slot>,
    ) -> Result<(), AtHop> {
        slots.clear();
        for (hop, &port) in route.iter().enumerate() {
            let (asked, free) = (ask.load.slow.burst_bits, self.free_memory_bits(port));
            if asked > free {
                return Err((hop, Shortage::MemoryBits { asked, free }));
            }
            slots.push(Slot {
                port,
                level: match ask.wish {
                    Wish::Share { priority } => priority,
                    _ => 0,
                },
                kind,
                budget_ns: 0,
                jitter_ns: 0,
                rate_bps: ask.load.rate_bps(),
                memory_bits: asked,
                pieces: Default::default(),
            });
        }
        Ok(())
    }

    /// Names an obstacle and looks for what would pass.
    pub(super) fn refusal(
        &self,
        topology: &Topology,
        ask: &Ask,
        obstacle: &Obstacle,
        scratch: &mut Vec<Slot>,
    ) -> Refusal {
        let (nearest, nothing_passes) = self.nearest(topology, ask, obstacle, scratch);
        Refusal { nearest, nothing_passes, ..self.why(topology, ask, obstacle) }
    }

    /// Names an obstacle.
    pub(super) fn why(&self, topology: &Topology, ask: &Ask, obstacle: &Obstacle) -> Refusal {
        let host = |node: u32| topology.nodes()[node as usize].name.clone();
        let resource = match obstacle.at {
            Place::Request => Resource::Table,
            Place::Cpu(node) => Resource::Cpu(host(node)),
            Place::Port(port) => self.resource(topology, port, &obstacle.shortage),
            Place::Route => {
                Resource::Route(alloc::format!("{} to {}", host(ask.from), host(ask.to)))
            }
        };
        let (phase, shortage) = (obstacle.phase, obstacle.shortage);
        Refusal { phase, resource, shortage, nearest: None, nothing_passes: false }
    }
}
