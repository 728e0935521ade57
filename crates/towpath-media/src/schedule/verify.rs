//! Follows a schedule exactly and judges it.

use thiserror::Error;

use super::{POSITION_UNIT, Schedule, ScheduleError};
use crate::stop::Stop;
use crate::trace::{ExactRate, Trace, gcd};

/// Groups followed between two looks at whether to stop.
const GROUPS_UNASKED: usize = 4096;

/// What following a schedule showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Bytes the buffer really needs: at most the schedule's.
    pub buffer: u64,
    /// Bytes left in the buffer just after the worst group left, rounded down.
    pub slack: u64,
    /// Tick at which the last byte is sent, rounded up.
    pub finish: u64,
    /// How often the sending rate changes between the first byte and the last; a pause counts
    /// twice.
    pub changes: usize,
    /// The highest rate.
    pub peak: ExactRate,
}

/// Why a schedule does not serve a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// Not the same video, or not a schedule.
    #[error("the schedule is not for this trace: {what}")]
    Mismatch {
        /// What differs.
        what: &'static str,
    },
    /// A group is not there when it is due.
    #[error("group {group} starves: {sent} of {needed} bytes are sent when it is due")]
    Starved {
        /// Which, from 1.
        group: usize,
        /// Whole bytes sent by then.
        sent: u64,
        /// Bytes that must be.
        needed: u64,
    },
    /// The buffer would have to hold more than it does.
    #[error("the buffer overflows before group {group}: {bytes} bytes, it holds {buffer}")]
    Overflow {
        /// Before which group leaves, from 1.
        group: usize,
        /// What it would hold.
        bytes: u64,
        /// What it can.
        buffer: u64,
    },
    /// Rates too odd for exact arithmetic; or told to stop.
    #[error(transparent)]
    TooFine(#[from] ScheduleError),
}

/// An instant as a fraction of ticks.
#[derive(Clone, Copy)]
struct When {
    num: u128,
    den: u128,
}

impl When {
    const fn at(ticks: u64) -> Self {
        Self { num: ticks as u128, den: 1 }
    }

    fn before(self, ticks: u64) -> Option<bool> {
        Some(self.num < self.den.checked_mul(u128::from(ticks))?)
    }

    /// The same instant with a denominator that `unit` divides.
    fn in_units(self, unit: u128) -> Option<Self> {
        if self.den.is_multiple_of(unit) {
            return Some(self);
        }
        let factor = unit / gcd(self.den, unit);
        Some(Self { num: self.num.checked_mul(factor)?, den: self.den.checked_mul(factor)? })
    }
}

/// One segment with its true beginning and end.
struct Stretch {
    begin: When,
    end: When,
    /// Ticks · `begin.den` per part of a position.
    step: u128,
    /// Parts of a byte in which `step` counts: 1 where all positions are whole bytes.
    unit: u64,
    from: u64,
    to: u64,
    waited: bool,
}

struct Follow<'a> {
    schedule: &'a Schedule,
    next: usize,
    done: When,
}

impl<'a> Follow<'a> {
    const fn new(schedule: &'a Schedule) -> Self {
        Self { schedule, next: 0, done: When::at(0) }
    }

    fn step(&mut self) -> Option<Result<Stretch, Violation>> {
        let segments = &self.schedule.segments;
        let segment = segments.get(self.next)?;
        self.next += 1;
        let end = self.schedule.total * POSITION_UNIT;
        let to = segments.get(self.next).map_or(end, |next| next.position);
        let stretch = self.stretch(segment.start, segment.position, to, segment.rate);
        if let Some(stretch) = &stretch {
            self.done = stretch.end;
        }
        let fine = ScheduleError::TooFine { segment: self.next };
        Some(stretch.ok_or(Violation::TooFine(fine)))
    }

    fn stretch(&self, start: u64, from: u64, to: u64, rate: ExactRate) -> Option<Stretch> {
        let waited = self.done.before(start)?;
        let on_time = self.done.num == self.done.den.checked_mul(u128::from(start))?;
        let begin = if waited || on_time { When::at(start) } else { self.done };
        let whole = from.is_multiple_of(POSITION_UNIT) && to.is_multiple_of(POSITION_UNIT);
        let unit = if whole { 1 } else { POSITION_UNIT };
        let parts = u128::from(unit) * u128::from(rate.bytes());
        let begin = begin.in_units(parts)?;
        let step = u128::from(rate.ticks()).checked_mul(begin.den / parts)?;
        let scale = POSITION_UNIT / unit;
        let (from, to) = (from / scale, to / scale);
        let num = begin.num.checked_add(step.checked_mul(u128::from(to - from))?)?;
        let end = When { num, den: begin.den };
        Some(Stretch { begin, end, step, unit, from, to, waited })
    }
}

impl Stretch {
    /// Bytes sent until `ticks`, rounded down and up.
    fn sent(&self, ticks: u64) -> (u64, u64) {
        let now = self.begin.den.saturating_mul(u128::from(ticks));
        let unit = self.unit;
        if now >= self.end.num {
            return (self.to / unit, self.to.div_ceil(unit));
        }
        let past = now.saturating_sub(self.begin.num);
        let parts = (past / self.step) as u64;
        let exact = past.is_multiple_of(self.step);
        let parts_up = parts + u64::from(!exact);
        ((self.from + parts) / unit, (self.from + parts_up).div_ceil(unit))
    }
}

impl Schedule {
    /// Follows the schedule against `trace`: no group may be late, the buffer never overflow. The
    /// answer is exact.
    pub fn check(&self, trace: &Trace) -> Result<Checked, Violation> {
        self.check_until(trace, Stop::NEVER)
    }

    /// As [`Self::check`], unless it is told to stop.
    pub fn check_until(&self, trace: &Trace, stop: Stop<'_>) -> Result<Checked, Violation> {
        self.agree(trace)?;
        let mut follow = Follow::new(self);
        let mut peak = ExactRate::ZERO;
        let (mut changes, mut buffer, mut slack) = (0, 0, u64::MAX);
        let mut now = follow.step().expect("a first segment")?;
        let mut next = follow.step().transpose()?;
        for (group, pair) in trace.sums().windows(2).enumerate() {
            if group.is_multiple_of(GROUPS_UNASKED) {
                stop.check()?;
            }
            let due = self.delay + trace.times()[group];
            while let Some(later) = &next
                && later.begin.num <= later.begin.den.saturating_mul(u128::from(due))
            {
                changes += 1 + usize::from(later.waited);
                now = next.take().expect("some");
                next = follow.step().transpose()?;
            }
            let (sent, reserved) = now.sent(due);
            if sent < pair[1] {
                let (group, needed) = (group + 1, pair[1]);
                return Err(Violation::Starved { group, sent, needed });
            }
            let bytes = reserved - pair[0];
            if bytes > self.buffer {
                let (group, buffer) = (group + 1, self.buffer);
                return Err(Violation::Overflow { group, bytes, buffer });
            }
            buffer = buffer.max(bytes);
            slack = slack.min(sent - pair[1]);
        }
        for segment in &self.segments {
            peak = peak.max(segment.rate);
        }
        let finish = now.end.num.div_ceil(now.end.den) as u64;
        Ok(Checked { buffer, slack, finish, changes, peak })
    }

    fn agree(&self, trace: &Trace) -> Result<(), Violation> {
        let mismatch = |what| Err(Violation::Mismatch { what });
        if self.ticks_per_second != trace.ticks_per_second() {
            return mismatch("ticks per second");
        }
        if self.total != trace.total() {
            return mismatch("total bytes");
        }
        let end = self.total * POSITION_UNIT;
        if self.segments.first().is_none_or(|first| first.position != 0) {
            return mismatch("no segment at position 0");
        }
        if self.segments.windows(2).any(|pair| pair[0].position >= pair[1].position)
            || self.segments.last().is_some_and(|last| last.position >= end)
        {
            return mismatch("positions do not increase to the end");
        }
        if self.segments.iter().any(|segment| segment.rate.is_zero()) {
            return mismatch("a rate of zero");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{even, rate};
    use crate::schedule::{Scheme, Segment};

    fn one(rate: ExactRate, delay: u64, buffer: u64) -> Schedule {
        let segments = alloc::vec![Segment { start: 0, position: 0, rate }];
        let scheme = Scheme::Cbr;
        Schedule { scheme, ticks_per_second: 1, delay, buffer, peak: rate, total: 12, segments }
    }

    /// Sizes 4, 2, 6 from tick 2 on; at 3 B/tick 6, 9 and 12 are sent when they leave.
    #[test]
    fn every_violation_is_told() {
        let trace = even(1, &[4, 2, 6]);
        let checked = one(rate(3, 1), 2, 6).check(&trace).expect("feasible");
        assert_eq!((checked.buffer, checked.slack, checked.finish), (6, 0, 4));
        assert_eq!(
            one(rate(3, 1), 2, 5).check(&trace),
            Err(Violation::Overflow { group: 1, bytes: 6, buffer: 5 })
        );
        assert_eq!(
            one(rate(2_999_999, 1_000_000), 2, 6).check(&trace),
            Err(Violation::Starved { group: 3, sent: 11, needed: 12 })
        );
        let other = even(1, &[4, 2, 7]);
        let mismatch = one(rate(3, 1), 2, 6).check(&other);
        assert_eq!(mismatch, Err(Violation::Mismatch { what: "total bytes" }));
        let mut late = one(rate(6, 1), 2, 12);
        late.segments[0].start = 2;
        assert!(matches!(late.check(&trace), Err(Violation::Starved { group: 1, sent: 0, .. })));
    }

    /// A pause counts as two changes; a new rate as one.
    #[test]
    fn changes_are_counted() {
        let trace = even(1, &[4, 2, 6]);
        let mut schedule = one(rate(6, 1), 2, 12);
        schedule.segments.push(Segment { start: 1, position: 4 * 1024, rate: rate(6, 1) });
        schedule.segments.push(Segment { start: 1, position: 6 * 1024, rate: rate(3, 1) });
        let checked = schedule.check(&trace).expect("feasible");
        assert_eq!((checked.changes, checked.peak), (3, rate(6, 1)));
    }
}
