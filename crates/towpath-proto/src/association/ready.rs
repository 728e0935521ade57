//! Which channels have something to send, kept while it changes, so that nobody has to search.

use alloc::vec::Vec;

use towpath_wire::ChannelId;

/// Channels with something to send, in the order of their turns. Invariants: ranks never grow
/// along the list; each channel stands in it once at most.
#[derive(Debug, Default)]
pub(super) struct Ready {
    list: Vec<(u32, ChannelId)>,
}

impl Ready {
    /// Moves a channel from rank `old` to rank `new`, behind its equals; `None`: not in the list.
    pub(super) fn set(&mut self, channel: ChannelId, old: Option<u32>, new: Option<u32>) {
        if let Some(rank) = old {
            let from = self.list.partition_point(|e| e.0 > rank);
            let at = self.list[from..].iter().position(|e| e.1 == channel);
            self.list.remove(from + at.expect("a ready channel stands at its rank"));
        }
        if let Some(rank) = new {
            let at = self.list.partition_point(|e| e.0 >= rank);
            self.list.insert(at, (rank, channel));
        }
    }

    /// The channel whose turn it is; it goes behind its equals.
    pub(super) fn turn(&mut self) -> Option<ChannelId> {
        let (rank, channel) = *self.list.first()?;
        if self.list.get(1).is_some_and(|second| second.0 == rank) {
            let equals = self.list.iter().take_while(|e| e.0 == rank).count();
            self.list[..equals].rotate_left(1);
        }
        Some(channel)
    }

    /// True when no channel has anything to send.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, in the order of their turns.
    pub(super) fn iter(&self) -> impl Iterator<Item = ChannelId> + '_ {
        self.list.iter().map(|e| e.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_highest_rank_goes_first_and_equals_take_turns() {
        let mut ready = Ready::default();
        for (channel, rank) in [(0, 1), (2, 5), (4, 5), (6, 5), (8, 0)] {
            ready.set(ChannelId(channel), None, Some(rank));
        }
        let turns: [_; 4] = core::array::from_fn(|_| ready.turn().unwrap().0);
        assert_eq!(turns, [2, 4, 6, 2]);
        for c in [2, 4, 6] {
            ready.set(ChannelId(c), Some(5), None);
        }
        ready.set(ChannelId(8), Some(0), Some(1));
        let turns: [_; 3] = core::array::from_fn(|_| ready.turn().unwrap().0);
        assert_eq!(turns, [0, 8, 0]);
    }

    proptest! {
        #[test]
        fn it_is_a_table_of_ranks_in_order(
            ops in proptest::collection::vec((0..12u32, proptest::option::of(0..4u32)), 0..80),
        ) {
            let (mut ready, mut model) = (Ready::default(), BTreeMap::new());
            for (channel, rank) in ops {
                let id = ChannelId(channel);
                let old = match rank {
                    Some(rank) => model.insert(id, rank),
                    None => model.remove(&id),
                };
                ready.set(id, old, rank);
                prop_assert_eq!(ready.list.len(), model.len());
                prop_assert!(ready.list.windows(2).all(|w| w[0].0 >= w[1].0));
                prop_assert!(ready.list.iter().all(|(rank, id)| model.get(id) == Some(rank)));
                let top = model.values().max().copied();
                prop_assert_eq!(ready.turn().map(|id| model[&id]), top);
            }
        }
    }
}
