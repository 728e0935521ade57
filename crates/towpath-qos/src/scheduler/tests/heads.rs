//! An egress that knows only the head of each queue, and shows the next one when it has left: where
//! the order is that of full queues, and where it is not.

use core::time::Duration;
use std::collections::VecDeque;
use std::prelude::rust_2024::*;
use std::vec;

use towpath_qos::scheduler::{Discipline, Packet, PortConfig, QueueConfig, QueueId, Scheduler};
use towpath_wire::{ByteSize, Instant, Rate};

const QUEUES: usize = 5;
const RATE: Rate = Rate::from_mbps(8000);

/// When, in which queue, how long: sorted by time, no two at once.
type Arrivals = Vec<(u64, usize, u32)>;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Bursts of packets of all lengths, with pauses: a little more than the link carries.
fn arrivals(seed: u64) -> Arrivals {
    let mut random = Random(seed);
    let mut at = 1;
    let one = |_| {
        at += match random.below(8) {
            0 => 8000 + random.below(20_000),
            1..4 => 1 + random.below(30),
            _ => 1 + random.below(1500),
        };
        let bytes = [64, 64, 300, 1538][random.below(4) as usize] + random.below(40) as u32;
        (at, random.below(QUEUES as u64) as usize, bytes.min(1538))
    };
    (0..600).map(one).collect()
}

fn port(discipline: Discipline, config: impl Fn(u32) -> QueueConfig) -> Box<dyn Scheduler> {
    let mut port = discipline.build(&PortConfig { rate: RATE, ..PortConfig::default() }).unwrap();
    for queue in 0..QUEUES as u32 {
        port.add_queue(QueueId(queue), &config(queue)).unwrap();
    }
    port
}

fn packet(n: usize, (_, queue, bytes): (u64, usize, u32)) -> Packet {
    Packet::new(QueueId(queue as u32), bytes, n as u64)
}

/// Tags in the order in which they leave; `heads`: the scheduler is shown one of a queue at a time.
fn order(port: &mut dyn Scheduler, arrivals: &Arrivals, heads: bool) -> Vec<u64> {
    let (mut left, mut next, mut free) = (Vec::new(), 0, 0);
    let mut behind = vec![VecDeque::new(); QUEUES];
    while left.len() < arrivals.len() {
        let ready = port.next_ready().map(|at| at.as_nanos().max(free));
        let arrives = arrivals.get(next).map(|a| a.0);
        if ready.is_none_or(|at| arrives.is_some_and(|arrives| arrives <= at)) {
            let (at, queue, _) = arrivals[next];
            if !heads || behind[queue].is_empty() {
                port.enqueue(Instant::from_nanos(at), packet(next, arrivals[next])).unwrap();
            }
            behind[queue].push_back(next);
            next += 1;
            continue;
        }
        let now = ready.expect("something waits");
        let Some(sent) = port.dequeue(Instant::from_nanos(now)) else { continue };
        left.push(sent.tag);
        free = now + u64::from(sent.bytes);
        let queue = &mut behind[sent.queue.0 as usize];
        queue.pop_front();
        if heads && let Some(n) = queue.front() {
            let since = Instant::from_nanos(arrivals[*n].0);
            port.follow(since, packet(*n, arrivals[*n])).unwrap();
        }
    }
    left
}

fn usual(queue: u32) -> QueueConfig {
    QueueConfig {
        rate: Rate::from_mbps(200 * u64::from(queue + 1)),
        weight: queue as u16 % 3 + 1,
        priority: queue as u8 / 2,
        burst: ByteSize::from_bytes(6000),
        delay: Duration::from_nanos(20_011 * u64::from(queue + 1)),
        ..QueueConfig::default()
    }
}

#[test]
fn where_heads_give_the_order_of_full_queues_and_where_not() {
    let differs = |discipline: &Discipline| {
        (0..40).any(|seed| {
            let arrivals = arrivals(seed);
            let full = order(&mut *port(*discipline, usual), &arrivals, false);
            full != order(&mut *port(*discipline, usual), &arrivals, true)
        })
    };
    let differ: Vec<&str> =
        Discipline::ALL.iter().filter(|d| differs(d)).map(|d| d.facts().name).collect();
    // Shares, classes and windows that look at what waits behind a head.
    let known = [
        "fcfs",
        "priority",
        "cbq-formal",
        "cbq-ancestors",
        "cbq-top-level",
        "cbq-source",
        "scfq",
        "three-queue",
        "rcsp",
    ];
    assert_eq!(differ, known);
}

/// First come, first served has no queues whose heads could be compared: behind heads it is
/// earliest deadline first with the same budget for all, and nothing to conform to.
#[test]
fn first_come_first_served_behind_heads_is_one_budget_for_all() {
    let same = |_| QueueConfig {
        rate: Rate::from_bps(10_000_000_000_000),
        burst: ByteSize::from_mib(1),
        delay: Duration::from_millis(1),
        ..QueueConfig::default()
    };
    for seed in 0..40 {
        let arrivals = arrivals(seed);
        let full = order(&mut *port(Discipline::Fcfs, usual), &arrivals, false);
        assert_eq!(full, (0..arrivals.len() as u64).collect::<Vec<_>>());
        assert_eq!(order(&mut *port(Discipline::Edf, same), &arrivals, true), full, "seed {seed}");
    }
}
