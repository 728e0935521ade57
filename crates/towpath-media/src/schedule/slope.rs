//! The steepest stretches of a consumption curve: where the least rates come from.

use super::ScheduleError;
use crate::trace::{DURATION_TICKS_MAX, ExactRate, Trace};

pub(crate) fn check_delay(delay: u64) -> Result<(), ScheduleError> {
    match delay {
        0 => Err(ScheduleError::NoDelay),
        1..=DURATION_TICKS_MAX => Ok(()),
        _ => Err(ScheduleError::DelayTooLong { ticks: delay, limit: DURATION_TICKS_MAX }),
    }
}

/// The stretch of groups that most exceeds a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// `max over m ≤ n of rate.ticks·(sums[n+1] − sums[m]) − rate.bytes·(times[n] − times[m])`:
    /// bytes by which consumption outruns the rate, in units of `1 / rate.ticks` byte.
    pub(super) excess: i128,
    /// First group of the stretch.
    from: usize,
    /// Last group.
    to: usize,
}

/// The stretch with the greatest excess over `rate`: one pass.
///
/// No overflow: parts of a rate ≤ 2^62, bytes and ticks ≤ 2^52.
pub(super) fn worst_stretch(trace: &Trace, rate: ExactRate) -> Stretch {
    let (p, q) = (i128::from(rate.bytes()), i128::from(rate.ticks()));
    let mut worst = Stretch { excess: i128::MIN, from: 0, to: 0 };
    let mut lowest = i128::MAX;
    let mut lowest_at = 0;
    for (index, (pair, &time)) in trace.sums().windows(2).zip(trace.times()).enumerate() {
        let drained = p * i128::from(time);
        let before = q * i128::from(pair[0]) - drained;
        if before < lowest {
            (lowest, lowest_at) = (before, index);
        }
        let excess = q * i128::from(pair[1]) - drained - lowest;
        if excess > worst.excess {
            worst = Stretch { excess, from: lowest_at, to: index };
        }
    }
    worst
}

/// As [`worst_stretch`], in floats: a good guess where to look, four times as fast.
fn worst_stretch_guess(trace: &Trace, rate: f64) -> Stretch {
    let mut worst = (f64::MIN, 0, 0);
    let (mut lowest, mut lowest_at) = (f64::MAX, 0);
    for (index, (pair, &time)) in trace.sums().windows(2).zip(trace.times()).enumerate() {
        // Below 2^52 the conversion of i64 is exact, and cheaper than that of u64.
        let drained = rate * time.cast_signed() as f64;
        let before = pair[0].cast_signed() as f64 - drained;
        if before < lowest {
            (lowest, lowest_at) = (before, index);
        }
        let excess = pair[1].cast_signed() as f64 - drained - lowest;
        if excess > worst.0 {
            worst = (excess, lowest_at, index);
        }
    }
    Stretch { excess: 0, from: worst.1, to: worst.2 }
}

/// `max over m ≤ n of (sums[n+1] − sums[m] − credit) / (delay + times[n] − times[m])`, but at least
/// `floor`: the least rate at which no stretch of groups, started when its first group is `delay`
/// before its due time with `credit` bytes in hand, is late.
///
/// Dinkelbach's method: the excess over the best ratio found so far is maximised; if it is
/// positive its stretch has a better ratio. Floats find the stretch, integers confirm it.
pub(super) fn steepest(trace: &Trace, credit: u64, delay: u64, floor: ExactRate) -> ExactRate {
    let ratio = |stretch: Stretch| {
        let bytes = trace.sums()[stretch.to + 1] - trace.sums()[stretch.from];
        let ticks = delay + trace.times()[stretch.to] - trace.times()[stretch.from];
        // A stretch of one group needs no rate where the credit covers it.
        let bytes = bytes.saturating_sub(credit);
        ExactRate::new(u128::from(bytes), u128::from(ticks.max(1))).expect("within limits")
    };
    let mut best = floor;
    loop {
        let guess = ratio(worst_stretch_guess(trace, best.bytes() as f64 / best.ticks() as f64));
        if guess <= best {
            break;
        }
        best = guess;
    }
    loop {
        let worst = worst_stretch(trace, best);
        let allowed = i128::from(best.ticks()) * i128::from(credit)
            + i128::from(best.bytes()) * i128::from(delay);
        if worst.excess <= allowed {
            return best;
        }
        best = ratio(worst);
    }
}

/// `max over n of sums[n+1] / (delay + times[n])`: the steepest line from the start of delivery to
/// the consumption curve (first source, §4.2, by the hull; one pass does).
pub(super) fn steepest_from_start(trace: &Trace, delay: u64) -> ExactRate {
    let (mut bytes, mut ticks) = (0u64, 1u64);
    for (&sum, &time) in trace.sums()[1..].iter().zip(trace.times()) {
        let due = delay + time;
        if u128::from(sum) * u128::from(ticks) > u128::from(bytes) * u128::from(due) {
            (bytes, ticks) = (sum, due);
        }
    }
    ExactRate::new(u128::from(bytes), u128::from(ticks)).expect("within limits")
}

/// Least delay in ticks at which a constant `rate > 0` from the start is never late:
/// `max over n of sums[n+1] / rate − times[n]`, rounded up; at least 1.
pub(super) fn delay_from_start(trace: &Trace, rate: ExactRate) -> u128 {
    let (p, q) = (i128::from(rate.bytes()), i128::from(rate.ticks()));
    let sums = trace.sums()[1..].iter();
    let late =
        sums.zip(trace.times()).map(|(&sum, &time)| q * i128::from(sum) - p * i128::from(time));
    late.max().map_or(1, |late| (late.max(1) as u128).div_ceil(p as u128))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{any_trace, rate};
    use proptest::prelude::*;

    fn brute(trace: &Trace, credit: u64, delay: u64) -> ExactRate {
        let mut best = ExactRate::ZERO;
        for to in 0..trace.groups() {
            for from in 0..=to {
                let bytes = trace.sums()[to + 1] - trace.sums()[from];
                let ticks = delay + trace.times()[to] - trace.times()[from];
                if bytes > credit {
                    best = best.max(rate(bytes - credit, ticks));
                }
            }
        }
        best
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn the_steepest_stretch_is_the_steepest(
            trace in any_trace(), delay in 1u64..40, extra in 0u64..50,
        ) {
            prop_assert_eq!(steepest(&trace, 0, delay, ExactRate::ZERO), brute(&trace, 0, delay));
            let buffer = trace.largest() + extra;
            prop_assert_eq!(steepest(&trace, buffer, 0, ExactRate::ZERO), brute(&trace, buffer, 0));
        }

        #[test]
        fn the_line_from_the_start_is_the_least(trace in any_trace(), delay in 1u64..40) {
            let least = steepest_from_start(&trace, delay);
            let late = |r: ExactRate| (0..trace.groups()).any(|n| {
                u128::from(trace.sums()[n + 1]) * u128::from(r.ticks())
                    > u128::from(r.bytes()) * u128::from(delay + trace.times()[n])
            });
            prop_assert!(!late(least) && late(least.scaled(999_999, 1_000_000).expect("rate")));
            prop_assert!(delay_from_start(&trace, least) <= u128::from(delay));
        }
    }

    #[test]
    fn a_guess_is_the_worst_stretch_where_floats_tell() {
        let groups = [(1, 30), (1, 1), (2, 50), (1, 60), (3, 2), (1, 9)];
        let trace = crate::schedule::testing::trace(&groups).expect("a trace");
        for bytes in 1..80 {
            let exact = worst_stretch(&trace, rate(bytes, 2));
            let guess = worst_stretch_guess(&trace, bytes as f64 / 2.0);
            assert_eq!((guess.from, guess.to), (exact.from, exact.to), "{bytes} in 2");
        }
    }
}
