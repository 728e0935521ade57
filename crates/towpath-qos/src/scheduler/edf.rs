//! Earliest deadline first, as delay-EDD.
//!
//! Deadline = the packet's expected arrival + the queue's delay budget, where the expected
//! arrival is the real one for a source within its token bucket, and the conforming one for a
//! source beyond it, so that greed hurts only itself. Bound: the delay budget, exactly when
//! ∀t: Σⱼ Aⱼ(t − dⱼ) + max_{dₖ>t} sₖ ≤ C·t (Liebeherr, Wrege and Ferrari 1996); the sum of
//! budgets is not tested here, that is admission's. Cost: O(log V) with a [`Heap`], O(1) with a
//! [`Calendar`], where deadlines in one granule count as equal: a budget may be missed by less
//! than a granule. Source: Ferrari and Verma, "A scheme for real-time channel establishment"
//! (1990); Kandlur, Shin and Ferrari (1991). Reads `rate`, `burst`, `delay`.

use core::time::Duration;

use towpath_wire::units::nanos;
use towpath_wire::{ByteSize, Instant};

use super::calendar::{BUCKETS, Calendar};
use super::clock::TokenClock;
use super::contract::{ConfigError, DELAY_MAX, Packet, PortConfig, QueueConfig, within};
use super::fixed::cost_per_byte;
use super::heap::Heap;
use super::port::Policy;
use super::store::Table;

/// Queues in order of the deadline at their head.
pub trait Deadlines: Sized {
    /// Longest delay budget it orders.
    fn delay_max(&self) -> Duration;
    /// For this port.
    fn new(port: &PortConfig) -> Self;
    /// Makes room.
    fn reserve(&mut self, queues: usize);
    /// Adds a queue.
    fn push(&mut self, deadline_ns: u64, queue: u32);
    /// The first.
    fn peek(&self) -> Option<u32>;
    /// Takes the first.
    fn pop(&mut self);
    /// Takes the first and adds a queue.
    fn replace(&mut self, deadline_ns: u64, queue: u32);
}

impl Deadlines for Heap {
    fn delay_max(&self) -> Duration {
        DELAY_MAX
    }
    fn new(_: &PortConfig) -> Self {
        Self::default()
    }
    fn reserve(&mut self, queues: usize) {
        self.reserve(queues);
    }
    #[inline]
    fn push(&mut self, deadline_ns: u64, queue: u32) {
        self.push(deadline_ns, queue);
    }
    #[inline]
    fn peek(&self) -> Option<u32> {
        self.peek().map(|entry| entry.queue)
    }
    #[inline]
    fn pop(&mut self) {
        self.pop();
    }
    #[inline]
    fn replace(&mut self, deadline_ns: u64, queue: u32) {
        self.replace(deadline_ns, queue);
    }
}

impl Deadlines for Calendar {
    /// Half the window: the other half is for deadlines of greedy sources.
    fn delay_max(&self) -> Duration {
        Duration::from_nanos(self.granule_ns() * (BUCKETS / 2)).min(DELAY_MAX)
    }
    /// A granule is the largest power of two that a largest packet's time covers, but between
    /// 1 µs (a window of 268 ms) and 65 µs (17 s).
    fn new(port: &PortConfig) -> Self {
        let packet = ByteSize::from_bytes(u64::from(port.packet_bytes_max));
        let time = port.rate.time_for(packet).map_or(u64::MAX, nanos);
        Self::new(time.max(1).ilog2().clamp(10, 16))
    }
    fn reserve(&mut self, queues: usize) {
        self.reserve(queues);
    }
    #[inline]
    fn push(&mut self, deadline_ns: u64, queue: u32) {
        self.push(deadline_ns, queue);
    }
    #[inline]
    fn peek(&self) -> Option<u32> {
        self.peek().map(|(_, queue)| queue)
    }
    #[inline]
    fn pop(&mut self) {
        self.pop();
    }
    #[inline]
    fn replace(&mut self, deadline_ns: u64, queue: u32) {
        self.pop();
        self.push(deadline_ns, queue);
    }
}

/// Earliest deadline first. Invariant: exactly the queues with packets are in `order`, by the
/// deadline at their head.
#[derive(Clone, Debug)]
pub struct Edf<D> {
    order: D,
    /// Link time of a byte.
    cost: u64,
}

/// Earliest deadline first on a calendar.
pub type EdfCalendar = Edf<Calendar>;

/// Nanoseconds from the end of a transmission that starts at `now` to `deadline_ns`.
#[inline]
pub(super) fn slack(deadline_ns: u64, now: Instant, bytes: u32, cost: u64) -> i64 {
    let end = super::fixed::Fine::from_instant(now).after(bytes, cost).ceil();
    deadline_ns.wrapping_sub(end.as_nanos()).cast_signed()
}

impl<D: Deadlines> Policy for Edf<D> {
    /// What a queue may send, and beside it its delay budget in nanoseconds.
    type State = TokenClock<u32>;

    fn new(port: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self { order: D::new(port), cost: cost_per_byte(port.rate)? })
    }

    fn configure(
        &mut self,
        table: &mut Table<Self::State>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        let most = nanos(self.order.delay_max());
        within("delay_ns", nanos(config.delay), 1, most)?;
        let state = table.state(queue);
        state.configure(config)?;
        state.beside = nanos(config.delay) as u32;
        self.order.reserve(table.queues_len());
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Self::State>, now: Instant, packet: &Packet) {
        let state = table.state(packet.queue.0);
        let expected = state.conforming(now, packet.bytes);
        let deadline = expected.as_nanos().saturating_add(u64::from(state.beside));
        if table.push(packet, deadline) {
            self.order.push(deadline, packet.queue.0);
        }
    }

    /// Deadlines count from when a packet came: the order is that of full queues, but for equal
    /// deadlines.
    fn follow(
        &mut self,
        table: &mut Table<Self::State>,
        (since, _): (Instant, Instant),
        packet: &Packet,
    ) {
        self.enqueue(table, since, packet);
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Self::State>, now: Instant) -> Option<Packet> {
        let queue = self.order.peek()?;
        let popped = table.pop(queue)?;
        match popped.next {
            Some(deadline) => self.order.replace(deadline, queue),
            None => self.order.pop(),
        }
        let slack_ns = slack(popped.stamp, now, popped.packet.bytes, self.cost);
        Some(Packet { slack_ns, ..popped.packet })
    }
}
