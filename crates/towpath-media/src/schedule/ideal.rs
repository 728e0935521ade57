//! The schedule that follows the clock references (first source, §4.3.2, eq. 4.3): between two of
//! them the rate is the bytes between them over the time between them. A reference to compare
//! with: its peak is that of the coder.

use super::program::Writer;
use super::slope::check_delay;
use super::verify::Violation;
use super::{POSITION_UNIT, Schedule, ScheduleError, Scheme};
use crate::trace::{ExactRate, Trace};

/// Least start-up delay: the longest time between two groups (of the last group, its own time),
/// since a group takes that long to send.
pub fn least_delay(trace: &Trace) -> u64 {
    let last = trace.times()[trace.groups() - 1];
    let gaps = trace.times().windows(2).map(|pair| pair[1] - pair[0]);
    gaps.max().unwrap_or(0).max(trace.duration() - last)
}

/// Group `i` is sent evenly from tick `times[i]` to `times[i + 1]`.
pub fn schedule(trace: &Trace, delay: u64) -> Result<Schedule, ScheduleError> {
    check_delay(delay)?;
    let least = least_delay(trace);
    if delay < least {
        return Err(ScheduleError::DelayTooShort { delay, least });
    }
    let mut writer = Writer::new();
    let mut peak = ExactRate::ZERO;
    let ends = trace.times()[1..].iter().copied().chain([trace.duration()]);
    for ((&time, end), pair) in trace.times().iter().zip(ends).zip(trace.sums().windows(2)) {
        let bytes = u128::from(pair[1] - pair[0]);
        let rate = ExactRate::new(bytes, u128::from(end - time)).expect("within limits");
        peak = peak.max(rate);
        writer.push(time, pair[0] * POSITION_UNIT, rate);
    }
    let mut schedule = Schedule::new(
        Scheme::Ideal,
        trace,
        delay,
        trace.total(),
        (writer.finish(trace.total()), peak),
    );
    schedule.buffer = needed(&schedule, trace)?;
    Ok(schedule)
}

/// The buffer that a schedule which starves nobody needs.
pub(super) fn needed(schedule: &Schedule, trace: &Trace) -> Result<u64, ScheduleError> {
    match schedule.check(trace) {
        Ok(checked) => Ok(checked.buffer),
        Err(Violation::TooFine(error)) => Err(error),
        Err(violation) => unreachable!("a schedule of ours fails: {violation}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{any_trace, even, rate};
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        let trace = even(2, &[4, 0, 6]);
        let schedule = schedule(&trace, 2).expect("schedule");
        assert_eq!((schedule.peak, schedule.buffer), (rate(3, 1), 6));
        assert_eq!(schedule.segments.len(), 2, "nothing to send in the empty frame");
        assert_eq!(schedule.check(&trace).expect("feasible").finish, 6);
        assert_eq!(
            super::schedule(&trace, 1),
            Err(ScheduleError::DelayTooShort { delay: 1, least: 2 })
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn schedules_keep_their_word(trace in any_trace(), extra in 0u64..40) {
            let schedule = schedule(&trace, least_delay(&trace) + extra).expect("schedule");
            prop_assert_eq!(schedule.check(&trace).expect("feasible").peak, schedule.peak);
        }
    }
}
