//! Sorts out pairs of rates that cannot be the best, in floats, before the rest is computed
//! exactly: a search over hundreds of deliveries then costs a few exact ones.

use alloc::vec::Vec;

use crate::trace::{ExactRate, Trace};

/// Groups between two looks at the buffers.
const BLOCK: usize = 32;
/// Deliveries followed side by side.
const WIDTH: usize = 6;
/// Parts of the high rate in which the low one is counted.
pub(super) const TWENTIETHS: u32 = 20;
/// The low rates: 0.05 … 0.95 of the high one.
pub(super) const SHARES: core::ops::Range<u32> = 1..20;
const LANES: usize = (SHARES.end - SHARES.start) as usize;

/// A trace prepared for screening.
///
/// Of a delivery at `high` and `low = high · share / 20` only `slow` is followed: the bytes sent at
/// the low rate so far. As `high · time sent = sums[n] + slow · (20 − share) / share`, group `n` is
/// early where `slow < share / (20 − share) · (high · times[n] − sums[n])`: one product and one
/// comparison for each pair of rates and group, without a branch, so that all low rates of one
/// high rate are followed side by side. `slow` is a whole number below 2^53, exact in floats;
/// only what it is compared to is rounded. A delivery with a comparison within the error of
/// rounding is never sorted out.
pub(super) struct Screen<'a> {
    trace: &'a Trace,
    times: Vec<f64>,
    sums: Vec<f64>,
    /// Least and greatest.
    gaps: (f64, f64),
    strides: Vec<Stride>,
}

/// Groups in a row, as far as a straight line tells.
#[derive(Clone, Copy)]
struct Stride {
    /// Reference of its last group, and bytes before that group; its first group is the last one
    /// of the stride before.
    time: f64,
    sum: f64,
    /// Bytes of that group.
    size: f64,
    /// How far `sums` runs above the line between its ends, at most.
    above: f64,
}

/// A delivery that may be what is sought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Low rate in twentieths of the high one.
    pub(super) share: u32,
    /// The most bytes held at some time, at least; to half a byte where `sure`.
    pub(super) held: f64,
    /// Whether surely no group starves and `held` is right.
    pub(super) sure: bool,
}

/// What is common to the deliveries at one high rate; time in bytes at that rate.
struct Line {
    rate: f64,
    delay: f64,
    gaps: (f64, f64),
    limit: f64,
    /// More than rounding can amount to: a few times 2^-53 of the largest number.
    error: f64,
}

/// A block of groups sent while others left, perhaps while most was held.
#[derive(Clone, Copy)]
struct Spot {
    /// Groups sent: from, past.
    sent: (usize, usize),
    /// Groups that left: from, past.
    left: (usize, usize),
    /// Bytes sent at the low rate before.
    slow: f64,
    /// Time at the end.
    now: f64,
}

/// One delivery.
struct Lane {
    share: u32,
    /// `share / (20 − share)`.
    ratio: f64,
    /// Bytes sent at the low rate.
    slow: f64,
    /// Least distance of `slow` to where early and late part.
    near: f64,
    /// Most by which `slow` exceeded it: how late a group began.
    late: f64,
    /// Groups consumed so far, and the most bytes held at some time.
    consumed: usize,
    held: f64,
    /// Where more than `held` may have been held.
    spots: Vec<Spot>,
}

impl<'a> Screen<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        // Below 2^52 the conversion of i64 is exact, and cheaper than that of u64.
        let float = |&value: &u64| value.cast_signed() as f64;
        let times: Vec<f64> = trace.times().iter().map(float).collect();
        let sums = trace.sums().iter().map(float).collect();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        let gaps = gaps.fold((f64::INFINITY, 0.0), |(least, most), gap| {
            (f64::min(least, gap), f64::max(most, gap))
        });
        let mut screen = Self { trace, times, sums, gaps, strides: Vec::new() };
        let strides = (1..screen.times.len()).step_by(BLOCK).map(|from| screen.stride(from));
        screen.strides = strides.collect();
        screen
    }

    /// The groups from `from` on.
    fn stride(&self, from: usize) -> Stride {
        let past = (from + BLOCK).min(self.times.len() - 1);
        let (time, sum) = (self.times[from], self.sums[from]);
        let slope = (self.sums[past] - sum) / f64::max(self.times[past] - time, 1.0);
        let mut above = 0.0;
        for (at, bytes) in self.times[from..past].iter().zip(&self.sums[from..past]) {
            let apart = bytes - sum - (at - time) * slope;
            above = f64::max(above, apart);
        }
        // More than rounding amounts to.
        let above = above + 1.0;
        Stride {
            time: self.times[past],
            sum: self.sums[past],
            size: self.sums[past + 1] - self.sums[past],
            above,
        }
    }

    /// Marks the low rates with which a group surely starves, as far as a few numbers for many
    /// groups tell.
    ///
    /// Let `over` be how much more was sent at the low rate than is early (see [`Screen`]). From a
    /// group of `size` bytes to the next, by which `ahead` grows, it becomes `over + size − ratio ·
    /// ahead` where it is negative, else `over − ratio · ahead`. Hence two bounds from below: it
    /// falls by no more than `ratio · ahead`, and it never falls faster than that from the lesser
    /// of zero and what it is if all was sent at the low rate.
    fn starves(&self, line: &Line) -> [bool; LANES] {
        let ratio: [f64; LANES] = core::array::from_fn(|lane| ratio(lane as u32 + SHARES.start));
        let mut before = (line.rate * self.times[1] - self.sums[1], self.sums[1]);
        let mut least = ratio.map(|ratio| -ratio * before.0);
        let mut late = least;
        for stride in &self.strides {
            let ahead = line.rate * stride.time - stride.sum;
            let grown = ahead - before.0;
            let size = stride.sum - before.1;
            let fall = f64::min(-grown, 0.0) - stride.above;
            for lane in 0..LANES {
                let (now, ratio) = (least[lane], ratio[lane]);
                let fast = now - ratio * grown;
                let clipped = f64::min(fast + size, ratio * fall);
                least[lane] = if clipped > fast { clipped } else { fast };
                late[lane] = if least[lane] > late[lane] { least[lane] } else { late[lane] };
            }
            before = (ahead, stride.sum);
        }
        // More than rounding amounts to, which adds up here.
        let error = 1.0 + line.error * (self.strides.len() + 1) as f64;
        core::array::from_fn(|lane| late[lane] > ratio[lane] * (line.delay - line.gaps.0) + error)
    }

    /// Less than any schedule at rate `high` needs as buffer.
    pub(super) fn floor(&self, high: ExactRate) -> f64 {
        let rate = high.bytes() as f64 / high.ticks() as f64;
        // Of stretches of groups only those between the ends of strides: almost the most of all.
        let (mut lowest, mut most) = (0.0, self.sums[1]);
        for stride in &self.strides {
            let before = stride.sum - rate * stride.time;
            lowest = f64::min(lowest, before);
            most = f64::max(most, before + stride.size - lowest);
        }
        let last = self.times[self.times.len() - 1] * rate;
        most - 1.0 - f64::max(last, self.trace.total() as f64) / (1u64 << 48) as f64
    }

    /// The low rates with which no group surely starves and no more than `limit` bytes are surely
    /// held. All hold at least `floor`.
    pub(super) fn open(
        &self,
        high: ExactRate,
        delay: u64,
        floor: f64,
        limit: f64,
    ) -> Vec<Candidate> {
        let (line, last) = self.line(high, delay, limit);
        if line.error > 0.25 {
            return SHARES.map(|share| Candidate { share, held: floor, sure: false }).collect();
        }
        let starves = if self.times.len() > 1 { self.starves(&line) } else { [false; LANES] };
        let lanes = SHARES.zip(starves).filter(|(_, starves)| !starves);
        self.sort_out(&line, lanes.map(|(share, _)| Lane::new(share, floor)).collect(), last)
    }

    /// What is common to the deliveries at one high rate, and when the last group is due.
    fn line(&self, high: ExactRate, delay: u64, limit: f64) -> (Line, f64) {
        let rate = high.bytes() as f64 / high.ticks() as f64;
        let delay = delay as f64 * rate;
        let last = delay + self.times[self.times.len() - 1] * rate;
        let parts = f64::from(TWENTIETHS);
        let error = parts * f64::max(last, self.trace.total() as f64) / (1u64 << 48) as f64;
        let gaps = (self.gaps.0 * rate, self.gaps.1 * rate);
        (Line { rate, delay, gaps, limit, error }, last)
    }

    /// Follows deliveries until they end or need not be followed further. The last group is due at
    /// `last`.
    fn sort_out(&self, line: &Line, mut lanes: Vec<Lane>, last: f64) -> Vec<Candidate> {
        let mut open = Vec::new();
        let mut group = 1;
        while group < self.times.len() && !lanes.is_empty() {
            group = self.follow(line, &mut lanes, group);
            lanes.retain(|lane| {
                if line.doubts(lane) {
                    open.push(lane.candidate(false));
                }
                !line.doubts(lane) && !line.is_out(lane)
            });
        }
        let past = last - self.trace.total() as f64;
        for lane in lanes.iter_mut().filter(|lane| lane.slow <= lane.ratio * past + line.error) {
            self.look_back(line, lane);
            let sure = lane.slow <= lane.ratio * past - line.error && line.keeps_up(lane);
            open.push(lane.candidate(sure));
        }
        open
    }

    /// Follows deliveries from `group` until one of them needs not be followed further, or to the
    /// end; returns where.
    fn follow(&self, line: &Line, lanes: &mut [Lane], mut group: usize) -> usize {
        let mut bundles: Vec<Bundle> = lanes.chunks(WIDTH).map(Bundle::new).collect();
        let mut finished = false;
        while group < self.times.len() && !finished {
            let past = (group + BLOCK).min(self.times.len());
            for (lanes, bundle) in lanes.chunks_mut(WIDTH).zip(&mut bundles) {
                let (times, sums) = (&self.times[group..past], &self.sums[group..=past]);
                match lanes.len() {
                    0..=2 => bundle.step::<2>(times, sums, line.rate),
                    3..=4 => bundle.step::<4>(times, sums, line.rate),
                    _ => bundle.step::<WIDTH>(times, sums, line.rate),
                }
                for (index, lane) in lanes.iter_mut().enumerate() {
                    lane.near = bundle.near[index];
                    lane.late = bundle.late[index];
                    if line.doubts(lane) {
                        finished = true;
                        continue;
                    }
                    self.look(line, lane, (group, past), bundle.slow[index]);
                    finished |= line.is_out(lane);
                }
            }
            group = past;
        }
        group
    }

    /// Notes what the groups find that leave while those in `range` are sent, and at least what the
    /// next one will find. `slow` is that at the end.
    fn look(&self, line: &Line, lane: &mut Lane, range: (usize, usize), slow: f64) {
        let past = range.1;
        let now = slow / lane.ratio + self.sums[past];
        let ticks = (now - line.delay) / line.rate;
        let first = lane.consumed;
        let next = self.left(ticks, first);
        if next > first && self.sums[past] - self.sums[first] > lane.held {
            let spot = Spot { sent: range, left: (first, next), slow: lane.slow, now };
            let limit = line.limit + 1.0;
            if self.sums[past] - self.sums[first] > limit
                && self.at_most(line, lane.ratio, &spot) > limit
            {
                lane.held = f64::max(lane.held, self.at_spot(line, lane.ratio, &spot));
            } else {
                lane.spots.push(spot);
            }
        }
        lane.slow = slow;
        lane.consumed = next;
        if next < self.times.len() {
            lane.held = f64::max(lane.held, self.sums[past] - self.sums[next]);
        }
    }

    /// Groups that leave until `ticks` after the first does, at least `next`.
    fn left(&self, ticks: f64, mut next: usize) -> usize {
        if self.gaps.0 >= self.gaps.1 {
            let even = if ticks < 0.0 { 0 } else { (ticks / self.gaps.0) as usize + 1 };
            return even.clamp(next, self.times.len());
        }
        let mut stride = BLOCK;
        while stride > 0 {
            while self.times.get(next + stride - 1).is_some_and(|&time| time <= ticks) {
                next += stride;
            }
            stride /= 2;
        }
        next
    }

    /// Completes `held`.
    fn look_back(&self, line: &Line, lane: &mut Lane) {
        let mut held = lane.held;
        for spot in &lane.spots {
            let most = self.sums[spot.sent.1] - self.sums[spot.left.0];
            if most > held && self.at_most(line, lane.ratio, spot) > held {
                held = f64::max(held, self.at_spot(line, lane.ratio, spot));
            }
        }
        lane.held = held;
    }

    /// More than a group may find when it leaves: sent since the spot's begin at the high rate, and
    /// from then to its end at the low one.
    fn at_most(&self, line: &Line, ratio: f64, spot: &Spot) -> f64 {
        let low = ratio / (ratio + 1.0);
        // At the first group's time.
        let fast = line.delay - spot.slow / ratio;
        let slow = self.sums[spot.sent.1] + low * (line.delay - spot.now);
        let left = spot.left.0..spot.left.1;
        let pairs = self.times[left.clone()].iter().zip(&self.sums[left]);
        let found = pairs.map(|(&time, &sum)| {
            let time = time * line.rate;
            let (early, late) = (time + fast, time * low + slow);
            (if early < late { early } else { late }) - sum
        });
        found.fold(0.0, |most, found| if found > most { found } else { most }) + 0.5
    }

    /// What groups find when they leave.
    fn at_spot(&self, line: &Line, ratio: f64, spot: &Spot) -> f64 {
        let low = ratio / (ratio + 1.0);
        let (mut leaving, mut slow, mut most) = (spot.left.0, spot.slow, 0.0);
        for group in spot.sent.0..spot.sent.1 {
            let (sum, size) = (self.sums[group], self.sums[group + 1] - self.sums[group]);
            let begin = slow / ratio + sum;
            let early = slow < ratio * (self.times[group] * line.rate - sum);
            let pace = if early { low } else { 1.0 };
            slow += if early { size } else { 0.0 };
            let end = slow / ratio + self.sums[group + 1];
            let last = group + 1 == spot.sent.1;
            while leaving < spot.left.1 {
                let due = self.times[leaving] * line.rate + line.delay;
                if due > end && !last {
                    break;
                }
                let sent = sum + f64::min(f64::max(due - begin, 0.0) * pace, size);
                most = f64::max(most, sent - self.sums[leaving]);
                leaving += 1;
            }
        }
        most
    }
}

impl Lane {
    fn new(share: u32, held: f64) -> Self {
        let ratio = ratio(share);
        let (near, late) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { share, ratio, slow: 0.0, near, late, consumed: 0, held, spots: Vec::new() }
    }

    fn candidate(&self, sure: bool) -> Candidate {
        Candidate { share: self.share, held: self.held, sure }
    }
}

impl Line {
    /// Whether rounding may have decided something.
    fn doubts(&self, lane: &Lane) -> bool {
        lane.near <= self.error
    }

    /// Surely starved, or surely beyond the limit.
    ///
    /// A group that begins when the one before it was due, or later, tells that this was late.
    fn is_out(&self, lane: &Lane) -> bool {
        let spare = lane.ratio * (self.delay - self.gaps.0) + self.error;
        lane.late > spare || lane.held > self.limit + 1.0
    }

    /// Surely no group but perhaps the last starved.
    fn keeps_up(&self, lane: &Lane) -> bool {
        lane.late < lane.ratio * (self.delay - self.gaps.1) - self.error
    }
}

/// The low rate's part of the high one, over the rest.
fn ratio(share: u32) -> f64 {
    f64::from(share) / f64::from(TWENTIETHS - share)
}

/// Deliveries side by side: as many as the processor's registers hold.
struct Bundle {
    ratio: [f64; WIDTH],
    slow: [f64; WIDTH],
    near: [f64; WIDTH],
    late: [f64; WIDTH],
}

impl Bundle {
    /// Where there are fewer deliveries the first is repeated.
    fn new(lanes: &[Lane]) -> Self {
        let lane = |index: usize| lanes.get(index).unwrap_or(&lanes[0]);
        Self {
            ratio: core::array::from_fn(|index| lane(index).ratio),
            slow: core::array::from_fn(|index| lane(index).slow),
            near: core::array::from_fn(|index| lane(index).near),
            late: core::array::from_fn(|index| lane(index).late),
        }
    }

    /// Sends groups: the first `N` deliveries, all that are wanted.
    #[inline]
    fn step<const N: usize>(&mut self, times: &[f64], sums: &[f64], rate: f64) {
        let part = |all: &[f64; WIDTH]| core::array::from_fn::<_, N, _>(|lane| all[lane]);
        let ratio = part(&self.ratio);
        let (mut slow, mut near, mut late) = (part(&self.slow), part(&self.near), part(&self.late));
        let mut sum = sums[0];
        for (&time, &next) in times.iter().zip(&sums[1..]) {
            let (ahead, size) = (time * rate - sum, next - sum);
            sum = next;
            for lane in 0..N {
                let over = slow[lane] - ratio[lane] * ahead;
                let apart = over.abs();
                near[lane] = if apart < near[lane] { apart } else { near[lane] };
                late[lane] = if over > late[lane] { over } else { late[lane] };
                slow[lane] += if over < 0.0 { size } else { 0.0 };
            }
        }
        self.slow[..N].copy_from_slice(&slow);
        self.near[..N].copy_from_slice(&near);
        self.late[..N].copy_from_slice(&late);
    }
}

#[cfg(test)]
mod tests {
    use super::super::pdcbr::{DualRate, buffer};
    use super::*;
    use crate::schedule::slope::steepest_from_start;
    use crate::schedule::testing::{rate, trace};

    /// Videos that differ in how regular they are, with quiet and busy stretches.
    fn videos() -> impl Iterator<Item = Trace> {
        let mut state = 1997_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        (0..24_u64).map(move |video| {
            let groups: Vec<(u64, u64)> = (0..100 + 15 * video)
                .map(|group| {
                    let gap = if video % 3 == 0 { 2 } else { 1 + random(3) };
                    (gap, random(900) * (1 + (group / 40 + video) % 4) + 1)
                })
                .collect();
            trace(&groups).expect("a trace")
        })
    }

    /// What each low rate needs, exactly; none where a group starves.
    fn exact(trace: &Trace, high: ExactRate, delay: u64) -> Vec<(u32, Option<u64>)> {
        let need = |share| {
            let rates = DualRate::new(high, share, TWENTIETHS).expect("rates");
            (share, buffer(trace, rates, delay).ok())
        };
        SHARES.map(need).collect()
    }

    #[test]
    fn what_may_be_best_stays_and_what_is_sure_is_right() {
        let (mut sure, mut possible, mut open_in_vain, mut impossible) = (0, 0, 0, 0);
        for trace in videos() {
            let screen = Screen::new(&trace);
            for (delay, percent) in [(3, 4), (20, 0), (60, 10), (200, 30)] {
                let cbr = steepest_from_start(&trace, delay);
                let high = cbr.scaled(100 + percent, 100).expect("rate");
                let floor = screen.floor(high);
                let needs = exact(&trace, high, delay);
                let least = needs.iter().filter_map(|(_, need)| *need).min();
                for extra in [0, 500, 1_000_000] {
                    let limit = least.unwrap_or(1000) + extra;
                    let open = screen.open(high, delay, floor, limit as f64);
                    for (share, need) in &needs {
                        let found = open.iter().find(|candidate| candidate.share == *share);
                        let Some(need) = need.filter(|need| *need <= limit) else {
                            impossible += 1;
                            open_in_vain += usize::from(found.is_some());
                            assert!(found.is_none_or(|c| !c.sure || c.held > limit as f64 - 1.0));
                            continue;
                        };
                        let found = found.expect("it is not sorted out");
                        let need = need as f64;
                        assert!(floor <= need && found.held <= need + 0.5, "{found:?} {need}");
                        possible += 1;
                        if found.sure {
                            sure += 1;
                            assert!(found.held >= need - 1.5, "{found:?} {need}");
                        }
                    }
                }
            }
        }
        assert!(possible > 1000 && impossible > 1000, "{possible} {impossible}");
        // So few are computed exactly for nothing that a search is worth its while.
        assert!(sure * 1000 >= possible * 925, "{sure} of {possible} are sure");
        assert!(open_in_vain * 100 <= impossible, "{open_in_vain} of {impossible} stay in vain");
    }

    #[test]
    fn no_schedule_at_a_rate_needs_less_than_its_floor_and_few_need_much_more() {
        let mut parts = Vec::new();
        for trace in videos() {
            let screen = Screen::new(&trace);
            for (delay, percent) in [(3, 0), (20, 5), (60, 20)] {
                let cbr = steepest_from_start(&trace, delay);
                let high = cbr.scaled(100 + percent, 100).expect("rate");
                let needs = exact(&trace, high, delay);
                let Some(least) = needs.iter().filter_map(|(_, need)| *need).min() else {
                    continue;
                };
                let floor = screen.floor(high);
                assert!(floor > 0.0 && floor <= least as f64, "{floor} of {least}");
                parts.push(floor / least as f64);
            }
        }
        let mean = parts.iter().sum::<f64>() / parts.len() as f64;
        assert!(parts.len() > 40 && mean >= 0.505, "{mean} of {}", parts.len());
    }

    #[test]
    fn one_group_and_rates_that_rounding_cannot_tell_apart_are_looked_at_exactly() {
        let one = trace(&[(5, 300)]).expect("a trace");
        let screen = Screen::new(&one);
        let open = screen.open(rate(10, 1), 30, screen.floor(rate(10, 1)), 1e9);
        assert_eq!(open.len(), LANES, "{open:?}");
        // Numbers beyond what a float tells apart by a quarter of a byte.
        let long = trace(&[(1, 1 << 40); 5]).expect("a trace");
        let screen = Screen::new(&long);
        let high = rate(1 << 39, 1);
        let open = screen.open(high, 9, 7.0, 1e3);
        assert_eq!(open.len(), LANES);
        assert!(open.iter().all(|c| !c.sure && c.held.to_bits() == 7.0_f64.to_bits()));
    }

    #[test]
    fn a_few_numbers_tell_most_deliveries_that_starve_and_no_other() {
        let (mut told, mut starving) = (0, 0);
        for trace in videos() {
            let screen = Screen::new(&trace);
            for (delay, percent) in [(3, 4), (20, 0), (60, 10), (200, 30)] {
                let cbr = steepest_from_start(&trace, delay);
                let high = cbr.scaled(100 + percent, 100).expect("rate");
                let (line, _) = screen.line(high, delay, 1e12);
                let starves = screen.starves(&line);
                for ((_, need), starves) in exact(&trace, high, delay).iter().zip(starves) {
                    assert!(need.is_none() || !starves, "it does not starve");
                    starving += u32::from(need.is_none());
                    told += u32::from(starves);
                }
            }
        }
        // The rest is found out by following it.
        assert!(starving > 1000 && told * 1000 >= starving * 385, "{told} of {starving}");
    }

    #[test]
    fn groups_that_have_left_are_counted_whether_they_come_evenly_or_not() {
        for gaps in [&[2; 200][..], &[1, 3, 2, 7].repeat(50)] {
            let groups: Vec<(u64, u64)> = gaps.iter().map(|gap| (*gap, 5)).collect();
            let trace = trace(&groups).expect("a trace");
            let screen = Screen::new(&trace);
            for ticks in -3..1000 {
                for half in [0.0, 0.5] {
                    let ticks = f64::from(ticks) + half;
                    let left = screen.times.iter().filter(|time| **time <= ticks).count();
                    for next in [0, left / 2, left] {
                        assert_eq!(screen.left(ticks, next), left, "{ticks} from {next}");
                    }
                    assert_eq!(screen.left(ticks, screen.times.len()), screen.times.len());
                }
            }
        }
    }
}
