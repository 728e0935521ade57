//! Enqueue and dequeue of every discipline beside the bare structure it stands on.
//!
//! `cargo bench -p towpath-qos --bench scheduler`: nanoseconds per packet (one dequeue, one
//! enqueue), median of 121 runs, at 10, 1 000 and 100 000 backlogged queues, with rates, weights
//! and sizes varied. What each bare structure does is said in `bare.rs`; it works on as many
//! packets in the same kind of memory, and is measured in turns with the discipline. Both are
//! measured with queues backlogged in random order and in order of their ids, which is the order
//! that rings and lists then keep. Both are called directly; `... -- dyn` measures the disciplines
//! behind `Box<dyn Scheduler>` instead; names behind it measure only those.
//!
//! `... -- one NAME QUEUES PACKETS`: only that one, in random order, to count instructions under
//! callgrind: the difference of two runs over the difference of their packets is the count per
//! packet.

mod bare;
mod load;
mod packets;

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use towpath_qos::scheduler::cbq::{AncestorsOnly, Cbq, Formal, TopLevel};
use towpath_qos::scheduler::heap::Heap;
use towpath_qos::scheduler::hfsc::Hfsc;
use towpath_qos::scheduler::{
    CbqSource, Discipline, Drr, Edf, EdfCalendar, Fcfs, JitterEdd, Packet, Policy, Port,
    PortConfig, PriorityBitmap, QueueConfig, QueueId, Rcsp, Scfq, Scheduler, Service,
    StaticPriority, ThreeQueue, VirtualClock, Wf2q, Wfq,
};
use towpath_wire::{ByteSize, Instant, Rate};

use bare::bare;
use load::{Arrival, DEPTH, LARGEST, Sequence, Subject, priority, weight};

const RUNS: usize = 121;
/// Short beside a time slice, so that most runs are whole on a machine with other work.
const RUN: Duration = Duration::from_millis(1);
/// Packets between two looks at the clock.
const CHUNK: u32 = 256;

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
            let times = u64::from(weight(id));
            let config = QueueConfig {
                rate: Rate::from_bps(unit * times),
                weight: times as u16,
                priority: priority(id),
                burst: ByteSize::from_bytes(u64::from(LARGEST)),
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
        packet_bytes_max: LARGEST,
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
        Discipline::PriorityBitmap => of::<PriorityBitmap>,
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
        D::Fcfs => "list",
        D::StaticPriority => "levels",
        D::Drr | D::CbqSource | D::PriorityBitmap => "ring",
        D::CbqAncestorsOnly => "estimator",
        D::CbqFormal | D::CbqTopLevel => "limited",
        D::EdfCalendar => "bitmap",
        D::Rcsp => "held-levels",
        D::Wfq | D::Scfq | D::VirtualClock | D::Edf | D::ThreeQueue => "heap",
        D::Wf2q | D::JitterEdd => "two-heaps",
        D::Hfsc => "three-heaps",
    }
}

const QUEUES: [u32; 3] = [10, 1_000, 100_000];

type Build = fn(Discipline, u32, Arrival) -> Box<dyn Subject>;

fn table(build: Build, arrival: Arrival, names: &[&str]) {
    println!("ns per packet, median of {RUNS}, each in turns with its bare structure");
    println!("{:16}{:13}{:>22}{:>22}{:>22}", "queues", "", QUEUES[0], QUEUES[1], QUEUES[2]);
    for discipline in Discipline::ALL {
        let name = discipline.facts().name;
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        let on = stands_on(*discipline);
        print!("{name:16}{on:13}");
        for queues in QUEUES {
            let mut floor = bare(on, queues, arrival);
            let mut driven = build(*discipline, queues, arrival);
            let [floor, ns] = measure([&mut *floor, &mut *driven]);
            print!("{:>22}", format!("{ns:.1} = {:.2} × {floor:.1}", ns / floor));
        }
        println!();
    }
}

fn tables(build: Build, names: &[&str]) {
    println!("queues backlogged in random order");
    table(build, Arrival::Random, names);
    println!("\nqueues backlogged in order of their ids");
    table(build, Arrival::ById, names);
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["one", name, queues, packets] => {
            let queues = queues.parse().expect("queues");
            let mut subject = match Discipline::by_name(name) {
                Some(discipline) => direct(discipline, queues, Arrival::Random),
                None => bare(name, queues, Arrival::Random),
            };
            subject.send(packets.parse().expect("packets"));
        }
        // `cargo test --benches` only wants to know that it runs.
        ["--test", ..] => {}
        ["dyn", names @ ..] => tables(dynamic, names),
        names => tables(direct, names),
    }
}
