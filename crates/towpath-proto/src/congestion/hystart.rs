//! `HyStart++`, RFC 9406: leaves slow start when the round-trip time grows, before the queue is
//! full.

use core::time::Duration;

/// RFC 9406 §4.3, but for `RTT_GROWTH_MIN`: 4 ms there. Ours may be less, since the peer's own
/// delay is known and subtracted.
const RTT_GROWTH_MIN: Duration = Duration::from_micros(250);
const RTT_GROWTH_MAX: Duration = Duration::from_millis(16);
const RTT_GROWTH_PART: u32 = 8;
const SAMPLES: u32 = 8;
/// While it is not sure: growth by this part of slow start's, for so many rounds.
const CAUTION_PART: u64 = 4;
const CAUTION_ROUNDS: u32 = 5;

/// Slow start under way. `cautious`: the round-trip time that looked too long, and rounds since.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    last: Option<Duration>,
    present: Option<Duration>,
    samples: u32,
    cautious: Option<(Duration, u32)>,
}

impl HyStart {
    pub(super) const fn new() -> Self {
        Self { last: None, present: None, samples: 0, cautious: None }
    }

    /// Slow start grows by this part of what was acknowledged.
    pub(super) const fn part(&self) -> u64 {
        if self.cautious.is_some() { CAUTION_PART } else { 1 }
    }

    /// A round trip is over. True when slow start is, too.
    pub(super) fn end_round(&mut self) -> bool {
        self.last = self.present.take();
        self.samples = 0;
        if let Some((_, rounds)) = &mut self.cautious {
            *rounds += 1;
        }
        self.cautious.is_some_and(|(_, rounds)| rounds >= CAUTION_ROUNDS)
    }

    pub(super) fn take(&mut self, rtt: Duration) {
        let present = self.present.map_or(rtt, |p| p.min(rtt));
        self.present = Some(present);
        self.samples += 1;
        let Some(last) = self.last.filter(|_| self.samples >= SAMPLES) else { return };
        match self.cautious {
            None => {
                let growth = (last / RTT_GROWTH_PART).clamp(RTT_GROWTH_MIN, RTT_GROWTH_MAX);
                if present >= last + growth {
                    self.cautious = Some((present, 0));
                }
            }
            // It was only noise.
            Some((baseline, _)) if present < baseline => self.cautious = None,
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(h: &mut HyStart, us: u64) -> bool {
        (0..SAMPLES).for_each(|_| h.take(Duration::from_micros(us)));
        h.end_round()
    }

    #[test]
    fn a_growing_round_trip_ends_it_after_five_careful_rounds() {
        let mut h = HyStart::new();
        for us in [20_000, 20_500, 22_400] {
            assert!(!round(&mut h, us));
            assert_eq!(h.part(), 1);
        }
        for n in 1..=5 {
            assert_eq!(round(&mut h, 25_300), n == 5);
            assert_eq!(h.part(), 4);
        }
    }

    #[test]
    fn noise_is_taken_back() {
        let mut h = HyStart::new();
        round(&mut h, 20_000);
        round(&mut h, 30_000);
        assert_eq!(h.part(), 4);
        round(&mut h, 20_000);
        assert_eq!(h.part(), 1);
    }
}
