//! Traffic that is counted in packets: a staircase, which token buckets only bound.

use super::averaged::Averaged;
use super::buckets::{Bucket, Buckets};
use super::limits::{self, NANO};
use super::spaced::Spaced;

/// Packets of at most `bits`, at least Xmin apart, at most `count` in any half-open window of
/// length I: `A(t) = bits·(⌊t/I⌋·n + min(⌊(t mod I)/Xmin⌋ + 1, n))`. (Xmin, Smax) is I = Xmin,
/// n = 1.
///
/// Invariants: nothing is zero; n·Xmin ≤ I.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packets {
    bits: u64,
    xmin_ns: u64,
    interval_ns: u64,
    count: u64,
}

impl Packets {
    pub(super) const fn of_spaced(spec: Spaced, bits: u64) -> Self {
        Self { bits, xmin_ns: spec.xmin_ns, interval_ns: spec.xmin_ns, count: 1 }
    }

    pub(super) const fn of_averaged(spec: Averaged, bits: u64) -> Self {
        let (xmin_ns, interval_ns) = (spec.xmin_ns, spec.interval_ns);
        Self { bits, xmin_ns, interval_ns, count: spec.packets() }
    }

    /// Bits of a packet.
    pub const fn bits(&self) -> u64 {
        self.bits
    }

    /// Packets per interval, and the interval: the sustained rate.
    pub const fn count_in(&self) -> (u64, u64) {
        (self.count, self.interval_ns)
    }

    /// Most packets in a closed window.
    pub const fn packets_in(&self, window_ns: u64) -> u128 {
        let (whole, rest) = if self.count == 1 {
            return (window_ns / self.interval_ns) as u128 + 1;
        } else {
            (window_ns / self.interval_ns, window_ns % self.interval_ns)
        };
        let rest = rest / self.xmin_ns + 1;
        let rest = if rest < self.count { rest } else { self.count };
        whole as u128 * self.count as u128 + rest as u128
    }

    /// Most nanobits in a closed window.
    pub const fn nanobits_in(&self, window_ns: u64) -> u128 {
        self.packets_in(window_ns).saturating_mul(self.bits as u128 * NANO)
    }

    /// When packet `number`, from 0, of the greediest source comes; saturates.
    pub fn arrival_ns(&self, number: u128) -> u64 {
        let count = u128::from(self.count);
        let whole = (number / count).saturating_mul(self.interval_ns.into());
        let at = whole.saturating_add(number % count * u128::from(self.xmin_ns));
        u64::try_from(at).unwrap_or(u64::MAX)
    }

    /// The last time not after `at_ns` at which a packet of the greediest source comes.
    pub const fn last_arrival_ns(&self, at_ns: u64) -> u64 {
        let (start, rest) = (at_ns - at_ns % self.interval_ns, at_ns % self.interval_ns);
        let place = rest / self.xmin_ns;
        let place = if place < self.count { place } else { self.count - 1 };
        start + place * self.xmin_ns
    }

    /// A concave set of token buckets above: the peak line, and the sustained one through the last
    /// packet of the first interval.
    pub fn buckets(&self) -> Buckets {
        let sustained =
            limits::rate_of_u128(u128::from(self.count) * u128::from(self.bits), self.interval_ns);
        let fast = Bucket { burst_bits: self.bits, rate_bps: sustained };
        if self.count == 1 {
            return Buckets::one(fast);
        }
        let all = u128::from(self.count) * u128::from(self.bits);
        let given = u128::from(sustained) * u128::from((self.count - 1) * self.xmin_ns) / NANO;
        let burst = u64::try_from(all.saturating_sub(given)).unwrap_or(u64::MAX);
        Buckets::least(&[
            Bucket { rate_bps: limits::rate_of(self.bits, self.xmin_ns), ..fast },
            Bucket { burst_bits: burst.max(self.bits), rate_bps: sustained },
        ])
    }

    /// The same packets with all intervals times `whole`/`parts`, rounded up: never more traffic
    /// than `parts`/`whole` of this, packets as they are.
    #[must_use]
    pub fn spread(&self, parts: u32, whole: u32) -> Self {
        let longer = |ns: u64| {
            let ns = (u128::from(ns) * u128::from(whole)).div_ceil(u128::from(parts.max(1)));
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        let xmin_ns = longer(self.xmin_ns);
        // Rounding may make n·Xmin longer than the interval.
        let all = xmin_ns.saturating_mul(self.count);
        Self { xmin_ns, interval_ns: longer(self.interval_ns).max(all), ..*self }
    }

    /// Whether there is nowhere more of this than of another.
    pub const fn is_within(&self, other: &Self) -> bool {
        self.bits <= other.bits
            && self.xmin_ns >= other.xmin_ns
            && self.interval_ns >= other.interval_ns
            && self.count <= other.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use proptest::prelude::*;
    use towpath_wire::ByteSize;

    proptest! {
        /// The staircase is that of the models, its steps are where it says, and the buckets and
        /// what is spread lie on the right side of it.
        #[test]
        fn the_staircase_is_the_models(
            xmin in 1u64..50, more in 0u64..100, packets in 1u64..9, t in 0u64..5000,
            parts in 1u32..1024,
        ) {
            let ns = Duration::from_nanos;
            let smax = ByteSize::from_bytes(7);
            let (xave, interval) = (xmin + more, (xmin + more) * packets + more / 2);
            let averaged = Averaged::new(ns(xmin), ns(xave), ns(interval), smax).expect("valid");
            let steps = Packets::of_averaged(averaged, 56);
            prop_assert_eq!(steps.nanobits_in(t), averaged.bits_in(t) * NANO);
            prop_assert!(steps.buckets().bits_in(t) >= averaged.bits_in(t));
            let last = steps.last_arrival_ns(t);
            prop_assert_eq!(steps.packets_in(last), steps.packets_in(t));
            prop_assert!(last == 0 || steps.packets_in(last - 1) < steps.packets_in(last));
            prop_assert_eq!(steps.arrival_ns(steps.packets_in(t) - 1), last);
            let less = steps.spread(parts, 1024);
            prop_assert!(less.nanobits_in(t) <= steps.nanobits_in(t));
            prop_assert!(less.is_within(&steps));
            let spaced = Spaced::new(ns(xmin), smax).expect("valid");
            let steps = Packets::of_spaced(spaced, 56);
            prop_assert_eq!(steps.nanobits_in(t), spaced.bits_in(t) * NANO);
            prop_assert!(steps.buckets().bits_in(t) >= spaced.bits_in(t));
        }
    }
}
