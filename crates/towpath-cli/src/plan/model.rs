//! What is asked of the library, and what it answers.

use anyhow::{anyhow, bail};
use towpath_media::plan::{Conventions, Wish, against_delay};
use towpath_media::schedule::pdcbr::DualRate;
use towpath_media::schedule::{Checked, Schedule, ScheduleError, Scheme, Violation, cbr, window};
use towpath_media::trace::{DURATION_TICKS_MAX, ExactRate, Trace};
use towpath_wire::{ByteSize, Rate};

use super::figures::{Figures, nanoseconds, planned};
use super::rows::{Answer, Row};
use super::source::Video;
use crate::interrupt::Interrupt;
use crate::units::Delay;
use crate::words::{DIGITS, bps_text, bytes_text, counted, ns_text};

/// Start-up delay where none is given, in seconds.
const DELAY_S: u64 = 1;

/// The question as it is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) delay: Option<Delay>,
    pub(super) buffer: Option<ByteSize>,
    pub(super) rate: Option<Rate>,
    pub(super) conventions: Conventions,
}

/// The question for one video.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) wish: Wish,
    pub(super) conventions: Conventions,
    /// A buffer that is given although the wish does not hold it: that of curves.
    pub(super) curve_buffer: Option<u64>,
}

impl Question {
    pub(super) fn new(trace: &Trace, ask: &Ask) -> anyhow::Result<Self> {
        let hz = trace.ticks_per_second();
        let delay = match ask.delay {
            Some(Delay::Time(time)) => Some(trace.ticks(time)),
            Some(Delay::Slots(slots)) => Some(slots.saturating_mul(slot(trace))),
            None => None,
        };
        match delay {
            Some(0) => {
                bail!("--startup 0: the first frame cannot arrive in no time\nhint: --startup 1ms")
            }
            Some(ticks) if ticks >= DURATION_TICKS_MAX => {
                bail!("--startup is beyond the limit of {:.0} s", trace.seconds(DURATION_TICKS_MAX))
            }
            _ => {}
        }
        let exact = |rate: Rate| {
            let beyond = || anyhow!("--rate {rate} is beyond what can be computed exactly");
            ExactRate::from_rate(rate, hz).ok_or_else(beyond)
        };
        let rate = ask.rate.map(exact).transpose()?;
        let buffer = ask.buffer.map(ByteSize::as_bytes);
        let default = DELAY_S * hz;
        let wish = match (rate, buffer, delay) {
            _ if ask.conventions == Conventions::Thesis => Wish::Delay(delay.unwrap_or(default)),
            (None, None, delay) => Wish::Delay(delay.unwrap_or(default)),
            (None, Some(buffer), delay) => Wish::BufferDelay(buffer, delay.unwrap_or(default)),
            (Some(rate), None, None) => Wish::Rate(rate),
            (Some(rate), None, Some(delay)) => Wish::RateDelay(rate, delay),
            (Some(rate), Some(buffer), None) => Wish::RateBuffer(rate, buffer),
            (Some(rate), Some(buffer), Some(delay)) => Wish::All(rate, buffer, delay),
        };
        Ok(Self { wish, conventions: ask.conventions, curve_buffer: buffer })
    }

    /// Rate, buffer and delay, where they are fixed.
    pub(super) const fn fixed(&self) -> (Option<ExactRate>, Option<u64>, Option<u64>) {
        match self.wish {
            Wish::Delay(delay) => (None, None, Some(delay)),
            Wish::Rate(rate) => (Some(rate), None, None),
            Wish::BufferDelay(buffer, delay) => (None, Some(buffer), Some(delay)),
            Wish::RateDelay(rate, delay) => (Some(rate), None, Some(delay)),
            Wish::RateBuffer(rate, buffer) => (Some(rate), Some(buffer), None),
            Wish::All(rate, buffer, delay) => (Some(rate), Some(buffer), Some(delay)),
        }
    }

    /// In words.
    pub(super) fn text(&self, trace: &Trace) -> String {
        let (rate, buffer, delay) = self.fixed();
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
        let sought = match self.wish {
            Wish::Delay(_) => "least rate, and the buffer that goes with it",
            Wish::Rate(_) => "least delay, and the buffer that goes with it",
            Wish::BufferDelay(..) => "least rate",
            Wish::RateDelay(..) => "least buffer",
            Wish::RateBuffer(..) => "least delay",
            Wish::All(..) => "whether that does",
        };
        let thesis = match self.conventions {
            Conventions::Exact => "",
            Conventions::Thesis => " (thesis mode)",
        };
        format!("given {}: {sought}{thesis}{}", given.join(", "), self.margins(trace))
    }

    /// Where all three are given: the least of each with the other two as they are.
    fn margins(&self, trace: &Trace) -> String {
        let Wish::All(rate, buffer, delay) = self.wish else { return String::new() };
        let or_none = |text: Option<String>| text.unwrap_or("none".to_string());
        let least_rate = window::least_rate(trace, buffer, delay).ok();
        let least_buffer = window::least_buffer(trace, rate, delay).ok();
        let least_delay = window::least_delay(trace, rate, buffer).ok();
        format!(
            "\nleast of each that does with the other two: {}, buffer {}, delay {}",
            or_none(least_rate.map(|rate| rate_text(trace, rate))),
            or_none(least_buffer.map(bytes_text)),
            or_none(least_delay.map(|ticks| delay_text(trace, ticks))),
        )
    }
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

/// What each scheme needs; `interrupt` ends it between two of them.
pub(super) fn answer(
    video: Video,
    question: Question,
    schemes: &[Scheme],
    interrupt: &Interrupt,
) -> anyhow::Result<Answer> {
    let mut rows = Vec::new();
    for scheme in schemes {
        if interrupt.is_set() {
            bail!("interrupted");
        }
        rows.push(Row { scheme: *scheme, answer: solve(&video.trace, *scheme, &question) });
    }
    Ok(Answer { video, question, rows })
}

fn solve(trace: &Trace, scheme: Scheme, question: &Question) -> Result<Solution, Refusal> {
    let mut plan = planned(trace, scheme, question.wish)?;
    let thesis = question.conventions == Conventions::Thesis;
    if thesis {
        let row = against_delay(trace, plan.delay, Conventions::Thesis)?;
        match scheme {
            Scheme::Cbr => plan.buffer = row.cbr.buffer,
            Scheme::Pcbr => (plan.rate, plan.buffer) = (row.pcbr.rate, row.pcbr.buffer),
            _ => {}
        }
    }
    let schedule = plan.schedule(trace)?;
    let checked = followed(trace, &schedule)?;
    // Its buffers are conventions, not what it takes.
    let figures = if thesis {
        Figures::rounded(trace, &plan, DIGITS)
    } else {
        Figures::of(trace, &plan, question.wish)
    };
    let costs = Costs::of(trace, question, schedule.peak, plan.buffer, plan.delay);
    Ok(Solution {
        schedule,
        buffer: plan.buffer,
        figures,
        grid_rate: plan.grid_rate.filter(|_| !thesis),
        low: plan.dual.map(DualRate::low),
        interval: plan.interval,
        changes: checked.changes,
        costs,
    })
}

/// Each schedule is followed before its row is printed.
fn followed(trace: &Trace, schedule: &Schedule) -> Result<Checked, Refusal> {
    schedule.check(trace).map_err(|violation| match violation {
        Violation::TooFine(error) => Refusal::Cannot(error),
        violation => Refusal::Wrong(violation),
    })
}

/// What would do, as options, where no schedule at all does what is asked.
pub(super) fn nearest(trace: &Trace, question: &Question) -> Vec<String> {
    let hz = trace.ticks_per_second();
    let (rate, buffer, delay) = question.fixed();
    if let Some(buffer) = buffer
        && buffer < trace.largest()
    {
        let largest = (0..trace.groups()).find(|k| trace.size(*k) == trace.largest());
        let (number, bytes) = (largest.map_or(0, |k| k + 1), trace.largest());
        return vec![format!("--buffer {bytes} (frame {number} has {bytes} bytes)")];
    }
    let whole = buffer.unwrap_or(u64::MAX);
    let least_rate = match delay {
        Some(delay) => window::least_rate(trace, whole, delay),
        None => window::least_rate_for_buffer(trace, whole),
    };
    let mut options = Vec::new();
    let Some(rate) = rate else { return options };
    if let Ok(least) = least_rate {
        options.push(format!("--rate {}", least.ceil(hz).as_bps()));
    }
    if let Some(delay) = delay
        && let (Some(buffer), Ok(least)) = (buffer, window::least_buffer(trace, rate, delay))
        && least > buffer
    {
        options.push(format!("--buffer {least}"));
    }
    if delay.is_none()
        && let Err(ScheduleError::BufferTooSmall { least, .. }) =
            window::least_delay(trace, rate, whole)
    {
        options.push(format!("--buffer {least}"));
    }
    if let Some(delay) = delay
        && let Ok(least) = window::least_delay(trace, rate, whole)
        && least > delay
    {
        options.push(format!("--startup {}", delay_option(trace, least)));
    }
    options
}

/// Ticks of a frame time; of the mean time between groups where they are not evenly spaced.
pub(super) fn slot(trace: &Trace) -> u64 {
    trace.slot().unwrap_or_else(|| (trace.duration() / trace.groups() as u64).max(1))
}

/// What a scheme needs.
#[derive(Clone, Debug)]
pub(super) struct Solution {
    pub(super) schedule: Schedule,
    /// Bytes that the receiver must hold.
    pub(super) buffer: u64,
    /// Rate, buffer and delay as they are printed.
    pub(super) figures: Figures,
    /// The rate on the first source's grid.
    pub(super) grid_rate: Option<ExactRate>,
    /// The lower of two rates.
    pub(super) low: Option<ExactRate>,
    /// Groups per interval of one rate.
    pub(super) interval: Option<usize>,
    /// Changes of rate, a pause counting as two.
    pub(super) changes: usize,
    pub(super) costs: Costs,
}

/// How far from the optimum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// Peak over the least peak of any schedule with the buffer and the delay that were asked for.
    pub(super) rate: Option<f64>,
    /// Buffer over the least one of any schedule at this peak and delay.
    pub(super) buffer: Option<f64>,
    /// Ticks above the least delay of any schedule at this peak and the buffer asked for (its own
    /// where none was).
    pub(super) delay: Option<u64>,
}

impl Costs {
    fn of(trace: &Trace, question: &Question, rate: ExactRate, buffer: u64, delay: u64) -> Self {
        let (_, asked, _) = question.fixed();
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

impl Solution {
    /// What else there is to say.
    pub(super) fn note(&self, video: &Video) -> String {
        if let Some(low) = self.low {
            return format!("low rate {}", rate_text(&video.trace, low));
        }
        if let Some(rate) = self.grid_rate {
            return format!("1 % grid {}", rate_text(&video.trace, rate));
        }
        let interval = self.interval.map(|n| counted(n as u64, video.unit));
        interval.map_or(String::new(), |interval| format!("a rate per {interval}"))
    }
}

/// Why a scheme does not do it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    /// It cannot be done.
    Cannot(ScheduleError),
    /// The schedule that was planned fails when it is followed: a mistake of ours.
    Wrong(Violation),
}

impl From<ScheduleError> for Refusal {
    fn from(error: ScheduleError) -> Self {
        Self::Cannot(error)
    }
}

impl Refusal {
    /// For a column of the table.
    pub(super) fn short(self, trace: &Trace) -> String {
        match self {
            Self::Cannot(ScheduleError::BufferTooSmall { least, .. }) => {
                format!("needs a buffer of at least {}", bytes_text(least))
            }
            Self::Cannot(ScheduleError::RateTooLow { least, .. }) => {
                format!("needs {}", bps_text(least.as_bps()))
            }
            Self::Cannot(ScheduleError::DelayTooShort { least, .. }) => {
                format!("needs a delay of {}", delay_text(trace, least))
            }
            other => other.text(),
        }
    }

    /// In full.
    pub(super) fn text(self) -> String {
        match self {
            Self::Cannot(error) => error.to_string(),
            Self::Wrong(violation) => {
                format!("a fault of towpath: its schedule fails when it is followed: {violation}")
            }
        }
    }

    /// The nearest value that would do, as an option.
    pub(super) fn hint(self, trace: &Trace) -> Option<String> {
        let Self::Cannot(error) = self else { return None };
        match error {
            ScheduleError::BufferTooSmall { least, .. } => Some(format!("--buffer {least}")),
            ScheduleError::RateTooLow { least, .. } => Some(format!("--rate {}", least.as_bps())),
            ScheduleError::DelayTooShort { least, .. } => {
                Some(format!("--startup {}", delay_option(trace, least)))
            }
            _ => None,
        }
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
    use towpath_media::trace::FrameRate;

    /// A schedule that fails its own check is a row of the table, not the end of the command.
    #[test]
    fn a_wrong_schedule_is_told_as_our_fault() {
        let trace = Trace::uniform([4, 2, 6], FrameRate::new(1, 1).unwrap()).unwrap();
        let hz = trace.ticks_per_second();
        let rate = ExactRate::new(3, hz.into()).unwrap();
        let good = cbr::schedule(&trace, rate, 2 * hz).unwrap();
        assert!(followed(&trace, &good).is_ok());
        let refusal = followed(&trace, &Schedule { delay: hz, ..good }).unwrap_err();
        assert!(matches!(refusal, Refusal::Wrong(_)));
        assert!(refusal.short(&trace).starts_with("a fault of towpath"), "{refusal:?}");
        assert_eq!(refusal.hint(&trace), None);
    }
}
