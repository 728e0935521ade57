//! Piecewise-constant rates over intervals of fixed length (`McManus` and Ross: "Video-on-demand
//! over ATM: constant-rate transmission and transport", 1996; the basic form).
//!
//! The consumption curve is joined by straight lines at every `interval`-th group; the line is then
//! raised, by what is sent during the start-up delay, until no group is late.

use alloc::vec::Vec;

use super::program::Writer;
use super::slope::check_delay;
use super::window::check_buffer;
use super::{POSITION_UNIT, Schedule, ScheduleError, Scheme};
use crate::stop::Stop;
use crate::trace::{ExactRate, Trace};

/// The schedule with intervals of `interval` groups and a delay in ticks; it tells the buffer.
pub fn schedule(trace: &Trace, interval: usize, delay: u64) -> Result<Schedule, ScheduleError> {
    check_delay(delay)?;
    let limit = trace.groups();
    if interval == 0 || interval > limit {
        return Err(ScheduleError::Interval { interval, limit });
    }
    let lines = Lines::new(trace, interval);
    let rate = |bytes: u64, ticks: u64| {
        ExactRate::new(u128::from(bytes), u128::from(ticks)).expect("within limits")
    };
    let mut writer = Writer::new();
    let mut peak = rate(lines.raise, delay);
    writer.push(0, 0, peak);
    for line in lines.iter() {
        let rate = rate(line.to_bytes - line.from_bytes, line.to_tick - line.from_tick);
        if !rate.is_zero() && line.from_bytes + lines.raise < trace.total() {
            peak = peak.max(rate);
            let position = (line.from_bytes + lines.raise) * POSITION_UNIT;
            writer.push(delay + line.from_tick, position, rate);
        }
    }
    Ok(Schedule::new(
        Scheme::Pcrtt,
        trace,
        delay,
        lines.buffer(),
        (writer.finish(trace.total()), peak),
    ))
}

/// What a wish for two of the three leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Highest rate.
    pub rate: Option<ExactRate>,
    /// Largest buffer in bytes.
    pub buffer: Option<u64>,
    /// Start-up delay in ticks; where it is open, the least that the rate allows.
    pub delay: Option<u64>,
}

/// The schedule that fits the bounds, of intervals 1, 2, 3, 4, 6, 8, 12, …: of least delay, then of
/// least peak where the rate is open, else of least buffer; of equals the longest interval. Gives
/// the interval too.
pub fn within(
    trace: &Trace,
    bounds: Bounds,
    stop: Stop<'_>,
) -> Result<(usize, Schedule), ScheduleError> {
    let hz = trace.ticks_per_second();
    if let Some(buffer) = bounds.buffer {
        check_buffer(trace, buffer)?;
    }
    let mut best: Option<((u64, ExactRate, u64), usize)> = None;
    let mut least: Option<ExactRate> = None;
    for interval in intervals(trace.groups()) {
        stop.check()?;
        let lines = Lines::new(trace, interval);
        let buffer = lines.buffer();
        if bounds.buffer.is_some_and(|most| buffer > most) {
            continue;
        }
        let delay = match (bounds.delay, bounds.rate) {
            (Some(delay), _) => delay,
            (None, Some(rate)) => {
                let parts = u128::from(lines.raise) * u128::from(rate.ticks());
                super::cbr::within(parts.div_ceil(u128::from(rate.bytes().max(1))))?
            }
            (None, None) => return Err(ScheduleError::NoDelay),
        };
        check_delay(delay)?;
        let peak = lines.peak(delay);
        if bounds.rate.is_some_and(|most| peak > most) {
            least = Some(least.map_or(peak, |least| least.min(peak)));
            continue;
        }
        let order = if bounds.rate.is_some() { ExactRate::ZERO } else { peak };
        let found = (delay, order, buffer);
        if best.is_none_or(|(best, _)| found <= best) {
            best = Some((found, interval));
        }
    }
    match (best, bounds.rate) {
        (Some(((delay, ..), interval)), _) => Ok((interval, schedule(trace, interval, delay)?)),
        (None, Some(rate)) => Err(ScheduleError::RateTooLow {
            rate: rate.ceil(hz),
            least: least.unwrap_or(rate).ceil(hz),
        }),
        // Intervals of one group need a buffer of the largest group, which fits.
        (None, None) => unreachable!("intervals of one group fit every buffer"),
    }
}

fn intervals(limit: usize) -> impl Iterator<Item = usize> {
    let doubles = (0..usize::BITS - 1).map(|power| 1usize << power);
    let all = doubles.flat_map(|double| [double, double + double / 2]);
    all.enumerate()
        .filter(|&(index, _)| index != 1)
        .map(|(_, n)| n)
        .take_while(move |&n| n <= limit)
}

struct Line {
    from_tick: u64,
    from_bytes: u64,
    to_tick: u64,
    to_bytes: u64,
}

struct Lines<'a> {
    trace: &'a Trace,
    interval: usize,
    /// Bytes by which the lines are raised.
    raise: u64,
}

impl<'a> Lines<'a> {
    fn new(trace: &'a Trace, interval: usize) -> Self {
        let mut lines = Self { trace, interval, raise: 0 };
        let late = (0..).zip(lines.iter()).map(|(index, line)| lines.farthest(index, &line).0);
        lines.raise = late.max().unwrap_or(0);
        lines
    }

    fn iter(&self) -> impl Iterator<Item = Line> + use<'a> {
        let (trace, interval) = (self.trace, self.interval);
        (0..trace.groups()).step_by(interval).map(move |first| {
            let next = (first + interval).min(trace.groups());
            Line {
                from_tick: trace.times()[first],
                from_bytes: trace.sums()[first],
                to_tick: trace.times().get(next).copied().unwrap_or(trace.duration()),
                to_bytes: trace.sums()[next],
            }
        })
    }

    /// For line `index`: most bytes by which a group's end is above the line, and most by which
    /// the line is above a group's beginning; both rounded up.
    fn farthest(&self, index: usize, line: &Line) -> (u64, u64) {
        let first = index * self.interval;
        let past = (first + self.interval).min(self.trace.groups());
        let p = i128::from(line.to_bytes - line.from_bytes);
        let q = i128::from(line.to_tick - line.from_tick);
        let (mut late, mut held) = (0, 0);
        for group in first..past {
            let sent = p * i128::from(self.trace.times()[group] - line.from_tick);
            let sums = &self.trace.sums()[group..group + 2];
            late = late.max(q * i128::from(sums[1] - line.from_bytes) - sent);
            held = held.max(sent - q * i128::from(sums[0] - line.from_bytes));
        }
        (super::cbr::ceil(late, q), super::cbr::ceil(held, q))
    }

    fn buffer(&self) -> u64 {
        let total = self.trace.total();
        let mut most = 0;
        for (index, line) in self.iter().enumerate() {
            most = most.max(if self.cut(&line) {
                self.held_until_end(index, &line, total)
            } else {
                self.raise + self.farthest(index, &line).1
            });
        }
        most
    }

    /// Whether the raised line goes beyond the video.
    fn cut(&self, line: &Line) -> bool {
        line.to_bytes + self.raise > self.trace.total()
    }

    fn held_until_end(&self, index: usize, line: &Line, total: u64) -> u64 {
        let first = index * self.interval;
        let past = (first + self.interval).min(self.trace.groups());
        let p = u128::from(line.to_bytes - line.from_bytes);
        let q = u128::from(line.to_tick - line.from_tick);
        let held = (first..past).map(|group| {
            let sent = p * u128::from(self.trace.times()[group] - line.from_tick);
            let sent = line.from_bytes + self.raise + sent.div_ceil(q) as u64;
            sent.min(total) - self.trace.sums()[group]
        });
        held.max().unwrap_or(0)
    }

    fn peak(&self, delay: u64) -> ExactRate {
        let rate = |bytes: u64, ticks: u64| {
            ExactRate::new(u128::from(bytes), u128::from(ticks)).expect("within limits")
        };
        let rates: Vec<_> = self
            .iter()
            .take_while(|line| line.from_bytes + self.raise < self.trace.total())
            .map(|line| rate(line.to_bytes - line.from_bytes, line.to_tick - line.from_tick))
            .collect();
        rates.into_iter().fold(rate(self.raise, delay), ExactRate::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{any_trace, even, rate};
    use proptest::prelude::*;

    /// Sizes 4, 2, 6, 6 in intervals of 2: lines of 3 and 6 bytes per tick, raised by 6 (the third
    /// group ends at 12, its line begins at 6).
    #[test]
    fn by_hand() {
        let trace = even(1, &[4, 2, 6, 6]);
        let schedule = schedule(&trace, 2, 2).expect("schedule");
        let corners: Vec<_> = schedule
            .segments
            .iter()
            .map(|s| (s.start, s.position / POSITION_UNIT, s.rate))
            .collect();
        assert_eq!(corners, [(0, 0, rate(3, 1)), (2, 6, rate(3, 1)), (4, 12, rate(6, 1))]);
        // At ticks 2, 3, 4, 5: 6, 9 − 4, 12 − 6, 18 − 12.
        assert_eq!(schedule.buffer, 6);
        assert_eq!(intervals(13).collect::<Vec<_>>(), [1, 2, 3, 4, 6, 8, 12]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn schedules_keep_their_word(
            trace in any_trace(), interval in 1usize..5, delay in 1u64..40,
        ) {
            let interval = interval.min(trace.groups());
            let schedule = schedule(&trace, interval, delay).expect("schedule");
            let checked = schedule.check(&trace).expect("feasible");
            prop_assert_eq!((checked.buffer, checked.peak), (schedule.buffer, schedule.peak));
        }

        #[test]
        fn a_buffer_is_kept(trace in any_trace(), extra in 0u64..60, delay in 1u64..40) {
            let buffer = trace.largest() + extra;
            let bounds = Bounds { rate: None, buffer: Some(buffer), delay: Some(delay) };
            let (_, schedule) = within(&trace, bounds, Stop::NEVER).expect("schedule");
            prop_assert!(schedule.buffer <= buffer);
        }
    }

    #[test]
    fn of_all_intervals_the_one_with_the_least_delay_or_rate_is_found() {
        for sizes in [&[4, 2, 6, 6, 1, 9, 3, 3][..], &[9, 1, 1, 1], &[1, 2, 3, 4, 5, 6, 7]] {
            let trace = even(2, sizes);
            let all = || intervals(trace.groups());
            let of = |interval, delay| schedule(&trace, interval, delay).expect("schedule");
            for r in 2..40 {
                let rate = rate(r, 4);
                let does = |delay| all().any(|interval| of(interval, delay).peak <= rate);
                let bounds = Bounds { rate: Some(rate), buffer: None, delay: None };
                let found = within(&trace, bounds, Stop::NEVER);
                match (1..100).find(|delay| does(*delay)) {
                    None => assert!(matches!(found, Err(ScheduleError::RateTooLow { .. })), "{r}"),
                    Some(delay) => {
                        let (_, found) = found.expect("one does");
                        assert_eq!(found.delay, delay, "{r} quarters");
                        let buffers = all().map(|interval| of(interval, delay));
                        let buffers = buffers.filter(|s| s.peak <= rate).map(|s| s.buffer);
                        assert_eq!(Some(found.buffer), buffers.min(), "{r} quarters");
                    }
                }
            }
            for delay in 1..12 {
                let bounds = Bounds { rate: None, buffer: None, delay: Some(delay) };
                let (_, found) = within(&trace, bounds, Stop::NEVER).expect("schedule");
                let peaks = all().map(|interval| of(interval, delay).peak);
                assert_eq!(Some(found.peak), peaks.min(), "delay {delay}");
            }
        }
    }
}
