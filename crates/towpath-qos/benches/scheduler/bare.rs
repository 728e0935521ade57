//! Bare structures: the least that a discipline's definition asks of anyone, in plain Rust with
//! the standard library's heap, on packets in the same kind of memory, under the same driver. They
//! know no limits, no counters but what is named, no time beyond 64 bits, no change of
//! configuration and, but for `held-levels`, no empty queue.
//!
//! What one packet costs, and whose floor it is:
//!
//! - `list` (FCFS): off the first end of the one list, onto the other; a count per queue.
//! - `levels` (static priority): the same in the first level with packets; which level a queue has
//!   is looked up.
//! - `ring` (DRR; the source's CBQ): look at the first queue's head, go on to the next queue while
//!   the deficit does not cover it, send, charge.
//! - `estimator` (CBQ, ancestors only, where all may borrow from the link): `ring`, and an average
//!   with weight 1/16 and the pause that follows from it.
//! - `limited` (CBQ, formal and top-level, where who is under its limit may go before others
//!   borrow): `estimator` over the queues under their limit; a heap tells when the others are.
//! - `bitmap` (EDF on a calendar): find and take the first of 64³ buckets, rank, put back.
//! - `held-levels` (RCSP): the same by the end of a hold, into a level and out of it.
//! - `heap` (WFQ, SCFQ, Virtual Clock, EDF, three queues): replace the first by its next rank.
//! - `two-heaps` (WF²Q+, jitter-EDD): what has started, by a clock that each packet moves, into the
//!   heap by finish; take the first of that; the queue's next start into the other.
//! - `three-heaps` (HFSC): `two-heaps`; where nothing has started, the first by virtual time, which
//!   all packets move; an entry there is put right when it comes to be first.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use towpath_qos::scheduler::calendar::Calendar;

use crate::load::{Arrival, DEPTH, LARGEST, Sequence, Subject, priority, weight};
use crate::packets::{Backlog, Held, List, Slab};

/// Least key first.
type Least = BinaryHeap<Reverse<(u64, u32)>>;

/// Takes the packet to send; then gets one for the same queue.
trait Bare {
    fn dequeue(&mut self) -> Held;
    fn enqueue(&mut self, packet: Held);
}

/// A bare structure under the disciplines' driver.
struct Driven<B> {
    bare: B,
    now: u64,
    sizes: Sequence,
}

impl<B: Bare> Subject for Driven<B> {
    fn send(&mut self, packets: u32) {
        for _ in 0..packets {
            let packet = self.bare.dequeue();
            self.now += u64::from(packet.bytes) * 2 / 25;
            self.bare.enqueue(Held { bytes: self.sizes.size(), ..packet });
        }
    }
}

/// The bare structure of that name.
pub(crate) fn bare(name: &str, queues: u32, arrival: Arrival) -> Box<dyn Subject> {
    fn driven<B: Bare + 'static>(bare: B, sizes: Sequence) -> Box<dyn Subject> {
        Box::new(Driven { bare, now: 0, sizes })
    }
    let order = arrival.order(queues);
    let mut sizes = Sequence(7);
    if matches!(name, "list" | "levels") {
        return driven(Levels::new(name == "levels", &order, &mut sizes), sizes);
    }
    let backlog = Backlog::new(&order, &mut sizes);
    let (ranks, costs) = (ranks(queues, &mut sizes), costs(queues));
    match name {
        "ring" => driven(Ring::new(&order, backlog), sizes),
        "estimator" => {
            let ring = Ring::new(&order, backlog);
            driven(Estimated { ring, averages: Average::all(queues), now: 0 }, sizes)
        }
        "limited" => driven(Limited::new(&order, backlog), sizes),
        "bitmap" => driven(Bitmap { order: calendar(&ranks), costs, backlog }, sizes),
        "held-levels" => driven(HeldLevels::new(&ranks, costs, backlog), sizes),
        "heap" => {
            let order = ranks.into_iter().map(Reverse).collect();
            driven(Heap { order, costs, backlog }, sizes)
        }
        "two-heaps" => driven(TwoHeaps::new(ranks, costs, backlog), sizes),
        "three-heaps" => {
            let shares = (0..queues).map(|id| Reverse((0, id))).collect();
            let virtual_times = vec![0; queues as usize];
            let due = TwoHeaps::new(ranks, costs, backlog);
            driven(ThreeHeaps { due, shares, virtual_times }, sizes)
        }
        _ => panic!("no structure {name}"),
    }
}

/// Link time that a queue takes for a byte at its rate, in bytes of the link: rates are those of
/// the disciplines' load, their sum 85 % of the link.
fn cost(queues: u32, id: u32) -> u64 {
    u64::from(10 * queues / weight(id))
}

fn costs(queues: u32) -> Vec<u64> {
    (0..queues).map(|id| cost(queues, id)).collect()
}

/// First ranks, in random order.
fn ranks(queues: u32, sizes: &mut Sequence) -> Vec<(u64, u32)> {
    (0..queues).map(|id| (u64::from(sizes.size()) * cost(queues, id), id)).collect()
}

/// Link bytes in a bucket, 2ˢ: 0.65 µs, where the disciplines' granule at this link is 1 µs.
const SHIFT: u32 = 13;

fn calendar(ranks: &[(u64, u32)]) -> Calendar {
    let mut calendar = Calendar::new(SHIFT);
    calendar.reserve(ranks.len());
    for (rank, id) in ranks {
        calendar.push(*rank, *id);
    }
    calendar
}

struct Levels {
    slab: Slab,
    /// Of each queue, and its packets.
    level_of: Vec<(u8, u32)>,
    lists: [List; 64],
    busy: u64,
}

impl Levels {
    fn new(by_priority: bool, order: &[u32], sizes: &mut Sequence) -> Self {
        let level = |id| if by_priority { priority(id) } else { 0 };
        let level_of = (0..order.len() as u32).map(|id| (level(id), 0)).collect();
        let slab = Slab::new(order.len());
        let mut levels = Self { slab, level_of, lists: [List::EMPTY; 64], busy: 0 };
        for _ in 0..DEPTH {
            for id in order {
                levels.enqueue(Held { queue: *id, bytes: sizes.size(), tag: 0 });
            }
        }
        levels
    }
}

impl Bare for Levels {
    #[inline]
    fn dequeue(&mut self) -> Held {
        let level = self.busy.trailing_zeros();
        let list = &mut self.lists[level as usize & 63];
        let packet = self.slab.pop(list);
        if list.is_empty() {
            self.busy &= !(1 << level);
        }
        self.level_of[packet.queue as usize].1 -= 1;
        packet
    }

    #[inline]
    fn enqueue(&mut self, packet: Held) {
        let (level, packets) = &mut self.level_of[packet.queue as usize];
        *packets += 1;
        self.slab.push(&mut self.lists[usize::from(*level & 63)], packet);
        self.busy |= 1 << (*level & 63);
    }
}

/// A queue's turn in a ring.
struct Turn {
    deficit: u32,
    quantum: u32,
    next: u32,
    list: List,
}

struct Ring {
    turns: Vec<Turn>,
    slab: Slab,
    at: u32,
}

impl Ring {
    fn new(order: &[u32], backlog: Backlog) -> Self {
        let turn = |(id, list)| {
            let quantum = weight(id) * LARGEST;
            Turn { deficit: quantum, quantum, next: 0, list }
        };
        let mut turns: Vec<Turn> = (0..).zip(backlog.lists).map(turn).collect();
        for (n, id) in order.iter().enumerate() {
            turns[*id as usize].next = order[(n + 1) % order.len()];
        }
        Self { turns, slab: backlog.slab, at: order[0] }
    }
}

impl Bare for Ring {
    #[inline]
    fn dequeue(&mut self) -> Held {
        let mut turn = &mut self.turns[self.at as usize];
        let mut bytes = self.slab.first(turn.list);
        while turn.deficit < bytes {
            self.at = turn.next;
            turn = &mut self.turns[self.at as usize];
            turn.deficit += turn.quantum;
            bytes = self.slab.first(turn.list);
        }
        turn.deficit -= bytes;
        self.slab.pop(&mut turn.list)
    }

    #[inline]
    fn enqueue(&mut self, packet: Held) {
        self.slab.push(&mut self.turns[packet.queue as usize].list, packet);
    }
}

/// How long a queue idles beyond what its rate asks, on average.
struct Average {
    cost: u64,
    idle_max: i64,
    idle: i64,
    last: u64,
    until: u64,
}

impl Average {
    fn all(queues: u32) -> Vec<Self> {
        let of = |id| {
            let cost = cost(queues, id);
            let idle_max = (u64::from(LARGEST) * cost / 15).cast_signed();
            Self { cost, idle_max, idle: 0, last: 0, until: 0 }
        };
        (0..queues).map(of).collect()
    }

    #[inline]
    fn sent(&mut self, end: u64, bytes: u32) {
        let due = u64::from(bytes) * self.cost;
        let idle = (end - self.last).cast_signed() - due.cast_signed();
        self.idle = (self.idle + (idle - self.idle) / 16).min(self.idle_max);
        self.last = end;
        self.until = if self.idle < 0 {
            end + due - u64::from(bytes) + 15 * self.idle.unsigned_abs()
        } else {
            0
        };
    }
}

struct Estimated {
    ring: Ring,
    averages: Vec<Average>,
    now: u64,
}

impl Bare for Estimated {
    #[inline]
    fn dequeue(&mut self) -> Held {
        let packet = self.ring.dequeue();
        self.now += u64::from(packet.bytes);
        self.averages[packet.queue as usize].sent(self.now, packet.bytes);
        packet
    }

    #[inline]
    fn enqueue(&mut self, packet: Held) {
        self.ring.enqueue(packet);
    }
}

struct Limited {
    backlog: Backlog,
    deficits: Vec<(u32, u32)>,
    averages: Vec<Average>,
    under: VecDeque<u32>,
    over: Least,
    now: u64,
}

impl Limited {
    fn new(order: &[u32], backlog: Backlog) -> Self {
        let queues = order.len() as u32;
        let quantum = |id| weight(id) * LARGEST;
        Self {
            backlog,
            deficits: (0..queues).map(|id| (quantum(id), quantum(id))).collect(),
            averages: Average::all(queues),
            under: order.iter().copied().collect(),
            over: BinaryHeap::with_capacity(order.len()),
            now: 0,
        }
    }

    /// A queue under its limit, or, with none, the first that will be.
    #[inline]
    fn choose(&mut self) -> u32 {
        while let Some(Reverse((until, queue))) = self.over.peek().copied() {
            if until > self.now {
                break;
            }
            self.over.pop();
            self.under.push_back(queue);
        }
        loop {
            let Some(queue) = self.under.front().copied() else {
                let Reverse((_, queue)) = self.over.pop().expect("backlog");
                self.under.push_back(queue);
                continue;
            };
            let (deficit, quantum) = &mut self.deficits[queue as usize];
            if *deficit >= self.backlog.first(queue) {
                return queue;
            }
            *deficit += *quantum;
            self.under.rotate_left(1);
        }
    }
}

impl Bare for Limited {
    #[inline]
    fn dequeue(&mut self) -> Held {
        let queue = self.choose();
        let packet = self.backlog.pop(queue);
        self.deficits[queue as usize].0 -= packet.bytes;
        self.now += u64::from(packet.bytes);
        let average = &mut self.averages[queue as usize];
        average.sent(self.now, packet.bytes);
        if average.until > self.now {
            self.under.pop_front();
            self.over.push(Reverse((average.until, queue)));
        }
        packet
    }

    #[inline]
    fn enqueue(&mut self, packet: Held) {
        self.backlog.push(packet);
    }
}

/// Order by rank alone: the rank rises by the packet's size at the queue's rate.
struct Heap {
    order: Least,
    costs: Vec<u64>,
    backlog: Backlog,
}

impl Bare for Heap {
    #[inline]
    fn dequeue(&mut self) -> Held {
        let mut top = self.order.peek_mut().expect("backlog");
        let Reverse((rank, queue)) = *top;
        let packet = self.backlog.pop(queue);
        *top = Reverse((rank + u64::from(packet.bytes) * self.costs[queue as usize], queue));
        sift(top);
        packet
    }

    #[inline]
    fn enqueue(&mut self, packet: Held) {
        self.backlog.push(packet);
    }
}

/// Dropping the guard sifts a changed top down.
#[inline]
fn sift(top: PeekMut<'_, Reverse<(u64, u32)>>) {
    drop(top);
}

/// As [`Heap`], quantised to 2¹⁸ buckets.
struct Bitmap {
    order: Calendar,
    costs: Vec<u64>,
    backlog: Backlog,
}

impl Bare for Bitmap {
    #[inline]
    fn dequeue(&mut self) -> Held {
        let (rank, queue) = self.order.peek().expect("backlog");
        self.order.pop();
        let packet = self.backlog.pop(queue);
        self.order.push(rank + u64::from(packet.bytes) * self.costs[queue as usize], queue);
        packet
    }

    #[inline]
    fn enqueue(&mut self, packet: Held) {
        self.backlog.push(packet);
    }
}

/// A hold per queue, then its level.
struct HeldLevels {
    held: Calendar,
    /// When a queue's next packet may go into its level.
    next: Vec<u64>,
    costs: Vec<u64>,
    backlog: Backlog,
    lists: [List; 64],
    busy: u64,
    now: u64,
}

impl HeldLevels {
    fn new(ranks: &[(u64, u32)], costs: Vec<u64>, backlog: Backlog) -> Self {
        let (held, next) = (calendar(ranks), vec![0; ranks.len()]);
        Self { held, next, costs, backlog, lists: [List::EMPTY; 64], busy: 0, now: 0 }
    }

    /// Lets queues whose hold is over into their levels.
    #[inline]
    fn release(&mut self) {
        while let Some((until, queue)) = self.held.peek() {
            if until > self.now {
                if self.busy != 0 {
                    return;
                }
                self.now = until;
            }
            self.held.pop();
            let level = priority(queue);
            let bytes = self.backlog.promote(queue, &mut self.lists[usize::from(level)]);
            self.busy |= 1 << level;
            let next = until + u64::from(bytes) * self.costs[queue as usize];
            self.next[queue as usize] = next;
            if !self.backlog.lists[queue as usize].is_empty() {
                self.held.push(next, queue);
            }
        }
    }
}

impl Bare for HeldLevels {
    #[inline]
    fn dequeue(&mut self) -> Held {
        self.release();
        let level = self.busy.trailing_zeros() as usize & 63;
        let packet = self.backlog.slab.pop(&mut self.lists[level]);
        if self.lists[level].is_empty() {
            self.busy &= !(1 << level);
        }
        self.now += u64::from(packet.bytes);
        packet
    }

    #[inline]
    fn enqueue(&mut self, packet: Held) {
        let queue = packet.queue;
        if self.backlog.lists[queue as usize].is_empty() {
            self.held.push(self.next[queue as usize].max(self.now), queue);
        }
        self.backlog.push(packet);
    }
}

/// Those that have started by finish, the others by start.
struct TwoHeaps {
    waiting: Least,
    started: Least,
    costs: Vec<u64>,
    backlog: Backlog,
    now: u64,
}

impl TwoHeaps {
    fn new(ranks: Vec<(u64, u32)>, costs: Vec<u64>, backlog: Backlog) -> Self {
        let started = BinaryHeap::with_capacity(ranks.len());
        let waiting = ranks.into_iter().map(Reverse).collect();
        Self { waiting, started, costs, backlog, now: 0 }
    }

    /// Moves what has started by now.
    #[inline]
    fn start(&mut self) {
        while let Some(Reverse((start, queue))) = self.waiting.peek().copied() {
            if start > self.now {
                break;
            }
            self.waiting.pop();
            let bytes = u64::from(self.backlog.first(queue));
            self.started.push(Reverse((start + bytes * self.costs[queue as usize], queue)));
        }
    }

    /// Takes from the first of those that have started.
    #[inline]
    fn step(&mut self) -> Option<Held> {
        self.start();
        let Reverse((finish, queue)) = self.started.pop()?;
        self.waiting.push(Reverse((finish, queue)));
        Some(self.backlog.pop(queue))
    }
}

impl Bare for TwoHeaps {
    #[inline]
    fn dequeue(&mut self) -> Held {
        loop {
            if let Some(packet) = self.step() {
                self.now += u64::from(packet.bytes);
                return packet;
            }
            self.now = self.waiting.peek().expect("backlog").0.0;
        }
    }

    #[inline]
    fn enqueue(&mut self, packet: Held) {
        self.backlog.push(packet);
    }
}

/// [`TwoHeaps`] beside link sharing.
struct ThreeHeaps {
    due: TwoHeaps,
    shares: Least,
    virtual_times: Vec<u64>,
}

impl ThreeHeaps {
    /// Takes from the first by virtual time.
    #[inline]
    fn share(&mut self) -> Held {
        loop {
            let mut top = self.shares.peek_mut().expect("backlog");
            let Reverse((key, queue)) = *top;
            let virtual_time = self.virtual_times[queue as usize];
            if key == virtual_time {
                return self.due.backlog.pop(queue);
            }
            *top = Reverse((virtual_time, queue));
            sift(top);
        }
    }
}

impl Bare for ThreeHeaps {
    #[inline]
    fn dequeue(&mut self) -> Held {
        let packet = match self.due.step() {
            Some(packet) => packet,
            None => self.share(),
        };
        let (queue, bytes) = (packet.queue as usize, u64::from(packet.bytes));
        self.virtual_times[queue] += bytes * self.due.costs[queue];
        self.due.now += bytes;
        packet
    }

    #[inline]
    fn enqueue(&mut self, packet: Held) {
        self.due.enqueue(packet);
    }
}
