//! (peak, mean, mean burst): how sources are described to users.

use towpath_wire::{ByteSize, Rate};

use super::buckets::{Bucket, Buckets};
use super::limits::{self, SpecError};

/// A source that sends bursts of at most `burst` bits at the peak rate, and the mean rate over
/// all.
///
/// A mean alone bounds nothing, so the burst is enforced: a longer one is spread by the
/// regulator. A burst of B at peak p lasts B/p, in which r·B/p tokens come in, so that
/// `A(t) = min(M + p·t, M + B·(1 − r/p) + r·t)`, M the largest packet.
/// Invariants: mean ≤ peak, M ≤ B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeakMean {
    pub(super) peak_bps: u64,
    pub(super) mean_bps: u64,
    pub(super) burst_bits: u64,
    pub(super) max_bits: u64,
}

impl PeakMean {
    /// From peak and mean rate, burst, and largest packet.
    pub fn new(
        peak: Rate,
        mean: Rate,
        burst: ByteSize,
        packet_max: ByteSize,
    ) -> Result<Self, SpecError> {
        let spec = Self {
            peak_bps: limits::rate("peak_bps", peak)?,
            mean_bps: limits::rate("mean_bps", mean)?,
            burst_bits: limits::size("burst_bytes", burst)?,
            max_bits: limits::size("max_bytes", packet_max)?,
        };
        limits::at_least(("peak_bps", spec.peak_bps), ("mean_bps", spec.mean_bps))?;
        limits::at_least(("burst_bytes", spec.burst_bits / 8), ("max_bytes", spec.max_bits / 8))?;
        Ok(spec)
    }

    pub(super) fn buckets(self) -> Buckets {
        let over = u128::from(self.peak_bps - self.mean_bps) * u128::from(self.burst_bits);
        let over = over.div_ceil(u128::from(self.peak_bps)) as u64;
        Buckets::least(&[
            Bucket { burst_bits: self.max_bits, rate_bps: self.peak_bps },
            Bucket { burst_bits: self.max_bits + over, rate_bps: self.mean_bps },
        ])
    }
}
