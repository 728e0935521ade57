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

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::super::entry::Members;
    use super::*;

    fn streaming(next: u64) -> Progress {
        let mut progress = Progress::new(next, true);
        assert!(progress.appended(next - 1));
        progress
    }

    fn under_way(progress: &mut Progress) -> &mut UnderWay {
        match &mut progress.sending {
            Sending::Streaming(under_way) => under_way,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn so_many_bytes_and_messages_may_be_under_way_and_answers_free_them_in_order() {
        let mut progress = streaming(10);
        for (last, bytes) in [(10, 40), (12, 60), (13, 5)] {
            under_way(&mut progress).push(last, bytes);
        }
        let has_room = |progress: &mut Progress, most| under_way(progress).has_room(most);
        assert!(has_room(&mut progress, 106) && !has_room(&mut progress, 105));
        assert!(progress.appended(11), "the first message, and half of the second");
        assert!(has_room(&mut progress, 66) && !has_room(&mut progress, 65));
        assert!(!progress.appended(11), "it is no news twice");
        // A beat that is answered gives the oldest up.
        progress.beat(13);
        assert!(has_room(&mut progress, 6) && !has_room(&mut progress, 5));
        progress.beat(13);
        assert!(has_room(&mut progress, 1));
        progress.beat(13);
        for last in 0..APPENDS_UNDER_WAY as u64 {
            assert!(has_room(&mut progress, 1 << 20));
            under_way(&mut progress).push(20 + last, 0);
        }
        assert!(!has_room(&mut progress, 1 << 20), "so many messages");
    }

    fn transfer(len: usize) -> Transfer {
        let members = Members::default();
        let snapshot = Snapshot { index: 5, term: 1, members, state: vec![7; len] };
        Transfer::new(Arc::new(snapshot), 0)
    }

    #[test]
    fn a_snapshot_goes_on_as_pieces_are_answered_and_again_from_there_when_nothing_comes() {
        let mut transfer = transfer(1000);
        let offsets = |transfer: &mut Transfer| {
            let mut offsets = vec![];
            while let Some(offset) = transfer.next(100) {
                offsets.push(offset);
                transfer.sent(100);
            }
            offsets
        };
        let first: alloc::vec::Vec<u64> = (0..PIECES_UNDER_WAY).map(|n| n * 100).collect();
        assert_eq!(offsets(&mut transfer), first);
        transfer.acked(200);
        assert_eq!(offsets(&mut transfer), [800, 900], "as many again, to the end");
        transfer.acked(2000);
        transfer.acked(100);
        assert_eq!(offsets(&mut transfer), [], "neither is possible");
        transfer.beat();
        assert_eq!(offsets(&mut transfer), [], "something came since the last beat");
        transfer.beat();
        let again: alloc::vec::Vec<u64> = (2..10).map(|n| n * 100).collect();
        assert_eq!(offsets(&mut transfer), again);
        // Its receiver has lost everything.
        transfer.acked(0);
        assert_eq!(offsets(&mut transfer)[0], 0);
        transfer.acked(1000);
        assert_eq!(offsets(&mut transfer), []);
    }

    #[test]
    fn an_empty_state_is_one_piece() {
        let mut transfer = transfer(0);
        assert_eq!(transfer.next(100), Some(0));
        transfer.sent(0);
        assert_eq!(transfer.next(100), None);
        transfer.beat();
        assert_eq!(transfer.next(100), Some(0), "once more: it was not answered");
    }

    #[test]
    fn refusals_lead_back_to_where_the_logs_part() {
        let mut progress = Progress::new(20, true);
        assert!(!progress.refused(18, 3), "an answer to something older");
        assert!(progress.refused(19, 7));
        assert_eq!(progress.next, 8, "behind what it has at most");
        assert!(progress.refused(7, 9));
        assert_eq!(progress.next, 7, "not behind what was refused");
        assert!(progress.appended(6));
        assert!(!progress.refused(6, 0), "it has that");
        progress.next = 12;
        assert!(progress.refused(11, 0));
        assert_eq!(progress.next, 7);
        assert!(matches!(progress.sending, Sending::Probing { waits: false }) && progress.poked);
        // Never before what it is known to have.
        assert!(progress.refused(6, 2));
        assert_eq!(progress.next, 7);
    }

    #[test]
    fn a_beat_pokes_who_lacks_something_and_nobody_else() {
        let mut progress = streaming(10);
        progress.poked = false;
        progress.beat(9);
        assert!(!progress.poked);
        progress.beat(10);
        assert!(progress.poked);
        progress.probe(5);
        progress.sending = Sending::Probing { waits: true };
        progress.beat(10);
        assert!(matches!(progress.sending, Sending::Probing { waits: false }));
        // A snapshot that has come is followed by what comes behind it.
        progress.sending = Sending::Snapshot(Transfer::new(transfer(10).snapshot, 0));
        progress.matched = 3;
        progress.appended(4);
        assert!(matches!(progress.sending, Sending::Snapshot(_)));
        progress.appended(5);
        assert!(matches!(progress.sending, Sending::Probing { .. }));
        assert_eq!(progress.next, 6);
    }
}
