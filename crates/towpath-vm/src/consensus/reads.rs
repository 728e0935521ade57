//! Fresh reads: a leader that a majority still heeds after the question came answers with all that
//! was committed before it (Ongaro 2014, section 6.4). No clock has a part in it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A read that may be answered once the state holds entry `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// As given by whoever asked.
    pub ticket: u64,
    /// The state must hold this entry.
    pub index: u64,
}

/// Reads that wait for a majority. Invariants: rounds in `waiting` ascend, and are at most
/// `round + 1`.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// The last round that was begun.
    pub(crate) round: u64,
    waiting: VecDeque<(u64, Read)>,
}

impl Reads {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// It waits for the next round: the answers of one that has begun may be older than it.
    pub(crate) fn push(&mut self, read: Read) {
        self.waiting.push_back((self.round + 1, read));
    }

    /// Begins a round, if somebody waits for one.
    pub(crate) fn begin(&mut self) -> bool {
        let due = self.waiting.back().is_some_and(|(round, _)| *round > self.round);
        self.round += u64::from(due);
        due
    }

    /// Those whose round a majority has answered.
    pub(crate) fn answered(&mut self, round: u64) -> Vec<Read> {
        let count = self.waiting.iter().take_while(|(r, _)| *r <= round).count();
        self.waiting.drain(..count).map(|(_, read)| read).collect()
    }

    /// All that wait.
    pub(crate) fn drop_all(self) -> impl Iterator<Item = u64> {
        self.waiting.into_iter().map(|(_, read)| read.ticket)
    }
}
