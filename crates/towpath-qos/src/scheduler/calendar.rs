//! A calendar of queues: 64³ buckets of time under three levels of find-first-set. O(1), order
//! quantised to a bucket.
//!
//! Source of the structure: Eiffel's circular queue (Saeed et al., NSDI 2019), calendar queues
//! (Brown, 1988).

use alloc::vec::Vec;
use alloc::{boxed::Box, vec};

use super::store::NONE;

/// Buckets.
pub const BUCKETS: u64 = 64 * 64 * 64;
const MASK: u64 = BUCKETS - 1;

/// Queues by time, first in first out within a bucket.
///
/// A time further than [`BUCKETS`] granules ahead of the first waits in the last bucket; one
/// that far behind the last counts as the first. So order is exact to a granule inside the
/// window, and nothing is ever lost outside.
///
/// Invariants: `base` ≤ bucket of every entry ≤ `last` < `base + BUCKETS`; a queue is in at most
/// one bucket; a bit is set iff what is below it is not empty.
#[derive(Clone, Debug)]
pub struct Calendar {
    shift: u32,
    base: u64,
    last: u64,
    len: usize,
    top: u64,
    mid: Box<[u64; 64]>,
    low: Box<[u64]>,
    /// Last queue of each bucket; its `next` is the first.
    tails: Box<[u32]>,
    next: Vec<u32>,
}

impl Calendar {
    /// With buckets of 2^`shift` ns.
    pub fn new(shift: u32) -> Self {
        Self {
            shift,
            base: 0,
            last: 0,
            len: 0,
            top: 0,
            mid: Box::new([0; 64]),
            low: vec![0; 64 * 64].into(),
            tails: vec![NONE; BUCKETS as usize].into(),
            next: Vec::new(),
        }
    }

    /// Nanoseconds a bucket covers.
    pub const fn granule_ns(&self) -> u64 {
        1 << self.shift
    }

    /// Makes room for queue ids below `queues`.
    pub fn reserve(&mut self, queues: usize) {
        if queues > self.next.len() {
            self.next.resize(queues, NONE);
        }
    }

    /// Whether it holds no queue.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a queue, which must not be in it.
    #[inline]
    pub fn push(&mut self, time_ns: u64, queue: u32) {
        let at = (self.bucket(time_ns) & MASK) as usize;
        let tail = self.tails[at];
        if tail == NONE {
            self.next[queue as usize] = queue;
            self.mark(at);
        } else {
            self.next[queue as usize] = self.next[tail as usize];
            self.next[tail as usize] = queue;
        }
        self.tails[at] = queue;
        self.len += 1;
    }

    /// The first queue, with the start of its bucket in nanoseconds.
    #[inline]
    pub fn peek(&self) -> Option<(u64, u32)> {
        if self.len == 0 {
            return None;
        }
        let at = self.first();
        let bucket = self.base + ((at as u64).wrapping_sub(self.base) & MASK);
        Some((bucket << self.shift, self.next[self.tails[at] as usize]))
    }

    /// Takes the first queue.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let at = self.first();
        self.base += (at as u64).wrapping_sub(self.base) & MASK;
        let tail = self.tails[at];
        let head = self.next[tail as usize];
        if head == tail {
            self.tails[at] = NONE;
            self.clear(at);
        } else {
            self.next[tail as usize] = self.next[head as usize];
        }
        self.len -= 1;
        Some(head)
    }

    /// The bucket for a time, with the window moved or the time cut.
    #[inline]
    fn bucket(&mut self, time_ns: u64) -> u64 {
        let mut bucket = time_ns >> self.shift;
        if self.len == 0 {
            self.base = bucket;
            self.last = bucket;
        } else if bucket < self.base {
            bucket = bucket.max(self.last.saturating_sub(BUCKETS - 1));
            self.base = bucket;
        } else {
            bucket = bucket.min(self.base + (BUCKETS - 1));
            self.last = self.last.max(bucket);
        }
        bucket
    }

    #[inline]
    fn mark(&mut self, at: usize) {
        self.low[at >> 6] |= 1 << (at & 63);
        self.mid[at >> 12] |= 1 << ((at >> 6) & 63);
        self.top |= 1 << (at >> 12);
    }

    #[inline]
    fn clear(&mut self, at: usize) {
        self.low[at >> 6] &= !(1 << (at & 63));
        if self.low[at >> 6] == 0 {
            self.mid[at >> 12] &= !(1 << ((at >> 6) & 63));
            if self.mid[at >> 12] == 0 {
                self.top &= !(1 << (at >> 12));
            }
        }
    }

    /// Place of the first bucket that is not empty, from `base` around; there is one.
    #[inline]
    fn first(&self) -> usize {
        let from = (self.base & MASK) as usize;
        let word = self.low[from >> 6] >> (from & 63);
        if word != 0 {
            return from + word.trailing_zeros() as usize;
        }
        let (low, mid) = (from >> 6, from >> 12);
        // `!1 << k` keeps the bits above k, none for k = 63.
        let word = self.mid[mid] & (!1 << (low & 63));
        if word != 0 {
            return self.within_low((mid << 6) + word.trailing_zeros() as usize);
        }
        let word = self.top & (!1 << mid);
        let mid = if word == 0 { self.top } else { word }.trailing_zeros() as usize;
        self.within_low((mid << 6) + self.mid[mid].trailing_zeros() as usize)
    }

    #[inline]
    fn within_low(&self, low: usize) -> usize {
        (low << 6) + self.low[low].trailing_zeros() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    fn times() -> impl Strategy<Value = u64> {
        prop_oneof![
            3 => 1_000_000u64..1_000_200,
            3 => 900_000u64..1 << 20,
            1 => 0u64..1 << 20,
        ]
    }

    proptest! {
        /// Against a sorted list, with times that fit the window of 2¹⁸ granules of 4 ns.
        #[test]
        fn pops_by_bucket_then_first_in(
            ops in prop::collection::vec(prop::option::of(times()), 1..300),
        ) {
            let mut calendar = Calendar::new(2);
            calendar.reserve(300);
            let mut model: VecDeque<(u64, u32)> = VecDeque::new();
            for (queue, op) in ops.into_iter().enumerate() {
                if let Some(time) = op {
                    let place = model.iter().position(|(t, _)| t >> 2 > time >> 2);
                    model.insert(place.unwrap_or(model.len()), (time, queue as u32));
                    calendar.push(time, queue as u32);
                } else {
                    let expected = model.pop_front();
                    let start = expected.map(|(t, q)| (t >> 2 << 2, q));
                    prop_assert_eq!(calendar.peek(), start);
                    prop_assert_eq!(calendar.pop(), expected.map(|e| e.1));
                }
                prop_assert_eq!(calendar.is_empty(), model.is_empty());
            }
        }

        /// Outside the window order may go, entries may not.
        #[test]
        fn loses_nothing_at_any_time(times in prop::collection::vec(any::<u64>(), 1..100)) {
            let mut calendar = Calendar::new(0);
            calendar.reserve(100);
            for (queue, time) in times.iter().enumerate() {
                calendar.push(*time, queue as u32);
            }
            let mut seen: Vec<u32> = core::iter::from_fn(|| calendar.pop()).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..times.len() as u32).collect::<Vec<_>>());
            prop_assert_eq!((calendar.top, calendar.mid.iter().any(|w| *w != 0)), (0, false));
        }
    }
}
