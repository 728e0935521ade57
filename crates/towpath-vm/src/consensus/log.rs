//! The log in memory: what came after the last snapshot, and who takes part at each place of it.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::entry::{Body, Entry, Members};

/// A state machine's state as of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Index of the last entry in it.
    pub index: u64,
    /// Term of that entry.
    pub term: u64,
    /// Who took part then.
    pub members: Members,
    /// The state.
    pub state: Vec<u8>,
}

/// The log since a snapshot. Invariants: `entries[i].index = snapshot.index + 1 + i`;
/// `changes` has the place and the content of every entry in `entries` that says who takes part.
#[derive(Debug)]
pub(crate) struct Log {
    snapshot: Arc<Snapshot>,
    entries: VecDeque<Entry>,
    bytes: usize,
    changes: Vec<(u64, Members)>,
}

impl Log {
    pub(crate) fn new(snapshot: Snapshot, entries: Vec<Entry>) -> Self {
        let mut log = Self {
            snapshot: Arc::new(snapshot),
            entries: VecDeque::new(),
            bytes: 0,
            changes: Vec::new(),
        };
        for entry in entries {
            log.push(entry);
        }
        log
    }

    pub(crate) const fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    pub(crate) fn last_index(&self) -> u64 {
        self.snapshot.index + self.entries.len() as u64
    }

    pub(crate) fn last_term(&self) -> u64 {
        self.entries.back().map_or(self.snapshot.term, |e| e.term)
    }

    /// The term of the entry at an index, as far as that is known.
    pub(crate) fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.snapshot.index {
            return Some(self.snapshot.term);
        }
        self.get(index).map(|e| e.term)
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Entry> {
        let at = index.checked_sub(self.snapshot.index + 1)?;
        self.entries.get(usize::try_from(at).ok()?)
    }

    /// Entries from `index` on.
    pub(crate) fn from(&self, index: u64) -> impl Iterator<Item = &Entry> {
        let skip = index.saturating_sub(self.snapshot.index + 1);
        self.entries.range((skip as usize).min(self.entries.len())..)
    }

    /// Bytes of all entries.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Who takes part as of the last entry.
    pub(crate) fn members(&self) -> &Members {
        self.changes.last().map_or(&self.snapshot.members, |(_, members)| members)
    }

    /// Where that was last changed: the snapshot's index, if not since.
    pub(crate) fn members_since(&self) -> u64 {
        self.changes.last().map_or(self.snapshot.index, |(index, _)| *index)
    }

    /// Who takes part as of an entry.
    pub(crate) fn members_at(&self, index: u64) -> &Members {
        let change = self.changes.iter().rev().find(|(at, _)| *at <= index);
        change.map_or(&self.snapshot.members, |(_, members)| members)
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        assert_eq!(entry.index, self.last_index() + 1, "entries have no gaps");
        self.bytes += entry.size();
        if let Body::Members(members) = &entry.body {
            self.changes.push((entry.index, members.clone()));
        }
        self.entries.push_back(entry);
    }

    /// Takes back what is after `index`.
    pub(crate) fn truncate(&mut self, index: u64) {
        assert!(index >= self.snapshot.index, "what is in a snapshot is committed");
        while self.last_index() > index {
            let Some(entry) = self.entries.pop_back() else { break };
            self.bytes -= entry.size();
        }
        self.changes.retain(|(at, _)| *at <= index);
    }

    /// The last index at most `index` whose term is at most `term`; where it is not known any more,
    /// the snapshot's.
    pub(crate) fn last_of_term(&self, index: u64, term: u64) -> u64 {
        let mut at = index.min(self.last_index());
        while at > self.snapshot.index && self.term_at(at).is_some_and(|t| t > term) {
            at -= 1;
        }
        at
    }

    /// Puts a snapshot in the place of what is in it. What follows stays where it follows on that
    /// very entry, else nothing does. True if it does.
    pub(crate) fn install(&mut self, snapshot: Snapshot) -> bool {
        let follows = self.term_at(snapshot.index) == Some(snapshot.term);
        let left = if follows { snapshot.index } else { self.last_index() };
        let count = (left - self.snapshot.index) as usize;
        self.bytes -= self.entries.drain(..count).map(|e| e.size()).sum::<usize>();
        self.changes.retain(|(at, _)| *at > left);
        self.snapshot = Arc::new(snapshot);
        follows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consensus::entry::ReplicaId;
    use alloc::vec;

    fn members(count: u64) -> Members {
        Members::of((1..=count).map(ReplicaId))
    }

    /// After a snapshot of entry 10 and term 2: terms 2, 3, 3, 5; members change at 12 and 14.
    fn log() -> Log {
        let snapshot = Snapshot { index: 10, term: 2, members: members(1), state: vec![7] };
        let entry = |(index, term, body)| Entry { term, index, body };
        let entries = [
            (11, 2, Body::Empty),
            (12, 3, Body::Members(members(2))),
            (13, 3, Body::Open { nonce: 5 }),
            (14, 5, Body::Members(members(3))),
        ];
        Log::new(snapshot, entries.map(entry).into())
    }

    #[test]
    fn terms_and_entries_are_known_from_the_snapshot_on() {
        let log = log();
        assert_eq!((log.last_index(), log.last_term()), (14, 5));
        let terms = (9..=15).map(|index| log.term_at(index)).collect::<Vec<_>>();
        assert_eq!(terms, [None, Some(2), Some(2), Some(3), Some(3), Some(5), None]);
        let known = (9..=15).map(|index| log.get(index).is_some()).collect::<Vec<_>>();
        assert_eq!(known, [false, false, true, true, true, true, false]);
        for (from, count) in [(0, 4), (11, 4), (12, 3), (14, 1), (15, 0), (99, 0)] {
            assert_eq!(log.from(from).count(), count, "from {from}");
        }
        assert_eq!((log.members(), log.members_since()), (&members(3), 14));
    }

    #[test]
    fn the_last_entry_of_a_term_is_found_at_or_before_a_place() {
        let log = log();
        for (index, term, last) in [
            (14, 5, 14),
            (14, 9, 14),
            (99, 5, 14),
            (14, 4, 13),
            (14, 3, 13),
            (12, 3, 12),
            (14, 2, 11),
            (12, 2, 11),
            (11, 2, 11),
            (14, 1, 10),
            (14, 0, 10),
            (10, 0, 10),
        ] {
            assert_eq!(log.last_of_term(index, term), last, "{index} {term}");
        }
    }

    #[test]
    fn what_is_taken_back_counts_no_more() {
        let mut log = log();
        let sizes: usize = log.from(0).map(Entry::size).sum();
        assert_eq!(log.bytes(), sizes);
        log.truncate(14);
        assert_eq!(log.last_index(), 14);
        log.truncate(12);
        assert_eq!((log.last_index(), log.last_term()), (12, 3));
        assert_eq!((log.members(), log.members_since()), (&members(2), 12));
        assert_eq!(log.bytes(), log.from(0).map(Entry::size).sum());
        log.truncate(11);
        assert_eq!((log.members(), log.members_since()), (&members(1), 10));
        log.truncate(10);
        assert_eq!((log.bytes(), log.last_index(), log.last_term()), (0, 10, 2));
    }

    #[test]
    fn what_follows_a_snapshot_stays_where_it_follows_on_its_entry() {
        let snapshot = |index, term| Snapshot { index, term, members: members(4), state: vec![] };
        let mut log = self::log();
        assert!(log.install(snapshot(13, 3)));
        assert_eq!((log.last_index(), log.term_at(13), log.get(13)), (14, Some(3), None));
        assert_eq!((log.members(), log.members_since()), (&members(3), 14));
        assert_eq!(log.bytes(), log.from(0).map(Entry::size).sum());
        for (index, term) in [(13, 4), (20, 9)] {
            let mut log = self::log();
            assert!(!log.install(snapshot(index, term)));
            assert_eq!((log.last_index(), log.last_term(), log.bytes()), (index, term, 0));
            assert_eq!((log.members(), log.members_since()), (&members(4), index));
        }
    }
}
