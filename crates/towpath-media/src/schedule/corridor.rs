//! What every schedule with a buffer must pass: a gate at each instant of consumption.

use super::program::Writer;
use super::slope::check_delay;
use super::window::check_buffer;
use super::{POSITION_UNIT, ScheduleError, Segment};
use crate::trace::{ExactRate, Trace};
use alloc::vec::Vec;

/// The room between starvation and overflow. At `tick` a delivery curve must be within
/// `low ..= high` (bytes); between gates straight lines stay inside. At the last gate both are the
/// whole video.
#[derive(Clone, Copy)]
pub(super) struct Corridor<'a> {
    pub(super) trace: &'a Trace,
    buffer: u64,
    delay: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    pub(super) tick: u64,
    pub(super) low: u64,
    pub(super) high: u64,
}

/// A corner of a delivery curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corner {
    pub(super) tick: u64,
    /// In parts of a byte.
    pub(super) position: u64,
}

impl<'a> Corridor<'a> {
    pub(super) fn new(trace: &'a Trace, buffer: u64, delay: u64) -> Result<Self, ScheduleError> {
        check_delay(delay)?;
        check_buffer(trace, buffer)?;
        Ok(Self { trace, buffer: buffer.min(trace.total()), delay })
    }

    pub(super) fn gates(&self) -> usize {
        self.trace.groups()
    }

    pub(super) fn gate(&self, index: usize) -> Gate {
        let sums = self.trace.sums();
        Gate {
            tick: self.delay + self.trace.times()[index],
            low: sums[index + 1],
            high: (sums[index] + self.buffer).min(self.trace.total()),
        }
    }
}

/// The segments between corners, the first at tick 0 and position 0; and the steepest.
pub(super) fn segments(corners: &[Corner], total: u64) -> (Vec<Segment>, ExactRate) {
    let mut writer = Writer::new();
    let mut peak = ExactRate::ZERO;
    let mut last = None;
    for pair in corners.windows(2) {
        let parts = pair[1].position - pair[0].position;
        let ticks = u128::from(pair[1].tick - pair[0].tick) * u128::from(POSITION_UNIT);
        let rate = ExactRate::new(u128::from(parts), ticks).expect("within limits");
        peak = peak.max(rate);
        if !rate.is_zero() && last != Some(rate) {
            writer.push(pair[0].tick, pair[0].position, rate);
        }
        last = Some(rate);
    }
    (writer.finish(total), peak)
}
