//! Weighted fair queuing, as packet-by-packet generalised processor sharing (PGPS).
//!
//! Runs the fluid system (GPS) beside the real one: virtual time V grows at C / Σr over the
//! queues backlogged *there*; a packet's finish time is S/r after the later of V(arrival) and the
//! queue's last finish; the least goes first. Theorem: a packet leaves at most L/C after it leaves
//! GPS, and no queue is ever more than L behind GPS. Bound for (b, r), Σr ≤ C: b/r + L/C. Cost:
//! O(log V), and V(t) may pass O(V) fluid departures at one arrival, amortised over the arrivals
//! that began them. Source: Parekh and Gallager, "A generalized processor sharing approach to flow
//! control" (1993), eqs. 8–10. Reads `rate`.

use towpath_wire::Instant;

use super::contract::{ConfigError, Packet, PortConfig, QueueConfig};
use super::fixed::{Fine, Ratio, cost_per_byte};
use super::heap::Heap;
use super::port::Policy;
use super::store::Table;
use super::virtual_clock::{Clock, take_first};

/// The fluid reference system.
///
/// Invariants: `rate_sum` = Σ rate over fluid-backlogged queues; each of them is in `departures`
/// once, by a key not after its last finish; V(t) = `v` + (t − `t`) · C / `rate_sum` until the
/// next change.
#[derive(Clone, Debug)]
struct Fluid {
    link_bps: u64,
    rate_sum: u64,
    v: Fine,
    t: Fine,
    seen: Fine,
    /// dV/dt and its inverse.
    slope: Ratio,
    inverse: Ratio,
    departures: Heap,
}

/// Top bit of a clock's cost, which no cost reaches: backlogged in the fluid system.
const ACTIVE: u64 = 1 << 63;

impl Fluid {
    fn set_sum(&mut self, rate_sum: u64) {
        self.rate_sum = rate_sum;
        if rate_sum > 0 {
            self.slope = Ratio::new(self.link_bps, rate_sum);
            self.inverse = Ratio::new(rate_sum, self.link_bps);
        }
    }

    /// V(now), after all fluid departures up to then.
    #[inline]
    fn advance(&mut self, table: &mut Table<Clock>, now: Fine) -> Fine {
        self.seen = now;
        while self.rate_sum > 0 {
            let v = Fine(self.v.0 + self.slope.of(Fine(now.0.saturating_sub(self.t.0))).0);
            let Some(first) = self.departures.peek() else { break };
            if super::fixed::precedes(v.key(), first.key) {
                return v;
            }
            let state = table.state(first.queue);
            let (finish, rate_bps) = (state.at, state.rate_bps);
            if finish.key() != first.key {
                // More came since it was filed.
                self.departures.replace(finish.key(), first.queue);
                continue;
            }
            if finish > v {
                return v;
            }
            state.cost &= !ACTIVE;
            self.departures.pop();
            let took = self.inverse.of(Fine(finish.0.saturating_sub(self.v.0)));
            self.t = Fine(self.t.0 + took.0).min(now);
            self.v = self.v.max(finish);
            self.set_sum(self.rate_sum - rate_bps);
        }
        self.t = now;
        self.v
    }

    #[cold]
    fn join(&mut self, v: Fine, queue: u32, finish: u64, rate_bps: u64) {
        self.v = v;
        self.t = self.seen;
        self.set_sum(self.rate_sum + rate_bps);
        self.departures.push(finish, queue);
    }
}

/// Weighted fair queuing. Invariant: exactly the queues with packets are in `order`, by the
/// finish time at their head.
#[derive(Clone, Debug)]
pub struct Wfq {
    order: Heap,
    fluid: Fluid,
}

impl Policy for Wfq {
    type State = Clock;

    fn new(port: &PortConfig) -> Result<Self, ConfigError> {
        let fluid = Fluid {
            link_bps: port.rate.as_bps(),
            rate_sum: 0,
            v: Fine::default(),
            t: Fine::default(),
            seen: Fine::default(),
            slope: Ratio::default(),
            inverse: Ratio::default(),
            departures: Heap::default(),
        };
        Ok(Self { order: Heap::default(), fluid })
    }

    fn configure(
        &mut self,
        table: &mut Table<Clock>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        let cost = cost_per_byte(config.rate)?;
        let queues = table.queues_len();
        let fluid = &mut self.fluid;
        let seen = fluid.seen;
        let v = fluid.advance(table, seen);
        let state = table.state(queue);
        let active = state.cost & ACTIVE;
        let old = core::mem::replace(&mut state.rate_bps, config.rate.as_bps());
        if active > 0 {
            (fluid.v, fluid.t) = (v, seen);
            fluid.set_sum(fluid.rate_sum - old + config.rate.as_bps());
        }
        state.cost = cost | active;
        self.order.reserve(queues);
        fluid.departures.reserve(queues);
        Ok(())
    }

    fn remove(&mut self, table: &mut Table<Clock>, queue: u32) {
        // Empty here, it may still be served in the fluid system: it leaves there at once.
        if table.peek_state(queue).cost & ACTIVE == 0 {
            return;
        }
        let seen = self.fluid.seen;
        let v = self.fluid.advance(table, seen);
        let state = table.peek_state(queue);
        if state.cost & ACTIVE > 0 {
            (self.fluid.v, self.fluid.t) = (v, seen);
            self.fluid.set_sum(self.fluid.rate_sum - state.rate_bps);
            self.fluid.departures.remove(queue);
        }
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Clock>, now: Instant, packet: &Packet) {
        let queue = packet.queue.0;
        let v = self.fluid.advance(table, Fine::from_instant(now));
        let state = table.state(queue);
        let active = state.cost & ACTIVE;
        state.cost &= !ACTIVE;
        let key = state.run(v, packet.bytes);
        state.cost |= ACTIVE;
        if active == 0 {
            let rate_bps = state.rate_bps;
            self.fluid.join(v, queue, key, rate_bps);
        }
        if table.push(packet, key) {
            self.order.push(key, queue);
        }
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Clock>, _: Instant) -> Option<Packet> {
        take_first(&mut self.order, table).map(|(_, packet)| packet)
    }
}
