//! A concave set of token buckets: the arrival curve `min_k (burst_k + rate_k·t)`.

use core::fmt;

use super::limits::NANO;

/// Most buckets of a set.
pub const BUCKETS_MAX: usize = 8;

/// The arrival curve `burst + rate·t`, in bits, for any closed window of length `t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket {
    /// Bits that may come at once.
    pub burst_bits: u64,
    /// Sustained rate in bit/s.
    pub rate_bps: u64,
}

impl Bucket {
    /// Most bits in a window, rounded up.
    pub fn bits_in(self, window_ns: u64) -> u128 {
        let grown = u128::from(self.rate_bps) * u128::from(window_ns);
        u128::from(self.burst_bits) + grown.div_ceil(NANO)
    }

    /// Most nanobits in a window, exact.
    pub const fn nanobits_in(self, window_ns: u64) -> u128 {
        self.burst_bits as u128 * NANO + self.rate_bps as u128 * window_ns as u128
    }

    /// The same traffic after a delay that varies by at most `jitter_ns` (Cruz 1991: the curve
    /// moves left by the variation).
    #[must_use]
    pub fn after(self, jitter_ns: u64) -> Self {
        let burst_bits = u64::try_from(self.bits_in(jitter_ns)).unwrap_or(u64::MAX);
        Self { burst_bits, ..self }
    }
}

/// Token buckets of which all hold at once.
/// Invariants: 1 ≤ len ≤ [`BUCKETS_MAX`]; rates fall strictly and bursts rise strictly; each
/// bucket is the least of all somewhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Buckets {
    items: [Bucket; BUCKETS_MAX],
    len: u8,
}

impl Buckets {
    /// The set of one bucket.
    pub fn one(bucket: Bucket) -> Self {
        let mut items = [Bucket::default(); BUCKETS_MAX];
        items[0] = bucket;
        Self { items, len: 1 }
    }

    /// The least of all given, without those that are nowhere least. What exceeds
    /// [`BUCKETS_MAX`] is left out from the middle, which only loosens the curve.
    pub fn least(buckets: &[Bucket]) -> Self {
        let Some(&slowest) = buckets.iter().min_by_key(|b| (b.rate_bps, b.burst_bits)) else {
            return Self::one(Bucket::default());
        };
        // From the slowest up: the next is the one that takes over last, walking back in time.
        let mut chain = [slowest; BUCKETS_MAX];
        let mut len = 1;
        loop {
            let current = chain[len - 1];
            let faster = buckets
                .iter()
                .filter(|b| b.rate_bps > current.rate_bps && b.burst_bits < current.burst_bits);
            // Largest crossing time (Δburst / Δrate), by cross-multiplication.
            let next = faster.max_by(|a, b| {
                let crossing = |x: &Bucket| {
                    (
                        u128::from(current.burst_bits - x.burst_bits),
                        u128::from(x.rate_bps - current.rate_bps),
                    )
                };
                let ((an, ad), (bn, bd)) = (crossing(a), crossing(b));
                (an * bd).cmp(&(bn * ad)).then(a.rate_bps.cmp(&b.rate_bps))
            });
            match next {
                Some(&next) if len < BUCKETS_MAX => {
                    chain[len] = next;
                    len += 1;
                }
                // Full: the fastest bucket, which bounds a single packet, matters most.
                Some(_) => {
                    let fastest = buckets.iter().min_by_key(|b| (b.burst_bits, b.rate_bps));
                    chain[len - 1] = *fastest.unwrap_or(&current);
                    break;
                }
                None => break,
            }
        }
        chain[..len].reverse();
        let mut set = Self { items: [Bucket::default(); BUCKETS_MAX], len: len as u8 };
        set.items[..len].copy_from_slice(&chain[..len]);
        set
    }

    /// The buckets, fastest rate first.
    pub fn as_slice(&self) -> &[Bucket] {
        &self.items[..usize::from(self.len)]
    }

    /// Most bits in any closed window, rounded up.
    pub fn bits_in(&self, window_ns: u64) -> u128 {
        self.as_slice().iter().map(|b| b.bits_in(window_ns)).min().unwrap_or(0)
    }

    /// The long-term rate: the slowest bucket's.
    pub fn sustained_bps(&self) -> u64 {
        self.as_slice().last().map_or(0, |b| b.rate_bps)
    }

    /// The bucket of the sustained rate, which has the largest burst.
    pub fn slowest(&self) -> Bucket {
        self.as_slice().last().copied().unwrap_or_default()
    }

    /// Bits that may come at one instant.
    pub fn burst_bits(&self) -> u64 {
        self.as_slice().first().map_or(0, |b| b.burst_bits)
    }

    /// At most `most` buckets (at least 1): the slowest, the fastest, then from the slow side.
    #[must_use]
    pub fn reduced(&self, most: usize) -> Self {
        let most = most.clamp(1, BUCKETS_MAX);
        let slice = self.as_slice();
        if slice.len() <= most {
            return *self;
        }
        let mut set = Self { items: [Bucket::default(); BUCKETS_MAX], len: most as u8 };
        set.items[..most].copy_from_slice(&slice[slice.len() - most..]);
        if most > 1 {
            set.items[0] = slice[0];
        }
        set
    }

    /// The same traffic after a delay that varies by at most `jitter_ns`, over a line of
    /// `line_bps` whose largest packet is `packet_bits`: `min(α(t + J), packet + line·t)`.
    #[must_use]
    pub fn after(&self, jitter_ns: u64, packet_bits: u64, line_bps: u64) -> Self {
        let mut moved = [Bucket::default(); BUCKETS_MAX + 1];
        let len = self.as_slice().len();
        for (to, from) in moved.iter_mut().zip(self.as_slice()) {
            *to = from.after(jitter_ns);
        }
        moved[len] = Bucket { burst_bits: packet_bits, rate_bps: line_bps };
        Self::least(&moved[..=len])
    }

    /// Longest time that a server of constant rate `rate_bps` keeps anything of this traffic:
    /// the horizontal deviation, rounded up to ns. `None` where the sustained rate is above it.
    pub fn delay_ns(&self, rate_bps: u64) -> Option<u64> {
        if rate_bps == 0 || self.sustained_bps() > rate_bps {
            return None;
        }
        // α(t)/g − t is concave in t: largest where the slope falls below g, which is at the
        // start of the first bucket that is no faster than g.
        let slice = self.as_slice();
        let first = slice.iter().position(|b| b.rate_bps <= rate_bps)?;
        let (after, rate) = (slice[first], u128::from(rate_bps));
        let nanobits = u128::from(after.burst_bits) * NANO;
        let Some(before) = first.checked_sub(1).map(|i| slice[i]) else {
            return u64::try_from(nanobits.div_ceil(rate)).ok();
        };
        // At knee τ = Δb·NANO/Δr: (b + r·τ/NANO)·NANO/g − τ = (b·NANO − (g − r)·τ) / g.
        let (rise, fall) = (after.burst_bits - before.burst_bits, before.rate_bps - after.rate_bps);
        let knee_ns = u128::from(rise) * NANO / u128::from(fall);
        let gained = (rate - u128::from(after.rate_bps)).saturating_mul(knee_ns);
        u64::try_from(nanobits.saturating_sub(gained).div_ceil(rate)).ok()
    }
}

impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn bucket(burst_bits: u64, rate_bps: u64) -> Bucket {
        Bucket { burst_bits, rate_bps }
    }

    #[test]
    fn what_is_nowhere_least_goes() {
        let set = Buckets::least(&[bucket(10, 9), bucket(100, 1), bucket(90, 5), bucket(200, 1)]);
        assert_eq!(set.as_slice(), [bucket(10, 9), bucket(100, 1)]);
    }

    #[test]
    fn a_window_is_rounded_up_to_whole_bits() {
        assert_eq!(bucket(4, 1).bits_in(1), 5);
        assert_eq!(bucket(4, 1).bits_in(1_000_000_000), 5);
        assert_eq!(bucket(4, 1).bits_in(1_000_000_001), 6);
    }

    #[test]
    fn delay_is_at_the_knee() {
        // RFC 2212 without error terms: (b − M)/R·(p − R)/(p − r) + M/R, in bits and bit/s.
        let set = Buckets::least(&[bucket(12_000, 4_000_000), bucket(64_000, 800_000)]);
        let (peak, rate, burst, packet, g) = (4e6, 8e5, 64e3, 12e3, 1.6e6);
        let expected = (burst - packet) / g * (peak - g) / (peak - rate) + packet / g;
        let ns = set.delay_ns(1_600_000).expect("stable") as f64;
        assert!((ns - expected * 1e9).abs() <= 1.0, "{ns}");
        assert_eq!(set.delay_ns(799_999), None);
    }

    proptest! {
        #[test]
        fn the_least_is_the_least(
            raw in proptest::collection::vec((0u64..1 << 50, 1u64..1 << 50), 1..12),
            windows in proptest::collection::vec(any::<u64>(), 8),
        ) {
            let all: Vec<Bucket> = raw.iter().map(|&(b, r)| bucket(b, r)).collect();
            let set = Buckets::least(&all);
            for window in windows {
                let exact = all.iter().map(|b| b.bits_in(window)).min().unwrap_or(0);
                prop_assert!(set.bits_in(window) >= exact);
                if set.as_slice().len() < BUCKETS_MAX {
                    prop_assert_eq!(set.bits_in(window), exact);
                }
            }
            for pair in set.as_slice().windows(2) {
                prop_assert!(pair[0].rate_bps > pair[1].rate_bps);
                prop_assert!(pair[0].burst_bits < pair[1].burst_bits);
            }
        }

        #[test]
        fn delay_never_understates(
            raw in proptest::collection::vec((1u64..1 << 30, 1u64..1 << 30), 1..5),
            rate in 1u64..1 << 31,
            window in 0u64..1 << 40,
        ) {
            let all: Vec<Bucket> = raw.iter().map(|&(b, r)| bucket(b, r)).collect();
            let set = Buckets::least(&all);
            if let Some(delay) = set.delay_ns(rate) {
                let served = (u128::from(window) + u128::from(delay)) * u128::from(rate);
                let least = set.as_slice().iter().map(|b| b.nanobits_in(window)).min();
                prop_assert!(least.is_some_and(|bits| bits <= served));
            }
        }
    }
}
