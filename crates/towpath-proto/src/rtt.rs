//! Round-trip time estimation, RFC 6298 with RFC 9002 §5's treatment of acknowledgement delay.

use core::time::Duration;

/// Timer granularity (RFC 9002 §6.1.2).
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

/// Smoothed round-trip time and its variation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    latest: Duration,
    min: Duration,
    initial: Duration,
}

impl Rtt {
    /// Before any sample, `initial` stands in.
    pub(crate) const fn new(initial: Duration) -> Self {
        Self {
            smoothed: None,
            variation: Duration::ZERO,
            latest: Duration::ZERO,
            min: Duration::MAX,
            initial,
        }
    }

    /// Takes a sample; `delay` is what the peer says it waited before acknowledging. Returns the
    /// sample without that delay.
    pub(crate) fn sample(&mut self, rtt: Duration, delay: Duration) -> Duration {
        self.latest = rtt;
        self.min = self.min.min(rtt);
        let adjusted = if rtt >= self.min + delay { rtt.saturating_sub(delay) } else { rtt };
        match self.smoothed {
            None => {
                self.smoothed = Some(adjusted);
                self.variation = adjusted / 2;
            }
            Some(s) => {
                self.variation = (self.variation * 3 + s.abs_diff(adjusted)) / 4;
                self.smoothed = Some((s * 7 + adjusted) / 8);
            }
        }
        adjusted
    }

    /// The least so far; zero before the first sample.
    pub(crate) const fn min(&self) -> Duration {
        if self.smoothed.is_some() { self.min } else { Duration::ZERO }
    }

    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(self.initial)
    }

    /// How long a packet may be overtaken before it counts as lost (RFC 9002 §6.1.2: 9/8).
    pub(crate) fn loss_delay(&self) -> Duration {
        (self.smoothed().max(self.latest) * 9 / 8).max(GRANULARITY)
    }

    /// Probe time-out without back-off (RFC 9002 §6.2.1).
    pub(crate) fn probe_timeout(&self, ack_delay: Duration) -> Duration {
        match self.smoothed {
            None => self.initial * 2,
            Some(s) => s + (self.variation * 4).max(GRANULARITY) + ack_delay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_counts_whole_and_later_ones_an_eighth() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::new(ms(100));
        assert_eq!(rtt.probe_timeout(ms(25)), ms(200));
        rtt.sample(ms(80), ms(0));
        assert_eq!((rtt.smoothed(), rtt.variation), (ms(80), ms(40)));
        rtt.sample(ms(160), ms(0));
        assert_eq!((rtt.smoothed(), rtt.variation), (ms(90), ms(50)));
    }

    #[test]
    fn reported_delay_is_subtracted_but_never_below_the_minimum() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::new(ms(100));
        rtt.sample(ms(10), ms(9));
        assert_eq!(rtt.smoothed(), ms(10));
        rtt.sample(ms(30), ms(20));
        assert_eq!(rtt.smoothed(), ms(10));
    }
}
