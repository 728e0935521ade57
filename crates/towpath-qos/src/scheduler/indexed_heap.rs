//! A heap of queues in which any entry can change or leave: O(log V).

use alloc::vec::Vec;

use super::fixed::precedes;
use super::heap::Entry;
use super::store::NONE;

const ARITY: usize = 4;

/// Where each queue is in the heap that holds it. Heaps of which a queue is in at most one at a
/// time share one.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Vec<u32>);

impl Places {
    pub(super) fn reserve(&mut self, queues: usize) {
        if queues > self.0.len() {
            self.0.resize(queues, NONE);
        }
    }
}

/// Queues by key. Invariants: no entry precedes its parent; `places[entry.queue]` is its index.
#[derive(Clone, Debug, Default)]
pub(super) struct IndexedHeap {
    entries: Vec<Entry>,
}

impl IndexedHeap {
    pub(super) fn reserve(&mut self, queues: usize) {
        self.entries.reserve(queues.saturating_sub(self.entries.len()));
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<Entry> {
        self.entries.first().copied()
    }

    #[cfg(test)]
    fn contains(&self, places: &Places, queue: u32) -> bool {
        self.entries.get(places.0[queue as usize] as usize).is_some_and(|e| e.queue == queue)
    }

    #[inline]
    pub(super) fn push(&mut self, places: &mut Places, key: u64, queue: u32) {
        self.entries.push(Entry { key, queue });
        self.sift_up(places, self.entries.len() - 1, Entry { key, queue });
    }

    /// Changes the key of a queue, which must be in it.
    #[inline]
    pub(super) fn update(&mut self, places: &mut Places, key: u64, queue: u32) {
        let at = places.0[queue as usize] as usize;
        debug_assert_eq!(self.entries[at].queue, queue);
        let entry = Entry { key, queue };
        if precedes(key, self.entries[at].key) {
            self.sift_up(places, at, entry);
        } else {
            self.sift_down(places, at, entry);
        }
    }

    /// Removes a queue, which must be in it.
    #[inline]
    pub(super) fn remove(&mut self, places: &mut Places, queue: u32) {
        let at = places.0[queue as usize] as usize;
        debug_assert_eq!(self.entries[at].queue, queue);
        let removed = self.entries[at].key;
        let last = self.entries.len() - 1;
        let moved = self.entries[last];
        self.entries.truncate(last);
        places.0[queue as usize] = NONE;
        if at < last {
            if precedes(moved.key, removed) {
                self.sift_up(places, at, moved);
            } else {
                self.sift_down(places, at, moved);
            }
        }
    }

    #[inline]
    fn sift_up(&mut self, places: &mut Places, mut at: usize, entry: Entry) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            let above = self.entries[parent];
            if !precedes(entry.key, above.key) {
                break;
            }
            self.set(places, at, above);
            at = parent;
        }
        self.set(places, at, entry);
    }

    #[inline]
    fn sift_down(&mut self, places: &mut Places, mut at: usize, entry: Entry) {
        loop {
            let first = ARITY * at + 1;
            let end = (first + ARITY).min(self.entries.len());
            let Some(children) = self.entries.get(first..end) else { break };
            let mut best = first;
            let Some(mut least) = children.first().copied() else { break };
            for (i, child) in children.iter().enumerate().skip(1) {
                if precedes(child.key, least.key) {
                    best = first + i;
                    least = *child;
                }
            }
            if !precedes(least.key, entry.key) {
                break;
            }
            self.set(places, at, least);
            at = best;
        }
        self.set(places, at, entry);
    }

    #[inline]
    fn set(&mut self, places: &mut Places, at: usize, entry: Entry) {
        self.entries[at] = entry;
        places.0[entry.queue as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_sorted_set(ops in prop::collection::vec((0u32..20, 0u64..100), 1..200)) {
            let mut places = Places::default();
            places.reserve(20);
            let mut heap = IndexedHeap::default();
            let mut model: BTreeSet<(u64, u32)> = BTreeSet::new();
            for (queue, key) in ops {
                let old = model.iter().find(|e| e.1 == queue).copied();
                prop_assert_eq!(heap.contains(&places, queue), old.is_some());
                match old {
                    Some(old) if key < 30 => {
                        model.remove(&old);
                        heap.remove(&mut places, queue);
                    }
                    Some(old) => {
                        model.remove(&old);
                        model.insert((key, queue));
                        heap.update(&mut places, key, queue);
                    }
                    None => {
                        model.insert((key, queue));
                        heap.push(&mut places, key, queue);
                    }
                }
                prop_assert_eq!(heap.peek().map(|e| e.key), model.first().map(|e| e.0));
            }
        }
    }
}
