//! Few rate changes (Feng and Sechrest: "Critical bandwidth allocation", 1995; Feng, Jahanian,
//! Sechrest: "Optimal buffering", 1995).
//!
//! Each run is the straight line that stays in the corridor longest. Where it ends, the next run
//! starts from a gate on it, between the last place where it touches the corridor's wall and its
//! end. *Minimum changes* looks for the gate whose own run gets furthest; *critical bandwidth
//! allocation* does so only where the rate must rise, and lowers the rate at the wall, which keeps
//! the peak low and the least rate high. Rates change at gates only; where the curve then is not
//! at a whole byte it is rounded by less than 1/1024 byte.
//!
//! A gate that lets the whole video through has no upper wall: a run that would go beyond the
//! video's end is over when all is sent. So where one rate does for the rest, one rate it is.

use alloc::vec;
use alloc::vec::Vec;

use super::corridor::{Corner, Corridor, segments};
use super::{POSITION_UNIT, Schedule, ScheduleError, Scheme};
use crate::trace::Trace;

/// Critical bandwidth allocation with a buffer (bytes) and a delay (ticks).
pub fn schedule(trace: &Trace, buffer: u64, delay: u64) -> Result<Schedule, ScheduleError> {
    allocate(trace, buffer, delay, Scheme::Cba)
}

/// Minimum changes bandwidth allocation: the greedy one whose changes fall on gates.
pub fn mcba(trace: &Trace, buffer: u64, delay: u64) -> Result<Schedule, ScheduleError> {
    allocate(trace, buffer, delay, Scheme::Mcba)
}

fn allocate(
    trace: &Trace,
    buffer: u64,
    delay: u64,
    scheme: Scheme,
) -> Result<Schedule, ScheduleError> {
    let corridor = Corridor::new(trace, buffer, delay)?;
    let runs = Runs { corridor, search_falls: scheme == Scheme::Mcba };
    let segments = segments(&runs.corners(), trace.total());
    Ok(Schedule::new(scheme, trace, delay, buffer, segments))
}

/// A slope from a start to a wall of a gate: parts of a byte over ticks. Invariant: `ticks > 0`.
#[derive(Clone, Copy, Debug)]
struct Slope {
    parts: i64,
    ticks: i64,
    gate: usize,
}

impl Slope {
    fn above(self, other: Self) -> bool {
        i128::from(self.parts) * i128::from(other.ticks)
            > i128::from(other.parts) * i128::from(self.ticks)
    }
}

/// Where a run may start: a place, and the first gate after it.
#[derive(Clone, Copy, Debug)]
struct Start {
    corner: Corner,
    next: usize,
}

/// The longest run from a start.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The first gate it does not pass; the number of gates if it passes all.
    end: usize,
    /// Its slope, and the last gate whose wall it touches.
    slope: Slope,
    /// Whether a higher rate must follow.
    rise: bool,
}

struct Runs<'a> {
    corridor: Corridor<'a>,
    search_falls: bool,
}

impl Runs<'_> {
    fn corners(&self) -> Vec<Corner> {
        let gates = self.corridor.gates();
        let mut start = Start { corner: Corner { tick: 0, position: 0 }, next: 0 };
        let mut corners = vec![start.corner];
        loop {
            let run = self.extend(start);
            if run.end == gates {
                // It goes on at this rate until all is sent.
                corners.push(self.on_wall(run).corner);
                return corners;
            }
            start = if run.rise || self.search_falls {
                self.best_start(start, run)
            } else {
                self.on_wall(run)
            };
            corners.push(start.corner);
        }
    }

    fn slopes(&self, start: Start, gate: usize) -> (Slope, Slope) {
        let to = self.corridor.gate(gate);
        let ticks = to.tick.cast_signed() - start.corner.tick.cast_signed();
        let from = start.corner.position.cast_signed();
        let low = (to.low * POSITION_UNIT).cast_signed() - from;
        let high = (to.high * POSITION_UNIT).cast_signed() - from;
        let high = if to.high == self.corridor.trace.total() {
            Slope { parts: i64::MAX, ticks: 1, gate }
        } else {
            Slope { parts: high, ticks, gate }
        };
        (Slope { parts: low, ticks, gate }, high)
    }

    fn extend(&self, start: Start) -> Run {
        let (mut low, mut high) = self.slopes(start, start.next);
        for gate in start.next + 1..self.corridor.gates() {
            let (lowest, highest) = self.slopes(start, gate);
            let (rise, fall) = (lowest.above(high), low.above(highest));
            if rise || fall {
                let slope = if rise { high } else { low };
                return Run { end: gate, slope, rise };
            }
            // Of equal slopes the last counts: the run touches there too.
            if !low.above(lowest) {
                low = lowest;
            }
            if !highest.above(high) {
                high = highest;
            }
        }
        let end = self.corridor.gates();
        Run { end, slope: low, rise: false }
    }

    /// The place where a run last touches a wall: always a whole byte.
    fn on_wall(&self, run: Run) -> Start {
        let gate = self.corridor.gate(run.slope.gate);
        let bytes = if run.rise { gate.high } else { gate.low };
        let corner = Corner { tick: gate.tick, position: bytes * POSITION_UNIT };
        Start { corner, next: run.slope.gate + 1 }
    }

    /// Of the gates on `run` from its last touch to its end, the first whose own run gets furthest.
    ///
    /// The two gates that end a run from one place on a line end it for all places on one side of
    /// that place as well (those on the wrong side of the line through the two walls), as long as
    /// they are before both gates. So trying the middle of what is left, and leaving out what its
    /// failure rules out, takes a logarithmic number of trials. (Places are rounded to
    /// 1/1024 byte, so a place that gets further by less than that may be missed.)
    fn best_start(&self, from: Start, run: Run) -> Start {
        let gates = self.corridor.gates();
        let mut best = (run.slope.gate, self.extend(self.on_wall(run)).end);
        let mut left = vec![(run.slope.gate + 1, run.end)];
        while let Some((first, past)) = left.pop() {
            if first >= past {
                continue;
            }
            let middle = first + (past - first) / 2;
            let start = self.on_line(from, run, middle);
            let tried = self.extend(start);
            if tried.end > best.1 {
                if !self.passes(from, start) {
                    // Rounded off the corridor, which is that narrow here: others may get as far.
                    left.push((middle + 1, past));
                    left.push((first, middle));
                    continue;
                }
                best = (middle, tried.end);
            }
            if tried.end == gates {
                break;
            }
            let pair = (tried.slope.gate, tried.end);
            let stopped = |gate: usize| self.stops(self.on_line(from, run, gate), pair);
            // Places from the nearer gate on have it behind them.
            let before = past.min(pair.0.max(middle + 1));
            left.push((before, past));
            left.push((first_that(middle + 1, before, |gate| !stopped(gate)), before));
            left.push((first, first_that(first, middle, stopped)));
        }
        let earliest = first_that(run.slope.gate + 1, best.0, |gate| {
            self.extend(self.on_line(from, run, gate)).end >= best.1
        });
        let earliest = self.on_line(from, run, earliest);
        match best.0 == run.slope.gate {
            true => self.on_wall(run),
            false if self.passes(from, earliest) => earliest,
            false => self.on_line(from, run, best.0),
        }
    }

    /// The place at `gate` on `run`, rounded away from the wall the run touches.
    fn on_line(&self, from: Start, run: Run, gate: usize) -> Start {
        let tick = self.corridor.gate(gate).tick;
        let rise = i128::from(tick - from.corner.tick) * i128::from(run.slope.parts);
        let ticks = i128::from(run.slope.ticks);
        let down = rise.div_euclid(ticks);
        let inexact = rise.rem_euclid(ticks) != 0;
        let parts = if run.rise || !inexact { down } else { down + 1 };
        let position = from.corner.position + parts as u64;
        Start { corner: Corner { tick, position }, next: gate + 1 }
    }

    /// Whether no run from `start` passes both gates.
    fn stops(&self, start: Start, (near, far): (usize, usize)) -> bool {
        if near < start.next {
            return false;
        }
        let ((low, high), (lowest, highest)) = (self.slopes(start, near), self.slopes(start, far));
        low.above(highest) || lowest.above(high)
    }

    /// Whether the line between two starts passes all gates between: rounding may have moved it.
    fn passes(&self, from: Start, to: Start) -> bool {
        let (tick, position) = (to.corner.tick, to.corner.position);
        let slope = Slope {
            parts: position.cast_signed() - from.corner.position.cast_signed(),
            ticks: tick.cast_signed() - from.corner.tick.cast_signed(),
            gate: to.next - 1,
        };
        (from.next..to.next).all(|gate| {
            let (low, high) = self.slopes(from, gate);
            !low.above(slope) && !slope.above(high)
        })
    }
}

/// The first number in `from..to` that satisfies what, once satisfied, stays so; `to` if none.
fn first_that(from: usize, to: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (from, to.max(from));
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{any_trace, even, rate};
    use crate::schedule::{cbr, window};
    use proptest::prelude::*;

    /// Sizes 4, 2, 6, 6, buffer 7, delay 2: gates (2: 4..7), (3: 6..11), (4: 12..13), (5: 18).
    #[test]
    fn by_hand() {
        let trace = even(1, &[4, 2, 6, 6]);
        for make in [schedule, mcba] {
            let schedule = make(&trace, 7, 2).expect("schedule");
            let corners: Vec<_> = schedule
                .segments
                .iter()
                .map(|s| (s.start, s.position / POSITION_UNIT, s.rate))
                .collect();
            assert_eq!(corners, [(0, 0, rate(13, 4)), (4, 13, rate(5, 1))]);
        }
    }

    /// Least number of changes over all schedules whose changes fall on gates at whole bytes.
    fn least_changes(trace: &Trace, buffer: u64, delay: u64) -> usize {
        let corridor = Corridor::new(trace, buffer, delay).expect("corridor");
        let runs = Runs { corridor, search_falls: true };
        let mut starts = vec![Start { corner: Corner { tick: 0, position: 0 }, next: 0 }];
        let mut seen: Vec<Vec<bool>> =
            vec![vec![false; trace.total() as usize + 1]; trace.groups()];
        for changes in 0.. {
            let mut later = Vec::new();
            for &from in &starts {
                if runs.extend(from).end == trace.groups() {
                    return changes;
                }
                for next in from.next + 1..trace.groups() {
                    let gate = corridor.gate(next - 1);
                    for bytes in gate.low..=gate.high {
                        let corner = Corner { tick: gate.tick, position: bytes * POSITION_UNIT };
                        let to = Start { corner, next };
                        let rising = corner.position >= from.corner.position;
                        if rising && !seen[next - 1][bytes as usize] && runs.passes(from, to) {
                            seen[next - 1][bytes as usize] = true;
                            later.push(to);
                        }
                    }
                }
            }
            starts = later;
        }
        unreachable!("a corridor can be passed")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn schedules_keep_their_word(trace in any_trace(), extra in 0u64..60, delay in 1u64..40) {
            let buffer = trace.largest() + extra;
            let least = window::least_rate(&trace, buffer, delay).expect("rate");
            for make in [schedule, mcba] {
                let schedule = make(&trace, buffer, delay).expect("schedule");
                prop_assert!(schedule.check(&trace).is_ok(), "{:?}", schedule.check(&trace));
                prop_assert!(schedule.peak >= least);
            }
        }

        /// Where the buffer is no limit they are constant, as CBR is.
        #[test]
        fn what_can_be_constant_is(trace in any_trace(), delay in 1u64..40) {
            let rate = cbr::least_rate(&trace, delay).expect("rate");
            let buffer = cbr::buffer(&trace, rate, delay).max(trace.largest());
            for make in [schedule, mcba] {
                let schedule = make(&trace, buffer, delay).expect("schedule");
                let checked = schedule.check(&trace).expect("feasible");
                prop_assert_eq!((schedule.peak, checked.changes), (rate, 0));
            }
        }
    }

    /// What the search leaves out gets no further, but where places rounded to 1/1024 byte are no
    /// longer on one line: in corridors as narrow as these that happens now and then.
    #[test]
    fn the_search_finds_the_furthest() {
        let mut state = 5u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut same, mut all) = (0, 0);
        for _ in 0..500 {
            let sizes: Vec<u64> = (0..20 + random(60)).map(|_| 1 + random(50)).collect();
            let trace = even(1, &sizes);
            let (buffer, delay) = (trace.largest() + random(200), 1 + random(20));
            let corridor = Corridor::new(&trace, buffer, delay).expect("corridor");
            let runs = Runs { corridor, search_falls: true };
            let mut start = Start { corner: Corner { tick: 0, position: 0 }, next: 0 };
            loop {
                let run = runs.extend(start);
                if run.end == trace.groups() {
                    break;
                }
                let found = runs.best_start(start, run);
                let places = (run.slope.gate + 1..run.end).map(|g| runs.on_line(start, run, g));
                let passing = places.filter(|&place| runs.passes(start, place));
                let reach = passing.map(|place| runs.extend(place).end);
                let furthest = reach.max().unwrap_or(0).max(runs.extend(runs.on_wall(run)).end);
                same += usize::from(runs.extend(found).end == furthest);
                all += 1;
                start = found;
            }
        }
        assert!(all > 1000 && same * 1000 >= all * 995, "{same} of {all}");
    }

    /// The greedy choice is not always the best: how often, on random small traces.
    #[test]
    fn minimum_changes_is_mostly_the_minimum() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut least, mut one_more) = (0, 0);
        for _ in 0..150 {
            let sizes: Vec<u64> = (0..6 + random(5)).map(|_| 1 + random(12)).collect();
            let trace = even(1, &sizes);
            let (buffer, delay) = (trace.largest() + random(8), 1 + random(4));
            let greedy = mcba(&trace, buffer, delay).expect("schedule");
            let changes = greedy.check(&trace).expect("feasible").changes;
            let minimum = least_changes(&trace, buffer, delay);
            least += usize::from(changes == minimum);
            one_more += usize::from(changes == minimum + 1);
        }
        assert!(least >= 130 && least + one_more >= 145, "{least} + {one_more} of 150");
    }
}
