//! Specifications as files and answers hold them: raw numbers with their units in the name.

use core::time::Duration;

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use towpath_wire::{ByteSize, Rate};

use super::limits::SpecError;
use super::tspec::TSpec;
use super::{Averaged, DBind, PeakMean, Schedule, SigmaRho, Spaced, TokenBucket};

/// A specification before it is checked; `TSpec::try_from` checks it.
///
/// ```
/// use towpath_qos::spec::{TSpec, TSpecForm};
/// let form = TSpecForm::SigmaRho { sigma_bytes: 1500, rho_bps: 1_000_000 };
/// let spec = TSpec::try_from(form).expect("valid");
/// assert_eq!(spec.bits_in(1_000_000), 12_000 + 1_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "each field is the model's own parameter with its unit")]
pub enum TSpecForm {
    /// (Xmin, Smax).
    Spaced { xmin_ns: u64, smax_bytes: u64 },
    /// (Xmin, Xave, I, Smax).
    Averaged { xmin_ns: u64, xave_ns: u64, interval_ns: u64, smax_bytes: u64 },
    /// (σ, ρ).
    SigmaRho { sigma_bytes: u64, rho_bps: u64 },
    /// (r, b, p, m, M).
    TokenBucket { rate_bps: u64, burst_bytes: u64, peak_bps: u64, min_bytes: u64, max_bytes: u64 },
    /// Pairs of rate in bit/s and interval in ns.
    DBind {
        #[serde(deserialize_with = "crate::file::pairs")]
        pairs: Vec<(u64, u64)>,
        max_bytes: u64,
    },
    /// (peak, mean, mean burst).
    PeakMean { peak_bps: u64, mean_bps: u64, burst_bytes: u64, max_bytes: u64 },
    /// Points of time in ns and cumulative bytes.
    Schedule {
        #[serde(deserialize_with = "crate::file::pairs")]
        points: Vec<(u64, u64)>,
        max_bytes: u64,
    },
}

impl TryFrom<TSpecForm> for TSpec {
    type Error = SpecError;

    fn try_from(form: TSpecForm) -> Result<Self, SpecError> {
        let (ns, bytes, bps) = (Duration::from_nanos, ByteSize::from_bytes, Rate::from_bps);
        Ok(match form {
            TSpecForm::Spaced { xmin_ns, smax_bytes } => {
                Self::Spaced(Spaced::new(ns(xmin_ns), bytes(smax_bytes))?)
            }
            TSpecForm::Averaged { xmin_ns, xave_ns, interval_ns, smax_bytes } => Self::Averaged(
                Averaged::new(ns(xmin_ns), ns(xave_ns), ns(interval_ns), bytes(smax_bytes))?,
            ),
            TSpecForm::SigmaRho { sigma_bytes, rho_bps } => {
                Self::SigmaRho(SigmaRho::new(bytes(sigma_bytes), bps(rho_bps))?)
            }
            TSpecForm::TokenBucket { rate_bps, burst_bytes, peak_bps, min_bytes, max_bytes } => {
                Self::TokenBucket(TokenBucket::new(
                    bps(rate_bps),
                    bytes(burst_bytes),
                    bps(peak_bps),
                    bytes(min_bytes),
                    bytes(max_bytes),
                )?)
            }
            TSpecForm::DBind { pairs, max_bytes } => {
                let pairs: Vec<_> = pairs.into_iter().map(|(r, i)| (bps(r), ns(i))).collect();
                Self::DBind(DBind::new(&pairs, bytes(max_bytes))?)
            }
            TSpecForm::PeakMean { peak_bps, mean_bps, burst_bytes, max_bytes } => Self::PeakMean(
                PeakMean::new(bps(peak_bps), bps(mean_bps), bytes(burst_bytes), bytes(max_bytes))?,
            ),
            TSpecForm::Schedule { points, max_bytes } => {
                let points: Vec<_> = points.into_iter().map(|(t, b)| (ns(t), bytes(b))).collect();
                Self::Schedule(Schedule::new(&points, bytes(max_bytes))?)
            }
        })
    }
}

impl From<&TSpec> for TSpecForm {
    fn from(spec: &TSpec) -> Self {
        match spec {
            TSpec::Spaced(s) => Self::Spaced { xmin_ns: s.xmin_ns, smax_bytes: s.smax_bits / 8 },
            TSpec::Averaged(s) => Self::Averaged {
                xmin_ns: s.xmin_ns,
                xave_ns: s.xave_ns,
                interval_ns: s.interval_ns,
                smax_bytes: s.smax_bits / 8,
            },
            TSpec::SigmaRho(s) => {
                Self::SigmaRho { sigma_bytes: s.sigma_bits / 8, rho_bps: s.rho_bps }
            }
            TSpec::TokenBucket(s) => Self::TokenBucket {
                rate_bps: s.rate_bps,
                burst_bytes: s.burst_bits / 8,
                peak_bps: s.peak_bps,
                min_bytes: s.min_bits / 8,
                max_bytes: s.max_bits / 8,
            },
            TSpec::DBind(s) => Self::DBind {
                // Rounding the rate up never falls below the corner.
                pairs: s.corners[1..]
                    .iter()
                    .map(|&(ns, bits)| (super::limits::rate_of(bits, ns), ns))
                    .collect(),
                max_bytes: s.corners[0].1 / 8,
            },
            TSpec::PeakMean(s) => Self::PeakMean {
                peak_bps: s.peak_bps,
                mean_bps: s.mean_bps,
                burst_bytes: s.burst_bits / 8,
                max_bytes: s.max_bits / 8,
            },
            TSpec::Schedule(s) => Self::Schedule {
                points: s.points.iter().map(|&(ns, bits)| (ns, bits / 8)).collect(),
                max_bytes: s.packet_bits / 8,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    fn refusal(form: TSpecForm) -> std::string::String {
        TSpec::try_from(form).expect_err("contradictory").to_string()
    }

    #[test]
    fn contradictions_name_both_values() {
        let bucket = |rate_bps, burst_bytes, peak_bps, min_bytes, max_bytes| {
            TSpecForm::TokenBucket { rate_bps, burst_bytes, peak_bps, min_bytes, max_bytes }
        };
        assert_eq!(
            refusal(bucket(10, 9, 5, 1, 2)),
            "peak_bps is 5, must be at least rate_bps = 10"
        );
        assert_eq!(
            refusal(bucket(10, 9, 20, 1, 10)),
            "burst_bytes is 9, must be at least max_bytes = 10"
        );
        assert_eq!(
            refusal(bucket(10, 9, 20, 3, 2)),
            "max_bytes is 2, must be at least min_bytes = 3"
        );
        assert_eq!(refusal(bucket(0, 9, 20, 3, 4)), "rate_bps is zero");
        assert_eq!(
            refusal(TSpecForm::SigmaRho { sigma_bytes: u64::MAX, rho_bps: 1 }),
            "sigma_bytes is 18446744073709551615, must be at most 140737488355328"
        );
        assert_eq!(
            refusal(TSpecForm::Averaged { xmin_ns: 9, xave_ns: 8, interval_ns: 10, smax_bytes: 1 }),
            "xave_ns is 8, must be at least xmin_ns = 9"
        );
        assert_eq!(
            refusal(TSpecForm::DBind {
                pairs: std::vec![(8_000, 1_000_000), (8_000, 1_000_000)],
                max_bytes: 1
            }),
            "rate times interval of entry 0 is 8, out of order after 8"
        );
        assert_eq!(
            refusal(TSpecForm::Schedule { points: std::vec![(0, 9), (1, 8)], max_bytes: 1 }),
            "cumulative bytes of entry 1 is 8, out of order after 9"
        );
    }

    fn any_form() -> impl Strategy<Value = TSpecForm> {
        let n = || prop_oneof![any::<u64>(), 0u64..4, 0u64..1_000_000_000];
        prop_oneof![
            (n(), n()).prop_map(|(xmin_ns, smax_bytes)| TSpecForm::Spaced { xmin_ns, smax_bytes }),
            (n(), n(), n(), n()).prop_map(|(xmin_ns, xave_ns, interval_ns, smax_bytes)| {
                TSpecForm::Averaged { xmin_ns, xave_ns, interval_ns, smax_bytes }
            }),
            (n(), n())
                .prop_map(|(sigma_bytes, rho_bps)| TSpecForm::SigmaRho { sigma_bytes, rho_bps }),
            (n(), n(), n(), n(), n()).prop_map(
                |(rate_bps, burst_bytes, peak_bps, min_bytes, max_bytes)| TSpecForm::TokenBucket {
                    rate_bps,
                    burst_bytes,
                    peak_bps,
                    min_bytes,
                    max_bytes
                }
            ),
            (proptest::collection::vec((n(), n()), 0..10), n())
                .prop_map(|(pairs, max_bytes)| TSpecForm::DBind { pairs, max_bytes }),
            (n(), n(), n(), n()).prop_map(|(peak_bps, mean_bps, burst_bytes, max_bytes)| {
                TSpecForm::PeakMean { peak_bps, mean_bps, burst_bytes, max_bytes }
            }),
            (proptest::collection::vec((n(), n()), 0..6), n())
                .prop_map(|(points, max_bytes)| TSpecForm::Schedule { points, max_bytes }),
        ]
    }

    proptest! {
        #[test]
        fn absurd_values_give_an_error_or_a_sound_specification(form in any_form(), window: u64) {
            if let Ok(spec) = TSpec::try_from(form) {
                prop_assert!(spec.buckets().bits_in(window) >= spec.bits_in(window));
                prop_assert!(spec.sustained().as_bps() > 0);
                let again = TSpec::try_from(TSpecForm::from(&spec)).expect("still valid");
                prop_assert!(again.bits_in(window) >= spec.bits_in(window));
            }
        }
    }
}
