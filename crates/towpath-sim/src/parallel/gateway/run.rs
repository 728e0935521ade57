//! Generators, gateways, rings.

use std::collections::VecDeque;
use std::time::Duration;

use towpath_proto::Rng;
use towpath_wire::Instant;
use towpath_wire::units::nanos;

use super::spec::{GatewayNode, Way};
use crate::hash::Trace;
use crate::kernel::Kernel;
use crate::parallel::ring::{Ring, Shape, Station, exponential};
use crate::parallel::server::Server;
use crate::parallel::source::Measured;

/// A gateway's parts.
#[derive(Default)]
struct Gateway {
    /// Segments, each with when it was made.
    queue: VecDeque<usize>,
    /// It had reached the high threshold when generators were stopped.
    full: bool,
    flying: usize,
    processor: Server,
    /// The peer's.
    peer: Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A generator makes a segment, unless it was stopped since.
    Make(usize, u64),
    /// A segment at a gateway, passed on so often.
    At {
        gateway: usize,
        segment: usize,
        count: usize,
    },
    /// A packet is ready for a ring.
    Ready(usize),
    AtRing(usize, usize),
    Token(usize, Station),
    Arrived(usize),
    Taken(usize),
    AckCame(usize),
}

/// A segment is one packet: it is no longer than a window, and of a packet's length.
struct Segment {
    born: Instant,
    owner: usize,
    ring: usize,
}

struct Run<'a> {
    node: &'a GatewayNode,
    shape: Shape,
    kernel: Kernel<Event>,
    gateways: Vec<Gateway>,
    rings: Vec<Ring>,
    /// Packets at each ring, and on their way to it.
    held: Vec<u64>,
    acks: Vec<VecDeque<usize>>,
    segments: Vec<Segment>,
    /// How often generators were stopped; odd: they are.
    stops: u64,
    rng: Rng,
    begin: Instant,
    bits: u64,
    latency: (u128, u64),
    trace: Trace,
}

/// Runs it for so long, after a fifth of that.
pub(in crate::parallel) fn run(node: &GatewayNode, measured: Duration, seed: u64) -> Measured {
    let mut run = Run::new(node, measured, seed);
    let end = run.begin + measured;
    run.start(Instant::ZERO);
    while run.kernel.next_at().is_some_and(|at| at < end) {
        let Some((now, event)) = run.kernel.pop() else { break };
        run.happen(now, event);
    }
    let (sum, count) = run.latency;
    let busy: Duration = run.gateways.iter().map(|g| g.processor.busy).sum();
    let whole = end.since(Instant::ZERO).as_secs_f64() * run.gateways.len() as f64;
    Measured {
        throughput_mbps: run.bits as f64 / 1e6 / measured.as_secs_f64(),
        latency_us: sum as f64 / count.max(1) as f64 / 1000.0,
        access_us: 0.0,
        busy_percent: busy.as_secs_f64() / whole * 100.0,
        trace: run.trace.value(),
    }
}

impl<'a> Run<'a> {
    fn new(node: &'a GatewayNode, measured: Duration, seed: u64) -> Self {
        let count = node.gateways.count();
        let (bytes, _) = node.packets_of_window();
        let shape = Shape { frame: node.ring.time_of(bytes * 8), ..node.ring.shape() };
        let ring = |number: usize| {
            let overloaded = number < node.overloaded.count();
            let load = if overloaded {
                node.overload_percent.value()
            } else {
                node.ring.background_percent.value()
            };
            Ring::new(shape, load, Rng::new(seed, 100 + number as u64))
        };
        let mut kernel = Kernel::new();
        for number in 0..count {
            kernel.schedule(Instant::ZERO, Event::Token(number, Station::Ours));
        }
        Self {
            node,
            shape,
            kernel,
            gateways: (0..count).map(|_| Gateway::default()).collect(),
            rings: (0..count).map(ring).collect(),
            held: vec![0; count],
            acks: vec![VecDeque::new(); count],
            segments: Vec::new(),
            stops: 0,
            rng: Rng::new(seed, 1),
            begin: Instant::ZERO + measured / 5,
            bits: 0,
            latency: (0, 0),
            trace: Trace::new(seed),
        }
    }

    /// All generators go on.
    fn start(&mut self, now: Instant) {
        for generator in 0..self.gateways.len() {
            self.next_of(now, generator);
        }
    }

    fn next_of(&mut self, now: Instant, generator: usize) {
        let gap = exponential(&mut self.rng, 1.0 / self.node.segments_per_second(generator));
        self.kernel.schedule(now + gap, Event::Make(generator, self.stops));
    }

    fn stop(&mut self) {
        let high = self.node.high_segments.count();
        self.gateways.iter_mut().for_each(|g| g.full = g.queue.len() >= high);
        if self.stops.is_multiple_of(2) {
            self.stops += 1;
        }
    }

    fn happen(&mut self, now: Instant, event: Event) {
        match event {
            Event::Make(_, stops) if stops != self.stops => {}
            Event::Make(generator, _) => {
                self.next_of(now, generator);
                let segment = self.segments.len();
                self.segments.push(Segment { born: now, owner: generator, ring: generator });
                self.at(now, generator, segment, 0);
            }
            Event::At { gateway, segment, count } => self.at(now, gateway, segment, count),
            Event::Ready(n) => self.ready(now, n),
            Event::AtRing(n, ring) => self.rings[ring].queue.push_back(n),
            Event::Token(ring, station) => self.token(now, ring, station),
            Event::Arrived(n) => {
                let take = Duration::from_micros(self.node.take_us.value());
                let at = self.gateways[self.segments[n].owner].peer.serve(now, take);
                self.kernel.schedule(at, Event::Taken(n));
            }
            Event::Taken(n) => {
                let ring = self.segments[n].ring;
                if self.node.ring.acks_on_ring {
                    self.acks[ring].push_back(n);
                } else {
                    self.kernel.schedule(now + self.shape.half_way, Event::AckCame(n));
                }
            }
            Event::AckCame(n) => self.ack_came(now, n),
        }
    }

    /// A segment is at a gateway, which keeps it or passes it on.
    fn at(&mut self, now: Instant, gateway: usize, segment: usize, count: usize) {
        let number = self.gateways.len();
        let full = self.gateways[gateway].queue.len() >= self.node.high_segments.count();
        let last = count + 1 == number || self.node.segments == Way::Fixed;
        if full && !last {
            let at = now + Duration::from_micros(self.node.hop_us.value());
            let right = (gateway + 1) % number;
            self.kernel.schedule(at, Event::At { gateway: right, segment, count: count + 1 });
            return;
        }
        self.segments[segment].owner = gateway;
        self.gateways[gateway].queue.push_back(segment);
        self.send(now, gateway);
        let high = self.node.high_segments.count();
        let fixed = self.node.segments == Way::Fixed;
        if (full && last) || (fixed && self.gateways[gateway].queue.len() >= high) {
            self.stop();
        }
    }

    /// A gateway sends for as long as its window has room.
    fn send(&mut self, now: Instant, gateway: usize) {
        let (_, window) = self.node.packets_of_window();
        let of = &mut self.gateways[gateway];
        while of.flying < window
            && let Some(segment) = of.queue.pop_front()
        {
            of.flying += 1;
            let at = of.processor.serve(now, Duration::from_micros(self.node.send_us.value()));
            self.kernel.schedule(at, Event::Ready(segment));
        }
        if of.full && of.queue.len() < self.node.low_segments.count() {
            self.gateways.iter_mut().for_each(|g| g.full = false);
            self.stops += 1;
            self.start(now);
        }
    }

    fn ready(&mut self, now: Instant, n: usize) {
        let owner = self.segments[n].owner;
        let right = (owner + 1) % self.rings.len();
        let cost = |ring: usize| {
            let rotation = nanos(self.rings[ring].rotation) / 100;
            self.held[ring] * self.node.queue_us.value() * 1000
                + rotation * self.node.rotation_percent.value()
        };
        let hop = Duration::from_micros(self.node.hop_us.value());
        let adaptive = self.node.packets == Way::Adaptive;
        let (ring, at) = if adaptive && cost(right) + nanos(hop) < cost(owner) {
            (right, now + hop)
        } else {
            (owner, now)
        };
        self.segments[n].ring = ring;
        self.held[ring] += 1;
        self.kernel.schedule(at, Event::AtRing(n, ring));
    }

    fn token(&mut self, now: Instant, number: usize, station: Station) {
        let ring = &mut self.rings[number];
        let (next, at) = match station {
            Station::Ours => {
                let (sent, at) = ring.ours(now, self.node.ring.frames_per_token.count());
                self.held[number] -= sent.len() as u64;
                for (at, packet) in sent {
                    self.kernel.schedule(at + self.shape.half_way, Event::Arrived(packet));
                }
                (Station::Others, at)
            }
            Station::Others => {
                let mut at = now;
                while let Some(ack) = self.acks[number].pop_front() {
                    at += self.node.ring.time_of(512);
                    self.kernel.schedule(at + self.shape.half_way, Event::AckCame(ack));
                }
                (Station::Ours, ring.others(now) + at.since(now))
            }
        };
        self.kernel.schedule(at + self.shape.half_way, Event::Token(number, next));
    }

    /// The gateway that took the packet's acknowledgement gives it to the one that sent it.
    fn ack_came(&mut self, now: Instant, n: usize) {
        let Segment { born, owner, .. } = self.segments[n];
        self.trace.word(nanos(now.since(Instant::ZERO)));
        self.trace.word(n as u64);
        if now >= self.begin {
            let (bytes, _) = self.node.packets_of_window();
            self.bits += bytes * 8;
            self.latency.0 += u128::from(nanos(now.since(born)));
            self.latency.1 += 1;
        }
        self.gateways[owner].flying -= 1;
        self.send(now, owner);
    }
}
