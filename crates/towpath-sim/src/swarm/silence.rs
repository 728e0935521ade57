//! What hosts say of others that were silent, and whether it can be.

use std::time::Duration;

use towpath_proto::association::End;
use towpath_proto::config::Liveness;
use towpath_wire::Instant;

use super::fault::{Fault, On};

/// Faults that together last less cannot make anybody silent for [`Liveness::lost_after`].
const EXPLAINS: Duration = Duration::from_millis(1500);

/// Whether what struck so far can have made a host silent.
#[derive(Debug, Default)]
pub(super) struct Excuses {
    lasted: Duration,
    crashed: bool,
    /// When the last fault is over.
    over: Instant,
    /// A lost network that nothing else has coincided with so far: until when, and for how long.
    alone: Option<(Instant, Duration)>,
}

impl Excuses {
    /// A fault struck, on all networks or one. That one of several lost its carriers silences
    /// nobody as long as nothing else goes wrong: both ends are told, and go on by another.
    pub(super) fn struck(&mut self, now: Instant, fault: Fault, on: On) {
        let until = now + fault.lasts();
        let is_told = matches!(fault, Fault::Switch { .. }) && on.is_some();
        if let Some((_, lasts)) = self.alone.take().filter(|(until, _)| now < *until) {
            self.lasted += lasts;
        }
        if is_told && now >= self.over {
            self.alone = Some((until, fault.lasts()));
        } else {
            self.lasted += fault.lasts();
        }
        self.over = self.over.max(until);
        self.crashed |= fault.crashes().is_some();
    }

    /// What is wrong with the end of an association, if something is. `bursty`: the links between
    /// the two lose in bursts, of the few datagrams of a bad time all for seconds.
    pub(super) fn judge(&self, end: &End, bounds: &Liveness, bursty: bool) -> Option<String> {
        let End::Silent { for_, asks, excused } = end else { return None };
        let lasted = self.lasted;
        if !self.crashed && !bursty && lasted < EXPLAINS {
            return Some(format!("{end}, but all faults so far lasted {lasted:?}"));
        }
        // Asks less than half a gap apart count as one.
        let half_gap = bounds.silent_after / (bounds.asks + 2) / 2;
        let most = (*for_ + *excused).as_nanos() / half_gap.as_nanos() + 2;
        (u128::from(*asks) > most).then(|| format!("{end}: {most} fit into that time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_without_a_fault_and_one_with_too_many_asks_are_noticed() {
        let bounds = Liveness::default();
        let silent = |asks| {
            let (for_, excused) = (Duration::from_secs(2), Duration::ZERO);
            End::Silent { for_, asks, excused }
        };
        let mut excuses = Excuses::default();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        excuses.struck(at(0), Fault::Pause { host: 1, ms: 1400 }, None);
        assert!(excuses.judge(&silent(12), &bounds, false).is_some());
        excuses.struck(at(2000), Fault::Switch { ms: 4000 }, Some(1));
        assert!(excuses.judge(&silent(12), &bounds, false).is_some(), "the other network went on");
        assert_eq!(excuses.judge(&silent(12), &bounds, true), None, "but lost in bursts");
        assert_eq!(excuses.judge(&End::Closed, &bounds, false), None);
        let mut both = Excuses::default();
        both.struck(at(0), Fault::Switch { ms: 2000 }, Some(1));
        both.struck(at(1999), Fault::Switch { ms: 1 }, Some(0));
        assert_eq!(both.judge(&silent(12), &bounds, false), None, "for a while there was none");
        excuses.struck(at(7000), Fault::Cut { a: 1, b: 2, ms: 200 }, None);
        assert_eq!(excuses.judge(&silent(26), &bounds, false), None);
        assert!(excuses.judge(&silent(27), &bounds, false).is_some());
    }
}
