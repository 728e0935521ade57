//! Unique tasks: none may run on a host that was declared lost, since its work may be begun
//! elsewhere then. Only the host itself can end them in time.
//!
//! ```text
//! host, while it has unique tasks        leader
//!   Confirm n, sent at s ──────────────▶  not lost before this time + lost_after, from here on
//!                                         Command::Unique(host) ─▶ decided by most that vote
//!   until = s + 0.9 lost_after ◀───────   Confirmed n
//!   until is over: all unique tasks end
//! ```
//! What is decided shows that no other leader was elected before `s`; each that is elected later
//! finds the host in the state, and declares it lost no sooner than `lost_after` after that.
//! Clocks are compared with none of another host.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use towpath_wire::{HostId, Instant};

/// Questions without an answer that a host remembers: as many as it asks in `lost_after`, twice.
const ASKED_MAX: usize = 16;

/// What a host knows of being a member.
#[derive(Debug, Default)]
pub(crate) struct Certainty {
    /// By number, when they were sent.
    asked: VecDeque<(u64, Instant)>,
    last: u64,
    /// When the leader is asked next; `None`: nothing here depends on it.
    next: Option<Instant>,
    /// Until then it is sure, or has time to become so.
    until: Option<Instant>,
}

/// How often is asked, of the time after which a host is lost.
pub(crate) fn every(lost_after: Duration) -> Duration {
    lost_after / 5
}

fn sure_for(lost_after: Duration) -> Duration {
    lost_after * 9 / 10
}

impl Certainty {
    /// When there is something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.next.into_iter().chain(self.until).min()
    }

    /// Nothing depends on it any more.
    pub(crate) fn rest(&mut self) {
        self.asked.clear();
        (self.next, self.until) = (None, None);
    }

    /// Whether its time is over.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// The number of a question that is to be asked now.
    pub(crate) fn asks(&mut self, now: Instant, lost_after: Duration) -> Option<u64> {
        if self.next.is_some_and(|next| next > now) {
            return None;
        }
        self.next = Some(now + every(lost_after));
        self.until.get_or_insert(now + sure_for(lost_after));
        self.last += 1;
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back((self.last, now));
        Some(self.last)
    }

    /// An answer: until when this host is sure by it, if one was waited for.
    pub(crate) fn hears(&mut self, number: u64, lost_after: Duration) -> Option<Instant> {
        let at = self.asked.iter().position(|(asked, _)| *asked == number)?;
        let (_, sent) = self.asked[at];
        self.asked.drain(..=at);
        let until = sent + sure_for(lost_after);
        self.until = self.until.max(Some(until));
        Some(until)
    }
}

/// What whoever leads knows of hosts that may have unique tasks. Invariant: no more than there are
/// hosts.
#[derive(Debug, Default)]
pub(crate) struct Unique {
    /// When each asked last.
    pub(crate) asked: BTreeMap<HostId, Instant>,
    /// When this host came to lead.
    pub(crate) since: Option<Instant>,
}

impl Unique {
    /// This host leads from now on.
    pub(crate) fn leads(&mut self, now: Instant) {
        self.asked.clear();
        self.since = Some(now);
    }

    /// Before when a host that may have unique tasks is not lost.
    pub(crate) fn not_before(&self, host: HostId, lost_after: Duration) -> Option<Instant> {
        let last = self.asked.get(&host).copied().max(self.since);
        last.map(|last| last + lost_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_host_is_sure_from_when_it_asked_not_from_when_it_was_answered() {
        let (mut sure, lost) = (Certainty::default(), Duration::from_secs(10));
        assert_eq!(sure.due(), None);
        assert_eq!((sure.asks(at(1000), lost), sure.asks(at(2999), lost)), (Some(1), None));
        assert_eq!((sure.due(), sure.is_over(at(9999))), (Some(at(3000)), false));
        assert!(sure.is_over(at(10_000)), "nobody has answered");
        assert_eq!(sure.asks(at(3000), lost), Some(2));
        assert_eq!(sure.hears(1, lost), Some(at(10_000)));
        assert_eq!((sure.hears(1, lost), sure.hears(3, lost)), (None, None), "once");
        assert!(sure.is_over(at(10_000)));
        assert_eq!(sure.hears(2, lost), Some(at(12_000)));
        assert!(!sure.is_over(at(11_999)) && sure.is_over(at(12_000)));
        sure.rest();
        assert_eq!((sure.due(), sure.is_over(at(90_000))), (None, false));
        // It begins anew; what was asked before counts no longer.
        assert_eq!(sure.asks(at(20_000), lost), Some(3));
        assert!(sure.hears(2, lost).is_none() && sure.is_over(at(29_000)));
        for n in 0..100 {
            sure.asks(at(30_000 + 2000 * n), lost);
        }
        assert_eq!(sure.asked.len(), ASKED_MAX);
    }

    #[test]
    fn a_leader_has_none_lost_that_may_count_on_it() {
        let host = |slot| HostId::new(slot, 1).expect("a host");
        let (mut unique, lost) = (Unique::default(), Duration::from_secs(10));
        assert_eq!(unique.not_before(host(1), lost), None);
        unique.leads(at(500));
        unique.asked.insert(host(1), at(7000));
        let not_before = [1, 2].map(|slot| unique.not_before(host(slot), lost));
        assert_eq!(not_before, [Some(at(17_000)), Some(at(10_500))]);
        unique.leads(at(20_000));
        assert_eq!(unique.not_before(host(1), lost), Some(at(30_000)));
    }
}
