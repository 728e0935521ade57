//! Queues in a ring per priority.

use alloc::vec::Vec;

use super::contract::PRIORITIES;
use super::store::NONE;

/// Neighbours of a queue in its ring.
#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    before: u32,
}

/// A ring of queues for each priority. Invariant: a queue is in at most one ring; a bit is set
/// iff its ring is not empty.
#[derive(Clone, Debug)]
pub(super) struct Rings {
    busy: u64,
    /// Last of each ring; its `next` is first.
    tails: [u32; PRIORITIES as usize],
    links: Vec<Link>,
}

impl Rings {
    pub(super) fn new() -> Self {
        Self { busy: 0, tails: [NONE; PRIORITIES as usize], links: Vec::new() }
    }

    pub(super) fn reserve(&mut self, queues: usize) {
        if queues > self.links.len() {
            self.links.resize(queues, Link { next: NONE, before: NONE });
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
        self.links.get(tail as usize).map(|link| link.next)
    }

    /// Behind all others of its priority.
    #[inline]
    pub(super) fn push(&mut self, priority: u8, queue: u32) {
        let tail = core::mem::replace(&mut self.tails[usize::from(priority)], queue);
        let link = if let Some(last) = self.links.get_mut(tail as usize) {
            let first = core::mem::replace(&mut last.next, queue);
            self.links[first as usize].before = queue;
            Link { next: first, before: tail }
        } else {
            self.busy |= 1 << priority;
            Link { next: queue, before: queue }
        };
        self.links[queue as usize] = link;
    }

    /// The first becomes the last.
    #[inline]
    pub(super) fn rotate(&mut self, priority: u8) {
        if let Some(first) = self.first(priority) {
            self.tails[usize::from(priority)] = first;
        }
    }

    /// Takes a queue of that priority out.
    #[inline]
    pub(super) fn remove(&mut self, priority: u8, queue: u32) {
        let Link { next, before } = self.links[queue as usize];
        let tail = &mut self.tails[usize::from(priority)];
        if next == queue {
            *tail = NONE;
            self.busy &= !(1 << priority);
            return;
        }
        if *tail == queue {
            *tail = before;
        }
        self.links[before as usize].next = next;
        self.links[next as usize].before = before;
    }

    /// Every queue of a priority, first to last.
    pub(super) fn each(&self, priority: u8) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.first(priority);
        core::iter::from_fn(move || {
            let queue = at?;
            let last = queue == self.tails[usize::from(priority)];
            at = if last { None } else { Some(self.links[queue as usize].next) };
            Some(queue)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_lists(ops in prop::collection::vec((0u8..4, 0u8..3, 0u32..9), 1..200)) {
            let mut rings = Rings::new();
            rings.reserve(9);
            let mut model = [const { Vec::new() }; 3];
            for (op, priority, queue) in ops {
                let at = model.iter().position(|ring: &Vec<u32>| ring.contains(&queue));
                match (op, at) {
                    (0, _) => {
                        rings.rotate(priority);
                        let ring = &mut model[usize::from(priority)];
                        let by = ring.len().min(1);
                        ring.rotate_left(by);
                    }
                    (_, Some(at)) => {
                        rings.remove(at as u8, queue);
                        model[at].retain(|other| *other != queue);
                    }
                    (_, None) => {
                        rings.push(priority, queue);
                        model[usize::from(priority)].push(queue);
                    }
                }
                for (priority, ring) in (0..).zip(&model) {
                    prop_assert_eq!(&rings.each(priority).collect::<Vec<_>>(), ring);
                    prop_assert_eq!(rings.busy() >> priority & 1 == 1, !ring.is_empty());
                }
            }
        }
    }
}
