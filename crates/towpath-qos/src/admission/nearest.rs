//! The nearest request that passes, in a bounded number of steps.
//!
//! A later bound where that is all that lacks; else less traffic. How much less is asked of the
//! bottleneck alone: what it has free, or, where bursts and deadlines are in question, a bisection
//! with its one test. Only the outcome is tested on the whole route; where another resource stands
//! in the way then, that is the next bottleneck. At most [`TRIES`] decisions are made, so that
//! what is named always passes, and is nearly always within a part in 1024 of the most that does.

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

/// Most decisions on whole routes for scaled traffic; most that walk the route are a third.
const TRIES: u32 = 12;

/// Scaled traffic is counted in these parts.
const WHOLE: u32 = 1024;

impl Ask {
    /// All rates and bursts times `parts`/1024, packets as they are.
    fn scaled(&self, parts: u32) -> Self {
        let part = |n: u64| (u128::from(n) * u128::from(parts) / u128::from(WHOLE)).max(1) as u64;
        let mut ask = *self;
        let packet = self.load.packet_bits;
        ask.load.fast.rate_bps = part(self.load.fast.rate_bps);
        ask.load.slow.rate_bps = part(self.load.slow.rate_bps);
        ask.load.fast.burst_bits = part(self.load.fast.burst_bits).max(packet);
        ask.load.slow.burst_bits = part(self.load.slow.burst_bits).max(packet);
        // What rounding has made one bucket is one, as it is when it is asked for.
        if ask.load.fast.burst_bits >= ask.load.slow.burst_bits {
            ask.load.fast = ask.load.slow;
        } else if ask.load.fast.rate_bps <= ask.load.slow.rate_bps {
            ask.load.slow = ask.load.fast;
        }
        ask
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
        if let Shortage::Unreachable { fixed, .. } = obstacle.shortage {
            // The least of all: what the route needs when there is time enough.
            let soon = ask.with_delay(fixed.saturating_add(1));
            later = self.decide(topology, &soon, slots).err().and_then(|o| o.least_ns);
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
        let rate_bps = longest.scaled(parts).load.rate_bps();
        Some(Nearest::ScaledDelayNs { parts, rate_bps, delay_ns: totals.delay_ns })
    }

    /// The most parts that pass, as far as the tries go.
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
        // Rates are tested before the route is walked: such tries cost next to nothing.
        let mut left = TRIES;
        while high - low > 1 && left > 0 {
            let guess = self.guess(ask, &obstacle, (low, high), slots);
            let tight = guess.is_some();
            let guess = guess.unwrap_or_else(|| u32::midpoint(low, high));
            if guess <= low {
                break;
            }
            match self.decide(topology, &ask.scaled(guess), slots) {
                Ok(totals) => {
                    best = Some((guess, totals));
                    if tight {
                        break;
                    }
                    low = guess;
                    left = left.saturating_sub(3);
                }
                Err(found) => {
                    let walked = found.shortage.is_of_a_walk();
                    left = left.saturating_sub(if walked { 3 } else { 1 });
                    (high, obstacle) = (guess, found);
                }
            }
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
