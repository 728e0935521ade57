//! Much is lost, and no queue tells why: is it us? Sends less for a while, and looks.

use core::time::Duration;

use towpath_wire::Instant;

use super::ambient::Tally;

/// A share of loss that is looked into, over so many rounds and datagrams at least.
const HEAVY: f64 = 0.125;
const ROUNDS: u32 = 3;
const DATAGRAMS: f64 = 100.0;
/// How long it is believed that the loss is the path's own.
const BELIEF: Duration = Duration::from_secs(10);
/// Standard deviations by which the loss must fall.
const SIGNIFICANT: f64 = 3.0;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    GoOn,
    /// Send less, so that it can be seen whether that helps.
    Cut,
    /// It did not help: take the cut back.
    Restore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Rounds in a row with heavy loss.
    Watching(u32),
    /// Rounds since the cut.
    Trying(u32),
    /// It is the path's own, until then.
    Believing(Instant),
}

/// Invariant: `before` holds the rounds with heavy loss before the cut, `after` those since,
/// without the first one, whose packets were sent before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backstop {
    phase: Phase,
    before: Tally,
    after: Tally,
}

impl Backstop {
    pub(super) const fn new() -> Self {
        Self { phase: Phase::Watching(0), before: Tally::NONE, after: Tally::NONE }
    }

    /// A round is over in which so many datagrams were sent and lost.
    pub(super) fn end_round(&mut self, now: Instant, sent: f64, lost: f64) -> Verdict {
        match self.phase {
            Phase::Watching(rounds) => {
                if lost <= HEAVY * sent {
                    *self = Self::new();
                    return Verdict::GoOn;
                }
                self.phase = Phase::Watching(rounds + 1);
                self.before.take(sent, lost);
                if rounds + 1 < ROUNDS || self.before.sent < DATAGRAMS {
                    return Verdict::GoOn;
                }
                (self.phase, self.after) = (Phase::Trying(0), Tally::NONE);
                Verdict::Cut
            }
            Phase::Trying(rounds) => {
                self.phase = Phase::Trying(rounds + 1);
                if rounds > 0 {
                    self.after.take(sent, lost);
                }
                if rounds < ROUNDS || self.after.sent < DATAGRAMS {
                    return Verdict::GoOn;
                }
                if self.helped() {
                    *self = Self::new();
                    return Verdict::GoOn;
                }
                self.phase = Phase::Believing(now + BELIEF);
                Verdict::Restore
            }
            Phase::Believing(until) => {
                if now >= until {
                    *self = Self::new();
                }
                Verdict::GoOn
            }
        }
    }

    /// Another cut came between: nothing can be said any more.
    pub(super) const fn disturb(&mut self) {
        if matches!(self.phase, Phase::Trying(_)) {
            *self = Self::new();
        }
    }

    /// The share of loss fell by more than chance explains.
    fn helped(&self) -> bool {
        let (a, b) = (self.before, self.after);
        let share = (a.lost + b.lost) / (a.sent + b.sent);
        let variance = share * (1.0 - share) * (1.0 / a.sent + 1.0 / b.sent);
        let fall = a.lost / a.sent - b.lost / b.sent;
        fall > 0.0 && fall * fall > SIGNIFICANT * SIGNIFICANT * variance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds rounds of 50 datagrams, a second each; returns the verdict of the last.
    fn rounds(b: &mut Backstop, seconds: core::ops::Range<u64>, lost: f64) -> Verdict {
        let at = |s| Instant::from_nanos(s * 1_000_000_000);
        seconds.map(|s| b.end_round(at(s), 50.0, lost)).last().unwrap()
    }

    #[test]
    fn what_a_cut_does_not_cure_is_believed_for_ten_seconds() {
        let mut b = Backstop::new();
        assert_eq!(rounds(&mut b, 0..50, 6.0), Verdict::GoOn, "12 % is not heavy");
        assert_eq!(rounds(&mut b, 50..52, 10.0), Verdict::GoOn);
        assert_eq!(rounds(&mut b, 52..53, 10.0), Verdict::Cut);
        assert_eq!(rounds(&mut b, 53..56, 9.0), Verdict::GoOn);
        assert_eq!(rounds(&mut b, 56..57, 9.0), Verdict::Restore);
        assert_eq!(rounds(&mut b, 57..69, 10.0), Verdict::GoOn);
        assert_eq!(rounds(&mut b, 69..70, 10.0), Verdict::Cut);
    }

    #[test]
    fn what_a_cut_cures_was_congestion() {
        let mut b = Backstop::new();
        assert_eq!(rounds(&mut b, 0..3, 10.0), Verdict::Cut);
        assert_eq!(rounds(&mut b, 3..30, 1.0), Verdict::GoOn);
        assert_eq!(rounds(&mut b, 30..33, 10.0), Verdict::Cut, "and is answered again");
    }

    #[test]
    fn another_cut_ends_the_trial() {
        let mut b = Backstop::new();
        assert_eq!(rounds(&mut b, 0..3, 10.0), Verdict::Cut);
        b.disturb();
        assert_eq!(rounds(&mut b, 3..5, 10.0), Verdict::GoOn);
        assert_eq!(rounds(&mut b, 5..6, 10.0), Verdict::Cut);
    }
}
