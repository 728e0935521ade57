//! (Xmin, Smax): packets at least Xmin apart (Golestani 1990).

use core::time::Duration;

use towpath_wire::ByteSize;

use super::buckets::{Bucket, Buckets};
use super::limits::{self, SpecError};

/// Packets of at most Smax, at least Xmin apart.
///
/// `A(t) = Smax·(⌊t/Xmin⌋ + 1)`; peak and sustained rate are `Smax/Xmin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spaced {
    pub(super) xmin_ns: u64,
    pub(super) smax_bits: u64,
}

impl Spaced {
    /// From the least distance of two packets and the largest packet.
    pub fn new(xmin: Duration, smax: ByteSize) -> Result<Self, SpecError> {
        let xmin_ns = limits::interval("xmin_ns", xmin)?;
        let smax_bits = limits::size("smax_bytes", smax)?;
        limits::ratio("smax/xmin in bit/s", smax_bits, xmin_ns)?;
        Ok(Self { xmin_ns, smax_bits })
    }

    pub(super) fn bits_in(self, window_ns: u64) -> u128 {
        u128::from(self.smax_bits) * (u128::from(window_ns / self.xmin_ns) + 1)
    }

    pub(super) fn buckets(self) -> Buckets {
        let rate_bps = limits::rate_of(self.smax_bits, self.xmin_ns);
        Buckets::one(Bucket { burst_bits: self.smax_bits, rate_bps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::TSpec;

    /// 2⁵⁰ bits a second is the limit; beyond it no bucket could hold the rate.
    #[test]
    fn a_rate_beyond_any_link_is_no_specification() {
        let of = |ns, bytes| Spaced::new(Duration::from_nanos(ns), ByteSize::from_bytes(bytes));
        let spec = of(1, 140_737).expect("just below 2⁵⁰ bit/s");
        assert!(TSpec::Spaced(spec).buckets().bits_in(1000) >= spec.bits_in(1000));
        assert_eq!(
            of(1, 140_738),
            Err(SpecError::TooLarge {
                what: "smax/xmin in bit/s",
                value: 1_125_904_000_000_000,
                limit: limits::RATE_BPS_MAX,
            })
        );
        assert!(of(1, 0x7bbd_a4ce_ee81).is_err(), "found by fuzzing");
    }
}
