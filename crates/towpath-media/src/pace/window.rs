//! One rate, held up while the receiver's buffer is full.

use alloc::vec;
use alloc::vec::Vec;

use super::{Head, Policy};
use crate::trace::ExactRate;

/// Groups on their way that are kept by default: 256 KiB of memory.
pub const OUTSTANDING_GROUPS: usize = 1 << 14;

/// What was sent but not yet consumed is known from the references: a group leaves the receiver's
/// buffer `delay` after its reference. Nothing is sent that would not fit.
///
/// Memory: 16 bytes for each group that may be on its way. Where more are, the oldest is waited
/// for, as if the buffer were full: safe against overflow, counted in [`stalls`](Self::stalls).
#[derive(Clone, Debug)]
pub struct Window {
    rate: ExactRate,
    buffer: u64,
    delay: u64,
    /// A ring of `(tick at which the group is consumed, its bytes)`.
    groups: Vec<(u64, u64)>,
    first: usize,
    count: usize,
    /// Bytes of all groups taken off the ring.
    consumed: u64,
    stalls: u64,
}

impl Window {
    /// At a rate above zero, for a receiver's buffer (bytes) and start-up delay (ticks), with at
    /// most `outstanding` groups (at least 1) on their way; `None` at rate zero.
    pub fn new(rate: ExactRate, buffer: u64, delay: u64, outstanding: usize) -> Option<Self> {
        let groups = vec![(0, 0); outstanding.max(1)];
        let ring = Self { rate, buffer, delay, groups, first: 0, count: 0, consumed: 0, stalls: 0 };
        (!rate.is_zero()).then_some(ring)
    }

    /// How often the ring was full, or a group larger than the buffer.
    pub const fn stalls(&self) -> u64 {
        self.stalls
    }

    fn oldest(&self) -> Option<(u64, u64)> {
        (self.count > 0).then(|| self.groups[self.first])
    }

    fn drop_oldest(&mut self) {
        self.consumed += self.groups[self.first].1;
        self.first = (self.first + 1) % self.groups.len();
        self.count -= 1;
    }

    fn wait_for_oldest(&mut self, head: &mut Head) {
        if let Some((due, _)) = self.oldest() {
            head.wait(due);
            self.drop_oldest();
        }
    }
}

impl Policy for Window {
    fn units(&self) -> u128 {
        u128::from(self.rate.bytes())
    }

    fn begin(&mut self, head: &mut Head, reference: u64, bytes: u64) {
        while let Some((due, _)) = self.oldest()
            && !head.is_before(due)
        {
            self.drop_oldest();
        }
        if self.count == self.groups.len() {
            self.stalls += 1;
            self.wait_for_oldest(head);
        }
        let last = (self.first + self.count) % self.groups.len();
        self.groups[last] = (self.delay.saturating_add(reference), bytes);
        self.count += 1;
    }

    fn send(&mut self, head: &mut Head, mut bytes: u64) {
        let per_byte = u128::from(self.rate.ticks());
        loop {
            let full = self.consumed.saturating_add(self.buffer);
            let room = full.saturating_sub(head.bytes()).min(bytes);
            head.send(room, per_byte);
            bytes -= room;
            if bytes == 0 {
                return;
            }
            if self.count <= 1 {
                // Only the group being sent is on its way and it does not fit: our caller's
                // mistake, or a stream that is not the planned one.
                self.stalls += 1;
                head.send(bytes, per_byte);
                return;
            }
            self.wait_for_oldest(head);
        }
    }
}
