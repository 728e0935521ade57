//! A 4-ary heap of queues by key: exact order, O(log V).

use alloc::vec::Vec;

use super::fixed::precedes;

/// A queue and its key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// Place in the order, see [`precedes`].
    pub key: u64,
    /// The queue.
    pub queue: u32,
}

/// The four children of one entry: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([Entry; 4]);

/// Number of the root. Line 0 holds it in its last place; the children of entry `k` fill line
/// `k − 2`, the parent of `k` is `k/4 + 2`.
const ROOT: usize = 3;

/// Queues by key, smallest first.
///
/// Invariant: no entry precedes its parent; entries fill numbers `ROOT..ROOT + len`.
#[derive(Clone, Debug, Default)]
pub struct Heap {
    lines: Vec<Line>,
    len: usize,
}

impl Heap {
    /// Makes room for `queues` entries, so that `push` does not allocate.
    pub fn reserve(&mut self, queues: usize) {
        let lines = (ROOT + queues).div_ceil(4);
        if lines > self.lines.len() {
            self.lines.resize(lines, Line::default());
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry that precedes all others.
    #[inline]
    pub fn peek(&self) -> Option<Entry> {
        if self.len == 0 { None } else { Some(self.lines[0].0[3]) }
    }

    /// Adds an entry.
    #[inline]
    pub fn push(&mut self, key: u64, queue: u32) {
        let mut at = ROOT + self.len;
        self.len += 1;
        if at / 4 >= self.lines.len() {
            self.lines.push(Line::default());
        }
        while at > ROOT {
            let parent = at / 4 + 2;
            let above = self.lines[parent / 4].0[parent % 4];
            if !precedes(key, above.key) {
                break;
            }
            self.lines[at / 4].0[at % 4] = above;
            at = parent;
        }
        self.lines[at / 4].0[at % 4] = Entry { key, queue };
    }

    /// Takes the first entry.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        let first = self.peek()?;
        self.len -= 1;
        let last = ROOT + self.len;
        let moved = self.lines[last / 4].0[last % 4];
        if self.len > 0 {
            self.sift_down(moved);
        }
        Some(first)
    }

    /// Puts an entry in place of the first, which must exist.
    #[inline]
    pub fn replace(&mut self, key: u64, queue: u32) {
        debug_assert!(self.len > 0);
        self.sift_down(Entry { key, queue });
    }

    /// Removes a queue's entry, if any. O(V log V): for changes of configuration.
    pub fn remove(&mut self, queue: u32) {
        let all = ROOT..ROOT + core::mem::take(&mut self.len);
        // No entry is written behind the one that was read.
        for at in all {
            let entry = self.lines[at / 4].0[at % 4];
            if entry.queue != queue {
                self.push(entry.key, entry.queue);
            }
        }
    }

    #[inline]
    fn sift_down(&mut self, entry: Entry) {
        let end = ROOT + self.len;
        let mut at = ROOT;
        loop {
            let first = 4 * (at - 2);
            if first >= end {
                break;
            }
            let Line(line) = &self.lines[at - 2];
            let best = if first + 4 <= end {
                // A full line, as all but the last: three comparisons without a branch.
                let low = usize::from(precedes(line[1].key, line[0].key));
                let high = 2 + usize::from(precedes(line[3].key, line[2].key));
                if precedes(line[high].key, line[low].key) { high } else { low }
            } else {
                let mut best = 0;
                for i in 1..end - first {
                    if precedes(line[i & 3].key, line[best].key) {
                        best = i & 3;
                    }
                }
                best
            };
            let least = line[best & 3];
            if !precedes(least.key, entry.key) {
                break;
            }
            self.lines[at / 4].0[at % 4] = least;
            at = first + best;
        }
        self.lines[at / 4].0[at % 4] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BinaryHeap;
    use core::cmp::Reverse;
    use proptest::prelude::*;

    proptest! {
        /// Keys in order, around the wrap, as the standard library's heap gives them.
        #[test]
        fn equals_the_standard_heap(
            base in any::<u64>(),
            ops in prop::collection::vec((0u8..4, 0u64..50), 1..200),
        ) {
            let mut heap = Heap::default();
            let mut model = BinaryHeap::new();
            for (op, offset) in ops {
                match op {
                    0 => {
                        heap.push(base.wrapping_add(offset), offset as u32);
                        model.push(Reverse(offset));
                    }
                    1 => {
                        let first = model.pop().map(|r| r.0);
                        prop_assert_eq!(heap.pop().map(|e| u64::from(e.queue)), first);
                    }
                    2 => {
                        heap.remove(offset as u32);
                        model.retain(|r| r.0 != offset);
                    }
                    _ => if model.pop().is_some() {
                        heap.replace(base.wrapping_add(offset), offset as u32);
                        model.push(Reverse(offset));
                    }
                }
                prop_assert_eq!(heap.len(), model.len());
                prop_assert_eq!(heap.peek().map(|e| u64::from(e.queue)), model.peek().map(|r| r.0));
            }
        }
    }
}
