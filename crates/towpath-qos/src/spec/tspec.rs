//! One type over all models.

use towpath_wire::{ByteSize, Rate};

use super::averaged::Averaged;
use super::buckets::Buckets;
use super::dbind::DBind;
use super::packets::Packets;
use super::peak_mean::PeakMean;
use super::schedule::Schedule;
use super::sigma_rho::SigmaRho;
use super::spaced::Spaced;
use super::token_bucket::TokenBucket;

/// What a channel may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TSpec {
    /// (Xmin, Smax).
    Spaced(Spaced),
    /// (Xmin, Xave, I, Smax).
    Averaged(Averaged),
    /// (σ, ρ).
    SigmaRho(SigmaRho),
    /// (r, b, p, m, M).
    TokenBucket(TokenBucket),
    /// Pairs of rate and interval.
    DBind(DBind),
    /// (peak, mean, mean burst).
    PeakMean(PeakMean),
    /// Points of time and cumulative amount.
    Schedule(Schedule),
}

impl TSpec {
    /// Most bits in any closed window: never understates.
    pub fn bits_in(&self, window_ns: u64) -> u128 {
        match self {
            Self::Spaced(spec) => spec.bits_in(window_ns),
            Self::Averaged(spec) => spec.bits_in(window_ns),
            Self::Schedule(spec) => spec.bits_in(window_ns),
            Self::SigmaRho(_) | Self::TokenBucket(_) | Self::DBind(_) | Self::PeakMean(_) => {
                self.buckets().bits_in(window_ns)
            }
        }
    }

    /// A concave set of token buckets, nowhere below `bits_in`.
    pub fn buckets(&self) -> Buckets {
        match self {
            Self::Spaced(spec) => spec.buckets(),
            Self::Averaged(spec) => spec.buckets(),
            Self::SigmaRho(spec) => spec.buckets(),
            Self::TokenBucket(spec) => spec.buckets(),
            Self::DBind(spec) => spec.buckets(),
            Self::PeakMean(spec) => spec.buckets(),
            Self::Schedule(spec) => spec.buckets(),
        }
    }

    /// The staircase of a model that counts packets, each of `bits`.
    pub fn packets(&self, bits: u64) -> Option<Packets> {
        match self {
            Self::Spaced(spec) => Some(Packets::of_spaced(*spec, bits)),
            Self::Averaged(spec) => Some(Packets::of_averaged(*spec, bits)),
            Self::SigmaRho(_)
            | Self::TokenBucket(_)
            | Self::DBind(_)
            | Self::PeakMean(_)
            | Self::Schedule(_) => None,
        }
    }

    /// The long-term rate, rounded up.
    pub fn sustained(&self) -> Rate {
        Rate::from_bps(self.buckets().sustained_bps())
    }

    /// The rate at which a burst comes; `None` where the model knows none and a burst comes at
    /// once.
    pub fn peak(&self) -> Option<Rate> {
        let fastest = || self.buckets().as_slice().first().map(|b| Rate::from_bps(b.rate_bps));
        match self {
            Self::SigmaRho(_) => None,
            Self::Schedule(spec) if spec.points.windows(2).any(|w| w[0].0 == w[1].0) => None,
            _ => fastest(),
        }
    }

    /// The largest packet that conforms.
    pub fn packet_max(&self) -> ByteSize {
        let bits = match self {
            Self::Spaced(spec) => spec.smax_bits,
            Self::Averaged(spec) => spec.smax_bits,
            Self::SigmaRho(spec) => spec.sigma_bits,
            Self::TokenBucket(spec) => spec.max_bits,
            Self::DBind(spec) => spec.corners[0].1,
            Self::PeakMean(spec) => spec.max_bits,
            Self::Schedule(spec) => spec.packet_bits,
        };
        ByteSize::from_bytes(bits / 8)
    }

    /// What a packet counts for at least. Models that count packets count each as the largest;
    /// models that count bits know a least size only for the token bucket (m); for the others the
    /// caller's `assumed` stands in, at most the largest packet.
    pub fn packet_counted(&self, assumed: ByteSize) -> ByteSize {
        match self {
            Self::Spaced(_) | Self::Averaged(_) => self.packet_max(),
            Self::TokenBucket(spec) => ByteSize::from_bytes(spec.min_bits / 8),
            Self::SigmaRho(_) | Self::DBind(_) | Self::PeakMean(_) | Self::Schedule(_) => {
                assumed.min(self.packet_max()).max(ByteSize::from_bytes(1))
            }
        }
    }
}
