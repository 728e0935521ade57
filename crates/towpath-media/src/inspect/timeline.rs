//! When each packet arrives: on a straight line between the clock references around it.
//!
//! What happened since the last reference waits until the next one tells the rate. The time axis
//! starts at the first reference of the first clock and never steps back: after a discontinuity
//! it goes on at the rate before.

use alloc::vec::Vec;

use crate::read::{CLOCK_HZ, ClockReference};

/// Events that wait for a reference. Between references 100 ms apart that is enough for
/// 490 Mbit/s; where they are farther apart, what came first is given up and counted.
pub(super) const WAITING_MAX: usize = 1 << 15;

/// A longer step is a jump even if it is forward.
const STEP_MAX: i64 = CLOCK_HZ.cast_signed();

/// Something that happened at a byte of the file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happened {
    Packet {
        pid: u16,
        stream: u16,
        payload: u8,
        carried: u8,
    },
    Table {
        pid: u16,
        table_id: u8,
    },
    Pts {
        stream: u16,
    },
    Frame {
        stream: u16,
        start: u64,
        end: u64,
        dts: i64,
        /// 0xFFFF: none.
        vbv_delay: u16,
        head: u16,
    },
    /// A reference of another clock than the first.
    Clock {
        pid: u16,
        ticks: i64,
    },
}

/// With its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) offset: u64,
    pub(super) what: Happened,
}

/// A stretch between two references.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stretch {
    /// Where it starts: byte of the file, time on the axis.
    pub(super) offset: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Clock ticks at time zero of the axis: `axis = ticks - zero`.
    pub(super) zero: i64,
    /// The clock has a new base: models start anew.
    pub(super) broken: bool,
    /// Ticks per byte, 24 bits behind the point.
    slope: u64,
}

impl Stretch {
    /// Time on the axis of a byte of the file.
    #[inline]
    pub(super) const fn time(&self, offset: u64) -> u64 {
        let bytes = offset.saturating_sub(self.offset);
        self.start + (bytes.saturating_mul(self.slope) >> 24)
    }

    /// Rate of the whole stream, bit/s.
    pub(super) fn rate_bps(&self) -> u64 {
        let bits = u128::from(8 * CLOCK_HZ) << 24;
        u64::try_from(bits / u128::from(self.slope.max(1))).unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Default)]
pub(super) struct Timeline {
    waiting: Vec<Event>,
    /// The last reference of the clock and the stretch that it ends.
    last: Option<(ClockReference, Stretch)>,
    /// Events that were given up because too many waited.
    pub(super) given_up: u64,
}

impl Timeline {
    #[inline]
    pub(super) fn happened(&mut self, event: Event) {
        if self.waiting.len() == WAITING_MAX {
            self.given_up += WAITING_MAX as u64;
            self.waiting.clear();
        }
        self.waiting.push(event);
    }

    /// PID of the clock that tells the time.
    pub(super) fn pid(&self) -> Option<u16> {
        self.last.map(|(clock, _)| clock.pid)
    }

    /// The end of the axis so far.
    pub(super) fn end(&self) -> Option<u64> {
        self.last.map(|(_, stretch)| stretch.end)
    }

    /// The next reference: gives the stretch up to it and what happened on it, in order. What
    /// happened before the first reference has no time and is forgotten.
    pub(super) fn advance(&mut self, clock: &ClockReference) -> Option<Stretch> {
        let Some((last, before)) = self.last else {
            self.waiting.clear();
            let first = Stretch { offset: clock.offset, zero: clock.ticks, ..Stretch::default() };
            self.last = Some((*clock, first));
            return None;
        };
        let bytes = clock.offset.saturating_sub(last.offset).max(1);
        let step = clock.ticks.saturating_sub(last.ticks);
        let broken = clock.discontinuity || !(0..=STEP_MAX).contains(&step);
        let slope = if broken {
            before.slope
        } else {
            ((u128::from(step.unsigned_abs()) << 24) / u128::from(bytes)) as u64
        };
        let start = before.end;
        let end = if broken {
            start + ((u128::from(bytes) * u128::from(slope)) >> 24) as u64
        } else {
            start + step.unsigned_abs()
        };
        // Until the reference its base is the old one.
        let mut stretch =
            Stretch { offset: last.offset, start, end, zero: before.zero, broken, slope };
        let told = stretch;
        stretch.zero = clock.ticks.saturating_sub(end.cast_signed());
        self.last = Some((*clock, stretch));
        Some(told)
    }

    /// The stretch behind the last reference, at the rate before it: for the end of the file.
    pub(super) fn rest(&self, offset: u64) -> Option<Stretch> {
        let (last, before) = self.last?;
        let mut stretch =
            Stretch { offset: last.offset, start: before.end, broken: false, ..before };
        stretch.end = stretch.time(offset);
        Some(stretch)
    }

    /// What waits, to be given back empty by [`Self::give_back`].
    pub(super) fn take(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.waiting)
    }

    pub(super) fn give_back(&mut self, mut events: Vec<Event>) {
        events.clear();
        self.waiting = events;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(offset: u64, ticks: i64) -> ClockReference {
        ClockReference { ticks, offset, ..ClockReference::default() }
    }

    #[test]
    fn stretches_go_from_reference_to_reference_and_on_at_the_rate_before() {
        let mut line = Timeline::default();
        assert!(line.end().is_none() && line.rest(9).is_none());
        assert!(line.advance(&clock(100, 5000)).is_none());
        assert_eq!((line.pid(), line.end()), (Some(0), Some(0)));
        // 200 bytes in a millisecond.
        let first = line.advance(&clock(300, 32_000)).expect("a stretch");
        let told = |s: &Stretch| (s.offset, s.start, s.end, s.zero, s.broken);
        assert_eq!(told(&first), (100, 0, 27_000, 5000, false));
        assert_eq!([50, 100, 200, 300].map(|offset| first.time(offset)), [0, 0, 13_500, 27_000]);
        assert_eq!((first.rate_bps(), line.end()), (1_600_000, Some(27_000)));
        let broken = ClockReference { discontinuity: true, ..clock(500, 9) };
        let second = line.advance(&broken).expect("a stretch");
        assert_eq!(told(&second), (300, 27_000, 54_000, 5000, true));
        let rest = line.rest(600).expect("a stretch");
        assert_eq!(told(&rest), (500, 54_000, 67_500, 9 - 54_000, false));
        // One that goes back breaks it, too, and so does too long a step.
        for ticks in [8, 9 + STEP_MAX + 1, 9 + STEP_MAX] {
            let mut line = Timeline { waiting: Vec::new(), last: line.last, given_up: 0 };
            let third = line.advance(&clock(700, ticks)).expect("a stretch");
            assert_eq!(third.broken, ticks != 9 + STEP_MAX, "{ticks}");
        }
    }

    #[test]
    fn of_too_many_events_the_older_are_given_up() {
        let mut line = Timeline::default();
        let event = |offset| Event { offset, what: Happened::Table { pid: 1, table_id: 2 } };
        for offset in 0..WAITING_MAX as u64 {
            line.happened(event(offset));
        }
        assert_eq!(line.given_up, 0);
        line.happened(event(7));
        assert_eq!(line.given_up, WAITING_MAX as u64);
        let events = line.take();
        assert_eq!(events.len(), 1);
        line.give_back(events);
        assert!(line.take().is_empty());
    }
}
