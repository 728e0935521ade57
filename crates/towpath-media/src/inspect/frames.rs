//! Statistics of a stream's frames.

use alloc::vec;
use alloc::vec::Vec;

use super::bins::{Merge, SIZE_BINS, size_bin};
use super::report::{Series, SizeReport, StreamReport};
use crate::read::{CLOCK_HZ, Frame, FrameType, STAMP_HZ, StreamInfo};

/// Ticks of the clock per tick of a stamp.
const TICKS: u64 = CLOCK_HZ / STAMP_HZ;

/// Frames at which decoding can start.
#[derive(Clone, Copy, Debug, Default)]
struct Keys {
    frames: u64,
    count: u64,
    since: u64,
    distance_max: u64,
}

impl Keys {
    fn frame(&mut self, key: bool) {
        self.frames += 1;
        self.since += 1;
        if key {
            if self.count > 0 {
                self.distance_max = self.distance_max.max(self.since);
            }
            self.count += 1;
            self.since = 0;
        }
    }

    /// Up to the end.
    fn distance_max(&self) -> u64 {
        if self.count > 0 { self.distance_max.max(self.since) } else { 0 }
    }
}

#[derive(Clone, Debug)]
pub(super) struct StreamStats {
    pub(super) info: StreamInfo,
    /// Bytes that came in packets (TS); frames tell the rest.
    pub(super) payload: u64,
    report: StreamReport,
    keys: Keys,
    /// Those that an index tells, which then count.
    indexed: Option<Keys>,
    frame_bytes: u64,
    /// Smallest DTS step of neighbours, 90 kHz: the duration of the last frame.
    step_min: Option<i64>,
    /// Sound: the last stamp and the samples since.
    stamped: Option<(i64, u64)>,
}

impl StreamStats {
    pub(super) fn new(info: &StreamInfo) -> Self {
        Self {
            info: info.clone(),
            payload: 0,
            report: StreamReport {
                info: info.clone(),
                bytes: 0,
                frames: 0,
                key_frames: None,
                key_distance_max: None,
                damaged_frames: 0,
                sizes: Vec::new(),
                dts_first: None,
                dts_last: None,
                rate_series: Series::new(CLOCK_HZ / 10),
            },
            keys: Keys::default(),
            indexed: None,
            frame_bytes: 0,
            step_min: None,
            stamped: None,
        }
    }

    /// The index tells of the next frame.
    pub(super) fn indexed(&mut self, key: bool) {
        self.indexed.get_or_insert_default().frame(key);
    }

    /// Whether a header was right and a frame of its kind was found.
    pub(super) fn is_proven(&self) -> bool {
        let told = self.info.video.is_some() || self.info.audio.is_some();
        let audio = self.info.codec.is_audio();
        told && self.report.sizes.iter().any(|s| audio || s.kind != FrameType::Unknown)
    }

    /// Gives its decoding instant, 90 kHz, where that is known.
    pub(super) fn frame(&mut self, frame: &Frame) -> Option<i64> {
        let dts = self.instant(frame);
        let report = &mut self.report;
        report.frames += 1;
        self.frame_bytes += frame.size;
        self.keys.frame(frame.key);
        report.damaged_frames += u64::from(frame.damaged);
        count_size(&mut report.sizes, frame);
        self.time(frame, dts);
        dts
    }

    /// Its stamp; sound without one follows the frame before it.
    fn instant(&mut self, frame: &Frame) -> Option<i64> {
        let Some(audio) = self.info.audio.filter(|audio| audio.sample_rate_hz > 0) else {
            return frame.dts;
        };
        let (stamp, samples) = match (frame.dts, self.stamped) {
            (Some(dts), _) => (dts, 0),
            (None, Some(stamped)) => stamped,
            (None, None) => return None,
        };
        self.stamped = Some((stamp, samples + u64::from(audio.frame_samples)));
        let after = u128::from(samples) * u128::from(STAMP_HZ) / u128::from(audio.sample_rate_hz);
        Some(stamp.saturating_add(i64::try_from(after).unwrap_or(i64::MAX)))
    }

    fn time(&mut self, frame: &Frame, dts: Option<i64>) {
        let Some(dts) = dts else { return self.by_frame_rate(frame) };
        let first = *self.report.dts_first.get_or_insert(dts);
        if let Some(last) = self.report.dts_last
            && dts > last
        {
            let step = dts.saturating_sub(last);
            self.step_min = Some(self.step_min.map_or(step, |least| least.min(step)));
        }
        self.report.dts_last = Some(self.report.dts_last.map_or(dts, |last| last.max(dts)));
        let ticks = u64::try_from(dts.saturating_sub(first)).unwrap_or(0).saturating_mul(TICKS);
        self.report.rate_series.add(ticks, frame.size, Merge::Sum);
    }

    /// A stream without stamps: frames come as fast as its header says.
    fn by_frame_rate(&mut self, frame: &Frame) {
        let Some(video) = self.info.video.filter(|v| v.fps_num != 0) else { return };
        if self.report.dts_first.is_some() {
            return;
        }
        let number = u128::from(self.report.frames - 1);
        let ticks =
            number * u128::from(CLOCK_HZ) * u128::from(video.fps_den) / u128::from(video.fps_num);
        self.report.rate_series.add(ticks as u64, frame.size, Merge::Sum);
    }

    /// Decoding time of all frames in seconds, by their stamps.
    pub(super) fn stamped_s(&self) -> Option<f64> {
        let (first, last) = (self.report.dts_first?, self.report.dts_last?);
        let ticks = last.saturating_sub(first).saturating_add(self.step_min?);
        Some(ticks as f64 / STAMP_HZ as f64)
    }

    /// The same by frame rate.
    pub(super) fn counted_s(&self) -> Option<f64> {
        let video = self.info.video.filter(|v| v.fps_num != 0 && v.fps_den != 0)?;
        if self.report.frames == 0 {
            return None;
        }
        Some(self.report.frames as f64 * f64::from(video.fps_den) / f64::from(video.fps_num))
    }

    pub(super) fn has_frames(&self) -> bool {
        self.report.frames > 0
    }

    /// `bytes_tell`: its frames tell by themselves whether decoding can start at them.
    pub(super) fn report(mut self, bytes_tell: bool) -> StreamReport {
        self.report.info = self.info;
        self.report.bytes = self.payload.max(self.frame_bytes);
        // An index of more or fewer frames than there are tells of another file, or of a part.
        let indexed = self.indexed.filter(|keys| keys.frames == self.report.frames);
        let keys = indexed.or(bytes_tell.then_some(self.keys));
        self.report.key_frames = keys.map(|keys| keys.count);
        self.report.key_distance_max = keys.map(|keys| keys.distance_max());
        self.report
    }
}

fn count_size(sizes: &mut Vec<SizeReport>, frame: &Frame) {
    let at = sizes.iter().position(|s| s.kind == frame.kind).unwrap_or_else(|| {
        sizes.push(SizeReport {
            kind: frame.kind,
            count: 0,
            bytes: 0,
            min_bytes: u64::MAX,
            max_bytes: 0,
            histogram: vec![0; SIZE_BINS],
        });
        sizes.sort_unstable_by_key(|s: &SizeReport| order(s.kind));
        sizes.iter().position(|s| s.kind == frame.kind).expect("it was just put there")
    });
    let entry = &mut sizes[at];
    entry.count += 1;
    entry.bytes += frame.size;
    entry.min_bytes = entry.min_bytes.min(frame.size);
    entry.max_bytes = entry.max_bytes.max(frame.size);
    entry.histogram[size_bin(frame.size)] += 1;
}

/// I, P, B, then what could not be told.
const fn order(kind: FrameType) -> u8 {
    match kind {
        FrameType::I => 0,
        FrameType::P => 1,
        FrameType::B => 2,
        FrameType::Unknown => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{AudioInfo, Codec, VideoInfo};

    fn frame(kind: FrameType, size: u64, dts: Option<i64>) -> Frame {
        Frame { kind, size, dts, key: kind == FrameType::I, ..Frame::default() }
    }

    #[test]
    fn sound_without_stamps_follows_by_its_samples() {
        let audio =
            AudioInfo { sample_rate_hz: 44_100, frame_samples: 1152, ..AudioInfo::default() };
        let info = StreamInfo { audio: Some(audio), ..StreamInfo::new(0, 0, Codec::MpegAudio) };
        let mut stats = StreamStats::new(&info);
        let sound = |dts| frame(FrameType::Unknown, 400, dts);
        assert_eq!(stats.frame(&sound(None)), None, "nobody knows when that is");
        assert_eq!(stats.frame(&sound(Some(9000))), Some(9000));
        // 1152 samples are 2351.02 ticks: what is lost to rounding does not add up.
        let later: Vec<_> = (0..50).map(|_| stats.frame(&sound(None))).collect();
        assert_eq!((later[0], later[1]), (Some(9000 + 2351), Some(9000 + 4702)));
        assert_eq!(later[49], Some(9000 + 117_551));
        assert_eq!(stats.frame(&sound(Some(8000))), Some(8000));
        assert_eq!(stats.frame(&sound(None)), Some(10_351));
    }

    #[test]
    fn time_is_that_of_stamps_or_else_of_the_frame_rate() {
        let video = VideoInfo { fps_num: 30_000, fps_den: 1001, ..VideoInfo::default() };
        let info = StreamInfo { video: Some(video), ..StreamInfo::new(0, 0, Codec::Mpeg2Video) };
        let mut counted = StreamStats::new(&info);
        assert_eq!((counted.counted_s(), counted.stamped_s()), (None, None));
        for size in [100, 20, 3] {
            counted.frame(&frame(FrameType::P, size, None));
        }
        assert_eq!(counted.counted_s(), Some(3.0 * 1001.0 / 30_000.0));
        assert_eq!(counted.stamped_s(), None);
        // All of them lie in the first tenth of a second; the fourth is the first of the second.
        assert_eq!(counted.report.rate_series.bins, [123]);
        counted.frame(&frame(FrameType::P, 7, None));
        assert_eq!(counted.report.rate_series.bins, [123, 7]);
        let mut stamped = StreamStats::new(&info);
        for dts in [0, 3003, 9009, 6006] {
            stamped.frame(&frame(FrameType::P, 10, Some(90_000 + dts)));
        }
        // From the first to the last, and the shortest step for that.
        assert_eq!(stamped.stamped_s(), Some((9009.0 + 3003.0) / 90_000.0));
        assert_eq!(stamped.report.rate_series.bins, [30, 10]);
        let unknown =
            StreamInfo { video: Some(VideoInfo { fps_den: 1, ..VideoInfo::default() }), ..info };
        let mut unknown = StreamStats::new(&unknown);
        unknown.frame(&frame(FrameType::P, 10, None));
        assert_eq!((unknown.counted_s(), unknown.report.rate_series.bins.len()), (None, 0));
    }

    #[test]
    fn frames_are_counted_by_kind_and_by_the_distance_of_keys() {
        use FrameType::{B, I, P, Unknown};
        let mut stats = StreamStats::new(&StreamInfo::new(0, 0, Codec::H264));
        for (kind, size) in [
            (FrameType::B, 5),
            (FrameType::I, 1000),
            (FrameType::P, 100),
            (FrameType::P, 60),
            (FrameType::I, 900),
            (FrameType::Unknown, 1),
        ] {
            stats.frame(&frame(kind, size, None));
        }
        stats.frame(&Frame { damaged: true, ..frame(FrameType::P, 300, None) });
        let report = stats.clone().report(true);
        let rows: Vec<_> = report
            .sizes
            .iter()
            .map(|s| (s.kind, s.count, s.bytes, s.min_bytes, s.max_bytes))
            .collect();
        let expected =
            [(I, 2, 1900, 900, 1000), (P, 3, 460, 60, 300), (B, 1, 5, 5, 5), (Unknown, 1, 1, 1, 1)];
        assert_eq!(rows, expected);
        let filled: u64 = report.sizes.iter().flat_map(|s| s.histogram.iter()).sum();
        assert_eq!((filled, report.frames, report.damaged_frames, report.bytes), (7, 7, 1, 2366));
        assert_eq!((report.key_frames, report.key_distance_max), (Some(2), Some(3)));
        assert_eq!(stats.clone().report(false).key_frames, None);
        // An index of as many frames tells better; of others it tells of another file.
        for (told, keys) in [(7, Some(1)), (6, None)] {
            let mut stats = stats.clone();
            (0..told).for_each(|n| stats.indexed(n == 0));
            let report = stats.report(false);
            assert_eq!(report.key_frames, keys);
            assert_eq!(report.key_distance_max, keys.map(|_| 6));
        }
    }
}
