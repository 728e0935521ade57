//! Less traffic of a kind, in the numbers of its own model.

use alloc::vec::Vec;

use towpath_wire::ByteSize;

use super::buckets::{Bucket, Buckets};
use super::form::TSpecForm;
use super::limits::{NANO, SpecError};
use super::tspec::TSpec;

/// What a share is lowered by first where whole numbers make it more than the whole: a part in so
/// many of it.
const FINER: u64 = 64;

/// A share `parts`/`whole` of a number, rounded down, but one at the least.
fn less(n: u64, (parts, whole): (u64, u64)) -> u64 {
    let part = u128::from(n) * u128::from(parts) / u128::from(whole.max(1));
    (part as u64).max(1)
}

/// An interval of which `parts`/`whole` is `ns`, rounded up; saturates.
fn longer(ns: u64, (parts, whole): (u64, u64)) -> u64 {
    let ns = (u128::from(ns) * u128::from(whole)).div_ceil(u128::from(parts.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Whether more may come by `some` than by `all` in any window.
fn exceeds(some: &Buckets, all: &Buckets) -> bool {
    let at = |buckets: &Buckets, ns| {
        let line = |bucket: &Bucket| bucket.nanobits_in(ns);
        buckets.as_slice().iter().map(line).min().unwrap_or(0)
    };
    // Against each line of `all` a concave curve goes highest at a corner of its own.
    let corner = |(a, b): (&Bucket, &Bucket)| {
        let (rise, fall) = (b.burst_bits - a.burst_bits, a.rate_bps - b.rate_bps);
        u64::try_from(u128::from(rise) * NANO / u128::from(fall)).unwrap_or(u64::MAX)
    };
    let lines = some.as_slice();
    let corners = lines.iter().zip(lines.iter().skip(1)).map(corner);
    let mut ends = corners.chain([0]).flat_map(|ns| [ns, ns.saturating_add(1)]);
    some.sustained_bps() > all.sustained_bps() || ends.any(|ns| at(some, ns) > at(all, ns))
}

impl TSpec {
    /// `parts`/`whole` of all rates and bursts, every number rounded down; packets as they are and
    /// no burst below one. Where bursts are any number of packets (σ, ρ), a packet is at most
    /// `frame`. Models that count packets let as many come in intervals that are longer by as much.
    ///
    /// What is given is a specification: `TSpec::try_from` takes it.
    ///
    /// Errors: what is left is none, such as a schedule of which nothing is left.
    ///
    /// ```
    /// use towpath_qos::spec::{TSpec, TSpecForm};
    /// use towpath_wire::ByteSize;
    /// let form = TSpecForm::SigmaRho { sigma_bytes: 6000, rho_bps: 1_000_000 };
    /// let spec = TSpec::try_from(form).expect("valid");
    /// let half = spec.share((512, 1024), ByteSize::from_bytes(1400));
    /// assert_eq!(half, Ok(TSpecForm::SigmaRho { sigma_bytes: 3000, rho_bps: 500_000 }));
    /// ```
    pub fn share(&self, share: (u32, u32), frame: ByteSize) -> Result<TSpecForm, SpecError> {
        let share = (u64::from(share.0), u64::from(share.1));
        let less = |n| less(n, share);
        let frame = frame.as_bytes();
        let form = match TSpecForm::from(self) {
            TSpecForm::Spaced { xmin_ns, smax_bytes } => {
                TSpecForm::Spaced { xmin_ns: longer(xmin_ns, share), smax_bytes }
            }
            TSpecForm::Averaged { xmin_ns, xave_ns, interval_ns, smax_bytes } => {
                let packets = interval_ns / xave_ns;
                let xmin_ns = longer(xmin_ns, share);
                // A multiple of the average distance: as many packets as there were.
                let xave_ns = longer(interval_ns, share).div_ceil(packets).max(xmin_ns);
                let interval_ns = xave_ns.saturating_mul(packets);
                TSpecForm::Averaged { xmin_ns, xave_ns, interval_ns, smax_bytes }
            }
            TSpecForm::SigmaRho { sigma_bytes, rho_bps } => TSpecForm::SigmaRho {
                sigma_bytes: less(sigma_bytes).max(sigma_bytes.min(frame)),
                rho_bps: less(rho_bps),
            },
            TSpecForm::TokenBucket { rate_bps, burst_bytes, peak_bps, min_bytes, max_bytes } => {
                TSpecForm::TokenBucket {
                    rate_bps: less(rate_bps),
                    burst_bytes: less(burst_bytes).max(max_bytes),
                    peak_bps: less(peak_bps),
                    min_bytes,
                    max_bytes,
                }
            }
            TSpecForm::PeakMean { peak_bps, mean_bps, burst_bytes, max_bytes } => {
                TSpecForm::PeakMean {
                    peak_bps: less(peak_bps),
                    mean_bps: less(mean_bps),
                    burst_bytes: less(burst_bytes).max(max_bytes),
                    max_bytes,
                }
            }
            TSpecForm::DBind { pairs, max_bytes } => {
                return self.less_corners(&pairs, share, max_bytes);
            }
            TSpecForm::Schedule { points, max_bytes } => {
                let less = |bytes: u64| u128::from(bytes) * u128::from(share.0);
                let point =
                    |(at_ns, bytes)| (at_ns, (less(bytes) / u128::from(share.1.max(1))) as u64);
                TSpecForm::Schedule { points: points.into_iter().map(point).collect(), max_bytes }
            }
        };
        Self::try_from(form.clone()).map(|_| form)
    }

    /// [`less_pairs`](Self::less_pairs), of as much less as it takes for whole bits and bits per
    /// second not to be more than the whole is.
    fn less_corners(
        &self,
        pairs: &[(u64, u64)],
        (parts, whole): (u64, u64),
        max_bytes: u64,
    ) -> Result<TSpecForm, SpecError> {
        let (fine, of) = (parts * FINER, whole * FINER);
        for step in 0..u64::BITS {
            let Some(parts) = fine.checked_sub((1 << step) - 1).filter(|parts| *parts > 0) else {
                break;
            };
            let form = self.less_pairs(pairs, (parts, of), max_bytes)?;
            if !exceeds(&Self::try_from(form.clone())?.buckets(), &self.buckets()) {
                return Ok(form);
            }
        }
        Err(SpecError::Zero { what: "the share, in whole bits per second," })
    }

    /// The rates that lines of less rate and burst, but no burst below a packet, leave at the
    /// intervals of `pairs`. Between them the curve is straight, so nowhere above the lines; what
    /// rounding bends upwards is left out.
    fn less_pairs(
        &self,
        pairs: &[(u64, u64)],
        share: (u64, u64),
        max_bytes: u64,
    ) -> Result<TSpecForm, SpecError> {
        let buckets = self.buckets();
        let nanobits_in = |at_ns: u64| {
            let line = |b: &Bucket| {
                let burst_bits = less(b.burst_bits, share).max(max_bytes * 8);
                Bucket { burst_bits, rate_bps: less(b.rate_bps, share) }.nanobits_in(at_ns)
            };
            buckets.as_slice().iter().map(line).min().unwrap_or(0)
        };
        let rate = |at_ns: u64| (nanobits_in(at_ns) / u128::from(at_ns.max(1))) as u64;
        let mut pairs: Vec<_> = pairs.iter().map(|&(_, at_ns)| (rate(at_ns), at_ns)).collect();
        loop {
            let form = TSpecForm::DBind { pairs: pairs.clone(), max_bytes };
            match Self::try_from(form.clone()) {
                Err(SpecError::NotConcave { index } | SpecError::Order { index, .. }) => {
                    pairs.remove(index);
                }
                done => return done.map(|_| form),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(n: u64) -> ByteSize {
        ByteSize::from_bytes(n)
    }

    fn shared(form: TSpecForm, parts: u32) -> TSpecForm {
        let spec = TSpec::try_from(form).expect("valid");
        spec.share((parts, 1024), bytes(1400)).expect("some is left")
    }

    #[test]
    fn packets_stay_and_rates_and_bursts_fall() {
        let bucket = |rate_bps, burst_bytes, peak_bps| TSpecForm::TokenBucket {
            rate_bps,
            burst_bytes,
            peak_bps,
            min_bytes: 64,
            max_bytes: 1000,
        };
        assert_eq!(shared(bucket(4095, 8000, 9000), 256), bucket(1023, 2000, 2250));
        assert_eq!(shared(bucket(4095, 3000, 9000), 256), bucket(1023, 1000, 2250));
        let spaced = |xmin_ns| TSpecForm::Spaced { xmin_ns, smax_bytes: 9 };
        assert_eq!(shared(spaced(1000), 768), spaced(1334));
        let sigma = |sigma_bytes| TSpecForm::SigmaRho { sigma_bytes, rho_bps: 1 };
        assert_eq!(shared(sigma(9000), 1), sigma(1400));
        assert_eq!(shared(sigma(90), 1), sigma(90));
    }

    #[test]
    fn as_many_packets_come_in_a_longer_interval() {
        let averaged = |xmin_ns, xave_ns, interval_ns| TSpecForm::Averaged {
            xmin_ns,
            xave_ns,
            interval_ns,
            smax_bytes: 9,
        };
        // Four packets in 11 000 ns: four in 22 000 and what a multiple of the average takes.
        assert_eq!(shared(averaged(2000, 2500, 11_000), 512), averaged(4000, 5500, 22_000));
        assert_eq!(shared(averaged(2, 2, 11), 512), averaged(4, 5, 25));
    }

    #[test]
    fn bounding_rates_keep_their_intervals_and_a_schedule_its_times() {
        let pairs = |pairs: &[(u64, u64)]| TSpecForm::DBind { pairs: pairs.into(), max_bytes: 125 };
        let (ms, half) = (1_000_000, 512);
        // 1000 bits at once, 4000 within 1 ms, 6000 within 2: lines of 3 and 2 Mbit/s, of which
        // half the burst of the second, 2000 bits, is the packet.
        let whole = pairs(&[(4_000_000, ms), (3_000_000, 2 * ms)]);
        assert_eq!(shared(whole, half), pairs(&[(2_000_000, ms), (1_500_000, 2 * ms)]));
        let points =
            |points: &[(u64, u64)]| TSpecForm::Schedule { points: points.into(), max_bytes: 10 };
        let whole = points(&[(0, 0), (5, 101), (9, 200)]);
        assert_eq!(shared(whole, half), points(&[(0, 0), (5, 50), (9, 100)]));
    }

    #[test]
    fn a_share_of_nothing_is_none() {
        let form = TSpecForm::Schedule { points: std::vec![(0, 0), (5, 3)], max_bytes: 10 };
        let spec = TSpec::try_from(form).expect("valid");
        assert!(matches!(spec.share((1, 1024), bytes(1)), Err(SpecError::Zero { .. })));
    }

    proptest! {
        /// Never more than the whole, in any window.
        #[test]
        fn a_share_is_never_more(
            falls in proptest::collection::vec(1u64..50, 1..8), max in 64u64..4000,
            rate in 20_000u64..40_000_000, parts in 1u32..1024, window in 0u64..1 << 40,
        ) {
            let (mut sum, mut at, mut slope) = (max * 8, 0, rate);
            let mut pairs = Vec::new();
            for fall in falls {
                let next = (at + 1_000_000) * 2;
                sum += slope * (next - at) / 1_000_000_000 + 1;
                (at, slope) = (next, slope * fall / 50 + 1);
                pairs.push((sum * 1_000_000_000 / at, at));
            }
            let form = TSpecForm::DBind { pairs, max_bytes: max };
            prop_assume!(TSpec::try_from(form.clone()).is_ok());
            let spec = TSpec::try_from(form).expect("valid");
            let share = spec.share((parts, 1024), bytes(1400));
            // It is refused only where whole bits a second are too coarse.
            let is_coarse = spec.buckets().sustained_bps() * u64::from(parts) < 1024 * 1000;
            prop_assert!(share.is_ok() || is_coarse, "{share:?}");
            if let Ok(share) = share {
                let share = TSpec::try_from(share).expect("a specification");
                prop_assert!(share.bits_in(window) <= spec.bits_in(window));
                prop_assert_eq!(share.packet_max(), spec.packet_max());
            }
        }
    }
}
