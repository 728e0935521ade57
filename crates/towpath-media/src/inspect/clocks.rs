//! Statistics of a clock: intervals, rates, accuracy.

use alloc::vec;

use super::bins::Merge;
use super::report::{AccuracyReport, ClockReport, IntervalReport, Series};
use crate::read::{CLOCK_HZ, ClockReference};

const MS: u64 = CLOCK_HZ / 1000;
/// Bins of the histogram of intervals: one per ms, the last for all that is longer.
const INTERVAL_BINS: usize = 201;
/// Rates around a PCR agree when they differ by less than this part.
const RATE_TOLERANCE: f64 = 0.01;
/// Limit of TR 101 290 2.4.
const ACCURACY_NS: f64 = 500.0;
/// Most steps that are time and not a jump (§2.7.2), for a transport stream.
const STEP_MAX: i64 = CLOCK_HZ.cast_signed() / 10;
/// The same for the SCR of a program stream: 700 ms (§2.7.1).
const SCR_STEP_MAX: i64 = CLOCK_HZ.cast_signed() * 7 / 10;

/// What one reference adds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Judged {
    /// Interval to the reference before on the same time base, ticks.
    pub(super) interval: Option<u64>,
    /// The reference *before* this one is off by more than the limit.
    pub(super) inaccurate: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct ClockStats {
    pid: u16,
    count: u64,
    first: ClockReference,
    last: ClockReference,
    /// The one before the last, if on the same base.
    before: Option<ClockReference>,
    span_ticks: u64,
    span_bytes: u64,
    discontinuities: u64,
    jumps: u64,
    /// Those of the jumps that are no late reference.
    breaks: u64,
    wraps: u64,
    interval: IntervalReport,
    accuracy: AccuracyReport,
    error_sum: f64,
    square_sum: f64,
    rate_min: f64,
    rate_max: f64,
}

impl ClockStats {
    pub(super) fn new(first: &ClockReference) -> Self {
        Self {
            pid: first.pid,
            count: 1,
            first: *first,
            last: *first,
            before: None,
            span_ticks: 0,
            span_bytes: 0,
            discontinuities: 0,
            jumps: 0,
            breaks: 0,
            wraps: 0,
            interval: IntervalReport {
                count: 0,
                min_ticks: u64::MAX,
                max_ticks: 0,
                over_40_ms: 0,
                over_100_ms: 0,
                histogram_ms: vec![0; INTERVAL_BINS],
            },
            accuracy: AccuracyReport {
                judged: 0,
                rate_changes: 0,
                constant_rate: false,
                max_ns: 0.0,
                mean_ns: 0.0,
                rms_ns: 0.0,
                over_500_ns: 0,
                series: Series::new(CLOCK_HZ / 10),
            },
            error_sum: 0.0,
            square_sum: 0.0,
            rate_min: f64::INFINITY,
            rate_max: 0.0,
        }
    }

    pub(super) const fn pid(&self) -> u16 {
        self.pid
    }

    /// Time covered, jumps left out.
    pub(super) const fn span_ticks(&self) -> u64 {
        self.span_ticks
    }

    /// Whether there is more than one time base.
    pub(super) const fn breaks(&self) -> bool {
        self.discontinuities > 0 || self.breaks > 0
    }

    /// Takes the next reference.
    pub(super) fn add(&mut self, clock: &ClockReference) -> Judged {
        self.count += 1;
        let last = core::mem::replace(&mut self.last, *clock);
        let step = clock.ticks.saturating_sub(last.ticks);
        self.wraps += u64::from(step >= 0 && clock.raw_ticks < last.raw_ticks);
        if clock.discontinuity {
            self.discontinuities += 1;
            self.before = None;
            return Judged::default();
        }
        let step_max = if self.pid == 0 { SCR_STEP_MAX } else { STEP_MAX };
        // A late reference is still on the time base; only one that cannot be is a jump.
        if !(0..=step_max).contains(&step) {
            self.jumps += 1;
        }
        if !(0..=step_max * 10).contains(&step) {
            self.breaks += 1;
            self.before = None;
            return Judged::default();
        }
        let step = step.unsigned_abs();
        self.interval(step, clock.position.saturating_sub(last.position));
        let inaccurate = self.before.and_then(|before| self.judge(&before, &last, clock));
        self.before = Some(last);
        Judged { interval: Some(step), inaccurate }
    }

    fn interval(&mut self, ticks: u64, bytes: u64) {
        self.span_ticks = self.span_ticks.saturating_add(ticks);
        self.span_bytes = self.span_bytes.saturating_add(bytes);
        let i = &mut self.interval;
        i.count += 1;
        i.min_ticks = i.min_ticks.min(ticks);
        i.max_ticks = i.max_ticks.max(ticks);
        i.over_40_ms += u64::from(ticks > 40 * MS);
        i.over_100_ms += u64::from(ticks > 100 * MS);
        i.histogram_ms[((ticks / MS) as usize).min(INTERVAL_BINS - 1)] += 1;
        if ticks > 0 {
            let rate = bytes as f64 * 8.0 * CLOCK_HZ as f64 / ticks as f64;
            self.rate_min = self.rate_min.min(rate);
            self.rate_max = self.rate_max.max(rate);
        }
    }

    /// Deviation of `b` from the line between `a` and `c`; its offset if it is too large.
    fn judge(&mut self, a: &ClockReference, b: &ClockReference, c: &ClockReference) -> Option<u64> {
        let ticks = |from: &ClockReference, to: &ClockReference| (to.ticks - from.ticks) as f64;
        let bytes = |from: &ClockReference, to: &ClockReference| {
            to.position.saturating_sub(from.position) as f64
        };
        let (first, second) = (ticks(a, b) * bytes(b, c), ticks(b, c) * bytes(a, b));
        if bytes(a, c) <= 0.0 || (first - second).abs() > RATE_TOLERANCE * first.min(second) {
            self.accuracy.rate_changes += 1;
            return None;
        }
        let error = ticks(a, b) - ticks(a, c) * bytes(a, b) / bytes(a, c);
        let ns = error * (1e9 / CLOCK_HZ as f64);
        let size = ns.abs();
        self.accuracy.judged += 1;
        self.accuracy.max_ns = self.accuracy.max_ns.max(size);
        self.error_sum += size;
        self.square_sum += size * size;
        self.accuracy.series.add(self.span_ticks, (size + 0.5) as u64, Merge::Max);
        if size <= ACCURACY_NS {
            return None;
        }
        self.accuracy.over_500_ns += 1;
        Some(b.offset)
    }

    pub(super) fn report(mut self) -> ClockReport {
        let judged = self.accuracy.judged.max(1) as f64;
        self.accuracy.mean_ns = self.error_sum / judged;
        self.accuracy.rms_ns = libm::sqrt(self.square_sum / judged);
        self.accuracy.constant_rate =
            self.accuracy.judged > 0 && self.accuracy.rate_changes * 100 <= self.accuracy.judged;
        if self.interval.count == 0 {
            self.interval.min_ticks = 0;
            self.rate_min = 0.0;
        }
        let mean = match self.span_ticks {
            0 => 0.0,
            ticks => self.span_bytes as f64 * 8.0 * CLOCK_HZ as f64 / ticks as f64,
        };
        ClockReport {
            pid: self.pid,
            count: self.count,
            first_ticks: self.first.raw_ticks,
            last_ticks: self.last.raw_ticks,
            span_ticks: self.span_ticks,
            span_bytes: self.span_bytes,
            discontinuities: self.discontinuities,
            jumps: self.jumps,
            wraps: self.wraps,
            interval: self.interval,
            accuracy: self.accuracy,
            rate_min_bps: if self.rate_min.is_finite() { self.rate_min } else { 0.0 },
            rate_mean_bps: mean,
            rate_max_bps: self.rate_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(pid: u16, ticks: u64, position: u64) -> ClockReference {
        let (offset, raw_ticks) = (position, ticks);
        let ticks = ticks.cast_signed();
        ClockReference { pid, raw_ticks, ticks, offset, position, ..ClockReference::default() }
    }

    /// References at these times and places.
    fn run(pid: u16, all: &[(u64, u64)]) -> ClockReport {
        let mut stats = ClockStats::new(&reference(pid, all[0].0, all[0].1));
        for &(ticks, position) in &all[1..] {
            stats.add(&reference(pid, ticks, position));
        }
        stats.report()
    }

    #[test]
    fn intervals_are_counted_by_milliseconds_and_limits() {
        let steps = [0, 1, 40 * MS, 40 * MS + 1, 100 * MS, 39 * MS + 5];
        let mut at = (5, 0);
        let all: alloc::vec::Vec<_> = core::iter::once(at)
            .chain(steps.map(|step| {
                at = (at.0 + step, at.1 + 1000);
                at
            }))
            .collect();
        let report = run(256, &all);
        let i = &report.interval;
        assert_eq!((i.count, i.min_ticks, i.max_ticks), (6, 0, 100 * MS));
        assert_eq!((i.over_40_ms, i.over_100_ms), (2, 0));
        let filled: alloc::vec::Vec<_> =
            (0..INTERVAL_BINS).filter(|ms| i.histogram_ms[*ms] > 0).collect();
        assert_eq!(filled, [0, 39, 40, 100]);
        assert_eq!((i.histogram_ms[0], i.histogram_ms[40]), (2, 2));
        let span = steps.iter().sum::<u64>();
        assert_eq!((report.span_ticks, report.span_bytes, report.jumps), (span, 6000, 0));
        assert_eq!((report.wraps, report.first_ticks, report.last_ticks), (0, 5, 5 + span));
        // Bits in the time of the longest and of the shortest interval that is none.
        let same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b;
        assert!(same(report.rate_max_bps, 8000.0 * CLOCK_HZ as f64));
        assert!(same(report.rate_min_bps, 8000.0 * 10.0));
        assert!(same(report.rate_mean_bps, 48_000.0 * CLOCK_HZ as f64 / span as f64));
    }

    #[test]
    fn steps_beyond_the_limit_are_jumps_and_those_far_beyond_break_the_clock() {
        for (pid, limit) in [(256, CLOCK_HZ / 10), (0, CLOCK_HZ * 7 / 10)] {
            for (step, jumps, breaks) in [
                (limit, 0, false),
                (limit + 1, 1, false),
                (limit * 10, 1, false),
                (limit * 10 + 1, 1, true),
            ] {
                let mut stats = ClockStats::new(&reference(pid, 0, 0));
                let judged = stats.add(&reference(pid, step, 100));
                assert_eq!(judged.interval, (!breaks).then_some(step), "{pid} {step}");
                assert_eq!((stats.jumps, stats.breaks()), (jumps, breaks), "{pid} {step}");
            }
        }
        let mut back = reference(256, 50, 100);
        back.ticks = -1;
        let mut stats = ClockStats::new(&reference(256, 60, 0));
        assert_eq!(stats.add(&back), Judged::default());
        assert_eq!((stats.jumps, stats.breaks(), stats.wraps), (1, true, 0));
        // Announced: no jump, and nothing is measured across.
        let mut stats = ClockStats::new(&reference(256, 0, 0));
        let announced = ClockReference { discontinuity: true, ..reference(256, 9 * CLOCK_HZ, 100) };
        assert_eq!(stats.add(&announced), Judged::default());
        assert!(stats.breaks());
        let report = stats.report();
        assert_eq!((report.discontinuities, report.jumps, report.interval.count), (1, 0, 0));
        assert_eq!(
            (report.interval.min_ticks, report.rate_min_bps, report.rate_mean_bps),
            (0, 0.0, 0.0)
        );
        // A wrap: less than before as it is sent, and yet later.
        let mut stats = ClockStats::new(&reference(256, 1000, 0));
        stats.add(&ClockReference { raw_ticks: 5, ..reference(256, 1000 + MS, 100) });
        assert_eq!(stats.report().wraps, 1);
    }

    #[test]
    fn accuracy_is_the_distance_from_the_line_between_neighbours() {
        // Every 20 ms and 1000 bytes; the third is 27 ticks, a microsecond, late.
        let step = 20 * MS;
        let at = |k: u64| (k * step + if k == 2 { 27 } else { 0 }, k * 1000);
        let report = run(256, &core::array::from_fn::<_, 6, _>(|k| at(k as u64)));
        let a = &report.accuracy;
        assert_eq!((a.judged, a.rate_changes, a.constant_rate), (4, 0, true));
        // It is off by 1 µs, its neighbours by half of that, the other way.
        assert!((a.max_ns - 1000.0).abs() < 0.01 && (a.mean_ns - 500.0).abs() < 0.01, "{a:?}");
        let rms = libm::sqrt((500.0 * 500.0 * 2.0 + 1e6) / 4.0);
        assert!((a.rms_ns - rms).abs() < 0.01, "{a:?}");
        assert_eq!(a.over_500_ns, 1);
        // The rate changes once: there is nothing to judge by.
        let report = run(256, &[(0, 0), (step, 1000), (2 * step, 4000), (3 * step, 7000)]);
        let a = &report.accuracy;
        assert_eq!((a.judged, a.rate_changes, a.constant_rate), (1, 1, false));
        assert!(!run(256, &[(0, 0), (step, 1000)]).accuracy.constant_rate, "nothing was judged");
    }
}
