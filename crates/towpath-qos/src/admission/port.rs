//! What is reserved at one egress, and whether one more fits.

use alloc::boxed::Box;

use super::crowd::{Crowd, Member};
use super::demand::{ExactDemand, Miss, NoDeadline, least_deadline};
use super::levels::Levels;
use super::load::{Load, time_up};
use super::profile::{self, Bend, Piece, Profile, TIME_NS_MAX};
use super::rate_based::RateHop;
use super::refusal::Shortage;
use super::turns::Turns;
use crate::spec::limits::{INTERVAL_NS_MAX, NANO};
use crate::topology::{Discipline, Port};

/// The scheduler's own test.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// EDF, and FCFS as EDF with one deadline for all and nothing unreserved.
    Deadlines {
        profile: Profile,
        /// Where the profile only bounds what is due.
        demand: Option<Box<ExactDemand>>,
        one_ns: Option<u64>,
    },
    Curves(Profile),
    Levels(Levels),
    Rate,
    Share,
}

/// Points of a profile up to which one more load is exact: below where the bends of curves go to
/// a grid.
const POINTS_EXACT: usize = 60;

/// One egress. Invariants: `reserved ≤ rate`; `memory ≤ queue`; the test's condition
/// holds for everything added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortState {
    rate_bps: u64,
    packet_bits: u64,
    queue_bits: u64,
    test: Test,
    hold: bool,
    reshapes: bool,
    /// Hard rates: bounded channels and shares.
    reserved_bps: u64,
    memory_bits: u64,
    crowd: Crowd,
    /// DRR and SCFQ.
    turns: Option<Turns>,
}

/// A place for a load at a port: what is added, and taken away again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) port: u32,
    pub(super) level: u8,
    pub(super) kind: SlotKind,
    /// Promised from last bit in to last bit out.
    pub(super) budget_ns: u64,
    /// Variation of delay on arrival, since the last regulator.
    pub(super) jitter_ns: u64,
    pub(super) rate_bps: u64,
    pub(super) memory_bits: u64,
    pub(super) pieces: [Piece; 3],
}

/// How a slot counts at its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotKind {
    Bounded,
    Share,
    Statistical(Member),
}

impl PortState {
    pub(super) fn new(port: &Port) -> Self {
        let levels = |budgets: &[u64], rcsp| Test::Levels(Levels::new(budgets, rcsp));
        let deadlines =
            |one_ns| Test::Deadlines { profile: Profile::default(), demand: None, one_ns };
        let test = match &port.discipline {
            Discipline::Fcfs(budget_ns) => deadlines(Some(*budget_ns)),
            Discipline::StaticPriority(budgets) => levels(budgets, false),
            Discipline::Rcsp(budgets) => levels(budgets, true),
            Discipline::Edf { .. } => deadlines(None),
            Discipline::Hfsc => Test::Curves(Profile::default()),
            Discipline::RateBased | Discipline::Drr { .. } | Discipline::Scfq { .. } => Test::Rate,
            Discipline::ShareOnly => Test::Share,
        };
        let hold = port.discipline == Discipline::Edf { hold: true };
        Self {
            rate_bps: port.rate_bps,
            packet_bits: port.packet_bits,
            queue_bits: port.queue_bits,
            test,
            hold,
            reshapes: hold || matches!(port.discipline, Discipline::Rcsp(_)),
            reserved_bps: 0,
            memory_bits: 0,
            crowd: Crowd::new(),
            turns: match port.discipline {
                Discipline::Drr { weights_max } => Some(Turns::weights(weights_max)),
                Discipline::Scfq { channels_max } => Some(Turns::channels(channels_max)),
                _ => None,
            },
        }
    }

    pub(super) const fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// Each channel is brought back to its specification before it is scheduled.
    pub(super) const fn reshapes(&self) -> bool {
        self.reshapes
    }

    /// Packets are held until the last hop's deadline (jitter-EDD), so that earlier hops'
    /// variation is gone.
    pub(super) const fn holds(&self) -> bool {
        self.hold
    }

    pub(super) const fn is_rate_based(&self) -> bool {
        matches!(self.test, Test::Rate)
    }

    /// What a run of rate-based ports must know of this one.
    pub(super) fn rate_hop(&self) -> RateHop {
        match &self.turns {
            Some(turns) => turns.hop(self.packet_bits, self.rate_bps),
            None => {
                RateHop { blocking_bits: self.packet_bits, rate_bps: self.rate_bps, weights_max: 0 }
            }
        }
    }

    /// The largest rate for which DRR has quanta left; the port's own elsewhere.
    pub(super) fn free_in_turns_bps(&self) -> u64 {
        self.turns.as_ref().map_or(self.rate_bps, |turns| turns.free_bps(self.rate_bps))
    }

    /// Whether the port has quanta or sessions for one more.
    pub(super) fn check_turns(&self, rate_bps: u64) -> Result<(), Shortage> {
        self.turns.as_ref().map_or(Ok(()), |turns| turns.check(rate_bps, self.rate_bps))
    }

    /// The weight of a slot, for DRR: its quantum in largest pieces of the port.
    pub(super) fn weight(&self, slot: &Slot) -> Option<u32> {
        self.turns.as_ref()?.weight(slot.rate_bps, self.rate_bps)
    }

    /// Rate that is not reserved, averages of statistical channels included.
    pub(super) fn free_bps(&self) -> u64 {
        let used = u128::from(self.reserved_bps) + self.crowd.mean_bps();
        u64::try_from(u128::from(self.rate_bps).saturating_sub(used)).unwrap_or(0)
    }

    /// Rate that one more hard promise may take without making statistical channels late: the
    /// free rate, less their spread, found by bisection.
    pub(super) fn free_for_hard_bps(&self) -> u64 {
        let left = self.rate_bps - self.reserved_bps;
        let (mut low, mut high) = (0, self.free_bps());
        if self.crowd.fits(None, left - high) {
            return high;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.crowd.fits(None, left - middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    pub(super) const fn free_memory_bits(&self) -> u64 {
        self.queue_bits - self.memory_bits
    }

    /// Points that a test passes over.
    pub(super) fn points(&self) -> usize {
        match &self.test {
            Test::Deadlines { profile, .. } | Test::Curves(profile) => profile.len(),
            Test::Levels(_) | Test::Rate | Test::Share => 0,
        }
    }

    /// The tests of rate that every kind of channel must pass.
    pub(super) fn check_rate(&self, rate_bps: u64, packet_bits: u64) -> Result<(), Shortage> {
        if packet_bits > self.packet_bits {
            return Err(Shortage::PacketBits { asked: packet_bits, limit: self.packet_bits });
        }
        let free = self.free_bps();
        if rate_bps > free {
            return Err(Shortage::RateBps { asked: rate_bps, free });
        }
        let left = self.rate_bps - self.reserved_bps - rate_bps;
        if !self.crowd.fits(None, left) {
            let asked = u64::try_from(self.crowd.mean_bps()).unwrap_or(u64::MAX);
            return Err(Shortage::Late { asked, free: left });
        }
        Ok(())
    }

    /// Whether a statistical channel keeps its probability, and leaves the others theirs.
    pub(super) fn check_member(&self, member: Member) -> Result<(), Shortage> {
        let left = self.rate_bps - self.reserved_bps;
        if self.crowd.fits(Some(member), left) {
            return Ok(());
        }
        let asked = self.crowd.mean_bps() + u128::from(member.mean_bps);
        Err(Shortage::Late { asked: u64::try_from(asked).unwrap_or(u64::MAX), free: left })
    }

    /// What blocks an urgent packet, in nanobits: one piece of anyone; under FCFS nobody is
    /// urgent.
    fn blocking(&self) -> i128 {
        match self.test {
            Test::Deadlines { one_ns: Some(_), .. } => 0,
            _ => (u128::from(self.packet_bits) * NANO).cast_signed(),
        }
    }

    /// Transmission of the largest piece.
    fn blocking_ns(&self) -> u64 {
        time_up(self.packet_bits, self.rate_bps)
    }

    /// A place with a budget of at most `budget_ns`, as near to it as there is; `None` where the
    /// load does not fit there. `load` is what arrives at the scheduler. Not for rate-based
    /// ports, whose runs are placed together.
    pub(super) fn place(&self, load: &Load, budget_ns: u64) -> Option<(u64, u8, [Piece; 3])> {
        match &self.test {
            Test::Deadlines { profile, one_ns, .. } => {
                let deadline_ns = one_ns.unwrap_or(budget_ns);
                if deadline_ns > budget_ns {
                    return None;
                }
                let pieces = profile.deadline_pieces(load, deadline_ns);
                let fits = profile.fits(&pieces, self.rate_bps, self.blocking()) || {
                    let at_ns = pieces[0].at_ns;
                    self.due(load, (at_ns, at_ns)).is_some_and(|least| least.is_ok())
                };
                // One deadline stays what it is, on the grid or not.
                fits.then_some((one_ns.unwrap_or(pieces[0].at_ns), 0, pieces))
            }
            Test::Curves(profile) => {
                let delay_ns = budget_ns.checked_sub(self.blocking_ns())?;
                let pieces = profile.curve_pieces(load, delay_ns);
                let fits =
                    pieces[1].at_ns <= TIME_NS_MAX && profile.fits(&pieces, self.rate_bps, 0);
                fits.then_some((budget_ns, 0, pieces))
            }
            Test::Levels(levels) => {
                let level = levels.level_for(budget_ns)?;
                let fits = levels.fits(load, level, (self.rate_bps, self.packet_bits));
                fits.then(|| (levels.budget_ns(level), level as u8, Default::default()))
            }
            Test::Rate | Test::Share => None,
        }
    }

    /// The least budget with which the load has a place, with that place.
    pub(super) fn place_least(&self, load: &Load) -> Result<(u64, u8, [Piece; 3]), Shortage> {
        let short = || self.short_of(load);
        match &self.test {
            Test::Rate | Test::Share => Err(Shortage::ShareOnly),
            Test::Levels(levels) => {
                let least = levels.least(load, (self.rate_bps, self.packet_bits));
                least.and_then(|budget| self.place(load, budget)).ok_or_else(short)
            }
            Test::Deadlines { one_ns: Some(budget), .. } => {
                self.place(load, *budget).ok_or_else(short)
            }
            Test::Deadlines { profile, one_ns: None, .. } => {
                let line = (self.rate_bps, self.blocking());
                let least = profile.place_least(load, line, INTERVAL_NS_MAX);
                let most_ns = least.map_or(INTERVAL_NS_MAX, |pieces| pieces[0].at_ns);
                // What the buckets leave no room for may have it, and earlier.
                let sooner = self.due(load, (0, most_ns)).and_then(Result::ok);
                let sooner = sooner.map(|at_ns| profile.deadline_up(at_ns));
                let sooner = sooner.filter(|at_ns| least.is_none() || *at_ns < most_ns);
                let sooner = sooner.map(|at_ns| profile.deadline_pieces(load, at_ns));
                let place = |pieces: [Piece; 3]| (pieces[0].at_ns, 0, pieces);
                sooner.or(least).map(place).ok_or_else(short)
            }
            Test::Curves(_) => {
                let own = time_up(load.burst_bits(), self.rate_bps);
                self.bisect(load, own.saturating_add(self.blocking_ns())).ok_or_else(short)
            }
        }
    }

    /// The least deadline between two, by the demand itself; `None` where the profile says all
    /// that is known.
    fn due(&self, load: &Load, between_ns: (u64, u64)) -> Option<Result<u64, Miss>> {
        let Test::Deadlines { profile, demand, .. } = &self.test else { return None };
        if demand.is_none() && load.is_two() {
            return None;
        }
        let line = (self.rate_bps, self.blocking());
        match least_deadline((profile, demand.as_deref()), load, line, between_ns) {
            Ok(at_ns) => Some(Ok(at_ns)),
            Err(NoDeadline::Misses(miss)) => Some(Err(miss)),
            Err(NoDeadline::Undecided) => None,
        }
    }

    /// By how much a load that has no place, however late it may be, does not fit: the window in
    /// which most is due beyond what can be sent, where it is least beyond.
    fn short_of(&self, load: &Load) -> Shortage {
        let (window_ns, asked, limit) = match &self.test {
            Test::Deadlines { profile, one_ns, .. } => {
                let at_ns = one_ns.unwrap_or(INTERVAL_NS_MAX);
                let pieces = profile.deadline_pieces(load, at_ns);
                match self.due(load, (at_ns, at_ns)) {
                    Some(Err(miss)) => miss.bits(self.rate_bps),
                    _ => profile.tightest(&pieces, self.rate_bps, self.blocking()),
                }
            }
            Test::Curves(profile) => {
                let pieces = profile.curve_pieces(load, INTERVAL_NS_MAX - self.blocking_ns());
                profile.tightest(&pieces, self.rate_bps, 0)
            }
            Test::Levels(levels) => levels.tightest(load, (self.rate_bps, self.packet_bits)),
            Test::Rate | Test::Share => return Shortage::ShareOnly,
        };
        let bits = |amount| u64::try_from(amount).unwrap_or(u64::MAX);
        Shortage::DueBits { window_ns, asked: bits(asked), limit: bits(limit) }
    }

    /// The least budget by doubling and bisection, to an eighth of itself.
    fn bisect(&self, load: &Load, from_ns: u64) -> Option<(u64, u8, [Piece; 3])> {
        let mut low = from_ns;
        let mut high = from_ns;
        let mut best = loop {
            if let Some(place) = self.place(load, high) {
                break place;
            }
            low = high;
            high = high.checked_mul(2).filter(|&high| high <= INTERVAL_NS_MAX)?;
        };
        while high - low > high / 8 {
            let middle = low + (high - low) / 2;
            match self.place(load, middle) {
                Some(place) => (best, high) = (place, middle),
                None => low = middle,
            }
        }
        Some(best)
    }

    /// Adds a slot that was placed, with the load as it arrives at the scheduler.
    pub(super) fn add(&mut self, slot: &Slot, load: &Load) {
        self.memory_bits += slot.memory_bits;
        if let Some(turns) = &mut self.turns {
            turns.add(turns.need(slot.rate_bps, self.rate_bps));
        }
        match slot.kind {
            SlotKind::Statistical(member) => self.crowd.add(member),
            SlotKind::Share => self.reserved_bps += slot.rate_bps,
            SlotKind::Bounded => {
                self.reserved_bps += slot.rate_bps;
                match &mut self.test {
                    Test::Deadlines { profile, demand, .. } => {
                        if demand.is_some() || !load.is_two() {
                            let exact =
                                demand.get_or_insert_with(|| Box::new(ExactDemand::new(profile)));
                            exact.add(load, &slot.pieces);
                        }
                        profile.add(&slot.pieces);
                    }
                    Test::Curves(profile) => profile.add(&slot.pieces),
                    Test::Levels(levels) => levels.add(load, slot.level.into()),
                    Test::Rate | Test::Share => {}
                }
            }
        }
        debug_assert!(self.reserved_bps <= self.rate_bps, "rates were tested");
    }

    /// Takes away what `add` added.
    pub(super) fn remove(&mut self, slot: &Slot, load: &Load) {
        self.memory_bits -= slot.memory_bits;
        if let Some(turns) = &mut self.turns {
            turns.remove(turns.need(slot.rate_bps, self.rate_bps));
        }
        match slot.kind {
            SlotKind::Statistical(member) => self.crowd.remove(member),
            SlotKind::Share => self.reserved_bps -= slot.rate_bps,
            SlotKind::Bounded => {
                self.reserved_bps -= slot.rate_bps;
                match &mut self.test {
                    Test::Deadlines { profile, demand, .. } => {
                        profile.remove(&slot.pieces);
                        if let Some(exact) = demand {
                            exact.remove(load, &slot.pieces);
                        }
                        // Only two-bucket loads are left: the profile says all.
                        demand.take_if(|exact| exact.is_plain());
                    }
                    Test::Curves(profile) => profile.remove(&slot.pieces),
                    Test::Levels(levels) => levels.remove(load, slot.level.into()),
                    Test::Rate | Test::Share => {}
                }
            }
        }
    }

    /// The place that a load must have with a slot's budget, in the form of `place`: everything
    /// but where the grid put the slot's points, which must be on the safe side.
    pub(super) fn place_again(&self, load: &Load, slot: &Slot) -> Option<(u64, u8, [Piece; 3])> {
        let (budget_ns, at) = (slot.budget_ns, slot.pieces.map(|piece| piece.at_ns));
        match &self.test {
            Test::Deadlines { one_ns, .. } => {
                let latest = one_ns.unwrap_or(budget_ns);
                let pieces = profile::deadline_pieces_at(load, at);
                let knee = at[0].saturating_add(load.knee_ns());
                let both = at[1] == knee && at[2] == knee.saturating_add(1);
                let safe =
                    at[0] <= latest && (at[0]..=knee).contains(&at[1]) && (at[2] == at[1] || both);
                (safe && budget_ns >= latest).then_some((latest, 0, pieces))
            }
            Test::Curves(_) => {
                let delay_ns = budget_ns.checked_sub(self.blocking_ns())?;
                let (pieces, bend) = profile::curve_pieces_at(load, delay_ns, at[1]);
                let safe = match bend {
                    Bend::Until(least) => at[1] >= least,
                    Bend::From(latest) => at[1] <= latest,
                };
                safe.then_some((budget_ns, 0, pieces))
            }
            Test::Levels(levels) => {
                let level = levels.level_for(budget_ns)?;
                Some((levels.budget_ns(level), level as u8, Default::default()))
            }
            Test::Rate | Test::Share => None,
        }
    }

    /// The service curve of a slot, for HFSC.
    pub(super) fn curve(&self, slot: &Slot) -> Option<(u64, u64, u64)> {
        let Test::Curves(_) = self.test else { return None };
        let (first, second) = (slot.pieces[0].slope, slot.pieces[1].slope);
        Some((first.cast_unsigned(), slot.pieces[1].at_ns, (first + second).cast_unsigned()))
    }

    /// HFSC, whose least budgets are only nearly the least.
    pub(super) const fn has_curves(&self) -> bool {
        matches!(self.test, Test::Curves(_))
    }

    /// Whether a load that two buckets say all of never needs a later budget, or less room, than
    /// one that is nowhere below it. Not where budgets are found in steps: HFSC's to an eighth,
    /// quanta and turns, deadlines on a grid, demand that is gone through within limits.
    pub(super) fn grows_with_the_load(&self) -> bool {
        match &self.test {
            Test::Levels(_) | Test::Share => true,
            Test::Rate => self.turns.is_none(),
            Test::Deadlines { profile, demand, .. } => {
                demand.is_none() && profile.len() < POINTS_EXACT
            }
            Test::Curves(_) => false,
        }
    }

    pub(super) fn has_levels(&self) -> bool {
        matches!(self.test, Test::Levels(_))
    }

    /// Whether every hard promise holds, summed anew by the caller.
    pub(super) fn holds_true(&self) -> bool {
        let kept = match &self.test {
            Test::Deadlines { profile, demand, .. } => {
                let line = (self.rate_bps, self.blocking());
                profile.holds(line.0, line.1)
                    || demand.as_ref().is_some_and(|demand| demand.holds(profile, line))
            }
            Test::Curves(profile) => profile.holds(self.rate_bps, 0),
            Test::Levels(levels) => levels.holds((self.rate_bps, self.packet_bits)),
            Test::Rate | Test::Share => true,
        };
        // Averages that were measured to rise again are no hard promise.
        let turns = self.turns.as_ref().is_none_or(Turns::holds);
        kept && turns && self.reserved_bps <= self.rate_bps && self.memory_bits <= self.queue_bits
    }
}
