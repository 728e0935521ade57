//! The nearest request that passes, in a bounded number of steps.
//!
//! A later bound where that is all that lacks; else less traffic. How much less is asked of the
//! bottleneck alone: what it has free, or, where bursts and deadlines are in question, a bisection
//! with its one test. Only the outcome is tested on the whole route; where another resource stands
//! in the way then, that is the next bottleneck, and after [`GUESSES`] of them the search halves
//! what is left. It ends where something passes and a little more does not, or with the
//! least part of all refused: less traffic never fits worse, so that nothing of the kind passes
//! then. But HFSC's budgets are found to an eighth only, and of statistical traffic a tiny part may
//! be refused where a larger one passes: for these each part is tried.
//!
//! What is named has been decided as it is named, and is rounded so that what is made of it, in
//! the units of the specification, is nowhere more. Under HFSC, whose budgets are found to an
//! eighth, and DRR and SCFQ, whose bounds have steps, that may all the same need a later bound.

use alloc::vec::Vec;
use core::time::Duration;

use super::decide::{Obstacle, Place};
use super::plan::{Ask, Totals};
use super::port::Slot;
use super::ports::Network;
use super::refusal::{Nearest, Shortage};
use super::request::Wish;
use crate::spec::limits::INTERVAL_NS_MAX;
use crate::topology::Topology;

/// Most bottlenecks that are asked how much they would take.
const GUESSES: u32 = 4;

/// Scaled traffic is counted in these parts.
const WHOLE: u32 = 1024;

impl Ask {
    /// All rates and bursts times `parts`/1024, messages as they are.
    fn scaled(&self, parts: u32) -> Self {
        Self { load: self.load.scaled(parts, WHOLE, self.kept_bits), ..*self }
    }

    /// The same with another bound.
    fn with_delay(&self, delay_ns: u64) -> Self {
        let delay = Duration::from_nanos(delay_ns);
        let wish = match self.wish {
            Wish::Bounded { jitter, .. } => Wish::Bounded { delay, jitter },
            other => other,
        };
        Self { wish, ..*self }
    }

    /// The same with another bound on jitter.
    fn with_jitter(&self, jitter_ns: u64) -> Self {
        let jitter = Some(Duration::from_nanos(jitter_ns));
        let wish = match self.wish {
            Wish::Bounded { delay, .. } => Wish::Bounded { delay, jitter },
            other => other,
        };
        Self { wish, ..*self }
    }
}

impl Network {
    /// The nearest request that passes; `slots` is what the refused plan left.
    pub(super) fn nearest(
        &self,
        topology: &Topology,
        ask: &Ask,
        obstacle: &Obstacle,
        slots: &mut Vec<Slot>,
    ) -> Option<Nearest> {
        let bounded = matches!(ask.wish, Wish::Bounded { .. });
        match obstacle.shortage {
            Shortage::NoHost(_)
            | Shortage::ToItself
            | Shortage::PacketBits { .. }
            | Shortage::Channels { .. }
            | Shortage::ShareOnly => return None,
            _ => {}
        }
        let mut later = obstacle.least_ns;
        if let Shortage::Unreachable { .. } = obstacle.shortage {
            // The least of all: what the route needs when there is time enough.
            later = self.least_delay_ns(topology, ask, slots);
        }
        if bounded
            && let Some(least) = later
            && self.decide(topology, &ask.with_delay(least), slots).is_ok()
        {
            return Some(Nearest::DelayNs(least));
        }
        if let Shortage::JitterNs { least, .. } = obstacle.shortage
            && self.decide(topology, &ask.with_jitter(least), slots).is_ok()
        {
            return Some(Nearest::JitterNs(least));
        }
        if !matches!(obstacle.shortage, Shortage::Unreachable { .. })
            && let Some((parts, _)) = self.most_parts(topology, ask, *obstacle, slots)
        {
            let rate_bps = ask.scaled(parts).load.rate_bps();
            return Some(Nearest::Scaled { parts, rate_bps });
        }
        let longest = ask.with_delay(INTERVAL_NS_MAX);
        if !bounded {
            return None;
        }
        let obstacle = self.decide(topology, &longest, slots).err()?;
        let (parts, totals) = self.most_parts(topology, &longest, obstacle, slots)?;
        let scaled = longest.scaled(parts);
        // No later than it must be.
        let soon = self.least_delay_ns(topology, &scaled, slots);
        let mut passes = |ns: &u64| self.decide(topology, &scaled.with_delay(*ns), slots).is_ok();
        let delay_ns = [soon, Some(totals.delay_ns)].into_iter().flatten().find(|ns| passes(ns));
        let delay_ns = delay_ns.unwrap_or(INTERVAL_NS_MAX);
        Some(Nearest::ScaledDelayNs { parts, rate_bps: scaled.load.rate_bps(), delay_ns })
    }

    /// The least bound of the same traffic, where it has one.
    fn least_delay_ns(&self, topology: &Topology, ask: &Ask, slots: &mut Vec<Slot>) -> Option<u64> {
        let obstacle = self.decide(topology, &ask.with_delay(0), slots).err()?;
        let Shortage::Unreachable { fixed, .. } = obstacle.shortage else { return None };
        let soon = ask.with_delay(fixed.saturating_add(1));
        self.decide(topology, &soon, slots).err()?.least_ns
    }

    /// The most parts that pass, as far as bottlenecks tell; some if any do.
    fn most_parts(
        &self,
        topology: &Topology,
        ask: &Ask,
        refused: Obstacle,
        slots: &mut Vec<Slot>,
    ) -> Option<(u32, Totals)> {
        let (mut low, mut high) = (0, WHOLE);
        let mut best = None;
        let mut obstacle = refused;
        let mut guesses = 0;
        let mut curves = matches!(ask.wish, Wish::Statistical { .. });
        while high - low > 1 {
            curves |= slots.iter().any(|slot| self.port(slot.port).has_curves())
                || matches!(obstacle.at, Place::Port(port) if self.port(port).has_curves());
            let guess = (guesses < GUESSES).then(|| self.guess(ask, &obstacle, (low, high), slots));
            guesses += 1;
            let guess = guess.flatten().filter(|parts| *parts > low);
            // The least part of all is what a search for nothing ends with.
            let least = if guesses > GUESSES || best.is_some() { None } else { Some(low + 1) };
            let parts = guess.or(least).unwrap_or_else(|| u32::midpoint(low, high));
            match self.decide(topology, &ask.scaled(parts), slots) {
                Ok(totals) => {
                    best = Some((parts, totals));
                    if guess.is_some() {
                        break;
                    }
                    low = parts;
                }
                Err(found) => (high, obstacle) = (parts, found),
            }
        }
        if best.is_none() && curves {
            let mut decide = |parts| self.decide(topology, &ask.scaled(parts), slots).ok();
            return (2..WHOLE).rev().find_map(|parts| Some((parts, decide(parts)?)));
        }
        best
    }

    /// The most parts below `high` that the bottleneck takes, by its own test; `None` where that
    /// is not known from one test. `slots` is what the refused plan, with `high` parts, left.
    fn guess(
        &self,
        ask: &Ask,
        obstacle: &Obstacle,
        (low, high): (u32, u32),
        slots: &[Slot],
    ) -> Option<u32> {
        match obstacle.shortage {
            Shortage::RateBps { asked, free }
            | Shortage::MemoryBits { asked, free }
            | Shortage::CpuPpm { asked, free }
            | Shortage::CpuBurstNs { asked, free } => {
                let parts = u128::from(free) * u128::from(high) / u128::from(asked.max(1));
                Some((parts as u32).min(high - 1))
            }
            Shortage::DelayNs { .. } => {
                self.guess_at(ask, obstacle.at, obstacle.queues_ns, (low, high), slots)
            }
            Shortage::DueBits { .. } => {
                self.guess_at(ask, obstacle.at, INTERVAL_NS_MAX, (low, high), slots)
            }
            _ => None,
        }
    }

    /// Bisection with one port's test: the others are left their budgets of the refused plan.
    fn guess_at(
        &self,
        ask: &Ask,
        at: Place,
        all_ns: u64,
        (low, high): (u32, u32),
        slots: &[Slot],
    ) -> Option<u32> {
        let Place::Port(port) = at else { return None };
        let state = self.port(port);
        if state.is_rate_based() {
            return None;
        }
        let others: u64 = slots.iter().filter(|s| s.port != port).map(|s| s.budget_ns).sum();
        let budget_ns = all_ns.checked_sub(others).filter(|&left| left > 0)?;
        let before: u64 = slots.iter().take_while(|s| s.port != port).map(|s| s.budget_ns).sum();
        let jitter_ns = slots.iter().find(|s| s.port == port).map_or(before, |s| s.jitter_ns);
        let passes = |parts| {
            let load = ask.scaled(parts).load;
            let load = if state.reshapes() { load } else { load.after(jitter_ns) };
            state.place(&load, budget_ns).is_some()
        };
        let (mut low, mut high) = (low, high);
        while high - low > 1 {
            let middle = u32::midpoint(low, high);
            if passes(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low)
    }
}
