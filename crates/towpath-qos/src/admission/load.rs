//! What a channel brings to one hop.

use crate::spec::limits::{NANO, RATE_BPS_MAX};
use crate::spec::wire::Demand;
use crate::spec::{Bucket, Buckets};

/// Arrivals at a hop: `min(fast, slow)` in wire bits. A specification of more buckets is reduced
/// to these two, which only loosens it.
/// Invariants: `fast.rate ≥ slow.rate`, `fast.burst ≤ slow.burst`; equal if there is one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The bucket that bounds short windows.
    pub fast: Bucket,
    /// The bucket of the sustained rate.
    pub slow: Bucket,
    /// Largest piece that is not interrupted.
    pub packet_bits: u64,
    /// Smallest packet.
    pub packet_min_bits: u64,
}

impl Load {
    /// What leaves the sender's regulator.
    pub fn of(demand: &Demand) -> Self {
        let two = demand.buckets.reduced(2);
        let slice = two.as_slice();
        let slow = two.slowest();
        // A bucket faster than any link bounds nothing that matters.
        let fast = if slice[0].rate_bps > RATE_BPS_MAX { slow } else { slice[0] };
        Self {
            fast,
            slow,
            packet_bits: demand.packet_bits,
            packet_min_bits: demand.packet_min_bits,
        }
    }

    /// After delays that vary by at most `jitter_ns` together: both buckets move left.
    #[must_use]
    pub fn after(&self, jitter_ns: u64) -> Self {
        let (fast, slow) = (self.fast.after(jitter_ns), self.slow.after(jitter_ns));
        // Beyond the knee the slow bucket alone is left.
        let fast = if fast.burst_bits >= slow.burst_bits { slow } else { fast };
        Self { fast, slow, ..*self }
    }

    /// Most bits in a window, rounded up.
    pub fn bits_in(&self, window_ns: u64) -> u128 {
        self.fast.bits_in(window_ns).min(self.slow.bits_in(window_ns))
    }

    /// The sustained rate.
    pub const fn rate_bps(&self) -> u64 {
        self.slow.rate_bps
    }

    /// Bits that may come at once.
    pub const fn burst_bits(&self) -> u64 {
        self.fast.burst_bits
    }

    /// Where the slow bucket takes over, rounded down; 0 for one bucket.
    pub fn knee_ns(&self) -> u64 {
        let rise = self.slow.burst_bits - self.fast.burst_bits;
        let fall = self.fast.rate_bps - self.slow.rate_bps;
        if fall == 0 {
            return 0;
        }
        u64::try_from(u128::from(rise) * NANO / u128::from(fall)).unwrap_or(u64::MAX)
    }

    /// As a set of buckets.
    pub fn buckets(&self) -> Buckets {
        Buckets::least(&[self.fast, self.slow])
    }

    /// Whether the load is nowhere above another's.
    pub const fn is_within(&self, other: &Self) -> bool {
        self.fast.burst_bits <= other.fast.burst_bits
            && self.fast.rate_bps <= other.fast.rate_bps
            && self.slow.burst_bits <= other.slow.burst_bits
            && self.slow.rate_bps <= other.slow.rate_bps
            && self.packet_bits <= other.packet_bits
            && self.packet_min_bits >= other.packet_min_bits
    }
}

/// Time that `bits` take at `rate_bps`, rounded up; saturates.
pub(super) fn time_up(bits: u64, rate_bps: u64) -> u64 {
    let ns = (u128::from(bits) * NANO).div_ceil(u128::from(rate_bps.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Time that `bits` take at `rate_bps`, rounded down.
pub(super) fn time_down(bits: u64, rate_bps: u64) -> u64 {
    let ns = u128::from(bits) * NANO / u128::from(rate_bps.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
