//! Packet memory as the disciplines have it: 24-byte slots, a list per queue or per level.

use crate::load::{DEPTH, Sequence};

/// A packet with its owner's handle.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) queue: u32,
    pub(crate) bytes: u32,
    pub(crate) tag: u64,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Slot {
    tag: u64,
    queue: u64,
    bytes: u32,
    next: u32,
}

/// First and last slot of a list.
#[derive(Clone, Copy)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub(crate) fn is_empty(self) -> bool {
        self.head == NONE
    }
}

pub(crate) struct Slab {
    slots: Vec<Slot>,
    free: u32,
}

impl Slab {
    /// Without packets.
    pub(crate) fn new(queues: usize) -> Self {
        Self { slots: Vec::with_capacity(queues * DEPTH as usize), free: NONE }
    }

    /// Appends to a list.
    #[inline]
    pub(crate) fn push(&mut self, list: &mut List, packet: Held) {
        let Held { queue, bytes, tag } = packet;
        let slot = Slot { tag, queue: u64::from(queue), bytes, next: NONE };
        let at = if self.free == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.slots[at as usize].next;
            self.slots[at as usize] = slot;
            at
        };
        if list.head == NONE {
            list.head = at;
        } else {
            self.slots[list.tail as usize].next = at;
        }
        list.tail = at;
    }

    /// Takes the first of a list that is not empty.
    #[inline]
    pub(crate) fn pop(&mut self, list: &mut List) -> Held {
        let at = list.head;
        let slot = &mut self.slots[at as usize];
        list.head = slot.next;
        slot.next = self.free;
        self.free = at;
        Held { queue: slot.queue as u32, bytes: slot.bytes, tag: slot.tag }
    }

    /// Moves the first of a list that is not empty to the end of another; its bytes.
    #[inline]
    fn promote(&mut self, from: &mut List, to: &mut List) -> u32 {
        let at = from.head;
        let slot = &mut self.slots[at as usize];
        let bytes = slot.bytes;
        from.head = slot.next;
        slot.next = NONE;
        if to.head == NONE {
            to.head = at;
        } else {
            self.slots[to.tail as usize].next = at;
        }
        to.tail = at;
        bytes
    }

    /// Bytes of the first of a list that is not empty.
    #[inline]
    pub(crate) fn first(&self, list: List) -> u32 {
        self.slots[list.head as usize].bytes
    }
}

/// A list of packets per queue, [`DEPTH`] in each.
pub(crate) struct Backlog {
    pub(crate) slab: Slab,
    pub(crate) lists: Vec<List>,
}

impl Backlog {
    pub(crate) fn new(order: &[u32], sizes: &mut Sequence) -> Self {
        let (mut slab, mut lists) = (Slab::new(order.len()), vec![List::EMPTY; order.len()]);
        for _ in 0..DEPTH {
            for id in order {
                let packet = Held { queue: *id, bytes: sizes.size(), tag: 0 };
                slab.push(&mut lists[*id as usize], packet);
            }
        }
        Self { slab, lists }
    }

    /// Appends to the packet's queue.
    #[inline]
    pub(crate) fn push(&mut self, packet: Held) {
        self.slab.push(&mut self.lists[packet.queue as usize], packet);
    }

    /// Takes a queue's first packet.
    #[inline]
    pub(crate) fn pop(&mut self, queue: u32) -> Held {
        self.slab.pop(&mut self.lists[queue as usize])
    }

    /// Moves a queue's first packet to the end of another list; its bytes.
    #[inline]
    pub(crate) fn promote(&mut self, queue: u32, list: &mut List) -> u32 {
        self.slab.promote(&mut self.lists[queue as usize], list)
    }

    /// Bytes of a queue's first packet.
    #[inline]
    pub(crate) fn first(&self, queue: u32) -> u32 {
        self.slab.first(self.lists[queue as usize])
    }
}
