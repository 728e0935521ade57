//! The token bucket (r, b, p, m, M) of RFC 2210 and RFC 2215.

use towpath_wire::{ByteSize, Rate};

use super::buckets::{Bucket, Buckets};
use super::limits::{self, SpecError};

/// `A(t) = min(M + p·t, b + r·t)`. A packet smaller than m counts as m; one larger than M does
/// not conform. Invariants: r ≤ p, m ≤ M ≤ b.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    pub(super) rate_bps: u64,
    pub(super) burst_bits: u64,
    pub(super) peak_bps: u64,
    pub(super) min_bits: u64,
    pub(super) max_bits: u64,
}

impl TokenBucket {
    /// From sustained rate r, depth b, peak rate p, least policed unit m, largest packet M.
    pub fn new(
        rate: Rate,
        burst: ByteSize,
        peak: Rate,
        min: ByteSize,
        max: ByteSize,
    ) -> Result<Self, SpecError> {
        let bucket = Self {
            rate_bps: limits::rate("rate_bps", rate)?,
            burst_bits: limits::size("burst_bytes", burst)?,
            peak_bps: limits::rate("peak_bps", peak)?,
            min_bits: limits::size("min_bytes", min)?,
            max_bits: limits::size("max_bytes", max)?,
        };
        limits::at_least(("peak_bps", bucket.peak_bps), ("rate_bps", bucket.rate_bps))?;
        let [burst, max, min] =
            [bucket.burst_bits, bucket.max_bits, bucket.min_bits].map(|b| b / 8);
        limits::at_least(("burst_bytes", burst), ("max_bytes", max))?;
        limits::at_least(("max_bytes", max), ("min_bytes", min))?;
        Ok(bucket)
    }

    pub(super) fn buckets(self) -> Buckets {
        Buckets::least(&[
            Bucket { burst_bits: self.max_bits, rate_bps: self.peak_bps },
            Bucket { burst_bits: self.burst_bits, rate_bps: self.rate_bps },
        ])
    }
}
