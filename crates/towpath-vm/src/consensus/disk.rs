//! What is to be written, and what waits for it.
//!
//! A replica hands out [`Write`]s in order and goes on; whoever writes them says up to which all
//! have reached the disk. What a message promises (a vote, entries) is in a write that was handed
//! out before the message is let go.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::config::HELD_MAX;
use super::entry::{Entry, ReplicaId};
use super::log::{Log, Snapshot};
use super::message::Message;

/// One thing to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The term, and who has this replica's vote in it.
    Vote {
        /// The term.
        term: u64,
        /// Who.
        vote: Option<ReplicaId>,
    },
    /// An entry. It takes the place of what is there at its index and after it.
    Entry(Entry),
    /// All up to an entry.
    Snapshot(Arc<Snapshot>),
}

/// What is to be written at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Counts writes, from 1.
    pub number: u64,
    /// All that was written before goes when this is on the disk, not before: a new file is put in
    /// the place of the old one.
    pub replaces: bool,
    /// What.
    pub records: Vec<Record>,
}

/// What waits for the disk. Invariants: `durable ≤ handed`; `stable` and the indices in `entries`
/// ascend, and are at most the log's last.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    records: Vec<Record>,
    replaces: bool,
    handed: u64,
    durable: u64,
    /// The write with the last change of term or vote.
    voted: u64,
    /// Writes with entries that are not on the disk, and the last entry of each.
    entries: VecDeque<(u64, u64)>,
    /// All entries up to here are on the disk.
    stable: u64,
    held: VecDeque<(u64, Message)>,
    /// Ticks since the disk last took something, while it should.
    pub(crate) waited: u32,
    /// Messages that were dropped, since too many waited.
    pub(crate) dropped: u64,
}

impl Disk {
    /// One that has everything up to this entry.
    pub(crate) fn with(stable: u64) -> Self {
        Self { stable, ..Self::default() }
    }

    const fn next(&self) -> u64 {
        self.handed + 1
    }

    pub(crate) fn vote(&mut self, term: u64, vote: Option<ReplicaId>) {
        self.voted = self.next();
        self.records.push(Record::Vote { term, vote });
    }

    pub(crate) fn entry(&mut self, entry: Entry) {
        let (next, index) = (self.next(), entry.index);
        match self.entries.back_mut() {
            Some((number, last)) if *number == next => *last = index,
            _ => self.entries.push_back((next, index)),
        }
        self.records.push(Record::Entry(entry));
    }

    /// Entries after this one are taken back.
    pub(crate) fn truncate(&mut self, index: u64) {
        self.stable = self.stable.min(index);
        for (_, last) in &mut self.entries {
            *last = (*last).min(index);
        }
    }

    /// All that there is goes into a new file.
    pub(crate) fn replace(&mut self, log: &Log, term: u64, vote: Option<ReplicaId>) {
        self.records.clear();
        self.replaces = true;
        self.records.push(Record::Snapshot(Arc::clone(log.snapshot())));
        self.vote(term, vote);
        let next = self.next();
        self.entries.retain(|(number, _)| *number != next);
        self.entries.push_back((next, log.last_index()));
        self.records.extend(log.from(0).cloned().map(Record::Entry));
    }

    /// The write that the last change of term and vote is in.
    pub(crate) const fn voted(&self) -> u64 {
        self.voted
    }

    /// The write that all is in so far.
    pub(crate) fn last(&self) -> u64 {
        if self.records.is_empty() { self.handed } else { self.next() }
    }

    pub(crate) const fn is_durable(&self, number: u64) -> bool {
        number <= self.durable
    }

    pub(crate) const fn waits(&self) -> bool {
        self.durable < self.handed
    }

    pub(crate) const fn stable(&self) -> u64 {
        self.stable
    }

    /// Lets a message go once this write is on the disk.
    pub(crate) fn hold(&mut self, after: u64, message: Message) {
        if self.held.len() < HELD_MAX {
            self.held.push_back((after, message));
        } else {
            self.dropped += 1;
        }
    }

    /// What is to be written now.
    pub(crate) fn write(&mut self) -> Option<Write> {
        if self.records.is_empty() {
            return None;
        }
        self.handed += 1;
        let records = core::mem::take(&mut self.records);
        Some(Write { number: self.handed, replaces: core::mem::take(&mut self.replaces), records })
    }

    /// All writes up to this one are on the disk. True if that is news.
    pub(crate) fn durable(&mut self, number: u64) -> bool {
        let number = number.min(self.handed);
        if number <= self.durable {
            return false;
        }
        self.durable = number;
        self.waited = 0;
        while let Some((write, last)) = self.entries.front().copied()
            && write <= number
        {
            self.stable = self.stable.max(last);
            self.entries.pop_front();
        }
        true
    }

    /// Messages whose writes are on the disk.
    pub(crate) fn released(&mut self) -> Vec<Message> {
        let mut go = Vec::new();
        for (after, message) in core::mem::take(&mut self.held) {
            if after <= self.durable {
                go.push(message);
            } else {
                self.held.push_back((after, message));
            }
        }
        go
    }

    pub(crate) fn tick(&mut self) {
        self.waited = if self.waits() { self.waited.saturating_add(1) } else { 0 };
    }
}
