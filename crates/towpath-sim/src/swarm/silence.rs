//! What hosts say of others that were silent, and whether it can be.

use std::time::Duration;

use towpath_proto::association::End;
use towpath_proto::config::Liveness;

use super::fault::Fault;

/// Faults that together last less cannot make anybody silent for [`Liveness::lost_after`].
const EXPLAINS: Duration = Duration::from_millis(1500);

/// Whether what struck so far can have made a host silent.
#[derive(Debug, Default)]
pub(super) struct Excuses {
    lasted: Duration,
    crashed: bool,
}

impl Excuses {
    pub(super) fn struck(&mut self, fault: Fault) {
        self.lasted += fault.lasts();
        self.crashed |= fault.crashes().is_some();
    }

    fn explain(&self) -> bool {
        self.crashed || self.lasted >= EXPLAINS
    }

    /// What is wrong with the end of an association, if something is.
    pub(super) fn judge(&self, end: &End, bounds: &Liveness) -> Option<String> {
        let End::Silent { for_, asks, excused } = end else { return None };
        if !self.explain() {
            return Some(format!("{end}, but all faults so far lasted {:?}", self.lasted));
        }
        // Asks less than half a gap apart count as one.
        let half_gap = bounds.lost_after / (bounds.asks + 2) / 2;
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
        excuses.struck(Fault::Pause { host: 1, ms: 1400 });
        assert!(excuses.judge(&silent(12), &bounds).is_some());
        assert_eq!(excuses.judge(&End::Closed, &bounds), None);
        excuses.struck(Fault::Cut { a: 1, b: 2, ms: 200 });
        assert_eq!(excuses.judge(&silent(26), &bounds), None);
        assert!(excuses.judge(&silent(27), &bounds).is_some());
    }
}
