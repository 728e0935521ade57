//! How long a packet may be overtaken before it counts as lost.

use core::time::Duration;

use towpath_wire::Instant;

use crate::rtt::{GRANULARITY, Rtt};

/// Packets that may overtake one (RFC 9002 §6.1.1), while the path has not been seen to reorder.
const OVERTAKEN: u64 = 3;
/// Round trips without a packet that was only late, after which patience halves.
const CALM: u32 = 16;

/// Until a path reorders, a packet is lost once three were acknowledged that left after it. From
/// then on time alone decides, as in RACK (RFC 8985 §6.2): a round trip and some patience after
/// it left. RACK's patience grows by quarters of the least round trip; here it is as long as the
/// packet was late that was given up too early.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reordering {
    /// Zero: none seen.
    patience: Duration,
    changed: Instant,
}

impl Reordering {
    /// Packets that may overtake one before it counts as lost.
    pub(super) fn overtaken_max(&self) -> u64 {
        if self.patience.is_zero() { OVERTAKEN } else { u64::MAX }
    }

    /// Time after which a packet that others overtook counts as lost.
    pub(super) fn delay(&self, rtt: &Rtt) -> Duration {
        if self.patience.is_zero() {
            // RFC 9002 §6.1.2.
            return (rtt.longest() * 9 / 8).max(GRANULARITY);
        }
        let bounded = self.patience.clamp(rtt.min() / 4, (rtt.min() / 4).max(rtt.smoothed()));
        rtt.longest() + bounded
    }

    /// A packet sent then had been given up, and has arrived.
    pub(super) fn late(&mut self, now: Instant, sent: Instant, rtt: &Rtt) {
        let late = now.since(sent).saturating_sub(rtt.longest());
        self.patience = self.patience.max(late).max(rtt.min() / 4).max(Duration::from_nanos(1));
        self.changed = now;
    }

    /// Becomes less patient in time; what has reordered once may do so again.
    pub(super) fn calm_down(&mut self, now: Instant, rtt: &Rtt) {
        if now.since(self.changed) > rtt.smoothed() * CALM && self.patience > rtt.min() / 4 {
            self.patience /= 2;
            self.changed = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Instant {
        Instant::ZERO + ms(n)
    }

    #[test]
    fn patience_is_as_long_as_it_had_to_be_and_halves_when_it_is_not_needed() {
        let mut rtt = Rtt::new(ms(100));
        rtt.sample(at(0), ms(40), ms(0));
        let mut r = Reordering::default();
        assert_eq!((r.overtaken_max(), r.delay(&rtt)), (3, ms(45)));
        r.late(at(65), at(0), &rtt);
        assert_eq!((r.overtaken_max(), r.delay(&rtt)), (u64::MAX, ms(65)));
        r.late(at(105), at(100), &rtt);
        assert_eq!(r.delay(&rtt), ms(65), "not less than before");
        r.calm_down(at(105 + 640), &rtt);
        assert_eq!(r.delay(&rtt), ms(65));
        r.calm_down(at(106 + 640), &rtt);
        assert_eq!(r.delay(&rtt), ms(40) + Duration::from_micros(12_500));
        for n in 1..100 {
            r.calm_down(at(1000 * n), &rtt);
        }
        assert_eq!(r.delay(&rtt), ms(50), "never less than a quarter of a round trip");
        r.late(at(200_000), at(0), &rtt);
        assert_eq!(r.delay(&rtt), ms(80), "never more than a round trip");
    }
}
