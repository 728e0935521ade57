//! Constant bit rate (first source, §4.2).

use super::program::Writer;
use super::slope::{check_delay, delay_from_start, steepest_from_start};
use super::{Schedule, ScheduleError, Scheme};
use crate::trace::{ExactRate, Trace};

/// Least rate at a start-up delay: the steepest line from the start of delivery to the consumption
/// curve, `R_CBR(P)`.
pub fn least_rate(trace: &Trace, delay: u64) -> Result<ExactRate, ScheduleError> {
    check_delay(delay)?;
    Ok(steepest_from_start(trace, delay))
}

/// Least start-up delay at a rate, in ticks, rounded up.
pub fn least_delay(trace: &Trace, rate: ExactRate) -> Result<u64, ScheduleError> {
    check_rate(trace, rate)?;
    within(delay_from_start(trace, rate))
}

/// Buffer in bytes at a rate that starves nobody: eq. 4.2, where delivery ends with the video.
pub fn buffer(trace: &Trace, rate: ExactRate, delay: u64) -> u64 {
    let (p, q) = (i128::from(rate.bytes()), i128::from(rate.ticks()));
    let end = q * i128::from(trace.total());
    let held = trace.sums().iter().zip(trace.times()).map(|(&sum, &time)| {
        let sent = p * (i128::from(delay) + i128::from(time));
        sent.min(end) - q * i128::from(sum)
    });
    ceil(held.max().unwrap_or(0), q)
}

/// Buffer in bytes by eq. 4.2 as it is printed: as if delivery went on after the last byte.
pub fn buffer_uncapped(trace: &Trace, rate: ExactRate, delay: u64) -> u64 {
    let (p, q) = (i128::from(rate.bytes()), i128::from(rate.ticks()));
    let held = trace
        .sums()
        .iter()
        .zip(trace.times())
        .map(|(&sum, &time)| p * (i128::from(delay) + i128::from(time)) - q * i128::from(sum));
    ceil(held.max().unwrap_or(0), q)
}

/// One rate from start to end.
pub fn schedule(trace: &Trace, rate: ExactRate, delay: u64) -> Result<Schedule, ScheduleError> {
    let least = least_rate(trace, delay)?;
    not_below(trace, rate, least)?;
    let mut writer = Writer::new();
    writer.push(0, 0, rate);
    Ok(Schedule::new(
        Scheme::Cbr,
        trace,
        delay,
        buffer(trace, rate, delay),
        (writer.finish(trace.total()), rate),
    ))
}

/// `parts / per` rounded up to whole bytes; saturates where a wish is absurd.
pub(super) fn ceil(parts: i128, per: i128) -> u64 {
    u64::try_from((parts.max(0) as u128).div_ceil(per as u128)).unwrap_or(u64::MAX)
}

pub(super) fn check_rate(trace: &Trace, rate: ExactRate) -> Result<(), ScheduleError> {
    if rate.is_zero() {
        return Err(ScheduleError::RateRange { rate: rate.ceil(trace.ticks_per_second()) });
    }
    Ok(())
}

pub(super) fn not_below(
    trace: &Trace,
    rate: ExactRate,
    least: ExactRate,
) -> Result<(), ScheduleError> {
    if rate < least {
        let hz = trace.ticks_per_second();
        return Err(ScheduleError::RateTooLow { rate: rate.ceil(hz), least: least.ceil(hz) });
    }
    Ok(())
}

/// A delay within the limit.
pub(super) fn within(delay: u128) -> Result<u64, ScheduleError> {
    let ticks = u64::try_from(delay).unwrap_or(u64::MAX);
    check_delay(ticks).map(|()| ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{any_trace, even, rate};
    use proptest::prelude::*;

    /// Sizes 4, 2, 6 one tick apart, first frame due at tick 2: lines to 4/2, 6/3, 12/4.
    #[test]
    fn by_hand() {
        let trace = even(1, &[4, 2, 6]);
        let least = least_rate(&trace, 2).expect("rate");
        assert_eq!(least, rate(3, 1));
        // Just before frames leave: 6, 9 − 4, 12 − 6.
        assert_eq!(buffer(&trace, least, 2), 6);
        assert_eq!(least_delay(&trace, least), Ok(2));
        // At rate 4 the last byte is sent at tick 3: eq. 4.2 counts on.
        assert_eq!(buffer(&trace, rate(4, 1), 2), 8);
        assert_eq!(buffer_uncapped(&trace, rate(4, 1), 3), 14);
        assert_eq!(buffer(&trace, rate(4, 1), 3), 12);
        let low = schedule(&trace, rate(2, 1), 2).expect_err("too low");
        assert!(matches!(low, ScheduleError::RateTooLow { .. }), "{low}");
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
            prop_assert_eq!((checked.peak, checked.changes), (rate, 0));
        }
    }
}
