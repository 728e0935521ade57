//! (Xmin, Xave, I, Smax): the Tenet suite's model (Ferrari and Verma 1989).

use core::time::Duration;

use towpath_wire::ByteSize;

use super::buckets::{Bucket, Buckets};
use super::limits::{self, SpecError};

/// Most packets within one averaging interval: what a regulator remembers.
pub const PACKETS_MAX: u64 = 65_536;

/// Packets of at most Smax, at least Xmin apart, and at most `n = ⌊I/Xave⌋` in any half-open
/// window of length I.
///
/// `A(t) = Smax·(⌊t/I⌋·n + min(⌊(t mod I)/Xmin⌋ + 1, n))`; peak `Smax/Xmin`, sustained
/// `n·Smax/I`. Invariants: Xmin ≤ Xave ≤ I; n·Xmin ≤ I; 1 ≤ n ≤ [`PACKETS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Averaged {
    pub(super) xmin_ns: u64,
    pub(super) xave_ns: u64,
    pub(super) interval_ns: u64,
    pub(super) smax_bits: u64,
}

impl Averaged {
    /// From least and average distance, the interval of the average, and the largest packet.
    pub fn new(
        xmin: Duration,
        xave: Duration,
        interval: Duration,
        smax: ByteSize,
    ) -> Result<Self, SpecError> {
        let xmin_ns = limits::interval("xmin_ns", xmin)?;
        let xave_ns = limits::interval("xave_ns", xave)?;
        let interval_ns = limits::interval("interval_ns", interval)?;
        let smax_bits = limits::size("smax_bytes", smax)?;
        limits::ratio("smax/xmin in bit/s", smax_bits, xmin_ns)?;
        limits::at_least(("xave_ns", xave_ns), ("xmin_ns", xmin_ns))?;
        limits::at_least(("interval_ns", interval_ns), ("xave_ns", xave_ns))?;
        let packets = interval_ns / xave_ns;
        if packets > PACKETS_MAX {
            let what = "interval_ns/xave_ns";
            return Err(SpecError::TooLarge { what, value: packets.into(), limit: PACKETS_MAX });
        }
        Ok(Self { xmin_ns, xave_ns, interval_ns, smax_bits })
    }

    /// Packets in any half-open window of length I.
    pub const fn packets(&self) -> u64 {
        self.interval_ns / self.xave_ns
    }

    pub(super) fn bits_in(self, window_ns: u64) -> u128 {
        let n = self.packets();
        let whole = u128::from(window_ns / self.interval_ns) * u128::from(n);
        let rest = (window_ns % self.interval_ns / self.xmin_ns + 1).min(n);
        u128::from(self.smax_bits) * (whole + u128::from(rest))
    }

    /// The peak line, and the sustained line through the last packet of the first interval.
    pub(super) fn buckets(self) -> Buckets {
        let n = self.packets();
        let peak = limits::rate_of(self.smax_bits, self.xmin_ns);
        let all = u128::from(n) * u128::from(self.smax_bits);
        let sustained = (all * limits::NANO).div_ceil(u128::from(self.interval_ns));
        let sustained = u64::try_from(sustained).unwrap_or(u64::MAX);
        // The curve touches the sustained line at (n−1)·Xmin, with n packets.
        let given = u128::from(sustained) * u128::from((n - 1) * self.xmin_ns) / limits::NANO;
        let burst = u64::try_from(all.saturating_sub(given)).unwrap_or(u64::MAX);
        Buckets::least(&[
            Bucket { burst_bits: self.smax_bits, rate_bps: peak },
            Bucket { burst_bits: burst.max(self.smax_bits), rate_bps: sustained },
        ])
    }
}
