//! A schedule file, judged on a video.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use towpath_media::Stop;
use towpath_media::plan::Video;
use towpath_media::schedule::{self, Checked, Schedule, Violation};
use towpath_media::trace::{DURATION_TICKS_MAX, Trace};

use super::figures::nanoseconds;
use crate::files::{BLOCK, Input, shown};
use crate::interrupt::Interrupt;
use crate::words::{bps_text, bytes_text, ns_text};

/// Bytes of a schedule file that are read: 85 for each line of the longest one.
const FILE_MAX: u64 = 850_000_000;

/// Reads a schedule file.
pub(crate) fn load(path: &Path, interrupt: &Interrupt) -> anyhow::Result<Schedule> {
    let name = shown(path);
    let mut input = Input::open(path, FILE_MAX + 1, interrupt).with_context(|| name.clone())?;
    let mut bytes = Vec::new();
    loop {
        let have = bytes.len();
        bytes.resize(have + BLOCK, 0);
        let filled =
            input.fill(&mut bytes[have..]).with_context(|| format!("cannot read {name}"))?;
        bytes.truncate(have + filled);
        if bytes.len() as u64 > FILE_MAX {
            bail!("{name}: more than {FILE_MAX} bytes, the limit of a schedule file");
        }
        if filled == 0 {
            break;
        }
    }
    schedule::parse(&bytes).with_context(|| format!("{name} is no schedule"))
}

/// What following a schedule shows.
pub(super) struct Verdict {
    schedule: Schedule,
    result: Result<Checked, Violation>,
    /// What it takes; none where it is no schedule for this video at all.
    needs: Option<Needs>,
}

/// What it takes to follow a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Needs {
    /// Least buffer in bytes at the schedule's start-up delay; none where that is too short.
    buffer: Option<u64>,
    /// Least start-up delay in ticks.
    delay: u64,
    /// Least buffer in bytes at that.
    delay_buffer: u64,
}

impl Verdict {
    pub(super) fn of(trace: &Trace, schedule: &Schedule, stop: Stop<'_>) -> Self {
        let result = schedule.check_until(trace, stop);
        Self { schedule: schedule.clone(), result, needs: needs(trace, schedule, stop) }
    }

    pub(super) const fn does(&self) -> bool {
        self.result.is_ok()
    }

    /// Why it does not do, in words.
    pub(super) fn fault(&self, video: &Video) -> Option<String> {
        let (unit, schedule, trace) = (video.unit, &self.schedule, &video.trace);
        let text = match self.result.err()? {
            Violation::Starved { group, sent, needed } => {
                format!(
                    "{unit} {group} starves: {sent} of {needed} bytes are sent when it is due{}",
                    planned_at(video)
                )
            }
            Violation::Overflow { group, bytes, buffer } => format!(
                "the buffer overflows before {unit} {group} leaves: {bytes} bytes, it holds \
                 {buffer}{}",
                match self.needs.and_then(|needs| needs.buffer) {
                    Some(least) => format!(
                        "\nhint: a buffer of {least} bytes does at its start-up delay \
                         (buffer_bytes in the schedule)"
                    ),
                    None => planned_at(video),
                }
            ),
            Violation::Mismatch { .. } if schedule.ticks_per_second != trace.ticks_per_second() => {
                format!(
                    "it is not for this video: it counts {} ticks per second, the video {}\n\
                     hint: --fps, --pcr and --program as they were when it was planned",
                    schedule.ticks_per_second,
                    trace.ticks_per_second()
                )
            }
            Violation::Mismatch { .. } if schedule.total != trace.total() => format!(
                "it is not for this video: it delivers {} bytes, the video has {}",
                schedule.total,
                trace.total()
            ),
            violation => violation.to_string(),
        };
        Some(text)
    }

    pub(super) fn text(&self, video: &Video) -> String {
        let (trace, schedule) = (&video.trace, &self.schedule);
        let time = |ticks: u64| ns_text(nanoseconds(trace, ticks).try_into().unwrap_or(u64::MAX));
        let peak = schedule.peak.ceil(schedule.ticks_per_second).as_bps();
        let mut lines = vec![
            ("scheme", schedule.scheme.to_string()),
            ("peak rate", bps_text(peak)),
            ("buffer", bytes_text(schedule.buffer)),
            ("start-up delay", time(schedule.delay)),
        ];
        if let Ok(checked) = &self.result {
            lines.push(("changes of rate", checked.changes.to_string()));
            lines.push(("last byte sent after", time(checked.finish)));
        }
        if let Some(needs) = &self.needs {
            if let Some(buffer) = needs.buffer {
                lines.push(("least buffer", bytes_text(buffer)));
            }
            let buffer = bytes_text(needs.delay_buffer);
            lines.push((
                "least start-up delay",
                format!("{}, with a buffer of {buffer}", time(needs.delay)),
            ));
        }
        let does = if self.does() { "it does" } else { "it does not" };
        lines.push(("verdict", does.to_string()));
        let mut text = String::new();
        for (what, value) in lines {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {what:<22}{value}");
        }
        text
    }

    pub(super) fn json(&self, file: &str, video: &Video) -> Value {
        let (trace, schedule) = (&video.trace, &self.schedule);
        let group = match self.result {
            Err(Violation::Starved { group, .. } | Violation::Overflow { group, .. }) => {
                Some(group)
            }
            _ => None,
        };
        let delay = |ticks: u64| json!({ "ticks": ticks, "s": trace.seconds(ticks) });
        let checked = self.result.ok();
        json!({
            "schema": 1,
            "file": file,
            "what": video.what(),
            "scheme": schedule.scheme.name(),
            "peak_bps": schedule.peak.bps(schedule.ticks_per_second),
            "buffer_bytes": schedule.buffer,
            "delay": delay(schedule.delay),
            "feasible": self.does(),
            "why": self.fault(video),
            "group": group,
            "changes": checked.map(|c| c.changes),
            "slack_bytes": checked.map(|c| c.slack),
            "finish": checked.map(|c| delay(c.finish)),
            "least_buffer_bytes": self.needs.and_then(|n| n.buffer),
            "least_delay": self.needs.map(|n| delay(n.delay)),
            "least_delay_buffer_bytes": self.needs.map(|n| n.delay_buffer),
        })
    }
}

/// A schedule does not tell the frame rate that it was planned at.
fn planned_at(video: &Video) -> String {
    let Some(rate) = video.frame_rate else { return String::new() };
    format!(
        "\nhint: it is judged at {} frames per second; planned at another rate? (--fps)",
        rate.per_second()
    )
}

/// None where no delay within the limits is enough, or it is no schedule for this video.
fn needs(trace: &Trace, schedule: &Schedule, stop: Stop<'_>) -> Option<Needs> {
    let mut free = Schedule { buffer: u64::MAX, ..schedule.clone() };
    let mut buffer_at = |delay: u64| {
        free.delay = delay;
        free.check_until(trace, stop).map(|checked| checked.buffer)
    };
    let buffer = match buffer_at(schedule.delay) {
        Ok(buffer) => Some(buffer),
        Err(Violation::Starved { .. }) => None,
        Err(_) => return None,
    };
    // When all is sent no frame starves; a longer wait never starves one that a shorter did not.
    let sent = schedule.points().last()?.ticks + 1.0;
    let mut enough = (sent as u64).clamp(1, DURATION_TICKS_MAX);
    let mut delay_buffer = buffer_at(enough).ok()?;
    let mut short = 0;
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        match buffer_at(middle) {
            Ok(buffer) => (enough, delay_buffer) = (middle, buffer),
            Err(Violation::TooFine(_)) => return None,
            Err(_) => short = middle,
        }
    }
    Some(Needs { buffer, delay: enough, delay_buffer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_media::schedule::cbr;
    use towpath_media::trace::{ExactRate, FrameRate};

    /// 4, 2, 6 bytes a second apart at 3 B/s: the first needs 4/3 s, all twelve 4 s, 2 after the
    /// first, so 2 s of delay; then 6 bytes are there before the first leaves.
    #[test]
    fn least_buffer_and_delay_by_hand() {
        let trace = Trace::uniform([4, 2, 6], FrameRate::new(1, 1).unwrap()).unwrap();
        let hz = trace.ticks_per_second();
        let rate = ExactRate::new(3, hz.into()).unwrap();
        let schedule = cbr::schedule(&trace, rate, 3 * hz).unwrap();
        let verdict = Verdict::of(&trace, &schedule, Stop::NEVER);
        assert!(verdict.does());
        // Three seconds: 9 bytes before the first leaves.
        let needs = Needs { buffer: Some(9), delay: 2 * hz, delay_buffer: 6 };
        assert_eq!(verdict.needs, Some(needs));
        let short = Schedule { delay: hz, ..schedule.clone() };
        let verdict = Verdict::of(&trace, &short, Stop::NEVER);
        assert!(matches!(verdict.result, Err(Violation::Starved { group: 1, .. })));
        assert_eq!(verdict.needs, Some(Needs { buffer: None, ..needs }));
        let other = Trace::uniform([4, 2, 7], FrameRate::new(1, 1).unwrap()).unwrap();
        assert_eq!(Verdict::of(&other, &schedule, Stop::NEVER).needs, None);
    }
}
