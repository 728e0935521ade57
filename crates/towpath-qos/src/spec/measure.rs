//! The tightest specification of each kind for packets that were seen.

use core::time::Duration;

use alloc::vec::Vec;

use towpath_wire::units::nanos;
use towpath_wire::{ByteSize, Instant, Rate};

use super::buckets::{Bucket, Buckets};
use super::limits::{self, NANO, SpecError};
use super::tspec::TSpec;
use super::{Averaged, DBind, PeakMean, SigmaRho, Spaced, TokenBucket, averaged, dbind};

/// Most packets of a measurement.
pub const PACKETS_MAX: usize = 1 << 24;

/// One packet: when, how large.
pub type Sample = (Instant, ByteSize);

/// What a trace's specifications are measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    /// I of (Xmin, Xave, I, Smax).
    pub interval: Duration,
    /// Long-term rate of (σ, ρ) and r of the token bucket, in parts per million of the mean
    /// rate; at least 10⁶.
    pub rate_ppm: u32,
}

impl Default for Knobs {
    /// One second; 5 % above the mean, since at the mean a burst never ends.
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), rate_ppm: 1_050_000 }
    }
}

/// The tightest specification of each kind: one bit, or one nanosecond, less and some packet of
/// the trace does not conform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Packets seen.
    pub packets: usize,
    /// Bits over the time from the first packet to the last.
    pub mean: Rate,
    /// (Xmin, Smax); `None` where two packets came at one instant.
    pub spaced: Option<TSpec>,
    /// (Xmin, Xave, I, Smax); `None` as above, or with more packets in an interval than a
    /// regulator remembers.
    pub averaged: Option<TSpec>,
    /// (σ, ρ) at the chosen rate.
    pub sigma_rho: TSpec,
    /// (r, b, p, m, M) at the chosen rate; p is the least with which M at once suffices, `None`
    /// where packets came at one instant that exceed M together.
    pub token_bucket: Option<TSpec>,
    /// Tangents to the trace's own curve, taken over intervals from 1 ms up by powers of four.
    pub dbind: TSpec,
    /// (peak, mean, mean burst), peak as of the token bucket.
    pub peak_mean: Option<TSpec>,
}

/// Measures packets in the order of their times.
///
/// Errors: fewer than two packets or more than [`PACKETS_MAX`]; times that fall; no time between
/// first and last; sizes beyond the limits of a specification.
pub fn measure(samples: &[Sample], knobs: Knobs) -> Result<Measured, SpecError> {
    let trace = Trace::new(samples)?;
    let mean_bps = limits::rate_of(trace.total, trace.length_ns()).max(1);
    let rate = u128::from(mean_bps) * u128::from(knobs.rate_ppm.max(1_000_000));
    let rate_bps = (rate.div_ceil(1_000_000)).min(limits::RATE_BPS_MAX.into()) as u64;
    let rate = Rate::from_bps(rate_bps);
    let sigma = trace.sigma(rate_bps);
    let (smax, xmin) = (bytes(trace.largest), Duration::from_nanos(trace.least_gap()));
    let peak = trace.peak_bps().map(|peak| Rate::from_bps(peak.max(rate_bps)));
    let burst = bytes(sigma);
    let buckets = |peak| TokenBucket::new(rate, burst, peak, bytes(trace.smallest), smax);
    let token_bucket = peak.map(buckets).transpose()?.map(TSpec::TokenBucket);
    let peak_mean = peak
        .map(|peak| PeakMean::new(peak, rate, trace.peak_burst(sigma, rate_bps, peak), smax))
        .transpose()?
        .map(TSpec::PeakMean);
    Ok(Measured {
        packets: samples.len(),
        mean: Rate::from_bps(mean_bps),
        spaced: Spaced::new(xmin, smax).ok().map(TSpec::Spaced),
        averaged: trace.averaged(xmin, knobs.interval).map(TSpec::Averaged),
        sigma_rho: TSpec::SigmaRho(SigmaRho::new(burst, rate)?),
        token_bucket,
        dbind: TSpec::DBind(trace.dbind(rate_bps)?),
        peak_mean,
    })
}

/// Whole bytes that hold `bits`.
const fn bytes(bits: u64) -> ByteSize {
    ByteSize::from_bytes(bits.div_ceil(8))
}

/// Times and bits. Invariants: at least two packets, times do not fall, the last is above the
/// first.
struct Trace {
    packets: Vec<(u64, u64)>,
    total: u64,
    largest: u64,
    smallest: u64,
}

impl Trace {
    fn new(samples: &[Sample]) -> Result<Self, SpecError> {
        if samples.len() < 2 || samples.len() > PACKETS_MAX {
            let (what, count) = ("packets", samples.len());
            return Err(SpecError::Count { what, count, least: 2, most: PACKETS_MAX });
        }
        let start = samples[0].0.as_nanos();
        let mut packets = Vec::with_capacity(samples.len());
        let (mut total, mut before) = (0_u128, 0);
        for (index, &(at, size)) in samples.iter().enumerate() {
            let Some(at_ns) = at.as_nanos().checked_sub(start).filter(|&at| at >= before) else {
                let (what, value) = ("time_ns", at.as_nanos());
                return Err(SpecError::Order { what, index, value, before: before + start });
            };
            let bits = limits::size("packet in bytes", size)?;
            total += u128::from(bits);
            packets.push((at_ns, bits));
            before = at_ns;
        }
        for (what, value, limit) in [
            ("trace in ns", u128::from(before), limits::INTERVAL_NS_MAX),
            ("trace in bytes", total / 8, limits::SIZE_BITS_MAX / 8),
        ] {
            if value > u128::from(limit) {
                return Err(SpecError::TooLarge { what, value, limit });
            }
        }
        if before == 0 {
            return Err(SpecError::Zero { what: "time between the first packet and the last" });
        }
        let largest = packets.iter().map(|p| p.1).max().unwrap_or(0);
        let smallest = packets.iter().map(|p| p.1).min().unwrap_or(0);
        Ok(Self { packets, total: total as u64, largest, smallest })
    }

    fn length_ns(&self) -> u64 {
        self.packets.last().map_or(0, |p| p.0)
    }

    fn least_gap(&self) -> u64 {
        self.packets.windows(2).map(|w| w[1].0 - w[0].0).min().unwrap_or(0)
    }

    /// The least σ: one pass over `Σ bits − ρ·t` (Cruz 1991).
    fn sigma(&self, rho_bps: u64) -> u64 {
        let (mut sent, mut lowest, mut sigma) = (0_i128, 0_i128, 0_i128);
        for &(at_ns, bits) in &self.packets {
            let given = i128::from(rho_bps) * i128::from(at_ns);
            lowest = lowest.min(sent - given);
            sent += i128::from(bits) * NANO.cast_signed();
            sigma = sigma.max(sent - given - lowest);
        }
        sigma.unsigned_abs().div_ceil(NANO) as u64
    }

    /// The least p with `A(t) ≤ M + p·t`. A burst of equal instants above M has none. Binary
    /// search: σ(ρ) falls in ρ.
    fn peak_bps(&self) -> Option<u64> {
        let suffices = |bps: u64| self.sigma(bps) <= self.largest;
        let (mut low, mut high) = (0, limits::RATE_BPS_MAX);
        if !suffices(high) {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if suffices(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }

    /// The burst B with M + B·(1 − r/p) = σ, at least M.
    fn peak_burst(&self, sigma: u64, rate_bps: u64, peak: Rate) -> ByteSize {
        let over = u128::from(sigma.saturating_sub(self.largest)) * u128::from(peak.as_bps());
        let spread = u128::from(peak.as_bps() - rate_bps).max(1);
        let burst = u64::try_from(over.div_ceil(spread)).unwrap_or(u64::MAX);
        bytes(burst.max(self.largest))
    }

    /// Xave is the largest with as many packets in an interval as there were at most.
    fn averaged(&self, xmin: Duration, interval: Duration) -> Option<Averaged> {
        let interval_ns = nanos(interval).max(1);
        let (mut first, mut most) = (0, 0);
        for (last, &(at_ns, _)) in self.packets.iter().enumerate() {
            while at_ns - self.packets[first].0 >= interval_ns {
                first += 1;
            }
            most = most.max((last - first + 1) as u64);
        }
        if most > averaged::PACKETS_MAX {
            return None;
        }
        let xave = Duration::from_nanos(interval_ns / most);
        Averaged::new(xmin, xave, interval, bytes(self.largest)).ok()
    }

    /// Tangents σ(ρ) at the peak rate, which begins with the largest packet, and at the slopes
    /// between windows of 1 ms · 4ᵏ down to the long-term rate, and their corners.
    fn dbind(&self, long_bps: u64) -> Result<DBind, SpecError> {
        let mut tangents: Vec<Bucket> = Vec::with_capacity(dbind::PAIRS_MAX);
        if let Some(peak) = self.peak_bps() {
            let rate_bps = peak.max(long_bps);
            tangents.push(Bucket { burst_bits: self.sigma(rate_bps), rate_bps });
        }
        let (mut from_ns, mut from, mut to_ns) = (0, self.most_in(0), 1_000_000_u64);
        while tangents.len() < dbind::PAIRS_MAX && from_ns < self.length_ns() {
            // The last slope goes on for ever: it reaches over the whole trace.
            let last = tangents.len() + 1 == dbind::PAIRS_MAX;
            to_ns = if last { self.length_ns() } else { to_ns.min(self.length_ns()) };
            let to = self.most_in(to_ns);
            let slope_bps = limits::rate_of(to - from, to_ns - from_ns);
            // The last line goes on for ever, so it carries the long-term rate.
            let rate_bps = if last || to_ns == self.length_ns() { long_bps } else { slope_bps };
            let rate_bps = rate_bps.max(long_bps);
            tangents.push(Bucket { burst_bits: self.sigma(rate_bps), rate_bps });
            (from_ns, from, to_ns) = (to_ns, to, to_ns * 4);
        }
        let lines = Buckets::least(&tangents);
        let lines = lines.as_slice();
        let pair = |window: u64, bits: u128| {
            let bits = u64::try_from(bits).unwrap_or(u64::MAX);
            (Rate::from_bps(limits::rate_of(bits, window)), Duration::from_nanos(window))
        };
        let mut pairs = Vec::with_capacity(lines.len());
        let (mut end_ns, mut end) = (0, u128::from(lines[0].burst_bits.next_multiple_of(8)));
        for w in lines.windows(2) {
            let (rise, fall) = (w[1].burst_bits - w[0].burst_bits, w[0].rate_bps - w[1].rate_bps);
            let crossing = (u128::from(rise) * NANO).div_ceil(u128::from(fall)) as u64;
            let bits = w[0].bits_in(crossing).max(w[1].bits_in(crossing));
            // A corner that rounding has put level with the last one adds nothing.
            if crossing > end_ns && bits > end + 1 {
                pairs.push(pair(crossing, bits));
                (end_ns, end) = (crossing, bits);
            }
        }
        // Far enough that the last slope's rounding does not fall below the last line.
        let end_ns = (end_ns + self.length_ns()).min(limits::INTERVAL_NS_MAX);
        let last = lines[lines.len() - 1];
        pairs.push(pair(end_ns, last.bits_in(end_ns).max(end + 1) + 1));
        DBind::hull(&pairs, bytes(lines[0].burst_bits))
    }

    /// Most bits in any closed window.
    fn most_in(&self, window_ns: u64) -> u64 {
        let (mut first, mut sum, mut most) = (0, 0_u64, 0);
        for &(at_ns, bits) in &self.packets {
            sum += bits;
            while at_ns - self.packets[first].0 > window_ns {
                sum -= self.packets[first].1;
                first += 1;
            }
            most = most.max(sum);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Regulator, TSpecForm, Verdict};
    use super::*;
    use proptest::prelude::*;

    fn trace(packets: &[(u64, u64)]) -> Vec<Sample> {
        packets.iter().map(|&(t, b)| (Instant::from_nanos(t), ByteSize::from_bytes(b))).collect()
    }

    #[test]
    fn a_periodic_source_by_hand() {
        let ms: Vec<_> = (0..11).map(|k| (k * 1_000_000, 125)).collect();
        let measured = measure(&trace(&ms), Knobs::default()).expect("valid");
        assert_eq!(
            measured.spaced.as_ref().map(TSpecForm::from),
            Some(TSpecForm::Spaced { xmin_ns: 1_000_000, smax_bytes: 125 })
        );
        // 11 packets in 10 ms: 1.1 Mbit/s.
        assert_eq!(measured.mean, Rate::from_bps(1_100_000));
        assert_eq!(measured.sigma_rho.packet_max(), ByteSize::from_bytes(125));
    }

    #[test]
    fn a_trace_without_length_or_order_is_refused() {
        let refused = |packets: &[(u64, u64)]| measure(&trace(packets), Knobs::default()).err();
        assert_eq!(
            refused(&[(5, 1), (5, 1)]),
            Some(SpecError::Zero { what: "time between the first packet and the last" })
        );
        assert_eq!(
            refused(&[(5, 1), (4, 1)]),
            Some(SpecError::Order { what: "time_ns", index: 1, value: 4, before: 5 })
        );
        assert_eq!(refused(&[(0, 1), (1, 0)]), Some(SpecError::Zero { what: "packet in bytes" }));
    }

    proptest! {
        #[test]
        fn every_packet_conforms_to_every_specification(
            steps in proptest::collection::vec((0u64..3_000_000, 1u64..1500), 2..40),
            rate_ppm in 1_000_000u32..3_000_000,
        ) {
            let mut t = 0;
            let packets: Vec<_> = steps
                .iter()
                .map(|&(gap, size)| {
                    t += gap;
                    (t, size)
                })
                .collect();
            prop_assume!(packets[packets.len() - 1].0 > packets[0].0);
            let samples = trace(&packets);
            let knobs = Knobs { interval: Duration::from_millis(10), rate_ppm };
            let m = measure(&samples, knobs).expect("valid");
            let (sigma_rho, dbind) = (Some(m.sigma_rho), Some(m.dbind));
            let all = [m.spaced, m.averaged, sigma_rho, m.token_bucket, m.peak_mean, dbind];
            for spec in all.iter().flatten() {
                let mut regulator = Regulator::new(spec);
                for &(at, size) in &samples {
                    prop_assert_eq!(regulator.offer(at, size), Verdict::Conforms, "{:?}", spec);
                }
            }
        }
    }
}
