//! Controllers beside each other on one drop-tail bottleneck, packet by packet: nothing but the
//! controller, the pacer and the delivery-rate estimate is under test.

use core::time::Duration;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::vec::Vec;

use alloc::boxed::Box;
use core::cmp::Reverse;
use towpath_wire::Instant;

use super::*;
use crate::Rng;
use crate::association::delivery::{Delivery, Stamp};
use crate::association::pacer::Pacer;

const DATAGRAM: u64 = 1472;
/// Bytes on the wire beside a datagram's own.
const FRAMING: u64 = 66;

#[derive(Clone, Copy)]
struct Bed {
    rate_bps: u64,
    rtt: Duration,
    /// Queue in products of rate and round trip.
    queue: f64,
    loss_ppm: u32,
    seconds: u64,
}

struct Packet {
    sent: Instant,
    stamp: Stamp,
    limited: bool,
    in_flight: u64,
}

struct Flow {
    control: Box<dyn Congestion>,
    pacer: Pacer,
    delivery: Delivery,
    in_flight: u64,
    out: BTreeMap<u64, Packet>,
    next: u64,
    start: Instant,
    delivered: Vec<u64>,
    min_rtt: Duration,
    traced: u64,
    lost: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrive { flow: usize, number: u64 },
    Wake { flow: usize },
}

struct Arena {
    bed: Bed,
    flows: Vec<Flow>,
    free_at: Instant,
    events: BinaryHeap<Reverse<(Instant, u64, What)>>,
    count: u64,
    rng: Rng,
}

/// Delivered bytes per second of each flow over the later half, as a share of what the link
/// carries without loss.
fn shares(bed: Bed, kinds: &[(CongestionKind, u64)], seed: u64) -> Vec<f64> {
    let flows = kinds
        .iter()
        .map(|(kind, start_ms)| Flow {
            control: kind.build(DATAGRAM),
            pacer: Pacer::new(DATAGRAM),
            delivery: Delivery::default(),
            in_flight: 0,
            out: BTreeMap::new(),
            next: 0,
            start: Instant::from_nanos(start_ms * 1_000_000),
            delivered: Vec::new(),
            min_rtt: Duration::MAX,
            traced: 0,
            lost: 0,
        })
        .collect();
    let mut arena = Arena {
        bed,
        flows,
        free_at: Instant::ZERO,
        events: BinaryHeap::new(),
        count: 0,
        rng: Rng::new(seed, 7),
    };
    arena.run();
    let whole = bed.rate_bps as f64 / 8.0 * DATAGRAM as f64 / (DATAGRAM + FRAMING) as f64;
    let half = bed.seconds / 2;
    let span = (bed.seconds - half) as f64;
    let late = |f: &Flow| f.delivered.iter().skip(half as usize).sum::<u64>() as f64;
    arena.flows.iter().map(|f| late(f) / span / whole).collect()
}

impl Arena {
    fn at(&mut self, at: Instant, what: What) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, what)));
    }

    fn run(&mut self) {
        for flow in 0..self.flows.len() {
            let start = self.flows[flow].start;
            self.at(start, What::Wake { flow });
        }
        let end = Instant::from_nanos(self.bed.seconds * 1_000_000_000);
        while let Some(Reverse((now, _, what))) = self.events.pop() {
            if now > end {
                break;
            }
            match what {
                What::Arrive { flow, number } => {
                    self.acknowledge(now, flow, number);
                    self.send(now, flow);
                }
                What::Wake { flow } => self.send(now, flow),
            }
        }
    }

    fn send(&mut self, now: Instant, flow: usize) {
        loop {
            let f = &mut self.flows[flow];
            let window = f.control.window();
            if window < f.in_flight + DATAGRAM {
                return;
            }
            let ready = f.pacer.ready_at();
            if ready > now {
                self.at(ready, What::Wake { flow });
                return;
            }
            let stamp = f.delivery.stamp(now, f.in_flight == 0);
            f.in_flight += DATAGRAM;
            f.pacer.spend(now, DATAGRAM);
            let limited = 2 * f.in_flight >= window;
            let number = f.next;
            f.next += 1;
            f.out.insert(number, Packet { sent: now, stamp, limited, in_flight: f.in_flight });
            self.offer(now, flow, number);
        }
    }

    fn offer(&mut self, now: Instant, flow: usize, number: u64) {
        let per_byte = 8e9 / self.bed.rate_bps as f64;
        let waiting = self.free_at.since(now).as_nanos() as f64 / per_byte;
        let queue = self.bed.rate_bps as f64 / 8.0 * self.bed.rtt.as_secs_f64() * self.bed.queue;
        let lost = self.rng.chance_ppm(self.bed.loss_ppm);
        if waiting + DATAGRAM as f64 > queue.max(10.0 * DATAGRAM as f64) {
            return;
        }
        let serialise = ((DATAGRAM + FRAMING) as f64 * per_byte) as u64;
        self.free_at = self.free_at.max(now) + Duration::from_nanos(serialise);
        if !lost {
            let at = self.free_at + self.bed.rtt;
            self.at(at, What::Arrive { flow, number });
        }
    }

    /// One packet acknowledged; those sent three and more before it count as lost.
    fn acknowledge(&mut self, now: Instant, flow: usize, number: u64) {
        let f = &mut self.flows[flow];
        let Some(p) = f.out.remove(&number) else { return };
        let second = (now.as_nanos() / 1_000_000_000) as usize;
        f.delivered.resize(f.delivered.len().max(second + 1), 0);
        f.delivered[second] += DATAGRAM;
        f.in_flight -= DATAGRAM;
        let rtt = now.since(p.sent);
        f.min_rtt = f.min_rtt.min(rtt);
        let facts = (DATAGRAM as u32, p.limited, false);
        f.delivery.settled(now, p.sent, &p.stamp, facts, p.in_flight);
        let s = f.delivery.conclude(now, f.min_rtt).unwrap();
        f.control.on_acked(&Sample {
            now,
            rtt: Some(rtt),
            acked: s.bytes,
            sent: s.newest,
            limited: s.limited,
            starved: s.starved,
            delivered: s.delivered,
            prior_delivered: s.prior_delivered,
            rate: s.rate,
            in_flight: f.in_flight,
            prior_in_flight: s.prior_in_flight,
        });
        let gone: VecDeque<u64> =
            f.out.range(..number.saturating_sub(2)).map(|(n, _)| *n).collect();
        for n in gone {
            let p = f.out.remove(&n).unwrap();
            f.in_flight -= DATAGRAM;
            f.lost += 1;
            let (sent, bytes) = (p.sent, DATAGRAM);
            let (in_flight, prior_in_flight) = (f.in_flight, p.in_flight);
            f.control.on_lost(&Loss { now, sent, bytes, in_flight, prior_in_flight });
        }
        f.pacer.set_rate(now, f.control.pacing());
        if std::env::var("TRACE").is_ok() && now.as_nanos() / 100_000_000 != f.traced {
            f.traced = now.as_nanos() / 100_000_000;
            std::println!(
                "{:.1} flow {flow} {} lost {}",
                f.traced as f64 / 10.0,
                f.control.state(),
                f.lost
            );
        }
    }
}

const BED: Bed = Bed {
    rate_bps: 100_000_000,
    rtt: Duration::from_millis(20),
    queue: 1.0,
    loss_ppm: 0,
    seconds: 40,
};

#[test]
#[ignore = "a table to look at"]
fn table() {
    use CongestionKind::{Aimd, Cubic, Model};
    for loss in [0, 1_000, 10_000, 50_000, 100_000] {
        for kind in [Model, Cubic, Aimd] {
            let got = shares(Bed { loss_ppm: loss, seconds: 20, ..BED }, &[(kind, 0)], 1);
            std::println!("alone, loss {loss} ppm, {kind:?}: {got:.3?}");
        }
    }
    for rtt_ms in [1, 20] {
        for queue in [0.5, 1.0, 2.0] {
            let bed = Bed { rtt: Duration::from_millis(rtt_ms), queue, ..BED };
            for (what, pair) in [
                ("model+cubic", [(Model, 0), (Cubic, 0)]),
                ("model first", [(Model, 0), (Cubic, 3000)]),
                ("cubic first", [(Model, 3000), (Cubic, 0)]),
                ("two models", [(Model, 0), (Model, 2000)]),
                ("model+aimd", [(Model, 0), (Aimd, 0)]),
                ("cubic+cubic", [(Cubic, 0), (Cubic, 2000)]),
            ] {
                let got = shares(bed, &pair, 1);
                std::println!("{rtt_ms} ms, queue {queue}, {what}: {got:.3?}");
            }
        }
    }
}

#[test]
#[ignore = "a trace to look at"]
fn one() {
    use CongestionKind::{Cubic, Model};
    let get = |n: &str, d: f64| std::env::var(n).ok().map_or(d, |v| v.parse().unwrap());
    let bed = Bed {
        rtt: Duration::from_millis(get("RTT", 20.0) as u64),
        queue: get("QUEUE", 1.0),
        seconds: get("SECONDS", 20.0) as u64,
        loss_ppm: get("LOSS", 0.0) as u32,
        ..BED
    };
    let kind = |n: f64| if n > 0.5 { Cubic } else { Model };
    let pair = [
        (kind(get("A", 0.0)), get("AT", 0.0) as u64),
        (kind(get("B", 0.0)), get("BT", 0.0) as u64),
    ];
    std::println!("{:.3?}", shares(bed, &pair, 1));
}
