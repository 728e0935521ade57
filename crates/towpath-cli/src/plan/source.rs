//! From a file to the consumption curve that is planned for.

use std::path::Path;

use anyhow::{Context, bail};
use towpath_media::read::{
    CLOCK_HZ, ClockReference, Format, Frame, FrameLists, Reader, STAMP_HZ, StreamInfo,
};
use towpath_media::trace::{self, BareUnit, FrameRate, PcrPoint, Trace, TraceFormat};

use crate::files::{BLOCK, Input, is_text};
use crate::interrupt::Interrupt;
use crate::media::unreadable;
use crate::units::{rate_text, size_text, time_text};
use crate::words::counted;

/// The frame rate of files that do not tell theirs.
const ASSUMED: FrameRate = FrameRate::TWENTY_FIVE;
/// Bytes of a trace file that are read: 25 for each frame of the longest trace.
const TRACE_FILE_MAX: u64 = 250_000_000;

/// What is asked of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Frame rate, whatever the file says.
    pub(super) frame_rate: Option<FrameRate>,
    /// Plan for the bytes between clock references, not for frames.
    pub(super) pcr: bool,
    /// The program whose clock or video counts.
    pub(super) program: Option<u16>,
    /// Bare lists hold bits.
    pub(super) bits: bool,
}

/// What is planned for.
#[derive(Clone, Debug)]
pub(super) struct Video {
    pub(super) trace: Trace,
    /// What is consumed at one instant: `frame` or `group`.
    pub(super) unit: &'static str,
    /// In words: of what.
    pub(super) whole: String,
    /// Where frames are evenly spaced.
    pub(super) frame_rate: Option<FrameRate>,
    /// What had to be assumed, and what is wrong with the file.
    pub(super) notes: Vec<String>,
    /// The file is damaged.
    pub(super) damaged: bool,
}

impl Video {
    /// In words: which bytes count.
    pub(super) fn what(&self) -> String {
        format!("{}s of {}", self.unit, self.whole)
    }

    /// What is planned for, in a line.
    pub(super) fn summary(&self) -> String {
        let trace = &self.trace;
        let fps = self.frame_rate.map_or(String::new(), |rate| {
            let text = format!("{:.3}", rate.per_second());
            format!(" at {} per second", text.trim_end_matches('0').trim_end_matches('.'))
        });
        format!(
            "{} of {}{fps}, {}, {}, mean {}, largest {}",
            counted(trace.groups() as u64, self.unit),
            self.whole,
            size_text(trace.total() as f64),
            time_text(trace.seconds(trace.duration())),
            rate_text(trace.mean().bps(trace.ticks_per_second())),
            size_text(trace.largest() as f64),
        )
    }
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
    if wanted.pcr {
        bail!("a frame trace has no clock references\nhint: leave --pcr out");
    }
    if wanted.program.is_some() {
        bail!("a frame trace has no programs\nhint: leave --program out");
    }
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
    let listing = trace::parse(&text, unit)?;
    if wanted.bits && !matches!(listing.format, TraceFormat::Typed | TraceFormat::Bare) {
        bail!("this trace tells the unit of its sizes itself\nhint: leave --bits out");
    }
    let mut notes = Vec::new();
    let known = wanted.frame_rate.or(listing.frame_rate);
    let frame_rate = known.unwrap_or_else(|| assumed(&mut notes));
    Ok(Video {
        trace: Trace::uniform(listing.sizes, frame_rate)?,
        unit: "frame",
        whole: "the trace".to_string(),
        frame_rate: Some(frame_rate),
        notes,
        damaged: false,
    })
}

fn assumed(notes: &mut Vec<String>) -> FrameRate {
    let fps = ASSUMED.per_second();
    notes.push(format!("it does not tell its frame rate: {fps} frames per second assumed (--fps)"));
    ASSUMED
}

fn load_media(
    path: &Path,
    mut input: Input<'_>,
    mut block: Vec<u8>,
    wanted: Wanted,
    stop: &Interrupt,
) -> anyhow::Result<Video> {
    if wanted.bits {
        bail!("it is no list of sizes\nhint: leave --bits out");
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
    let mut video = if wanted.pcr {
        by_clock(&lists, wanted, format, reader.bytes())?
    } else {
        by_frames(&lists, wanted)?
    };
    let faults = lists.faults.total();
    if faults > 0 {
        let faults = counted(faults, "fault");
        let note = format!("{faults} in it (towpath media info): planned for what is left");
        video.notes.push(note);
        video.damaged = true;
    }
    Ok(video)
}

/// The video stream that counts: the first one that has frames, of the program that is wanted.
fn video_stream(lists: &FrameLists, wanted: Wanted) -> anyhow::Result<&StreamInfo> {
    let Some(program) = wanted.program else {
        return lists.video().context("no video frame in it");
    };
    let Some(found) = lists.programs.iter().find(|p| p.number == program) else {
        let known: Vec<String> = lists.programs.iter().map(|p| p.number.to_string()).collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        bail!("no program {program} in it\nhint: there are: {known}");
    };
    let mine = |s: &&StreamInfo| found.streams.contains(&s.index) && s.has_pictures();
    let framed = |s: &&StreamInfo| lists.frames_of(s.index).next().is_some();
    let stream = lists.streams.iter().filter(mine).find(framed);
    stream.with_context(|| format!("program {program} has no video frame"))
}

/// What has to be said where nobody chose among several programs.
fn chosen(lists: &FrameLists, wanted: Wanted, stream: &StreamInfo) -> Option<String> {
    let count = lists.programs.len();
    let unsaid = count > 1 && wanted.program.is_none();
    unsaid.then(|| format!("program {} of {count} is planned for (--program)", stream.program))
}

fn by_frames(lists: &FrameLists, wanted: Wanted) -> anyhow::Result<Video> {
    let stream = video_stream(lists, wanted)?;
    let mut notes: Vec<String> = chosen(lists, wanted, stream).into_iter().collect();
    let frames: Vec<Frame> = lists.frames_of(stream.index).copied().collect();
    let sizes = frames.iter().map(|f| f.size);
    let told = lists.frame_rate(stream.index);
    let told = told.and_then(|(num, den)| FrameRate::new(num, den).ok());
    let stamps = stamps(&frames);
    let keeps = |rate: &FrameRate| stamps.as_ref().is_none_or(|s| is_even(s, *rate));
    let (trace, frame_rate) = match (wanted.frame_rate.or(told.filter(keeps)), &stamps) {
        (Some(rate), _) => (Trace::uniform(sizes, rate)?, Some(rate)),
        (None, Some(stamps)) => {
            notes.push("frames are not evenly spaced: each is due at its time stamp".into());
            let ticks = stamps.iter().map(|s| (s - stamps[0]) as u64 * (CLOCK_HZ / STAMP_HZ));
            (Trace::from_groups(ticks.zip(sizes), CLOCK_HZ)?, None)
        }
        (None, None) => {
            let rate = told.unwrap_or_else(|| assumed(&mut notes));
            (Trace::uniform(sizes, rate)?, Some(rate))
        }
    };
    let whole = format!("stream {}", stream.index);
    Ok(Video { trace, unit: "frame", whole, frame_rate, notes, damaged: false })
}

fn by_clock(
    lists: &FrameLists,
    wanted: Wanted,
    format: Format,
    bytes: u64,
) -> anyhow::Result<Video> {
    let none = "no clock reference in it\nhint: leave --pcr out to plan for its frames";
    // Without video (a radio programme) the first clock counts.
    let (clocks, note): (Vec<ClockReference>, _) = match video_stream(lists, wanted) {
        Ok(stream) => {
            (lists.clocks_of(stream.index).copied().collect(), chosen(lists, wanted, stream))
        }
        Err(e) if wanted.program.is_some() => return Err(e),
        Err(_) => {
            let pid = lists.clocks.first().context(none)?.pid;
            (lists.clocks.iter().filter(|c| c.pid == pid).copied().collect(), None)
        }
    };
    let mut notes: Vec<String> = note.into_iter().collect();
    // Bytes that a 192 or 204 byte packet adds are not counted; references count from the start of
    // the packet that carries them.
    let (packet, total) = match format.packet_stride() {
        Some(stride) => (188, bytes / stride as u64 * 188),
        None => (1, bytes),
    };
    let (points, breaks) = stitched(&clocks, packet);
    let pid = clocks.first().context(none)?.pid;
    if breaks > 0 {
        let times = counted(breaks, "time");
        notes.push(format!("its clock breaks {times}: joined at the rate before"));
    }
    let whole = format!("bytes between clock references of PID {pid}");
    let end = points.last().map_or(0, |last| last.position + packet);
    let trace = Trace::from_pcrs(&points, total.max(end))?;
    Ok(Video { trace, unit: "group", whole, frame_rate: None, notes, damaged: false })
}

/// Decoding instants (90 kHz) of all frames, where each has one and none goes back.
fn stamps(frames: &[Frame]) -> Option<Vec<i64>> {
    let stamps: Vec<i64> = frames.iter().map(|f| f.dts).collect::<Option<_>>()?;
    stamps.is_sorted().then_some(stamps)
}

/// Whether stamps keep to a frame rate within half a frame.
fn is_even(stamps: &[i64], rate: FrameRate) -> bool {
    let period = STAMP_HZ as f64 / rate.per_second();
    let off = |(k, s): (usize, &i64)| ((s - stamps[0]) as f64 - k as f64 * period).abs();
    stamps.iter().enumerate().map(off).fold(0.0, f64::max) <= period / 2.0
}

/// References on one time line: where the clock breaks (announced, back, or by more than a second
/// forth) it goes on at the rate before. Gives how often it broke.
fn stitched(clocks: &[ClockReference], packet: u64) -> (Vec<PcrPoint>, u64) {
    let mut points: Vec<PcrPoint> = Vec::with_capacity(clocks.len());
    let (mut breaks, mut step) = (0, (0u64, 1u64));
    let mut before: Option<&ClockReference> = None;
    for clock in clocks {
        let position = clock.position / packet * packet;
        let ticks = match (before, points.last()) {
            (Some(old), Some(last)) => {
                let bytes = position - last.position;
                let span = u64::try_from(clock.ticks - old.ticks).ok().filter(|s| *s <= CLOCK_HZ);
                let span = span.filter(|_| !clock.discontinuity).unwrap_or_else(|| {
                    breaks += 1;
                    (u128::from(bytes) * u128::from(step.0) / u128::from(step.1)) as u64
                });
                step = (span, bytes.max(1));
                last.ticks + span
            }
            _ => 0,
        };
        points.push(PcrPoint { ticks, position });
        before = Some(clock);
    }
    (points, breaks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(ticks: i64, position: u64, discontinuity: bool) -> ClockReference {
        ClockReference { ticks, position, discontinuity, ..ClockReference::default() }
    }

    #[test]
    fn a_broken_clock_goes_on_at_the_rate_before() {
        let clocks = [
            clock(900, 10, false),
            clock(1000, 198, false),
            clock(50, 386, true),
            clock(150, 574, false),
            clock(-90_000_000, 762, false),
        ];
        let (points, breaks) = stitched(&clocks, 188);
        assert_eq!(points.iter().map(|p| p.ticks).collect::<Vec<_>>(), [0, 100, 200, 300, 400]);
        assert_eq!(points.iter().map(|p| p.position).collect::<Vec<_>>(), [0, 188, 376, 564, 752]);
        assert_eq!(breaks, 2);
    }

    #[test]
    fn stamps_are_even_or_not() {
        let rate = FrameRate::TWENTY_FIVE;
        assert!(is_even(&[0, 3600, 7201, 10_799], rate));
        assert!(!is_even(&[0, 3600, 9100], rate));
    }
}
