//! From what a file holds to the consumption curve that is planned for.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

use crate::read::{CLOCK_HZ, ClockReference, Format, Frame, FrameLists, STAMP_HZ, StreamInfo};
use crate::trace::{FrameRate, Listing, PcrPoint, Trace, TraceError, TraceFormat};

/// The frame rate of files that do not tell theirs.
const ASSUMED: FrameRate = FrameRate::TWENTY_FIVE;
/// Bytes of a packet that count, whatever stands between packets.
const PACKET: u64 = 188;

/// What is asked of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Frame rate, whatever the file says.
    pub frame_rate: Option<FrameRate>,
    /// Plan for the bytes between clock references, not for frames.
    pub pcr: bool,
    /// The program whose clock or video counts.
    pub program: Option<u16>,
    /// Bare lists hold bits.
    pub bits: bool,
}

/// What is consumed at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A frame of pictures.
    Frame,
    /// The bytes from a clock reference to the next.
    Group,
}

impl Unit {
    /// In English, of one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::Group => "group",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What had to be assumed or chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The file does not tell its frame rate.
    RateAssumed(FrameRate),
    /// Nobody chose among several programs.
    Program {
        /// The one that is planned for.
        number: u16,
        /// How many there are.
        count: usize,
    },
    /// Frames are not evenly spaced: each is due at its time stamp.
    Uneven,
    /// So many times the clock breaks: the parts are joined.
    Breaks(u64),
    /// So many faults in the file: planned for what is left.
    Faults(u64),
}

/// What is planned for.
#[derive(Clone, Debug)]
pub struct Video {
    /// The consumption curve.
    pub trace: Trace,
    /// What is consumed at one instant.
    pub unit: Unit,
    /// In words: of what.
    pub whole: String,
    /// Where frames are evenly spaced.
    pub frame_rate: Option<FrameRate>,
    /// What had to be assumed, and what is wrong with the file.
    pub notes: Vec<Note>,
}

impl Video {
    /// Whether the file is damaged.
    pub fn is_damaged(&self) -> bool {
        self.notes.iter().any(|note| matches!(note, Note::Faults(_)))
    }

    /// In words: which bytes count.
    pub fn what(&self) -> String {
        format!("{}s of {}", self.unit, self.whole)
    }
}

/// Why a file gives nothing to plan for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VideoError {
    /// Asked for clock references of a list of frames.
    #[error("a frame trace has no clock references")]
    TraceWithoutClock,
    /// Asked for a program of a list of frames.
    #[error("a frame trace has no programs")]
    TraceWithoutPrograms,
    /// Told the unit of sizes that tell it themselves.
    #[error("this trace tells the unit of its sizes itself")]
    UnitTold,
    /// Told the unit of sizes that are none.
    #[error("it is no list of sizes")]
    NoSizes,
    /// There is no frame of pictures.
    #[error("no video frame in it")]
    NoFrame,
    /// The wanted program has none.
    #[error("program {0} has no video frame")]
    NoFrameOf(u16),
    /// There is no such program.
    #[error("no program {wanted} in it")]
    NoProgram {
        /// The one that was wanted.
        wanted: u16,
        /// Those that there are.
        known: Vec<u16>,
    },
    /// There is no clock reference.
    #[error("no clock reference in it")]
    NoClock,
    /// Sizes or instants beyond exact arithmetic.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Plans for a frame trace.
pub fn of_listing(listing: Listing, wanted: Wanted) -> Result<Video, VideoError> {
    of_a_trace(wanted)?;
    if wanted.bits && !matches!(listing.format, TraceFormat::Typed | TraceFormat::Bare) {
        return Err(VideoError::UnitTold);
    }
    let mut notes = Vec::new();
    let known = wanted.frame_rate.or(listing.frame_rate);
    let frame_rate = known.unwrap_or_else(|| assumed(&mut notes));
    Ok(Video {
        trace: Trace::uniform(listing.sizes, frame_rate)?,
        unit: Unit::Frame,
        whole: "the trace".to_string(),
        frame_rate: Some(frame_rate),
        notes,
    })
}

/// Whether a frame trace can hold what is wanted.
pub const fn of_a_trace(wanted: Wanted) -> Result<(), VideoError> {
    if wanted.pcr {
        return Err(VideoError::TraceWithoutClock);
    }
    match wanted.program {
        Some(_) => Err(VideoError::TraceWithoutPrograms),
        None => Ok(()),
    }
}

fn assumed(notes: &mut Vec<Note>) -> FrameRate {
    notes.push(Note::RateAssumed(ASSUMED));
    ASSUMED
}

/// Plans for a stored video of so many bytes that was read.
pub fn of_media(
    lists: &FrameLists,
    format: Format,
    bytes: u64,
    wanted: Wanted,
) -> Result<Video, VideoError> {
    if wanted.bits {
        return Err(VideoError::NoSizes);
    }
    let mut video = if wanted.pcr {
        by_clock(lists, wanted, format, bytes)?
    } else {
        by_frames(lists, wanted)?
    };
    let faults = lists.faults.total();
    if faults > 0 {
        video.notes.push(Note::Faults(faults));
    }
    Ok(video)
}

/// The video stream that counts: the first one that has frames, of the program that is wanted.
fn video_stream(lists: &FrameLists, wanted: Wanted) -> Result<&StreamInfo, VideoError> {
    let Some(program) = wanted.program else {
        return lists.video().ok_or(VideoError::NoFrame);
    };
    let Some(found) = lists.programs.iter().find(|p| p.number == program) else {
        let known = lists.programs.iter().map(|p| p.number).collect();
        return Err(VideoError::NoProgram { wanted: program, known });
    };
    let mine = |s: &&StreamInfo| found.streams.contains(&s.index) && s.has_pictures();
    let framed = |s: &&StreamInfo| lists.frames_of(s.index).next().is_some();
    let stream = lists.streams.iter().filter(mine).find(framed);
    stream.ok_or(VideoError::NoFrameOf(program))
}

/// What has to be said where nobody chose among several programs.
fn chosen(lists: &FrameLists, wanted: Wanted, stream: &StreamInfo) -> Option<Note> {
    let count = lists.programs.len();
    let unsaid = count > 1 && wanted.program.is_none();
    unsaid.then_some(Note::Program { number: stream.program, count })
}

fn by_frames(lists: &FrameLists, wanted: Wanted) -> Result<Video, VideoError> {
    let stream = video_stream(lists, wanted)?;
    let mut notes: Vec<Note> = chosen(lists, wanted, stream).into_iter().collect();
    let frames: Vec<Frame> = lists.frames_of(stream.index).copied().collect();
    let sizes = frames.iter().map(|f| f.size);
    let told = lists.frame_rate(stream.index);
    let told = told.and_then(|(num, den)| FrameRate::new(num, den).ok());
    let joined = instants(&frames, told);
    if let Some((_, breaks)) = &joined
        && *breaks > 0
    {
        notes.push(Note::Breaks(*breaks));
    }
    let instants = joined.map(|(instants, _)| instants);
    let keeps = |rate: &FrameRate| instants.as_ref().is_none_or(|s| is_even(s, *rate));
    let (trace, frame_rate) = match (wanted.frame_rate.or(told.filter(keeps)), &instants) {
        (Some(rate), _) => (Trace::uniform(sizes, rate)?, Some(rate)),
        (None, Some(instants)) => {
            notes.push(Note::Uneven);
            let ticks = instants.iter().map(|instant| instant * (CLOCK_HZ / STAMP_HZ));
            (Trace::from_groups(ticks.zip(sizes), CLOCK_HZ)?, None)
        }
        (None, None) => {
            let rate = told.unwrap_or_else(|| assumed(&mut notes));
            (Trace::uniform(sizes, rate)?, Some(rate))
        }
    };
    let whole = format!("stream {}", stream.index);
    Ok(Video { trace, unit: Unit::Frame, whole, frame_rate, notes })
}

fn by_clock(
    lists: &FrameLists,
    wanted: Wanted,
    format: Format,
    bytes: u64,
) -> Result<Video, VideoError> {
    // Without video (a radio programme) the first clock counts.
    let (clocks, note): (Vec<ClockReference>, _) = match video_stream(lists, wanted) {
        Ok(stream) => {
            (lists.clocks_of(stream.index).copied().collect(), chosen(lists, wanted, stream))
        }
        Err(e) if wanted.program.is_some() => return Err(e),
        Err(_) => {
            let pid = lists.clocks.first().ok_or(VideoError::NoClock)?.pid;
            (lists.clocks.iter().filter(|c| c.pid == pid).copied().collect(), None)
        }
    };
    let mut notes: Vec<Note> = note.into_iter().collect();
    // Bytes that a 192 or 204 byte packet adds are not counted; references count from the start of
    // the packet that carries them.
    let (packet, total) = match format.packet_stride() {
        Some(stride) => (PACKET, bytes / stride as u64 * PACKET),
        None => (1, bytes),
    };
    let pid = clocks.first().ok_or(VideoError::NoClock)?.pid;
    let (points, breaks) = joined(&clocks, packet);
    if breaks > 0 {
        notes.push(Note::Breaks(breaks));
    }
    let whole = format!("bytes between clock references of PID {pid}");
    let end = points.last().map_or(0, |last| last.position + packet);
    let trace = Trace::from_pcrs(&points, total.max(end))?;
    Ok(Video { trace, unit: Unit::Group, whole, frame_rate: None, notes })
}

/// Decoding instants (90 kHz) of all frames after the first, where each has one and none goes back
/// on its time base, and how often the base changes: there it goes on by a frame's time, the one
/// that is told, else that of the step before.
fn instants(frames: &[Frame], told: Option<FrameRate>) -> Option<(Vec<u64>, u64)> {
    let period = told.map(|rate| (STAMP_HZ as f64 / rate.per_second() + 0.5) as u64);
    let (mut now, mut breaks, mut step) = (0u64, 0, 0);
    let mut instants = Vec::with_capacity(frames.len());
    let mut before: Option<(u16, i64)> = None;
    for frame in frames {
        let dts = frame.dts?;
        now += match before {
            None => 0,
            Some((base, last)) if base == frame.base => {
                step = u64::try_from(dts.saturating_sub(last)).ok()?;
                step
            }
            Some((base, _)) => {
                // An odd base is what came before the first reference of the next one.
                let same = base & 1 == 1 && frame.base == base.wrapping_add(1);
                breaks += u64::from(!same);
                period.unwrap_or(step)
            }
        };
        instants.push(now);
        before = Some((frame.base, dts));
    }
    Some((instants, breaks))
}

/// Whether instants keep to a frame rate within half a frame.
fn is_even(instants: &[u64], rate: FrameRate) -> bool {
    let period = STAMP_HZ as f64 / rate.per_second();
    let off = |(k, at): (usize, &u64)| libm::fabs(*at as f64 - k as f64 * period);
    instants.iter().enumerate().map(off).fold(0.0, f64::max) <= period / 2.0
}

/// References on one time line: where the time base changes it goes on at the rate before. Gives
/// how often it does.
fn joined(clocks: &[ClockReference], packet: u64) -> (Vec<PcrPoint>, u64) {
    let mut points: Vec<PcrPoint> = Vec::with_capacity(clocks.len());
    let (mut breaks, mut step) = (0, (0u64, 1u64));
    let mut before: Option<&ClockReference> = None;
    for clock in clocks {
        let position = clock.position / packet * packet;
        let ticks = match (before, points.last()) {
            (Some(old), Some(last)) => {
                let bytes = position - last.position;
                let span = u64::try_from(clock.ticks - old.ticks).ok();
                let span = span.filter(|_| clock.base == old.base).unwrap_or_else(|| {
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
    use alloc::vec;

    fn clock(ticks: i64, position: u64, base: u16) -> ClockReference {
        ClockReference { ticks, position, base, ..ClockReference::default() }
    }

    #[test]
    fn a_broken_clock_goes_on_at_the_rate_before() {
        let clocks = [
            clock(900, 10, 0),
            clock(1000, 198, 0),
            clock(50, 386, 1),
            clock(150, 574, 1),
            clock(-90_000_000, 762, 2),
        ];
        let (points, breaks) = joined(&clocks, 188);
        assert_eq!(points.iter().map(|p| p.ticks).collect::<Vec<_>>(), [0, 100, 200, 300, 400]);
        assert_eq!(points.iter().map(|p| p.position).collect::<Vec<_>>(), [0, 188, 376, 564, 752]);
        assert_eq!(breaks, 2);
    }

    #[test]
    fn instants_are_even_or_not() {
        let rate = FrameRate::TWENTY_FIVE;
        assert!(is_even(&[0, 3600, 7201, 10_799], rate));
        assert!(!is_even(&[0, 3600, 9100], rate));
    }

    /// Two parts with a base of their own, the first with a frame left out: a frame's time between.
    #[test]
    fn parts_of_different_bases_are_joined() {
        let frame = |(base, dts)| Frame { base, dts: Some(dts), ..Frame::default() };
        let rows = [(0, 5000), (0, 8600), (0, 15_800), (2, 90_000_000), (2, 90_003_600), (4, 7)];
        let frames = rows.map(frame);
        let expected = vec![0, 3600, 10_800, 14_400, 18_000, 21_600];
        assert_eq!(instants(&frames, Some(FrameRate::TWENTY_FIVE)), Some((expected, 2)));
        let expected = vec![0, 3600, 10_800, 18_000, 21_600, 25_200];
        assert_eq!(instants(&frames, None), Some((expected, 2)), "the step before");
        let early = [(0, 5000), (1, 90_000), (2, 93_600), (3, 1), (6, 2)].map(frame);
        let told = instants(&early, Some(FrameRate::TWENTY_FIVE)).map(|(_, breaks)| breaks);
        assert_eq!(told, Some(3), "an odd base belongs to the next one");
        let back = [(0, 5000), (0, 4000)].map(frame);
        assert_eq!(instants(&back, None), None);
        assert_eq!(instants(&[Frame::default()], None), None, "without a stamp");
    }
}
