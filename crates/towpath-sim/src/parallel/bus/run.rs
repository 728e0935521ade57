//! Two such nodes and the rings between them.

use std::collections::VecDeque;
use std::time::Duration;

use towpath_proto::Rng;
use towpath_wire::Instant;
use towpath_wire::units::nanos;

use super::spec::{Architecture, BusNode, Choice, Load, PACKET_BITS};
use crate::hash::Trace;
use crate::kernel::Kernel;
use crate::parallel::node::STEPS;
use crate::parallel::ring::{Ring, Station};
use crate::parallel::server::Server;
use crate::parallel::source::Measured;

/// An acknowledgement on a ring.
const ACK_BITS: u64 = 512;

/// Packets of one processor that want its memory, one after the other.
#[derive(Default)]
struct Port {
    jobs: VecDeque<usize>,
    words_left: u64,
    asked: Instant,
}

/// A node's parts.
struct Side {
    /// The application's bus; the only one where there is one.
    inner_bus: Server,
    /// The network's bus, or the multiplexer.
    outer_bus: Server,
    processors: Vec<Server>,
    ports: Vec<Port>,
    /// One, or one of each processor.
    memories: Vec<Server>,
}

impl Side {
    fn new(node: &BusNode) -> Self {
        let count = node.processors.count();
        let own = node.architecture == Architecture::TwoBus;
        Self {
            inner_bus: Server::default(),
            outer_bus: Server::default(),
            processors: vec![Server::default(); count],
            ports: (0..count).map(|_| Port::default()).collect(),
            memories: vec![Server::default(); if own { count } else { 1 }],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Sender,
    Receiver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A packet is at its processor.
    AtProcessor(Who, usize),
    /// The processor wants it read or written.
    AtMemory(Who, usize),
    /// An access of a processor is done.
    Access(Who, usize),
    /// It is at a ring's interface.
    AtRing(usize, usize),
    MuxFree,
    /// It has left the interface.
    Left(usize),
    Token(usize, Station),
    /// The token is here; how many packets left, until when another may.
    Holds {
        ring: usize,
        sent: usize,
        until: Instant,
    },
    /// It has come round.
    Arrived(usize),
    /// The peer's processor has it.
    Taken(usize),
    AckCame(usize),
    AckDone(usize),
    Step(usize),
}

struct Packet {
    owner: usize,
    segment: usize,
    ring: usize,
}

struct Segment {
    born: Instant,
    left: u64,
}

struct Run<'a> {
    node: &'a BusNode,
    kernel: Kernel<Event>,
    sender: Side,
    receiver: Side,
    rings: Vec<Ring>,
    acks: Vec<VecDeque<usize>>,
    /// Packets at each interface, those on their way to it included.
    held: Vec<usize>,
    /// Packets that wait for the multiplexer.
    mux: VecDeque<usize>,
    mux_busy: bool,
    /// Next interface in each processor's turn, or in the multiplexer's: the first.
    turns: Vec<usize>,
    packets: Vec<Packet>,
    segments: Vec<Segment>,
    waiting: VecDeque<Instant>,
    flying: Vec<usize>,
    begin: Instant,
    out: Figures,
}

struct Figures {
    bits: u64,
    rtt: (u128, u64),
    access: (u128, u64),
    trace: Trace,
}

/// Runs it for so long, after a fifth of that.
pub(in crate::parallel) fn run(node: &BusNode, measured: Duration, seed: u64) -> Measured {
    let mut run = Run::new(node, measured, seed);
    let end = run.begin + measured;
    run.offer(Instant::ZERO);
    while run.kernel.next_at().is_some_and(|at| at < end) {
        let Some((now, event)) = run.kernel.pop() else { break };
        run.happen(now, event);
    }
    run.measured(measured, end)
}

impl<'a> Run<'a> {
    fn new(node: &'a BusNode, measured: Duration, seed: u64) -> Self {
        let mut kernel = Kernel::new();
        let count = node.interfaces.count();
        for number in 0..count {
            kernel.schedule(Instant::ZERO, Event::Token(number, Station::Ours));
        }
        let warm_up = measured / 5;
        if node.load == Load::Uneven {
            for step in 0..STEPS.len() {
                let at = warm_up + measured / STEPS.len() as u32 * step as u32;
                kernel.schedule(Instant::ZERO + at, Event::Step(step));
            }
        }
        let load = node.ring.background_percent.value();
        let ring = |n| Ring::new(node.ring.shape(), load, Rng::new(seed, 100 + n as u64));
        Self {
            node,
            kernel,
            sender: Side::new(node),
            receiver: Side::new(node),
            rings: (0..count).map(ring).collect(),
            acks: vec![VecDeque::new(); count],
            held: vec![0; count],
            mux: VecDeque::new(),
            mux_busy: false,
            turns: vec![0; node.processors.count()],
            packets: Vec::new(),
            segments: Vec::new(),
            waiting: vec![Instant::ZERO; node.waiting_segments.count()].into(),
            flying: vec![0; node.processors.count()],
            begin: Instant::ZERO + warm_up,
            out: Figures { bits: 0, rtt: (0, 0), access: (0, 0), trace: Trace::new(seed) },
        }
    }

    fn side(&mut self, who: Who) -> &mut Side {
        match who {
            Who::Sender => &mut self.sender,
            Who::Receiver => &mut self.receiver,
        }
    }

    fn two_bus(&self) -> bool {
        self.node.architecture == Architecture::TwoBus
    }

    /// The next segment goes to the processor with most room, for as long as one has room.
    fn offer(&mut self, now: Instant) {
        let of = self.node.segment_packets.count();
        loop {
            let all: usize = self.flying.iter().sum();
            let least = (0..self.flying.len()).min_by_key(|at| self.flying[*at]).unwrap_or(0);
            let room = self.flying[least] + of <= self.node.window().max(of);
            // One segment is always let in: no node stands still for its limits.
            if all > 0 && (!room || all + of > self.node.packets_max.count()) {
                return;
            }
            self.waiting.push_back(now);
            let born = self.waiting.pop_front().unwrap_or(now);
            self.segments.push(Segment { born, left: of as u64 });
            self.flying[least] += of;
            for _ in 0..of {
                let number = self.packets.len();
                let segment = self.segments.len() - 1;
                self.packets.push(Packet { owner: least, segment, ring: 0 });
                let mut at = now;
                if self.two_bus() {
                    at = self.sender.inner_bus.serve(now, self.node.bus(PACKET_BITS));
                }
                self.kernel.schedule(at, Event::AtProcessor(Who::Sender, number));
            }
        }
    }

    fn happen(&mut self, now: Instant, event: Event) {
        match event {
            Event::AtProcessor(who, n) => self.at_processor(now, who, n),
            Event::AtMemory(who, n) => self.at_memory(now, who, n),
            Event::Access(who, processor) => self.access_done(now, who, processor),
            Event::AtRing(n, ring) => {
                if self.two_bus() {
                    self.held[ring] += 1;
                }
                self.rings[ring].queue.push_back(n);
            }
            Event::MuxFree => {
                self.mux_busy = false;
                self.multiplex(now);
            }
            Event::Left(ring) => {
                self.held[ring] -= 1;
                self.multiplex(now);
            }
            Event::Token(ring, Station::Ours) => {
                let until = self.rings[ring].token_came(now);
                self.holds(now, ring, 0, until);
            }
            Event::Token(ring, Station::Others) => self.others(now, ring),
            Event::Holds { ring, sent, until } => self.holds(now, ring, sent, until),
            Event::Arrived(n) => {
                let bus = self.node.bus(PACKET_BITS);
                let at = self.receiver.outer_bus.serve(now, bus);
                self.kernel.schedule(at, Event::AtProcessor(Who::Receiver, n));
            }
            Event::Taken(n) => self.taken(now, n),
            Event::AckCame(n) => {
                let work = self.node.work(self.node.costs.ack_instructions.value());
                let at = self.sender.processors[self.packets[n].owner].serve(now, work);
                self.kernel.schedule(at, Event::AckDone(n));
            }
            Event::AckDone(n) => self.ack_done(now, n),
            Event::Step(step) => self.step(step),
        }
    }

    fn at_processor(&mut self, now: Instant, who: Who, n: usize) {
        let costs = &self.node.costs;
        let mut instructions = costs.send_instructions.value();
        if who == Who::Receiver {
            instructions += costs.ack_instructions.value();
        }
        let work = self.node.work(instructions);
        let owner = self.packets[n].owner;
        let at = self.side(who).processors[owner].serve(now, work);
        self.kernel.schedule(at, Event::AtMemory(who, n));
    }

    fn at_memory(&mut self, now: Instant, who: Who, n: usize) {
        let owner = self.packets[n].owner;
        let words = self.node.words();
        let port = &mut self.side(who).ports[owner];
        port.jobs.push_back(n);
        if port.jobs.len() == 1 {
            port.words_left = words;
            self.access(now, who, owner);
        }
    }

    /// A processor's next access of memory. Its own one it has for a whole packet.
    fn access(&mut self, now: Instant, who: Who, processor: usize) {
        let (node, two_bus) = (self.node, self.two_bus());
        let side = self.side(who);
        let port = &mut side.ports[processor];
        port.asked = now;
        let words = if two_bus {
            port.words_left
        } else {
            port.words_left.min(node.costs.access_words.value())
        };
        port.words_left -= words;
        let time = node.memory(words);
        let done = if two_bus {
            side.memories[processor].serve(now, time)
        } else {
            // The bus is free again while memory works (split transactions).
            let at = side.inner_bus.serve(now, node.bus(words * 32));
            side.memories[0].serve(at, time)
        };
        self.kernel.schedule(done, Event::Access(who, processor));
    }

    fn access_done(&mut self, now: Instant, who: Who, processor: usize) {
        let words = self.node.words();
        let port = &mut self.side(who).ports[processor];
        let took = nanos(now.since(port.asked));
        let mut done = None;
        if port.words_left == 0 {
            done = port.jobs.pop_front();
            port.words_left = words;
        }
        let more = !port.jobs.is_empty();
        if now >= self.begin && who == Who::Sender {
            self.out.access.0 += u128::from(took);
            self.out.access.1 += 1;
        }
        if more {
            self.access(now, who, processor);
        }
        match (done, who) {
            (Some(n), Who::Sender) => self.ready(now, n),
            (Some(n), Who::Receiver) => {
                self.kernel.schedule(now, Event::Taken(n));
            }
            (None, _) => {}
        }
    }

    /// A packet is ready for a ring.
    fn ready(&mut self, now: Instant, n: usize) {
        if !self.two_bus() {
            self.mux.push_back(n);
            self.multiplex(now);
            return;
        }
        let owner = self.packets[n].owner;
        let ring = match self.node.choice {
            Choice::Rr => self.turn(owner),
            Choice::Adaptive => self.least(|_| true).unwrap_or(0),
        };
        self.packets[n].ring = ring;
        let at = self.sender.outer_bus.serve(now, self.node.bus(PACKET_BITS));
        self.kernel.schedule(at, Event::AtRing(n, ring));
    }

    fn turn(&mut self, of: usize) -> usize {
        let turn = self.turns[of];
        self.turns[of] = (turn + 1) % self.rings.len();
        turn
    }

    /// The interface that costs least, of those that may be taken.
    fn least(&self, may: impl Fn(usize) -> bool) -> Option<usize> {
        let costs = &self.node.costs;
        let cost = |number: &usize| {
            let queue = costs.queue_us.value() * 1000 * self.held[*number] as u64;
            queue + nanos(self.rings[*number].rotation) * costs.rotation_percent.value() / 100
        };
        (0..self.rings.len()).filter(|number| may(*number)).min_by_key(cost)
    }

    /// The first packet that waits goes to an interface, where that has room.
    fn multiplex(&mut self, now: Instant) {
        let room = self.node.interface_packets.count();
        if self.mux_busy || self.mux.is_empty() {
            return;
        }
        let ring = match self.node.choice {
            Choice::Rr if self.held[self.turns[0]] < room => Some(self.turn(0)),
            Choice::Rr => None,
            Choice::Adaptive => self.least(|number| self.held[number] < room),
        };
        let Some(ring) = ring else { return };
        let Some(n) = self.mux.pop_front() else { return };
        self.mux_busy = true;
        self.held[ring] += 1;
        self.packets[n].ring = ring;
        let at = self.sender.outer_bus.serve(now, self.node.bus(PACKET_BITS));
        self.kernel.schedule(at, Event::AtRing(n, ring));
        self.kernel.schedule(at, Event::MuxFree);
    }

    /// Our station has the token: the next packet that waits leaves, or the token goes on. What
    /// comes while one leaves may follow it.
    fn holds(&mut self, now: Instant, number: usize, sent: usize, until: Instant) {
        let shape = self.node.ring.shape();
        let may = sent < self.node.ring.frames_per_token.count() && now < until;
        let packet = if may { self.rings[number].queue.pop_front() } else { None };
        let Some(packet) = packet else {
            self.kernel.schedule(now + shape.half_way, Event::Token(number, Station::Others));
            return;
        };
        let at = now + shape.frame;
        self.kernel.schedule(at, Event::Left(number));
        self.kernel.schedule(at + shape.half_way, Event::Arrived(packet));
        self.kernel.schedule(at, Event::Holds { ring: number, sent: sent + 1, until });
    }

    /// The others have it, and the peer, which has its place beside them.
    fn others(&mut self, now: Instant, number: usize) {
        let half_way = self.node.ring.shape().half_way;
        let mut at = now;
        while let Some(ack) = self.acks[number].pop_front() {
            at += self.node.ring.time_of(ACK_BITS);
            self.kernel.schedule(at + half_way, Event::AckCame(ack));
        }
        let at = self.rings[number].others(now) + at.since(now);
        self.kernel.schedule(at + half_way, Event::Token(number, Station::Ours));
    }

    /// The peer's processor has a packet, and acknowledges it.
    fn taken(&mut self, now: Instant, n: usize) {
        if self.two_bus() {
            self.receiver.inner_bus.serve(now, self.node.bus(PACKET_BITS));
        }
        self.out.trace.word(nanos(now.since(Instant::ZERO)));
        self.out.trace.word(n as u64);
        if now >= self.begin {
            self.out.bits += PACKET_BITS;
        }
        let ring = self.packets[n].ring;
        if self.node.ring.acks_on_ring {
            self.acks[ring].push_back(n);
        } else {
            self.kernel.schedule(now + self.node.ring.shape().half_way, Event::AckCame(n));
        }
    }

    fn ack_done(&mut self, now: Instant, n: usize) {
        let packet = &self.packets[n];
        self.flying[packet.owner] -= 1;
        let segment = &mut self.segments[packet.segment];
        segment.left -= 1;
        if segment.left == 0 && now >= self.begin {
            self.out.rtt.0 += u128::from(nanos(now.since(segment.born)));
            self.out.rtt.1 += 1;
        }
        self.offer(now);
    }

    fn step(&mut self, step: usize) {
        let load = self.node.ring.background_percent.value();
        let sum: i64 = STEPS[..=step].iter().sum();
        for (number, ring) in self.rings.iter_mut().enumerate() {
            let change = if number % 2 == 0 { sum } else { -sum };
            ring.set_load(load.saturating_add_signed(change));
        }
    }

    fn measured(&self, measured: Duration, end: Instant) -> Measured {
        let mean_us = |(sum, count): (u128, u64)| sum as f64 / count.max(1) as f64 / 1000.0;
        let whole = end.since(Instant::ZERO).as_secs_f64();
        let busy: Duration = self.sender.processors.iter().map(|p| p.busy).sum();
        Measured {
            throughput_mbps: self.out.bits as f64 / 1e6 / measured.as_secs_f64(),
            latency_us: mean_us(self.out.rtt),
            access_us: mean_us(self.out.access),
            busy_percent: busy.as_secs_f64() / whole / self.sender.processors.len() as f64 * 100.0,
            trace: self.out.trace.value(),
        }
    }
}
