//! What a leader that asks nobody decides, and what each of several that keep the log writes, on
//! its way to a disk: nothing follows from a command before its owner has written it.
//!
//! ```text
//!  propose ─▶ proposed ─▶ write(): entries, or all of the state ─▶ the owner's disk
//!                 └───────────── poll(), once written ◀──────── wrote(number)
//! ```
//! What is written are records of the log that voters keep ([`towpath_vm::consensus`]), so that
//! there is one format, and one reader.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use towpath_vm::consensus::config::STATE_MAX;
use towpath_vm::consensus::{self, Body, Entry, Members, Record, Stored, Write};
use towpath_vm::control::{Command, Commits, ControlState, Outcome, StateError, Ticket};

/// The only term of a log that nobody else keeps.
const TERM: u64 = 1;
/// Bytes of entries after which the state takes their place: as many as the state has, between
/// these. With the longest state, and all that may wait, a file is no longer than one that is read.
const COMPACT_AFTER: [usize; 2] = [1 << 20, 32 << 20];
/// What a record has beside its entry, at most.
const RECORD_COST: usize = 40;

/// Commands that are being written, and what waits for that. Invariants: `proposed` has, in order,
/// those that were not given out, the last of them at `last`; those behind `handed_to` are in no
/// write.
#[derive(Debug)]
pub(crate) struct Ledger {
    proposed: VecDeque<(u64, Command)>,
    /// Index of the last command.
    last: u64,
    /// Of the last that the owner was given to write.
    handed_to: u64,
    /// Of the last that it has written.
    written_to: u64,
    /// Writes under way, and the last command in each.
    writes: VecDeque<(u64, u64)>,
    number: u64,
    /// Bytes of entries since the state was written.
    bytes: usize,
    /// So many, and the state takes their place; at zero it does next, whatever was written.
    compact_after: usize,
    /// The state has more bytes than a journal takes: nothing is written any more.
    is_too_long: bool,
}

/// What a voter writes, on its way to the owner's disk. Invariants: `waiting` has, in order, the
/// writes that were not handed over, none of them before one that replaces all; nothing is in it
/// before the first of that kind, so that what an earlier life has on the disk is replaced as a
/// whole.
#[derive(Debug)]
pub(crate) struct Writes {
    pub(crate) waiting: VecDeque<Write>,
    has_begun: bool,
    /// Something was not handed over and never will be: everything is written anew.
    pub(crate) lacks: bool,
    /// The numbers that the owner is given follow this one.
    pub(crate) after: u64,
}

impl Writes {
    pub(crate) const fn new(after: u64) -> Self {
        Self { waiting: VecDeque::new(), has_begun: false, lacks: false, after }
    }

    /// Takes a write in; false where it need not wait for a disk.
    pub(crate) fn put(&mut self, write: Write) -> bool {
        self.has_begun |= write.replaces;
        if write.replaces {
            // What was not handed over is in it.
            self.waiting.clear();
        }
        if self.has_begun {
            self.waiting.push_back(write);
        }
        self.has_begun
    }
}

fn entry(index: u64, command: &Command) -> Entry {
    let bytes = command.encode();
    let body = Body::Command(consensus::Command { session: 0, number: 0, settled: 0, bytes });
    Entry { term: TERM, index, body }
}

impl Ledger {
    /// One that begins with whatever the state is then.
    pub(crate) fn new() -> Self {
        Self {
            proposed: VecDeque::new(),
            last: 1,
            handed_to: 1,
            written_to: 1,
            writes: VecDeque::new(),
            number: 0,
            bytes: 0,
            compact_after: 0,
            is_too_long: false,
        }
    }

    /// What is to be written next, if anything. `state` has the effect of all that was given out.
    pub(crate) fn write(&mut self, state: &ControlState) -> Option<Write> {
        let compacts = self.bytes >= self.compact_after;
        if self.is_too_long || !compacts && self.handed_to == self.last {
            return None;
        }
        let mut records = Vec::new();
        if compacts {
            let (_, index) = self.progress();
            let (members, state) = (Members::default(), state.encode());
            if state.len() > STATE_MAX {
                self.is_too_long = true;
                return None;
            }
            let [least, most] = COMPACT_AFTER;
            self.compact_after = state.len().clamp(least, most);
            self.bytes = 0;
            let snapshot = consensus::Snapshot { index, term: TERM, members, state };
            records.push(Record::Snapshot(Arc::new(snapshot)));
            self.handed_to = index;
        }
        let new = self.proposed.iter().filter(|(index, _)| *index > self.handed_to);
        for (index, command) in new {
            let entry = entry(*index, command);
            self.bytes += entry.size() + RECORD_COST;
            records.push(Record::Entry(entry));
        }
        self.handed_to = self.last;
        self.number += 1;
        self.writes.push_back((self.number, self.last));
        Some(Write { number: self.number, replaces: compacts, records })
    }

    /// The owner has written all up to this write.
    pub(crate) fn wrote(&mut self, number: u64) {
        while let Some((_, last)) = self.writes.front().filter(|(write, _)| *write <= number) {
            self.written_to = self.written_to.max(*last);
            self.writes.pop_front();
        }
    }

    /// The owner cannot write: what was decided is lost with this host, unless it is given all that
    /// there is later.
    pub(crate) fn is_not_kept(&mut self) {
        if self.handed_to < self.last {
            self.compact_after = 0;
        }
        self.written_to = self.last;
    }

    /// Whether nothing is written any more, for the state is too long.
    pub(crate) const fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// The last command, and the last that was given out.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.last, self.proposed.front().map_or(self.last, |(first, _)| first - 1))
    }

    /// Whether there is something to give out.
    pub(crate) fn is_due(&self) -> bool {
        let first = self.proposed.front();
        first.is_some_and(|(index, _)| *index <= self.written_to || self.is_too_long)
    }

    /// The state that the records of a log give.
    pub(crate) fn read(stored: &Stored) -> Result<ControlState, StateError> {
        let mut state = ControlState::decode(&stored.snapshot.state)?;
        for Entry { index, body, .. } in &stored.entries {
            if let Body::Command(command) = body {
                let command = Command::decode(&command.bytes).map_err(|_| StateError::Malformed)?;
                state.apply(*index, command);
            }
        }
        Ok(state)
    }
}

impl Commits for Ledger {
    fn propose(&mut self, command: Command) -> Ticket {
        self.last += 1;
        self.proposed.push_back((self.last, command));
        Ticket(self.last)
    }

    fn poll(&mut self) -> Option<Outcome> {
        let (index, command) =
            if self.is_due() { self.proposed.pop_front()? } else { return None };
        Some(Outcome::Committed(index, Ticket(index), command))
    }
}

#[cfg(test)]
mod tests {
    use towpath_vm::ControlLog;

    use super::*;
    use crate::voters::tests::host;

    fn state() -> ControlState {
        ControlState::new(ControlLog::found(host(1), 3000))
    }

    #[test]
    fn the_state_is_written_anew_after_so_many_bytes_of_entries() {
        let (state, mut ledger) = (state(), Ledger::new());
        assert!(ledger.write(&state).expect("all that there is").replaces);
        let [least, _] = COMPACT_AFTER;
        let mut bytes = 0;
        while bytes < least {
            ledger.propose(Command::Network("[".repeat(50_000)));
            let write = ledger.write(&state).expect("something is new");
            assert_eq!((write.replaces, write.records.len()), (false, 1));
            let Record::Entry(entry) = &write.records[0] else { panic!("{:?}", write.records) };
            bytes += entry.size() + RECORD_COST;
            ledger.wrote(write.number);
            assert!(ledger.is_due() && ledger.poll().is_some());
        }
        let write = ledger.write(&state).expect("it is time");
        assert!(write.replaces && matches!(write.records[..], [Record::Snapshot(_)]));
        assert!(ledger.write(&state).is_none(), "nothing is new");
    }

    #[test]
    fn where_the_state_is_too_long_nothing_is_written_and_nobody_waits_for_it() {
        let (state, mut ledger) = (state(), Ledger::new());
        assert!(!ledger.is_too_long());
        ledger.is_too_long = true;
        let ticket = ledger.propose(Command::Network(alloc::string::String::new()));
        assert!(ledger.is_too_long() && ledger.write(&state).is_none() && ledger.is_due());
        assert!(matches!(ledger.poll(), Some(Outcome::Committed(_, t, _)) if t == ticket));
    }
}
