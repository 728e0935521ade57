//! Time-outs from round trips.

use std::time::Duration;

use serde::Serialize;

/// How long is waited for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Timer {
    /// As the source prints it: srtt = 0.8·rtt + 0.2·srtt, rto = 2·srtt. The new sample weighs 0.8.
    Source,
    /// The weights the other way round (RFC 793 §3.7): srtt = 0.8·srtt + 0.2·rtt, rto = 2·srtt.
    Usual,
    /// As an association's probe time-out (RFC 9002 §6.2.1): srtt = 7/8·srtt + 1/8·rtt,
    /// rto = srtt + max(4·rttvar, 1 ms).
    Ours,
}

impl Timer {
    /// All.
    pub const ALL: [Self; 3] = [Self::Source, Self::Usual, Self::Ours];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Usual => "usual",
            Self::Ours => "ours",
        }
    }
}

/// Before the first sample.
const INITIAL: Duration = Duration::from_millis(100);
/// Granularity of RFC 9002's timers.
const GRANULARITY: Duration = Duration::from_millis(1);
/// Longest time-out, whatever was doubled how often.
const MOST: Duration = Duration::from_secs(10);

/// Round trips as one owner of timers sees them.
#[derive(Clone, Debug)]
pub(super) struct Estimator {
    timer: Timer,
    smoothed: Option<Duration>,
    variation: Duration,
}

impl Estimator {
    pub(super) const fn new(timer: Timer) -> Self {
        Self { timer, smoothed: None, variation: Duration::ZERO }
    }

    pub(super) fn sample(&mut self, rtt: Duration) {
        let Some(old) = self.smoothed else {
            (self.smoothed, self.variation) = (Some(rtt), rtt / 2);
            return;
        };
        self.variation = (self.variation * 3 + old.abs_diff(rtt)) / 4;
        self.smoothed = Some(match self.timer {
            Timer::Source => (rtt * 4 + old) / 5,
            Timer::Usual => (rtt + old * 4) / 5,
            Timer::Ours => (rtt + old * 7) / 8,
        });
    }

    /// For a packet that was repeated so often.
    pub(super) fn timeout(&self, repeats: u32) -> Duration {
        let once = match (self.smoothed, self.timer) {
            (None, _) => INITIAL,
            (Some(smoothed), Timer::Ours) => smoothed + (self.variation * 4).max(GRANULARITY),
            (Some(smoothed), _) => smoothed * 2,
        };
        once.saturating_mul(1 << repeats.min(10)).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_that_are_printed() {
        let us = Duration::from_micros;
        let after = |timer| {
            let mut estimator = Estimator::new(timer);
            estimator.sample(us(1000));
            estimator.sample(us(2000));
            (estimator.timeout(0), estimator.timeout(1))
        };
        assert_eq!(after(Timer::Source), (us(3600), us(7200)));
        assert_eq!(after(Timer::Usual), (us(2400), us(4800)));
        // 1125 and four times 625.
        assert_eq!(after(Timer::Ours), (us(3625), us(7250)));
        assert_eq!(Estimator::new(Timer::Ours).timeout(0), INITIAL);
    }
}
