//! The nearest request that passes, in a bounded number of steps.
//!
//! A later bound where that is all that lacks; else less traffic. How much less is asked of the
//! bottleneck alone: what it has free, or, where bursts and deadlines are in question, a bisection
//! with its one test. Only the outcome is tested on the whole route; where another resource stands
//! in the way then, that is the next bottleneck, and after [`GUESSES`] of them the search halves
//! what is left. It ends where something passes and a little more does not, or with the least part
//! of all refused. Where less may fit worse (HFSC, whose budgets are found to an eighth, and
//! statistical traffic) each part is tried before none is found.
//!
//! What is named has been decided as it is named, in wire bits. Whoever writes specifications in
//! other units asks [`Admission::tell`](super::Admission::tell), which decides what he
//! would ask for.
//!
//! That nothing passes is only said where it is certain: [`Network::nothing_passes`].

use alloc::vec::Vec;
use core::time::Duration;

use super::decide::{Obstacle, Place, check_request};
use super::load::{Load, Shape};
use super::plan::{Ask, Totals};
use super::port::Slot;
use super::ports::Network;
use super::refusal::{Nearest, Shortage};
use super::request::Wish;
use crate::spec::Bucket;
use crate::spec::limits::INTERVAL_NS_MAX;
use crate::topology::{HOPS_MAX, Topology};

/// Most bottlenecks that are asked how much they would take.
const GUESSES: u32 = 4;

/// Scaled traffic is counted in these parts.
const WHOLE: u32 = 1024;

/// More than a byte of message has on the wire, per second: what rounding may take from a rate.
const SLACK_BPS: u64 = 1024;

impl Ask {
    /// All rates and bursts times `parts`/1024, messages as they are.
    fn scaled(&self, parts: u32) -> Self {
        Self { load: self.load.scaled(parts, WHOLE, self.kept_bits), ..*self }
    }

    /// A load that is nowhere above any part that the specification may have in its own units: a
    /// packet, and less than a part of the rate; with the latest bound there is.
    fn least(&self) -> Self {
        let load = match self.load.shape {
            // More than the rounding of as many intervals as there are packets.
            Shape::Packets(_) => self.load.scaled(1, WHOLE + 2, self.kept_bits),
            Shape::Two => {
                let rate_bps = |of: u64| (of / u64::from(WHOLE)).saturating_sub(SLACK_BPS).max(1);
                let of = |b: Bucket| Bucket {
                    burst_bits: self.kept_bits[0].min(b.burst_bits),
                    rate_bps: rate_bps(b.rate_bps),
                };
                let (packet, least) = (self.load.packet_bits, self.load.packet_min_bits);
                let slow = of(self.load.slow);
                Load::two(slow, slow, packet, least)
            }
            // Rounded rates of intervals next to each other leave nothing certain of a slope.
            Shape::Many(_) => {
                let slow = Bucket { burst_bits: self.load.fast.burst_bits.min(8), rate_bps: 1 };
                Load::two(slow, slow, self.load.packet_bits, self.load.packet_min_bits)
            }
        };
        Self { load, ..self.with_delay(INTERVAL_NS_MAX) }
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
    /// The nearest request that passes, and whether nothing of the kind does; `slots` is what the
    /// refused plan left. With neither none was found.
    pub(super) fn nearest(
        &self,
        topology: &Topology,
        ask: &Ask,
        obstacle: &Obstacle,
        slots: &mut Vec<Slot>,
    ) -> (Option<Nearest>, bool) {
        let bounded = matches!(ask.wish, Wish::Bounded { .. });
        match obstacle.shortage {
            Shortage::NoHost(_)
            | Shortage::ToItself
            | Shortage::PacketBits { .. }
            | Shortage::Channels { .. }
            | Shortage::ShareOnly => return (None, true),
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
            return (Some(Nearest::DelayNs(least)), false);
        }
        if let Shortage::JitterNs { least, .. } = obstacle.shortage
            && self.decide(topology, &ask.with_jitter(least), slots).is_ok()
        {
            return (Some(Nearest::JitterNs(least)), false);
        }
        if self.nothing_passes(topology, ask) {
            return (None, true);
        }
        (self.less(topology, ask, *obstacle, slots), false)
    }

    /// Less traffic that passes, with the same bound, else with a later one.
    fn less(
        &self,
        topology: &Topology,
        ask: &Ask,
        obstacle: Obstacle,
        slots: &mut Vec<Slot>,
    ) -> Option<Nearest> {
        if !matches!(obstacle.shortage, Shortage::Unreachable { .. })
            && let Some((parts, _)) = self.most_parts(topology, ask, obstacle, slots)
        {
            let rate_bps = ask.scaled(parts).load.rate_bps();
            return Some(Nearest::Scaled { parts, rate_bps });
        }
        let longest = ask.with_delay(INTERVAL_NS_MAX);
        if longest == *ask {
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

    /// Whether it is certain that no part of the traffic passes, with this bound or any later.
    ///
    /// One load that is nowhere above any part ([`Ask::least`]) is decided, with the latest bound
    /// there is. What refuses it refuses every part, where the test only grows with the load:
    ///
    /// - rates, processors' rates, and what propagation takes: no budget has a part in them;
    /// - everything else, where the load is two buckets all along and no port of the route finds
    ///   its budgets by steps (`PortState::grows_with_the_load`). The least budgets before a hop
    ///   then grow with the load, so do the burst there and its own least budget, and with them
    ///   sums, variation and memory. Budgets that are looser pass only where these do.
    ///
    /// Of statistical traffic less may be refused where more passes: with one bucket left its peak
    /// counts as the line's. Only rates are certain there.
    fn nothing_passes(&self, topology: &Topology, ask: &Ask) -> bool {
        let mut slots = Vec::new();
        let Err(obstacle) = self.decide(topology, &ask.least(), &mut slots) else { return false };
        let grows = || {
            let mut route = [0_u32; HOPS_MAX];
            let route = check_request(topology, ask, &mut route).unwrap_or(&[]);
            matches!(ask.wish, Wish::Bounded { .. })
                && ask.load.is_two()
                && route.iter().all(|&port| self.port(port).grows_with_the_load())
        };
        match obstacle.shortage {
            Shortage::RateBps { asked, free } if asked > free => true,
            Shortage::CpuPpm { .. }
            | Shortage::Unreachable { .. }
            | Shortage::PacketBits { .. }
            | Shortage::ShareOnly => true,
            Shortage::MemoryBits { .. } if matches!(ask.wish, Wish::Share { .. }) => true,
            _ => grows(),
        }
    }

    /// The least bound of the same traffic, where it has one.
    pub(super) fn least_delay_ns(
        &self,
        topology: &Topology,
        ask: &Ask,
        slots: &mut Vec<Slot>,
    ) -> Option<u64> {
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
