//! A question about one video, and what each scheme answers: two of rate, buffer and start-up
//! delay give the third.

use alloc::vec::Vec;

use thiserror::Error;

use super::planner::{Plan, Wish, plan_until};
use super::questions::{Conventions, against_delay};
use crate::schedule::pdcbr::DualRate;
use crate::schedule::{Checked, Schedule, ScheduleError, Scheme, Violation, cbr, window};
use crate::stop::Stop;
use crate::trace::{DURATION_TICKS_MAX, ExactRate, Trace};

/// Start-up delay where none is given, in seconds.
const DELAY_S: u64 = 1;

/// What is given; delays in ticks of the trace, buffers in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The highest rate.
    pub rate: Option<ExactRate>,
    /// What the receiver can hold.
    pub buffer: Option<u64>,
    /// From the first bit to the first group.
    pub delay: Option<u64>,
}

/// A delay that no question can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuestionError {
    /// None at all.
    #[error("the first frame cannot arrive in no time")]
    NoDelay,
    /// Beyond exact arithmetic.
    #[error("start-up delay is beyond the limit of {limit} ticks")]
    DelayTooLong {
        /// The limit in ticks.
        limit: u64,
    },
}

/// The question for one video.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// What is sought.
    pub wish: Wish,
    /// Whose way to compute.
    pub conventions: Conventions,
    /// A buffer that is given although the wish does not hold it: that of curves.
    pub curve_buffer: Option<u64>,
}

impl Question {
    /// Of what is given, with a delay of a second where the question needs one.
    pub fn new(
        trace: &Trace,
        given: Given,
        conventions: Conventions,
    ) -> Result<Self, QuestionError> {
        let Given { rate, buffer, delay } = given;
        match delay {
            Some(0) => return Err(QuestionError::NoDelay),
            Some(DURATION_TICKS_MAX..) => {
                return Err(QuestionError::DelayTooLong { limit: DURATION_TICKS_MAX });
            }
            _ => {}
        }
        let default = DELAY_S * trace.ticks_per_second();
        let wish = match (rate, buffer, delay) {
            _ if conventions == Conventions::Thesis => Wish::Delay(delay.unwrap_or(default)),
            (None, None, delay) => Wish::Delay(delay.unwrap_or(default)),
            (None, Some(buffer), delay) => Wish::BufferDelay(buffer, delay.unwrap_or(default)),
            (Some(rate), None, None) => Wish::Rate(rate),
            (Some(rate), None, Some(delay)) => Wish::RateDelay(rate, delay),
            (Some(rate), Some(buffer), None) => Wish::RateBuffer(rate, buffer),
            (Some(rate), Some(buffer), Some(delay)) => Wish::All(rate, buffer, delay),
        };
        Ok(Self { wish, conventions, curve_buffer: buffer })
    }

    /// What `scheme` answers: its schedule is followed before it is given out.
    pub fn solve(
        &self,
        trace: &Trace,
        scheme: Scheme,
        stop: Stop<'_>,
    ) -> Result<Solution, Refusal> {
        let mut plan = planned(trace, scheme, self.wish, stop)?;
        if self.conventions == Conventions::Thesis {
            let row = against_delay(trace, plan.delay, Conventions::Thesis, stop)?;
            match scheme {
                Scheme::Cbr => plan.buffer = row.cbr.buffer,
                Scheme::Pcbr => (plan.rate, plan.buffer) = (row.pcbr.rate, row.pcbr.buffer),
                _ => {}
            }
        }
        let schedule = plan.schedule_until(trace, stop)?;
        let checked = followed(trace, &schedule, stop)?;
        let costs = Costs::of(trace, self, schedule.peak, plan.buffer, plan.delay);
        Ok(Solution { plan, schedule, checked, costs })
    }

    /// Where all three are given: the least of each that does with the other two.
    pub fn margins(&self, trace: &Trace) -> Option<Given> {
        let Wish::All(rate, buffer, delay) = self.wish else { return None };
        Some(Given {
            rate: window::least_rate(trace, buffer, delay).ok(),
            buffer: window::least_buffer(trace, rate, delay).ok(),
            delay: window::least_delay(trace, rate, buffer).ok(),
        })
    }

    /// What would do, one at a time, where no schedule at all does what is asked.
    pub fn nearest(&self, trace: &Trace) -> Vec<Nearest> {
        let Given { rate, buffer, delay } = self.wish.given();
        if let Some(buffer) = buffer
            && buffer < trace.largest()
        {
            let largest = (0..trace.groups()).find(|k| trace.size(*k) == trace.largest());
            let group = largest.map_or(0, |k| k + 1);
            return Vec::from([Nearest::Largest { group, bytes: trace.largest() }]);
        }
        let whole = buffer.unwrap_or(u64::MAX);
        let least_rate = match delay {
            Some(delay) => window::least_rate(trace, whole, delay),
            None => window::least_rate_for_buffer(trace, whole),
        };
        let mut options = Vec::new();
        let Some(rate) = rate else { return options };
        options.extend(least_rate.ok().map(Nearest::Rate));
        if let Some(delay) = delay
            && let (Some(buffer), Ok(least)) = (buffer, window::least_buffer(trace, rate, delay))
            && least > buffer
        {
            options.push(Nearest::Buffer(least));
        }
        let least_delay = window::least_delay(trace, rate, whole);
        match (delay, least_delay) {
            (None, Err(ScheduleError::BufferTooSmall { least, .. })) => {
                options.push(Nearest::Buffer(least));
            }
            (Some(delay), Ok(least)) if least > delay => options.push(Nearest::Delay(least)),
            _ => {}
        }
        options
    }
}

/// A value that would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// A buffer for the largest group.
    Largest {
        /// Which, from 1.
        group: usize,
        /// Its bytes.
        bytes: u64,
    },
    /// A rate.
    Rate(ExactRate),
    /// A buffer in bytes.
    Buffer(u64),
    /// A start-up delay in ticks.
    Delay(u64),
}

/// Plans as [`plan`](super::plan) does. Where all three are given, the greedy schemes may do it
/// although their search for the least buffer, which does not fall evenly with the rate, goes past
/// the one given.
pub fn planned(
    trace: &Trace,
    scheme: Scheme,
    wish: Wish,
    stop: Stop<'_>,
) -> Result<Plan, ScheduleError> {
    let found = plan_until(trace, scheme, wish, stop);
    if let (Wish::All(rate, buffer, delay), true, Err(_)) = (wish, scheme.is_greedy(), &found)
        && let Ok(direct) = plan_until(trace, scheme, Wish::BufferDelay(buffer, delay), stop)
        && direct.rate <= rate
    {
        return Ok(direct);
    }
    found
}

fn followed(trace: &Trace, schedule: &Schedule, stop: Stop<'_>) -> Result<Checked, Refusal> {
    schedule.check_until(trace, stop).map_err(|violation| match violation {
        Violation::TooFine(error) => Refusal::Cannot(error),
        violation => Refusal::Wrong(violation),
    })
}

/// What a scheme needs.
#[derive(Clone, Debug)]
pub struct Solution {
    /// Its plan; in the first source's conventions with that one's rate and buffer.
    pub plan: Plan,
    /// The schedule.
    pub schedule: Schedule,
    /// What following it showed.
    pub checked: Checked,
    /// How far it is from the optimum.
    pub costs: Costs,
}

impl Solution {
    /// The lower of two rates.
    pub fn low(&self) -> Option<ExactRate> {
        self.plan.dual.map(DualRate::low)
    }
}

/// How far from the optimum.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Peak over the least peak of any schedule with the buffer and the delay that were asked for.
    pub rate: Option<f64>,
    /// Buffer over the least one of any schedule at this peak and delay.
    pub buffer: Option<f64>,
    /// Ticks above the least delay of any schedule at this peak and the buffer asked for (its own
    /// where none was).
    pub delay: Option<u64>,
}

impl Costs {
    fn of(trace: &Trace, question: &Question, rate: ExactRate, buffer: u64, delay: u64) -> Self {
        let asked = question.wish.given().buffer;
        let least = match asked {
            Some(asked) => window::least_rate(trace, asked, delay),
            None => cbr::least_rate(trace, delay),
        };
        let least_buffer = window::least_buffer(trace, rate, delay);
        let least_delay = window::least_delay(trace, rate, asked.unwrap_or(buffer));
        Self {
            rate: least.ok().map(|least| rate.ratio(least)),
            buffer: least_buffer.ok().map(|least| buffer as f64 / least as f64),
            delay: least_delay.ok().map(|least| delay.saturating_sub(least)),
        }
    }
}

/// Why a scheme does not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It cannot be done.
    #[error(transparent)]
    Cannot(#[from] ScheduleError),
    /// The schedule that was planned fails when it is followed: a mistake of ours.
    #[error("a fault of towpath: its schedule fails when it is followed: {0}")]
    Wrong(Violation),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{even, rate};
    use core::sync::atomic::AtomicBool;

    /// A schedule that fails its own check is told as such, not the end of everything.
    #[test]
    fn a_wrong_schedule_is_our_fault() {
        let trace = even(1, &[4, 2, 6]);
        let good = cbr::schedule(&trace, rate(3, 1), 2).expect("schedule");
        assert!(followed(&trace, &good, Stop::NEVER).is_ok());
        let late = Schedule { delay: 1, ..good };
        assert!(matches!(followed(&trace, &late, Stop::NEVER), Err(Refusal::Wrong(_))));
    }

    #[test]
    fn what_is_given_and_what_is_sought() {
        let trace = even(1, &[4, 2, 6]);
        let exact = |given| Question::new(&trace, given, Conventions::Exact);
        let all = Given { rate: Some(rate(3, 1)), buffer: Some(6), delay: Some(2) };
        let question = exact(all).expect("question");
        assert_eq!(question.wish.given(), all);
        assert_eq!(question.margins(&trace), Some(all), "each is the least of its kind");
        let tight = exact(Given { buffer: Some(5), ..all }).expect("question");
        assert_eq!(tight.nearest(&trace), [Nearest::Largest { group: 3, bytes: 6 }]);
        let slow = Given { rate: Some(rate(5, 2)), buffer: None, ..all };
        let slow = exact(slow).expect("question");
        assert_eq!(slow.nearest(&trace), [Nearest::Rate(rate(3, 1)), Nearest::Delay(3)]);
        assert_eq!(exact(Given::default()).map(|q| q.wish), Ok(Wish::Delay(1)), "a second");
        let none = exact(Given { delay: Some(0), ..all }).map(|q| q.wish);
        assert_eq!(none, Err(QuestionError::NoDelay));
        let long = exact(Given { delay: Some(DURATION_TICKS_MAX), ..all }).map(|q| q.wish);
        assert!(matches!(long, Err(QuestionError::DelayTooLong { .. })));
    }

    /// Whatever is asked of whichever scheme, a flag that is set ends it before it begins.
    #[test]
    fn a_flag_ends_every_scheme() {
        let trace = even(1, &[4, 2, 6]);
        let (flag, given) = (AtomicBool::new(true), Given::default());
        let question = Question::new(&trace, given, Conventions::Exact).expect("question");
        for scheme in Scheme::ALL {
            assert!(question.solve(&trace, scheme, Stop::NEVER).is_ok(), "{scheme}");
            let stopped = question.solve(&trace, scheme, Stop::when(&flag)).map(|_| ());
            assert_eq!(stopped, Err(Refusal::Cannot(ScheduleError::Interrupted)), "{scheme}");
        }
    }

    /// All of a grid of rates, buffers and delays, by whether any schedule does with them.
    #[test]
    fn what_is_offered_does_and_nothing_less() {
        let trace = even(2, &[4, 2, 6, 1, 9, 3]);
        let does = |rate, buffer, delay| {
            window::least_rate(&trace, buffer, delay).is_ok_and(|least| least <= rate)
        };
        let mut seen = [0; 3];
        for (bytes, buffer, delay) in
            (1..14).flat_map(|r| (9..22).flat_map(move |b| (1..12).map(move |d| (r, b, d))))
        {
            let rate = rate(bytes, 4);
            let given = Given { rate: Some(rate), buffer: Some(buffer), delay: Some(delay) };
            let question = Question::new(&trace, given, Conventions::Exact).expect("question");
            let margins = question.margins(&trace).expect("all are given");
            let nearest = question.nearest(&trace);
            assert_eq!(nearest.iter().filter(|n| matches!(n, Nearest::Rate(_))).count(), 1);
            assert_eq!(margins.rate.is_some_and(|least| least <= rate), does(rate, buffer, delay));
            for option in nearest {
                match option {
                    Nearest::Rate(least) => {
                        seen[0] += 1;
                        assert_eq!(Some(least), margins.rate);
                        let less = least.scaled(999, 1000).expect("rate");
                        assert!(does(least, buffer, delay) && !does(less, buffer, delay));
                    }
                    Nearest::Buffer(least) => {
                        seen[1] += 1;
                        assert!(least > buffer && does(rate, least, delay));
                        assert!(!does(rate, least - 1, delay));
                    }
                    Nearest::Delay(least) => {
                        seen[2] += 1;
                        assert!(least > delay && does(rate, buffer, least));
                        assert!(!does(rate, buffer, least - 1));
                    }
                    Nearest::Largest { .. } => panic!("it fits"),
                }
            }
        }
        assert!(seen.iter().all(|&count| count > 10), "{seen:?}");
        // Without a delay, a buffer that is too small for the rate at any.
        let small = Given { rate: Some(rate(1, 1)), buffer: Some(9), delay: None };
        let small = Question::new(&trace, small, Conventions::Exact).expect("question");
        let [Nearest::Rate(least), Nearest::Buffer(bytes)] = small.nearest(&trace)[..] else {
            panic!("{:?}", small.nearest(&trace))
        };
        assert!(does(least, 9, 1000) && does(rate(1, 1), bytes, 1000));
        assert!(!does(rate(1, 1), bytes - 1, 1000));
    }

    #[test]
    fn only_two_rates_have_a_lower_one_and_the_thesis_counts_its_own_way() {
        let trace = even(1, &[4, 2, 6, 1, 9, 3]);
        let of = |scheme, conventions| {
            let given = Given { delay: Some(2), ..Given::default() };
            let question = Question::new(&trace, given, conventions).expect("question");
            question.solve(&trace, scheme, Stop::NEVER).expect("it can be done")
        };
        let dual = of(Scheme::Pdcbr, Conventions::Exact);
        let low = dual.low().expect("it has two");
        assert!(!low.is_zero() && low < dual.plan.rate);
        assert_eq!(of(Scheme::Cbr, Conventions::Exact).low(), None);
        let row = against_delay(&trace, 2, Conventions::Thesis, Stop::NEVER).expect("a row");
        let (cbr, pcbr) =
            (of(Scheme::Cbr, Conventions::Thesis), of(Scheme::Pcbr, Conventions::Thesis));
        assert_eq!(cbr.plan.buffer, row.cbr.buffer);
        assert_eq!((pcbr.plan.rate, pcbr.plan.buffer), (row.pcbr.rate, row.pcbr.buffer));
        assert_ne!(pcbr.plan.rate, of(Scheme::Pcbr, Conventions::Exact).plan.rate);
    }
}
