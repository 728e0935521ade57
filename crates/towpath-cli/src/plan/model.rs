//! The question as it is asked, and what is said about it and its answer.

use anyhow::{anyhow, bail};
use towpath_media::Stop;
use towpath_media::plan::{
    Conventions, Given, Nearest, Question, QuestionError, Refusal, Solution, Video, Wish,
};
use towpath_media::schedule::{ScheduleError, Scheme};
use towpath_media::trace::{ExactRate, Trace};
use towpath_wire::{ByteSize, Rate};

use super::figures::{Figures, nanoseconds};
use super::rows::{Answer, Row, Solved};
use crate::interrupt::Interrupt;
use crate::units::Delay;
use crate::words::{DIGITS, bps_text, bytes_text, counted, ns_text};

/// The question as it is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) delay: Option<Delay>,
    pub(super) buffer: Option<ByteSize>,
    pub(super) rate: Option<Rate>,
    pub(super) conventions: Conventions,
}

impl Ask {
    /// The question for one video.
    pub(super) fn of(&self, trace: &Trace) -> anyhow::Result<Question> {
        let delay = self.delay.map(|delay| match delay {
            Delay::Time(time) => trace.ticks(time),
            Delay::Slots(slots) => slots.saturating_mul(slot(trace)),
        });
        let exact = |rate: Rate| {
            let beyond = || anyhow!("--rate {rate} is beyond what can be computed exactly");
            ExactRate::from_rate(rate, trace.ticks_per_second()).ok_or_else(beyond)
        };
        let rate = self.rate.map(exact).transpose()?;
        let given = Given { rate, buffer: self.buffer.map(ByteSize::as_bytes), delay };
        match Question::new(trace, given, self.conventions) {
            Ok(question) => Ok(question),
            Err(e @ QuestionError::NoDelay) => bail!("--startup 0: {e}\nhint: --startup 1ms"),
            Err(QuestionError::DelayTooLong { limit }) => {
                bail!("--startup is beyond the limit of {:.0} s", trace.seconds(limit))
            }
        }
    }
}

/// A question in words.
pub(super) fn asked(question: &Question, trace: &Trace) -> String {
    let Given { rate, buffer, delay } = question.wish.given();
    let mut given = Vec::new();
    if let Some(delay) = delay {
        let slots = trace.start_up(delay).thesis_slots.map_or(String::new(), |slots| {
            let text = format!("{slots:.2}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            format!(" ({text} slot{})", if text == "1" { "" } else { "s" })
        });
        given.push(format!("start-up delay {}{slots}", delay_text(trace, delay)));
    }
    if let Some(buffer) = buffer {
        given.push(format!("buffer {}", bytes_text(buffer)));
    }
    if let Some(rate) = rate {
        given.push(rate_text(trace, rate));
    }
    let sought = match question.wish {
        Wish::Delay(_) => "least rate, and the buffer that goes with it",
        Wish::Rate(_) => "least delay, and the buffer that goes with it",
        Wish::BufferDelay(..) => "least rate",
        Wish::RateDelay(..) => "least buffer",
        Wish::RateBuffer(..) => "least delay",
        Wish::All(..) => "whether that does",
    };
    let thesis = match question.conventions {
        Conventions::Exact => "",
        Conventions::Thesis => " (thesis mode)",
    };
    format!("given {}: {sought}{thesis}{}", given.join(", "), margins(question, trace))
}

/// Where all three are given: the least of each with the other two as they are.
fn margins(question: &Question, trace: &Trace) -> String {
    let Some(least) = question.margins(trace) else { return String::new() };
    let or_none = |text: Option<String>| text.unwrap_or("none".to_string());
    format!(
        "\nleast of each that does with the other two: {}, buffer {}, delay {}",
        or_none(least.rate.map(|rate| rate_text(trace, rate))),
        or_none(least.buffer.map(bytes_text)),
        or_none(least.delay.map(|ticks| delay_text(trace, ticks))),
    )
}

/// A rate for people, rounded up.
pub(super) fn rate_text(trace: &Trace, rate: ExactRate) -> String {
    bps_text(rate.ceil(trace.ticks_per_second()).as_bps())
}

/// A delay for people, rounded up.
pub(super) fn delay_text(trace: &Trace, ticks: u64) -> String {
    if ticks == 0 {
        return "0 s".to_string();
    }
    ns_text(u64::try_from(nanoseconds(trace, ticks)).unwrap_or(u64::MAX))
}

/// What each scheme needs, until an interrupt.
pub(super) fn answer(
    video: Video,
    question: Question,
    schemes: &[Scheme],
    interrupt: &Interrupt,
) -> anyhow::Result<Answer> {
    let (trace, stop) = (&video.trace, Stop::when(interrupt.flag()));
    let mut rows = Vec::new();
    for &scheme in schemes {
        let answer = question.solve(trace, scheme, stop).map(|solution| Solved {
            figures: figures(trace, &question, &solution, stop),
            solution,
        });
        if interrupt.is_set() {
            bail!("interrupted");
        }
        rows.push(Row { scheme, answer });
    }
    Ok(Answer { video, question, rows })
}

/// The first source's buffers are conventions, not what it takes.
fn figures(trace: &Trace, question: &Question, solution: &Solution, stop: Stop<'_>) -> Figures {
    match question.conventions {
        Conventions::Thesis => Figures::rounded(trace, &solution.plan, DIGITS),
        Conventions::Exact => Figures::of(trace, &solution.plan, question.wish, stop),
    }
}

/// What would do, as options, where no schedule at all does what is asked.
pub(super) fn nearest(trace: &Trace, question: &Question) -> Vec<String> {
    let option = |nearest: &Nearest| match *nearest {
        Nearest::Largest { group, bytes } => {
            format!("--buffer {bytes} (frame {group} has {bytes} bytes)")
        }
        Nearest::Rate(rate) => format!("--rate {}", rate.ceil(trace.ticks_per_second()).as_bps()),
        Nearest::Buffer(bytes) => format!("--buffer {bytes}"),
        Nearest::Delay(ticks) => format!("--startup {}", delay_option(trace, ticks)),
    };
    question.nearest(trace).iter().map(option).collect()
}

/// Ticks of a frame time; of the mean time between groups where they are not evenly spaced.
pub(super) fn slot(trace: &Trace) -> u64 {
    trace.slot().unwrap_or_else(|| (trace.duration() / trace.groups() as u64).max(1))
}

/// What else there is to say.
pub(super) fn note(solution: &Solution, question: &Question, video: &Video) -> String {
    if let Some(low) = solution.low() {
        return format!("low rate {}", rate_text(&video.trace, low));
    }
    if let Some(rate) = grid_rate(solution, question) {
        return format!("1 % grid {}", rate_text(&video.trace, rate));
    }
    let interval = solution.plan.interval.map(|n| counted(n as u64, video.unit.name()));
    interval.map_or(String::new(), |interval| format!("a rate per {interval}"))
}

/// The rate on the first source's grid, where it is not the rate itself.
pub(super) fn grid_rate(solution: &Solution, question: &Question) -> Option<ExactRate> {
    solution.plan.grid_rate.filter(|_| question.conventions == Conventions::Exact)
}

/// A refusal for a column of the table.
pub(super) fn short(refusal: Refusal, trace: &Trace) -> String {
    match refusal {
        Refusal::Cannot(ScheduleError::BufferTooSmall { least, .. }) => {
            format!("needs a buffer of at least {}", bytes_text(least))
        }
        Refusal::Cannot(ScheduleError::RateTooLow { least, .. }) => {
            format!("needs {}", bps_text(least.as_bps()))
        }
        Refusal::Cannot(ScheduleError::DelayTooShort { least, .. }) => {
            format!("needs a delay of {}", delay_text(trace, least))
        }
        other => other.to_string(),
    }
}

/// The nearest value that would do, as an option.
pub(super) fn hint(refusal: Refusal, trace: &Trace) -> Option<String> {
    let Refusal::Cannot(error) = refusal else { return None };
    match error {
        ScheduleError::BufferTooSmall { least, .. } => Some(format!("--buffer {least}")),
        ScheduleError::RateTooLow { least, .. } => Some(format!("--rate {}", least.as_bps())),
        ScheduleError::DelayTooShort { least, .. } => {
            Some(format!("--startup {}", delay_option(trace, least)))
        }
        _ => None,
    }
}

/// A delay as an option that means at least so many ticks.
fn delay_option(trace: &Trace, ticks: u64) -> String {
    let ns = nanoseconds(trace, ticks);
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_media::schedule::Violation;
    use towpath_media::trace::FrameRate;

    /// A schedule that fails its own check is a row of the table, not the end of the command.
    #[test]
    fn a_wrong_schedule_is_told_as_our_fault() {
        let trace = Trace::uniform([4, 2, 6], FrameRate::new(1, 1).unwrap()).unwrap();
        let refusal = Refusal::Wrong(Violation::Starved { group: 1, sent: 3, needed: 4 });
        assert!(short(refusal, &trace).starts_with("a fault of towpath"), "{refusal:?}");
        assert_eq!(hint(refusal, &trace), None);
    }
}
