//! Puts a report together from what a reader tells.

use alloc::vec::Vec;

use super::checks::Check;
use super::checks::{CLOCK_MAX, CLOCK_MAX_DVB};
use super::clocks::{ClockStats, Judged};
use super::frames::StreamStats;
use super::report::{DurationSource, Report, Series};
use super::timeline::Happened;
use super::transport::Transport;
use crate::read::{
    CLOCK_HZ, ClockReference, Codec, FaultKind, Faults, Format, Frame, NO_STREAM, PacketSeen,
    PesSeen, ProgramInfo, Sink, StreamInfo, TableSeen,
};

/// Inspects a file as it is read: a [`Sink`] of constant memory.
///
/// ```
/// use towpath_media::inspect::Inspector;
/// use towpath_media::read::Reader;
///
/// let file = include_bytes!("../../data/mpeg2.ts");
/// let (mut reader, mut inspector) = (Reader::new(), Inspector::new());
/// for piece in file.chunks(4096) {
///     reader.push(piece, &mut inspector)?;
/// }
/// let format = reader.finish(&mut inspector)?;
/// let report = inspector.report(format, reader.bytes());
/// assert_eq!(report.streams[0].frames, 50);
/// # Ok::<(), towpath_media::read::ReadError>(())
/// ```
#[derive(Debug)]
pub struct Inspector {
    streams: Vec<StreamStats>,
    programs: Vec<ProgramInfo>,
    clocks: Vec<ClockStats>,
    rate: Series,
    /// The axis of `rate`: time and byte of the last reference of the first clock.
    rate_at: (u64, u64),
    transport: Option<Transport>,
    faults: Faults,
}

impl Default for Inspector {
    fn default() -> Self {
        Self::new()
    }
}

impl Inspector {
    /// Nothing seen yet.
    pub const fn new() -> Self {
        Self {
            streams: Vec::new(),
            programs: Vec::new(),
            clocks: Vec::new(),
            rate: Series { bin_ticks: CLOCK_HZ / 10, bins: Vec::new() },
            rate_at: (0, 0),
            transport: None,
            faults: Faults { kinds: Vec::new() },
        }
    }

    /// The report, after [`crate::read::Reader::finish`] gave the format.
    pub fn report(mut self, format: Format, size_bytes: u64) -> Report {
        let (duration_s, duration_source) = self.duration();
        if self.faults.total() == 0 && !self.is_proven(format) {
            self.faults.record(FaultKind::Unproven, 0);
        }
        let timed = !self.clocks.is_empty();
        let clocks: Vec<_> = self.clocks.into_iter().map(ClockStats::report).collect();
        let constant = clocks.iter().any(|clock| clock.accuracy.constant_rate);
        let constant_rate = timed.then_some(constant);
        let (mut checks, mut pids, mut buffers) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(transport) = &mut self.transport {
            transport.finish(size_bytes);
            pids = transport.pid_reports();
            buffers = transport.buffers();
            checks = core::mem::take(&mut transport.checks).report(constant_rate);
        }
        let bytes_tell = |codec| format != Format::Avi || codec == Codec::Mjpeg;
        let report = |stats: StreamStats| {
            let tell = bytes_tell(stats.info.codec);
            stats.report(tell)
        };
        let streams: Vec<_> = self.streams.into_iter().map(report).collect();
        let mut rate_series = self.rate;
        if let (true, Some(stream)) = (rate_series.bins.is_empty(), streams.first()) {
            rate_series = stream.rate_series.clone();
        }
        Report {
            format,
            size_bytes,
            duration_s,
            duration_source,
            rate_bps: duration_s.filter(|&s| s > 0.0).map(|s| size_bytes as f64 * 8.0 / s),
            programs: self.programs,
            streams,
            pids,
            clocks,
            rate_series,
            checks,
            buffers,
            faults: self.faults,
        }
    }

    /// Whether something in the file is right in itself: that nothing was found to be wrong says
    /// nothing about bytes in which nothing was found at all.
    fn is_proven(&self, format: Format) -> bool {
        let frames = self.streams.iter().any(StreamStats::is_proven);
        match format {
            // A table has a check sum.
            Format::Ts188 | Format::Ts192 | Format::Ts204 => frames || !self.programs.is_empty(),
            Format::ProgramStream => frames || !self.clocks.is_empty() && !self.streams.is_empty(),
            // A chunk is a frame, or some sound: its stream has a header, and its length fits.
            Format::Avi => self.streams.iter().any(|s| s.has_frames() || s.payload > 0),
            Format::MpegVideo | Format::H264 | Format::Hevc | Format::Mjpeg => frames,
        }
    }

    fn duration(&self) -> (Option<f64>, DurationSource) {
        // Pictures before sound.
        let with_frames = || {
            let of = |sound| {
                let streams = self.streams.iter().filter(|s| s.has_frames());
                streams.filter(move |s| s.info.codec.is_audio() == sound)
            };
            of(false).chain(of(true))
        };
        let clock = self.clocks.first().map_or(0, ClockStats::span_ticks);
        let by_clock = (Some(clock as f64 / CLOCK_HZ as f64), DurationSource::Clock);
        // Stamps jump with their clock: from the first to the last they say nothing then.
        if clock > 0 && self.clocks.first().is_some_and(ClockStats::breaks) {
            return by_clock;
        }
        if let Some(s) = with_frames().find_map(StreamStats::stamped_s) {
            return (Some(s), DurationSource::Stamps);
        }
        if clock > 0 {
            return by_clock;
        }
        match with_frames().find_map(StreamStats::counted_s) {
            Some(s) => (Some(s), DurationSource::FrameRate),
            None => (None, DurationSource::Unknown),
        }
    }

    /// Bytes over time, by the first clock.
    fn rate(&mut self, ticks: Option<u64>, position: u64) {
        let (at, before) = self.rate_at;
        let until = at + ticks.unwrap_or(0);
        if ticks.is_some() {
            self.rate.spread(at, until, position.saturating_sub(before));
        }
        self.rate_at = (until, position);
    }
}

impl Sink for Inspector {
    fn stream(&mut self, stream: &StreamInfo) {
        match self.streams.iter_mut().find(|s| s.info.index == stream.index) {
            Some(known) => known.info = stream.clone(),
            None => self.streams.push(StreamStats::new(stream)),
        }
        if let Some(transport) = &mut self.transport {
            transport.stream(stream);
        }
    }

    fn program(&mut self, program: &ProgramInfo) {
        match self.programs.iter_mut().find(|p| p.number == program.number) {
            Some(known) => *known = program.clone(),
            None => self.programs.push(program.clone()),
        }
        self.transport.get_or_insert_with(Transport::new).program(program);
    }

    fn frame(&mut self, frame: &Frame) {
        let Some(stats) = self.streams.get_mut(usize::from(frame.stream)) else { return };
        let dts = stats.frame(frame);
        if let (Some(transport), Some(dts)) = (&mut self.transport, dts) {
            transport.frame_ended(frame, dts);
        }
    }

    fn indexed(&mut self, stream: u16, key: bool) {
        if let Some(stats) = self.streams.get_mut(usize::from(stream)) {
            stats.indexed(key);
        }
    }

    fn data(&mut self, stream: u16, bytes: u64) {
        if let Some(stats) = self.streams.get_mut(usize::from(stream)) {
            stats.payload += bytes;
        }
    }

    fn clock(&mut self, clock: &ClockReference) {
        let first = self.clocks.first().is_none_or(|c| c.pid() == clock.pid);
        let known = self.clocks.iter_mut().find(|c| c.pid() == clock.pid);
        let judged = if let Some(stats) = known {
            stats.add(clock)
        } else {
            self.clocks.push(ClockStats::new(clock));
            Judged::default()
        };
        if let (Some(transport), Some(offset)) = (&mut self.transport, judged.inaccurate) {
            transport.checks.fail(Check::ClockAccuracy, offset);
        }
        let interval = judged.interval;
        if first {
            self.rate(interval, clock.position);
        }
        let Some(transport) = &mut self.transport else { return };
        if interval.is_some_and(|ticks| ticks > CLOCK_MAX_DVB) {
            transport.checks.fail(Check::ClockRepetition40, clock.offset);
        }
        if interval.is_some_and(|ticks| ticks > CLOCK_MAX) {
            transport.checks.fail(Check::ClockRepetition100, clock.offset);
        }
        if !first {
            transport.happened(Happened::Clock { pid: clock.pid, ticks: clock.ticks });
        } else if let Some(stretch) = transport.timeline.advance(clock) {
            transport.stretch(stretch);
        }
    }

    #[inline]
    fn packet(&mut self, packet: &PacketSeen) {
        if packet.stream != NO_STREAM
            && let Some(stats) = self.streams.get_mut(usize::from(packet.stream))
        {
            stats.payload += u64::from(packet.payload);
        }
        self.transport.get_or_insert_with(Transport::new).packet(packet);
    }

    fn pes(&mut self, pes: &PesSeen) {
        if let (Some(transport), Some(_)) = (&mut self.transport, pes.pts) {
            transport.happened(Happened::Pts { stream: pes.stream });
        }
    }

    fn table(&mut self, table: &TableSeen) {
        self.transport.get_or_insert_with(Transport::new).table(table);
    }

    fn fault(&mut self, kind: FaultKind, offset: u64) {
        self.faults.record(kind, offset);
        if let Some(transport) = &mut self.transport {
            transport.checks.fault(kind, offset);
        }
    }
}
