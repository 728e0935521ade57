//! A token bucket that spreads a path's packets over time.

use core::time::Duration;

use towpath_wire::Instant;

/// Time whose worth of bytes may go out at once after a pause.
const BURST: Duration = Duration::from_millis(1);
/// Worth of time that is waited for before going on: no timer is finer than this.
const QUANTUM: Duration = Duration::from_micros(250);
/// Datagrams that may always go out at once.
const BURST_DATAGRAMS: u64 = 10;

/// Invariant: `tokens ≤ burst`. A rate of `None` never makes anyone wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    /// Bytes per second.
    rate: Option<u64>,
    tokens: i64,
    at: Instant,
    datagram: u64,
}

fn worth(rate: u64, time: Duration) -> u64 {
    (u128::from(rate) * time.as_nanos() / 1_000_000_000) as u64
}

impl Pacer {
    pub(crate) const fn new(datagram: u64) -> Self {
        let tokens = (BURST_DATAGRAMS * datagram) as i64;
        Self { rate: None, tokens, at: Instant::ZERO, datagram }
    }

    /// Datagrams are of this size from now on.
    pub(crate) const fn set_datagram(&mut self, bytes: u64) {
        self.datagram = bytes;
    }

    fn burst(&self, rate: u64) -> i64 {
        worth(rate, BURST).max(BURST_DATAGRAMS * self.datagram) as i64
    }

    /// Fills the bucket up to `now`, then changes the rate.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Option<u64>) {
        self.fill(now);
        self.rate = rate.map(|r| r.max(1));
    }

    fn fill(&mut self, now: Instant) {
        let time = now.since(self.at);
        self.at = self.at.max(now);
        let Some(rate) = self.rate else { return };
        // More than a second's worth fills any bucket.
        let earned = worth(rate, time.min(Duration::from_secs(1))) as i64;
        self.tokens = (self.tokens + earned).min(self.burst(rate));
    }

    /// When the next packet may go.
    pub(crate) fn ready_at(&self) -> Instant {
        let Some(rate) = self.rate else { return Instant::ZERO };
        if self.tokens > 0 {
            return Instant::ZERO;
        }
        let wanted = worth(rate, QUANTUM).max(self.datagram) as i64 - self.tokens;
        self.at + Duration::from_nanos((wanted as u128 * 1_000_000_000 / u128::from(rate)) as u64)
    }

    /// A packet went out.
    pub(crate) fn spend(&mut self, now: Instant, bytes: u64) {
        if self.rate.is_some() {
            self.fill(now);
            self.tokens -= bytes as i64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_burst_packets_go_at_the_rate() {
        let mut p = Pacer::new(1000);
        p.set_rate(Instant::ZERO, Some(1_000_000));
        let (mut now, mut sent) = (Instant::ZERO, 0u64);
        while sent < 1_010_000 {
            now = now.max(p.ready_at());
            p.spend(now, 1000);
            sent += 1000;
        }
        let seconds = now.as_nanos() as f64 / 1e9;
        assert!((0.999..1.001).contains(&seconds), "10 datagrams at once, 1 MB in {seconds} s");
    }

    #[test]
    fn a_pause_earns_no_more_than_the_burst() {
        let mut p = Pacer::new(1000);
        p.set_rate(Instant::ZERO, Some(1_000_000));
        let now = Instant::from_nanos(3_600_000_000_000);
        let mut burst = 0;
        while p.ready_at() <= now {
            p.spend(now, 1000);
            burst += 1;
        }
        assert_eq!(burst, 10);
    }

    #[test]
    fn without_a_rate_nobody_waits() {
        let mut p = Pacer::new(1000);
        p.spend(Instant::ZERO, 1 << 40);
        assert_eq!(p.ready_at(), Instant::ZERO);
    }
}
