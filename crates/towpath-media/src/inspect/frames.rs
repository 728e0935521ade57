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
