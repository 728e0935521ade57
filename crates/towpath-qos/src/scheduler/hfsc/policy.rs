//! The two criteria together.

use towpath_wire::{Instant, Rate};

use super::curve::{Curve, ServiceCurve};
use super::sharing::{Class, Sharing};
use crate::scheduler::contract::{ConfigError, Packet, PortConfig, QueueConfig};
use crate::scheduler::edf::slack;
use crate::scheduler::fixed::cost_per_byte;
use crate::scheduler::indexed_heap::{IndexedHeap, Places};
use crate::scheduler::port::Policy;
use crate::scheduler::store::{Kind, NONE, Table};
use crate::scheduler::tree;

/// Hierarchical fair service curve. Invariant: a leaf with packets and a real-time curve is in
/// exactly one of `waiting` and `eligible`.
#[derive(Clone, Debug)]
pub struct Hfsc {
    /// By the time from which the leaf is eligible.
    waiting: IndexedHeap,
    /// By the deadline of the head.
    eligible: IndexedHeap,
    places: Places,
    sharing: Sharing,
    /// Latest instant told, at which a changed curve starts.
    seen: Instant,
    cost: u64,
}

impl Hfsc {
    /// Files a leaf whose head or whose real-time service changed.
    #[inline]
    fn file(&mut self, table: &mut Table<Class>, leaf: u32, bytes: u32, now: Instant) {
        let class = table.state(leaf);
        let curve = &class.real_time;
        let from = class.deadline.eligible(curve).time_of(curve, class.served);
        class.due = class.deadline.time_of(curve, class.served + u64::from(bytes));
        if from <= now.as_nanos() {
            self.eligible.push(&mut self.places, class.due, leaf);
        } else {
            self.waiting.push(&mut self.places, from, leaf);
        }
    }

    fn unfile(&mut self, leaf: u32) {
        if self.eligible.contains(&self.places, leaf) {
            self.eligible.remove(&mut self.places, leaf);
        } else if self.waiting.contains(&self.places, leaf) {
            self.waiting.remove(&mut self.places, leaf);
        }
    }

    /// After the leaf's packet went: its new head's deadline, and eligible time if real time
    /// served it.
    #[inline]
    fn next_head(&mut self, table: &mut Table<Class>, leaf: u32, next: Option<u32>, now: Instant) {
        let in_eligible = self.eligible.contains(&self.places, leaf);
        match next {
            None => self.unfile(leaf),
            Some(bytes) => {
                let class = table.state(leaf);
                let curve = &class.real_time;
                let from = class.deadline.eligible(curve).time_of(curve, class.served);
                class.due = class.deadline.time_of(curve, class.served + u64::from(bytes));
                let due = class.due;
                if in_eligible && from <= now.as_nanos() {
                    self.eligible.update(&mut self.places, due, leaf);
                } else if in_eligible {
                    self.eligible.remove(&mut self.places, leaf);
                    self.waiting.push(&mut self.places, from, leaf);
                }
            }
        }
    }
}

impl Policy for Hfsc {
    type State = Class;

    fn new(port: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            waiting: IndexedHeap::default(),
            eligible: IndexedHeap::default(),
            places: Places::default(),
            sharing: Sharing::default(),
            seen: Instant::ZERO,
            cost: cost_per_byte(port.rate)?,
        })
    }

    fn configure(
        &mut self,
        table: &mut Table<Class>,
        queue: u32,
        config: &QueueConfig,
    ) -> Result<(), ConfigError> {
        let has_real_time = config.rate > Rate::from_bps(0);
        let real_time = if has_real_time {
            ServiceCurve::new(config.rate, config.burst, config.delay)?
        } else {
            ServiceCurve::default()
        };
        let share_cost = cost_per_byte(config.share.unwrap_or(config.rate))?;
        let ceiling_cost = config.ceiling.map_or(Ok(0), cost_per_byte)?;
        let new = table.kind(queue) == Kind::Absent;
        let parent_of = |class: &Class| class.above.wrapping_sub(1);
        let old = parent_of(table.peek_state(queue));
        let parent = tree::parent(table, queue, config.parent, old, parent_of)?;
        let waits = table.queues[queue as usize].fifo.packets > 0;
        if waits && table.peek_state(queue).has_real_time {
            self.unfile(queue);
        }
        let class = table.state(queue);
        let changed = class.real_time != real_time || !class.has_real_time;
        class.real_time = real_time;
        class.has_real_time = has_real_time;
        class.share_cost = share_cost;
        class.ceiling_cost = ceiling_cost;
        class.above = parent.wrapping_add(1);
        if changed {
            class.deadline = Curve::new(&real_time, self.seen.as_nanos(), class.served);
        }
        let queues = table.queues_len();
        self.waiting.reserve(queues);
        self.eligible.reserve(queues);
        self.places.reserve(queues);
        let siblings = if parent == NONE {
            queues
        } else {
            let above = table.state(parent);
            above.children += u32::from(new);
            let children = above.children as usize;
            table.set_kind(parent, Kind::Interior);
            children
        };
        self.sharing.reserve(queues, parent.wrapping_add(1), siblings);
        if waits && has_real_time {
            let bytes = table.head(queue).map_or(0, |(_, bytes)| bytes);
            self.file(table, queue, bytes, self.seen);
        }
        Ok(())
    }

    fn remove(&mut self, table: &mut Table<Class>, queue: u32) {
        self.sharing.forget(table, queue);
        let parent = table.peek_state(queue).above.wrapping_sub(1);
        if parent != NONE {
            let class = table.state(parent);
            class.children -= 1;
            if class.children == 0 {
                table.set_kind(parent, Kind::Leaf);
            }
        }
    }

    fn children(&self, table: &Table<Class>, queue: u32) -> u32 {
        table.peek_state(queue).children
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Class>, now: Instant, packet: &Packet) {
        let leaf = packet.queue.0;
        self.seen = now;
        if table.push(packet, u64::from(packet.bytes)) {
            let class = table.state(leaf);
            if class.has_real_time {
                let (curve, served) = (class.real_time, class.served);
                class.deadline.lower(&curve, now.as_nanos(), served);
                self.file(table, leaf, packet.bytes, now);
            }
            self.sharing.activate(table, leaf);
        }
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Class>, now: Instant) -> Option<Packet> {
        self.seen = now;
        self.sharing.release(table, now);
        while let Some(first) = self.waiting.peek() {
            if first.key > now.as_nanos() {
                break;
            }
            self.waiting.remove(&mut self.places, first.queue);
            let due = table.peek_state(first.queue).due;
            self.eligible.push(&mut self.places, due, first.queue);
        }
        let by_deadline = self.eligible.peek().map(|first| first.queue);
        let leaf = by_deadline.or_else(|| self.sharing.choose(table))?;
        let popped = table.pop(leaf)?;
        let bytes = popped.packet.bytes;
        let class = table.state(leaf);
        let mut packet = popped.packet;
        if class.has_real_time {
            packet.slack_ns = slack(class.due, now, bytes, self.cost);
            if by_deadline.is_some() {
                class.served += u64::from(bytes);
            }
            self.next_head(table, leaf, popped.next.map(|bytes| bytes as u32), now);
        }
        self.sharing.charge(table, leaf, now, bytes, popped.next.is_none());
        Some(packet)
    }

    fn next_ready(&self, _: &Table<Class>) -> Instant {
        if !self.eligible.is_empty() || self.sharing.is_ready() {
            return Instant::ZERO;
        }
        let waiting = self.waiting.peek().map(|first| Instant::from_nanos(first.key));
        let earliest = waiting.into_iter().chain(self.sharing.next_allowed()).min();
        earliest.unwrap_or(Instant::ZERO)
    }
}
