//! Queues by name: which message is first and last of each.
//!
//! A hash table with chains through the queues themselves. Most messages open queues and close
//! them again, so that what counts here is the cost of adding and removing a name; a library's
//! table, made for looking names up, took a third more instructions (`benches/matching.rs`).

use alloc::vec;
use alloc::vec::Vec;

use towpath_wire::TaskId;
use towpath_wire::talk::Tag;

use super::store::{Key, Wanted};

/// No queue, no message.
pub(super) const NONE: u32 = u32::MAX;
/// Queues that each message is in.
pub(super) const KINDS: usize = 5;
/// The kind of the one queue of everything; it is queue number 0 and is never closed.
pub(super) const ALL: usize = 4;

const BUCKETS_MIN: usize = 16;

/// What a queue holds messages of. A queue of one kind never has the name of another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    source: Option<TaskId>,
    tag: Option<Tag>,
    context: u32,
}

#[derive(Debug)]
pub(super) struct Queue {
    name: Name,
    hash: u64,
    /// The next queue of the same bucket, or of the free list.
    next: u32,
    /// First and last message; both or neither are [`NONE`].
    pub(super) head: u32,
    pub(super) tail: u32,
}

/// All queues. Invariants: the chains hold every queue that holds a message, and no other; the
/// free list holds the rest, queue 0 apart; `open` ≤ number of buckets, a power of two.
#[derive(Debug)]
pub(super) struct Queues {
    slots: Vec<Queue>,
    free: u32,
    buckets: Vec<u32>,
    open: usize,
    seed: u64,
}

/// The upper half of a product folded on its lower half mixes every bit of both factors.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

impl Name {
    fn hash(&self, seed: u64) -> u64 {
        // The first digits of pi: numbers with nothing up their sleeve.
        const PI: [u64; 3] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0];
        let tag = self.tag.map_or(0, Tag::cast_unsigned);
        let kind = u64::from(self.source.is_some()) << 1 | u64::from(self.tag.is_some());
        let source = self.source.map_or(0, TaskId::to_raw);
        let first = fold(source ^ seed, tag ^ PI[1] ^ kind.rotate_right(2));
        fold(first ^ PI[0], seed ^ PI[2] ^ u64::from(self.context))
    }
}

impl Queues {
    pub(super) fn new(seed: u64) -> Self {
        let name = Name { source: None, tag: None, context: 0 };
        let all = Queue { name, hash: 0, next: NONE, head: NONE, tail: NONE };
        Self { slots: vec![all], free: NONE, buckets: vec![NONE; BUCKETS_MIN], open: 0, seed }
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    fn find(&self, name: Name) -> (u64, Option<u32>) {
        let hash = name.hash(self.seed);
        let mut number = self.buckets[self.bucket(hash)];
        while number != NONE {
            let queue = &self.slots[number as usize];
            if queue.name == name {
                return (hash, Some(number));
            }
            number = queue.next;
        }
        (hash, None)
    }

    /// The first message of the queue that answers `wanted`, or [`NONE`].
    pub(super) fn first(&self, wanted: &Wanted) -> u32 {
        let Wanted { source, tag, context } = *wanted;
        let (_, found) = self.find(Name { source, tag, context });
        found.map_or(NONE, |queue| self.slots[queue as usize].head)
    }

    fn open(&mut self, source: Option<TaskId>, tag: Option<Tag>, context: u32) -> u32 {
        let name = Name { source, tag, context };
        let (hash, found) = self.find(name);
        if let Some(queue) = found {
            return queue;
        }
        if self.open == self.buckets.len() {
            self.grow();
        }
        self.open += 1;
        let bucket = self.bucket(hash);
        let new = Queue { name, hash, next: self.buckets[bucket], head: NONE, tail: NONE };
        let mut number = self.free;
        if number == NONE {
            number = self.slots.len() as u32;
            self.slots.push(new);
        } else {
            let slot = &mut self.slots[number as usize];
            self.free = slot.next;
            *slot = new;
        }
        self.buckets[bucket] = number;
        number
    }

    fn grow(&mut self) {
        let old = core::mem::take(&mut self.buckets);
        self.buckets = vec![NONE; 2 * old.len()];
        for mut number in old {
            while number != NONE {
                let bucket = self.bucket(self.slots[number as usize].hash);
                let queue = &mut self.slots[number as usize];
                let next = queue.next;
                queue.next = self.buckets[bucket];
                self.buckets[bucket] = number;
                number = next;
            }
        }
    }

    /// The queues that a message of `key` belongs to, by kind. Those that are new are empty, and
    /// must get it. `sibling` gives the queues of a message that has the same key.
    pub(super) fn of(
        &mut self,
        key: &Key,
        sibling: impl FnOnce(u32) -> [u32; KINDS],
    ) -> [u32; KINDS] {
        let Key { source, tag, context } = *key;
        let exact = self.open(Some(source), Some(tag), context);
        let tail = self.slots[exact as usize].tail;
        if tail != NONE {
            return sibling(tail);
        }
        let by_source = self.open(Some(source), None, context);
        let by_tag = self.open(None, Some(tag), context);
        [exact, by_source, by_tag, self.open(None, None, context), 0]
    }

    pub(super) fn queue(&mut self, number: u32) -> &mut Queue {
        &mut self.slots[number as usize]
    }

    /// The first of all messages, or [`NONE`].
    pub(super) fn first_of_all(&self) -> u32 {
        self.slots[0].head
    }

    /// Closes queue `number`, which has become empty; the queue of everything stays.
    pub(super) fn close(&mut self, number: u32) {
        if number == 0 {
            return;
        }
        let Queue { hash, next, .. } = self.slots[number as usize];
        let bucket = self.bucket(hash);
        let mut before = self.buckets[bucket];
        if before == number {
            self.buckets[bucket] = next;
        } else {
            while self.slots[before as usize].next != number {
                before = self.slots[before as usize].next;
            }
            self.slots[before as usize].next = next;
        }
        self.slots[number as usize].next = self.free;
        self.free = number;
        self.open -= 1;
    }

    /// The names of all open queues.
    fn names(&self) -> impl Iterator<Item = Name> {
        self.buckets.iter().flat_map(|&first| {
            let queue = |number: u32| self.slots.get(number as usize);
            let chain = core::iter::successors(queue(first), move |q| queue(q.next));
            chain.map(|queue| queue.name)
        })
    }

    /// The contexts that have messages, in ascending order: that of the chains depends on the
    /// seed.
    pub(super) fn contexts(&self) -> Vec<u32> {
        let whole = self.names().filter(|name| name.source.is_none() && name.tag.is_none());
        let mut contexts: Vec<u32> = whole.map(|name| name.context).collect();
        contexts.sort_unstable();
        contexts
    }

    /// Number of open queues, without the queue of everything.
    #[cfg(test)]
    pub(super) fn open_queues(&self) -> usize {
        assert_eq!(self.names().count(), self.open);
        assert!(self.open <= self.buckets.len());
        self.open
    }
}
