//! Frames and clock references of a whole file, for schedules.

use alloc::vec::Vec;

use super::event::{ClockReference, Frame, ProgramInfo, Sink, StreamInfo, VideoInfo};
use super::fault::{FaultKind, Faults};

/// Frames, and clock references, that are kept: 46 h of 60 frames per second.
pub const LIST_MAX: usize = 10_000_000;

/// Keeps frames and clock references in file order.
///
/// Memory: 64 B per frame and 48 B per reference, at most [`LIST_MAX`] of each; what is beyond is
/// left out and counts as a [`FaultKind::Limit`].
#[derive(Clone, Debug, Default)]
pub struct FrameLists {
    /// Streams in order of their index, as last told.
    pub streams: Vec<StreamInfo>,
    /// Programs in order of appearance, as last told.
    pub programs: Vec<ProgramInfo>,
    /// Frames of all video streams, in the order in which they end in the file.
    pub frames: Vec<Frame>,
    /// Clock references of all PIDs.
    pub clocks: Vec<ClockReference>,
    /// What is wrong with the file.
    pub faults: Faults,
    /// By stream: where in `frames` those begin that the index has not told of.
    indexed: Vec<usize>,
}

impl FrameLists {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first video stream that has frames.
    pub fn video(&self) -> Option<&StreamInfo> {
        let has_frames = |s: &&StreamInfo| self.frames.iter().any(|f| f.stream == s.index);
        self.streams.iter().filter(|s| s.has_pictures()).find(has_frames)
    }

    /// Frames of a stream.
    pub fn frames_of(&self, stream: u16) -> impl Iterator<Item = &Frame> {
        self.frames.iter().filter(move |f| f.stream == stream)
    }

    /// Clock references of the program that a stream belongs to; those of a program stream for
    /// all of its streams.
    pub fn clocks_of(&self, stream: u16) -> impl Iterator<Item = &ClockReference> {
        let of_program = self.programs.iter().find(|p| p.streams.contains(&stream));
        let pid = of_program.map_or(0, |p| p.clock_pid);
        self.clocks.iter().filter(move |c| c.pid == pid)
    }

    /// The clock of a stream's program as one line without jumps: 27 MHz ticks from its first
    /// reference and [`ClockReference::position`]. After a discontinuity or a jump the line goes
    /// on at the rate before it, so that ticks never step back.
    pub fn timeline_of(&self, stream: u16) -> Vec<(u64, u64)> {
        let mut line: Vec<(u64, u64)> = Vec::new();
        let mut before: Option<ClockReference> = None;
        let mut last_step = (0, 1);
        for clock in self.clocks_of(stream) {
            let ticks = match (before, line.last()) {
                (Some(before), Some(&(ticks, position))) => {
                    let bytes = clock.position.saturating_sub(position);
                    let step = clock.ticks.saturating_sub(before.ticks);
                    let on_line = clock.base == before.base && step >= 0;
                    let step = if on_line {
                        last_step = (step.unsigned_abs(), bytes.max(1));
                        step.unsigned_abs()
                    } else {
                        let (ticks, per_bytes) = last_step;
                        (u128::from(bytes) * u128::from(ticks) / u128::from(per_bytes)) as u64
                    };
                    ticks.saturating_add(step)
                }
                _ => 0,
            };
            line.push((ticks, clock.position));
            before = Some(*clock);
        }
        line
    }

    /// Frames per second of a stream as a fraction: what its header says, else the distance of
    /// its decoding instants if that is the same between most neighbours.
    pub fn frame_rate(&self, stream: u16) -> Option<(u32, u32)> {
        let info = self.streams.iter().find(|s| s.index == stream)?;
        match info.video {
            Some(VideoInfo { fps_num, fps_den, .. }) if fps_den != 0 => Some((fps_num, fps_den)),
            _ => self.rate_by_stamps(stream),
        }
    }

    fn rate_by_stamps(&self, stream: u16) -> Option<(u32, u32)> {
        let stamps: Vec<i64> = self.frames_of(stream).filter_map(|f| f.dts).collect();
        let mut steps: Vec<i64> = stamps.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
        steps.sort_unstable();
        let median = u32::try_from(*steps.get(steps.len() / 2)?).ok().filter(|&s| s > 0)?;
        let same = steps.iter().filter(|&&s| s.abs_diff(median.into()) <= 1).count();
        if same * 2 <= steps.len() {
            return None;
        }
        Some((super::event::STAMP_HZ as u32, median))
    }
}

impl Sink for FrameLists {
    fn stream(&mut self, stream: &StreamInfo) {
        match self.streams.iter_mut().find(|s| s.index == stream.index) {
            Some(known) => *known = stream.clone(),
            None => self.streams.push(stream.clone()),
        }
    }

    fn program(&mut self, program: &ProgramInfo) {
        match self.programs.iter_mut().find(|p| p.number == program.number) {
            Some(known) => *known = program.clone(),
            None => self.programs.push(program.clone()),
        }
    }

    fn frame(&mut self, frame: &Frame) {
        let stream = self.streams.iter().find(|s| s.index == frame.stream);
        if stream.is_some_and(|s| s.codec.is_audio()) {
            return;
        }
        if self.frames.len() < LIST_MAX {
            self.frames.push(*frame);
        } else {
            self.faults.record(FaultKind::Limit, frame.start);
        }
    }

    fn indexed(&mut self, stream: u16, key: bool) {
        let of = usize::from(stream);
        if self.indexed.len() <= of {
            self.indexed.resize(of + 1, 0);
        }
        let from = self.indexed[of];
        let mut rest = self.frames[from..].iter_mut().enumerate();
        if let Some((after, frame)) = rest.find(|(_, f)| f.stream == stream) {
            frame.key = key;
            self.indexed[of] = from + after + 1;
        } else {
            self.indexed[of] = self.frames.len();
        }
    }

    fn clock(&mut self, clock: &ClockReference) {
        if self.clocks.len() < LIST_MAX {
            self.clocks.push(*clock);
        } else {
            self.faults.record(FaultKind::Limit, clock.offset);
        }
    }

    fn fault(&mut self, kind: FaultKind, offset: u64) {
        self.faults.record(kind, offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Codec;

    fn list(stamps: &[i64]) -> FrameLists {
        let mut lists = FrameLists::new();
        lists.stream(&StreamInfo::new(3, 3, Codec::H264));
        for &dts in stamps {
            lists.frame(&Frame { stream: 3, dts: Some(dts), ..Frame::default() });
        }
        lists
    }

    #[test]
    fn a_rate_without_header_is_the_step_of_most_stamps() {
        let rate = |stamps: &[i64]| list(stamps).frame_rate(3);
        assert_eq!(rate(&[0, 3600, 7200, 10_800]), Some((90_000, 3600)));
        // Steps that differ by a tick are the same.
        assert_eq!(rate(&[0, 3003, 6007, 9009]), Some((90_000, 3003)));
        assert_eq!(rate(&[0, 3003, 6008, 9010, 12_016]), None);
        // Half of the steps are not most, and none are none.
        assert_eq!(rate(&[0, 3600, 7200, 8000, 9000]), None);
        assert_eq!(rate(&[0, 3600, 7200, 10_800, 11_000, 12_000]), Some((90_000, 3600)));
        for stamps in [&[][..], &[5], &[5, 5], &[9, 3]] {
            assert_eq!(rate(stamps), None, "{stamps:?}");
        }
        assert_eq!(list(&[0, 3600]).frame_rate(4), None);
        let mut told = list(&[0, 3600]);
        let video = VideoInfo { fps_num: 24, fps_den: 1, ..VideoInfo::default() };
        told.stream(&StreamInfo { video: Some(video), ..StreamInfo::new(3, 3, Codec::H264) });
        assert_eq!((told.frame_rate(3), told.streams.len()), (Some((24, 1)), 1));
    }

    #[test]
    fn an_index_tells_of_each_stream_in_order() {
        let mut lists = list(&[0, 1]);
        lists.stream(&StreamInfo::new(1, 1, Codec::H264));
        lists.frame(&Frame { stream: 1, ..Frame::default() });
        lists.frame(&Frame { stream: 3, ..Frame::default() });
        for (stream, key) in [(3, true), (3, false), (1, true), (3, true), (3, true), (1, false)] {
            lists.indexed(stream, key);
        }
        let keys: Vec<_> = lists.frames.iter().map(|f| (f.stream, f.key)).collect();
        assert_eq!(keys, [(3, true), (3, false), (1, true), (3, true)]);
        // Sound is no list of pictures.
        lists.stream(&StreamInfo::new(5, 5, Codec::Ac3));
        lists.frame(&Frame { stream: 5, ..Frame::default() });
        assert_eq!(lists.frames.len(), 4);
    }
}
