//! The model decoder's buffers (T-STD, ISO/IEC 13818-1 §2.4.2), packet by packet.
//!
//! A packet arrives at once, at the time that its clock references give it. The transport buffer
//! serves packets in order at its leak; a packet's payload enters the multiplexing buffer when its
//! last byte leaves, and is served from there at the transfer rate (leak method) into the
//! elementary stream buffer, from which a frame is taken whole at its decoding instant. What does
//! not fit into a full elementary buffer stays in the multiplexing buffer, so that only a frame
//! that is larger than the elementary buffer overflows it. Fills are overstated by less than a
//! packet.

use super::bins::Merge;
use super::levels::{Buffers, VideoBuffers};
use super::report::{BufferReport, FillReport, Series};
use crate::read::CLOCK_HZ;

/// Size of a transport buffer, bytes.
const TRANSPORT_BYTES: u64 = 512;
const PACKET: u64 = 188;
/// Frames that wait for their decoding instant.
const FRAMES_MAX: usize = 128;
/// Packets whose way into the elementary buffer is remembered, to find a frame's last byte.
const RECENT: usize = 16;
/// Offsets kept.
const OFFSETS_MAX: usize = 16;

/// A server of bytes at a rate.
#[derive(Clone, Copy, Debug)]
struct Server {
    /// Bytes per tick, 32 bits behind the point.
    bytes_per_tick: u64,
    /// Ticks per byte, 16 bits behind the point.
    ticks_per_byte: u64,
    /// When it has served everything, ticks with 16 bits behind the point.
    free_at: u64,
}

impl Server {
    fn new(rate_bps: u64) -> Self {
        let byte_rate = (rate_bps / 8).max(1);
        Self {
            bytes_per_tick: (byte_rate << 32) / CLOCK_HZ,
            ticks_per_byte: (CLOCK_HZ << 16) / byte_rate,
            free_at: 0,
        }
    }

    /// Bytes not yet served at a time.
    fn backlog(&self, at: u64) -> u64 {
        let ticks = (self.free_at >> 16).saturating_sub(at);
        ticks.saturating_mul(self.bytes_per_tick) >> 32
    }

    /// Serves some more; gives when the last of them is done.
    fn serve(&mut self, at: u64, bytes: u64) -> u64 {
        self.free_at = self.free_at.max(at << 16) + bytes * self.ticks_per_byte;
        self.free_at >> 16
    }
}

/// A frame that waits for its decoding instant.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Byte of the stream behind it.
    end: u64,
    at: u64,
    offset: u64,
    /// When its last byte was in the buffer, once known.
    arrived: Option<u64>,
}

/// Buffers of one PID.
#[derive(Debug)]
pub(super) struct Model {
    pid: u16,
    leak_bps: u64,
    transport: Server,
    transport_fill: FillReport,
    transport_series: Peaks,
    video: Option<Video>,
    /// Bytes of the stream so far.
    bytes: u64,
}

#[derive(Debug)]
struct Video {
    sizes: VideoBuffers,
    transfer: Server,
    /// Byte of the stream up to which frames were taken; none before the first whole one.
    taken: Option<u64>,
    waiting: [Waiting; FRAMES_MAX],
    waiting_len: usize,
    /// Bytes so far and the time when the last of them was in, per packet.
    /// A ring: `recent_next` is the oldest.
    recent: [(u64, u64); RECENT],
    recent_next: usize,
    multiplex: FillReport,
    elementary: FillReport,
    underflows: u64,
    late_max: u64,
    underflow_offsets: alloc::vec::Vec<u64>,
    frames: u64,
    delay_max: u64,
    series: Peaks,
}

/// A series of maxima that is touched once per bin and not once per packet.
#[derive(Debug)]
struct Peaks {
    series: Series,
    peak: u64,
    at: u64,
    bin_end: u64,
}

impl Peaks {
    fn new() -> Self {
        Self { series: Series::new(CLOCK_HZ / 20), peak: 0, at: 0, bin_end: 0 }
    }

    fn add(&mut self, at: u64, value: u64) {
        if at >= self.bin_end {
            self.flush();
            self.peak = 0;
            self.at = at;
            self.bin_end = (at / self.series.bin_ticks + 1) * self.series.bin_ticks;
        }
        self.peak = self.peak.max(value);
    }

    fn flush(&mut self) {
        if self.bin_end > 0 {
            self.series.add(self.at, self.peak, Merge::Max);
        }
    }

    fn finish(mut self) -> Series {
        self.flush();
        self.series
    }
}

impl FillReport {
    fn new(size_bytes: u64) -> Self {
        Self { size_bytes, max_bytes: 0, overflows: 0, first_offsets: alloc::vec::Vec::new() }
    }

    fn note(&mut self, bytes: u64, offset: u64) {
        self.max_bytes = self.max_bytes.max(bytes);
        if bytes > self.size_bytes {
            self.overflows += 1;
            if self.first_offsets.len() < OFFSETS_MAX {
                self.first_offsets.push(offset);
            }
        }
    }
}

impl Model {
    /// `bytes`: of the stream before the model starts.
    pub(super) fn new(pid: u16, buffers: Buffers, bytes: u64) -> Self {
        Self {
            pid,
            leak_bps: buffers.leak_bps,
            transport: Server::new(buffers.leak_bps),
            transport_fill: FillReport::new(TRANSPORT_BYTES),
            transport_series: Peaks::new(),
            video: buffers.video.map(Video::new),
            bytes,
        }
    }

    /// A packet arrives with so many bytes of the stream.
    pub(super) fn packet(&mut self, at: u64, payload: u8, offset: u64) {
        let fill = self.transport.backlog(at) + PACKET;
        self.transport_fill.note(fill, offset);
        self.transport_series.add(at, fill);
        let out = self.transport.serve(at, PACKET);
        self.bytes += u64::from(payload);
        if let Some(video) = &mut self.video {
            video.take_until(at, self.bytes - u64::from(payload));
            if payload > 0 {
                video.arrive(out, payload, self.bytes, offset);
            }
        }
    }

    /// A frame ended: bytes of the stream `start` to `end`, decoded at a time.
    pub(super) fn frame(&mut self, start: u64, end: u64, at: u64, offset: u64) {
        let bytes = self.bytes;
        if let Some(video) = &mut self.video {
            video.frame(start, end, at, offset, bytes);
        }
    }

    /// The time base changed: what waits is forgotten.
    pub(super) fn restart(&mut self) {
        self.transport.free_at = 0;
        if let Some(video) = &mut self.video {
            video.waiting_len = 0;
            video.taken = None;
            video.transfer.free_at = 0;
            video.recent = [(0, 0); RECENT];
        }
    }

    pub(super) fn report(mut self) -> BufferReport {
        let bytes = self.bytes;
        if let Some(video) = &mut self.video {
            // Frames whose instant is after the end of the file.
            video.take_until(u64::MAX, bytes);
        }
        let mut report = BufferReport {
            pid: self.pid,
            transport: self.transport_fill,
            leak_bps: self.leak_bps,
            multiplex: None,
            elementary: None,
            underflows: 0,
            late_max_ticks: 0,
            underflow_offsets: alloc::vec::Vec::new(),
            frames: 0,
            delay_max_ticks: 0,
            transport_series: self.transport_series.finish(),
            elementary_series: Series::new(CLOCK_HZ / 20),
        };
        if let Some(video) = self.video {
            report.multiplex = Some(video.multiplex);
            report.elementary = Some(video.elementary);
            report.underflows = video.underflows;
            report.late_max_ticks = video.late_max;
            report.underflow_offsets = video.underflow_offsets;
            report.frames = video.frames;
            report.delay_max_ticks = video.delay_max;
            report.elementary_series = video.series.finish();
        }
        report
    }
}

impl Video {
    fn new(sizes: VideoBuffers) -> Self {
        Self {
            sizes,
            transfer: Server::new(sizes.transfer_bps),
            taken: None,
            waiting: [Waiting::default(); FRAMES_MAX],
            waiting_len: 0,
            recent: [(0, 0); RECENT],
            recent_next: 0,
            multiplex: FillReport::new(sizes.multiplex),
            elementary: FillReport::new(sizes.elementary),
            underflows: 0,
            late_max: 0,
            underflow_offsets: alloc::vec::Vec::new(),
            frames: 0,
            delay_max: 0,
            series: Peaks::new(),
        }
    }

    /// Bytes that came into the elementary buffer and were not taken: `total` came into the model.
    fn fill(&self, at: u64, total: u64) -> u64 {
        let Some(taken) = self.taken else { return 0 };
        total.saturating_sub(self.transfer.backlog(at)).saturating_sub(taken)
    }

    /// Payload enters the multiplexing buffer.
    fn arrive(&mut self, at: u64, payload: u8, total: u64, offset: u64) {
        let too_much =
            self.fill(at, total - u64::from(payload)).saturating_sub(self.sizes.elementary);
        let waiting = self.transfer.backlog(at) + u64::from(payload) + too_much;
        self.multiplex.note(waiting, offset);
        let done = self.transfer.serve(at, payload.into());
        self.recent[self.recent_next] = (total, done);
        self.recent_next = (self.recent_next + 1) % RECENT;
    }

    /// Takes the frames whose instant has come; `total` bytes had arrived by then.
    fn take_until(&mut self, now: u64, total: u64) {
        while self.waiting_len > 0 && self.waiting[0].at <= now && self.waiting[0].end <= total {
            let mut frame = self.waiting[0];
            self.waiting.copy_within(1..self.waiting_len, 0);
            self.waiting_len -= 1;
            if frame.arrived.is_none() {
                frame.arrived = self.arrival(frame.end);
            }
            self.take(frame, total);
        }
    }

    fn take(&mut self, frame: Waiting, total: u64) {
        self.frames += 1;
        let late = frame.arrived.is_some_and(|arrived| arrived > frame.at);
        if late {
            self.underflows += 1;
            self.late_max = self.late_max.max(frame.arrived.unwrap_or(0) - frame.at);
            if self.underflow_offsets.len() < OFFSETS_MAX {
                self.underflow_offsets.push(frame.offset);
            }
        } else {
            // Without an arrival the byte was in long before.
            let fill = self.fill(frame.at, total).min(self.sizes.elementary);
            let size = frame.end.saturating_sub(self.taken.unwrap_or(frame.end));
            self.elementary.note(fill.max(size), frame.offset);
            self.series.add(frame.at, fill);
            self.delay_max = self.delay_max.max(frame.at - frame.arrived.unwrap_or(frame.at));
        }
        self.taken = Some(self.taken.map_or(frame.end, |taken| taken.max(frame.end)));
    }

    /// When the byte before `end` was in the elementary buffer.
    fn arrival(&self, end: u64) -> Option<u64> {
        let (newest, oldest) = self.recent.split_at(self.recent_next);
        let mut packets = oldest.iter().chain(newest);
        packets.find(|(bytes, _)| *bytes >= end).map(|&(_, at)| at)
    }

    fn frame(&mut self, start: u64, end: u64, at: u64, offset: u64, total: u64) {
        // The buffer counts from the start of the first whole frame.
        self.taken.get_or_insert(start);
        if self.waiting_len == FRAMES_MAX {
            self.waiting.copy_within(1.., 0);
            self.waiting_len -= 1;
        }
        let arrived = if end <= total { self.arrival(end) } else { None };
        self.waiting[self.waiting_len] = Waiting { end, at, offset, arrived };
        self.waiting_len += 1;
    }
}
