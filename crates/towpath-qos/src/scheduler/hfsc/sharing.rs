//! The tree: link sharing by virtual time, and ceilings.

use alloc::vec::Vec;

use towpath_wire::Instant;

use super::curve::{Curve, ServiceCurve};
use crate::scheduler::fixed::{Fine, LEAD_MAX};
use crate::scheduler::indexed_heap::{IndexedHeap, Places};
use crate::scheduler::store::{NONE, Table};

/// A class of the tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct Class {
    pub(super) real_time: ServiceCurve,
    pub(super) deadline: Curve,
    /// Bytes served by the real-time criterion.
    pub(super) served: u64,
    /// Deadline of the head, nanoseconds.
    pub(super) due: u64,
    /// Virtual time of link sharing.
    virtual_time: Fine,
    /// Virtual time of the child last chosen.
    least: Fine,
    /// When its ceiling allows the next packet.
    allowed: Fine,
    pub(super) share_cost: u64,
    /// Zero: no ceiling.
    pub(super) ceiling_cost: u64,
    /// Index of its parent's heap: 0 is the link's, a class's own is its id + 1.
    pub(super) above: u32,
    pub(super) children: u32,
    /// Children that have packets below them, or for a leaf 1 if it has.
    active: u32,
    pub(super) has_real_time: bool,
    /// Waiting in `limited` for its ceiling.
    unfit: bool,
}

/// Classes by virtual time below each parent.
///
/// Invariant: a class is in its parent's heap iff it has a packet to offer now: it is active,
/// not `unfit`, and a leaf or a parent whose own heap is not empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Sharing {
    /// By parent, see [`Class::above`].
    heaps: Vec<IndexedHeap>,
    limited: IndexedHeap,
    places: Places,
    /// Virtual time of the link's child last chosen.
    least: Fine,
}

impl Sharing {
    pub(super) fn reserve(&mut self, queues: usize, above: u32, siblings: usize) {
        if self.heaps.len() < queues + 1 {
            self.heaps.resize(queues + 1, IndexedHeap::default());
        }
        self.heaps[above as usize].reserve(siblings);
        self.limited.reserve(queues);
        self.places.reserve(queues);
    }

    /// Whether some leaf may be served by link sharing now.
    pub(super) fn is_ready(&self) -> bool {
        self.heaps.first().is_some_and(|heap| !heap.is_empty())
    }

    /// When the first ceiling allows its class again.
    pub(super) fn next_allowed(&self) -> Option<Instant> {
        self.limited.peek().map(|entry| Instant::from_nanos(entry.key))
    }

    fn least(&self, table: &Table<Class>, above: u32) -> Fine {
        if above == 0 { self.least } else { table.peek_state(above - 1).least }
    }

    /// A leaf got its first packet.
    #[inline]
    pub(super) fn activate(&mut self, table: &mut Table<Class>, leaf: u32) {
        let mut at = leaf;
        loop {
            let least = self.least(table, table.peek_state(at).above);
            let class = table.state(at);
            class.active += 1;
            if class.active > 1 {
                break;
            }
            class.virtual_time = class.virtual_time.max(least);
            if class.above == 0 {
                break;
            }
            at = class.above - 1;
        }
        self.offer(table, leaf);
    }

    /// Puts a class into its parent's heap if it is to be there, and so on up.
    fn offer(&mut self, table: &Table<Class>, class: u32) {
        let mut at = class;
        loop {
            let class = table.peek_state(at);
            let served_by = class.above as usize;
            let has_packet = class.children == 0 || !self.heaps[at as usize + 1].is_empty();
            if class.active == 0 || class.unfit || !has_packet {
                return;
            }
            let first = self.heaps[served_by].is_empty();
            self.heaps[served_by].push(&mut self.places, class.virtual_time.key(), at);
            if !first || served_by == 0 {
                return;
            }
            at = class.above - 1;
        }
    }

    /// Lets classes back in whose ceiling allows it.
    #[inline]
    pub(super) fn release(&mut self, table: &mut Table<Class>, now: Instant) {
        while let Some(first) = self.limited.peek() {
            if first.key > now.as_nanos() {
                break;
            }
            self.limited.remove(&mut self.places, first.queue);
            let least = self.least(table, table.peek_state(first.queue).above);
            let class = table.state(first.queue);
            class.unfit = false;
            // What it could not take for its ceiling is not owed.
            class.virtual_time = class.virtual_time.max(least);
            self.offer(table, first.queue);
        }
    }

    /// The leaf whose turn it is.
    #[inline]
    pub(super) fn choose(&mut self, table: &mut Table<Class>) -> Option<u32> {
        let mut heap = 0;
        loop {
            let class = self.heaps.get(heap as usize)?.peek()?.queue;
            let virtual_time = table.peek_state(class).virtual_time;
            let least = if heap == 0 { &mut self.least } else { &mut table.state(heap - 1).least };
            *least = (*least).max(virtual_time);
            if table.peek_state(class).children == 0 {
                return Some(class);
            }
            heap = class + 1;
        }
    }

    /// Charges a packet of a leaf, now taken out, to it and all above; `emptied` if it was the
    /// leaf's last.
    #[inline]
    pub(super) fn charge(
        &mut self,
        table: &mut Table<Class>,
        leaf: u32,
        now: Instant,
        bytes: u32,
        emptied: bool,
    ) {
        let mut at = leaf;
        let mut leaves = emptied;
        while at != NONE {
            let limit = Fine(self.least(table, table.peek_state(at).above).0 + LEAD_MAX.0);
            let class = table.state(at);
            class.virtual_time = class.virtual_time.after(bytes, class.share_cost).min(limit);
            if leaves {
                class.active -= 1;
                leaves = class.active == 0;
            }
            if class.ceiling_cost > 0 {
                let from = class.allowed.max(Fine::from_instant(now));
                class.allowed = from.after(bytes, class.ceiling_cost);
            }
            let class = *class;
            self.refile(table, at, &class, now);
            at = if class.above == 0 { NONE } else { class.above - 1 };
        }
    }

    /// Moves a charged class to where it belongs now. Classes below it are in place.
    #[inline]
    fn refile(&mut self, table: &mut Table<Class>, at: u32, class: &Class, now: Instant) {
        let heap = class.above as usize;
        let filed = !class.unfit && self.heaps[heap].contains(&self.places, at);
        let key = class.virtual_time.key();
        let until = class.allowed.ceil();
        if class.ceiling_cost > 0 && until > now {
            if filed {
                self.heaps[heap].remove(&mut self.places, at);
            }
            if class.unfit {
                self.limited.update(&mut self.places, until.as_nanos(), at);
            } else {
                self.limited.push(&mut self.places, until.as_nanos(), at);
                table.state(at).unfit = true;
            }
            return;
        }
        let has_packet = class.children == 0 || !self.heaps[at as usize + 1].is_empty();
        match (filed, class.active > 0 && !class.unfit && has_packet) {
            (true, true) => self.heaps[heap].update(&mut self.places, key, at),
            (true, false) => self.heaps[heap].remove(&mut self.places, at),
            (false, true) => self.heaps[heap].push(&mut self.places, key, at),
            (false, false) => {}
        }
    }

    /// Takes a class that has no packets out of everything.
    pub(super) fn forget(&mut self, table: &mut Table<Class>, class: u32) {
        if table.peek_state(class).unfit {
            self.limited.remove(&mut self.places, class);
            table.state(class).unfit = false;
        }
    }
}
