//! Rate-controlled static priority.
//!
//! A regulator per queue holds each packet until it conforms to the queue's token bucket, and for
//! the `slack_ns` it carries (rate-jitter control without, delay-jitter control with it); then
//! static priority, in order of that time within a level. So every level sees conforming traffic
//! whatever happened before. Bound for a level with delay d, 0 most urgent: d, if
//! Σ_{k≤m} Σⱼ (⌈d/Xmin⌉ + 1)·Smax + L ≤ C·d, counted from the end of the hold; plus a granule,
//! by which the calendar of regulators rounds holds up, never down. Not work-conserving.
//! Cost: O(1). Source: Zhang and Ferrari, "Rate-controlled static-priority queueing" (1993).
//! Reads `rate`, `burst`, `priority`.

use towpath_wire::Instant;

use super::calendar::Calendar;
use super::clock::TokenClock;
use super::contract::{ConfigError, Packet, PortConfig, QueueConfig};
use super::edf::Deadlines;
use super::jitter_edd::held_until;
use super::port::Policy;
use super::priority::Levels;
use super::store::Table;

/// Rate-controlled static priority. Held packets are in their queue's list, stamped with the time
/// they are held until; the others in their level's. Invariant: exactly the queues with held
/// packets are in `held`.
#[derive(Clone, Debug)]
pub struct Rcsp {
    held: Calendar,
    levels: Levels,
}

impl Rcsp {
    /// Into the bucket that starts at `until` or next after it.
    #[inline]
    fn hold(&mut self, until_ns: u64, queue: u32) {
        self.held.push(until_ns.saturating_add(self.held.granule_ns() - 1), queue);
    }
}

impl Policy for Rcsp {
    /// The regulator, and beside it the level.
    type State = TokenClock<u8>;

    fn new(port: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self { held: Deadlines::new(port), levels: Levels::default() })
    }

    fn configure(
        &mut self,
        table: &mut Table<Self::State>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        let state = table.state(queue);
        state.configure(config)?;
        let was = core::mem::replace(&mut state.beside, config.priority);
        self.levels.change(table, queue, [was, config.priority]);
        self.held.reserve(table.queues_len());
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Self::State>, now: Instant, packet: &Packet) {
        let queue = packet.queue.0;
        let until = held_until(table.state(queue), now, packet);
        if table.push(packet, until.as_nanos()) {
            if until <= now {
                let level = table.peek_state(queue).beside;
                self.levels.promote(table, level, queue);
            } else {
                self.hold(until.as_nanos(), queue);
            }
        }
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Self::State>, now: Instant) -> Option<Packet> {
        while let Some((start, queue)) = self.held.peek() {
            // Past the calendar's window a bucket may stand for a later time: look at the stamp.
            let until = table.head(queue).map_or(0, |(until, _)| until);
            if start > now.as_nanos() {
                break;
            }
            self.held.pop();
            if until > now.as_nanos() {
                self.hold(until, queue);
                continue;
            }
            let level = table.peek_state(queue).beside;
            self.levels.promote(table, level, queue);
            if let Some((until, _)) = table.head(queue) {
                self.hold(until, queue);
            }
        }
        self.levels.take(table)
    }

    fn next_ready(&self, _: &Table<Self::State>) -> Instant {
        match self.held.peek() {
            Some((start, _)) if self.levels.is_empty() => Instant::from_nanos(start),
            _ => Instant::ZERO,
        }
    }
}
