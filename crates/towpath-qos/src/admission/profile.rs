//! A sum of piecewise linear functions of time, against a line: the incremental form of the EDF
//! and HFSC conditions.
//!
//! A channel adds a few *pieces*: at a time, a jump and a change of slope. The sum is kept per
//! distinct time, so that a test costs a pass over the points, not over the channels; adding and
//! taking away cost a search. All amounts are nanobits (bit/s × ns), exact.
//!
//! **What is lost.** Up to [`EXACT_MAX`] distinct times are kept as they are, and until then the
//! test is exact, at every whole nanosecond, for loads of one and two buckets; for others the
//! [demand](super::demand) itself is gone through where this test is not passed. Beyond, a new time
//! is moved to a geometric grid of 8 steps per octave, always to the safe side: deadlines and knees
//! earlier, ends of a first slope later. That costs at most a ninth of the time it moves, and
//! bounds a profile to [`EXACT_MAX`] + 8·64 points. Knees may use only half of the exact points.
//!
//! Memory: 48 B per point; at most 30 KiB per port.

use alloc::vec::Vec;

use super::load::Load;
use crate::spec::limits::NANO;

/// Points that need not lie on the grid.
pub(super) const EXACT_MAX: usize = 128;
/// Of those, how many may be knees.
const KNEES_MAX: usize = EXACT_MAX / 2;

/// Latest point, 13 days: sums of 2²⁰ channels of at most 2⁵⁰ bit/s stay below 2¹²¹ nanobits.
pub(super) const TIME_NS_MAX: u64 = 1 << 50;

/// One time with everything that changes there.
/// `level` = Σ jumps − Σ slope·time, so that the sum at `t` is `Σ level + t·Σ slope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    at_ns: u64,
    uses: u32,
    /// A sum over channels: one of 2⁵⁰ bit/s is far from the end of an `i64`, 2²⁰ are not.
    slope: i128,
    level: i128,
}

/// What a channel adds at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) at_ns: u64,
    /// In nanobits.
    pub(super) jump: i128,
    /// In bit/s.
    pub(super) slope: i64,
}

impl Piece {
    const fn level(&self) -> i128 {
        self.jump - self.slope as i128 * self.at_ns as i128
    }
}

/// Invariants: points rise strictly; each has `uses ≥ 1`; `level` and `slope` are the sums over
/// all points; `exact` counts points off the grid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    points: Vec<Point>,
    exact: usize,
    level: i128,
    slope: i128,
}

impl Profile {
    /// Points in use.
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    /// The latest time not after `at_ns` that may be a point: it never falls where `at_ns` rises.
    fn place_down(&self, at_ns: u64, exact_max: usize) -> u64 {
        if self.exact < exact_max {
            return at_ns;
        }
        match self.find(at_ns) {
            Ok(_) => at_ns,
            Err(0) => grid_down(at_ns),
            Err(i) => grid_down(at_ns).max(self.points[i - 1].at_ns),
        }
    }

    /// The earliest deadline not before `at_ns` that may be a point.
    pub(super) fn deadline_up(&self, at_ns: u64) -> u64 {
        if self.exact < EXACT_MAX {
            return at_ns;
        }
        let up = grid_up(at_ns);
        match self.find(at_ns) {
            Ok(_) => at_ns,
            Err(i) => self.points.get(i).map_or(up, |point| up.min(point.at_ns)),
        }
    }

    /// The earliest time not before `at_ns` that may be a point.
    fn place_up(&self, at_ns: u64) -> u64 {
        if self.exact < EXACT_MAX || self.find(at_ns).is_ok() {
            return at_ns;
        }
        grid_up(at_ns)
    }

    fn find(&self, at_ns: u64) -> Result<usize, usize> {
        self.points.binary_search_by_key(&at_ns, |point| point.at_ns)
    }

    /// The pieces of a load with a deadline: a burst at the deadline, the fast rate until the
    /// knee, the slow rate behind it.
    pub(super) fn deadline_pieces(&self, load: &Load, deadline_ns: u64) -> [Piece; 3] {
        let at_ns = self.place_down(deadline_ns, EXACT_MAX);
        let exact = at_ns.saturating_add(load.knee_ns());
        let knee = self.place_down(exact.min(TIME_NS_MAX), KNEES_MAX).max(at_ns);
        let behind = knee.saturating_add(1);
        let both = knee == exact
            && !load.knee_is_whole()
            && (self.exact + 1 < KNEES_MAX || self.find(behind).is_ok());
        deadline_pieces_at(load, [at_ns, knee, if both { behind } else { knee }])
    }

    /// The pieces of the service curve that serves a load within `delay_ns`: slope m1 up to x,
    /// the slow rate behind it; both places as the scheduler is to be told.
    pub(super) fn curve_pieces(&self, load: &Load, delay_ns: u64) -> [Piece; 3] {
        let (pieces, bend) = curve_pieces_at(load, delay_ns, 0);
        let at_ns = match bend {
            Bend::From(latest) => self.place_down(latest, EXACT_MAX),
            Bend::Until(least) => self.place_up(least),
        };
        [pieces[0], Piece { at_ns, ..pieces[1] }, Piece { at_ns, ..pieces[2] }]
    }

    /// Whether the sum with `pieces` stays at least `blocking` below `rate·t`, at every point from
    /// the first on, and in the long run. `pieces` are in the order of time.
    pub(super) fn fits(&self, pieces: &[Piece; 3], rate_bps: u64, blocking: i128) -> bool {
        let rate = i128::from(rate_bps);
        let more: i128 = pieces.iter().map(|piece| i128::from(piece.slope)).sum();
        self.slope + more <= rate
            && self.each(pieces, |at, due| due - rate * i128::from(at) + blocking <= 0)
    }

    /// Where the sum with `pieces` exceeds what is sent by most, as `fits` sees it: the time, what
    /// is due by then and what may be, in bits.
    pub(super) fn tightest(
        &self,
        pieces: &[Piece; 3],
        rate_bps: u64,
        blocking: i128,
    ) -> (u64, u128, u128) {
        let rate = i128::from(rate_bps);
        let mut worst = (i128::MIN, pieces[0].at_ns);
        self.each(pieces, |at, due| {
            worst = worst.max((due - rate * i128::from(at) + blocking, at));
            true
        });
        let (over, at_ns) = worst;
        let sent = rate * i128::from(at_ns);
        let bits = |amount: i128| amount.max(0).unsigned_abs();
        (at_ns, bits(sent + over).div_ceil(NANO), bits(sent) / NANO)
    }

    /// Tells the time and the sum, with `pieces`, of every point from their first on, until
    /// `go_on` does not; whether it always did. `pieces` are in the order of time.
    fn each(&self, pieces: &[Piece; 3], mut go_on: impl FnMut(u64, i128) -> bool) -> bool {
        // Before the first new piece nothing changes.
        let start = self.points.partition_point(|point| point.at_ns < pieces[0].at_ns);
        let (mut level, mut slope) = self.before(start);
        let mut next = 0;
        let mut points = self.points[start..].iter();
        let mut point = points.next();
        loop {
            let at = match (point, pieces.get(next)) {
                (Some(point), Some(piece)) => point.at_ns.min(piece.at_ns),
                (Some(point), None) => point.at_ns,
                (None, Some(piece)) => piece.at_ns,
                (None, None) => return true,
            };
            while let Some(piece) = pieces.get(next).filter(|piece| piece.at_ns == at) {
                level += piece.level();
                slope += i128::from(piece.slope);
                next += 1;
            }
            if let Some(here) = point.filter(|point| point.at_ns == at) {
                level += here.level;
                slope += here.slope;
                point = points.next();
            }
            if !go_on(at, level + slope * i128::from(at)) {
                return false;
            }
        }
    }

    /// As `fits`, with nothing new.
    pub(super) fn holds(&self, rate_bps: u64, blocking: i128) -> bool {
        let Some(first) = self.points.first() else { return true };
        let none = [Piece { at_ns: first.at_ns, ..Piece::default() }; 3];
        self.fits(&none, rate_bps, blocking)
    }

    /// Sums over the points before `end`: from the nearer side.
    fn before(&self, end: usize) -> (i128, i128) {
        let sum = |points: &[Point]| {
            points
                .iter()
                .fold((0, 0), |(level, slope), point| (level + point.level, slope + point.slope))
        };
        if end <= self.points.len() / 2 {
            return sum(&self.points[..end]);
        }
        let (level, slope) = sum(&self.points[end..]);
        (self.level - level, self.slope - slope)
    }

    /// The least deadline of at most `most_ns` with which `fits` takes `load`, and its pieces;
    /// `None` if there is none. A later deadline never fits worse, so that there is one least.
    pub(super) fn place_least(
        &self,
        load: &Load,
        (rate_bps, blocking): (u64, i128),
        most_ns: u64,
    ) -> Option<[Piece; 3]> {
        let mut low = self.least_deadline(load, (rate_bps, blocking), most_ns)?;
        let pieces = |at_ns| self.deadline_pieces(load, at_ns);
        let fits = |at_ns| self.fits(&pieces(at_ns), rate_bps, blocking);
        low = self.deadline_up(low);
        // Only a knee that the grid made earlier makes the least deadline later than that.
        if low > most_ns || fits(low) {
            return (low <= most_ns).then(|| pieces(low));
        }
        let mut step = 1_u64;
        let mut high = loop {
            if low >= most_ns {
                return None;
            }
            let next = low.saturating_add(step).min(most_ns);
            if fits(next) {
                break next;
            }
            (low, step) = (next, step.saturating_mul(4));
        };
        while high - low > 1 {
            // Where only the grid's deadlines are left, between two of them all are one.
            high = self.place_down(high, EXACT_MAX);
            let middle = low + (high - low) / 2;
            if fits(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(pieces(high))
    }

    /// The least deadline of at most `most_ns` with which `load` fits, its knee being where it
    /// is (Firoiu, Kurose and Towsley 1997); `None` if there is none. One pass from the end.
    ///
    /// A deadline d is possible iff the load's burst fits at d, what it sends until its knee at
    /// d + knee, and what it sends until t at each point t ≥ d. What is possible for d is for all
    /// later ones, so that a burst that lacks room at t does at every deadline up to t.
    fn least_deadline(
        &self,
        load: &Load,
        (rate_bps, blocking): (u64, i128),
        most_ns: u64,
    ) -> Option<u64> {
        let rate = i128::from(rate_bps);
        if self.slope + i128::from(load.rate_bps()) > rate {
            return None;
        }
        // What is due at the knee, and a nanosecond behind it, by when.
        let knee = load.knee_ns();
        let behind = u128::from(load.rate_bps()) * (u128::from(knee) + 1);
        let before = u128::from(load.fast.rate_bps) * u128::from(knee);
        let burst = load.burst_nanobits().cast_signed();
        let mut bends = [
            Some((burst + before.cast_signed(), knee)),
            Some((load.slow_nanobits().cast_signed() + behind.cast_signed(), knee + 1)),
        ];
        let (mut level, mut slope) = (self.level, self.slope);
        let (mut least, mut end) = (0_u64, u64::MAX);
        let zero = Point { at_ns: 0, uses: 0, slope: 0, level: 0 };
        for point in self.points.iter().rev().chain([&zero]) {
            let at = point.at_ns;
            let room = (rate - slope) * i128::from(at) - level - blocking;
            // The first place of this segment with room for so much; there is room behind it.
            let with_room = |amount: i128| {
                let (lack, gain) = (amount - room, rate - slope);
                if gain <= 0 {
                    return end;
                }
                let wait = lack.unsigned_abs().div_ceil(gain.unsigned_abs());
                at.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)).min(end)
            };
            for bend in &mut bends {
                if let Some((amount, window)) = *bend
                    && room < amount
                {
                    *bend = None;
                    let latest = with_room(amount);
                    if latest == u64::MAX {
                        return None;
                    }
                    least = least.max(latest.saturating_sub(window));
                }
            }
            if room < burst {
                least = least.max(with_room(burst));
                break;
            }
            if at <= least {
                break;
            }
            least = least.max(at - reach(load, at - least, room));
            level -= point.level;
            slope -= point.slope;
            end = at;
        }
        (least <= most_ns).then_some(least)
    }

    /// Σ level and Σ slope behind the last point.
    pub(super) const fn totals(&self) -> (i128, i128) {
        (self.level, self.slope)
    }

    /// The first point.
    pub(super) fn first(&self) -> Option<u64> {
        self.points.first().map(|point| point.at_ns)
    }

    /// The last point.
    pub(super) fn last(&self) -> Option<u64> {
        self.points.last().map(|point| point.at_ns)
    }

    /// The sum, to be gone through from behind.
    pub(super) fn cursor(&self) -> Cursor<'_> {
        Cursor { points: &self.points, level: self.level, slope: self.slope }
    }

    pub(super) fn add(&mut self, pieces: &[Piece; 3]) {
        for piece in pieces {
            self.level += piece.level();
            self.slope += i128::from(piece.slope);
            match self.find(piece.at_ns) {
                Ok(i) => {
                    let point = &mut self.points[i];
                    point.uses += 1;
                    point.slope += i128::from(piece.slope);
                    point.level += piece.level();
                }
                Err(i) => {
                    self.exact += usize::from(!is_on_grid(piece.at_ns));
                    let (slope, level) = (i128::from(piece.slope), piece.level());
                    self.points.insert(i, Point { at_ns: piece.at_ns, uses: 1, slope, level });
                }
            }
        }
    }

    /// Takes away what `add` added.
    pub(super) fn remove(&mut self, pieces: &[Piece; 3]) {
        for piece in pieces {
            self.level -= piece.level();
            self.slope -= i128::from(piece.slope);
            let i = self.find(piece.at_ns).expect("only what was added is taken away");
            let point = &mut self.points[i];
            point.uses -= 1;
            point.slope -= i128::from(piece.slope);
            point.level -= piece.level();
            if point.uses == 0 {
                assert!(point.slope == 0 && point.level == 0, "a point without users is empty");
                self.exact -= usize::from(!is_on_grid(piece.at_ns));
                self.points.remove(i);
            }
        }
    }
}

/// Goes back through a profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    /// Those that have not been passed.
    points: &'a [Point],
    level: i128,
    slope: i128,
}

impl Cursor<'_> {
    /// Σ level, Σ slope and the last point, up to `at_ns`; calls go back in time.
    pub(super) fn back_to(&mut self, at_ns: u64) -> (i128, i128, u64) {
        while let [before @ .., last] = self.points {
            if last.at_ns <= at_ns {
                return (self.level, self.slope, last.at_ns);
            }
            self.level -= last.level;
            self.slope -= last.slope;
            self.points = before;
        }
        (self.level, self.slope, 0)
    }
}

/// The pieces of a load whose deadline and knee are at these times, in order: a burst at the
/// deadline, the fast rate until the knee, the slow rate behind it.
///
/// A knee lies between two nanoseconds. With a place for each of them the sum is right at every
/// whole nanosecond; where the last two places are one, the slow rate begins there already, with
/// what the slow bucket gives there.
pub(super) fn deadline_pieces_at(load: &Load, at_ns: [u64; 3]) -> [Piece; 3] {
    let (fast, slow, [at_ns, knee, behind]) = (load.fast, load.slow, at_ns);
    let (burst, slow_burst) = (load.burst_nanobits(), load.slow_nanobits());
    let (burst, slow_burst) = (burst.cast_signed(), slow_burst.cast_signed());
    let first = Piece { at_ns, jump: burst, slope: fast.rate_bps.cast_signed() };
    let fall = i128::from(fast.rate_bps - slow.rate_bps);
    let gap = i128::from(knee.saturating_sub(at_ns));
    // How much less the fast bucket gives at the knee's place.
    let less = slow_burst - burst - fall * gap;
    if behind > knee {
        // In the nanosecond between: from what the one bucket gives to what the other does.
        let part = less + i128::from(slow.rate_bps) - i128::from(fast.rate_bps);
        let bend = Piece { at_ns: knee, jump: 0, slope: part as i64 };
        let last = Piece { at_ns: behind, jump: 0, slope: -(fall + part) as i64 };
        return [first, bend, last];
    }
    let bend = Piece { at_ns: knee, jump: less, slope: -(fall as i64) };
    [first, bend, Piece { at_ns: knee, ..Piece::default() }]
}

/// Where a service curve may bend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bend {
    /// Convex: it must rise from this time on, or earlier.
    From(u64),
    /// Concave: it must keep its first slope until this time, or longer.
    Until(u64),
}

/// The service curve that serves a load within `delay_ns`, bending at `bend_ns`, and where it may.
pub(super) fn curve_pieces_at(load: &Load, delay_ns: u64, bend_ns: u64) -> ([Piece; 3], Bend) {
    let (delay, rate) = (u128::from(delay_ns.max(1)), load.rate_bps());
    let burst = u128::from(load.slow.burst_bits) * NANO;
    let zero = Piece::default();
    let none = Piece { at_ns: bend_ns, ..zero };
    if burst <= u128::from(rate) * delay {
        // Convex: nothing until x, the burst and the rate behind it meet the deadline.
        let lead = burst / u128::from(rate.max(1)) + 1;
        let second = Piece { at_ns: bend_ns, jump: 0, slope: rate.cast_signed() };
        return ([zero, second, none], Bend::From(delay.saturating_sub(lead) as u64));
    }
    // Concave: the least m1 that reaches the load's corners in time.
    let knee = u128::from(load.knee_ns()) + 1;
    let corner = load.slow.nanobits_in(u64::try_from(knee).unwrap_or(u64::MAX));
    let at_knee = corner.div_ceil(delay + knee);
    let at_once = (u128::from(load.fast.burst_bits) * NANO).div_ceil(delay);
    let m1 = at_once.max(if load.fast == load.slow { 0 } else { at_knee }).max(rate.into());
    let m1 = m1.min(i64::MAX as u128) as u64;
    let (over, spread) = (burst - u128::from(rate) * delay, u128::from(m1 - rate).max(1));
    let first = Piece { slope: m1.cast_signed(), ..zero };
    let second = Piece { at_ns: bend_ns, jump: 0, slope: -(m1 - rate).cast_signed() };
    let least = u64::try_from(over.div_ceil(spread)).unwrap_or(u64::MAX);
    ([first, second, none], Bend::Until(least))
}

/// Longest window of at most `window` at whose end a load with a deadline has brought at most
/// `room`. It has room for the burst.
fn reach(load: &Load, window: u64, room: i128) -> u64 {
    let longest = |burst: u128, rate: u64| {
        let spare = room.unsigned_abs().checked_sub(burst)?;
        Some(match u64::try_from(spare) {
            _ if rate == 0 => u64::MAX,
            Ok(spare) => spare / rate,
            Err(_) => u64::try_from(spare / u128::from(rate)).unwrap_or(u64::MAX),
        })
    };
    let (fast, slow) = (load.fast.rate_bps, load.slow.rate_bps);
    let both = [longest(load.burst_nanobits(), fast), longest(load.slow_nanobits(), slow)];
    both.into_iter().flatten().max().unwrap_or(0).min(window)
}

#[cfg(test)]
const fn nano(bits: u64) -> i128 {
    (bits as u128 * NANO).cast_signed()
}

/// Distance of the grid's points from `at_ns` on: an eighth of its power of two.
const fn grid_step(at_ns: u64) -> u64 {
    let octave = (at_ns | 8).ilog2();
    1 << (octave - 3)
}

/// The grid's last point not after `at_ns`: `(8 + m)·2ᵉ`, and all below 16.
const fn grid_down(at_ns: u64) -> u64 {
    at_ns & !(grid_step(at_ns) - 1)
}

/// The grid's first point not before `at_ns`.
const fn grid_up(at_ns: u64) -> u64 {
    let down = grid_down(at_ns);
    if down == at_ns { down } else { down.saturating_add(grid_step(at_ns)) }
}

const fn is_on_grid(at_ns: u64) -> bool {
    grid_down(at_ns) == at_ns
}

#[cfg(test)]
mod tests {
    use super::super::edf::{Arrivals, Flow, Verdict, schedulable};
    use super::*;
    use crate::spec::Bucket;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn load(fast: (u64, u64), slow: (u64, u64)) -> Load {
        let bucket = |(burst_bits, rate_bps)| Bucket { burst_bits, rate_bps };
        Load::two(bucket(fast), bucket(slow), 8, 8)
    }

    #[test]
    fn the_grid_has_eight_steps_per_octave() {
        assert_eq!(
            [0, 7, 15, 16, 17, 31, 33, 1000].map(grid_down),
            [0, 7, 15, 16, 16, 30, 32, 960]
        );
        assert!((1..100_000).all(|t| t - grid_down(t) <= t / 9));
    }

    /// Peaks of 2⁵⁰ bit/s: from the 8192nd on their sum is more than an `i64` holds.
    #[test]
    fn very_many_steep_channels_are_counted_to_the_last() {
        let steep = load((12_000, 1 << 50), (1_600_000, 1000));
        let (rate, mut profile, mut count) = (100_000_000_000, Profile::default(), 0);
        let pieces = profile.deadline_pieces(&steep, 200_000_000);
        while count < 25_000 && profile.fits(&pieces, rate, 0) {
            profile.add(&pieces);
            count += 1;
        }
        // 200 ms of the link are 2·10¹⁰ bits, each channel has 1.6·10⁶ due by then, or a few less.
        assert!((12_490..=12_510).contains(&count), "{count}");
    }

    fn any_load() -> impl Strategy<Value = (Load, u64)> {
        // Nanobit-sized: rates of 10⁹ bit/s make the unit of time 1 ns, as in the pure test.
        (1u64..30, 0u64..4, 0u64..30, 0u64..6, 1u64..60).prop_map(|(b, r, more, faster, d)| {
            let fast = (b, (r + faster) * 1_000_000_000);
            let slow = (b + more, r * 1_000_000_000);
            let one = more == 0 || faster == 0;
            (if one { load(slow, slow) } else { load(fast, slow) }, d)
        })
    }

    fn brute(loads: &[(Load, u64)], rate: u64, blocking: u64) -> bool {
        let first = loads.iter().map(|l| l.1).min().unwrap_or(0);
        let long: u64 = loads.iter().map(|l| l.0.rate_bps()).sum();
        long <= rate * 1_000_000_000
            && (first..400).all(|t| {
                let due: u128 =
                    loads.iter().filter(|l| l.1 <= t).map(|l| l.0.bits_in(t - l.1)).sum();
                due + u128::from(blocking) <= u128::from(rate * t)
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]
        /// With single buckets and few points the profile is the exact test: equal to the pure
        /// one. With two buckets it is equal up to the fraction of a nanosecond at knees, on the
        /// safe side.
        #[test]
        fn as_the_pure_test(
            loads in proptest::collection::vec(any_load(), 1..6),
            rate in 1u64..30,
            blocking in 0u64..10,
        ) {
            let mut profile = Profile::default();
            let mut kept: Vec<(Load, u64)> = Vec::new();
            for &(load, deadline) in &loads {
                let pieces = profile.deadline_pieces(&load, deadline);
                let fits = profile.fits(&pieces, rate * 1_000_000_000, nano(blocking));
                let mut all = kept.clone();
                all.push((load, deadline));
                let exact = brute(&all, rate, blocking);
                prop_assert!(!fits || exact, "unsafe");
                if all.iter().all(|l| l.0.fast == l.0.slow) {
                    prop_assert_eq!(fits, exact);
                    let line = (rate * 1_000_000_000, nano(blocking));
                    let least = profile.place_least(&load, line, 300).map(|p| p[0].at_ns);
                    let brute_least = (0..=300).find(|&d| {
                        let last = all.len() - 1;
                        all[last].1 = d;
                        brute(&all, rate, blocking)
                    });
                    prop_assert_eq!(least, brute_least);
                }
                if fits {
                    profile.add(&pieces);
                    kept.push((load, deadline));
                }
            }
            let flows: Vec<Flow> = kept.iter().map(|&(l, deadline)| Flow {
                arrivals: Arrivals::Bucket {
                    burst: l.slow.burst_bits, rate: l.slow.rate_bps / 1_000_000_000, size: 0,
                },
                deadline,
            }).collect();
            if kept.iter().all(|l| l.0.fast == l.0.slow) {
                prop_assert_eq!(schedulable(&flows, rate), Verdict::Schedulable);
            }
        }

        /// The least deadline is that of trying each of them with the test itself, with knees,
        /// and where deadlines and knees have begun to lie on the grid.
        #[test]
        fn the_least_deadline_is_found_by_trying_each(
            others in proptest::collection::vec((1u64..40, 0u64..40, 0u64..40, 1u64..4000), 0..220),
            new in (1u64..3000, 0u64..3000, 0u64..3000, 0u64..3000),
            spare in 0u64..100,
            blocking in 0u64..50,
        ) {
            let load = |(burst, rate, more, faster): (u64, u64, u64, u64)| {
                // Rates in bits per µs over a link of about a bit per ns for each of the others.
                let (rate, faster) = (rate * 1_000_000, faster * 1_000_000);
                let slow = (burst + more, rate);
                if more == 0 || faster == 0 {
                    load((burst + more, rate), slow)
                } else {
                    load((burst, rate + faster), slow)
                }
            };
            let rates: u64 = others.iter().map(|o| o.1 * 1_000_000).sum();
            let link = rates + (new.1 + spare) * 1_000_000;
            let line = (link, nano(blocking));
            let mut profile = Profile::default();
            for &(burst, rate, more, deadline) in &others {
                let load = load((burst, rate, more, 9 * rate));
                let pieces = profile.deadline_pieces(&load, deadline);
                if profile.fits(&pieces, line.0, line.1) {
                    profile.add(&pieces);
                }
            }
            let new = load(new);
            let fits = |d| profile.fits(&profile.deadline_pieces(&new, d), line.0, line.1);
            let tried = (0..20_000).find(|&d| fits(d));
            let least = profile.place_least(&new, line, 19_999).map(|p| p[0].at_ns);
            prop_assert_eq!(least, tried);
            // Monotone: no later deadline fits worse.
            if let Some(tried) = tried {
                prop_assert!((tried..20_000).step_by(7).all(fits));
            } else {
                let pieces = profile.deadline_pieces(&new, 19_999);
                let (at, due, sent) = profile.tightest(&pieces, line.0, line.1);
                prop_assert!(at >= pieces[0].at_ns && due > sent);
            }
        }

        /// Adding and taking away in any order leaves nothing behind, beyond the exact points too.
        #[test]
        fn what_is_taken_away_leaves_nothing(
            times in proptest::collection::vec(
                (1u64..1 << 40, 1u64..1 << 20, 1u64..1 << 20), 1..300,
            ),
        ) {
            let mut profile = Profile::default();
            let mut added = Vec::new();
            for &(deadline, burst, rate) in &times {
                let load = load((burst, rate * 3), (burst * 2, rate));
                let pieces = if rate % 2 == 0 {
                    profile.deadline_pieces(&load, deadline)
                } else {
                    profile.curve_pieces(&load, deadline)
                };
                prop_assert!(pieces[0].at_ns <= pieces[1].at_ns);
                profile.add(&pieces);
                added.push(pieces);
            }
            prop_assert!(profile.exact <= EXACT_MAX);
            prop_assert!(profile.len() <= EXACT_MAX + 8 * 64);
            added.sort_by_key(|pieces| pieces[0].jump);
            for pieces in added {
                profile.remove(&pieces);
            }
            prop_assert_eq!(profile, Profile::default());
        }

        /// The service curve serves the load in time: `S(t) ≥ α(t − d)` for all t ≥ d.
        #[test]
        fn the_curve_serves_the_load(
            b in 1u64..100_000, r in 1u64..1_000_000_000, more in 0u64..1_000_000,
            faster in 0u64..1_000_000_000, delay in 1u64..1_000_000_000,
            after in 0u64..10_000_000_000,
        ) {
            let load = if more == 0 || faster == 0 {
                load((b, r), (b, r))
            } else {
                load((b, r + faster), (b + more, r))
            };
            let pieces = Profile::default().curve_pieces(&load, delay);
            let t = i128::from(delay) + i128::from(after);
            let served: i128 = pieces
                .iter()
                .filter(|piece| i128::from(piece.at_ns) <= t)
                .map(|piece| piece.jump + i128::from(piece.slope) * (t - i128::from(piece.at_ns)))
                .sum();
            let due = load.fast.nanobits_in(after).min(load.slow.nanobits_in(after));
            prop_assert!(served >= due.cast_signed(), "{served} < {due}: {pieces:?}");
        }
    }
}
