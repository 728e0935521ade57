//! The ideal link.

use std::boxed::Box;
use std::vec::Vec;

use proptest::prelude::ProptestConfig;
use towpath_qos::scheduler::{
    Discipline, Packet, PortConfig, QueueConfig, QueueId, Refused, Scheduler,
};
use towpath_wire::{Instant, Rate};

/// So many cases of a property, or `PROPTEST_CASES` where that is set (`make soak`).
pub(crate) fn cases(count: u32) -> ProptestConfig {
    let soak = std::env::var_os("PROPTEST_CASES").is_some();
    if soak { ProptestConfig::default() } else { ProptestConfig::with_cases(count) }
}

/// Largest packet of the tests' ports.
pub(crate) const L: u32 = 1500;

pub(crate) fn port() -> PortConfig {
    PortConfig {
        rate: Rate::from_mbps(8_000),
        packet_bytes_max: L,
        queues_max: 64,
        packets_max: 1 << 20,
    }
}

/// A share of the link in thousandths.
pub(crate) fn share(thousandths: u64) -> Rate {
    Rate::from_mbps(8 * thousandths)
}

pub(crate) fn build(discipline: Discipline, queues: &[QueueConfig]) -> Box<dyn Scheduler> {
    let mut scheduler = discipline.build(&port()).expect("port");
    for (id, config) in queues.iter().enumerate() {
        scheduler.add_queue(QueueId(id as u32), config).expect("queue");
    }
    scheduler
}

/// One packet for the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: u64,
    pub(crate) queue: u32,
    pub(crate) bytes: u32,
    /// Hold that it carries.
    pub(crate) slack: i64,
}

pub(crate) fn arrival(at: u64, queue: u32, bytes: u32) -> Arrival {
    Arrival { at, queue, bytes, slack: 0 }
}

/// One packet that went over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Place among the arrivals.
    pub(crate) index: usize,
    pub(crate) queue: u32,
    pub(crate) bytes: u32,
    pub(crate) arrived: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) slack: i64,
}

impl Sent {
    pub(crate) fn delay(&self) -> u64 {
        self.end - self.arrived
    }
}

/// What went over the link, and how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) sent: Vec<Sent>,
    /// Time during which packets waited and none was sent.
    pub(crate) idle_with_backlog: u64,
    /// Arrivals refused because their queue was full.
    pub(crate) refused: usize,
}

impl Outcome {
    pub(crate) fn bytes_of(&self, queue: u32, from: u64, to: u64) -> u64 {
        let within = |s: &&Sent| s.queue == queue && s.end > from && s.end <= to;
        self.sent.iter().filter(within).map(|s| u64::from(s.bytes)).sum()
    }
}

/// Sends all arrivals, which are in order of time, until nothing waits or `until` is reached.
pub(crate) fn run(scheduler: &mut dyn Scheduler, arrivals: &[Arrival], until: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let mut next = 0;
    let mut now = 0;
    let mut take = |scheduler: &mut dyn Scheduler, upto: u64, refused: &mut usize| {
        while let Some(a) = arrivals.get(next).filter(|a| a.at <= upto) {
            let packet =
                Packet { slack_ns: a.slack, ..Packet::new(QueueId(a.queue), a.bytes, next as u64) };
            match scheduler.enqueue(Instant::from_nanos(a.at), packet) {
                Ok(()) => {}
                Err(Refused::Full { .. }) => *refused += 1,
                Err(other) => panic!("{other}"),
            }
            next += 1;
        }
        arrivals.get(next).map(|a| a.at)
    };
    while now < until {
        let coming = take(scheduler, now, &mut outcome.refused);
        if let Some(packet) = scheduler.dequeue(Instant::from_nanos(now)) {
            let index = packet.tag as usize;
            let end = now + u64::from(packet.bytes);
            outcome.sent.push(Sent {
                index,
                queue: packet.queue.0,
                bytes: packet.bytes,
                arrived: arrivals[index].at,
                start: now,
                end,
                slack: packet.slack_ns,
            });
            take(scheduler, end - 1, &mut outcome.refused);
            now = end;
            continue;
        }
        let ready = scheduler.next_ready().map(Instant::as_nanos);
        assert_eq!(ready.is_some(), scheduler.backlog().packets > 0, "next_ready and backlog");
        if let Some(ready) = ready {
            assert!(ready > now, "nothing to send at {now}, yet ready at {ready}");
        }
        let Some(later) = ready.into_iter().chain(coming).min() else { break };
        if ready.is_some() {
            outcome.idle_with_backlog += later - now;
        }
        now = later;
    }
    outcome
}
