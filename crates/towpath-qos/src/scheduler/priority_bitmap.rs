//! Static priority, non-preemptive, the queues of a priority in turn.
//!
//! The most urgent priority that has a packet goes first; within it the queues send a packet each
//! in the order of their ids, round and round. Which queues wait is a bit each, under words that
//! say which words are not zero, 64 to one: the next queue is found by four find-first-sets, and
//! sending goes through memory in its order instead of the order of arrival, which is what costs
//! at 10⁵ queues. Bound for priority p, 0 most urgent: D ≤ (Σ_{q≤p} b + L) / (C − Σ_{q≤p} r), the
//! longest time that packets as urgent keep the link busy, which holds for any order within p; a
//! queue alone in its priority has static priority's, with r of the more urgent only. Cost: O(1).
//! Source: Cruz (1991) for the bound; Eiffel (Saeed et al., NSDI 2019) for the bitmaps. Reads
//! `priority`.

use alloc::vec::Vec;

use towpath_wire::Instant;

use super::contract::{ConfigError, PRIORITIES, Packet, PortConfig, QueueConfig};
use super::port::Policy;
use super::store::Table;

/// Levels of words: 64⁴ ids.
const LEVELS: usize = 4;

/// A set of queue ids. Invariant: a bit of level k + 1 is set iff its word of level k is not zero.
#[derive(Clone, Debug, Default)]
struct Ids {
    levels: [Vec<u64>; LEVELS],
    /// Whose turn is next, if it is there.
    turn: u32,
}

impl Ids {
    fn reserve(&mut self, ids: usize) {
        let mut words = ids;
        for level in &mut self.levels {
            words = words.div_ceil(64);
            if words > level.len() {
                level.resize(words, 0);
            }
        }
    }

    #[inline]
    fn insert(&mut self, id: u32) {
        let mut at = id as usize;
        for level in &mut self.levels {
            let word = &mut level[at >> 6];
            let was = core::mem::replace(word, *word | 1 << (at & 63));
            if was != 0 {
                return;
            }
            at >>= 6;
        }
    }

    /// Takes an id out; whether none is left.
    #[inline]
    fn remove(&mut self, id: u32) -> bool {
        let mut at = id as usize;
        for level in &mut self.levels {
            let word = &mut level[at >> 6];
            *word &= !(1 << (at & 63));
            if *word != 0 {
                return false;
            }
            at >>= 6;
        }
        true
    }

    /// The id whose turn it is; the turn goes to the one behind it.
    #[inline]
    fn next(&mut self) -> Option<u32> {
        let id = self.first_from(self.turn as usize).or_else(|| self.first_from(0))?;
        self.turn = id + 1;
        Some(id)
    }

    #[inline]
    fn first_from(&self, from: usize) -> Option<u32> {
        let mut at = from;
        // Bits from `at` on, above the first level those behind it.
        let mut keep = u64::MAX;
        for (k, level) in self.levels.iter().enumerate() {
            let word = level.get(at >> 6)? & (keep << (at & 63));
            if word != 0 {
                let mut found = (at & !63) + word.trailing_zeros() as usize;
                for below in self.levels[..k].iter().rev() {
                    found = (found << 6) + below[found].trailing_zeros() as usize;
                }
                return Some(found as u32);
            }
            at >>= 6;
            keep = !1;
        }
        None
    }
}

/// Static priority on bitmaps. Invariants: exactly the queues with packets are in the set of their
/// priority; a bit of `busy` is set iff that set is not empty.
#[derive(Clone, Debug)]
pub struct PriorityBitmap {
    busy: u64,
    ids: [Ids; PRIORITIES as usize],
}

impl Policy for PriorityBitmap {
    /// The queue's priority.
    type State = u8;

    fn new(_: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self { busy: 0, ids: core::array::from_fn(|_| Ids::default()) })
    }

    fn configure(
        &mut self,
        table: &mut Table<u8>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        let was = core::mem::replace(table.state(queue), config.priority);
        self.ids[usize::from(config.priority)].reserve(table.queues_len());
        if was != config.priority && table.head(queue).is_some() {
            self.leave(was, queue);
            self.join(config.priority, queue);
        }
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<u8>, _: Instant, packet: &Packet) {
        let queue = packet.queue.0;
        if table.push_plain(packet) {
            self.join(*table.peek_state(queue), queue);
        }
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<u8>, _: Instant) -> Option<Packet> {
        let priority = self.busy.trailing_zeros() as u8;
        let queue = self.ids.get_mut(usize::from(priority))?.next()?;
        let (packet, emptied) = table.pop_plain(queue)?;
        if emptied {
            self.leave(priority, queue);
        }
        Some(packet)
    }
}

impl PriorityBitmap {
    #[inline]
    fn join(&mut self, priority: u8, queue: u32) {
        self.ids[usize::from(priority)].insert(queue);
        self.busy |= 1 << priority;
    }

    #[inline]
    fn leave(&mut self, priority: u8, queue: u32) {
        if self.ids[usize::from(priority)].remove(queue) {
            self.busy &= !(1 << priority);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        /// Against a set in order, with ids that take all levels.
        #[test]
        fn turns_go_round_in_order(
            ops in prop::collection::vec((0u8..3, 0u32..80, 0u32..3), 1..300),
        ) {
            let mut ids = Ids::default();
            ids.reserve(80 + (2 << 18));
            let (mut model, mut turn) = (BTreeSet::new(), 0);
            for (op, id, far) in ops {
                let id = id + (far << 18);
                match op {
                    0 => {
                        ids.insert(id);
                        model.insert(id);
                    }
                    1 => {
                        model.remove(&id);
                        prop_assert_eq!(ids.remove(id), model.is_empty());
                    }
                    _ => {
                        let next = model.range(turn..).next().or(model.first()).copied();
                        prop_assert_eq!(ids.next(), next);
                        turn = next.map_or(turn, |id| id + 1);
                    }
                }
            }
        }
    }
}
