//! Optimal smoothing (Salehi, Zhang, Kurose, Towsley: "Supporting stored video", 1996): of all
//! schedules with a buffer and a delay the one whose rates majorise least: least peak, least
//! variance. It is the shortest path through the corridor, a string pulled taut.

use alloc::vec;
use alloc::vec::Vec;

use super::corridor::{Corner, Corridor, segments};
use super::{POSITION_UNIT, Schedule, ScheduleError, Scheme};
use crate::trace::Trace;

/// The schedule with a buffer (bytes) and a delay (ticks). Its peak is `R*(B, P)`.
pub fn schedule(trace: &Trace, buffer: u64, delay: u64) -> Result<Schedule, ScheduleError> {
    let corridor = Corridor::new(trace, buffer, delay)?;
    Ok(Schedule::new(
        Scheme::Smooth,
        trace,
        delay,
        buffer,
        segments(&taut(corridor), trace.total()),
    ))
}

#[derive(Clone, Copy)]
struct Place {
    tick: i64,
    bytes: i64,
}

/// Sign of the turn at `b` on the way from `a` to `c`: positive to the left (upwards).
fn turn(a: Place, b: Place, c: Place) -> i128 {
    let first = (i128::from(b.tick - a.tick), i128::from(b.bytes - a.bytes));
    let second = (i128::from(c.tick - b.tick), i128::from(c.bytes - b.bytes));
    first.0 * second.1 - first.1 * second.0
}

/// One side of the funnel: a chain that starts after the apex and is taken off at both ends.
struct Chain {
    places: Vec<Place>,
    first: usize,
    /// +1: the upper side, which turns left; −1: the lower side, which turns right.
    bend: i128,
}

impl Chain {
    fn new(bend: i128, gates: usize) -> Self {
        Self { places: Vec::with_capacity(gates), first: 0, bend }
    }

    fn front(&self) -> Option<Place> {
        self.places.get(self.first).copied()
    }

    /// Adds a place and drops what no longer bends. Whether it is now the only one.
    fn push(&mut self, apex: Place, place: Place) -> bool {
        while let Some(&back) = self.places[self.first..].last() {
            let last = self.places.len() - 1;
            let before = if last == self.first { apex } else { self.places[last - 1] };
            if turn(before, back, place) * self.bend > 0 {
                break;
            }
            self.places.pop();
        }
        self.places.push(place);
        self.places.len() - self.first == 1
    }

    /// Takes off the front as long as the way from the apex to `place` would cross it.
    fn yield_to(&mut self, place: Place, apex: &mut Place, corners: &mut Vec<Place>) {
        while let Some(front) = self.front() {
            if front.tick >= place.tick || turn(*apex, front, place) * self.bend <= 0 {
                break;
            }
            *apex = front;
            corners.push(front);
            self.first += 1;
        }
    }
}

/// The shortest path from tick 0 to the last gate.
fn taut(corridor: Corridor<'_>) -> Vec<Corner> {
    let mut apex = Place { tick: 0, bytes: 0 };
    let mut corners = vec![apex];
    let mut upper = Chain::new(1, corridor.gates());
    let mut lower = Chain::new(-1, corridor.gates());
    for index in 0..corridor.gates() {
        let gate = corridor.gate(index);
        let low = Place { tick: gate.tick.cast_signed(), bytes: gate.low.cast_signed() };
        let high = Place { bytes: gate.high.cast_signed(), ..low };
        if lower.push(apex, low) {
            upper.yield_to(low, &mut apex, &mut corners);
        }
        if upper.push(apex, high) {
            lower.yield_to(high, &mut apex, &mut corners);
        }
    }
    let last = corridor.gate(corridor.gates() - 1);
    corners.push(Place { tick: last.tick.cast_signed(), bytes: last.low.cast_signed() });
    let corner = |place: &Place| Corner {
        tick: place.tick.cast_unsigned(),
        position: place.bytes.cast_unsigned() * POSITION_UNIT,
    };
    corners.iter().map(corner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{any_trace, even, rate};
    use crate::schedule::window;
    use proptest::prelude::*;

    /// Sizes 4, 2, 6, 6, buffer 7, delay 2: gates (2: 4..7), (3: 6..11), (4: 12..13), (5: 18).
    #[test]
    fn by_hand() {
        let trace = even(1, &[4, 2, 6, 6]);
        let schedule = schedule(&trace, 7, 2).expect("schedule");
        let corners: Vec<_> = schedule
            .segments
            .iter()
            .map(|s| (s.start, s.position / POSITION_UNIT, s.rate))
            .collect();
        // To (4, 13) the way is straight: 13/4 · 2 = 6.5 and 9.75 are inside; then 5.
        assert_eq!(corners, [(0, 0, rate(13, 4)), (4, 13, rate(5, 1))]);
        assert_eq!(schedule.peak, rate(5, 1));
    }

    /// Least sum of squared rates over all whole-byte schedules: a taut string is also that
    /// (over real ones, hence at most).
    fn least_energy(trace: &Trace, buffer: u64, delay: u64) -> f64 {
        let corridor = Corridor::new(trace, buffer, delay).expect("corridor");
        let mut best = vec![(0u64, 0.0f64)];
        let mut before = 0;
        for index in 0..corridor.gates() {
            let gate = corridor.gate(index);
            let ticks = (gate.tick - before) as f64;
            before = gate.tick;
            let to = |bytes: u64| {
                let costs = best
                    .iter()
                    .filter(|(from, _)| *from <= bytes)
                    .map(|(from, cost)| cost + ((bytes - from) as f64).powi(2) / ticks);
                (bytes, costs.fold(f64::INFINITY, f64::min))
            };
            best = (gate.low..=gate.high).map(to).collect();
        }
        best[0].1
    }

    fn energy(schedule: &Schedule) -> f64 {
        let points: Vec<_> = schedule.points().collect();
        points
            .chunks(2)
            .map(|p| (p[1].bytes - p[0].bytes).powi(2) / (p[1].ticks - p[0].ticks))
            .sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn the_peak_is_the_least_and_the_path_stays_inside(
            trace in any_trace(), extra in 0u64..60, delay in 1u64..40,
        ) {
            let buffer = trace.largest() + extra;
            let schedule = schedule(&trace, buffer, delay).expect("schedule");
            let checked = schedule.check(&trace).expect("feasible");
            let least = window::least_rate(&trace, buffer, delay).expect("rate");
            prop_assert_eq!(schedule.peak, least);
            prop_assert_eq!(checked.changes + 1, schedule.segments.len());
            prop_assert!(energy(&schedule) <= least_energy(&trace, buffer, delay) * (1.0 + 1e-12));
        }
    }
}
