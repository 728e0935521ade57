//! Queues in a ring per priority.

use alloc::vec::Vec;

use super::contract::PRIORITIES;
use super::store::NONE;

/// A ring of queues for each priority. Invariant: a queue is in at most one ring; a bit is set
/// iff its ring is not empty.
#[derive(Clone, Debug)]
pub(super) struct Rings {
    busy: u64,
    /// Last of each ring; its `next` is first.
    tails: [u32; PRIORITIES as usize],
    next: Vec<u32>,
}

impl Rings {
    pub(super) fn new() -> Self {
        Self { busy: 0, tails: [NONE; PRIORITIES as usize], next: Vec::new() }
    }

    pub(super) fn reserve(&mut self, queues: usize) {
        if queues > self.next.len() {
            self.next.resize(queues, NONE);
        }
    }

    /// Priorities with queues, a bit each.
    #[inline]
    pub(super) fn busy(&self) -> u64 {
        self.busy
    }

    #[inline]
    pub(super) fn first(&self, priority: u8) -> Option<u32> {
        let tail = self.tails[usize::from(priority)];
        if tail == NONE { None } else { Some(self.next[tail as usize]) }
    }

    /// Behind all others of its priority.
    #[inline]
    pub(super) fn push(&mut self, priority: u8, queue: u32) {
        let tail = &mut self.tails[usize::from(priority)];
        if *tail == NONE {
            self.next[queue as usize] = queue;
            self.busy |= 1 << priority;
        } else {
            self.next[queue as usize] = self.next[*tail as usize];
            self.next[*tail as usize] = queue;
        }
        *tail = queue;
    }

    /// The first becomes the last.
    #[inline]
    pub(super) fn rotate(&mut self, priority: u8) {
        let tail = &mut self.tails[usize::from(priority)];
        if *tail != NONE {
            *tail = self.next[*tail as usize];
        }
    }

    /// Takes the first out.
    #[inline]
    pub(super) fn pop(&mut self, priority: u8) {
        let tail = &mut self.tails[usize::from(priority)];
        if *tail == NONE {
            return;
        }
        let first = self.next[*tail as usize];
        if first == *tail {
            *tail = NONE;
            self.busy &= !(1 << priority);
        } else {
            self.next[*tail as usize] = self.next[first as usize];
        }
    }

    /// Every queue of a priority, first to last.
    pub(super) fn each(&self, priority: u8) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.first(priority);
        core::iter::from_fn(move || {
            let queue = at?;
            let last = queue == self.tails[usize::from(priority)];
            at = if last { None } else { Some(self.next[queue as usize]) };
            Some(queue)
        })
    }
}
