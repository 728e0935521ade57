//! Where no queue tells why packets are lost, cuts do: what the path loses anyway it also loses of
//! a smaller window, what overflows it does not.

use core::time::Duration;

use towpath_wire::Instant;

use super::ambient::Tally;

/// A window of less than this part of the one that was cut is a smaller window.
const SMALLER: f64 = 0.85;
/// So many losses at a smaller window, and this part of the share at larger ones, say that sending
/// less does not help.
const TELLING: f64 = 8.0;
const SAME: f64 = 0.85;
/// Variances of the difference by which less must be lost.
const CLEAR: f64 = 2.0;
/// How long that is believed.
const BELIEF: Duration = Duration::from_secs(4);
/// After so many datagrams those before count half.
const KEEP: f64 = 4000.0;

/// Invariant: `0 ≤ lost ≤ sent` in both tallies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// The window that was cut last, in bytes; 0: no window is a smaller one.
    cut: f64,
    smaller: Tally,
    larger: Tally,
    /// The path is believed to lose that share anyway.
    is_own: bool,
    until: Instant,
}

impl Trial {
    pub(super) const fn new() -> Self {
        Self {
            cut: 0.0,
            smaller: Tally::NONE,
            larger: Tally::NONE,
            is_own: false,
            until: Instant::ZERO,
        }
    }

    /// A window of so many bytes is cut.
    pub(super) const fn cut(&mut self, window: u64) {
        self.cut = window as f64;
    }

    pub(super) fn is_smaller(&self, window: u64) -> bool {
        (window as f64) < SMALLER * self.cut
    }

    /// Takes in the fate of datagrams that were under way in such a window.
    pub(super) fn take(&mut self, window: u64, sent: f64, lost: f64) {
        let tally = if self.is_smaller(window) { &mut self.smaller } else { &mut self.larger };
        tally.take(sent, lost);
        if tally.sent > 2.0 * KEEP {
            tally.scale(0.5);
        }
    }

    /// Sending less did not help of late.
    pub(super) const fn is_own(&self) -> bool {
        self.is_own
    }

    /// What the path loses anyway, where that is known.
    pub(super) const fn own(&self) -> Tally {
        if self.is_own { self.smaller } else { Tally::NONE }
    }

    /// A round is over. True when it shows that the last cut was needless.
    pub(super) fn end_round(&mut self, now: Instant, window: u64) -> bool {
        if now > self.until {
            self.until = now + BELIEF;
            self.is_own = false;
            self.smaller.scale(0.5);
            self.larger.scale(0.5);
        }
        let is_known = self.smaller.lost >= TELLING && self.larger.lost > 0.0;
        if !is_known || !self.is_smaller(window) {
            return false;
        }
        self.is_own = !self.helps();
        if self.is_own {
            self.cut = 0.0;
        }
        self.is_own
    }

    /// Clearly less of a smaller window is lost.
    fn helps(&self) -> bool {
        let Self { smaller, larger, .. } = self;
        let fall = SAME * larger.lost / larger.sent - smaller.lost / smaller.sent;
        let variance = |t: &Tally| t.lost / (t.sent * t.sent);
        fall > 0.0 && fall * fall > CLEAR * (variance(smaller) + variance(larger))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of 100 loses so many of 1000, then, cut, one of 70 so many.
    fn tried(larger: f64, smaller: f64) -> Trial {
        let mut t = Trial::new();
        t.end_round(Instant::from_nanos(1), 100);
        t.take(100, 1000.0, larger);
        t.cut(100);
        assert!(t.is_smaller(70) && !t.is_smaller(90));
        t.take(70, 1000.0, smaller);
        t
    }

    #[test]
    fn what_a_smaller_window_loses_as_well_is_the_paths_own() {
        let now = Instant::from_nanos(2);
        assert!(tried(100.0, 100.0).end_round(now, 70));
        assert!(tried(100.0, 75.0).end_round(now, 70), "may be chance");
        assert!(!tried(100.0, 50.0).end_round(now, 70), "half of it helps");
        assert!(!tried(10.0, 7.0).end_round(now, 70), "too few to tell");
        assert!(!tried(0.0, 10.0).end_round(now, 70), "nothing to compare with");
        assert!(!tried(100.0, 100.0).end_round(now, 90), "this window is none of the smaller");
    }

    #[test]
    fn it_is_believed_for_four_seconds() {
        let mut t = tried(100.0, 100.0);
        assert!(t.end_round(Instant::from_nanos(2), 70));
        assert!(t.own().lost > 0.0);
        t.end_round(Instant::ZERO + BELIEF, 100);
        assert!(t.is_own());
        t.end_round(Instant::ZERO + BELIEF * 2, 100);
        assert!(!t.is_own() && t.own().lost == 0.0);
    }
}
