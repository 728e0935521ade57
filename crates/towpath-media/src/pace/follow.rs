//! Follows a schedule that was planned before.

use alloc::borrow::Cow;

use super::{Head, Policy};
use crate::schedule::{POSITION_UNIT, Schedule, Segment};
use crate::trace::ExactRate;

/// Sends each byte when its schedule says; references do not matter.
///
/// Within a segment instants are exact. The beginning of one that neither waits nor starts at a
/// tick is rounded down by less than 2⁻⁴⁸ tick, so that nothing is ever late for it.
#[derive(Clone, Debug)]
pub struct Follow<'a> {
    segments: Cow<'a, [Segment]>,
    next: usize,
    /// Beginning of the current segment in units, and its first position.
    begin: u128,
    from: u64,
    /// First position of the next segment.
    until: u64,
    rate: ExactRate,
}

/// Units per tick. A remainder of a division by `rate · POSITION_UNIT` (2^72) in units fits.
const UNITS: u128 = 1 << 48;

impl<'a> Follow<'a> {
    /// Follows `schedule` from its start.
    pub fn new(schedule: &'a Schedule) -> Self {
        Self::of(Cow::Borrowed(&schedule.segments))
    }

    const fn of(segments: Cow<'a, [Segment]>) -> Self {
        Self { segments, next: 0, begin: 0, from: 0, until: 0, rate: ExactRate::ZERO }
    }

    /// Takes up the next segment, if the one before it is done at `done`.
    fn turn(&mut self, done: u128) {
        let segment = self.segments[self.next];
        self.next += 1;
        self.until = self.segments.get(self.next).map_or(u64::MAX, |next| next.position);
        self.begin = done.max(u128::from(segment.start) * UNITS);
        (self.from, self.rate) = (segment.position, segment.rate);
    }

    /// When `position` of the current segment is sent, in units.
    fn instant(&self, position: u64) -> u128 {
        let parts = u128::from(self.rate.bytes()) * u128::from(POSITION_UNIT);
        let work = u128::from(position - self.from) * u128::from(self.rate.ticks());
        self.begin + work / parts * UNITS + work % parts * UNITS / parts
    }
}

impl Follow<'static> {
    /// Follows a schedule that is its own.
    pub fn owned(schedule: Schedule) -> Self {
        Self::of(Cow::Owned(schedule.segments))
    }
}

impl Policy for Follow<'_> {
    fn units(&self) -> u128 {
        UNITS
    }

    fn begin(&mut self, _head: &mut Head, _reference: u64, _bytes: u64) {}

    fn send(&mut self, head: &mut Head, bytes: u64) {
        let end = (head.bytes() + bytes) * POSITION_UNIT;
        while self.until < end {
            let done = if self.next == 0 { 0 } else { self.instant(self.until) };
            self.turn(done);
        }
        head.reach(self.instant(end), bytes);
    }
}
