//! Enqueue and dequeue of every discipline beside the bare structure it stands on.
//!
//! `cargo bench -p towpath-qos --bench scheduler`: nanoseconds per packet (one dequeue, one
//! enqueue), median of 41 runs, at 10, 1 000 and 100 000 backlogged queues, with rates, weights
//! and sizes varied. A bare structure does the rank update, extract-min and insert of its kind, on
//! the same packets in the same kind of packet memory (a slab with a list per queue); its figure
//! without packet memory stands beside it. The ratio is to the bare structure with packet memory.
//! Both are measured with queues backlogged in random order and in order of their ids, which is
//! the order that rings and lists then keep. Both are called directly; `... -- dyn` measures the
//! disciplines behind `Box<dyn Scheduler>` instead.
//!
//! `... -- one NAME QUEUES PACKETS`: only that one, in random order, to count instructions under
//! callgrind: the difference of two runs over the difference of their packets is the count per
//! packet.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use towpath_qos::scheduler::calendar::Calendar;
use towpath_qos::scheduler::cbq::{AncestorsOnly, Cbq, Formal, TopLevel};
use towpath_qos::scheduler::heap::Heap;
use towpath_qos::scheduler::hfsc::Hfsc;
use towpath_qos::scheduler::{
    CbqSource, Discipline, Drr, Edf, EdfCalendar, Fcfs, JitterEdd, Packet, Policy, Port,
    PortConfig, QueueConfig, QueueId, Rcsp, Scfq, Scheduler, Service, StaticPriority, ThreeQueue,
    VirtualClock, Wf2q, Wfq,
};
use towpath_wire::{ByteSize, Instant, Rate};

const RUNS: usize = 41;
const RUN: Duration = Duration::from_millis(3);
/// Packets between two looks at the clock.
const CHUNK: u32 = 256;
/// Packets waiting in each queue.
const DEPTH: u32 = 2;

/// Sizes and queues in a fixed random order.
struct Sequence(u64);

impl Sequence {
    #[inline]
    fn next(&mut self) -> u64 {
        // xorshift64*, Vigna 2016.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }

    #[inline]
    fn size(&mut self) -> u32 {
        64 + (self.next() % 1437) as u32
    }
}

/// The order in which queues are backlogged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    Random,
    ById,
}

impl Arrival {
    fn order(self, queues: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..queues).collect();
        if self == Self::Random {
            let mut random = Sequence(11);
            for last in (1..order.len()).rev() {
                order.swap(last, random.next() as usize % (last + 1));
            }
        }
        order
    }
}

/// One thing to measure: sends `packets`, each replaced by one in the same queue.
trait Subject {
    fn send(&mut self, packets: u32);
}

/// A discipline under its driver's calls.
struct Driven<S: Scheduler + ?Sized> {
    scheduler: Box<S>,
    now: u64,
    sizes: Sequence,
}

impl<S: Scheduler + ?Sized> Driven<S> {
    fn new(mut scheduler: Box<S>, queues: u32, arrival: Arrival) -> Self {
        let mut sizes = Sequence(7);
        let unit = LINK.as_bps() / (u64::from(queues) * 10);
        for id in 0..queues {
            let times = 1 + u64::from(id) * 7 % 16;
            let config = QueueConfig {
                rate: Rate::from_bps(unit * times),
                weight: times as u16,
                priority: (id % 8) as u8,
                burst: ByteSize::from_bytes(1538),
                delay: Duration::from_micros(100 + 10 * times),
                service: Service::Deterministic,
                packets_max: DEPTH + 1,
                ..QueueConfig::default()
            };
            scheduler.add_queue(QueueId(id), &config).expect("queue");
        }
        let order = arrival.order(queues);
        for _ in 0..DEPTH {
            for id in &order {
                let packet = Packet::new(QueueId(*id), sizes.size(), 0);
                scheduler.enqueue(Instant::ZERO, packet).expect("room");
            }
        }
        Self { scheduler, now: 0, sizes }
    }
}

const LINK: Rate = Rate::from_mbps(100_000);

fn port(queues: u32) -> PortConfig {
    PortConfig {
        rate: LINK,
        packet_bytes_max: 1538,
        queues_max: queues,
        packets_max: queues * (DEPTH + 1),
    }
}

/// A discipline behind its trait object.
fn dynamic(discipline: Discipline, queues: u32, arrival: Arrival) -> Box<dyn Subject> {
    let scheduler = discipline.build(&port(queues)).expect("port");
    Box::new(Driven::<dyn Scheduler>::new(scheduler, queues, arrival))
}

/// A discipline called directly.
fn direct(discipline: Discipline, queues: u32, arrival: Arrival) -> Box<dyn Subject> {
    fn of<P: Policy + 'static>(queues: u32, arrival: Arrival) -> Box<dyn Subject> {
        let scheduler = Port::<P>::new(&port(queues)).expect("port");
        Box::new(Driven::new(Box::new(scheduler), queues, arrival))
    }
    let build = match discipline {
        Discipline::Fcfs => of::<Fcfs>,
        Discipline::StaticPriority => of::<StaticPriority>,
        Discipline::CbqFormal => of::<Cbq<Formal>>,
        Discipline::CbqAncestorsOnly => of::<Cbq<AncestorsOnly>>,
        Discipline::CbqTopLevel => of::<Cbq<TopLevel>>,
        Discipline::CbqSource => of::<CbqSource>,
        Discipline::Drr => of::<Drr>,
        Discipline::Wfq => of::<Wfq>,
        Discipline::Wf2q => of::<Wf2q>,
        Discipline::Scfq => of::<Scfq>,
        Discipline::VirtualClock => of::<VirtualClock>,
        Discipline::Edf => of::<Edf<Heap>>,
        Discipline::EdfCalendar => of::<EdfCalendar>,
        Discipline::JitterEdd => of::<JitterEdd>,
        Discipline::ThreeQueue => of::<ThreeQueue>,
        Discipline::Rcsp => of::<Rcsp>,
        Discipline::Hfsc => of::<Hfsc>,
    };
    build(queues, arrival)
}

impl<S: Scheduler + ?Sized> Subject for Driven<S> {
    fn send(&mut self, packets: u32) {
        let mut left = packets;
        while left > 0 {
            let Some(packet) = self.scheduler.dequeue(Instant::from_nanos(self.now)) else {
                let ready = self.scheduler.next_ready().expect("backlog");
                self.now = ready.as_nanos();
                continue;
            };
            left -= 1;
            // 100 Gbit/s: 12.5 bytes a nanosecond.
            self.now += u64::from(packet.bytes) * 2 / 25;
            let again = Packet::new(packet.queue, self.sizes.size(), packet.tag);
            self.scheduler.enqueue(Instant::from_nanos(self.now), again).expect("room");
        }
    }
}

/// Packet memory as the disciplines have it: 24-byte slots, a list per queue.
struct Slab {
    slots: Vec<(u64, u64, u32, u32)>,
    free: u32,
    lists: Vec<(u32, u32)>,
}

const NONE: u32 = u32::MAX;

impl Slab {
    fn new(order: &[u32], sizes: &mut Sequence) -> Self {
        let queues = order.len();
        let lists = vec![(NONE, NONE); queues];
        let mut slab = Self { slots: Vec::new(), free: NONE, lists };
        for _ in 0..DEPTH {
            for id in order {
                slab.push(*id, sizes.size());
            }
        }
        slab
    }

    #[inline]
    fn push(&mut self, queue: u32, bytes: u32) {
        let slot = (0, 0, bytes, NONE);
        let at = if self.free == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.slots[at as usize].3;
            self.slots[at as usize] = slot;
            at
        };
        let list = &mut self.lists[queue as usize];
        if list.0 == NONE {
            list.0 = at;
        } else {
            self.slots[list.1 as usize].3 = at;
        }
        list.1 = at;
    }

    #[inline]
    fn pop(&mut self, queue: u32) -> u32 {
        let list = &mut self.lists[queue as usize];
        let at = list.0;
        let slot = &mut self.slots[at as usize];
        list.0 = slot.3;
        slot.3 = self.free;
        self.free = at;
        slot.2
    }
}

/// How a bare structure orders.
enum Order {
    /// A ring of (deficit, quantum, next).
    Ring { turns: Vec<(u32, u32, u32)>, at: u32 },
    /// The standard library's binary heap, its top replaced.
    Heap(BinaryHeap<Reverse<(u64, u32)>>),
    /// 64³ buckets under find-first-set.
    Bitmap(Calendar),
    /// Two binary heaps, pop and push (start and finish).
    TwoHeaps(BinaryHeap<Reverse<(u64, u32)>>, BinaryHeap<Reverse<(u64, u32)>>),
}

/// A bare structure, with or without packet memory.
struct Bare {
    order: Order,
    costs: Vec<u32>,
    slab: Option<Slab>,
    sizes: Sequence,
}

impl Bare {
    fn new(kind: &str, queues: u32, arrival: Arrival, with_packets: bool) -> Self {
        let mut sizes = Sequence(7);
        let ids = arrival.order(queues);
        let slab = with_packets.then(|| Slab::new(&ids, &mut sizes));
        let costs: Vec<u32> = (0..queues).map(|id| 16 / (1 + id * 7 % 16)).collect();
        let first =
            |id: u32, sizes: &mut Sequence| u64::from(sizes.size() * (costs[id as usize] + 1));
        let all = (0..queues).map(|id| Reverse((first(id, &mut sizes), id)));
        let order = match kind {
            "ring" => {
                let mut turns = vec![(0, 1538, 0); queues as usize];
                for (n, id) in ids.iter().enumerate() {
                    turns[*id as usize].2 = ids[(n + 1) % ids.len()];
                }
                Order::Ring { turns, at: ids[0] }
            }
            "heap" => Order::Heap(all.collect()),
            "two-heaps" => {
                Order::TwoHeaps(BinaryHeap::with_capacity(queues as usize), all.collect())
            }
            _ => {
                let mut calendar = Calendar::new(0);
                calendar.reserve(queues as usize);
                all.for_each(|Reverse((key, id))| calendar.push(key, id));
                Order::Bitmap(calendar)
            }
        };
        Self { order, costs, slab, sizes }
    }

    #[inline]
    fn packet(slab: &mut Option<Slab>, sizes: &mut Sequence, queue: u32) -> u32 {
        let bytes = sizes.size();
        match slab {
            Some(slab) => {
                let sent = slab.pop(queue);
                slab.push(queue, bytes);
                sent
            }
            None => bytes,
        }
    }
}

impl Subject for Bare {
    fn send(&mut self, packets: u32) {
        let Self { order, costs, slab, sizes } = self;
        for _ in 0..packets {
            match order {
                Order::Ring { turns, at } => {
                    let queue = *at;
                    let bytes = Self::packet(slab, sizes, queue);
                    let turn = &mut turns[queue as usize];
                    turn.0 += turn.1;
                    turn.0 -= bytes.min(turn.0);
                    *at = turn.2;
                }
                Order::Heap(heap) => {
                    let mut top = heap.peek_mut().expect("backlog");
                    let Reverse((key, queue)) = *top;
                    let bytes = Self::packet(slab, sizes, queue);
                    *top = Reverse((key + u64::from(bytes * (costs[queue as usize] + 1)), queue));
                    PeekMut::pop_if_needed(top);
                }
                Order::TwoHeaps(started, waiting) => {
                    let Reverse((start, queue)) = waiting.pop().expect("backlog");
                    started.push(Reverse((start, queue)));
                    let Reverse((start, queue)) = started.pop().expect("just put");
                    let bytes = Self::packet(slab, sizes, queue);
                    let next = start + u64::from(bytes * (costs[queue as usize] + 1));
                    waiting.push(Reverse((next, queue)));
                }
                Order::Bitmap(calendar) => {
                    let (key, queue) = calendar.peek().expect("backlog");
                    calendar.pop();
                    let bytes = Self::packet(slab, sizes, queue);
                    calendar.push(key + u64::from(bytes * (costs[queue as usize] + 1)), queue);
                }
            }
        }
    }
}

/// Dropping the guard sifts the changed top down; the name says why it is dropped here.
trait PopIfNeeded {
    fn pop_if_needed(self);
}

impl<T: Ord> PopIfNeeded for PeekMut<'_, T> {
    fn pop_if_needed(self) {
        drop(self);
    }
}

/// Median nanoseconds per packet of each subject, in turns, so that other load on the machine
/// meets all of them.
fn measure<const N: usize>(mut subjects: [&mut dyn Subject; N]) -> [f64; N] {
    let mut runs = [const { Vec::new() }; N];
    for _ in 0..RUNS {
        for (subject, runs) in subjects.iter_mut().zip(&mut runs) {
            let begin = Clock::now();
            let mut packets = 0;
            while begin.elapsed() < RUN {
                subject.send(black_box(CHUNK));
                packets += CHUNK;
            }
            runs.push(begin.elapsed().as_nanos() as f64 / f64::from(packets));
        }
    }
    runs.map(|mut runs| {
        runs.sort_by(f64::total_cmp);
        runs[RUNS / 2]
    })
}

/// The structure that a discipline stands on.
fn stands_on(discipline: Discipline) -> &'static str {
    use Discipline as D;
    match discipline {
        D::Fcfs
        | D::StaticPriority
        | D::Drr
        | D::CbqSource
        | D::CbqFormal
        | D::CbqAncestorsOnly
        | D::CbqTopLevel => "ring",
        D::EdfCalendar | D::Rcsp => "bitmap",
        D::Wfq | D::Scfq | D::VirtualClock | D::Edf | D::ThreeQueue => "heap",
        D::Wf2q | D::JitterEdd | D::Hfsc => "two-heaps",
    }
}

const QUEUES: [u32; 3] = [10, 1_000, 100_000];

type Build = fn(Discipline, u32, Arrival) -> Box<dyn Subject>;

fn table(build: Build, arrival: Arrival) {
    println!("ns per packet, median of {RUNS}, each in turns with its bare structure");
    println!("{:16}{:>28}{:>28}{:>28}", "queues", QUEUES[0], QUEUES[1], QUEUES[2]);
    for kind in ["ring", "bitmap", "heap", "two-heaps"] {
        print!("bare {kind:11}");
        for queues in QUEUES {
            let mut full = Bare::new(kind, queues, arrival, true);
            let mut alone = Bare::new(kind, queues, arrival, false);
            let [full, alone] = measure([&mut full, &mut alone]);
            print!("{:>28}", format!("{full:.1} ({alone:.1} no packets)"));
        }
        println!();
    }
    for discipline in Discipline::ALL {
        let on = stands_on(*discipline);
        print!("{:16}", discipline.facts().name);
        for queues in QUEUES {
            let mut bare = Bare::new(on, queues, arrival, true);
            let mut driven = build(*discipline, queues, arrival);
            let [floor, ns] = measure([&mut bare, &mut *driven]);
            print!("{:>28}", format!("{ns:.1} = {:.2} × {on} {floor:.1}", ns / floor));
        }
        println!();
    }
}

fn tables(build: Build) {
    println!("queues backlogged in random order");
    table(build, Arrival::Random);
    println!("\nqueues backlogged in order of their ids");
    table(build, Arrival::ById);
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["one", name, queues, packets] => {
            let queues = queues.parse().expect("queues");
            let mut subject: Box<dyn Subject> = match Discipline::by_name(name) {
                Some(discipline) => direct(discipline, queues, Arrival::Random),
                None => Box::new(Bare::new(name, queues, Arrival::Random, true)),
            };
            subject.send(packets.parse().expect("packets"));
        }
        // `cargo test --benches` only wants to know that it runs.
        _ if args.iter().any(|arg| arg == "--test") => {}
        ["dyn", ..] => tables(dynamic),
        _ => tables(direct),
    }
}
