//! What a channel brings to one hop.

use crate::spec::buckets::BUCKETS_MAX;
use crate::spec::limits::{NANO, RATE_BPS_MAX};
use crate::spec::wire::Demand;
use crate::spec::{Bucket, Buckets, Packets};

/// What a specification says beyond two buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Nothing.
    #[default]
    Two,
    /// Packets are counted.
    Packets(Packets),
    /// More buckets.
    Many(Buckets),
}

/// Arrivals at a hop in wire bits: `shape` as it left the sender, early by up to `early_ns`, and
/// `min(fast, slow)`, which is the same or above it.
/// Invariants: `fast.rate ≥ slow.rate`, `fast.burst ≤ slow.burst`; equal if there is one bucket;
/// a burst is the least whole number of bits, `over` is what that is too much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The bucket that bounds short windows.
    pub fast: Bucket,
    /// The bucket of the sustained rate.
    pub slow: Bucket,
    /// Nanobits by which the bursts of `fast` and `slow` were rounded up.
    pub over: [u32; 2],
    /// What the two buckets only bound.
    pub shape: Shape,
    /// Variation of delay since the last regulator.
    pub early_ns: u64,
    /// Largest piece that is not interrupted.
    pub packet_bits: u64,
    /// Smallest packet.
    pub packet_min_bits: u64,
}

/// Nanobits by which `bucket.after(jitter_ns)` has too large a burst: below one bit.
fn over(bucket: Bucket, jitter_ns: u64) -> u32 {
    let part = u128::from(bucket.rate_bps) * u128::from(jitter_ns) % NANO;
    if part == 0 { 0 } else { (NANO - part) as u32 }
}

impl Load {
    /// One bucket, or the least of two.
    pub fn two(fast: Bucket, slow: Bucket, packet_bits: u64, packet_min_bits: u64) -> Self {
        Self { fast, slow, packet_bits, packet_min_bits, ..Self::default() }
    }

    /// What leaves the sender's regulator.
    pub fn of(demand: &Demand) -> Self {
        let shape = match demand.packets {
            Some(packets) => Shape::Packets(packets),
            None if demand.buckets.as_slice().len() > 2 => Shape::Many(demand.buckets),
            None => Shape::Two,
        };
        Self::bounded(demand.buckets, shape, demand.packet_bits, demand.packet_min_bits)
    }

    fn bounded(buckets: Buckets, shape: Shape, packet_bits: u64, packet_min_bits: u64) -> Self {
        let two = buckets.reduced(2);
        let slice = two.as_slice();
        let slow = two.slowest();
        // A bucket faster than any link bounds nothing that matters.
        let fast = if slice[0].rate_bps > RATE_BPS_MAX { slow } else { slice[0] };
        Self { shape, ..Self::two(fast, slow, packet_bits, packet_min_bits) }
    }

    /// All rates and bursts times `parts`/`whole`, but of bursts the second of `kept_bits` as it
    /// is, and none below the first; everything rounded up. Packets that are counted come at longer
    /// intervals instead.
    ///
    /// So nothing is above it that is made by the same rule from the specification, of messages as
    /// large as they were, and rounded down.
    #[must_use]
    pub fn scaled(&self, parts: u32, whole: u32, kept_bits: [u64; 2]) -> Self {
        if let Shape::Packets(packets) = self.shape {
            let packets = packets.spread(parts, whole);
            let (packet, least) = (self.packet_bits, self.packet_min_bits);
            return Self::bounded(packets.buckets(), Shape::Packets(packets), packet, least);
        }
        let part = |n: u64| (u128::from(n) * u128::from(parts)).div_ceil(u128::from(whole)) as u64;
        let [least, beside] = kept_bits.map(|bits| bits.min(self.fast.burst_bits));
        let burst = |b: Bucket| beside + part(b.burst_bits - beside);
        let less = |b: Bucket| Bucket {
            rate_bps: part(b.rate_bps).max(1),
            burst_bits: burst(b).max(least) + ROUNDING_BITS,
        };
        // What rounding down makes one bucket is one.
        let down = |b: Bucket| burst(b).saturating_sub(1).max(least);
        let fast = if down(self.fast) < down(self.slow) { self.fast } else { self.slow };
        let mut lines = [Bucket::default(); BUCKETS_MAX];
        let (two, many) = ([fast, self.slow], &self.shape);
        let old = if let Shape::Many(buckets) = many { buckets.as_slice() } else { &two };
        for (line, bucket) in lines.iter_mut().zip(old) {
            *line = less(*bucket);
        }
        let buckets = Buckets::least(&lines[..old.len()]);
        let many = buckets.as_slice().len() > 2;
        let shape = if many { Shape::Many(buckets) } else { Shape::Two };
        Self::bounded(buckets, shape, self.packet_bits, self.packet_min_bits)
    }

    /// A load from the sender after delays that vary by at most `jitter_ns` together: everything
    /// moves left.
    #[must_use]
    pub fn after(&self, jitter_ns: u64) -> Self {
        debug_assert!(
            self.early_ns == 0 && self.over == [0; 2],
            "variation counts from the sender"
        );
        let (fast, slow) = (self.fast.after(jitter_ns), self.slow.after(jitter_ns));
        let over = [over(self.fast, jitter_ns), over(self.slow, jitter_ns)];
        let moved = Self { fast, slow, over, early_ns: jitter_ns, ..*self };
        // Beyond the knee the slow bucket alone is left.
        if moved.burst_of(fast, 0) >= moved.burst_of(slow, 1) {
            return Self { fast: slow, over: [over[1]; 2], ..moved };
        }
        moved
    }

    const fn burst_of(&self, bucket: Bucket, index: usize) -> u128 {
        bucket.burst_bits as u128 * NANO - self.over[index] as u128
    }

    /// Nanobits that may come at once, by the buckets.
    pub(super) const fn burst_nanobits(&self) -> u128 {
        self.burst_of(self.fast, 0)
    }

    /// The same of the slow bucket.
    pub(super) const fn slow_nanobits(&self) -> u128 {
        self.burst_of(self.slow, 1)
    }

    /// Whether `min(fast, slow)` is all that is known.
    pub const fn is_two(&self) -> bool {
        matches!(self.shape, Shape::Two)
    }

    /// Most bits in a window, rounded up.
    pub fn bits_in(&self, window_ns: u64) -> u128 {
        let window = window_ns.saturating_add(self.early_ns);
        match &self.shape {
            Shape::Two => self.fast.bits_in(window_ns).min(self.slow.bits_in(window_ns)),
            Shape::Packets(packets) => packets.packets_in(window) * u128::from(packets.bits()),
            Shape::Many(buckets) => buckets.bits_in(window),
        }
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
        let fall = self.fast.rate_bps - self.slow.rate_bps;
        if fall == 0 {
            return 0;
        }
        let rise = self.slow_nanobits() - self.burst_nanobits();
        u64::try_from(rise / u128::from(fall)).unwrap_or(u64::MAX)
    }

    /// Whether the buckets meet at a whole nanosecond, or there is one.
    pub fn knee_is_whole(&self) -> bool {
        let fall = u128::from(self.fast.rate_bps - self.slow.rate_bps);
        (self.slow_nanobits() - self.burst_nanobits()).checked_rem(fall).unwrap_or(0) == 0
    }

    /// As a set of buckets.
    pub fn buckets(&self) -> Buckets {
        Buckets::least(&[self.fast, self.slow])
    }

    /// Whether the load is nowhere above another's.
    pub fn is_within(&self, other: &Self) -> bool {
        let shape = match (&self.shape, &other.shape) {
            // The two buckets are all of the other.
            (_, Shape::Two) => true,
            (Shape::Packets(own), Shape::Packets(other)) => own.is_within(other),
            (Shape::Two, Shape::Many(other)) => lie_below(&[self.fast, self.slow], other),
            (Shape::Many(own), Shape::Many(other)) => lie_below(own.as_slice(), other),
            _ => false,
        };
        shape
            && self.fast.burst_bits <= other.fast.burst_bits
            && self.fast.rate_bps <= other.fast.rate_bps
            && self.slow.burst_bits <= other.slow.burst_bits
            && self.slow.rate_bps <= other.slow.rate_bps
            && self.packet_bits <= other.packet_bits
            && self.packet_min_bits >= other.packet_min_bits
    }
}

/// Whether below each of the other buckets there is one of these.
fn lie_below(own: &[Bucket], other: &Buckets) -> bool {
    let below =
        |o: &Bucket| own.iter().any(|b| b.burst_bits <= o.burst_bits && b.rate_bps <= o.rate_bps);
    other.as_slice().iter().all(below)
}

/// What rounding the parameters of a specification may add to its bursts.
const ROUNDING_BITS: u64 = 16;

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
