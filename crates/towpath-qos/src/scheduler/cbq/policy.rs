//! The general scheduler with link sharing.

use alloc::vec::Vec;
use core::marker::PhantomData;

use towpath_wire::Instant;

use super::standings::{Standing, Standings};
use super::{Estimator, Sharing};
use crate::scheduler::QueueId;
use crate::scheduler::contract::{ConfigError, Packet, PortConfig, QueueConfig, within};
use crate::scheduler::fixed::{Fine, cost_per_byte};
use crate::scheduler::port::Policy;
use crate::scheduler::store::{Kind, NONE, Table};
use crate::scheduler::tree;

/// Level of the link: above every class.
const LINK_LEVEL: u8 = u8::MAX;

/// A class. Invariant: `demand` = leaves with packets that may borrow along their whole way up to
/// it, or are it; other guidelines than the formal one know the latter only.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    pub(super) estimator: Estimator,
    parent: u32,
    quantum: u32,
    deficit: u32,
    pub(super) demand: u32,
    pub(super) children: u32,
    pub(super) level: u8,
    pub(super) priority: u8,
    /// Its priority when it became backlogged.
    pub(super) filed: u8,
    pub(super) may_borrow: bool,
    pub(super) standing: Standing,
}

impl Default for Class {
    fn default() -> Self {
        Self {
            estimator: Estimator::default(),
            parent: NONE,
            quantum: 0,
            deficit: 0,
            demand: 0,
            children: 0,
            level: 1,
            priority: 0,
            filed: 0,
            may_borrow: false,
            standing: Standing::Idle,
        }
    }
}

/// Names a guideline as a type.
pub trait Guideline {
    /// Which.
    const SHARING: Sharing;
}

/// Formal link sharing.
#[derive(Clone, Copy, Debug)]
pub struct Formal;
/// Ancestors-only link sharing.
#[derive(Clone, Copy, Debug)]
pub struct AncestorsOnly;
/// Top-level link sharing.
#[derive(Clone, Copy, Debug)]
pub struct TopLevel;

impl Guideline for Formal {
    const SHARING: Sharing = Sharing::Formal;
}
impl Guideline for AncestorsOnly {
    const SHARING: Sharing = Sharing::AncestorsOnly;
}
impl Guideline for TopLevel {
    const SHARING: Sharing = Sharing::TopLevel;
}

/// Class-based queuing under guideline `G`.
#[derive(Clone, Debug)]
pub struct Cbq<G> {
    standings: Standings,
    /// Top-level's variable.
    top: u8,
    link_cost: u64,
    classes: Vec<u32>,
    guideline: PhantomData<G>,
}

impl<G: Guideline> Cbq<G> {
    /// Lowest level, up to `highest`, of a class whose being under its limit lets `leaf` send.
    #[inline]
    fn lender(table: &Table<Class>, leaf: u32, now: Instant, highest: u8) -> Option<u8> {
        let mut at = leaf;
        loop {
            let class = table.peek_state(at);
            if class.estimator.is_under(now) {
                return Some(class.level);
            }
            if !class.may_borrow {
                return None;
            }
            if class.parent == NONE {
                return (highest == LINK_LEVEL).then_some(LINK_LEVEL);
            }
            if table.peek_state(class.parent).level > highest {
                return None;
            }
            at = class.parent;
        }
    }

    /// Highest level from which may be borrowed now.
    #[inline]
    fn highest(&self) -> u8 {
        match G::SHARING {
            Sharing::AncestorsOnly => LINK_LEVEL,
            Sharing::TopLevel => self.top,
            Sharing::Formal => self.standings.lowest().unwrap_or(LINK_LEVEL),
        }
    }

    /// The leaf to send from, in its turn, and the level it borrows from.
    #[inline]
    fn choose(&mut self, table: &mut Table<Class>, now: Instant, highest: u8) -> Option<(u32, u8)> {
        if highest == 1 {
            return Some((self.choose_under(table)?, 1));
        }
        let rings = &mut self.standings.open;
        let mut busy = rings.busy();
        while busy != 0 {
            let priority = busy.trailing_zeros() as u8;
            busy &= busy - 1;
            let mut passed = NONE;
            while let Some(queue) = rings.first(priority) {
                if let Some(level) = Self::lender(table, queue, now, highest) {
                    passed = NONE;
                    if Self::is_its_turn(table, queue) {
                        return Some((queue, level));
                    }
                } else if passed == NONE {
                    passed = queue;
                } else if passed == queue {
                    break;
                }
                rings.rotate(priority);
            }
        }
        None
    }

    /// The same among leaves under their limits.
    #[inline]
    fn choose_under(&mut self, table: &mut Table<Class>) -> Option<u32> {
        let rings = &mut self.standings.under;
        let priority = rings.busy().trailing_zeros() as u8;
        if rings.busy() == 0 {
            return None;
        }
        loop {
            let queue = rings.first(priority)?;
            if Self::is_its_turn(table, queue) {
                return Some(queue);
            }
            rings.rotate(priority);
        }
    }

    /// Whether the first of a ring may send its head; else it has its quantum for the next round.
    #[inline]
    fn is_its_turn(table: &mut Table<Class>, queue: u32) -> bool {
        let bytes = table.head(queue).map_or(0, |(_, bytes)| bytes);
        let class = table.state(queue);
        if class.deficit >= bytes {
            return true;
        }
        class.deficit += class.quantum;
        false
    }

    /// A leaf got its first packet, or sent its last: so have fewer or more to use what the
    /// classes above are owed.
    #[inline]
    fn demand(&mut self, table: &mut Table<Class>, leaf: u32, change: i32, now: Instant) {
        let mut at = leaf;
        while at != NONE {
            let class = table.state(at);
            let before = class.demand;
            class.demand = before.wrapping_add_signed(change);
            let up = class.may_borrow && G::SHARING == Sharing::Formal;
            let next = if up { class.parent } else { NONE };
            if before == 0 || class.demand == 0 {
                self.standings.refile(table, at, now);
            }
            at = next;
        }
    }

    /// Recomputes levels from `class` up.
    fn level_up(&mut self, table: &mut Table<Class>, class: u32) {
        let mut at = class;
        while at != NONE {
            let highest = self
                .classes
                .iter()
                .map(|c| table.peek_state(*c))
                .filter(|c| c.parent == at)
                .map(|c| c.level)
                .max();
            let state = table.state(at);
            let level = highest.map_or(1, |level| level + 1);
            self.standings.relevel(state, level);
            at = state.parent;
        }
    }

    /// Top-level's rule on an arrival: a class under its limit has packets.
    #[inline]
    fn arrived(&mut self, table: &Table<Class>, leaf: u32, now: Instant) {
        let class = table.peek_state(leaf);
        if class.estimator.is_under(now) {
            self.top = self.top.min(class.level);
        } else if class.may_borrow
            && let Some(parent) = table.queues.get(class.parent as usize)
            && parent.state.estimator.is_under(now)
        {
            self.top = self.top.min(parent.state.level);
        }
    }
}

impl<G: Guideline> Policy for Cbq<G> {
    type State = Class;

    fn new(port: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            standings: Standings::new(G::SHARING),
            top: LINK_LEVEL,
            link_cost: cost_per_byte(port.rate)?,
            classes: Vec::new(),
            guideline: PhantomData,
        })
    }

    fn configure(
        &mut self,
        table: &mut Table<Class>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        let largest = table.port().packet_bytes_max;
        let cost = cost_per_byte(config.rate)?;
        within("rate_bps", config.rate.as_bps(), 1, table.port().rate.as_bps())?;
        let quantum = u64::from(config.weight) * u64::from(largest);
        within("quantum_bytes", quantum, 1, u64::from(u32::MAX) / 2)?;
        let new = table.kind(queue) == Kind::Absent;
        let old = table.peek_state(queue).parent;
        let parent = tree::parent(table, queue, config.parent, old, |class| class.parent)?;
        let waiting = table.queues[queue as usize].fifo.packets;
        let class = table.peek_state(queue);
        if !new && class.may_borrow != config.may_borrow && class.demand > 0 {
            let (queue, children) = (QueueId(queue), class.children);
            return Err(ConfigError::Busy { queue, packets: waiting, children });
        }
        let burst = (config.burst.as_bytes() / u64::from(largest)).min(256) as u32;
        let class = table.state(queue);
        class.estimator.configure(cost, self.link_cost, largest, burst);
        class.quantum = quantum as u32;
        class.priority = config.priority;
        class.may_borrow = config.may_borrow;
        class.parent = parent;
        self.standings.reserve(table.queues_len());
        if new {
            self.classes.push(queue);
            if parent != NONE {
                table.state(parent).children += 1;
                table.set_kind(parent, Kind::Interior);
                self.level_up(table, parent);
            }
        }
        Ok(())
    }

    fn remove(&mut self, table: &mut Table<Class>, queue: u32) {
        self.classes.retain(|class| *class != queue);
        let parent = table.peek_state(queue).parent;
        if parent != NONE {
            let class = table.state(parent);
            class.children -= 1;
            if class.children == 0 {
                table.set_kind(parent, Kind::Leaf);
            }
            self.level_up(table, parent);
        }
    }

    fn children(&self, table: &Table<Class>, queue: u32) -> u32 {
        table.peek_state(queue).children
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Class>, now: Instant, packet: &Packet) {
        let queue = packet.queue.0;
        if table.push_plain(packet) {
            let class = table.state(queue);
            class.deficit = class.quantum;
            self.demand(table, queue, 1, now);
        }
        if G::SHARING == Sharing::TopLevel {
            self.arrived(table, queue, now);
        }
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Class>, now: Instant) -> Option<Packet> {
        self.standings.advance(table, now);
        let mut chosen = self.choose(table, now, self.highest());
        if chosen.is_none() && G::SHARING == Sharing::TopLevel && self.top < LINK_LEVEL {
            self.top = LINK_LEVEL;
            chosen = self.choose(table, now, LINK_LEVEL);
        }
        let (leaf, level) = chosen?;
        let (packet, emptied) = table.pop_plain(leaf)?;
        let end = Fine::from_instant(now).after(packet.bytes, self.link_cost).ceil();
        table.state(leaf).deficit -= packet.bytes;
        if emptied {
            self.demand(table, leaf, -1, now);
        }
        let mut at = leaf;
        while at != NONE {
            let class = table.state(at);
            class.estimator.sent(end, packet.bytes);
            let parent = class.parent;
            let followed = match G::SHARING {
                Sharing::Formal => true,
                Sharing::TopLevel => at == leaf,
                Sharing::AncestorsOnly => at == leaf && !class.may_borrow,
            };
            if followed {
                self.standings.refile(table, at, now);
            }
            at = parent;
        }
        if G::SHARING == Sharing::TopLevel && self.top >= level {
            let under = table.peek_state(leaf).estimator.is_under(end);
            self.top = if emptied || !under { LINK_LEVEL } else { level };
        }
        Some(packet)
    }

    fn next_ready(&self, table: &Table<Class>) -> Instant {
        let mut earliest = self.standings.next().unwrap_or(Instant::NEVER);
        for priority in 0..64 {
            for leaf in self.standings.open.each(priority) {
                let mut at = leaf;
                loop {
                    let class = table.peek_state(at);
                    earliest = earliest.min(class.estimator.undertime());
                    if !class.may_borrow {
                        break;
                    }
                    if class.parent == NONE {
                        return Instant::ZERO;
                    }
                    at = class.parent;
                }
            }
        }
        earliest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::{Port, Scheduler};
    use core::time::Duration;
    use proptest::prelude::*;
    use towpath_wire::Rate;

    /// The definition: the lowest level of a class under its limit with packets that may use it.
    fn by_scan(cbq: &Cbq<Formal>, table: &Table<Class>, now: Instant) -> u8 {
        let wanting = cbq.classes.iter().map(|class| table.peek_state(*class));
        let wanting = wanting.filter(|class| class.demand > 0 && class.estimator.is_under(now));
        wanting.map(|class| class.level).min().unwrap_or(LINK_LEVEL)
    }

    proptest! {
        /// After any arrivals, transmissions, pauses and new classes.
        #[test]
        fn the_lowest_unsatisfied_level_is_that_of_a_scan(
            ops in prop::collection::vec((0u8..8, 0u32..8, 64u32..1500), 1..300),
            borrow in any::<u8>(),
        ) {
            let mut port = Port::<Cbq<Formal>>::new(&PortConfig::default()).unwrap();
            // 0 over 1 and 2; 2 over 3 and 4; 5 alone; 6 comes under 1, and 7 under 6, later.
            let parents = [None, Some(0), Some(0), Some(2), Some(2), None, Some(1), Some(6)];
            let add = |port: &mut Port<Cbq<Formal>>, id: usize| {
                let config = QueueConfig {
                    rate: Rate::from_mbps([600, 300, 200, 50, 10, 1, 90, 80][id]),
                    parent: parents[id].map(QueueId),
                    may_borrow: borrow >> id & 1 == 1,
                    ..QueueConfig::default()
                };
                port.add_queue(QueueId(id as u32), &config).is_ok()
            };
            (0..6).for_each(|id| assert!(add(&mut port, id)));
            let mut now = Instant::ZERO;
            for (op, queue, bytes) in ops {
                match op {
                    0..4 => {
                        let _ = port.enqueue(now, Packet::new(QueueId(queue), bytes, 0));
                    }
                    4..6 => if let Some(packet) = port.dequeue(now) {
                        now += Duration::from_nanos(u64::from(packet.bytes) * 8);
                    },
                    6 => now += Duration::from_micros(u64::from(bytes) * 3),
                    _ => {
                        let _ = add(&mut port, 6 + queue as usize % 2);
                    }
                }
                let (policy, table) = port.parts();
                let expected = by_scan(policy, table, now);
                policy.standings.advance(table, now);
                prop_assert_eq!(policy.highest(), expected);
            }
        }
    }
}
