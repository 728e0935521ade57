//! The counter behind PCR and SCR: wraps and jumps.

use super::stamp::{CLOCK_MODULUS, nearest};

/// A counter's values so far, in 27 MHz ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    last: Option<i64>,
    announced: bool,
}

/// A value in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockStep {
    pub(super) ticks: i64,
    pub(super) discontinuity: bool,
    /// Unannounced.
    pub(super) jump: bool,
}

impl Clock {
    /// The next value will be of another time base.
    pub(super) fn announce(&mut self) {
        self.announced = true;
    }

    /// The last value with wraps undone.
    pub(super) const fn ticks(&self) -> Option<i64> {
        self.last
    }

    /// A value as sent. An unannounced step back, or one of more than `step_max`, is a jump.
    pub(super) fn take(&mut self, raw: u64, step_max: i64) -> ClockStep {
        let first = (raw % CLOCK_MODULUS).cast_signed();
        let ticks = self.last.map_or(first, |last| nearest(raw, last, CLOCK_MODULUS));
        let discontinuity = core::mem::take(&mut self.announced);
        let step = self.last.map(|last| ticks.saturating_sub(last));
        let jump = !discontinuity && step.is_some_and(|s| !(0..=step_max).contains(&s));
        self.last = Some(ticks);
        ClockStep { ticks, discontinuity, jump }
    }
}
