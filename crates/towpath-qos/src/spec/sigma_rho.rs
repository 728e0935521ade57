//! (σ, ρ): burst and rate (Cruz 1991).

use towpath_wire::{ByteSize, Rate};

use super::buckets::{Bucket, Buckets};
use super::limits::{self, SpecError};

/// At most `σ + ρ·t` bits in any window of length t. A packet may be as large as σ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigmaRho {
    pub(super) sigma_bits: u64,
    pub(super) rho_bps: u64,
}

impl SigmaRho {
    /// From the largest burst and the long-term rate.
    pub fn new(sigma: ByteSize, rho: Rate) -> Result<Self, SpecError> {
        Ok(Self {
            sigma_bits: limits::size("sigma_bytes", sigma)?,
            rho_bps: limits::rate("rho_bps", rho)?,
        })
    }

    pub(super) fn buckets(self) -> Buckets {
        Buckets::one(Bucket { burst_bits: self.sigma_bits, rate_bps: self.rho_bps })
    }
}
