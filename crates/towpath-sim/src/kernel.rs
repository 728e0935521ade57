//! The event kernel: a queue of things to happen, in one total order.
//!
//! Events are ordered by (time, sequence): of two events at one time, the one scheduled first
//! happens first, on every machine and in every build. Cancelling is lazy: the slab entry is
//! emptied and its key skipped when it comes up.

use towpath_wire::Instant;

/// Names a scheduled event, for cancelling it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    index: u32,
    generation: u32,
}

/// Time in the upper 64 bits, then the sequence number, then the place in the slab: one
/// comparison orders two events, and the four children of a heap node share a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u64, u64);

/// Bits of a key that hold the place in the slab; the sequence number has the other 40.
const INDEX_BITS: u32 = 24;
/// Most events pending at once: 16.8 million.
const PENDING_MAX: usize = 1 << INDEX_BITS;
/// Most events ever scheduled: 1.1 million million.
const SCHEDULED_MAX: u64 = 1 << (64 - INDEX_BITS);

impl Key {
    fn new(at: Instant, sequence: u64, index: u32) -> Self {
        Self(at.as_nanos(), sequence << INDEX_BITS | u64::from(index))
    }

    const fn at(self) -> Instant {
        Instant::from_nanos(self.0)
    }

    const fn index(self) -> usize {
        (self.1 & (PENDING_MAX as u64 - 1)) as usize
    }

    const fn order(self) -> u128 {
        (self.0 as u128) << 64 | self.1 as u128
    }
}

#[derive(Debug)]
struct Entry<E> {
    generation: u32,
    event: Option<E>,
}

/// Pending events in a 4-ary heap over a slab. Invariants: each key's children are not smaller;
/// `now` never decreases.
#[derive(Debug)]
pub struct Kernel<E> {
    now: Instant,
    sequence: u64,
    happened: u64,
    heap: Vec<Key>,
    slab: Vec<Entry<E>>,
    free: Vec<u32>,
}

const ARITY: usize = 4;

impl<E> Default for Kernel<E> {
    fn default() -> Self {
        Self {
            now: Instant::ZERO,
            sequence: 0,
            happened: 0,
            heap: Vec::new(),
            slab: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<E> Kernel<E> {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Simulated time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Events that have happened.
    pub const fn happened(&self) -> u64 {
        self.happened
    }

    /// Schedules an event; one in the past happens now.
    ///
    /// # Panics
    /// With more than 2^24 events pending, or 2^40 ever scheduled: a simulation out of bounds.
    pub fn schedule(&mut self, at: Instant, event: E) -> Handle {
        let index = self.free.pop().unwrap_or_else(|| {
            assert!(self.slab.len() < PENDING_MAX, "more than {PENDING_MAX} events pending");
            self.slab.push(Entry { generation: 0, event: None });
            self.slab.len() as u32 - 1
        });
        let entry = &mut self.slab[index as usize];
        entry.event = Some(event);
        let handle = Handle { index, generation: entry.generation };
        assert!(self.sequence < SCHEDULED_MAX, "more than {SCHEDULED_MAX} events scheduled");
        let key = Key::new(at.max(self.now), self.sequence, index);
        self.sequence += 1;
        self.heap.push(key);
        self.sift_up(self.heap.len() - 1);
        handle
    }

    /// Takes an event back; `None` when it has happened or was cancelled.
    pub fn cancel(&mut self, handle: Handle) -> Option<E> {
        let entry = &mut self.slab[handle.index as usize];
        if entry.generation == handle.generation { entry.event.take() } else { None }
    }

    /// When the next event happens (a cancelled one may still count).
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.first().map(|k| k.at())
    }

    /// Moves time to the next event and gives it out.
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        loop {
            let key = self.pop_key()?;
            let entry = &mut self.slab[key.index()];
            entry.generation = entry.generation.wrapping_add(1);
            self.free.push(key.index() as u32);
            if let Some(event) = entry.event.take() {
                self.now = key.at();
                self.happened += 1;
                return Some((key.at(), event));
            }
        }
    }

    fn pop_key(&mut self) -> Option<Key> {
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first_mut() else { return Some(last) };
        let key = core::mem::replace(first, last);
        self.sift_down();
        Some(key)
    }

    fn sift_up(&mut self, mut i: usize) {
        let key = self.heap[i];
        while i > 0 {
            let parent = (i - 1) / ARITY;
            if self.heap[parent] <= key {
                break;
            }
            self.heap[i] = self.heap[parent];
            i = parent;
        }
        self.heap[i] = key;
    }

    /// Walks the hole at the root down to a leaf along the least children, then the root's key
    /// up from there: most keys belong near the leaves, so this compares less than asking at
    /// each level whether the key stays.
    fn sift_down(&mut self) {
        let (mut i, n, key) = (0, self.heap.len(), self.heap[0]);
        while i * ARITY + ARITY < n {
            let first = i * ARITY + 1;
            let keys = [0, 1, 2, 3].map(|child| self.heap[first + child].order());
            let left = usize::from(keys[1] < keys[0]);
            let right = 2 + usize::from(keys[3] < keys[2]);
            let least = first + if keys[right] < keys[left] { right } else { left };
            self.heap[i] = self.heap[least];
            i = least;
        }
        let first = i * ARITY + 1;
        if let Some(least) = (first..n).min_by_key(|c| self.heap[*c]) {
            self.heap[i] = self.heap[least];
            i = least;
        }
        self.heap[i] = key;
        self.sift_up(i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_in_order_of_time_then_of_scheduling(
            ops in proptest::collection::vec((0..50u64, any::<bool>(), any::<u8>()), 1..300),
        ) {
            let mut kernel = Kernel::new();
            let mut model: Vec<(u64, usize, Handle)> = Vec::new();
            let mut id = 0;
            for (delay, pop, pick) in ops {
                if pop && pick % 5 == 0 && !model.is_empty() {
                    let (_, gone, handle) = model.remove(usize::from(pick) % model.len());
                    prop_assert_eq!(kernel.cancel(handle), Some(gone));
                    prop_assert_eq!(kernel.cancel(handle), None);
                } else if pop {
                    let order = |(_, e): &(usize, &(u64, usize, Handle))| (e.0, e.1);
                    let least = model.iter().enumerate().min_by_key(order).map(|(i, _)| i);
                    let expected = least
                        .map(|i| model.remove(i))
                        .map(|(at, id, _)| (Instant::from_nanos(at), id));
                    prop_assert_eq!(kernel.pop(), expected);
                } else {
                    let at = kernel.now().as_nanos() + delay;
                    model.push((at, id, kernel.schedule(Instant::from_nanos(at), id)));
                    id += 1;
                }
            }
        }
    }

    #[test]
    fn a_handle_of_a_past_event_cancels_nothing() {
        let mut kernel = Kernel::new();
        let old = kernel.schedule(Instant::ZERO, 'a');
        kernel.pop();
        kernel.schedule(Instant::ZERO, 'b');
        assert_eq!(kernel.cancel(old), None);
        assert_eq!(kernel.pop(), Some((Instant::ZERO, 'b')));
    }
}
