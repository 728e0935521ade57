//! Behind the transport buffer, at a rate: MB and EB of video by the leak method, B of sound.

use super::model::{Packet, Unit};
use super::server::Server;
use super::units::Units;
use crate::inspect::report::{BufferReport, FillReport};

/// Packets whose way into the last buffer is remembered, to find a frame's last byte.
const RECENT: usize = 16;
/// PES headers that are remembered in a buffer.
const HEADERS_MAX: usize = 16;

/// What lies behind a transport buffer.
#[derive(Debug)]
pub(super) struct Leak {
    transfer: Server,
    /// None: sound, whose bytes are in the last buffer as they leave the transport buffer.
    multiplex: Option<FillReport>,
    units: Units,
    /// Bytes so far and the time when the last of them was in, per packet.
    /// A ring: `recent_next` is the oldest.
    recent: [(u64, u64); RECENT],
    recent_next: usize,
    /// PES headers in B: the byte of the stream that each precedes, and its bytes.
    headers: [(u64, u64); HEADERS_MAX],
    headers_len: usize,
}

impl Leak {
    pub(super) fn video(transfer_bps: u64, multiplex: u64, elementary: u64) -> Self {
        Self::new(transfer_bps, Some(FillReport::new(multiplex)), elementary)
    }

    /// Sound: B is fed at the transport buffer's own leak.
    pub(super) fn sound(leak_bps: u64, main: u64) -> Self {
        Self::new(leak_bps, None, main)
    }

    fn new(transfer_bps: u64, multiplex: Option<FillReport>, size: u64) -> Self {
        Self {
            transfer: Server::new(transfer_bps),
            multiplex,
            units: Units::new(size),
            recent: [(0, 0); RECENT],
            recent_next: 0,
            headers: [(0, 0); HEADERS_MAX],
            headers_len: 0,
        }
    }

    pub(super) const fn frames(&self) -> u64 {
        self.units.frames()
    }

    /// Bytes that came into the last buffer and were not taken: `total` came into the model.
    fn fill(&self, at: u64, total: u64) -> u64 {
        let Some(taken) = self.units.taken else { return 0 };
        let headers: u64 = self.headers[..self.headers_len].iter().map(|header| header.1).sum();
        total.saturating_sub(self.transfer.backlog(at)).saturating_sub(taken) + headers
    }

    /// A packet left the transport buffer; its payload ends at byte `total` of the stream.
    pub(super) fn arrive(&mut self, out: u64, packet: &Packet, total: u64) {
        let payload = u64::from(packet.payload);
        let start = if self.multiplex.is_some() {
            out
        } else {
            self.header(total - payload, u64::from(packet.carried.saturating_sub(packet.payload)));
            // The payload is the end of the packet, which leaves at the same rate.
            out.saturating_sub(self.transfer.ticks(payload))
        };
        if payload == 0 {
            return;
        }
        let too_much = self.fill(start, total - payload).saturating_sub(self.units.size());
        if let Some(multiplex) = &mut self.multiplex {
            multiplex.note(self.transfer.backlog(start) + payload + too_much, packet.offset);
        }
        let done = self.transfer.serve(start, payload);
        self.recent[self.recent_next] = (total, done);
        self.recent_next = (self.recent_next + 1) % RECENT;
    }

    /// A PES header before this byte of the stream.
    fn header(&mut self, before: u64, bytes: u64) {
        if bytes == 0 || self.units.taken.is_none() {
            return;
        }
        if self.headers_len == HEADERS_MAX {
            self.headers.copy_within(1.., 0);
            self.headers_len -= 1;
        }
        self.headers[self.headers_len] = (before, bytes);
        self.headers_len += 1;
    }

    /// Takes the frames whose instant has come; `total` bytes had arrived by then.
    pub(super) fn take_until(&mut self, now: u64, total: u64) {
        while let Some(frame) = self.units.due(now)
            && frame.end <= total
        {
            let arrived = frame.arrived.or_else(|| self.arrival(frame.end));
            let mut fill = self.fill(frame.at, total);
            if self.multiplex.is_some() {
                fill = fill.min(self.units.size());
            }
            self.units.take(fill, arrived);
            let gone = self.headers[..self.headers_len].iter().take_while(|h| h.0 < frame.end);
            let gone = gone.count();
            self.headers.copy_within(gone..self.headers_len, 0);
            self.headers_len -= gone;
        }
    }

    pub(super) fn frame(&mut self, unit: Unit, total: u64) {
        let arrived = if unit.end <= total { self.arrival(unit.end) } else { None };
        self.units.push(unit, arrived);
    }

    /// When the byte before `end` was in the last buffer.
    fn arrival(&self, end: u64) -> Option<u64> {
        let (newest, oldest) = self.recent.split_at(self.recent_next);
        let mut packets = oldest.iter().chain(newest);
        packets.find(|(bytes, _)| *bytes >= end).map(|&(_, at)| at)
    }

    pub(super) fn restart(&mut self) {
        self.units.restart();
        self.transfer.restart();
        self.recent = [(0, 0); RECENT];
        self.headers_len = 0;
    }

    pub(super) fn report(mut self, total: u64, report: &mut BufferReport) {
        // Frames whose instant is after the end of the file.
        self.take_until(u64::MAX, total);
        let fill = self.units.report(report);
        if self.multiplex.is_some() {
            (report.multiplex, report.elementary) = (self.multiplex, Some(fill));
        } else {
            report.main = Some(fill);
        }
    }
}
