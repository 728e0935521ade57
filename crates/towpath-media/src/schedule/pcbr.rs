//! One rate, held up at a clock reference that is early (first source, §4.4).
//!
//! Group `m` is sent at the rate, not before tick `times[m]`: the counter, loaded with the first
//! reference at the first byte, must have reached the group's reference. Hence
//! `D(τ) = min over m of (sums[m] + rate · (τ − times[m]))`, the closed form of eq. 4.4 and 4.5.

use super::cbr::{ceil, check_rate, not_below, within};
use super::program::Writer;
use super::slope::{check_delay, steepest, steepest_from_start, worst_stretch};
use super::{POSITION_UNIT, Schedule, ScheduleError, Scheme};
use crate::trace::{ExactRate, Trace};

/// Least rate at a start-up delay, exactly: `max over m ≤ n of (A_n − A_{m−1}) / (t_n − t_m + d)`.
///
/// With it the buffer is `rate · delay` (as long as the video lasts longer than the delay), and no
/// schedule with that buffer and delay has a lower peak.
pub fn least_rate(trace: &Trace, delay: u64) -> Result<ExactRate, ScheduleError> {
    check_delay(delay)?;
    Ok(steepest(trace, 0, delay, steepest_from_start(trace, delay)))
}

/// The rate the first source finds: the first of `R_CBR · (1 + k/100)` that starves nobody (§4.4,
/// §4.6).
pub fn grid_rate(trace: &Trace, delay: u64) -> Result<ExactRate, ScheduleError> {
    let exact = least_rate(trace, delay)?;
    Ok(first_hundredth(steepest_from_start(trace, delay), exact, 100))
}

/// The first of the mean rate · 1.00, 1.01, … that starves nobody at a delay: the grid on which
/// schemes are compared at a fixed buffer (§4.7.1 does not tell its own).
pub fn mean_grid_rate(trace: &Trace, delay: u64) -> Result<ExactRate, ScheduleError> {
    let exact = least_rate(trace, delay)?;
    Ok(first_hundredth(trace.mean(), exact, 100))
}

/// The first of `base · k/100`, `k ≥ from`, that is at least `exact`; `exact` itself where that is
/// no simple fraction.
fn first_hundredth(base: ExactRate, exact: ExactRate, from: u64) -> ExactRate {
    // Both products are below 2^106, so the hundredfold fits.
    let target = u128::from(exact.bytes()) * u128::from(base.ticks());
    let unit = u128::from(exact.ticks()) * u128::from(base.bytes());
    let hundredths = u64::try_from((target * 100).div_ceil(unit)).unwrap_or(u64::MAX);
    base.scaled(hundredths.max(from), 100).unwrap_or(exact)
}

/// Least start-up delay at a rate, in ticks, rounded up.
pub fn least_delay(trace: &Trace, rate: ExactRate) -> Result<u64, ScheduleError> {
    check_rate(trace, rate)?;
    let excess = worst_stretch(trace, rate).excess.max(1) as u128;
    within(excess.div_ceil(u128::from(rate.bytes())))
}

/// Buffer in bytes at a rate that starves nobody (eq. 4.6).
pub fn buffer(trace: &Trace, rate: ExactRate, delay: u64) -> u64 {
    let (p, q) = (i128::from(rate.bytes()), i128::from(rate.ticks()));
    let (times, sums) = (trace.times(), trace.sums());
    let mut started = 0;
    let mut lowest = i128::MAX;
    let mut most = 0;
    for (&time, &sum) in times.iter().zip(sums) {
        let due = delay + time;
        while started < times.len() && times[started] <= due {
            let line = q * i128::from(sums[started]) - p * i128::from(times[started]);
            lowest = lowest.min(line);
            started += 1;
        }
        let sent = (lowest + p * i128::from(due)).min(q * i128::from(sums[started]));
        most = most.max(sent - q * i128::from(sum));
    }
    ceil(most, q)
}

/// Whole bytes sent in the start-up delay, before the first group is consumed.
pub fn prefetched(trace: &Trace, rate: ExactRate, delay: u64) -> u64 {
    let (p, q) = (u128::from(rate.bytes()), u128::from(rate.ticks()));
    let started = trace.times().iter().zip(trace.sums()).take_while(|&(&time, _)| time <= delay);
    let lines = started.map(|(&time, &sum)| u128::from(sum) + u128::from(delay - time) * p / q);
    let last = trace.times().partition_point(|&time| time <= delay);
    lines.fold(u128::from(trace.sums()[last]), u128::min) as u64
}

/// The go-and-stop schedule.
pub fn schedule(trace: &Trace, rate: ExactRate, delay: u64) -> Result<Schedule, ScheduleError> {
    not_below(trace, rate, least_rate(trace, delay)?)?;
    let (p, q) = (u128::from(rate.bytes()), u128::from(rate.ticks()));
    let mut writer = Writer::new();
    let (mut start, mut from) = (0, 0);
    for (&time, &sum) in trace.times().iter().zip(trace.sums()) {
        let early = u128::from(sum - from) * q < u128::from(time - start) * p;
        if early || time == 0 {
            writer.push(time, sum * POSITION_UNIT, rate);
            (start, from) = (time, sum);
        }
    }
    Ok(Schedule::new(
        Scheme::Pcbr,
        trace,
        delay,
        buffer(trace, rate, delay),
        (writer.finish(trace.total()), rate),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{any_trace, even, rate};
    use proptest::prelude::*;

    /// Sizes 4, 2, 6, delay 2: stretches 4/2, 6/3, 12/4, 2/2, 8/3, 6/2.
    #[test]
    fn by_hand() {
        let trace = even(1, &[4, 2, 6]);
        assert_eq!(least_rate(&trace, 2), Ok(rate(3, 1)));
        // Delay 1: 4/1, 6/2, 12/3, 2/1, 8/2, 6/1.
        let least = least_rate(&trace, 1).expect("rate");
        assert_eq!(least, rate(6, 1));
        assert_eq!(buffer(&trace, least, 1), 6, "rate · delay");
        // R_CBR = 4: 150 % is the first percentage that does.
        assert_eq!(grid_rate(&trace, 1), Ok(rate(6, 1)));
        let schedule = schedule(&trace, least, 1).expect("schedule");
        let starts: alloc::vec::Vec<_> =
            schedule.segments.iter().map(|s| (s.start, s.position / POSITION_UNIT)).collect();
        assert_eq!(starts, [(0, 0), (1, 4), (2, 6)]);
        assert_eq!(schedule.check(&trace).expect("feasible").changes, 4, "two pauses");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn schedules_keep_their_word(
            trace in any_trace(), delay in 1u64..40, faster in 100u64..300,
        ) {
            let least = least_rate(&trace, delay).expect("rate");
            let rate = least.scaled(faster, 100).expect("rate");
            let schedule = schedule(&trace, rate, delay).expect("schedule");
            let checked = schedule.check(&trace).expect("feasible");
            prop_assert_eq!(checked.buffer, schedule.buffer);
            prop_assert!(least_delay(&trace, rate).expect("delay") <= delay);
        }

        #[test]
        fn a_hair_less_starves(trace in any_trace(), delay in 1u64..40) {
            let least = least_rate(&trace, delay).expect("rate");
            let less = least.scaled(999_999, 1_000_000).expect("rate");
            let mut schedule = schedule(&trace, least, delay).expect("schedule");
            for segment in &mut schedule.segments {
                segment.rate = less;
            }
            prop_assert!(schedule.check(&trace).is_err());
        }

        #[test]
        fn the_buffer_is_rate_times_delay(trace in any_trace(), delay in 1u64..40) {
            let least = least_rate(&trace, delay).expect("rate");
            let product = u128::from(least.bytes()) * u128::from(delay);
            let bytes = product.div_ceil(u128::from(least.ticks()));
            prop_assert_eq!(u128::from(buffer(&trace, least, delay)), bytes);
        }

        #[test]
        fn the_grid_rate_is_the_first_that_does(trace in any_trace(), delay in 1u64..40) {
            let exact = least_rate(&trace, delay).expect("rate");
            let cbr = steepest_from_start(&trace, delay);
            let on_grid = |k: u64| cbr.scaled(k, 100).expect("rate");
            let first = (100..100_000).find(|&k| on_grid(k) >= exact).expect("k");
            prop_assert_eq!(grid_rate(&trace, delay).expect("rate"), on_grid(first));
        }
    }

    #[test]
    fn what_is_prefetched_is_sent_at_the_rate_unless_there_is_no_more() {
        let trace = even(2, &[4, 2, 6]);
        // Groups may be sent from 0, 2 and 4 on.
        for (bytes, ticks, delay, sent) in [
            (1, 1, 1, 1),
            (1, 1, 3, 3),
            (9, 1, 1, 4),
            (9, 1, 2, 4),
            (9, 1, 3, 6),
            (1, 3, 7, 2),
            (5, 3, 2, 3),
            (9, 1, 100, 12),
        ] {
            let found = prefetched(&trace, rate(bytes, ticks), delay);
            assert_eq!(found, sent, "{bytes} in {ticks}, {delay} ticks");
        }
    }
}
