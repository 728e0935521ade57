//! Whether a class has had more than its share of late.

use towpath_wire::Instant;

/// Averages shift by 4: w = 1/16.
const WEIGHT_SHIFT: u32 = 4;
/// Times here count 2⁻¹⁶ ns; this from a cost in 2⁻⁴⁰ ns.
const COST_SHIFT: u32 = 24;
/// Longest gap that is told apart, 2⁴⁵ ns (9.8 h), so that nothing overflows.
const IDLE_MAX: i64 = 1 << 61;

/// Exponentially weighted average of how long a class stayed idle beyond what its rate asks.
///
/// With f the time between the ends of its last two packets and s their size: idle = f − s/rate,
/// avgidle ← avgidle + (idle − avgidle)/16, at most `maxidle`. Over its limit while
/// avgidle < 0; then it may not send before `undertime`, which is such that a packet like the
/// last one brings the average to zero, from below:
/// undertime = end + s·(1/rate − 1/link) + 15·|avgidle| (Floyd and Jacobson, appendix A, in the
/// form of ns-2's CBQ; ALTQ's `rmc_update_class_util` says the same from the start of the
/// transmission, start + s/rate + 15·|avgidle|). A burst of n packets back to back is allowed after
/// idling with maxidle = t·(1/p − 1)·(1 − gⁿ)/gⁿ, where g = 15/16, t a largest packet's time on the
/// link, p the class's share of it (same, section on setting parameters).
///
/// Two more constants of implementations are not here. There is no `minidle`: an average of gaps
/// is bounded below by the least of them, so a class that borrowed for long waits for at most 16
/// of its pauses. There is no `extradelay`: a limited class sends single packets, m = 1, for which
/// the section's offtime t·(1/p − 1)·(1 + (1 − gᵐ⁻¹)/((1 − g)·gᵐ⁻¹)) is the pause that `undertime`
/// has already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimator {
    /// Time per byte at the class's rate less that at the link's, 2⁻⁴⁰ ns.
    excess: u64,
    cost: u64,
    maxidle: i64,
    avgidle: i64,
    last_end: Instant,
    undertime: Instant,
}

impl Estimator {
    /// Sets rate and burst; what was averaged stays. A new class starts as if it had idled.
    pub fn configure(&mut self, cost: u64, link_cost: u64, packet_bytes: u32, burst: u32) {
        let new = self.cost == 0;
        self.cost = cost;
        self.excess = cost.saturating_sub(link_cost);
        // (1 − gⁿ)/gⁿ = g⁻ⁿ − 1 in 2⁻³², g⁻¹ = 16/15.
        let mut grown = 1u64 << 32;
        for _ in 0..burst.clamp(1, 256) {
            grown += grown / 15;
        }
        let per_packet = (u128::from(packet_bytes) * u128::from(self.excess)) >> COST_SHIFT;
        let maxidle = (per_packet * u128::from(grown - (1 << 32))) >> 32;
        self.maxidle = i64::try_from(maxidle).unwrap_or(IDLE_MAX).min(IDLE_MAX);
        self.avgidle = if new { self.maxidle } else { self.avgidle.min(self.maxidle) };
    }

    /// Counts a packet whose transmission ends at `end`.
    #[inline]
    pub fn sent(&mut self, end: Instant, bytes: u32) {
        let gap = end.as_nanos().saturating_sub(self.last_end.as_nanos()).min(1 << 45);
        let due = (u128::from(bytes) * u128::from(self.cost)) >> COST_SHIFT;
        let idle = (gap.cast_signed() << 16) - (due as u64).cast_signed();
        self.avgidle += (idle.min(IDLE_MAX) - self.avgidle) / (1 << WEIGHT_SHIFT);
        self.avgidle = self.avgidle.min(self.maxidle);
        self.last_end = end;
        self.undertime = if self.avgidle < 0 {
            let pause = (u128::from(bytes) * u128::from(self.excess)) >> COST_SHIFT;
            let debt = self.avgidle.unsigned_abs().saturating_mul((1 << WEIGHT_SHIFT) - 1);
            // A hair early: at an average of exactly zero the class could send twice in a row,
            // and would get 1/32 of its pauses more than its rate.
            let wait = (pause as u64).saturating_add(debt).saturating_sub(1) >> 16;
            Instant::from_nanos(end.as_nanos().saturating_add(wait))
        } else {
            Instant::ZERO
        };
    }

    /// Whether it is under its limit at `now`.
    #[inline]
    pub fn is_under(&self, now: Instant) -> bool {
        self.undertime <= now
    }

    /// When it is under its limit again.
    pub fn undertime(&self) -> Instant {
        self.undertime
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::fixed::cost_per_byte;
    use towpath_wire::Rate;

    /// 1000 B packets take 1 ms on the link (8 Mbit/s); the class has a quarter.
    fn quarter(burst: u32) -> Estimator {
        let mut estimator = Estimator::default();
        let cost = |mbps| cost_per_byte(Rate::from_mbps(mbps)).unwrap();
        estimator.configure(cost(2), cost(8), 1000, burst);
        estimator
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn maxidle_is_the_papers() {
        // t(1/p − 1)(1 − gⁿ)/gⁿ = 3 ms · (g⁻¹ − 1) = 0.2 ms for n = 1,
        // 3 ms · (16⁴/15⁴ − 1) = 883 614.8 ns for n = 4.
        assert_eq!((quarter(1).maxidle + (1 << 15)) >> 16, 200_000);
        assert_eq!((quarter(4).maxidle + (1 << 15)) >> 16, 883_615);
    }

    /// The average, rounded to nanoseconds.
    fn avgidle_ns(estimator: &Estimator) -> i64 {
        (estimator.avgidle + (1 << 15)) >> 16
    }

    /// Packets of 1000 B, back to back: each takes 1 ms on the link and is owed every 4 ms, so
    /// that idle = 1 − 4 = −3 ms.
    #[test]
    fn back_to_back_by_hand() {
        let mut estimator = quarter(1);
        let at = |ms_1000: u64| Instant::from_nanos(1_000 * MS + ms_1000 * 1000);
        estimator.sent(at(0), 1000);
        // A long gap: the average is at its cap, maxidle = 3 · (16/15 − 1) = 0.2 ms.
        assert_eq!(avgidle_ns(&estimator), 200_000);
        estimator.sent(at(1_000), 1000);
        // 0.2 + (−3 − 0.2)/16 = 0: a burst of one, and not over the limit yet.
        assert_eq!(avgidle_ns(&estimator), 0);
        estimator.sent(at(2_000), 1000);
        // 0 − 3/16 = −0.1875 ms. May send after (4 − 1) + 15 · 0.1875 = 5.8125 ms.
        assert_eq!(avgidle_ns(&estimator), -187_500);
        assert!(estimator.undertime().as_nanos().abs_diff(at(7_812).as_nanos() + 500) <= 1);
        assert!(!estimator.is_under(at(7_812)) && estimator.is_under(at(7_813)));
        estimator.sent(at(3_000), 1000);
        // −0.1875 + (−3 + 0.1875)/16 = −0.36328125 ms; after 3 + 15 · 0.36328125 = 8.44921875 ms.
        assert_eq!(avgidle_ns(&estimator), -363_281);
        assert!(estimator.undertime().as_nanos().abs_diff(1_011_449_219) <= 1);
        // Sent then, idle = 8.44921875 + 1 − 4 = 5.44921875:
        // −0.36328125 + (5.44921875 + 0.36328125)/16 = 0.
        estimator.sent(Instant::from_nanos(1_012_449_219), 1000);
        assert!(avgidle_ns(&estimator).abs() <= 1, "{}", avgidle_ns(&estimator));
    }

    /// Steady bursts of m packets end at an average of zero if the class is off for the paper's
    /// offtime before each, t(1/p − 1)·(1 + 16·(1 − gᵐ⁻¹)/gᵐ⁻¹) with t(1/p − 1) = 3 ms:
    /// m = 1: 3 ms. m = 2: 3·(1 + 16·(16/15 − 1)) = 3·(1 + 16/15) = 6.2 ms.
    /// m = 3: 3·(1 + 16·(256/225 − 1)) = 3·(1 + 496/225) = 9.613 333 ms.
    #[test]
    fn offtime_is_the_papers() {
        for (m, offtime_ns) in [(1, 3_000_000), (2, 6_200_000), (3, 9_613_333)] {
            let mut estimator = quarter(8);
            estimator.avgidle = 0;
            estimator.last_end = Instant::from_nanos(1_000 * MS);
            let mut end = 1_000 * MS;
            for burst in 0..20 {
                end += offtime_ns;
                for _ in 0..m {
                    end += MS;
                    estimator.sent(Instant::from_nanos(end), 1000);
                }
                let off = avgidle_ns(&estimator);
                assert!(off.abs() <= 2, "m = {m}, burst {burst}: {off} ns");
            }
        }
    }

    #[test]
    fn after_a_burst_the_average_is_back_at_zero() {
        let mut estimator = quarter(4);
        let start = 1_000 * MS;
        for n in 0..=4 {
            estimator.sent(Instant::from_nanos(start + n * MS), 1000);
            let limited = estimator.avgidle < -(1 << 16);
            assert!(!limited, "packet {n} of the burst: {}", estimator.avgidle);
        }
        assert!(estimator.avgidle.abs() < 1 << 16, "{}", estimator.avgidle);
        estimator.sent(Instant::from_nanos(start + 5 * MS), 1000);
        assert!(!estimator.is_under(Instant::from_nanos(start + 5 * MS)));
    }

    #[test]
    fn sending_at_undertime_brings_the_average_to_zero() {
        let mut estimator = quarter(1);
        let mut now = 1_000 * MS;
        for _ in 0..20 {
            estimator.sent(Instant::from_nanos(now + MS), 1000);
            now += MS;
        }
        assert!(estimator.avgidle < 0);
        let at = estimator.undertime().as_nanos();
        estimator.sent(Instant::from_nanos(at + MS), 1000);
        assert!((-(1 << 16)..0).contains(&estimator.avgidle), "{}", estimator.avgidle);
    }
}
