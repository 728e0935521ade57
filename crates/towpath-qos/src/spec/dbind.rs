//! D-BIND: bounding rates over intervals (Knightly and Zhang 1997; Wrege et al. 1996).

use core::time::Duration;

use alloc::vec::Vec;

use towpath_wire::{ByteSize, Rate};

use super::buckets::{BUCKETS_MAX, Bucket, Buckets};
use super::limits::{self, NANO, SpecError};

/// Most pairs: each is one token bucket of the regulator.
pub const PAIRS_MAX: usize = BUCKETS_MAX;

/// Pairs (Rₖ, Iₖ): at most Rₖ·Iₖ bits in any window of length Iₖ.
///
/// Between the pairs the curve is straight; it starts with one packet at t = 0, since packets are
/// not fluid, and goes on with its last slope. It must be concave: only then do token buckets
/// police it exactly (`hull` makes any list concave).
/// Invariants: 1 to [`PAIRS_MAX`] corners after the first; intervals rise; slopes do not rise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DBind {
    /// (interval in ns, bits): the first is (0, largest packet).
    pub(super) corners: Vec<(u64, u64)>,
}

impl DBind {
    /// From pairs of rate and interval, intervals rising, and the largest packet.
    pub fn new(pairs: &[(Rate, Duration)], packet_max: ByteSize) -> Result<Self, SpecError> {
        let corners = Self::corners(pairs, packet_max)?;
        for (index, w) in corners.windows(3).enumerate() {
            if bends_up(w[0], w[1], w[2]) {
                return Err(SpecError::NotConcave { index });
            }
        }
        Ok(Self { corners })
    }

    /// As `new`, over the concave hull of the pairs: never below them.
    pub fn hull(pairs: &[(Rate, Duration)], packet_max: ByteSize) -> Result<Self, SpecError> {
        let mut hull: Vec<(u64, u64)> = Vec::with_capacity(pairs.len() + 1);
        for corner in Self::corners(pairs, packet_max)? {
            while let [.., a, b] = hull[..]
                && bends_up(a, b, corner)
            {
                hull.pop();
            }
            hull.push(corner);
        }
        Ok(Self { corners: hull })
    }

    fn corners(
        pairs: &[(Rate, Duration)],
        packet_max: ByteSize,
    ) -> Result<Vec<(u64, u64)>, SpecError> {
        if pairs.is_empty() || pairs.len() > PAIRS_MAX {
            let (what, count) = ("pairs", pairs.len());
            return Err(SpecError::Count { what, count, least: 1, most: PAIRS_MAX });
        }
        let packet_bits = limits::size("max_bytes", packet_max)?;
        let mut corners = Vec::with_capacity(pairs.len() + 1);
        corners.push((0, packet_bits));
        for (index, &(rate, interval)) in pairs.iter().enumerate() {
            let rate_bps = limits::rate("rate_bps", rate)?;
            let interval_ns = limits::interval("interval_ns", interval)?;
            let bits = (u128::from(rate_bps) * u128::from(interval_ns)).div_ceil(NANO);
            let limit = limits::SIZE_BITS_MAX;
            if bits > u128::from(limit) {
                let what = "rate times interval in bits";
                return Err(SpecError::TooLarge { what, value: bits, limit });
            }
            let (before_ns, before_bits) = corners[index];
            if interval_ns <= before_ns {
                let (what, value, before) = ("interval_ns", interval_ns, before_ns);
                return Err(SpecError::Order { what, index, value, before });
            }
            // A long-term rate of zero would let nothing through in the end.
            if bits as u64 <= before_bits {
                let (what, value, before) = ("rate times interval", bits as u64, before_bits);
                return Err(SpecError::Order { what, index, value, before });
            }
            corners.push((interval_ns, bits as u64));
        }
        Ok(corners)
    }

    /// A line through each two neighbouring corners, rounded up.
    pub(super) fn buckets(&self) -> Buckets {
        let mut lines = [Bucket::default(); PAIRS_MAX];
        for (line, w) in lines.iter_mut().zip(self.corners.windows(2)) {
            let ((from_ns, from), (to_ns, to)) = (w[0], w[1]);
            let rate_bps = limits::rate_of(to - from, to_ns - from_ns);
            // At `from`, the line must not lie below the corner; the rounded rate sees to `to`.
            let given = u128::from(rate_bps) * u128::from(from_ns) / NANO;
            let burst_bits = u128::from(from).saturating_sub(given) as u64;
            *line = Bucket { burst_bits, rate_bps };
        }
        Buckets::least(&lines[..self.corners.len() - 1])
    }
}

/// The slope after `b` is above the slope before it.
fn bends_up(a: (u64, u64), b: (u64, u64), c: (u64, u64)) -> bool {
    let (before, after) = ((b.0 - a.0, b.1 - a.1), (c.0 - b.0, c.1 - b.1));
    u128::from(after.1) * u128::from(before.0) > u128::from(before.1) * u128::from(after.0)
}
