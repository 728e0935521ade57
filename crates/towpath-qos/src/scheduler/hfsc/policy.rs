//! The two criteria together.

use towpath_wire::{Instant, Rate};

use super::curve::{Lines, ServiceCurve};
use super::sharing::{Class, Sharing};
use crate::scheduler::contract::{ConfigError, Packet, PortConfig, QueueConfig};
use crate::scheduler::edf::slack;
use crate::scheduler::fixed::{Fine, cost_per_byte};
use crate::scheduler::heap::Heap;
use crate::scheduler::port::Policy;
use crate::scheduler::store::{Kind, NONE, Table};
use crate::scheduler::tree;

/// Hierarchical fair service curve.
///
/// Invariants: a leaf with packets and a real-time curve is in exactly one of `waiting` and
/// `eligible`; an entry of `waiting` has a key not after its leaf's eligible time, which only
/// rises, and outlives the leaf's packets: it is looked at again when its time comes.
#[derive(Clone, Debug)]
pub struct Hfsc {
    /// By the time from which the leaf is eligible, nanoseconds.
    waiting: Heap,
    /// By the deadline of the head.
    eligible: Heap,
    sharing: Sharing,
    /// Latest instant told, at which a changed curve starts.
    seen: Instant,
    cost: u64,
}

impl Hfsc {
    /// Files a leaf in neither heap, whose head has `bytes`.
    #[inline]
    fn file(&mut self, class: &mut Class, leaf: u32, bytes: u32, now: Instant) {
        class.due = class.lines.due(&class.real_time, bytes).key();
        let from = class.lines.eligible(&class.real_time).ceil();
        if from <= now {
            self.eligible.push(class.due, leaf);
        } else {
            class.waits = true;
            self.waiting.push(from.as_nanos(), leaf);
        }
    }

    /// Takes a leaf out of both heaps.
    fn unfile(&mut self, table: &mut Table<Class>, leaf: u32) {
        let queue = &mut table.queues[leaf as usize];
        if core::mem::take(&mut queue.state.waits) {
            self.waiting.remove(leaf);
        } else if queue.fifo.packets > 0 {
            self.eligible.remove(leaf);
        }
    }

    /// Corrects or takes away the first entry of `waiting`, if its leaf is not to be looked at
    /// then; true if it was right.
    #[inline]
    fn settle(&mut self, table: &mut Table<Class>, key: u64, leaf: u32) -> bool {
        let queue = &mut table.queues[leaf as usize];
        if queue.fifo.packets == 0 {
            queue.state.waits = false;
            self.waiting.pop();
            return false;
        }
        let from = queue.state.lines.eligible(&queue.state.real_time).ceil().as_nanos();
        if from != key {
            self.waiting.replace(from, leaf);
        }
        from == key
    }

    /// Moves the leaves that are eligible by now.
    #[inline]
    fn wake(&mut self, table: &mut Table<Class>, now: Instant) {
        while let Some(first) = self.waiting.peek().filter(|first| first.key <= now.as_nanos()) {
            if self.settle(table, first.key, first.queue) {
                self.waiting.pop();
                let class = table.state(first.queue);
                class.waits = false;
                self.eligible.push(class.due, first.queue);
            }
        }
    }

    /// Nothing may go: what is to be asked next is made exact.
    #[cold]
    fn idle(&mut self, table: &mut Table<Class>) {
        while let Some(first) = self.waiting.peek() {
            if self.settle(table, first.key, first.queue) {
                break;
            }
        }
        self.sharing.settle();
    }

    /// Takes the packet that is due first, if a leaf is eligible.
    #[inline]
    fn serve_due(&mut self, table: &mut Table<Class>, now: Instant) -> Option<Packet> {
        let leaf = self.eligible.peek()?.queue;
        let popped = table.pop(leaf)?;
        let mut packet = popped.packet;
        let class = table.state(leaf);
        let due = class.lines.due(&class.real_time, packet.bytes);
        packet.slack_ns = slack(due.ceil().as_nanos(), now, packet.bytes, self.cost);
        class.lines.serve(&class.real_time, packet.bytes);
        match popped.next {
            None => {
                self.eligible.pop();
            }
            Some(bytes) => {
                class.due = class.lines.due(&class.real_time, bytes as u32).key();
                let from = class.lines.eligible(&class.real_time).ceil();
                if from <= now {
                    self.eligible.replace(class.due, leaf);
                } else {
                    class.waits = true;
                    self.eligible.pop();
                    self.waiting.push(from.as_nanos(), leaf);
                }
            }
        }
        self.sharing.charge(table, &packet, now, popped.next.is_none());
        Some(packet)
    }

    /// Takes the packet whose turn it is by link sharing; no leaf is eligible.
    #[inline]
    fn serve_share(&mut self, table: &mut Table<Class>, now: Instant) -> Option<Packet> {
        let leaf = self.sharing.choose(table)?;
        let popped = table.pop(leaf)?;
        let mut packet = popped.packet;
        let class = table.state(leaf);
        if !class.real_time.is_none() {
            let due = class.lines.due(&class.real_time, packet.bytes);
            packet.slack_ns = slack(due.ceil().as_nanos(), now, packet.bytes, self.cost);
            if let Some(bytes) = popped.next {
                class.due = class.lines.due(&class.real_time, bytes as u32).key();
            }
        }
        self.sharing.charge(table, &packet, now, popped.next.is_none());
        Some(packet)
    }
}

impl Policy for Hfsc {
    type State = Class;

    fn new(port: &PortConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            waiting: Heap::default(),
            eligible: Heap::default(),
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
        let real_time = if config.rate > Rate::from_bps(0) {
            ServiceCurve::new(config)?
        } else {
            ServiceCurve::default()
        };
        let share_cost = cost_per_byte(config.share.unwrap_or(config.rate))?;
        let ceiling_cost = config.ceiling.map_or(Ok(0), cost_per_byte)?;
        let new = table.kind(queue) == Kind::Absent;
        let parent_of = |class: &Class| class.above.wrapping_sub(1);
        let old = parent_of(table.peek_state(queue));
        let parent = tree::parent(table, queue, config.parent, old, parent_of)?;
        self.unfile(table, queue);
        let class = table.state(queue);
        let changed = class.real_time != real_time;
        class.real_time = real_time;
        class.share_cost = share_cost;
        class.above = parent.wrapping_add(1);
        if changed {
            class.lines = Lines::new(Fine::from_instant(self.seen));
        }
        let queues = table.queues_len();
        self.waiting.reserve(queues);
        self.eligible.reserve(queues);
        self.sharing.configure(table, queue, ceiling_cost, new);
        if parent != NONE {
            table.set_kind(parent, Kind::Interior);
        }
        if let Some((_, bytes)) = table.head(queue)
            && !real_time.is_none()
        {
            self.file(table.state(queue), queue, bytes, self.seen);
        }
        Ok(())
    }

    fn remove(&mut self, table: &mut Table<Class>, queue: u32) {
        self.unfile(table, queue);
        if let Some(parent) = self.sharing.remove(table, queue) {
            table.set_kind(parent, Kind::Leaf);
        }
    }

    fn children(&self, _: &Table<Class>, queue: u32) -> u32 {
        self.sharing.children(queue)
    }

    #[inline]
    fn enqueue(&mut self, table: &mut Table<Class>, now: Instant, packet: &Packet) {
        let leaf = packet.queue.0;
        self.seen = now;
        if table.push(packet, u64::from(packet.bytes)) {
            let class = table.state(leaf);
            if !class.real_time.is_none() {
                class.lines.start(Fine::from_instant(now));
                if class.waits {
                    class.due = class.lines.due(&class.real_time, packet.bytes).key();
                } else {
                    self.file(class, leaf, packet.bytes, now);
                }
            }
            self.sharing.activate(table, leaf);
        }
    }

    #[inline]
    fn dequeue(&mut self, table: &mut Table<Class>, now: Instant) -> Option<Packet> {
        self.seen = now;
        self.sharing.release(table, now);
        self.wake(table, now);
        if !self.eligible.is_empty() {
            return self.serve_due(table, now);
        }
        let packet = self.serve_share(table, now);
        if packet.is_none() {
            self.idle(table);
        }
        packet
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
