//! Virtual Clock.
//!
//! Every packet is stamped max(now, the queue's clock) + S/r, which becomes the queue's clock;
//! the least stamp goes first. Bound for a queue within (b, r), Σr ≤ C: b/r + L/C as PGPS
//! (Figueira and Pasquale 1995). Unlike it, a queue that used idle capacity runs its clock ahead
//! and waits for as long when others come back: no starvation for ever, but no fairness either.
//! The clock runs ahead by at most 19.5 h ([`LEAD_MAX`]). Cost: O(log V). Source: Zhang,
//! "Virtual Clock: a new traffic control algorithm for packet switching networks" (1990). Reads
//! `rate`.

use towpath_wire::Instant;

use super::contract::{ConfigError, Packet, PortConfig, QueueConfig};
use super::fixed::{Fine, LEAD_MAX, cost_per_byte};
use super::heap::Heap;
use super::port::Policy;
use super::store::Table;

/// A queue's clock, and time per byte at its rate: 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    pub(super) at: Fine,
    pub(super) cost: u64,
    /// The rate itself, for disciplines that sum rates.
    pub(super) rate_bps: u64,
}

impl Clock {
    /// Runs the clock by one packet from `from` on if it stands before that.
    #[inline]
    pub(super) fn run(&mut self, from: Fine, bytes: u32) -> u64 {
        let limit = Fine(from.0 + LEAD_MAX.0);
        self.at = self.at.max(from).after(bytes, self.cost).min(limit);
        self.at.key()
    }
}

/// Takes the first packet of the first queue of `order`, whose stamps are keys.
#[inline]
pub(super) fn take_first<S: Copy + Default>(
    order: &mut Heap,
    table: &mut Table<S>,
) -> Option<(u64, Packet)> {
    let first = order.peek()?;
    let popped = table.pop(first.queue)?;
    match popped.next {
        Some(key) => order.replace(key, first.queue),
        None => {
            order.pop();
        }
    }
    Some((first.key, popped.packet))
}

/// Virtual Clock. Invariant: exactly the queues with packets are in `order`, by the stamp at
/// their head.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    order: Heap,
}

impl Policy for VirtualClock {
    type State = Clock;

    fn new(_: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self { order: Heap::default() })
    }

    fn configure(
        &mut self,
        table: &mut Table<Clock>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        table.state(queue).cost = cost_per_byte(config.rate)?;
        self.order.reserve(table.queues_len());
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Clock>, now: Instant, packet: &Packet) {
        let queue = packet.queue.0;
        let key = table.state(queue).run(Fine::from_instant(now), packet.bytes);
        if table.push(packet, key) {
            self.order.push(key, queue);
        }
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Clock>, _: Instant) -> Option<Packet> {
        take_first(&mut self.order, table).map(|(_, packet)| packet)
    }
}
