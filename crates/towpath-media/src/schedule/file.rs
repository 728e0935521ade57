//! Schedule files: a schedule as text that a sender can follow.
//!
//! ```text
//! towpath-schedule,1
//! scheme,pcbr
//! ticks_per_second,27000000
//! delay_ticks,2160000
//! buffer_bytes,6
//! total_bytes,12
//! start_tick,position_1024ths,rate_bytes,rate_ticks
//! 0,0,1,180000
//! 1080000,4096,1,180000
//! ```
//!
//! Each row after the titles is a [`Segment`]: from `position_1024ths / 1024` bytes on, send
//! `rate_bytes` every `rate_ticks`, not before `start_tick`. Blank lines and lines that begin with
//! `#` are comments.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use thiserror::Error;

use super::{POSITION_UNIT, Schedule, Scheme, Segment};
use crate::trace::{DURATION_TICKS_MAX, ExactRate, FRAMES_MAX, TOTAL_BYTES_MAX};

/// A schedule file that is not one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileError {
    /// Not text.
    #[error("byte {offset}: not ASCII text")]
    NotText {
        /// Offset of the first such byte.
        offset: usize,
    },
    /// It ends too early.
    #[error("the schedule ends before {what}")]
    Short {
        /// What is missing.
        what: &'static str,
    },
    /// A line that is not what must stand there.
    #[error("line {line}: expected {what}, found `{text}`")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What must stand there.
        what: &'static str,
        /// The line's beginning (at most 60 characters).
        text: String,
    },
    /// A value beyond its limit.
    #[error("line {line}: {what} {value} is more than the limit of {limit}")]
    Limit {
        /// Which line, from 1.
        line: usize,
        /// What.
        what: &'static str,
        /// The value.
        value: u64,
        /// The limit.
        limit: u64,
    },
}

const MAGIC: &str = "towpath-schedule,1";
const TITLES: &str = "start_tick,position_1024ths,rate_bytes,rate_ticks";
/// A segment for each group of the longest trace, and the start.
const SEGMENTS_MAX: usize = FRAMES_MAX + 1;
const HZ_MAX: u64 = 1 << 50;

/// The file of a schedule.
pub fn emit(schedule: &Schedule) -> String {
    let mut text = String::with_capacity(160 + 40 * schedule.segments.len());
    let written = write!(
        text,
        "{MAGIC}\nscheme,{}\nticks_per_second,{}\ndelay_ticks,{}\nbuffer_bytes,{}\n\
         total_bytes,{}\n{TITLES}\n",
        schedule.scheme, schedule.ticks_per_second, schedule.delay, schedule.buffer, schedule.total
    );
    written.expect("writing to a string");
    for Segment { start, position, rate } in &schedule.segments {
        let (bytes, ticks) = (rate.bytes(), rate.ticks());
        writeln!(text, "{start},{position},{bytes},{ticks}").expect("writing to a string");
    }
    text
}

/// Reads a schedule file. What it gives satisfies the invariants of [`Schedule`]; whether it serves
/// a trace tells [`Schedule::check`].
pub fn parse(bytes: &[u8]) -> Result<Schedule, FileError> {
    if let Some(offset) = bytes.iter().position(|b| !b.is_ascii()) {
        return Err(FileError::NotText { offset });
    }
    let text = core::str::from_utf8(bytes).expect("ASCII is UTF-8");
    let lines = text.lines().enumerate().map(|(index, text)| (index + 1, text.trim()));
    let mut lines = lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#'));
    let mut next = |what| lines.next().ok_or(FileError::Short { what });
    exactly(next("its first line")?, MAGIC, "`towpath-schedule,1`")?;
    let (line, text) = next("the scheme")?;
    let scheme = text.strip_prefix("scheme,").and_then(|name| name.parse::<Scheme>().ok());
    let scheme = scheme.ok_or_else(|| wrong(line, text, "`scheme,` and a scheme's name"))?;
    let mut value = |what, limit| named(next(what)?, what, limit);
    let ticks_per_second = value("ticks_per_second", HZ_MAX)?.max(1);
    let delay = value("delay_ticks", DURATION_TICKS_MAX)?;
    let buffer = value("buffer_bytes", u64::MAX)?;
    let total = value("total_bytes", TOTAL_BYTES_MAX)?;
    exactly(next("the titles")?, TITLES, "the titles of columns")?;
    let segments = segments(lines, total)?;
    let peak = segments.iter().map(|segment| segment.rate).max().unwrap_or(ExactRate::ZERO);
    Ok(Schedule { scheme, ticks_per_second, delay, buffer, peak, total, segments })
}

fn segments<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    total: u64,
) -> Result<Vec<Segment>, FileError> {
    let mut segments: Vec<Segment> = Vec::new();
    for (line, text) in lines {
        if segments.len() == SEGMENTS_MAX {
            let (value, limit) = (segments.len() as u64 + 1, SEGMENTS_MAX as u64);
            return Err(FileError::Limit { line, what: "segments", value, limit });
        }
        let segment = segment(text)
            .ok_or_else(|| wrong(line, text, "four numbers, a rate above zero in its range"))?;
        let starts_well = match segments.last() {
            None => segment.position == 0,
            Some(last) => segment.position > last.position && segment.start >= last.start,
        };
        if !starts_well || segment.position >= total * POSITION_UNIT {
            return Err(wrong(
                line,
                text,
                "positions that increase from 0 to the end of the video",
            ));
        }
        if segment.start > 2 * DURATION_TICKS_MAX {
            let (value, limit) = (segment.start, 2 * DURATION_TICKS_MAX);
            return Err(FileError::Limit { line, what: "start_tick", value, limit });
        }
        segments.push(segment);
    }
    if segments.is_empty() {
        return Err(FileError::Short { what: "its first segment" });
    }
    Ok(segments)
}

fn segment(text: &str) -> Option<Segment> {
    let mut fields = text.split(',').map(|field| field.trim().parse::<u64>().ok());
    let mut field = || fields.next().flatten();
    let (start, position, bytes, ticks) = (field()?, field()?, field()?, field()?);
    if fields.next().is_some() {
        return None;
    }
    let rate = ExactRate::new(u128::from(bytes), u128::from(ticks))?;
    (!rate.is_zero()).then_some(Segment { start, position, rate })
}

fn exactly((line, text): (usize, &str), wanted: &str, what: &'static str) -> Result<(), FileError> {
    if text == wanted { Ok(()) } else { Err(wrong(line, text, what)) }
}

fn named((line, text): (usize, &str), what: &'static str, limit: u64) -> Result<u64, FileError> {
    let value = text.strip_prefix(what).and_then(|rest| rest.strip_prefix(','));
    let value = value.and_then(|value| value.trim().parse().ok());
    match value {
        Some(value) if value <= limit => Ok(value),
        Some(value) => Err(FileError::Limit { line, what, value, limit }),
        None => Err(wrong(line, text, what)),
    }
}

fn wrong(line: usize, text: &str, what: &'static str) -> FileError {
    FileError::Line { line, what, text: text[..text.len().min(60)].to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Violation;
    use crate::schedule::testing::any_trace;
    use crate::schedule::{pcbr, smooth};
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn errors_name_the_line() {
        let trace = crate::schedule::testing::even(1, &[4, 2, 6]);
        let text = emit(&smooth::schedule(&trace, 6, 2).expect("schedule"));
        let broken = |from: &str, to: &str| {
            let broken = text.replacen(from, to, 1);
            assert_ne!(broken, text);
            parse(broken.as_bytes()).expect_err(to).to_string()
        };
        assert!(broken(MAGIC, "towpath-schedule,2").starts_with("line 1: "));
        assert!(broken("smooth", "smoothest").starts_with("line 2: "));
        assert!(broken("total_bytes,12", "total_bytes,9999999999999999").contains("limit"));
        assert!(broken("delay_ticks,2", "delay_ticks,-2").starts_with("line 4: "));
        assert!(broken("\n0,0,", "\n0,1,").starts_with("line 8: "));
        assert!(broken("\n0,0,", "\n0,0,0,").starts_with("line 8: "));
        assert!(parse(b"").expect_err("empty").to_string().contains("ends before"));
        assert!(parse("\u{e9}".as_bytes()).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn what_is_emitted_is_read_back(
            trace in any_trace(), extra in 0u64..60, delay in 1u64..40,
        ) {
            let buffer = trace.largest() + extra;
            let smooth = smooth::schedule(&trace, buffer, delay).expect("schedule");
            prop_assert_eq!(parse(emit(&smooth).as_bytes()), Ok(smooth));
            let rate = pcbr::least_rate(&trace, delay).expect("rate");
            let pcbr = pcbr::schedule(&trace, rate, delay).expect("schedule");
            prop_assert_eq!(parse(emit(&pcbr).as_bytes()), Ok(pcbr));
        }

        #[test]
        fn any_bytes_are_a_schedule_or_an_error(
            head in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut file = alloc::vec::Vec::new();
            if head {
                file.extend_from_slice(b"towpath-schedule,1\nscheme,cbr\nticks_per_second,1\n\
                    delay_ticks,1\nbuffer_bytes,1\ntotal_bytes,9\n");
                file.extend_from_slice(TITLES.as_bytes());
                file.extend_from_slice(b"\n0,0,1,1\n");
            }
            file.extend_from_slice(&bytes);
            if let Ok(schedule) = parse(&file) {
                let trace = crate::schedule::testing::even(1, &[4, 5]);
                let judged = schedule.check(&trace);
                // Nine bytes at one a tick: four of them too late after a delay of one.
                let starves = Violation::Starved { group: 1, sent: 1, needed: 4 };
                prop_assert_eq!(judged, Err(starves));
            }
        }
    }

    #[test]
    fn segments_go_on_from_the_start_to_the_end_within_their_limits() {
        let read = |rows: &[&str]| {
            let head = "scheme,cbr\nticks_per_second,1\ndelay_ticks,1\nbuffer_bytes,1";
            let text = alloc::format!("{MAGIC}\n{head}\ntotal_bytes,9\n{TITLES}\n");
            parse([text, rows.join("\n")].concat().as_bytes())
        };
        let line = |rows: &[&str]| match read(rows) {
            Err(FileError::Line { line, .. } | FileError::Limit { line, .. }) => line - 7,
            other => panic!("{other:?}"),
        };
        let most = 2 * DURATION_TICKS_MAX;
        let last = alloc::format!("{most},9215,2,3");
        let rows = ["0,0,1,1", " 4 , 1024 , 1 , 2 ", "4,1025,1,1", &last];
        let segments = read(&rows).expect("a schedule").segments;
        let told = |s: &Segment| (s.start, s.position, s.rate.bytes(), s.rate.ticks());
        let segments: Vec<_> = segments.iter().map(told).collect();
        assert_eq!(segments, [(0, 0, 1, 1), (4, 1024, 1, 2), (4, 1025, 1, 1), (most, 9215, 2, 3)]);
        assert_eq!(line(&["0,1,1,1"]), 1, "not from the start");
        assert_eq!(line(&["0,0,1,1", "1,0,1,2"]), 2, "the same position");
        assert_eq!(line(&["5,0,1,1", "6,10,1,2", "5,20,1,2"]), 3, "earlier");
        assert_eq!(line(&["0,0,1,1", "1,9216,1,2"]), 2, "at the end");
        assert_eq!(line(&["0,0,0,1"]), 1, "no rate");
        assert_eq!(line(&["0,0,1,0"]), 1, "no time");
        assert_eq!(line(&["0,0,1"]), 1, "three numbers");
        let late = alloc::format!("{},0,1,1", most + 1);
        assert_eq!(line(&[&late]), 1, "too late");
        assert_eq!(read(&[]).map(|_| ()), Err(FileError::Short { what: "its first segment" }));
    }
}
