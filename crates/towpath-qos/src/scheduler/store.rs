//! Packets in a slab, queues as lists through it.

use alloc::vec::Vec;

use super::contract::{Backlog, Packet, PortConfig, QueueId};

/// No slot, no queue.
pub(super) const NONE: u32 = u32::MAX;

/// A waiting packet: 24 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    tag: u64,
    /// The discipline's: a deadline, a finish time, the queue's id.
    pub(super) stamp: u64,
    pub(super) bytes: u32,
    next: u32,
}

impl Slot {
    #[inline]
    const fn packet(&self, queue: u32) -> Packet {
        Packet { queue: QueueId(queue), bytes: self.bytes, tag: self.tag, slack_ns: 0 }
    }
}

/// A list of slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl List {
    #[inline]
    pub(super) const fn is_empty(self) -> bool {
        self.head == NONE
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Absent,
    Leaf,
    Interior,
}

/// A queue's packets and limits: 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fifo {
    pub(super) list: List,
    pub(super) packets: u32,
    pub(super) bytes: u32,
    /// Zero unless it is a leaf.
    pub(super) packets_max: u32,
    pub(super) bytes_max: u32,
    /// Stamp of the second packet of `list`, if there is one: the next head's rank is here before
    /// any slot is.
    second: u64,
}

/// What of a queue no packet needs.
#[derive(Clone, Copy, Debug, Default)]
struct Cold {
    kind: Kind,
    packets_max: u32,
}

/// One queue with the discipline's state beside it, so that both come with one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Queue<S> {
    pub(super) state: S,
    pub(super) fifo: Fifo,
}

/// A packet that left its queue, and what is at the head now.
#[derive(Clone, Copy, Debug)]
pub struct Popped {
    /// The packet.
    pub packet: Packet,
    /// Its stamp.
    pub stamp: u64,
    /// Stamp of the packet behind it.
    pub next: Option<u64>,
}

/// Packet memory and queues of a port, for the disciplines. `S` is a discipline's state of one
/// queue.
///
/// Invariants: `packets` = slots in lists ≤ `port.packets_max`; every other slot is free. A queue
/// that packets are promoted from is not popped.
#[derive(Clone, Debug)]
pub struct Table<S> {
    pub(super) port: PortConfig,
    pub(super) slots: Vec<Slot>,
    free: u32,
    pub(super) queues: Vec<Queue<S>>,
    cold: Vec<Cold>,
    pub(super) packets: u32,
    pub(super) bytes: u64,
}

impl<S: Copy + Default> Table<S> {
    /// Reserves all packet memory.
    pub(super) fn new(port: PortConfig) -> Self {
        Self {
            port,
            slots: Vec::with_capacity(port.packets_max as usize),
            free: NONE,
            queues: Vec::new(),
            cold: Vec::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// The port this is the memory of.
    pub fn port(&self) -> &PortConfig {
        &self.port
    }

    /// What waits in the whole port.
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets, bytes: self.bytes }
    }

    /// Number of queue ids in use or passed over: ids are below it.
    pub fn queues_len(&self) -> usize {
        self.queues.len()
    }

    /// A fresh queue under this id, absent until it is configured.
    pub(super) fn reset(&mut self, queue: u32) {
        let len = (queue as usize + 1).max(self.queues.len());
        self.queues.resize(len, Queue::default());
        self.cold.resize(len, Cold::default());
        self.queues[queue as usize] = Queue::default();
        self.cold[queue as usize] = Cold::default();
    }

    /// What is under this id.
    pub(super) fn kind(&self, queue: u32) -> Kind {
        self.cold.get(queue as usize).map_or(Kind::Absent, |cold| cold.kind)
    }

    /// Most packets it may hold as a leaf.
    pub(super) fn packets_max(&self, queue: u32) -> u32 {
        self.cold[queue as usize].packets_max
    }

    /// Makes a queue a leaf or an inner class.
    pub(super) fn set_kind(&mut self, queue: u32, kind: Kind) {
        let cold = &mut self.cold[queue as usize];
        cold.kind = kind;
        let packets_max = if kind == Kind::Leaf { cold.packets_max } else { 0 };
        self.queues[queue as usize].fifo.packets_max = packets_max;
    }

    pub(super) fn set_limits(&mut self, queue: u32, packets_max: u32, bytes_max: u32) {
        self.cold[queue as usize].packets_max = packets_max;
        self.queues[queue as usize].fifo.bytes_max = bytes_max;
        self.set_kind(queue, self.kind(queue));
    }

    /// The discipline's state of a queue.
    #[inline]
    pub fn state(&mut self, queue: u32) -> &mut S {
        &mut self.queues[queue as usize].state
    }

    /// The same, to read.
    #[inline]
    pub fn peek_state(&self, queue: u32) -> &S {
        &self.queues[queue as usize].state
    }

    /// Stamp and bytes of a queue's first packet.
    #[inline]
    pub fn head(&self, queue: u32) -> Option<(u64, u32)> {
        self.first(self.queues[queue as usize].fifo.list)
    }

    /// Appends to the packet's own queue; true when it was empty.
    #[inline]
    pub fn push(&mut self, packet: &Packet, stamp: u64) -> bool {
        let at = self.slot(packet, stamp);
        let fifo = self.count_in(packet);
        let List { head, tail } = fifo.list;
        fifo.list.tail = at;
        if head == NONE {
            fifo.list.head = at;
            return true;
        }
        if head == tail {
            fifo.second = stamp;
        }
        self.slots[tail as usize].next = at;
        false
    }

    /// The same in a table whose packets have no stamps: nothing is known of a packet behind the
    /// first.
    #[inline]
    pub(super) fn push_plain(&mut self, packet: &Packet) -> bool {
        let at = self.slot(packet, 0);
        let fifo = self.count_in(packet);
        let List { head, tail } = fifo.list;
        fifo.list.tail = at;
        if head == NONE {
            fifo.list.head = at;
            return true;
        }
        self.slots[tail as usize].next = at;
        false
    }

    /// Takes a queue's first packet.
    #[inline]
    pub fn pop(&mut self, queue: u32) -> Option<Popped> {
        let (slot, fifo) = self.unlink(queue)?;
        let next = if fifo.list.is_empty() {
            None
        } else {
            let next = fifo.second;
            if fifo.list.head != fifo.list.tail {
                let third = self.slots[slot.next as usize].next;
                let stamp = self.slots[third as usize].stamp;
                self.queues[queue as usize].fifo.second = stamp;
            }
            Some(next)
        };
        Some(Popped { packet: slot.packet(queue), stamp: slot.stamp, next })
    }

    /// Takes the first packet of a queue without stamps, and tells whether it was the last.
    #[inline]
    pub(super) fn pop_plain(&mut self, queue: u32) -> Option<(Packet, bool)> {
        let (slot, fifo) = self.unlink(queue)?;
        let emptied = fifo.list.is_empty();
        Some((slot.packet(queue), emptied))
    }

    /// Takes a queue's first slot out and frees it; what was in it, and the queue.
    #[inline]
    fn unlink(&mut self, queue: u32) -> Option<(Slot, &Fifo)> {
        let fifo = &mut self.queues[queue as usize].fifo;
        let head = fifo.list.head;
        let freed = self.slots.get_mut(head as usize)?;
        let slot = *freed;
        freed.next = self.free;
        self.free = head;
        fifo.packets -= 1;
        fifo.bytes -= slot.bytes;
        self.packets -= 1;
        self.bytes -= u64::from(slot.bytes);
        fifo.list.head = slot.next;
        Some((slot, fifo))
    }

    /// Counts a packet as waiting in its queue.
    #[inline]
    pub(super) fn count_in(&mut self, packet: &Packet) -> &mut Fifo {
        let fifo = &mut self.queues[packet.queue.0 as usize].fifo;
        fifo.packets += 1;
        fifo.bytes += packet.bytes;
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        fifo
    }

    /// Appends to a list of the discipline's own; true when it was empty. Does not count.
    #[inline]
    pub(super) fn append(&mut self, list: &mut List, packet: &Packet, stamp: u64) -> bool {
        let at = self.slot(packet, stamp);
        self.link(list, at)
    }

    /// A packet in a slot that is in no list.
    #[inline]
    fn slot(&mut self, packet: &Packet, stamp: u64) -> u32 {
        let slot = Slot { tag: packet.tag, stamp, bytes: packet.bytes, next: NONE };
        let at = self.free;
        if let Some(free) = self.slots.get_mut(at as usize) {
            self.free = free.next;
            *free = slot;
            at
        } else {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        }
    }

    /// Hangs a slot that is in no list to the end of one; true when that was empty.
    #[inline]
    fn link(&mut self, list: &mut List, at: u32) -> bool {
        let was_empty = list.head == NONE;
        if was_empty {
            list.head = at;
        } else {
            self.slots[list.tail as usize].next = at;
        }
        list.tail = at;
        was_empty
    }

    /// Moves a queue's first packet to the end of a list of the discipline's own, where its stamp
    /// becomes the queue's id; true when that list was empty. It still counts as waiting.
    #[inline]
    pub(super) fn promote(&mut self, queue: u32, list: &mut List) -> bool {
        let fifo = &mut self.queues[queue as usize].fifo.list;
        let at = fifo.head;
        let slot = &mut self.slots[at as usize];
        fifo.head = slot.next;
        if slot.next == NONE {
            fifo.tail = NONE;
        }
        slot.next = NONE;
        slot.stamp = u64::from(queue);
        self.link(list, at)
    }

    /// Moves a queue's packets from one list whose stamps are queue ids to the end of another, in
    /// their order.
    pub(super) fn move_queue(&mut self, queue: u32, from: &mut List, to: &mut List) {
        let mut at = core::mem::take(from).head;
        while let Some(slot) = self.slots.get_mut(at as usize) {
            let next = core::mem::replace(&mut slot.next, NONE);
            let list = if slot.stamp == u64::from(queue) { &mut *to } else { &mut *from };
            self.link(list, at);
            at = next;
        }
    }

    #[inline]
    pub(super) fn first(&self, list: List) -> Option<(u64, u32)> {
        self.slots.get(list.head as usize).map(|slot| (slot.stamp, slot.bytes))
    }

    /// Takes the first packet of a list whose stamps are queue ids, and counts it out.
    #[inline]
    pub(super) fn take(&mut self, list: &mut List) -> Option<Packet> {
        let slot = *self.slots.get(list.head as usize)?;
        let freed = list.head;
        list.head = slot.next;
        self.slots[freed as usize].next = self.free;
        self.free = freed;
        let fifo = &mut self.queues[slot.stamp as usize].fifo;
        fifo.packets -= 1;
        fifo.bytes -= slot.bytes;
        self.packets -= 1;
        self.bytes -= u64::from(slot.bytes);
        Some(slot.packet(slot.stamp as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    use crate::scheduler::clock::TokenClock;
    use crate::scheduler::virtual_clock::Clock;
    use crate::scheduler::{Drr, Policy, cbq, hfsc};

    proptest! {
        /// Packets, stamps and the stamp behind, as a list per queue gives them.
        #[test]
        fn queues_are_first_in_first_out(
            ops in prop::collection::vec((any::<bool>(), 0u32..3, any::<u32>()), 1..200),
        ) {
            let mut table = Table::<()>::new(PortConfig::default());
            table.reset(2);
            let mut model = [const { VecDeque::new() }; 3];
            for (push, queue, stamp) in ops {
                let stamp = u64::from(stamp);
                let list = &mut model[queue as usize];
                if push {
                    let packet = Packet::new(QueueId(queue), 1 + stamp as u32 % 9, stamp);
                    prop_assert_eq!(table.push(&packet, stamp), list.is_empty());
                    list.push_back(stamp);
                } else {
                    let first = list.pop_front().map(|stamp| (stamp, stamp, list.front().copied()));
                    let popped = table.pop(queue).map(|p| (p.packet.tag, p.stamp, p.next));
                    prop_assert_eq!(popped, first);
                }
                let waiting = model.iter().map(VecDeque::len).sum::<usize>();
                prop_assert_eq!(table.backlog().packets as usize, waiting);
                let most = table.slots.len();
                prop_assert!(most <= 200 && most >= waiting);
            }
        }
    }

    #[test]
    fn a_packet_is_24_bytes_and_a_hot_queue_one_cache_line() {
        assert_eq!(size_of::<Slot>(), 24);
        assert_eq!(size_of::<Queue<Clock>>(), 64);
        assert_eq!(size_of::<Queue<TokenClock<u32>>>(), 64);
        assert_eq!(size_of::<Queue<<Drr as Policy>::State>>(), 64);
        assert!(size_of::<Queue<cbq::Class>>() <= 128);
        assert_eq!(size_of::<Queue<hfsc::Class>>(), 128);
    }
}
