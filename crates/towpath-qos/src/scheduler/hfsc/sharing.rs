//! The tree: link sharing by virtual time, and ceilings.

use alloc::vec::Vec;

use towpath_wire::Instant;

use super::curve::{Lines, ServiceCurve};
use crate::scheduler::contract::Packet;
use crate::scheduler::fixed::{Fine, LEAD_MAX};
use crate::scheduler::heap::Heap;
use crate::scheduler::store::{NONE, Queue, Table};

/// What a packet needs of a class: 96 bytes, with its queue two cache lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Class {
    pub(super) real_time: ServiceCurve,
    pub(super) lines: Lines,
    /// Deadline of the head, as a key.
    pub(super) due: u64,
    /// Virtual time of link sharing.
    virtual_time: Fine,
    pub(super) share_cost: u64,
    /// Its parent's [`Node`]: 0 is the link's, a class's own is its id + 1.
    pub(super) above: u32,
    /// It has an entry among those that wait to be eligible.
    pub(super) waits: bool,
    /// It has an entry among its siblings.
    filed: bool,
    /// Waiting in `limited` for its ceiling.
    unfit: bool,
    has_ceiling: bool,
}

/// What is below a class, or below the link.
#[derive(Clone, Debug, Default)]
struct Node {
    /// Children by virtual time.
    heap: Heap,
    /// Virtual time of the child last chosen.
    least: Fine,
    /// Children that offer a packet.
    ready: u32,
    children: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ceiling {
    /// When the class may send its next packet.
    allowed: Fine,
    cost: u64,
}

/// Classes by virtual time below each parent.
///
/// A class *offers* a packet if it is not `unfit`, and is a leaf with packets or has a child that
/// offers one.
/// Invariants: a node's `ready` counts the children that offer; a class that offers has an entry
/// in its parent's heap. An entry's key is not after the class's virtual time, which only rises;
/// it may lie before it, and an entry may outlive the offer. Both are looked after when the entry
/// comes to be first, so that what real time serves costs nothing here.
#[derive(Clone, Debug, Default)]
pub(super) struct Sharing {
    /// See [`Class::above`].
    nodes: Vec<Node>,
    ceilings: Vec<Ceiling>,
    /// By the time at which the ceiling allows the class, or earlier, as above.
    limited: Heap,
}

impl Sharing {
    /// A class is new, or its ceiling may be another; its state is set.
    pub(super) fn configure(
        &mut self,
        table: &mut Table<Class>,
        class: u32,
        ceiling_cost: u64,
        new: bool,
    ) {
        let queues = table.queues_len();
        if self.nodes.len() < queues + 1 {
            self.nodes.resize(queues + 1, Node::default());
            self.ceilings.resize(queues, Ceiling::default());
        }
        if new {
            self.ceilings[class as usize] = Ceiling::default();
            self.nodes[class as usize + 1] = Node::default();
        }
        self.ceilings[class as usize].cost = ceiling_cost;
        table.state(class).has_ceiling = ceiling_cost > 0;
        let above = &mut self.nodes[table.peek_state(class).above as usize];
        above.children += u32::from(new);
        above.heap.reserve(above.children as usize);
        self.limited.reserve(queues);
    }

    /// Takes a class without packets and children away; its parent, if that has none left.
    pub(super) fn remove(&mut self, table: &mut Table<Class>, class: u32) -> Option<u32> {
        let Class { above, filed, unfit, .. } = *table.peek_state(class);
        let node = &mut self.nodes[above as usize];
        node.children -= 1;
        let last = node.children == 0;
        if filed {
            node.heap.remove(class);
        }
        if unfit {
            self.limited.remove(class);
        }
        (last && above > 0).then(|| above - 1)
    }

    pub(super) fn children(&self, class: u32) -> u32 {
        self.nodes.get(class as usize + 1).map_or(0, |node| node.children)
    }

    /// Whether some leaf may be served by link sharing now.
    pub(super) fn is_ready(&self) -> bool {
        self.nodes.first().is_some_and(|node| node.ready > 0)
    }

    /// When the first ceiling allows its class again, or earlier.
    pub(super) fn next_allowed(&self) -> Option<Instant> {
        self.limited.peek().map(|entry| Instant::from_nanos(entry.key))
    }

    /// Whether a class or one below it has packets that no ceiling below it holds back.
    #[inline]
    fn has_packets(&self, table: &Table<Class>, class: u32) -> bool {
        let fifo = &table.queues[class as usize].fifo;
        // Only leaves may hold packets.
        if fifo.packets_max > 0 {
            fifo.packets > 0
        } else {
            self.nodes[class as usize + 1].ready > 0
        }
    }

    /// A leaf got its first packet.
    #[inline]
    pub(super) fn activate(&mut self, table: &mut Table<Class>, leaf: u32) {
        if !table.peek_state(leaf).unfit {
            self.offer(table, leaf);
        }
    }

    /// A class begins to offer, and so all above it that did not.
    #[inline]
    fn offer(&mut self, table: &mut Table<Class>, class: u32) {
        let mut at = class;
        loop {
            let class = table.state(at);
            let above = &mut self.nodes[class.above as usize];
            // What it did not ask, or could not take for a ceiling, is not owed.
            class.virtual_time = class.virtual_time.max(above.least);
            if !class.filed {
                class.filed = true;
                above.heap.push(class.virtual_time.key(), at);
            }
            above.ready += 1;
            if class.above == 0 || above.ready > 1 {
                return;
            }
            at = class.above - 1;
            if table.peek_state(at).unfit {
                return;
            }
        }
    }

    /// A class offers no more, and so all above it with nothing else.
    #[inline]
    fn withdraw(&mut self, table: &Table<Class>, class: u32) {
        let mut above = table.peek_state(class).above;
        loop {
            let node = &mut self.nodes[above as usize];
            node.ready -= 1;
            if above == 0 || node.ready > 0 || table.peek_state(above - 1).unfit {
                return;
            }
            above = table.peek_state(above - 1).above;
        }
    }

    /// Lets classes back in whose ceiling allows it.
    #[inline]
    pub(super) fn release(&mut self, table: &mut Table<Class>, now: Instant) {
        while let Some(first) = self.limited.peek() {
            if first.key > now.as_nanos() {
                break;
            }
            let class = first.queue;
            let allowed = self.ceilings[class as usize].allowed.ceil();
            if allowed > now {
                self.limited.replace(allowed.as_nanos(), class);
                continue;
            }
            self.limited.pop();
            table.state(class).unfit = false;
            if self.has_packets(table, class) {
                self.offer(table, class);
            }
        }
    }

    /// Makes [`next_allowed`](Self::next_allowed) exact.
    pub(super) fn settle(&mut self) {
        while let Some(first) = self.limited.peek() {
            let allowed = self.ceilings[first.queue as usize].allowed.ceil().as_nanos();
            if allowed == first.key {
                break;
            }
            self.limited.replace(allowed, first.queue);
        }
    }

    /// The leaf whose turn it is.
    #[inline]
    pub(super) fn choose(&mut self, table: &mut Table<Class>) -> Option<u32> {
        let mut at = 0;
        while self.nodes.get(at as usize)?.ready > 0 {
            let first = self.nodes[at as usize].heap.peek()?;
            let has_packets = self.has_packets(table, first.queue);
            let node = &mut self.nodes[at as usize];
            let Queue { state: class, fifo } = &mut table.queues[first.queue as usize];
            if class.unfit || !has_packets {
                class.filed = false;
                node.heap.pop();
                continue;
            }
            if class.virtual_time.key() != first.key {
                node.heap.replace(class.virtual_time.key(), first.queue);
                continue;
            }
            node.least = node.least.max(class.virtual_time);
            if fifo.packets_max > 0 {
                return Some(first.queue);
            }
            at = first.queue + 1;
        }
        None
    }

    /// Charges a packet of a leaf, now taken out, to it and all above; `emptied` if it was the
    /// leaf's last.
    #[inline]
    pub(super) fn charge(
        &mut self,
        table: &mut Table<Class>,
        packet: &Packet,
        now: Instant,
        emptied: bool,
    ) {
        let leaf = packet.queue.0;
        if emptied && !table.peek_state(leaf).unfit {
            self.withdraw(table, leaf);
        }
        let mut at = leaf;
        while at != NONE {
            let class = table.state(at);
            let limit = Fine(self.nodes[class.above as usize].least.0 + LEAD_MAX.0);
            class.virtual_time =
                class.virtual_time.after(packet.bytes, class.share_cost).min(limit);
            let above = class.above;
            if class.has_ceiling {
                self.limit(table, at, packet.bytes, now);
            }
            at = above.wrapping_sub(1);
        }
    }

    /// Charges a class's ceiling.
    fn limit(&mut self, table: &mut Table<Class>, at: u32, bytes: u32, now: Instant) {
        let ceiling = &mut self.ceilings[at as usize];
        let from = ceiling.allowed.max(Fine::from_instant(now));
        ceiling.allowed = from.after(bytes, ceiling.cost);
        let until = ceiling.allowed.ceil();
        if until > now && !table.peek_state(at).unfit {
            table.state(at).unfit = true;
            self.limited.push(until.as_nanos(), at);
            if self.has_packets(table, at) {
                self.withdraw(table, at);
            }
        }
    }
}
