//! What a leader knows of one other replica.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::config::{APPENDS_UNDER_WAY, PIECES_UNDER_WAY};
use super::log::Snapshot;

/// How entries are sent to a replica.
#[derive(Debug)]
pub(crate) enum Sending {
    /// One message at a time, until it is known from where on its log is like the leader's.
    Probing {
        /// One is under way.
        waits: bool,
    },
    /// One after the other, without waiting for answers.
    Streaming(UnderWay),
    /// What it lacks is in a snapshot.
    Snapshot(Transfer),
}

/// Messages with entries that are not answered: last index and bytes of each.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    messages: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl UnderWay {
    pub(crate) fn push(&mut self, last: u64, bytes: usize) {
        self.messages.push_back((last, bytes));
        self.bytes += bytes;
    }

    fn free(&mut self, matched: u64) {
        while let Some((last, bytes)) = self.messages.front().copied()
            && last <= matched
        {
            self.messages.pop_front();
            self.bytes -= bytes;
        }
    }

    /// The oldest message counts as answered, where there is no room: it may be lost, and only what
    /// is sent can show that.
    fn free_one(&mut self) {
        if let Some((last, _)) = self.messages.front() {
            self.free(*last);
        }
    }

    pub(crate) fn has_room(&self, most: usize) -> bool {
        self.bytes < most && self.messages.len() < APPENDS_UNDER_WAY
    }
}

/// A snapshot on its way. Invariant: `acked ≤ sent ≤ snapshot.state.len()`.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) checksum: u32,
    pub(crate) sent: u64,
    acked: u64,
    /// How far it was at the last beat that was answered.
    before: u64,
    /// An empty state, too, is one piece.
    begun: bool,
}

impl Transfer {
    pub(crate) fn new(snapshot: Arc<Snapshot>, checksum: u32) -> Self {
        Self { snapshot, checksum, sent: 0, acked: 0, before: 0, begun: false }
    }

    /// Where the next piece begins, if one may go out.
    pub(crate) fn next(&self, piece: usize) -> Option<u64> {
        let len = self.snapshot.state.len() as u64;
        let room = self.sent < self.acked + PIECES_UNDER_WAY * piece as u64;
        ((self.sent < len && room) || !self.begun).then_some(self.sent)
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.begun = true;
    }

    /// All before `offset` has come; nothing after it, if an earlier piece was lost. Of nothing at
    /// all the receiver may have lost what had come.
    pub(crate) fn acked(&mut self, offset: u64) {
        if offset == 0 {
            (self.acked, self.sent) = (0, 0);
        } else if offset <= self.snapshot.state.len() as u64 {
            self.acked = self.acked.max(offset);
            self.sent = self.sent.max(self.acked);
        }
    }

    /// From one answered beat to the next nothing arrived: what is under way is lost.
    fn beat(&mut self) {
        if self.before == self.acked {
            self.sent = self.acked;
            self.begun = false;
        }
        self.before = self.acked;
    }
}

/// What a leader knows of one other replica. Invariant: `matched < next`.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Up to here its log is the leader's, on its disk.
    pub(crate) matched: u64,
    /// The first entry to be sent.
    pub(crate) next: u64,
    pub(crate) sending: Sending,
    /// It answered since the leader last counted.
    pub(crate) active: bool,
    /// The last round that it answered.
    pub(crate) round: u64,
    /// What was last told to be committed.
    pub(crate) told_commit: u64,
    /// A message is due though there is no entry for it.
    pub(crate) poked: bool,
}

impl Progress {
    pub(crate) const fn new(next: u64, active: bool) -> Self {
        Self {
            matched: 0,
            next,
            sending: Sending::Probing { waits: false },
            active,
            round: 0,
            told_commit: 0,
            poked: true,
        }
    }

    /// Its log is the leader's up to `matched`. True if that is news.
    pub(crate) fn appended(&mut self, matched: u64) -> bool {
        let news = matched > self.matched;
        self.matched = self.matched.max(matched);
        self.next = self.next.max(self.matched + 1);
        match &mut self.sending {
            Sending::Probing { .. } => self.sending = Sending::Streaming(UnderWay::default()),
            Sending::Streaming(under_way) => under_way.free(matched),
            Sending::Snapshot(transfer) if self.matched >= transfer.snapshot.index => {
                self.probe(self.matched + 1);
            }
            Sending::Snapshot(_) => {}
        }
        news
    }

    /// It lacks the entry before `next`, and has at most the first `hint`. False for an answer to
    /// something older.
    pub(crate) fn refused(&mut self, prev_index: u64, hint: u64) -> bool {
        match self.sending {
            Sending::Streaming(_) if prev_index > self.matched => self.probe(self.matched + 1),
            Sending::Probing { .. } if prev_index + 1 == self.next => {
                self.probe(prev_index.min(hint + 1).max(self.matched + 1));
            }
            _ => return false,
        }
        true
    }

    pub(crate) fn probe(&mut self, next: u64) {
        self.next = next;
        self.sending = Sending::Probing { waits: false };
        self.poked = true;
    }

    /// A beat was answered: it can be reached, so that what is not answered may be lost.
    pub(crate) fn beat(&mut self, last: u64) {
        match &mut self.sending {
            Sending::Probing { waits } => *waits = false,
            Sending::Streaming(under_way) => under_way.free_one(),
            Sending::Snapshot(transfer) => transfer.beat(),
        }
        self.poked |= self.matched < last;
    }
}
