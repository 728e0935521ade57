//! Round-trip time estimation, RFC 6298 with RFC 9002 §5's treatment of acknowledgement delay.

use core::cmp::Reverse;
use core::time::Duration;

use towpath_wire::Instant;

use crate::recent::Recent;

/// How long the least round-trip time is believed at least: a route may change.
const MIN_SPAN: Duration = Duration::from_secs(10);
/// Timer granularity (RFC 9002 §6.1.2).
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

/// Smoothed round-trip time and its variation. Invariant: once there was a sample, `timeout` is
/// `smoothed + max(4 · variation, GRANULARITY)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    /// The probe time-out without the peer's delay: asked for with each packet, it changes with a
    /// sample only.
    timeout: Duration,
    latest: Duration,
    min: Recent<Reverse<Duration>>,
    initial: Duration,
    /// Trips of packets sent before tell how long we slept.
    from: Instant,
}

impl Rtt {
    /// Before any sample, `initial` stands in.
    pub(crate) const fn new(initial: Duration) -> Self {
        Self {
            smoothed: None,
            variation: Duration::ZERO,
            timeout: Duration::ZERO,
            latest: Duration::ZERO,
            min: Recent::new(MIN_SPAN),
            initial,
            from: Instant::ZERO,
        }
    }

    /// We did not run until now.
    pub(crate) const fn slept(&mut self, now: Instant) {
        self.from = now;
    }

    /// Whether the trip of a packet sent then is a sample.
    pub(crate) fn counts(&self, sent: Instant) -> bool {
        sent >= self.from
    }

    /// Takes a sample; `delay` is what the peer says it waited before acknowledging. Returns the
    /// sample without that delay.
    pub(crate) fn sample(&mut self, now: Instant, rtt: Duration, delay: Duration) -> Duration {
        self.latest = rtt;
        self.min.take(now, Reverse(rtt));
        let adjusted = if rtt >= self.min() + delay { rtt.saturating_sub(delay) } else { rtt };
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
        self.timeout = self.smoothed() + (self.variation * 4).max(GRANULARITY);
        adjusted
    }

    /// The least of late; zero before the first sample.
    pub(crate) fn min(&self) -> Duration {
        self.min.get().map_or(Duration::ZERO, |r| r.0)
    }

    /// The larger of the latest and the smoothed one.
    pub(crate) fn longest(&self) -> Duration {
        self.smoothed().max(self.latest)
    }

    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(self.initial)
    }

    /// Probe time-out without back-off (RFC 9002 §6.2.1).
    pub(crate) fn probe_timeout(&self, ack_delay: Duration) -> Duration {
        match self.smoothed {
            None => self.initial * 2,
            Some(_) => self.timeout + ack_delay,
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
        rtt.sample(Instant::ZERO, ms(80), ms(0));
        assert_eq!((rtt.smoothed(), rtt.variation), (ms(80), ms(40)));
        rtt.sample(Instant::ZERO, ms(160), ms(0));
        assert_eq!((rtt.smoothed(), rtt.variation), (ms(90), ms(50)));
    }

    #[test]
    fn reported_delay_is_subtracted_but_never_below_the_minimum() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::new(ms(100));
        rtt.sample(Instant::ZERO, ms(10), ms(9));
        assert_eq!(rtt.smoothed(), ms(10));
        rtt.sample(Instant::ZERO, ms(30), ms(20));
        assert_eq!(rtt.smoothed(), ms(10));
    }

    #[test]
    fn the_least_is_forgotten_after_a_change_of_route() {
        let (ms, at) = (Duration::from_millis, |s: u64| Instant::from_nanos(s * 1_000_000_000));
        let mut rtt = Rtt::new(ms(100));
        rtt.sample(at(0), ms(10), ms(0));
        rtt.sample(at(9), ms(40), ms(0));
        assert_eq!(rtt.min(), ms(10));
        rtt.sample(at(20), ms(40), ms(0));
        assert_eq!(rtt.min(), ms(40));
    }
}
