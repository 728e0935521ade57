//! What a reserved channel keeps beside: the link that it is reserved on, since when its messages
//! wait, and what its link's egress knows of it.

use alloc::collections::VecDeque;

use towpath_wire::{Instant, LinkId};

use super::send::SendHalf;

/// What is kept for messages to come.
const SINCE_KEPT: usize = 256;

/// Beside one channel; 8 bytes for each message that waits. Invariants: `since` has one instant for
/// each message from `from` on that was counted; `noted` while the channel stands in the list of
/// those to be looked at; `told` from the time that a head was given out until it was granted.
#[derive(Debug)]
pub(super) struct Reserved {
    pub(super) link: LinkId,
    pub(super) noted: bool,
    pub(super) told: bool,
    /// Of the whole way, not of this link alone.
    pub(super) promised: bool,
    since: VecDeque<Instant>,
    /// Number of the message that the first of `since` belongs to.
    from: u64,
}

impl Reserved {
    pub(super) fn new(link: LinkId, send: &SendHalf) -> Self {
        let (noted, told, promised) = (false, false, false);
        Self { link, noted, told, promised, since: VecDeque::new(), from: send.fresh() }
    }

    /// Counts the messages that came since the last look, and forgets those that were sent;
    /// returns since when what goes next waits. A repair is asked for the moment it is due.
    pub(super) fn look(&mut self, now: Instant, send: &SendHalf) -> Instant {
        while self.from < send.fresh() {
            self.since.pop_front();
            self.from += 1;
        }
        if self.since.is_empty() && self.since.capacity() > SINCE_KEPT {
            self.since = VecDeque::new();
        }
        while self.from + (self.since.len() as u64) < send.count() {
            self.since.push_back(now);
        }
        if send.repairs_wait() { now } else { self.since.front().map_or(now, |at| *at) }
    }
}
