//! One rate, held up while the receiver's buffer is full.
//!
//! The references tell the sender what the receiver has consumed: group `n` at tick
//! `delay + times[n]`. Holding back only what would overflow, instead of what is early, reaches
//! the least peak that any schedule can have with this buffer and delay:
//! `R*(B, P) = max(R_CBR(P), R_B(B))`, `R_B(B) = max over m < n of (A_n − A_{m−1} − B) / (t_n −
//! t_m)`. Lower bound: in any schedule at most `A_{m−1} + B` is sent before group `m` leaves, and
//! `A_n` must be when group `n` does; and nothing before tick 0. Reached: this schedule sends at
//! every tick as much as any schedule of that rate and buffer can.

use super::cbr::{ceil, check_rate, not_below, within};
use super::program::Writer;
use super::slope::{check_delay, delay_from_start, steepest, steepest_from_start, worst_stretch};
use super::{POSITION_UNIT, Schedule, ScheduleError, Scheme};
use crate::trace::{ExactRate, Trace};

/// Least rate with a buffer (bytes) and a start-up delay (ticks): `R*(B, P)`, exactly.
pub fn least_rate(trace: &Trace, buffer: u64, delay: u64) -> Result<ExactRate, ScheduleError> {
    check_delay(delay)?;
    check_buffer(trace, buffer)?;
    Ok(steepest(trace, buffer.min(trace.total()), 0, steepest_from_start(trace, delay)))
}

/// Least rate with a buffer, however long the delay: `R_B(B)`.
pub fn least_rate_for_buffer(trace: &Trace, buffer: u64) -> Result<ExactRate, ScheduleError> {
    check_buffer(trace, buffer)?;
    Ok(steepest(trace, buffer.min(trace.total()), 0, ExactRate::ZERO))
}

/// Least buffer in bytes at a rate and a start-up delay: that of the latest possible delivery.
pub fn least_buffer(trace: &Trace, rate: ExactRate, delay: u64) -> Result<u64, ScheduleError> {
    check_delay(delay)?;
    not_below(trace, rate, steepest_from_start(trace, delay))?;
    Ok(ceil(worst_stretch(trace, rate).excess, i128::from(rate.ticks())))
}

/// Least start-up delay in ticks at a rate and a buffer.
pub fn least_delay(trace: &Trace, rate: ExactRate, buffer: u64) -> Result<u64, ScheduleError> {
    check_rate(trace, rate)?;
    let least = ceil(worst_stretch(trace, rate).excess, i128::from(rate.ticks()));
    if buffer < least {
        return Err(ScheduleError::BufferTooSmall { buffer, least });
    }
    within(delay_from_start(trace, rate))
}

/// The schedule at a rate, with a buffer and a delay.
pub fn schedule(
    trace: &Trace,
    rate: ExactRate,
    buffer: u64,
    delay: u64,
) -> Result<Schedule, ScheduleError> {
    not_below(trace, rate, least_rate(trace, buffer, delay)?)?;
    let (p, q) = (u128::from(rate.bytes()), u128::from(rate.ticks()));
    let mut writer = Writer::new();
    writer.push(0, 0, rate);
    let (mut start, mut from) = (0, 0);
    for (&time, &sum) in trace.times().iter().zip(trace.sums()) {
        let (due, full) = (delay + time, sum.saturating_add(buffer));
        if full >= trace.total() {
            break;
        }
        if u128::from(full - from) * q < u128::from(due - start) * p {
            writer.push(due, full * POSITION_UNIT, rate);
            (start, from) = (due, full);
        }
    }
    Ok(Schedule::new(
        Scheme::WindowPcbr,
        trace,
        delay,
        buffer,
        (writer.finish(trace.total()), rate),
    ))
}

pub(super) fn check_buffer(trace: &Trace, buffer: u64) -> Result<(), ScheduleError> {
    let least = trace.largest();
    if buffer < least { Err(ScheduleError::BufferTooSmall { buffer, least }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{any_trace, even, rate};
    use proptest::prelude::*;

    /// Sizes 4, 2, 6, 6; delay 2; `R_CBR` = max(4/2, 6/3, 12/4, 18/5) = 18/5.
    #[test]
    fn by_hand() {
        let trace = even(1, &[4, 2, 6, 6]);
        assert_eq!(least_rate(&trace, 18, 2), Ok(rate(18, 5)));
        // Buffer 7: stretches (6−7)/1, (12−7)/2, (18−7)/3, (8−7)/1, (14−7)/2, (12−7)/1 = 5.
        assert_eq!(least_rate(&trace, 7, 2), Ok(rate(5, 1)));
        assert_eq!(least_rate_for_buffer(&trace, 7), Ok(rate(5, 1)));
        assert_eq!(least_buffer(&trace, rate(5, 1), 2), Ok(7));
        assert_eq!(least_delay(&trace, rate(5, 1), 7), Ok(1));
        assert_eq!(
            least_rate(&trace, 5, 2),
            Err(ScheduleError::BufferTooSmall { buffer: 5, least: 6 })
        );
        assert_eq!(
            least_delay(&trace, rate(5, 1), 6),
            Err(ScheduleError::BufferTooSmall { buffer: 6, least: 7 })
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn feasible_at_the_least_rate_and_starving_below(
            trace in any_trace(), extra in 0u64..60, delay in 1u64..40,
        ) {
            let buffer = trace.largest() + extra;
            let least = least_rate(&trace, buffer, delay).expect("rate");
            let mut schedule = schedule(&trace, least, buffer, delay).expect("schedule");
            prop_assert!(schedule.check(&trace).expect("feasible").buffer <= buffer);
            for segment in &mut schedule.segments {
                segment.rate = least.scaled(999_999, 1_000_000).expect("rate");
            }
            prop_assert!(schedule.check(&trace).is_err());
        }

        #[test]
        fn each_of_the_three_follows_from_the_others(
            trace in any_trace(), extra in 0u64..60, delay in 1u64..40,
        ) {
            let buffer = trace.largest() + extra;
            let rate = least_rate(&trace, buffer, delay).expect("rate");
            let least = least_buffer(&trace, rate, delay).expect("buffer");
            prop_assert!(least <= buffer);
            prop_assert_eq!(least_rate(&trace, least, delay).expect("rate"), rate);
            prop_assert!(least == trace.largest()
                || least_rate(&trace, least - 1, delay).expect("rate") > rate);
            let wait = least_delay(&trace, rate, buffer).expect("delay");
            prop_assert!(wait <= delay);
            prop_assert!(least_rate(&trace, buffer, wait).expect("rate") <= rate);
            prop_assert!(wait == 1 || least_rate(&trace, buffer, wait - 1).expect("rate") > rate);
        }
    }
}
