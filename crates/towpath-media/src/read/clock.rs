//! The counter behind PCR and SCR: wraps and jumps.

use super::stamp::{CLOCK_MODULUS, nearest};

/// A counter's values so far, in 27 MHz ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    last: Option<i64>,
    announced: bool,
    base: u16,
}

/// A value in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockStep {
    pub(super) ticks: i64,
    pub(super) discontinuity: bool,
    /// Unannounced.
    pub(super) jump: bool,
    /// As [`Clock::base`].
    pub(super) base: u16,
}

/// A step of so many of the longest that the standard allows cannot be a late reference: it is of
/// another time base.
const LATE_MAX: i64 = 10;

impl Clock {
    /// The next value will be of another time base.
    pub(super) fn announce(&mut self) {
        self.announced = true;
    }

    /// The last value with wraps undone.
    pub(super) const fn ticks(&self) -> Option<i64> {
        self.last
    }

    /// How many time bases there were before, modulo 2¹⁶.
    pub(super) const fn base(&self) -> u16 {
        self.base
    }

    /// A value as sent. An unannounced step back, or one of more than `step_max`, is a jump.
    pub(super) fn take(&mut self, raw: u64, step_max: i64) -> ClockStep {
        let first = (raw % CLOCK_MODULUS).cast_signed();
        let ticks = self.last.map_or(first, |last| nearest(raw, last, CLOCK_MODULUS));
        let discontinuity = core::mem::take(&mut self.announced);
        let step = self.last.map(|last| ticks.saturating_sub(last));
        let jump = !discontinuity && step.is_some_and(|s| !(0..=step_max).contains(&s));
        if discontinuity || step.is_some_and(|s| !(0..=step_max * LATE_MAX).contains(&s)) {
            self.base = self.base.wrapping_add(1);
        }
        self.last = Some(ticks);
        ClockStep { ticks, discontinuity, jump, base: self.base }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_MAX: i64 = 2_700_000;

    #[test]
    fn an_announcement_excuses_one_jump() {
        let mut clock = Clock::default();
        let mut take = |raw, announced| {
            if announced {
                clock.announce();
            }
            let step = clock.take(raw, STEP_MAX);
            (step.discontinuity, step.jump, step.base)
        };
        assert_eq!(take(1_000_000_000, false), (false, false, 0));
        assert_eq!(take(5, true), (true, false, 1));
        assert_eq!(take(1_000_000, false), (false, false, 1));
        // Late, but of the same base; then too far for that; then back.
        assert_eq!(take(4_000_000, false), (false, true, 1));
        assert_eq!(take(90_000_000, false), (false, true, 2));
        assert_eq!(take(1_000_000, false), (false, true, 3));
        assert_eq!(take(2_000_000, true), (true, false, 4), "announced, however short the step");
    }
}
