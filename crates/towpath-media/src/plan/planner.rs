//! One question, every scheme.

use super::question::Given;
use crate::schedule::{
    Schedule, ScheduleError, Scheme, Violation, cba, cbr, ideal, pcbr, pcrtt, pdcbr, smooth, window,
};
use crate::stop::Stop;
use crate::trace::{DURATION_TICKS_MAX, ExactRate, Trace};

/// What is given; the planner finds the rest. Buffers in bytes, delays in ticks of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A start-up delay: least rate, then least buffer at it (for PDCBR the least buffer on its
    /// grid).
    Delay(u64),
    /// A rate: least delay, then least buffer.
    Rate(ExactRate),
    /// Buffer and delay: least rate.
    BufferDelay(u64, u64),
    /// Rate and delay: least buffer.
    RateDelay(ExactRate, u64),
    /// Rate and buffer: least delay.
    RateBuffer(ExactRate, u64),
    /// All three: whether it can be done, with least buffer.
    All(ExactRate, u64, u64),
}

impl Wish {
    /// What it fixes.
    pub const fn given(self) -> Given {
        let (rate, buffer, delay) = match self {
            Self::Delay(delay) => (None, None, Some(delay)),
            Self::Rate(rate) => (Some(rate), None, None),
            Self::BufferDelay(buffer, delay) => (None, Some(buffer), Some(delay)),
            Self::RateDelay(rate, delay) => (Some(rate), None, Some(delay)),
            Self::RateBuffer(rate, buffer) => (Some(rate), Some(buffer), None),
            Self::All(rate, buffer, delay) => (Some(rate), Some(buffer), Some(delay)),
        };
        Given { rate, buffer, delay }
    }
}

/// What a scheme needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The scheme.
    pub scheme: Scheme,
    /// Highest rate.
    pub rate: ExactRate,
    /// The rate that the first source's grid of 1 % finds, for PCBR where the rate was sought:
    /// [`pcbr::grid_rate`].
    pub grid_rate: Option<ExactRate>,
    /// Both rates, for PDCBR.
    pub dual: Option<pdcbr::DualRate>,
    /// Intervals of this many groups, for PCRTT.
    pub interval: Option<usize>,
    /// Bytes at the receiver at the fullest instant of [`Self::schedule`].
    pub buffer: u64,
    /// Bytes that the schedule may hold: `buffer`, or more where a buffer is given that its
    /// scheme does not fill.
    pub limit: u64,
    /// From the first bit to the first group's consumption, in ticks.
    pub delay: u64,
}

/// Finds what `scheme` needs to fulfil `wish`; an error tells the nearest value that would do.
///
/// Exact for all schemes, except where a rate is given for CBA and MCBA: their peak does not fall
/// evenly with buffer or delay, so a value that suffices is told, found by doubling and halving
/// from the exact lower bound.
pub fn plan(trace: &Trace, scheme: Scheme, wish: Wish) -> Result<Plan, ScheduleError> {
    plan_until(trace, scheme, wish, Stop::NEVER)
}

/// As [`plan`], unless it is told to stop.
pub fn plan_until(
    trace: &Trace,
    scheme: Scheme,
    wish: Wish,
    stop: Stop<'_>,
) -> Result<Plan, ScheduleError> {
    stop.check()?;
    if let Wish::Rate(rate) | Wish::RateDelay(rate, _) | Wish::RateBuffer(rate, _) = wish
        && rate.is_zero()
    {
        return Err(ScheduleError::RateRange { rate: rate.ceil(trace.ticks_per_second()) });
    }
    match scheme {
        Scheme::Cbr | Scheme::Pcbr => one_curve(trace, scheme, wish),
        Scheme::Pdcbr => dual(trace, wish, stop),
        Scheme::WindowPcbr | Scheme::Smooth => optimal(trace, scheme, wish, stop),
        Scheme::Cba | Scheme::Mcba => few_changes(trace, scheme, wish, stop),
        Scheme::Pcrtt => intervals(trace, wish, stop),
        Scheme::Ideal => reference(trace, wish),
    }
}

impl Plan {
    /// The schedule of this plan.
    pub fn schedule(&self, trace: &Trace) -> Result<Schedule, ScheduleError> {
        self.schedule_until(trace, Stop::NEVER)
    }

    /// As [`Self::schedule`], unless it is told to stop.
    pub fn schedule_until(&self, trace: &Trace, stop: Stop<'_>) -> Result<Schedule, ScheduleError> {
        let schedule = self.within_limit(trace, stop)?;
        Ok(match self.scheme {
            Scheme::WindowPcbr | Scheme::Smooth | Scheme::Cba | Scheme::Mcba => {
                Schedule { buffer: self.buffer, ..schedule }
            }
            _ => schedule,
        })
    }

    fn within_limit(&self, trace: &Trace, stop: Stop<'_>) -> Result<Schedule, ScheduleError> {
        let (rate, buffer, delay) = (self.rate, self.limit, self.delay);
        match self.scheme {
            Scheme::Cbr => cbr::schedule(trace, rate, delay),
            Scheme::Pcbr => pcbr::schedule(trace, rate, delay),
            Scheme::Pdcbr => pdcbr::schedule(trace, self.dual.ok_or(ScheduleError::NoPair)?, delay),
            Scheme::WindowPcbr => window::schedule(trace, rate, buffer, delay),
            Scheme::Smooth => smooth::schedule(trace, buffer, delay),
            Scheme::Cba | Scheme::Mcba => {
                cba::Allocator::new(trace, stop).schedule(self.scheme, buffer, delay)
            }
            Scheme::Pcrtt => pcrtt::schedule(trace, self.interval.unwrap_or(0), delay),
            Scheme::Ideal => ideal::schedule(trace, delay),
        }
    }

    fn simple(scheme: Scheme, rate: ExactRate, buffer: u64, delay: u64) -> Self {
        let (grid_rate, dual, interval) = (None, None, None);
        Self { scheme, rate, grid_rate, dual, interval, buffer, limit: buffer, delay }
    }

    /// With the buffer that the schedule fills, of the one that it may.
    fn filled(self, trace: &Trace, stop: Stop<'_>) -> Result<Self, ScheduleError> {
        match self.within_limit(trace, stop)?.check_until(trace, stop) {
            Ok(checked) => Ok(Self { buffer: checked.buffer, ..self }),
            Err(Violation::TooFine(error)) => Err(error),
            // Whoever follows the schedule is told.
            Err(_) => Ok(self),
        }
    }
}

/// Schemes whose delivery curve is given by the rate: more delay or more rate, more buffer.
fn one_curve(trace: &Trace, scheme: Scheme, wish: Wish) -> Result<Plan, ScheduleError> {
    let is_cbr = scheme == Scheme::Cbr;
    let least_rate = if is_cbr { cbr::least_rate } else { pcbr::least_rate };
    let least_delay = if is_cbr { cbr::least_delay } else { pcbr::least_delay };
    let buffer = if is_cbr { cbr::buffer } else { pcbr::buffer };
    let (rate, delay) = match wish {
        Wish::Delay(delay) | Wish::BufferDelay(_, delay) => (least_rate(trace, delay)?, delay),
        Wish::Rate(rate) | Wish::RateBuffer(rate, _) => (rate, least_delay(trace, rate)?),
        Wish::RateDelay(rate, delay) | Wish::All(rate, _, delay) => {
            not_below(trace, rate, least_rate(trace, delay)?)?;
            (rate, delay)
        }
    };
    let needed = buffer(trace, rate, delay);
    fits(wish, needed)?;
    let plan = Plan::simple(scheme, rate, needed, delay);
    match wish {
        Wish::Delay(_) | Wish::BufferDelay(..) if !is_cbr => {
            Ok(Plan { grid_rate: Some(pcbr::grid_rate(trace, delay)?), ..plan })
        }
        _ => Ok(plan),
    }
}

fn dual(trace: &Trace, wish: Wish, stop: Stop<'_>) -> Result<Plan, ScheduleError> {
    let choice = match wish {
        Wish::Delay(delay) => pdcbr::least_buffer(trace, delay, stop)?,
        Wish::Rate(rate) => pdcbr::least_delay_at(trace, rate, u64::MAX, stop)?,
        Wish::RateBuffer(rate, buffer) => pdcbr::least_delay_at(trace, rate, buffer, stop)?,
        Wish::BufferDelay(buffer, delay) => {
            let most = pcbr::mean_grid_rate(trace, delay)?;
            pdcbr::least_rate(trace, (buffer, delay), most, stop)?
        }
        Wish::RateDelay(rate, delay) => pdcbr::least_buffer_at(trace, rate, delay, u64::MAX, stop)?,
        Wish::All(rate, _, delay) => {
            let choice = pdcbr::least_buffer_at(trace, rate, delay, u64::MAX, stop)?;
            fits(wish, choice.buffer)?;
            choice
        }
    };
    let plan = Plan::simple(Scheme::Pdcbr, choice.rates.high(), choice.buffer, choice.delay);
    Ok(Plan { dual: Some(choice.rates), ..plan })
}

/// Schemes that reach `R*(B, P)`.
fn optimal(
    trace: &Trace,
    scheme: Scheme,
    wish: Wish,
    stop: Stop<'_>,
) -> Result<Plan, ScheduleError> {
    let (rate, limit, delay) = optimum(trace, wish)?;
    Plan::simple(scheme, rate, limit, delay).filled(trace, stop)
}

/// Rate, buffer that may be filled, and delay of any scheme that reaches `R*(B, P)`.
fn optimum(trace: &Trace, wish: Wish) -> Result<(ExactRate, u64, u64), ScheduleError> {
    let (rate, buffer, delay) = match wish {
        Wish::Delay(delay) => {
            let rate = cbr::least_rate(trace, delay)?;
            (rate, window::least_buffer(trace, rate, delay)?, delay)
        }
        Wish::Rate(rate) => {
            let delay = cbr::least_delay(trace, rate)?;
            (rate, window::least_buffer(trace, rate, delay)?, delay)
        }
        Wish::BufferDelay(buffer, delay) => {
            (window::least_rate(trace, buffer, delay)?, buffer, delay)
        }
        Wish::RateDelay(rate, delay) | Wish::All(rate, _, delay) => {
            (rate, window::least_buffer(trace, rate, delay)?, delay)
        }
        Wish::RateBuffer(rate, buffer) => (rate, buffer, window::least_delay(trace, rate, buffer)?),
    };
    fits(wish, buffer)?;
    Ok((rate, buffer, delay))
}

fn few_changes(
    trace: &Trace,
    scheme: Scheme,
    wish: Wish,
    stop: Stop<'_>,
) -> Result<Plan, ScheduleError> {
    let (_, least_buffer, least_delay) = optimum(trace, wish)?;
    let allocator = cba::Allocator::new(trace, stop);
    let peak = |buffer: u64, delay: u64| {
        allocator.schedule(scheme, buffer, delay).map(|schedule| schedule.peak)
    };
    let hz = trace.ticks_per_second();
    let too_low = |rate: ExactRate, buffer, delay| {
        let least = peak(buffer, delay).map_or_else(
            |e| e,
            |least| ScheduleError::RateTooLow { rate: rate.ceil(hz), least: least.ceil(hz) },
        );
        Err(least)
    };
    let (buffer, delay) = match wish {
        Wish::Delay(_) | Wish::BufferDelay(..) => (least_buffer, least_delay),
        Wish::Rate(rate) | Wish::RateBuffer(rate, _) => {
            // Waiting for longer than the film lasts brings nothing more.
            let most = least_delay.saturating_add(trace.duration()).min(DURATION_TICKS_MAX);
            match least_that(least_delay, most, |delay| Ok(peak(least_buffer, delay)? <= rate))? {
                Some(delay) => (least_buffer, delay),
                None => return too_low(rate, least_buffer, most),
            }
        }
        Wish::RateDelay(rate, delay) | Wish::All(rate, _, delay) => {
            let most = least_buffer.max(trace.total());
            match least_that(least_buffer, most, |buffer| Ok(peak(buffer, delay)? <= rate))? {
                Some(buffer) => (buffer, delay),
                None => return too_low(rate, most, delay),
            }
        }
    };
    let plan = Plan::simple(scheme, peak(buffer, delay)?, buffer, delay).filled(trace, stop)?;
    fits(wish, plan.buffer)?;
    Ok(plan)
}

/// The least value from `bound` to `most` that is `enough`, to within 1/64 of its distance from
/// `bound`; none where not even `most` is.
fn least_that(
    bound: u64,
    most: u64,
    enough: impl Fn(u64) -> Result<bool, ScheduleError>,
) -> Result<Option<u64>, ScheduleError> {
    if enough(bound)? {
        return Ok(Some(bound));
    }
    let room = most - bound;
    let mut step = (bound / 1024 + 1).min(room);
    while !enough(bound + step)? {
        if step == room {
            return Ok(None);
        }
        step = step.saturating_mul(2).min(room);
    }
    let (mut low, mut high) = (0, step);
    while high - low > 1 + high / 64 {
        let middle = low + (high - low) / 2;
        if enough(bound + middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(Some(bound + high))
}

fn intervals(trace: &Trace, wish: Wish, stop: Stop<'_>) -> Result<Plan, ScheduleError> {
    let Given { rate, buffer, delay } = wish.given();
    let bounds = pcrtt::Bounds { rate, buffer, delay };
    let (interval, found) = pcrtt::within(trace, bounds, stop)?;
    let plan = Plan::simple(Scheme::Pcrtt, found.peak, found.buffer, found.delay);
    Ok(Plan { interval: Some(interval), ..plan })
}

fn reference(trace: &Trace, wish: Wish) -> Result<Plan, ScheduleError> {
    let delay = match wish {
        Wish::Delay(delay)
        | Wish::BufferDelay(_, delay)
        | Wish::RateDelay(_, delay)
        | Wish::All(_, _, delay) => delay,
        Wish::Rate(_) | Wish::RateBuffer(..) => ideal::least_delay(trace),
    };
    let schedule = ideal::schedule(trace, delay)?;
    if let Wish::Rate(rate)
    | Wish::RateDelay(rate, _)
    | Wish::RateBuffer(rate, _)
    | Wish::All(rate, ..) = wish
    {
        not_below(trace, rate, schedule.peak)?;
    }
    fits(wish, schedule.buffer)?;
    Ok(Plan::simple(Scheme::Ideal, schedule.peak, schedule.buffer, delay))
}

fn fits(wish: Wish, least: u64) -> Result<(), ScheduleError> {
    match wish {
        Wish::BufferDelay(buffer, _) | Wish::RateBuffer(_, buffer) | Wish::All(_, buffer, _)
            if buffer < least =>
        {
            Err(ScheduleError::BufferTooSmall { buffer, least })
        }
        _ => Ok(()),
    }
}

fn not_below(trace: &Trace, rate: ExactRate, least: ExactRate) -> Result<(), ScheduleError> {
    if rate < least {
        let hz = trace.ticks_per_second();
        return Err(ScheduleError::RateTooLow { rate: rate.ceil(hz), least: least.ceil(hz) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::POSITION_UNIT;
    use crate::schedule::testing::{any_trace, even, rate};
    use crate::trace::{FrameRate, gcd};
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use towpath_wire::Rate;

    /// Bytes at the receiver just before the group leaves that leaves the most behind: each
    /// instant, each segment anew, in fractions.
    fn fullest(trace: &Trace, schedule: &Schedule) -> u128 {
        let unit = u128::from(POSITION_UNIT);
        let end = schedule.total * POSITION_UNIT;
        let lines = schedule.segments.iter().enumerate();
        let next = |k: usize| schedule.segments.get(k + 1).map_or(end, |s| s.position);
        // Start, parts of a byte before and in it, and the rate in parts.
        let lines: Vec<_> =
            lines.map(|(k, s)| (s.start, s.position, next(k) - s.position, s.rate)).collect();
        let held = |group: usize| {
            let due = u128::from(schedule.delay + trace.times()[group]);
            // Instant at which the segment before is done, as a fraction.
            let (mut num, mut den) = (0u128, 1u128);
            let mut sent = 0;
            for &(start, position, parts, rate) in &lines {
                if num < u128::from(start) * den {
                    (num, den) = (start.into(), 1);
                }
                if num >= due * den {
                    break;
                }
                let (p, q) = (u128::from(rate.bytes()) * unit, u128::from(rate.ticks()));
                let possible = ((due * den - num) * p).div_ceil(den * q);
                sent = u128::from(position) + possible.min(parts.into());
                (num, den) = (num * p + u128::from(parts) * q * den, den * p);
                let common = gcd(num, den);
                (num, den) = (num / common, den / common);
            }
            sent.div_ceil(unit) - u128::from(trace.sums()[group])
        };
        (0..trace.groups()).map(held).max().expect("a group")
    }

    /// Sizes 4, 2, 6, 6: with all the room there is, `R_CBR(2)` = 18/5 has sent 7.2, 10.8, 14.4
    /// and 18 bytes at 2, 3, 4 and 5; of these 0, 4, 6 and 12 have left.
    #[test]
    fn the_buffer_is_what_is_held_and_not_what_may_be() {
        let trace = even(1, &[4, 2, 6, 6]);
        for scheme in [Scheme::WindowPcbr, Scheme::Smooth, Scheme::Cba, Scheme::Mcba] {
            let plan = plan(&trace, scheme, Wish::BufferDelay(4_000_000, 2)).expect("plan");
            assert_eq!((plan.buffer, plan.limit), (9, 4_000_000), "{scheme}");
            assert_eq!(plan.schedule(&trace).expect("schedule").buffer, 9, "{scheme}");
        }
        let wish = Wish::RateBuffer(rate(18, 5), 4_000_000);
        assert_eq!(plan(&trace, Scheme::WindowPcbr, wish).map(|plan| plan.buffer), Ok(9));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Whatever is planned is a schedule that keeps its word and fulfils the wish.
        #[test]
        fn plans_can_be_carried_out(
            trace in any_trace(), delay in 1u64..40, buffer in 1u64..300,
            bytes in 1u64..60, ticks in 1u64..9,
        ) {
            let rate = ExactRate::new(u128::from(bytes), u128::from(ticks)).expect("rate");
            let wishes = [
                Wish::Delay(delay),
                Wish::Rate(rate),
                Wish::BufferDelay(buffer, delay),
                Wish::RateDelay(rate, delay),
                Wish::RateBuffer(rate, buffer),
                Wish::All(rate, buffer, delay),
            ];
            for scheme in Scheme::ALL {
                for wish in wishes {
                    let Ok(plan) = plan(&trace, scheme, wish) else { continue };
                    let sought = matches!(wish, Wish::Delay(_) | Wish::BufferDelay(..));
                    prop_assert_eq!(plan.grid_rate.is_some(), sought && scheme == Scheme::Pcbr);
                    prop_assert!(plan.grid_rate.is_none_or(|grid| grid >= plan.rate));
                    let schedule = plan.schedule(&trace).expect("a schedule");
                    let checked = schedule.check(&trace);
                    prop_assert!(checked.is_ok(), "{scheme} {wish:?}: {checked:?}");
                    let checked = checked.expect("feasible");
                    // PCRTT, too: its intervals' buffer is what it fills.
                    let held = fullest(&trace, &schedule);
                    prop_assert_eq!(held, u128::from(plan.buffer), "{} {:?}", scheme, wish);
                    prop_assert_eq!(schedule.buffer, plan.buffer, "{} {:?}", scheme, wish);
                    prop_assert!(plan.buffer <= plan.limit, "{scheme} {wish:?}");
                    prop_assert!(checked.peak <= plan.rate, "{scheme} {wish:?}");
                    prop_assert_eq!(schedule.delay, plan.delay);
                    if let Wish::Rate(most) | Wish::RateDelay(most, _) | Wish::RateBuffer(most, _)
                        | Wish::All(most, ..) = wish
                    {
                        prop_assert!(plan.rate <= most, "{scheme} {wish:?}");
                    }
                    if let Wish::BufferDelay(most, _) | Wish::RateBuffer(_, most)
                        | Wish::All(_, most, _) = wish
                    {
                        prop_assert!(plan.buffer <= most, "{scheme} {wish:?}");
                    }
                }
            }
        }

        /// What an error names as the least value indeed suffices, and one less does not.
        #[test]
        fn errors_tell_what_would_do(trace in any_trace(), delay in 1u64..40, buffer in 1u64..200) {
            use Scheme::{Cbr, Ideal, Pcbr, Smooth, WindowPcbr};
            for scheme in [Cbr, Pcbr, WindowPcbr, Smooth, Ideal] {
                let wish = |buffer| plan(&trace, scheme, Wish::BufferDelay(buffer, delay));
                if let Err(ScheduleError::BufferTooSmall { least, .. }) = wish(buffer) {
                    prop_assert!(wish(least).is_ok(), "{scheme}");
                    prop_assert!(wish(least - 1).is_err(), "{scheme}");
                }
            }
        }
    }

    /// The greedy schemes may stay above the least rate whatever the buffer: then they say so.
    #[test]
    fn a_rate_that_no_buffer_makes_possible_is_refused() {
        let sizes =
            [10, 21, 12, 11, 41, 33, 47, 29, 2, 19, 42, 46, 24, 23, 21, 28, 10, 6, 0, 5, 17, 5, 22];
        let trace = Trace::uniform(sizes, FrameRate::new(30, 1).unwrap()).unwrap();
        let delay = trace.slot().unwrap();
        for bps in (5_000..9_000).step_by(20) {
            let rate = ExactRate::from_rate(Rate::from_bps(bps), trace.ticks_per_second()).unwrap();
            for scheme in [Scheme::Cba, Scheme::Mcba] {
                for wish in
                    [Wish::RateDelay(rate, delay), Wish::Rate(rate), Wish::RateBuffer(rate, 60)]
                {
                    match plan(&trace, scheme, wish) {
                        Ok(plan) => assert!(plan.rate <= rate, "{scheme} {wish:?}"),
                        Err(e) => {
                            assert!(!matches!(e, ScheduleError::NoPair), "{scheme} {wish:?}: {e}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_least_value_is_found_closely_and_soon() {
        let mut asked = core::cell::Cell::new(0);
        for bound in [0, 1, 1000, 1 << 20, 1 << 40] {
            for room in [0, 1, 5, 1000, 1 << 20, 1 << 40] {
                for above in [0, 1, 2, 63, 64, 65, 1000, 4095, 1 << 19, 1 << 30, room, room + 1] {
                    let (least, most) = (bound + above, bound + room);
                    asked.set(0);
                    let found = least_that(bound, most, |value| {
                        asked.set(asked.get() + 1);
                        assert!((bound..=most).contains(&value));
                        Ok(value >= least)
                    });
                    let found = found.expect("no error");
                    assert_eq!(found.is_some(), least <= most, "{bound} + {above} of {room}");
                    let Some(found) = found.map(|found| found - bound) else { continue };
                    assert!(found >= above && found - above <= 1 + found / 64, "{found} {above}");
                    // As often as a step is doubled, and then halved to a 64th.
                    assert!(*asked.get_mut() <= 2 + 41 + 7, "{bound} + {above}: {asked:?} times");
                }
            }
        }
    }

    #[test]
    fn a_rate_does_from_the_least_on() {
        let trace = crate::schedule::testing::even(1, &[4, 2]);
        let rate = crate::schedule::testing::rate;
        assert_eq!(not_below(&trace, rate(3, 2), rate(3, 2)), Ok(()));
        assert_eq!(not_below(&trace, rate(8, 5), rate(3, 2)), Ok(()));
        let low = not_below(&trace, rate(7, 5), rate(3, 2));
        assert!(matches!(low, Err(ScheduleError::RateTooLow { .. })), "{low:?}");
        let none = window::least_delay(&trace, ExactRate::ZERO, 9);
        assert!(matches!(none, Err(ScheduleError::RateRange { .. })), "{none:?}");
    }
}
