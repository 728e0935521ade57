//! When a packet would have come, had its source kept to its token bucket.

use towpath_wire::Instant;

use super::contract::{ConfigError, QueueConfig};
use super::fixed::{Fine, LEAD_MAX, cost_per_byte};

/// A token bucket (rate, depth) as the time at which it is full again, with what a discipline
/// keeps `beside` it: 32 bytes with four of them.
///
/// At time t it holds `burst − max(0, full − t) / cost` bytes. With depth zero, a packet may come
/// once its predecessor's own time at the rate has passed: the (Xmin, Smax) model.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenClock<X> {
    full: Fine,
    cost: u64,
    burst: u32,
    pub(super) beside: X,
}

impl<X> TokenClock<X> {
    /// Takes rate and depth of a queue; a clock that runs goes on.
    pub(super) fn configure(&mut self, config: &QueueConfig) -> Result<(), ConfigError> {
        self.cost = cost_per_byte(config.rate)?;
        self.burst = u32::try_from(config.burst.as_bytes()).unwrap_or(u32::MAX);
        Ok(())
    }

    /// The earliest time, not before `now`, at which a packet conforms; takes its tokens then.
    /// Times never fall from one packet to the next, as long as the source is less than 19.5 h
    /// ([`LEAD_MAX`]) ahead of its bucket; what is beyond is forgotten.
    #[inline]
    pub(super) fn conforming(&mut self, now: Instant, bytes: u32) -> Instant {
        let now = Fine::from_instant(now);
        let at = self.full.before(self.burst.saturating_sub(bytes), self.cost).max(now);
        let limit = Fine(now.0 + LEAD_MAX.0);
        self.full = self.full.max(at).after(bytes, self.cost).min(limit);
        at.ceil()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use towpath_wire::{ByteSize, Rate};

    fn clock(mbps: u64, burst: u64) -> TokenClock<u32> {
        let mut clock = TokenClock::<u32>::default();
        let rate = Rate::from_mbps(mbps);
        let burst = ByteSize::from_bytes(burst);
        clock.configure(&QueueConfig { rate, burst, ..QueueConfig::default() }).unwrap();
        clock
    }

    fn times(clock: &mut TokenClock<u32>, arrivals: &[(u64, u32)]) -> Vec<u64> {
        arrivals
            .iter()
            .map(|(at, bytes)| clock.conforming(Instant::from_nanos(*at), *bytes).as_nanos())
            .collect()
    }

    #[test]
    fn without_depth_packets_are_spaced_by_their_own_time() {
        // 1000 B at 8 Mbit/s take 1 ms.
        let arrivals = [(0, 1000), (0, 1000), (0, 500), (9_000_000, 1000)];
        assert_eq!(times(&mut clock(8, 0), &arrivals), [0, 1_000_000, 2_000_000, 9_000_000]);
    }

    #[test]
    fn a_full_bucket_passes_its_depth_at_once() {
        let arrivals = [(0, 1000), (0, 1000), (0, 1000), (0, 1000)];
        assert_eq!(times(&mut clock(8, 2500), &arrivals), [0, 0, 500_000, 1_500_000]);
    }

    #[test]
    fn the_greediest_source_is_19_hours_ahead_at_most() {
        let mut clock = TokenClock::<u32>::default();
        let rate = Rate::from_bps(1000);
        clock.configure(&QueueConfig { rate, ..QueueConfig::default() }).unwrap();
        // 1 MiB takes 8388.608 s: 20 000 of them would be five years.
        let last = (0..20_000).map(|_| clock.conforming(Instant::ZERO, 1 << 20)).max();
        assert_eq!(last, Some(Instant::from_nanos(1 << 46)));
    }

    #[test]
    fn no_drift_at_a_rate_that_does_not_divide() {
        // 3 Mbit/s: 1000 B take 2 666 666.67 ns; 3000 packets take 8 s, to the nanosecond.
        let mut clock = clock(3, 0);
        let mut last = Instant::ZERO;
        for _ in 0..=3000 {
            last = clock.conforming(Instant::ZERO, 1000);
        }
        let off = last.as_nanos() - 8_000_000_000;
        assert!(off <= 1, "off by {off} ns");
    }
}
