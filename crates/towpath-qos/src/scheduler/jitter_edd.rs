//! Jitter-EDD: earliest deadline first behind a regulator per queue.
//!
//! A packet that left the previous node ahead of its deadline there is held for that long, so
//! that every packet enters the order as if it had been as late as allowed; then EDF with the
//! delay budget d. Bound: D = Σ d over the path, and jitter ≤ d of the last node, under the EDF
//! test of [`Edf`](super::Edf) at every node. Not work-conserving. Cost: O(log V), two heaps.
//! Source: Verma, Zhang and Ferrari, "Delay jitter control for real-time communication in a
//! packet switching network" (1991). Reads `rate`, `burst`, `delay`, and the packets' `slack_ns`.

use towpath_wire::Instant;
use towpath_wire::units::nanos;

use super::clock::TokenClock;
use super::contract::{ConfigError, DELAY_MAX, Packet, PortConfig, QueueConfig, within};
use super::edf::slack;
use super::fixed::cost_per_byte;
use super::heap::Heap;
use super::port::Policy;
use super::store::Table;

/// Jitter-EDD. Packets are stamped with the time they are held until. Invariant: each queue with
/// packets is in exactly one heap.
#[derive(Clone, Debug)]
pub struct JitterEdd {
    /// By the time the head is held until.
    held: Heap,
    /// By the deadline of the head.
    ready: Heap,
    cost: u64,
}

/// When an arriving packet may enter the order: after the hold that it carries.
#[inline]
pub(super) fn held_until<X>(clock: &mut TokenClock<X>, now: Instant, packet: &Packet) -> Instant {
    let hold = u64::try_from(packet.slack_ns).unwrap_or(0).min(nanos(DELAY_MAX));
    let entered = Instant::from_nanos(now.as_nanos().saturating_add(hold));
    clock.conforming(entered, packet.bytes)
}

impl Policy for JitterEdd {
    type State = TokenClock<u32>;

    fn new(port: &PortConfig) -> Result<Self, ConfigError> {
        let cost = cost_per_byte(port.rate)?;
        Ok(Self { held: Heap::default(), ready: Heap::default(), cost })
    }

    fn configure(
        &mut self,
        table: &mut Table<Self::State>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        within("delay_ns", nanos(config.delay), 1, nanos(DELAY_MAX))?;
        let state = table.state(queue);
        state.configure(config)?;
        state.beside = nanos(config.delay) as u32;
        self.held.reserve(table.queues_len());
        self.ready.reserve(table.queues_len());
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Self::State>, now: Instant, packet: &Packet) {
        let until = held_until(table.state(packet.queue.0), now, packet);
        if table.push(packet, until.as_nanos()) {
            self.held.push(until.as_nanos(), packet.queue.0);
        }
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Self::State>, now: Instant) -> Option<Packet> {
        while let Some(first) = self.held.peek() {
            if first.key > now.as_nanos() {
                break;
            }
            self.held.pop();
            let delay = table.peek_state(first.queue).beside;
            self.ready.push(first.key.saturating_add(u64::from(delay)), first.queue);
        }
        let first = self.ready.pop()?;
        let popped = table.pop(first.queue)?;
        if let Some(until) = popped.next {
            self.held.push(until, first.queue);
        }
        let slack_ns = slack(first.key, now, popped.packet.bytes, self.cost);
        Some(Packet { slack_ns, ..popped.packet })
    }

    fn next_ready(&self, _: &Table<Self::State>) -> Instant {
        match self.held.peek() {
            Some(first) if self.ready.is_empty() => Instant::from_nanos(first.key),
            _ => Instant::ZERO,
        }
    }
}
