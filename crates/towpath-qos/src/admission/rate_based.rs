//! Delay under schedulers that guarantee a rate: RFC 2212's and Parekh and Gallager's formulas.

use super::load::time_up;
use super::turns::weight_of;
use crate::spec::Buckets;

/// One hop of a rate-based run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateHop {
    /// Largest piece of anyone on this link, in bits.
    pub blocking_bits: u64,
    /// The link's rate.
    pub rate_bps: u64,
    /// Deficit round robin: most quanta of `blocking_bits` in a round; 0 for other schedulers.
    pub weights_max: u32,
}

impl RateHop {
    /// How much later than its clock at rate g (arrival or the packet before, and L/g) a packet
    /// leaves at most, in ns.
    ///
    /// WFQ, WF²Q+ and Virtual Clock: one piece of anyone, L/C. SCFQ: a piece of each other
    /// session (Golestani 1994). DRR: its latency `((F − Q)(1 + L_i/Q) + Σ_{j≠i} L_j)/C` (Boyer
    /// et al. 2012) with `Σ_{j≠i} L_j ≤ F − Q`, quanta being no smaller than any packet; a server
    /// of rate g and latency θ that keeps a flow's order is no later than θ (Le Boudec and Thiran
    /// 2001, theorem 2.1.3).
    fn late_ns(&self, packet_bits: u64, reserved_bps: u64) -> u64 {
        if self.weights_max == 0 {
            return time_up(self.blocking_bits, self.rate_bps);
        }
        let weight = weight_of(reserved_bps, self.weights_max, self.rate_bps);
        let others = u128::from(self.weights_max.saturating_sub(weight));
        let per = 2 * u128::from(self.blocking_bits) * u128::from(weight) + u128::from(packet_bits);
        let bits = others.saturating_mul(per).div_ceil(weight.into());
        u64::try_from(bits).map_or(u64::MAX, |bits| time_up(bits, self.rate_bps))
    }
}

/// RFC 2212's end-to-end queueing delay at reserved rate R, rounded up to ns; `None` where R is
/// below the sustained rate.
///
/// `(b − M)/R·(p − R)/(p − r) + (M + Ctot)/R + Dtot` for p > R ≥ r, `(M + Ctot)/R + Dtot` for
/// R ≥ p ≥ r: the first terms are the horizontal deviation of the buckets from R. An infinite
/// peak is one bucket.
pub fn guaranteed_delay_ns(
    buckets: &Buckets,
    reserved_bps: u64,
    ctot_bits: u64,
    dtot_ns: u64,
) -> Option<u64> {
    let queued = buckets.delay_ns(reserved_bps)?;
    queued.checked_add(time_up(ctot_bits, reserved_bps))?.checked_add(dtot_ns)
}

/// Delay over consecutive hops at rate g, from the last bit in to the last bit out:
/// `σ/g + (K − 1)·L_i/g + Σ late_k` (Parekh and Gallager 1994 for WFQ, `late = L_max/C`; Goyal,
/// Lam and Vin 1995 for any that keep to a rate clock), σ/g being the buckets' horizontal
/// deviation. Without propagation.
pub fn run_delay_ns(
    buckets: &Buckets,
    packet_bits: u64,
    reserved_bps: u64,
    hops: &[RateHop],
) -> Option<u64> {
    let own = time_up(packet_bits, reserved_bps);
    let again = own.checked_mul(hops.len().saturating_sub(1) as u64)?;
    let blocking = hops
        .iter()
        .try_fold(0_u64, |sum, hop| sum.checked_add(hop.late_ns(packet_bits, reserved_bps)))?;
    buckets.delay_ns(reserved_bps)?.checked_add(again)?.checked_add(blocking)
}

/// The least rate in `sustained..=most_bps` whose run delay is at most `delay_ns`. The delay
/// falls in the rate, so that bisection finds it: at most 50 steps.
pub fn least_rate_bps(
    buckets: &Buckets,
    packet_bits: u64,
    hops: &[RateHop],
    delay_ns: u64,
    most_bps: u64,
) -> Option<u64> {
    let meets = |bps| run_delay_ns(buckets, packet_bits, bps, hops).is_some_and(|d| d <= delay_ns);
    let mut low = buckets.sustained_bps().max(1);
    let mut high = most_bps;
    if high < low || !meets(high) {
        return None;
    }
    if meets(low) {
        return Some(low);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if meets(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Bucket;

    fn buckets(list: &[(u64, u64)]) -> Buckets {
        let list: std::vec::Vec<Bucket> =
            list.iter().map(|&(burst_bits, rate_bps)| Bucket { burst_bits, rate_bps }).collect();
        Buckets::least(&list)
    }

    /// Cases `rfc2212-s1` and `-s2` of the netcalc set (the RFC's formula, evaluated): 323/8000 s
    /// and 2/125 s.
    #[test]
    fn netcalc_rfc2212_cases() {
        let delay = |peak: u64| {
            let tspec = buckets(&[(1500 * 8, peak * 8), (8000 * 8, 100_000 * 8)]);
            guaranteed_delay_ns(&tspec, 200_000 * 8, 1500 * 8, 1_000_000)
        };
        let s1 = delay(500_000).expect("stable");
        assert!((40_375_000..=40_375_001).contains(&s1), "{s1}");
        assert_eq!(delay(150_000), Some(16_000_000));
        let slow = buckets(&[(1500 * 8, 800_000)]);
        assert_eq!(guaranteed_delay_ns(&slow, 799_999, 0, 0), None);
    }

    /// Case `wfq-s1` of the netcalc set (Parekh-Gallager, evaluated): 57009/3125000 s.
    #[test]
    fn netcalc_wfq_case() {
        let hop = RateHop { blocking_bits: 12_144, rate_bps: 100_000_000, weights_max: 0 };
        let session = buckets(&[(10_000, 500_000)]);
        assert_eq!(run_delay_ns(&session, 8000, 1_000_000, &[hop; 2]), Some(18_242_880));
        let least = least_rate_bps(&session, 8000, &[hop; 2], 18_242_880, 100_000_000);
        assert!(least.is_some_and(|bps| (999_990..=1_000_000).contains(&bps)), "{least:?}");
    }

    /// DRR by hand: 10 quanta of 1000 bits at 1 Mbit/s, 200 kbit/s are 2 of them, packets of 500:
    /// 8·(2·1000 + 500/2) = 18 000 bits, 18 ms, beside σ/g = 10 ms. And SCFQ with 5 sessions: 4
    /// pieces, 4 ms.
    #[test]
    fn drr_and_scfq_by_hand() {
        let drr = RateHop { blocking_bits: 1000, rate_bps: 1_000_000, weights_max: 10 };
        let session = buckets(&[(2000, 150_000)]);
        assert_eq!(run_delay_ns(&session, 500, 200_000, &[drr]), Some(28_000_000));
        // A rate between two weights has the larger's latency.
        assert_eq!(drr.late_ns(500, 100_001), 18_000_000);
        assert_eq!(drr.late_ns(500, 1_000_000), 0, "alone in the round");
        let scfq = super::super::turns::Turns::channels(5).hop(1000, 1_000_000);
        assert_eq!(run_delay_ns(&session, 500, 200_000, &[scfq]), Some(14_000_000));
        // In a row: 10 ms, one packet more at 200 kbit/s, 18 ms and 4 ms.
        assert_eq!(run_delay_ns(&session, 500, 200_000, &[drr, scfq]), Some(34_500_000));
    }
}
