//! The exact demand at an EDF port, where token buckets only bound it.
//!
//! A port's profile sums token buckets. What counts packets, or has more than two buckets, lies
//! below its part of that sum. So a test that the profile passes is passed; where it is not, the
//! demand itself is gone through from behind, as quick processor-demand analysis does (Zhang and
//! Burns 2009): if at time t no more than `h(t) + L` is due, nothing is short from `(h(t) + L)/C`
//! to t. Times are whole nanoseconds.
//!
//! A deadline that is short at t is put off until it is not; whatever was tested behind t stays
//! right, since later deadlines demand less everywhere. So the least deadline takes one pass.
//!
//! **What is lost.** Beyond [`TERMS_MAX`] unlike channels of such a kind at a port, or [`WORK_MAX`]
//! terms looked at in one pass, the sum of buckets decides alone.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::load::{Load, Shape};
use super::profile::{Cursor, Piece, Profile};
use crate::spec::buckets::BUCKETS_MAX;
use crate::spec::limits::NANO;
use crate::spec::{Buckets, Packets};

/// Most unlike terms of a port for which the demand is gone through.
pub(super) const TERMS_MAX: usize = 256;
/// Most terms looked at in one pass.
const WORK_MAX: usize = 1 << 19;
/// The latest time that is looked at: 2⁶⁰ ns times 2⁵⁰ bit/s are far from 2¹²⁷.
const HORIZON_MAX: u64 = 1 << 60;

/// A deadline, the variation before it, and a curve.
type Key<C> = (u64, u64, C);

/// What of a port's demand its profile only bounds.
/// Invariant: the profile is the sum of `plain` and of the buckets of all terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExactDemand {
    /// The sum of those loads that are two buckets.
    plain: Profile,
    packets: BTreeMap<Key<Packets>, u32>,
    many: BTreeMap<Key<Buckets>, u32>,
}

/// More is due at a time than can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Miss {
    pub(super) at_ns: u64,
    /// Nanobits that are due, with what may be in the way.
    pub(super) due: i128,
}

/// Why no deadline was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoDeadline {
    /// Every deadline up to the latest that was allowed misses.
    Misses(Miss),
    /// Not known within the limits.
    Undecided,
}

impl Miss {
    /// The time, what is due by then and what can be sent, in bits.
    pub(super) fn bits(self, rate_bps: u64) -> (u64, u128, u128) {
        let due = self.due.max(0).unsigned_abs().div_ceil(NANO);
        (self.at_ns, due, u128::from(rate_bps) * u128::from(self.at_ns) / NANO)
    }
}

impl ExactDemand {
    /// Of a port with nothing but two buckets.
    pub(super) fn new(plain: &Profile) -> Self {
        Self { plain: plain.clone(), packets: BTreeMap::new(), many: BTreeMap::new() }
    }

    /// Nothing but two buckets is left.
    pub(super) fn is_plain(&self) -> bool {
        self.packets.is_empty() && self.many.is_empty()
    }

    pub(super) fn add(&mut self, load: &Load, pieces: &[Piece; 3]) {
        let (at, early) = (pieces[0].at_ns, load.early_ns);
        match load.shape {
            Shape::Two => self.plain.add(pieces),
            Shape::Packets(packets) => *self.packets.entry((at, early, packets)).or_default() += 1,
            Shape::Many(buckets) => *self.many.entry((at, early, buckets)).or_default() += 1,
        }
    }

    /// Takes away what `add` added.
    pub(super) fn remove(&mut self, load: &Load, pieces: &[Piece; 3]) {
        let (at, early) = (pieces[0].at_ns, load.early_ns);
        match load.shape {
            Shape::Two => self.plain.remove(pieces),
            Shape::Packets(packets) => take(&mut self.packets, &(at, early, packets)),
            Shape::Many(buckets) => take(&mut self.many, &(at, early, buckets)),
        }
    }

    fn terms(&self) -> Vec<Term> {
        let packets = self.packets.iter().map(|(&(at_ns, early_ns, packets), &uses)| Term {
            at_ns,
            early_ns,
            uses,
            curve: Curve::Packets(packets),
        });
        let many = self.many.iter().map(|(&(at_ns, early_ns, buckets), &uses)| Term {
            at_ns,
            early_ns,
            uses,
            curve: Curve::Lines(Lines::of(&buckets)),
        });
        packets.chain(many).collect()
    }

    fn is_too_much(&self) -> bool {
        self.packets.len() + self.many.len() > TERMS_MAX
    }

    /// Whether everything that was added holds.
    pub(super) fn holds(&self, all: &Profile, line: (u64, i128)) -> bool {
        let first = self.packets.keys().map(|key| key.0).chain(self.many.keys().map(|key| key.0));
        let Some(first) = first.chain(self.plain.first()).min() else { return true };
        let mut pass = Pass::new(&self.plain, self.terms(), line);
        pass.work = usize::MAX;
        let Some(horizon) = pass.horizon(all, None) else { return false };
        pass.back(horizon, first, None).is_ok()
    }
}

fn take<K: Ord>(terms: &mut BTreeMap<K, u32>, key: &K) {
    let uses = terms.get_mut(key).expect("only what was added is taken away");
    *uses -= 1;
    if *uses == 0 {
        terms.remove(key);
    }
}

/// The least deadline of `from_ns..=most_ns` at which `load` fits beside what a port has: its
/// profile `all`, and `demand` where that only bounds it.
pub(super) fn least_deadline(
    (all, demand): (&Profile, Option<&ExactDemand>),
    load: &Load,
    line: (u64, i128),
    (from_ns, most_ns): (u64, u64),
) -> Result<u64, NoDeadline> {
    if demand.is_some_and(ExactDemand::is_too_much) {
        return Err(NoDeadline::Undecided);
    }
    let plain = demand.map_or(all, |demand| &demand.plain);
    let mut pass = Pass::new(plain, demand.map_or(Vec::new(), ExactDemand::terms), line);
    let own = Term::of(load);
    // At its deadline the load's own burst is due.
    let alone = (own.at(0).cast_signed() + line.1).unsigned_abs().div_ceil(line.0.max(1).into());
    let from_ns = from_ns.max(u64::try_from(alone).unwrap_or(u64::MAX));
    if from_ns > most_ns {
        let due = own.at(0).cast_signed() + line.1;
        return Err(NoDeadline::Misses(Miss { at_ns: most_ns, due }));
    }
    let mut own = Term { at_ns: from_ns, ..own };
    loop {
        let horizon = pass.horizon(all, Some((load, &own))).ok_or(NoDeadline::Undecided)?;
        let at_ns = pass.back(horizon, 0, Some(&(own, most_ns)))?;
        if at_ns == own.at_ns {
            return Ok(at_ns);
        }
        // A horizon that repetition gives is one for this deadline only.
        own.at_ns = at_ns;
        pass.plain = plain.cursor();
    }
}

/// The lines of a concave set of buckets, with the first whole nanosecond at which each is least.
#[derive(Clone, Copy, Debug)]
struct Lines {
    burst: [u128; BUCKETS_MAX],
    rate_bps: [u64; BUCKETS_MAX],
    from_ns: [u64; BUCKETS_MAX],
    len: usize,
}

impl Lines {
    fn of(buckets: &Buckets) -> Self {
        Self::new(buckets.as_slice().iter().map(|b| (u128::from(b.burst_bits) * NANO, b.rate_bps)))
    }

    /// From bursts in nanobits and rates: rates fall strictly, bursts rise.
    fn new(lines: impl Iterator<Item = (u128, u64)>) -> Self {
        let zero = [0; BUCKETS_MAX];
        let mut all = Self { burst: [0; BUCKETS_MAX], rate_bps: zero, from_ns: zero, len: 0 };
        for (burst, rate_bps) in lines {
            let k = all.len;
            if k > 0 {
                let (rise, fall) = (burst - all.burst[k - 1], all.rate_bps[k - 1] - rate_bps);
                let from = rise.div_ceil(u128::from(fall.max(1)));
                all.from_ns[k] = u64::try_from(from).unwrap_or(u64::MAX);
            }
            (all.burst[k], all.rate_bps[k], all.len) = (burst, rate_bps, k + 1);
        }
        all
    }

    fn at(&self, window_ns: u64) -> usize {
        self.from_ns[1..self.len].iter().take_while(|from| **from <= window_ns).count()
    }

    fn nanobits_in(&self, window_ns: u64, line: usize) -> u128 {
        self.burst[line] + u128::from(self.rate_bps[line]) * u128::from(window_ns)
    }
}

#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "a few hundred at most, and only during a pass")]
enum Curve {
    Packets(Packets),
    Lines(Lines),
}

/// Channels alike, with the deadline of their first packets.
#[derive(Clone, Copy, Debug)]
struct Term {
    at_ns: u64,
    early_ns: u64,
    uses: u32,
    curve: Curve,
}

/// Value, slope and start of the straight part around a time.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    due: i128,
    slope: i128,
    from_ns: u64,
}

impl Term {
    fn of(load: &Load) -> Self {
        let (early_ns, curve) = match &load.shape {
            Shape::Two => {
                let (fast, slow) = (load.fast.rate_bps, load.slow.rate_bps);
                let both = [(load.burst_nanobits(), fast), (load.slow_nanobits(), slow)];
                let skip = usize::from(fast == slow);
                (0, Curve::Lines(Lines::new(both.into_iter().skip(skip))))
            }
            Shape::Packets(packets) => (load.early_ns, Curve::Packets(*packets)),
            Shape::Many(buckets) => (load.early_ns, Curve::Lines(Lines::of(buckets))),
        };
        Self { at_ns: 0, early_ns, uses: 1, curve }
    }

    /// Nanobits of one channel in a window.
    fn at(&self, window_ns: u64) -> u128 {
        let window = window_ns.saturating_add(self.early_ns);
        match &self.curve {
            Curve::Packets(packets) => packets.nanobits_in(window),
            Curve::Lines(lines) => lines.nanobits_in(window, lines.at(window)),
        }
    }

    /// The straight part at `t_ns`, which is not before the deadline.
    fn part(&self, t_ns: u64) -> Part {
        let window = (t_ns - self.at_ns).saturating_add(self.early_ns);
        let (due, rate_bps, from) = match &self.curve {
            Curve::Packets(packets) => {
                (packets.nanobits_in(window), 0, packets.last_arrival_ns(window))
            }
            Curve::Lines(lines) => {
                let line = lines.at(window);
                (lines.nanobits_in(window, line), lines.rate_bps[line], lines.from_ns[line])
            }
        };
        let uses = u128::from(self.uses);
        Part {
            due: (due * uses).cast_signed(),
            slope: (u128::from(rate_bps) * uses).cast_signed(),
            from_ns: self.at_ns + from.saturating_sub(self.early_ns),
        }
    }

    /// The longest window in which one channel brings at most `room`; `None` where already its
    /// burst is more.
    fn longest(&self, room: i128) -> Option<u64> {
        let room = u128::try_from(room).ok().filter(|room| self.at(0) <= *room)?;
        let longest = match &self.curve {
            Curve::Packets(packets) => {
                packets.arrival_ns(room / (u128::from(packets.bits()) * NANO)).saturating_sub(1)
            }
            Curve::Lines(lines) => {
                let of = |line: usize| {
                    let spare = room.checked_sub(lines.burst[line])?;
                    let longest = spare.checked_div(lines.rate_bps[line].into());
                    Some(longest.map_or(u64::MAX, |ns| u64::try_from(ns).unwrap_or(u64::MAX)))
                };
                (0..lines.len).filter_map(of).max()?
            }
        };
        Some(longest.saturating_sub(self.early_ns))
    }
}

/// A demand on its way from the horizon to the front.
struct Pass<'a> {
    plain: Cursor<'a>,
    terms: Vec<Term>,
    rate: i128,
    blocking: i128,
    work: usize,
}

impl<'a> Pass<'a> {
    fn new(plain: &'a Profile, terms: Vec<Term>, (rate_bps, blocking): (u64, i128)) -> Self {
        let (plain, rate) = (plain.cursor(), i128::from(rate_bps));
        Self { plain, terms, rate, blocking, work: WORK_MAX }
    }

    /// A time behind which nothing new can be short: where the buckets of all fall below the
    /// line for ever, or one common multiple of all intervals behind the last bend.
    fn horizon(&self, all: &Profile, own: Option<(&Load, &Term)>) -> Option<u64> {
        let (mut level, mut slope) = all.totals();
        let mut last = all.last().unwrap_or(0);
        if let Some((load, own)) = own {
            let rate = i128::from(load.rate_bps());
            level += load.slow_nanobits().cast_signed() - rate * i128::from(own.at_ns);
            slope += rate;
            last = last.max(own.at_ns.saturating_add(load.knee_ns()).saturating_add(1));
        }
        let (level, spare) = (level + self.blocking, self.rate - slope);
        let falls = match (level <= 0, spare) {
            (_, ..=-1) => return None,
            (true, _) => Some(0),
            (false, 0) => None,
            (false, _) => u64::try_from(level.unsigned_abs().div_ceil(spare.unsigned_abs())).ok(),
        };
        let repeats = self.common_interval(own.map(|own| own.1));
        let repeats = repeats.and_then(|interval| self.last_bend(last, own)?.checked_add(interval));
        let horizon = [falls.map(|t| t.max(last)), repeats].into_iter().flatten().min()?;
        (horizon <= HORIZON_MAX).then_some(horizon)
    }

    /// The least common multiple of the intervals of all that counts packets.
    fn common_interval(&self, own: Option<&Term>) -> Option<u64> {
        let mut common = 1_u64;
        for term in self.terms.iter().chain(own) {
            let Curve::Packets(packets) = &term.curve else { continue };
            let (_, interval) = packets.count_in();
            common = common.checked_mul(interval / gcd(common, interval))?;
        }
        Some(common)
    }

    /// From where on all curves but those of packets are straight, and those repeat.
    fn last_bend(&self, last: u64, own: Option<(&Load, &Term)>) -> Option<u64> {
        let mut last = last;
        for term in self.terms.iter().chain(own.map(|own| own.1)) {
            let bend = match &term.curve {
                Curve::Packets(_) => 0,
                Curve::Lines(lines) => lines.from_ns[lines.len - 1],
            };
            last = last.max(term.at_ns.checked_add(bend)?);
        }
        Some(last)
    }

    /// The straight part of all at `t_ns`.
    fn part(&mut self, t_ns: u64, own: Option<&Term>) -> Part {
        self.work = self.work.saturating_sub(self.terms.len() + 4);
        let (level, slope, from_ns) = self.plain.back_to(t_ns);
        let mut all = Part { due: level + slope * i128::from(t_ns), slope, from_ns };
        for term in self.terms.iter().chain(own).filter(|term| term.at_ns <= t_ns) {
            let part = term.part(t_ns);
            all.due += part.due;
            all.slope += part.slope;
            all.from_ns = all.from_ns.max(part.from_ns);
        }
        all
    }

    /// Goes from `horizon` back to `first`, or to the deadline of a new term, which is put off as
    /// far as must be and at most to its second part; its deadline then.
    #[allow(clippy::large_types_passed_by_value, reason = "once a pass, which changes it")]
    fn back(
        &mut self,
        horizon: u64,
        first: u64,
        new: Option<&(Term, u64)>,
    ) -> Result<u64, NoDeadline> {
        let (mut own, most_ns) = new.map_or((None, 0), |&(own, most)| (Some(own), most));
        let mut t = horizon;
        loop {
            let until = own.map_or(first, |own| own.at_ns);
            if t < until {
                return Ok(until);
            }
            if self.work == 0 {
                return Err(NoDeadline::Undecided);
            }
            let part = self.part(t, own.as_ref());
            let start = part.from_ns.max(until);
            let at_start = part.due - part.slope * i128::from(t - start);
            let over = [(t, part.due), (start, at_start)]
                .into_iter()
                .find(|&(x, due)| due + self.blocking > self.rate * i128::from(x));
            if let Some((x, due)) = over {
                let miss = Miss { at_ns: x, due: due + self.blocking };
                let Some(own) = &mut own else { return Err(NoDeadline::Misses(miss)) };
                let others = due - own.at(x - own.at_ns).cast_signed();
                let room = self.rate * i128::from(x) - self.blocking - others;
                own.at_ns = own.longest(room).map_or(x + 1, |longest| x.saturating_sub(longest));
                if own.at_ns > most_ns {
                    return Err(NoDeadline::Misses(miss));
                }
                continue;
            }
            // From here to `safe` no more can be due than at `start`, which is not too much.
            let safe = (at_start + self.blocking).max(0).unsigned_abs();
            let safe = safe.div_ceil(self.rate.max(1).unsigned_abs());
            let safe = u64::try_from(safe).map_or(start, |safe| safe.min(start));
            match safe.checked_sub(1) {
                Some(before) => t = before,
                None => return Ok(own.map_or(first, |own| own.at_ns)),
            }
        }
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
