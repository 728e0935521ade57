//! From a request to budgets on its route: what would be reserved, if it passes.
//!
//! A channel arrives at hop k with the curve `α(t + J_k)`, `J_k` being the variation that the
//! *promised* budgets of the hops before allow: `Σ_{j<k} (d_j − least transmission)`. That is what
//! makes an admission local: no later admission can change a promise, so no burst grows. A port
//! that reshapes takes J back to 0.
//!
//! Budgets are tried in this order: shares of what the wish leaves, equal per hop (loose budgets
//! leave room for urgent channels to come); then each hop's least, which is feasible whenever any
//! split is, because the least budgets before a hop make its burst the least; then least budgets
//! with the rest spread.

use alloc::vec::Vec;

use towpath_wire::units::nanos;

use super::cpu::Work;
use super::load::{Load, time_down};
use super::port::{PortState, Slot, SlotKind};
use super::ports::Network;
use super::rate_based::{RateHop, least_rate_bps, run_delay_ns};
use super::refusal::Shortage;
use super::request::Wish;
use crate::spec::limits::INTERVAL_NS_MAX;
use crate::topology::HOPS_MAX;

/// A request as the tests take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) load: Load,
    pub(super) counted_bits: u64,
    /// What scaled traffic has as well.
    pub(super) kept_bits: [u64; 2],
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) wish: Wish,
}

/// Sums over a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Bound on delay, all parts; 0 for a share.
    pub(super) delay_ns: u64,
    /// Bound on its variation, all parts; 0 for a share.
    pub(super) jitter_ns: u64,
    pub(super) source_work: Work,
    pub(super) destination_work: Work,
}

/// Whether what a wish leaves is spent on budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budgeting {
    /// As far as it passes.
    Loose,
    /// No more than each hop's least.
    Least,
}

/// How budgets are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    /// Equal shares of this much.
    Even(u64),
    /// The least at each hop, and an equal share of this much on top.
    LeastAnd(u64),
    /// As they are in the slots.
    Kept,
}

/// A test that did not pass, and at which hop of the route.
pub(super) type AtHop = (usize, Shortage);

/// No split of what a wish leaves for queues passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoBudgets {
    pub(super) at: AtHop,
    /// The least budgets and their variation, where they are there and are too much.
    pub(super) least: Option<(u64, u64)>,
}

/// Walks a route hop by hop, placing a load.
struct Walk<'a> {
    network: &'a Network,
    source: Load,
    /// Variation since the last regulator: what bursts grow by.
    jitter_ns: u64,
    /// Variation in all, since packets were last held.
    spread_ns: u64,
    delay_ns: u64,
}

impl Network {
    /// Sets budgets for a bounded channel. `left_ns` is what the wish leaves for queues. On
    /// success `slots` holds the plan and the answer is (Σ budgets, variation).
    pub(super) fn budgets(
        &self,
        ask: &Ask,
        route: &[u32],
        (left_ns, budgeting): (u64, Budgeting),
        slots: &mut Vec<Slot>,
    ) -> Result<(u64, u64), NoBudgets> {
        if budgeting == Budgeting::Loose
            && let Ok(found) = self.walk(&ask.load, route, Split::Even(left_ns), slots)
            && found.0 <= left_ns
        {
            return Ok(found);
        }
        let least = self.walk(&ask.load, route, Split::LeastAnd(0), slots);
        let least = least.map_err(|at| NoBudgets { at, least: None })?;
        if least.0 > left_ns {
            // The hop that needs most is the bottleneck.
            let most = slots.iter().enumerate().max_by_key(|(_, slot)| slot.budget_ns);
            let shortage = Shortage::DelayNs { asked: left_ns, least: least.0 };
            let at = (most.map_or(0, |(hop, _)| hop), shortage);
            return Err(NoBudgets { at, least: Some(least) });
        }
        let rest = left_ns - least.0;
        if rest > left_ns / 16 && budgeting == Budgeting::Loose {
            let mut raised = Vec::with_capacity(route.len());
            let spread = self.walk(&ask.load, route, Split::LeastAnd(rest), &mut raised);
            if let Ok(found) = spread
                && found.0 <= left_ns
            {
                *slots = raised;
                return Ok(found);
            }
        }
        Ok(least)
    }

    /// Plans a reservation anew: from its request and the budgets that were promised (the rate,
    /// where the scheduler is rate-based), everything else follows. `None` where no such plan
    /// keeps the request's bounds. On success `slots` is the plan.
    pub(super) fn replan(
        &self,
        ask: &Ask,
        route: &[u32],
        promised: &[Slot],
        slots: &mut Vec<Slot>,
    ) -> Option<Totals> {
        let (from, to) = (self.cpu(ask.from), self.cpu(ask.to));
        let fixed_ns = self.fixed_of_route(ask, route);
        let mut totals =
            Totals { source_work: from.work(&ask.load, ask.counted_bits), ..Totals::default() };
        let mut spread_ns = 0;
        match ask.wish {
            Wish::Bounded { delay, jitter } => {
                let queued;
                (queued, spread_ns) = self.replan_hops(ask, route, promised, slots)?;
                totals.delay_ns = fixed_ns.checked_add(queued)?;
                totals.jitter_ns = self.variation(ask, spread_ns);
                let late = jitter.is_some_and(|jitter| totals.jitter_ns > nanos(jitter));
                if totals.delay_ns > nanos(delay) || late {
                    return None;
                }
            }
            Wish::Share { .. } => self.shares(ask, route, SlotKind::Share, slots).ok()?,
            Wish::Statistical { delay, late_ppm } => {
                let mut member = self.member(ask, route, late_ppm);
                self.shares(ask, route, SlotKind::Statistical(member), slots).ok()?;
                // What is counted may have been measured since, never above what was declared.
                for (slot, promised) in slots.iter_mut().zip(promised) {
                    let SlotKind::Statistical(counted) = promised.kind else { return None };
                    member.mean_bps = counted.mean_bps.min(ask.load.rate_bps());
                    slot.kind = SlotKind::Statistical(member);
                }
                totals.delay_ns = nanos(delay);
                totals.jitter_ns = self.variation(ask, nanos(delay).checked_sub(fixed_ns)?);
            }
        }
        totals.destination_work = to.work(&ask.load.after(spread_ns), ask.counted_bits);
        Some(totals)
    }

    fn replan_hops(
        &self,
        ask: &Ask,
        route: &[u32],
        promised: &[Slot],
        slots: &mut Vec<Slot>,
    ) -> Option<(u64, u64)> {
        slots.clear();
        let mut walk =
            Walk { network: self, source: ask.load, jitter_ns: 0, spread_ns: 0, delay_ns: 0 };
        let mut hop = 0;
        while hop < route.len() {
            let run = run_length(self, &route[hop..]);
            let (state, first) = (self.port(route[hop]), promised.get(hop)?);
            if state.is_rate_based() {
                if first.rate_bps < ask.load.rate_bps() {
                    return None;
                }
                walk.keep_run(&route[hop..hop + run], first.rate_bps, slots).ok()?;
            } else {
                let place = state.place_again(&walk.arriving(state), first)?;
                walk.keep(route[hop], place, slots).ok()?;
            }
            hop += run;
        }
        Some((walk.delay_ns, walk.spread_ns))
    }

    /// Another load of a bounded channel within the budgets that `slots` has: its totals, if it
    /// passes and no part of the old promise gets worse. The old load must have been taken away.
    pub(super) fn refit(&self, ask: &Ask, old: &Totals, slots: &mut Vec<Slot>) -> Option<Totals> {
        let (from, to) = (self.cpu(ask.from), self.cpu(ask.to));
        let mut totals =
            Totals { source_work: from.work(&ask.load, ask.counted_bits), ..Totals::default() };
        from.check(totals.source_work).ok()?;
        for slot in slots.iter() {
            let (rate_bps, packet_bits) = (ask.load.rate_bps(), ask.load.packet_bits);
            self.port(slot.port).check_rate(rate_bps, packet_bits).ok()?;
            self.port(slot.port).check_turns(rate_bps).ok()?;
            if rate_bps > self.free_fabric_bps(slot.port) {
                return None;
            }
        }
        let queued: u64 = slots.iter().map(|slot| slot.budget_ns).sum();
        let route: Vec<u32> = slots.iter().map(|slot| slot.port).collect();
        let (delay_ns, spread_ns) = self.walk(&ask.load, &route, Split::Kept, slots).ok()?;
        if delay_ns > queued || self.variation(ask, spread_ns) > old.jitter_ns {
            return None;
        }
        totals.destination_work = to.work(&ask.load.after(spread_ns), ask.counted_bits);
        to.check(totals.destination_work).ok()?;
        totals.delay_ns = old.delay_ns - (queued - delay_ns);
        totals.jitter_ns = self.variation(ask, spread_ns);
        Some(totals)
    }

    fn walk(
        &self,
        load: &Load,
        route: &[u32],
        split: Split,
        slots: &mut Vec<Slot>,
    ) -> Result<(u64, u64), AtHop> {
        let kept: Vec<u64> = match split {
            Split::Kept => slots.iter().map(|slot| slot.budget_ns).collect(),
            Split::Even(_) | Split::LeastAnd(_) => Vec::new(),
        };
        slots.clear();
        let mut walk =
            Walk { network: self, source: *load, jitter_ns: 0, spread_ns: 0, delay_ns: 0 };
        let mut left = match split {
            Split::Even(left) | Split::LeastAnd(left) => left,
            Split::Kept => 0,
        };
        let mut hop = 0;
        while hop < route.len() {
            let run = run_length(self, &route[hop..]);
            let hops = (route.len() - hop) as u64;
            let share = left / hops * run as u64 + left % hops;
            let before = walk.delay_ns;
            match split {
                Split::Even(_) => {
                    walk.stage(&route[hop..hop + run], share, slots).map_err(|s| (hop, s))?;
                    left = left.saturating_sub(walk.delay_ns - before);
                }
                Split::LeastAnd(_) => {
                    let rest = left / hops * run as u64;
                    walk.least_stage(&route[hop..hop + run], rest, slots).map_err(|s| (hop, s))?;
                    left -= rest;
                }
                Split::Kept => {
                    let share = kept[hop..hop + run].iter().sum();
                    walk.stage(&route[hop..hop + run], share, slots).map_err(|s| (hop, s))?;
                }
            }
            hop += run;
        }
        Ok((walk.delay_ns, walk.spread_ns))
    }
}

/// Ports from the first on that are placed together: a run of rate-based ones, or one.
fn run_length(network: &Network, route: &[u32]) -> usize {
    route.iter().take_while(|&&port| network.port(port).is_rate_based()).count().max(1)
}

impl Walk<'_> {
    /// Places a stage within `budget_ns`.
    fn stage(
        &mut self,
        ports: &[u32],
        budget_ns: u64,
        slots: &mut Vec<Slot>,
    ) -> Result<(), Shortage> {
        let state = self.network.port(ports[0]);
        if state.is_rate_based() {
            return self.rate_stage(ports, Some(budget_ns), slots);
        }
        let load = self.arriving(state);
        let budget = budget_ns.min(INTERVAL_NS_MAX);
        let place = state.place(&load, budget);
        // What is short is told by the least budgets, which are tried next.
        let more = Shortage::DelayNs { asked: budget_ns, least: budget_ns.saturating_add(1) };
        let (delay, level, pieces) = place.ok_or(more)?;
        self.keep(ports[0], (delay, level, pieces), slots)
    }

    /// Places a stage at its least budget plus `more_ns`.
    fn least_stage(
        &mut self,
        ports: &[u32],
        more_ns: u64,
        slots: &mut Vec<Slot>,
    ) -> Result<(), Shortage> {
        let state = self.network.port(ports[0]);
        if state.is_rate_based() {
            if more_ns == 0 {
                return self.rate_stage(ports, None, slots);
            }
            let before = (self.delay_ns, self.jitter_ns, self.spread_ns, slots.len());
            self.rate_stage(ports, None, slots)?;
            let least = self.delay_ns - before.0;
            (self.delay_ns, self.jitter_ns, self.spread_ns) = (before.0, before.1, before.2);
            slots.truncate(before.3);
            return self.rate_stage(ports, Some(least.saturating_add(more_ns)), slots);
        }
        let load = self.arriving(state);
        let mut place = state.place_least(&load)?;
        if more_ns > 0 {
            let raised = place.0.saturating_add(more_ns).min(INTERVAL_NS_MAX);
            place = state.place(&load, raised).unwrap_or(place);
        }
        self.keep(ports[0], place, slots)
    }

    /// The load at a port's scheduler.
    fn arriving(&self, state: &PortState) -> Load {
        if state.reshapes() { self.source } else { self.source.after(self.jitter_ns) }
    }

    /// Takes a place over into the plan, if its memory is there.
    fn keep(
        &mut self,
        port: u32,
        (budget_ns, level, pieces): (u64, u8, [super::profile::Piece; 3]),
        slots: &mut Vec<Slot>,
    ) -> Result<(), Shortage> {
        let state = self.network.port(port);
        // Everything here came within the budget and what it was early: α(J + d). A port that
        // holds packets back until they are as late as they may be evens out all the variation
        // since they were last held, also what a port in between took out of the bursts.
        let early = if state.holds() { self.spread_ns.max(self.jitter_ns) } else { self.jitter_ns };
        let window = early.saturating_add(budget_ns);
        let memory_bits = self.memory(port, window)?;
        let jitter_in = if state.reshapes() { 0 } else { self.jitter_ns };
        slots.push(Slot {
            port,
            level,
            kind: SlotKind::Bounded,
            budget_ns,
            jitter_ns: jitter_in,
            rate_bps: self.source.rate_bps(),
            memory_bits,
            pieces,
        });
        self.advance(state, budget_ns);
        Ok(())
    }

    /// Memory for what comes within a window, if it is free at the port and its switch.
    fn memory(&self, port: u32, window_ns: u64) -> Result<u64, Shortage> {
        let asked = u64::try_from(self.source.bits_in(window_ns)).unwrap_or(u64::MAX);
        let free = self.network.free_memory_bits(port);
        if asked > free { Err(Shortage::MemoryBits { asked, free }) } else { Ok(asked) }
    }

    /// After a hop: the variation grows by what the hop may take more than the fastest packet.
    fn advance(&mut self, state: &PortState, budget_ns: u64) {
        let least = time_down(self.source.packet_min_bits, state.rate_bps());
        let varies = budget_ns.saturating_sub(least);
        if state.reshapes() {
            self.jitter_ns = 0;
        }
        if state.holds() {
            self.spread_ns = 0;
        }
        self.jitter_ns = self.jitter_ns.saturating_add(varies);
        self.spread_ns = self.spread_ns.saturating_add(varies);
        self.delay_ns = self.delay_ns.saturating_add(budget_ns);
    }

    /// A run of rate-based ports at one rate: the least that keeps the budget, or all that is
    /// free where the least delay is wanted.
    fn rate_stage(
        &mut self,
        ports: &[u32],
        budget_ns: Option<u64>,
        slots: &mut Vec<Slot>,
    ) -> Result<(), Shortage> {
        let mut hops = [RateHop::default(); HOPS_MAX];
        let hops = self.hops_of(ports, &mut hops);
        let free = ports.iter().map(|&port| self.network.free_for_run(port));
        let free_bps = free.min().unwrap_or(0);
        let load = self.source.after(self.jitter_ns);
        let (buckets, packet) = (load.buckets(), load.packet_bits);
        let rate_bps = match budget_ns {
            None => Some(free_bps),
            Some(budget) => least_rate_bps(&buckets, packet, hops, budget, free_bps),
        };
        let delay = |bps| run_delay_ns(&buckets, packet, bps, hops);
        let rate_bps = rate_bps.filter(|&bps| delay(bps).is_some());
        let Some(rate_bps) = rate_bps else {
            let least = delay(free_bps);
            return Err(match least {
                Some(least) => Shortage::DelayNs { asked: budget_ns.unwrap_or(0), least },
                None => Shortage::RateBps { asked: load.rate_bps(), free: free_bps },
            });
        };
        self.keep_run(ports, rate_bps, slots)
    }

    fn hops_of<'h>(&self, ports: &[u32], hops: &'h mut [RateHop; HOPS_MAX]) -> &'h [RateHop] {
        for (hop, &port) in hops.iter_mut().zip(ports) {
            *hop = self.network.port(port).rate_hop();
        }
        &hops[..ports.len()]
    }

    /// Takes a run of rate-based ports over into the plan, if its memory is there.
    fn keep_run(
        &mut self,
        ports: &[u32],
        rate_bps: u64,
        slots: &mut Vec<Slot>,
    ) -> Result<(), Shortage> {
        let mut hops = [RateHop::default(); HOPS_MAX];
        let hops = self.hops_of(ports, &mut hops);
        let load = self.source.after(self.jitter_ns);
        let (buckets, packet) = (load.buckets(), load.packet_bits);
        let jitter_in = self.jitter_ns;
        let mut done = 0_u64;
        for (i, &port) in ports.iter().enumerate() {
            let state = self.network.port(port);
            // Each further hop adds its own packet and what blocks it.
            let upto = run_delay_ns(&buckets, packet, rate_bps, &hops[..=i]).unwrap_or(u64::MAX);
            let budget_ns = upto.saturating_sub(done);
            done = upto;
            let memory_bits = self.memory(port, jitter_in.saturating_add(upto))?;
            slots.push(Slot {
                port,
                level: 0,
                kind: SlotKind::Bounded,
                budget_ns,
                jitter_ns: self.jitter_ns,
                rate_bps,
                memory_bits,
                pieces: Default::default(),
            });
            self.advance(state, budget_ns);
        }
        Ok(())
    }
}
