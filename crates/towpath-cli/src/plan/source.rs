//! From a file to what is planned for: the reading, and the words for what is said about it.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use towpath_media::plan::{Note, Video, VideoError, Wanted, of_a_trace, of_listing, of_media};
use towpath_media::read::{FrameLists, Reader};
use towpath_media::trace::{self, BareUnit};

use crate::files::{BLOCK, Input, is_text};
use crate::interrupt::Interrupt;
use crate::media::unreadable;
use crate::units::{rate_text, size_text, time_text};
use crate::words::counted;

/// Bytes of a trace file that are read: 25 for each frame of the longest trace.
const TRACE_FILE_MAX: u64 = 250_000_000;

/// What is planned for, in a line.
pub(super) fn summary(video: &Video) -> String {
    let trace = &video.trace;
    let fps = video.frame_rate.map_or(String::new(), |rate| {
        let text = format!("{:.3}", rate.per_second());
        format!(" at {} per second", text.trim_end_matches('0').trim_end_matches('.'))
    });
    format!(
        "{} of {}{fps}, {}, {}, mean {}, largest {}",
        counted(trace.groups() as u64, video.unit.name()),
        video.whole,
        size_text(trace.total() as f64),
        time_text(trace.seconds(trace.duration())),
        rate_text(trace.mean().bps(trace.ticks_per_second())),
        size_text(trace.largest() as f64),
    )
}

/// A note in words.
pub(super) fn noted(note: Note) -> String {
    match note {
        Note::RateAssumed(rate) => format!(
            "it does not tell its frame rate: {} frames per second assumed (--fps)",
            rate.per_second()
        ),
        Note::Program { number, count } => {
            format!("program {number} of {count} is planned for (--program)")
        }
        Note::Uneven => "frames are not evenly spaced: each is due at its time stamp".to_string(),
        Note::Breaks(times) => format!(
            "its clock breaks {}: the parts are joined as if it went on",
            counted(times, "time")
        ),
        Note::Faults(faults) => format!(
            "{} in it (towpath media info): planned for what is left",
            counted(faults, "fault")
        ),
    }
}

/// Why there is nothing to plan for, with what would do.
fn explained(e: &VideoError) -> anyhow::Error {
    let hint = match e {
        VideoError::TraceWithoutClock => "leave --pcr out",
        VideoError::TraceWithoutPrograms => "leave --program out",
        VideoError::UnitTold | VideoError::NoSizes => "leave --bits out",
        VideoError::NoClock => "leave --pcr out to plan for its frames",
        VideoError::NoProgram { known, .. } => {
            let known: Vec<String> = known.iter().map(u16::to_string).collect();
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            return anyhow!("{e}\nhint: there are: {known}");
        }
        VideoError::NoFrame | VideoError::NoFrameOf(_) | VideoError::Trace(_) => {
            return anyhow!(e.to_string());
        }
    };
    anyhow!("{e}\nhint: {hint}")
}

pub(super) fn load(path: &Path, wanted: Wanted, stop: &Interrupt) -> anyhow::Result<Video> {
    let mut input = Input::open(path, u64::MAX, stop)?;
    let mut block = vec![0; BLOCK];
    let filled = read(&mut input, &mut block, stop)?;
    if filled == 0 {
        bail!("the file is empty");
    }
    block.truncate(filled);
    if is_text(&block) {
        load_trace(input, block, wanted, stop)
    } else {
        load_media(path, input, block, wanted, stop)
    }
}

/// Fills a block as far as the file goes; an interrupt is an error.
fn read(input: &mut Input<'_>, block: &mut [u8], stop: &Interrupt) -> anyhow::Result<usize> {
    let filled = input.fill(block).context("cannot read it")?;
    if stop.is_set() {
        bail!("interrupted");
    }
    Ok(filled)
}

fn load_trace(
    mut input: Input<'_>,
    mut text: Vec<u8>,
    wanted: Wanted,
    stop: &Interrupt,
) -> anyhow::Result<Video> {
    of_a_trace(wanted).map_err(|e| explained(&e))?;
    loop {
        let have = text.len();
        if have as u64 > TRACE_FILE_MAX {
            bail!("more than {TRACE_FILE_MAX} bytes of text, the limit of a frame trace");
        }
        text.resize(have + BLOCK, 0);
        let filled = read(&mut input, &mut text[have..], stop)?;
        text.truncate(have + filled);
        if filled == 0 {
            break;
        }
    }
    let unit = if wanted.bits { BareUnit::Bits } else { BareUnit::Bytes };
    of_listing(trace::parse(&text, unit)?, wanted).map_err(|e| explained(&e))
}

fn load_media(
    path: &Path,
    mut input: Input<'_>,
    mut block: Vec<u8>,
    wanted: Wanted,
    stop: &Interrupt,
) -> anyhow::Result<Video> {
    if wanted.bits {
        return Err(explained(&VideoError::NoSizes));
    }
    let mut lists = FrameLists::new();
    let mut reader = Reader::new();
    loop {
        reader.push(&block, &mut lists).map_err(|e| unreadable(path, &e, false))?;
        block.resize(BLOCK, 0);
        let filled = read(&mut input, &mut block, stop)?;
        block.truncate(filled);
        if filled == 0 {
            break;
        }
    }
    let format = reader.finish(&mut lists).map_err(|e| unreadable(path, &e, false))?;
    of_media(&lists, format, reader.bytes(), wanted).map_err(|e| explained(&e))
}
