//! Behind the transport buffer by the `vbv_delay` method (§2.4.2.3): pictures tell when their
//! start codes pass from MB into EB, and between two of them bytes pass at one rate.
//!
//! What happened in MB between two start codes is therefore only known when the second one came.

use alloc::collections::VecDeque;

use super::model::{Packet, Unit};
use super::units::Units;
use crate::inspect::report::{BufferReport, FillReport};

/// Packets in MB that are remembered: 1 s at 98 Mbit/s. Of more the oldest are given up.
const ARRIVALS_MAX: usize = 1 << 16;
/// Ticks of the clock per tick of a `vbv_delay`.
const TICKS: u64 = 300;

/// A start code passes: when, and the byte of the stream behind it.
#[derive(Clone, Copy, Debug)]
struct Pass {
    at: u64,
    byte: u64,
}

/// A packet came into MB: when, the byte of the stream behind it, and where it is in the file.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: u64,
    total: u64,
    offset: u64,
}

/// MB and EB.
///
/// Memory: 24 B for each packet in MB, at most 1.5 MiB.
#[derive(Debug)]
pub(super) struct Delay {
    arrivals: VecDeque<Arrival>,
    /// Byte of the stream behind the last arrival that was looked at.
    came: u64,
    /// The frame that was told last.
    known: Option<Unit>,
    last: Option<Pass>,
    multiplex: FillReport,
    /// Start codes that came after they should have passed.
    starved: u64,
    units: Units,
}

impl Pass {
    /// Bytes of the stream that passed by a time, on the line to the next start code.
    fn bytes(self, next: Self, at: u64) -> u64 {
        let (ticks, span) = (at.saturating_sub(self.at), next.at - self.at);
        let bytes = next.byte - self.byte;
        if ticks >= span {
            return next.byte;
        }
        self.byte + (u128::from(bytes) * u128::from(ticks) / u128::from(span)) as u64
    }

    /// When a byte passed, on the same line.
    fn time(self, next: Self, byte: u64) -> u64 {
        let bytes = next.byte - self.byte;
        if bytes == 0 {
            return next.at;
        }
        let past = byte.saturating_sub(self.byte).min(bytes);
        let ticks = u128::from(next.at - self.at) * u128::from(past);
        self.at + ticks.div_ceil(u128::from(bytes)) as u64
    }
}

impl Delay {
    pub(super) fn new(multiplex: u64, elementary: u64) -> Self {
        Self {
            arrivals: VecDeque::new(),
            came: 0,
            known: None,
            last: None,
            multiplex: FillReport::new(multiplex),
            starved: 0,
            units: Units::new(elementary),
        }
    }

    pub(super) const fn frames(&self) -> u64 {
        self.units.frames()
    }

    /// A packet left the transport buffer; its payload ends at byte `total` of the stream.
    pub(super) fn arrive(&mut self, out: u64, packet: &Packet, total: u64) {
        if packet.payload > 0 {
            if self.arrivals.len() == ARRIVALS_MAX {
                self.arrivals.pop_front();
            }
            self.arrivals.push_back(Arrival { at: out, total, offset: packet.offset });
        }
        if let Some(unit) = self.known.take() {
            self.judge(unit);
        }
    }

    /// A frame is known; the packet that brings its last byte may be still to come.
    pub(super) fn frame(&mut self, unit: Unit) {
        if let Some(before) = self.known.replace(unit) {
            self.judge(before);
        }
    }

    fn judge(&mut self, unit: Unit) {
        if let Some(delay) = unit.vbv_delay {
            let at = unit.at.saturating_sub(u64::from(delay) * TICKS);
            let next = Pass { at, byte: unit.start + u64::from(unit.head) };
            self.starved += u64::from(self.arrival(next.byte).is_some_and(|came| came > at));
            match self.last {
                // Start codes that do not pass in order say nothing of the bytes between.
                Some(last) if next.at < last.at || next.byte < last.byte => self.restart(),
                Some(last) => self.pass(last, next),
                None => {}
            }
            self.last = Some(next);
        }
        self.units.push(unit, None);
    }

    /// When the byte before `end` came into MB, if that was not looked at already.
    fn arrival(&self, end: u64) -> Option<u64> {
        if end <= self.came {
            return None;
        }
        self.arrivals.iter().find(|a| a.total >= end).map(|a| a.at)
    }

    /// What happened between two start codes.
    fn pass(&mut self, last: Pass, next: Pass) {
        // The last byte of the frame between them passes when it should, or when it comes if that
        // is later.
        for at in 0..self.units.waiting().len() {
            let end = self.units.waiting()[at].end;
            if end > last.byte && end <= next.byte {
                let due = last.time(next, end);
                self.units.arrived(at, due.max(self.arrival(end).unwrap_or(due)));
            }
        }
        while let Some(&arrival) = self.arrivals.front().filter(|a| a.at <= next.at) {
            self.arrivals.pop_front();
            self.came = arrival.total;
            let waiting = arrival.total.saturating_sub(last.bytes(next, arrival.at));
            self.multiplex.note(waiting, arrival.offset);
        }
        while let Some(frame) = self.units.due(next.at)
            && frame.end <= next.byte
        {
            let passed = last.bytes(next, frame.at);
            let fill = passed.saturating_sub(self.units.taken.unwrap_or(passed));
            self.units.take(fill, frame.arrived);
        }
    }

    pub(super) fn restart(&mut self) {
        self.arrivals.clear();
        self.known = None;
        self.last = None;
        self.units.restart();
    }

    /// Frames whose instant is behind the last start code are not judged.
    pub(super) fn report(self, report: &mut BufferReport) {
        report.multiplex = Some(self.multiplex);
        report.starved = self.starved;
        report.elementary = Some(self.units.report(report));
    }
}
