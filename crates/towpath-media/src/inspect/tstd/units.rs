//! Frames that wait in a buffer for the instant at which they are decoded.

use alloc::vec::Vec;

use super::fill::{OFFSETS_MAX, Peaks};
use super::model::Unit;
use crate::inspect::report::{BufferReport, FillReport};

/// Frames that wait for their decoding instant.
const WAITING_MAX: usize = 128;

/// A frame that waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    /// Byte of the stream behind it.
    pub(super) end: u64,
    pub(super) at: u64,
    pub(super) offset: u64,
    /// When its last byte was in the buffer, where that is known early.
    pub(super) arrived: Option<u64>,
}

/// The buffer from which frames are taken, with what is found when they are.
#[derive(Debug)]
pub(super) struct Units {
    /// Byte of the stream up to which frames were taken; none before the first whole one.
    pub(super) taken: Option<u64>,
    waiting: [Waiting; WAITING_MAX],
    waiting_len: usize,
    fill: FillReport,
    underflows: u64,
    late_max: u64,
    underflow_offsets: Vec<u64>,
    frames: u64,
    delay_max: u64,
    series: Peaks,
}

impl Units {
    pub(super) fn new(size: u64) -> Self {
        Self {
            taken: None,
            waiting: [Waiting::default(); WAITING_MAX],
            waiting_len: 0,
            fill: FillReport::new(size),
            underflows: 0,
            late_max: 0,
            underflow_offsets: Vec::new(),
            frames: 0,
            delay_max: 0,
            series: Peaks::new(),
        }
    }

    pub(super) const fn size(&self) -> u64 {
        self.fill.size_bytes
    }

    pub(super) const fn frames(&self) -> u64 {
        self.frames
    }

    /// A frame is known; where too many wait the oldest is given up.
    pub(super) fn push(&mut self, unit: Unit, arrived: Option<u64>) {
        // The buffer counts from the start of the first whole frame.
        self.taken.get_or_insert(unit.start);
        if self.waiting_len == WAITING_MAX {
            self.waiting.copy_within(1.., 0);
            self.waiting_len -= 1;
        }
        let Unit { end, at, offset, .. } = unit;
        self.waiting[self.waiting_len] = Waiting { end, at, offset, arrived };
        self.waiting_len += 1;
    }

    pub(super) fn waiting(&self) -> &[Waiting] {
        &self.waiting[..self.waiting_len]
    }

    /// The last byte of one that waits was in the buffer at a time.
    pub(super) const fn arrived(&mut self, index: usize, at: u64) {
        self.waiting[index].arrived = Some(at);
    }

    /// The oldest that waits, if its instant has come.
    pub(super) fn due(&self, now: u64) -> Option<Waiting> {
        (self.waiting_len > 0).then(|| self.waiting[0]).filter(|frame| frame.at <= now)
    }

    /// Takes the oldest; the buffer held `fill` bytes then, the frame's last byte having come at
    /// `arrived`, long before if that is not known.
    pub(super) fn take(&mut self, fill: u64, arrived: Option<u64>) {
        let frame = self.waiting[0];
        self.waiting.copy_within(1..self.waiting_len, 0);
        self.waiting_len -= 1;
        self.frames += 1;
        let stay = frame.at.cast_signed() - arrived.unwrap_or(frame.at).cast_signed();
        if stay < 0 {
            self.underflows += 1;
            self.late_max = self.late_max.max(stay.unsigned_abs());
            if self.underflow_offsets.len() < OFFSETS_MAX {
                self.underflow_offsets.push(frame.offset);
            }
        } else {
            let size = frame.end.saturating_sub(self.taken.unwrap_or(frame.end));
            self.fill.note(fill.max(size), frame.offset);
            self.series.add(frame.at, fill);
            self.delay_max = self.delay_max.max(stay.unsigned_abs());
        }
        self.taken = Some(self.taken.map_or(frame.end, |taken| taken.max(frame.end)));
    }

    /// The time base changed: what waits is forgotten.
    pub(super) const fn restart(&mut self) {
        self.waiting_len = 0;
        self.taken = None;
    }

    /// Puts what was found into a report; gives the fill of the buffer itself.
    pub(super) fn report(self, report: &mut BufferReport) -> FillReport {
        report.underflows = self.underflows;
        report.late_max_ticks = self.late_max;
        report.underflow_offsets = self.underflow_offsets;
        report.frames = self.frames;
        report.delay_max_ticks = self.delay_max;
        report.elementary_series = self.series.finish();
        self.fill
    }
}
