//! A high rate while late, a low one while early (first source, §4.5; its algorithm of 18 lines).
//!
//! When a group's reference appears, that is, when the group before it is sent, it is compared to
//! the counter, which was loaded with the first reference at the first byte. If it is still to
//! come (line 9), the whole group is sent at the low rate, else at the high one. The first group is
//! sent at the high rate.
//!
//! All instants of a delivery are sums of `bytes / high` and `bytes / low`, so with `low = high ·
//! num/den` they are whole multiples of `1 / (num · high.bytes)` tick: everything is decided in
//! integers, ties as the algorithm's `<` has them.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::cbr::{not_below, within};
use super::program::Writer;
use super::screen::{Candidate, SHARES, Screen, TWENTIETHS};
use super::slope::{check_delay, steepest_from_start};
use super::{POSITION_UNIT, Schedule, ScheduleError, Scheme, window};
use crate::stop::Stop;
use crate::trace::{ExactRate, Trace};

/// Two rates: `high`, and `low = high · num/den`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DualRate {
    high: ExactRate,
    num: u32,
    den: u32,
}

const SHARE_MAX: u32 = 1000;

impl DualRate {
    /// `low = high · num/den` with `1 ≤ num ≤ den ≤ 1000`. A low rate of zero is
    /// [`pcbr`](super::pcbr).
    pub fn new(high: ExactRate, num: u32, den: u32) -> Result<Self, ScheduleError> {
        if num == 0 || num > den || den > SHARE_MAX {
            return Err(ScheduleError::Share { num, den });
        }
        match high.scaled(u64::from(num), u64::from(den)) {
            Some(low) if !low.is_zero() => Ok(Self { high, num, den }),
            _ => Err(ScheduleError::RateRange { rate: high.ceil(1) }),
        }
    }

    /// The rate while late.
    pub const fn high(self) -> ExactRate {
        self.high
    }

    /// The rate while early.
    pub fn low(self) -> ExactRate {
        let low = self.high.scaled(u64::from(self.num), u64::from(self.den));
        low.expect("checked when made")
    }

    /// `low / high` as numerator and denominator.
    pub const fn share(self) -> (u32, u32) {
        (self.num, self.den)
    }

    /// Units of time per tick: `num · high.bytes`.
    pub(crate) fn units(self) -> u128 {
        u128::from(self.num) * u128::from(self.high.bytes())
    }

    /// Units of time per byte at the high and at the low rate.
    pub(crate) fn per_byte(self) -> [u128; 2] {
        let ticks = u128::from(self.high.ticks());
        [ticks * u128::from(self.num), ticks * u128::from(self.den)]
    }
}

/// Why a pair of rates was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GaveUp {
    Starved,
    OverLimit,
}

/// Bytes in a buffer, exactly: `whole + part / of`. Pairs of rates whose needs differ by less than
/// a byte are told apart.
#[derive(Clone, Copy, Debug)]
struct Held {
    whole: i64,
    part: u128,
    of: u128,
}

impl Held {
    const NOTHING: Self = Self { whole: 0, part: 0, of: 1 };
    const NO_LIMIT: Self = Self { whole: i64::MAX, part: 0, of: 1 };

    fn bytes(bytes: u64) -> Self {
        Self { whole: i64::try_from(bytes).unwrap_or(i64::MAX), ..Self::NOTHING }
    }

    /// Rounded up.
    fn ceil(self) -> u64 {
        self.whole.cast_unsigned() + u64::from(self.part > 0)
    }
}

impl Ord for Held {
    /// By continued fractions: no product that could overflow.
    fn cmp(&self, other: &Self) -> Ordering {
        let mut order = self.whole.cmp(&other.whole);
        let (mut a, mut b) = ((self.part, self.of), (other.part, other.of));
        while order == Ordering::Equal {
            match (a.0 == 0, b.0 == 0) {
                (true, true) => return Ordering::Equal,
                (true, false) => return Ordering::Less,
                (false, true) => return Ordering::Greater,
                // Compare the reciprocals' whole parts, the other way round.
                (false, false) => order = (b.1 / b.0).cmp(&(a.1 / a.0)),
            }
            (a, b) = ((b.1 % b.0, b.0), (a.1 % a.0, a.0));
        }
        order
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Held {}

/// Buffer in bytes at a pair of rates and a delay; an error where it starves.
pub fn buffer(trace: &Trace, rates: DualRate, delay: u64) -> Result<u64, ScheduleError> {
    check_delay(delay)?;
    if let Ok(held) = held(trace, rates, delay, Held::NO_LIMIT) {
        return Ok(held.ceil());
    }
    let least = least_delay(trace, rates)?;
    Err(ScheduleError::DelayTooShort { delay, least })
}

/// Follows one delivery, and gives up when a group is late or the buffer exceeds `limit`.
fn held(trace: &Trace, rates: DualRate, delay: u64, limit: Held) -> Result<Held, GaveUp> {
    let (times, sums) = (trace.times(), trace.sums());
    let (units, per_byte) = (rates.units(), rates.per_byte());
    let due = |group: usize| u128::from(delay + times[group]) * units;
    let mut most = Held::NOTHING;
    // One below `most` rounded up: what does not exceed it need not be looked at closely.
    let mut bar = -1i64;
    let mut done = 0u128;
    let mut low = 0;
    let mut next = 0;
    let mut next_due = due(0);
    for group in 0..times.len() {
        let begin = done;
        let step = per_byte[low];
        done += u128::from(sums[group + 1] - sums[group]) * step;
        if done > due(group) {
            return Err(GaveUp::Starved);
        }
        // Groups that leave while this one is sent.
        while next_due <= done {
            let base = sums[group].cast_signed() - sums[next].cast_signed();
            let past = next_due.saturating_sub(begin);
            let room = bar - base;
            if room < 0 || past > (room as u128) * step {
                let whole = base + (past / step) as i64;
                most = most.max(Held { whole, part: past % step, of: step });
                if most > limit {
                    return Err(GaveUp::OverLimit);
                }
                bar = most.ceil().cast_signed() - 1;
            }
            next += 1;
            next_due = if next < times.len() { due(next) } else { u128::MAX };
        }
        low = usize::from(group + 1 < times.len() && done < u128::from(times[group + 1]) * units);
    }
    if next < times.len() {
        most = most.max(Held::bytes(trace.total() - sums[next]));
    }
    if most > limit { Err(GaveUp::OverLimit) } else { Ok(most) }
}

/// Calls `visit(group, units of time when it is sent, whether at the low rate)`.
fn follow(trace: &Trace, rates: DualRate, mut visit: impl FnMut(usize, u128, bool)) {
    let (units, per_byte) = (rates.units(), rates.per_byte());
    let mut done = 0u128;
    for (group, (pair, &time)) in trace.sums().windows(2).zip(trace.times()).enumerate() {
        let low = group > 0 && done < u128::from(time) * units;
        done += u128::from(pair[1] - pair[0]) * per_byte[usize::from(low)];
        visit(group, done, low);
    }
}

/// Least start-up delay in ticks at a pair of rates, rounded up. Delivery does not depend on it.
pub fn least_delay(trace: &Trace, rates: DualRate) -> Result<u64, ScheduleError> {
    let units = rates.units();
    let mut least = 1u128;
    follow(trace, rates, |group, done, _| {
        let ahead = u128::from(trace.times()[group]) * units;
        least = least.max(done.saturating_sub(ahead));
    });
    within(least.div_ceil(units))
}

/// Whole bytes sent in the start-up delay, before the first group is consumed.
pub fn prefetched(trace: &Trace, rates: DualRate, delay: u64) -> u64 {
    let end = u128::from(delay) * rates.units();
    let mut done = 0u128;
    for (pair, &time) in trace.sums().windows(2).zip(trace.times()) {
        let low = time > 0 && done < u128::from(time) * rates.units();
        let step = rates.per_byte()[usize::from(low)];
        let next = done + u128::from(pair[1] - pair[0]) * step;
        if next > end {
            return pair[0] + ((end - done) / step) as u64;
        }
        done = next;
    }
    trace.total()
}

/// A pair of rates with the buffer and the delay it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The rates.
    pub rates: DualRate,
    /// Buffer in bytes.
    pub buffer: u64,
    /// Start-up delay in ticks.
    pub delay: u64,
}

/// Hundredths above `R_CBR` that it tries as the high one: 1.00 … 1.19.
const HIGHS: core::ops::Range<u64> = 0..20;

/// The pair of the first source's grid (`R_CBR` × 1.00 … 1.19 and 0.05 … 0.95 of that) that needs
/// the least buffer at a delay; of equals the lower high rate, then the lower low rate.
pub fn least_buffer(trace: &Trace, delay: u64, stop: Stop<'_>) -> Result<Choice, ScheduleError> {
    check_delay(delay)?;
    let cbr = steepest_from_start(trace, delay);
    let screen = Screen::new(trace);
    let mut open: Vec<(ExactRate, Candidate)> = Vec::new();
    let mut limit = f64::INFINITY;
    // Upwards: the lowest that do give a limit that most deliveries at higher ones soon exceed.
    for percent in HIGHS {
        stop.check()?;
        let Some(high) = cbr.scaled(100 + percent, 100) else { continue };
        // No schedule at this rate needs less.
        let floor = screen.floor(high);
        if limit < floor {
            continue;
        }
        for candidate in screen.open(high, delay, floor, limit) {
            if candidate.sure {
                limit = limit.min(candidate.held + 1.0);
            }
            open.push((high, candidate));
        }
    }
    best(trace, open, delay, (Held::NO_LIMIT, stop))
}

/// The best of what rounding left, exactly: what holds least, at most `limit`; of equals the lower
/// high rate, then the lower low rate.
fn best(
    trace: &Trace,
    mut open: Vec<(ExactRate, Candidate)>,
    delay: u64,
    (limit, stop): (Held, Stop<'_>),
) -> Result<Choice, ScheduleError> {
    open.sort_by(|(_, a), (_, b)| a.held.total_cmp(&b.held));
    let mut best: Option<(Held, ExactRate, u32)> = None;
    for (high, Candidate { share, held: least, .. }) in open {
        stop.check()?;
        let limit = best.map_or(limit, |(held, ..)| held);
        if limit.ceil() as f64 + 1.0 < least {
            break;
        }
        let Ok(rates) = DualRate::new(high, share, TWENTIETHS) else { continue };
        if let Ok(held) = held(trace, rates, delay, limit) {
            let found = (held, high, share);
            best = Some(best.map_or(found, |best| best.min(found)));
        }
    }
    let (held, high, share) = best.ok_or(ScheduleError::NoPair)?;
    Ok(Choice { rates: DualRate::new(high, share, TWENTIETHS)?, buffer: held.ceil(), delay })
}

/// The least high rate on the grid of 1 % of the mean rate, from the mean up to (and with) `most`,
/// that with some low rate (0.05 … 0.95 of it) keeps within a buffer at a delay; of equal high
/// rates the least buffer, then the lower low rate (§4.7.1).
pub fn least_rate(
    trace: &Trace,
    (buffer, delay): (u64, u64),
    most: ExactRate,
    stop: Stop<'_>,
) -> Result<Choice, ScheduleError> {
    let mean = trace.mean();
    let least = window::least_rate(trace, buffer, delay)?;
    for percent in 100.. {
        stop.check()?;
        let high = mean.scaled(percent, 100).ok_or(ScheduleError::NoPair)?;
        if high > most {
            return Err(ScheduleError::NoPair);
        }
        if high < least {
            continue;
        }
        match least_buffer_at(trace, high, delay, buffer, stop) {
            Err(ScheduleError::Interrupted) => return Err(ScheduleError::Interrupted),
            Err(_) => {}
            found => return found,
        }
    }
    Err(ScheduleError::NoPair)
}

/// The low rate (0.05 … 0.95 of `high`) that needs the least buffer at a delay, at most `limit`.
pub fn least_buffer_at(
    trace: &Trace,
    high: ExactRate,
    delay: u64,
    limit: u64,
    stop: Stop<'_>,
) -> Result<Choice, ScheduleError> {
    check_delay(delay)?;
    not_below(trace, high, steepest_from_start(trace, delay))?;
    let screen = Screen::new(trace);
    let open = screen.open(high, delay, screen.floor(high), limit as f64);
    let open = open.into_iter().map(|candidate| (high, candidate)).collect();
    best(trace, open, delay, (Held::bytes(limit), stop))
}

/// The low rate (0.05 … 0.95 of `high`) with the least start-up delay within a buffer; of equals
/// the lower low rate (§4.7.2).
pub fn least_delay_at(
    trace: &Trace,
    high: ExactRate,
    buffer: u64,
    stop: Stop<'_>,
) -> Result<Choice, ScheduleError> {
    let mut best: Option<Choice> = None;
    let mut least = None;
    for share in SHARES {
        stop.check()?;
        let rates = DualRate::new(high, share, TWENTIETHS)?;
        let delay = least_delay(trace, rates)?;
        if best.is_some_and(|best| best.delay <= delay) {
            continue;
        }
        if let Ok(held) = held(trace, rates, delay, Held::NO_LIMIT) {
            let bytes = held.ceil();
            if bytes <= buffer {
                best = Some(Choice { rates, buffer: bytes, delay });
            } else {
                least = Some(least.map_or(bytes, |least: u64| least.min(bytes)));
            }
        }
    }
    best.ok_or(
        least
            .map_or(ScheduleError::NoPair, |least| ScheduleError::BufferTooSmall { buffer, least }),
    )
}

/// The schedule at a pair of rates.
pub fn schedule(trace: &Trace, rates: DualRate, delay: u64) -> Result<Schedule, ScheduleError> {
    let buffer = buffer(trace, rates, delay)?;
    let (high, slow) = (rates.high, rates.low());
    let mut writer = Writer::new();
    follow(trace, rates, |group, _, low| {
        let rate = if low { slow } else { high };
        writer.change(trace.sums()[group] * POSITION_UNIT, rate);
    });
    Ok(Schedule::new(Scheme::Pdcbr, trace, delay, buffer, (writer.finish(trace.total()), high)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::pcbr;
    use crate::schedule::testing::{any_trace, even, rate};
    use proptest::prelude::*;

    /// Time in units.
    type Frac = u128;

    /// The algorithm of the source, line by line, on even frames of one tick, in units of
    /// `1 / (num · p)` tick. Returns when each frame is sent.
    fn eighteen_lines(sizes: &[u64], rates: DualRate) -> Vec<Frac> {
        let units = rates.units();
        let mut sent = Vec::new();
        let (mut b, mut rate) = (1usize, 0usize);
        let per_byte = rates.per_byte();
        // Time still needed for S_last at the current rate stands for S_last.
        let mut last = Frac::from(sizes[0]) * per_byte[rate];
        let mut frame = 1;
        while b <= sizes.len() {
            let end = frame * units;
            let mut u = (frame - 1) * units;
            let mut v = u;
            while v < end && b <= sizes.len() {
                v = (last + u).min(end);
                last -= v - u;
                if last == 0 {
                    sent.push(v);
                    rate = usize::from(v / units < b as Frac);
                    b += 1;
                    last = sizes.get(b - 1).map_or(0, |&size| Frac::from(size) * per_byte[rate]);
                }
                u = v;
            }
            frame += 1;
        }
        sent
    }

    /// Sizes 1, 5, 4, 2; high 4, low 2. Frame 1 is sent at 1/4 < 1: early; frame 2 at 1/4 + 5/2 =
    /// 11/4 ≥ 2: late; frame 3 at 15/4 ≥ 3: late; frame 4 at 17/4.
    #[test]
    fn by_hand() {
        let trace = even(1, &[1, 5, 4, 2]);
        let rates = DualRate::new(rate(4, 1), 1, 2).expect("rates");
        let mut sent = Vec::new();
        follow(&trace, rates, |_, done, low| sent.push((done, low)));
        // Units of 1/4 tick.
        assert_eq!(sent, [(1, false), (11, true), (15, false), (17, false)]);
        // Due at delay, delay + 1, ...: 1/4, 11/4 − 1, 15/4 − 2, 17/4 − 3: 2 ticks.
        assert_eq!(least_delay(&trace, rates), Ok(2));
        // At ticks 2, 3, 4, 5 sent: 1 + 7/4 · 2 = 4.5; 6 + 1 = 7; 10 + 1 = 11; 12.
        // Held: 4.5, 7 − 1, 11 − 6, 12 − 10.
        assert_eq!(buffer(&trace, rates, 2), Ok(6));
        assert_eq!(
            buffer(&trace, rates, 1),
            Err(ScheduleError::DelayTooShort { delay: 1, least: 2 })
        );
    }

    /// Groups enough for many blocks of the screen, with busy and quiet stretches.
    fn long_trace() -> impl Strategy<Value = Trace> {
        let group = (prop_oneof![9 => Just(2u64), 1 => 1u64..4], 0u64..3000);
        let scene = (prop::collection::vec(group, 1..60), 1u64..6);
        prop::collection::vec(scene, 2..9).prop_filter_map("not one byte", |scenes| {
            let groups = scenes.iter().flat_map(|(groups, level)| {
                groups.iter().map(move |&(gap, bytes)| (gap, bytes * level))
            });
            crate::schedule::testing::trace(&groups.collect::<Vec<_>>())
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn the_search_finds_the_least_in_long_traces(trace in long_trace(), delay in 1u64..90) {
            let cbr = steepest_from_start(&trace, delay);
            let mut least: Option<(Held, u64, u32)> = None;
            for (percent, share) in HIGHS.flat_map(|high| SHARES.map(move |share| (high, share))) {
                let high = cbr.scaled(100 + percent, 100).expect("rate");
                let rates = DualRate::new(high, share, 20).expect("rates");
                if let Ok(held) = held(&trace, rates, delay, Held::NO_LIMIT) {
                    let found = (held, percent, share);
                    least = Some(least.map_or(found, |least| least.min(found)));
                }
            }
            let found = least_buffer(&trace, delay, Stop::NEVER);
            let Some((held, percent, share)) = least else {
                prop_assert_eq!(found, Err(ScheduleError::NoPair));
                return Ok(());
            };
            let high = cbr.scaled(100 + percent, 100).expect("rate");
            let rates = DualRate::new(high, share, 20).expect("rates");
            prop_assert_eq!(found, Ok(Choice { rates, buffer: held.ceil(), delay }));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn fractions_compare_as_fractions(
            a in 0i64..3, b in 0i64..3, p in 0u128..50, q in 1u128..50, r in 0u128..50,
            s in 1u128..50,
        ) {
            let left = Held { whole: a, part: p % q, of: q };
            let right = Held { whole: b, part: r % s, of: s };
            let parts = |held: Held| held.whole as u128 * held.of + held.part;
            let order = (parts(left) * right.of).cmp(&(parts(right) * left.of));
            prop_assert_eq!(left.cmp(&right), order);
        }

        #[test]
        fn it_is_given_up_where_more_than_the_limit_is_held_and_not_before(
            trace in any_trace(), share in 1u32..20, extra in 0u64..9,
        ) {
            let high = pcbr::least_rate(&trace, 3).expect("rate");
            let rates = DualRate::new(high, share, 20).expect("rates");
            let delay = least_delay(&trace, rates).expect("delay") + extra;
            let need = held(&trace, rates, delay, Held::NO_LIMIT).expect("it is long enough");
            prop_assert_eq!(held(&trace, rates, delay, need), Ok(need));
            let ceil = Held::bytes(need.ceil());
            prop_assert_eq!(held(&trace, rates, delay, ceil), Ok(need));
            let less = Held::bytes(need.ceil() - 1);
            prop_assert_eq!(held(&trace, rates, delay, less), Err(GaveUp::OverLimit));
            let starved = held(&trace, rates, delay - extra - 1, Held::NO_LIMIT);
            prop_assert!(delay - extra == 1 || starved == Err(GaveUp::Starved));
        }

        #[test]
        fn before_the_first_group_goes_what_was_sent_by_then(
            trace in any_trace(), share in 1u32..20, delay in 1u64..40,
        ) {
            let high = pcbr::least_rate(&trace, 5).expect("rate");
            let rates = DualRate::new(high, share, 20).expect("rates");
            let end = Frac::from(delay) * rates.units();
            let (mut sent, mut before) = (0, 0);
            follow(&trace, rates, |group, done, low| {
                let size = trace.sums()[group + 1] - trace.sums()[group];
                let step = rates.per_byte()[usize::from(low)];
                let whole = (end.max(before) - before) / step;
                sent += size.min(u64::try_from(whole).unwrap_or(u64::MAX));
                before = done;
            });
            prop_assert_eq!(prefetched(&trace, rates, delay), sent);
        }

        #[test]
        fn it_is_the_algorithm_of_the_source(
            sizes in prop::collection::vec(1u64..20, 1..12), p in 1u64..12, q in 1u64..4,
            share in 1u32..20,
        ) {
            let rates = DualRate::new(rate(p, q), share, 20).expect("rates");
            let mut sent = Vec::new();
            follow(&even(1, &sizes), rates, |_, done, _| sent.push(done));
            prop_assert_eq!(sent, eighteen_lines(&sizes, rates));
        }

        #[test]
        fn schedules_keep_their_word(trace in any_trace(), delay in 1u64..40, share in 1u32..20) {
            let high = pcbr::least_rate(&trace, delay).expect("rate");
            let rates = DualRate::new(high, share, 20).expect("rates");
            let delay = least_delay(&trace, rates).expect("delay");
            let schedule = schedule(&trace, rates, delay).expect("schedule");
            let checked = schedule.check(&trace).expect("feasible");
            prop_assert_eq!(checked.buffer, schedule.buffer);
            prop_assert!(delay == 1 || buffer(&trace, rates, delay - 1).is_err());
        }

        #[test]
        fn the_search_finds_the_least_of_all_pairs(trace in any_trace(), delay in 1u64..40) {
            let cbr = steepest_from_start(&trace, delay);
            let mut all = Vec::new();
            for percent in HIGHS {
                for share in SHARES {
                    let high = cbr.scaled(100 + percent, 100).expect("rate");
                    let rates = DualRate::new(high, share, 20).expect("rates");
                    if let Ok(held) = held(&trace, rates, delay, Held::NO_LIMIT) {
                        let schedule = schedule(&trace, rates, delay).expect("schedule");
                        let checked = schedule.check(&trace).expect("feasible");
                        prop_assert_eq!(checked.buffer, held.ceil());
                        all.push((held, percent, share));
                    }
                }
            }
            let found = least_buffer(&trace, delay, Stop::NEVER);
            match all.iter().min() {
                None => prop_assert_eq!(found, Err(ScheduleError::NoPair)),
                Some(&(held, percent, share)) => {
                    let found = found.expect("a pair");
                    prop_assert_eq!(found.buffer, held.ceil());
                    let high = cbr.scaled(100 + percent, 100).expect("rate");
                    prop_assert_eq!(found.rates.high, high);
                    prop_assert_eq!(found.rates.share(), (share, 20));
                }
            }
        }
    }
}
