//! Two nodes and what is between them.

use std::time::Duration;

use towpath_proto::Rng;
use towpath_wire::units::nanos;
use towpath_wire::{ByteSize, Instant, Rate};

use super::outcome::ParallelOutcome;
use super::ring::{Ring, Shape, Station};
use super::server::Server;
use super::spec::{ParallelSpec, Scheduler};
use super::timer::Estimator;
use crate::kernel::{Handle, Kernel};
use crate::qos::Histogram;

const PACKET_BYTES: u64 = 4500;
/// Instructions for sending a packet, and for an acknowledgement at either side.
const SEND_INSTRUCTIONS: u32 = 290;
const ACK_INSTRUCTIONS: u32 = 110;
/// 2.35 passes over 1125 words of 80 ns.
const MEMORY: Duration = Duration::from_nanos(211_500);
/// Others' load under even load, in per cent, and its steps where it is uneven.
const LOAD: u64 = 30;
pub(super) const STEPS: [i64; 6] = [10, 10, -10, -10, -10, 10];

/// A node's parts.
struct Node {
    /// Application to processors.
    inner_bus: Server,
    /// Processors to rings.
    outer_bus: Server,
    processors: Vec<Server>,
    /// The one that keeps timers, or acknowledges, where one does; the last of them all.
    central: Server,
}

impl Node {
    fn new(processors: usize) -> Self {
        Self {
            inner_bus: Server::default(),
            outer_bus: Server::default(),
            processors: vec![Server::default(); processors],
            central: Server::default(),
        }
    }

    /// The processor that is free first.
    fn idlest(&self) -> usize {
        let free = |at: &usize| self.processors[*at].free_at;
        (0..self.processors.len()).min_by_key(free).unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A packet is in its processor's memory.
    AtProcessor(usize),
    /// It is ready for a ring.
    Ready(usize),
    /// It is at the ring's interface.
    AtRing(usize, usize),
    Token(usize, Station),
    /// It has come round.
    Arrived(usize),
    AtPeer(usize, usize),
    /// A processor of the peer has it.
    Taken(usize),
    /// Whoever acknowledges has done so.
    Acknowledge(usize),
    /// The acknowledgement is at a processor of the sender.
    AckCame(usize),
    AckDone(usize),
    TimeOut(usize),
    Step(usize),
}

#[derive(Clone, Debug, Default)]
struct Packet {
    owner: usize,
    sent: Instant,
    repeats: u32,
    /// Copies lost.
    lost: u32,
    timer: Option<Handle>,
    arrived: bool,
    done: bool,
}

struct Run {
    spec: ParallelSpec,
    kernel: Kernel<Event>,
    sender: Node,
    receiver: Node,
    rings: Vec<Ring>,
    packets: Vec<Packet>,
    /// Under way, by processor.
    flying: Vec<usize>,
    /// By owner of timers.
    estimators: Vec<Estimator>,
    /// Each processor's next ring in its turn, and its order of them.
    turns: Vec<usize>,
    orders: Vec<Vec<usize>>,
    /// Acknowledgements that go to any processor take turns.
    ack_turn: usize,
    rng: Rng,
    begin: Instant,
    in_order: usize,
    waiting: usize,
    delivered: u64,
    sent: u64,
    out: Figures,
}

#[derive(Default)]
struct Figures {
    rtt: Histogram,
    timeouts: u64,
    spurious: u64,
    waiting_max: usize,
}

/// Runs it.
///
/// # Panics
/// With a specification that is out of range.
pub fn run(spec: &ParallelSpec) -> ParallelOutcome {
    assert_eq!(spec.out_of_range(), None, "the caller checks");
    let mut run = Run::new(spec);
    let end = run.begin + spec.measured;
    run.offer(Instant::ZERO);
    while run.kernel.next_at().is_some_and(|at| at < end) {
        let Some((now, event)) = run.kernel.pop() else { break };
        run.happen(now, event);
    }
    run.outcome(end)
}

impl Run {
    fn new(spec: &ParallelSpec) -> Self {
        let ring = |n| Ring::new(Shape::SOURCE, LOAD, Rng::new(spec.seed, 100 + n as u64));
        let mut kernel = Kernel::new();
        for n in 0..spec.links {
            kernel.schedule(Instant::ZERO, Event::Token(n, Station::Ours));
        }
        let warm_up = spec.measured / 5;
        if spec.uneven {
            for n in 0..STEPS.len() {
                let at = warm_up + spec.measured / STEPS.len() as u32 * n as u32;
                kernel.schedule(Instant::ZERO + at, Event::Step(n));
            }
        }
        let owners = if spec.policy.central_timers() { 1 } else { spec.processors };
        Self {
            spec: *spec,
            kernel,
            sender: Node::new(spec.processors),
            receiver: Node::new(spec.processors),
            rings: (0..spec.links).map(ring).collect(),
            packets: Vec::new(),
            flying: vec![0; spec.processors],
            estimators: vec![Estimator::new(spec.timer); owners],
            turns: vec![0; spec.processors],
            orders: (0..spec.processors).map(|of| order(spec, of)).collect(),
            ack_turn: 0,
            rng: Rng::new(spec.seed, 1),
            begin: Instant::ZERO + warm_up,
            in_order: 0,
            waiting: 0,
            delivered: 0,
            sent: 0,
            out: Figures::default(),
        }
    }

    fn work(&self, instructions: u32) -> Duration {
        Duration::from_nanos(u64::from(instructions) * 1000 / u64::from(self.spec.mips))
    }

    fn tell(&self) -> Duration {
        self.work(self.spec.tell_instructions)
    }

    /// A packet over a bus.
    fn bus(&self) -> Duration {
        let rate = Rate::from_bps(self.spec.bus_bps);
        rate.time_for(ByteSize::from_bytes(PACKET_BYTES)).unwrap_or_default()
    }

    /// Hands packets out for as long as a processor can take one: first come, first served.
    fn offer(&mut self, now: Instant) {
        loop {
            let all: usize = self.flying.iter().sum();
            let central = self.spec.policy.central_timers();
            let least = (0..self.flying.len()).min_by_key(|at| self.flying[*at]).unwrap_or(0);
            let room = if central {
                all < self.spec.window * self.spec.processors
            } else {
                self.flying[least] < self.spec.window
            };
            if !room {
                return;
            }
            self.flying[least] += 1;
            let number = self.packets.len();
            self.packets.push(Packet { owner: least, ..Packet::default() });
            let mut at = now;
            if central {
                // It says who sends it, and sets its timer.
                at = self.sender.central.serve(at, self.tell());
            }
            let at = self.sender.inner_bus.serve(at, self.bus());
            self.kernel.schedule(at, Event::AtProcessor(number));
        }
    }

    fn happen(&mut self, now: Instant, event: Event) {
        match event {
            Event::AtProcessor(n) => {
                let time = self.work(SEND_INSTRUCTIONS) + MEMORY;
                let at = self.sender.processors[self.packets[n].owner].serve(now, time);
                self.kernel.schedule(at, Event::Ready(n));
            }
            Event::Ready(n) => self.ready(now, n),
            Event::AtRing(n, ring) => self.rings[ring].queue.push_back(n),
            Event::Token(ring, station) => self.token(now, ring, station),
            Event::Arrived(n) => self.arrived(now, n),
            Event::AtPeer(n, processor) => {
                let time = self.work(ACK_INSTRUCTIONS) + MEMORY;
                let at = self.receiver.processors[processor].serve(now, time);
                self.kernel.schedule(at, Event::Taken(n));
            }
            Event::Taken(n) => self.taken(now, n),
            Event::Acknowledge(n) => {
                self.kernel.schedule(now + Shape::SOURCE.half_way, Event::AckCame(n));
            }
            Event::AckCame(n) => self.ack_came(now, n),
            Event::AckDone(n) => self.ack_done(now, n),
            Event::TimeOut(n) => self.time_out(now, n),
            Event::Step(n) => {
                let sum: i64 = STEPS[..=n].iter().sum();
                for (number, ring) in self.rings.iter_mut().enumerate() {
                    let change = if number % 2 == 0 { sum } else { -sum };
                    ring.set_load(LOAD.saturating_add_signed(change));
                }
            }
        }
    }

    /// A processor sends a packet: its timer runs from now on.
    fn ready(&mut self, now: Instant, n: usize) {
        let owner = self.packets[n].owner;
        let ring = self.pick(owner);
        self.sent += u64::from(now >= self.begin);
        let of = if self.spec.policy.central_timers() { 0 } else { owner };
        let timeout = self.estimators[of].timeout(self.packets[n].repeats);
        let timer = self.kernel.schedule(now + timeout, Event::TimeOut(n));
        let packet = &mut self.packets[n];
        (packet.sent, packet.timer) = (now, Some(timer));
        let at = self.sender.outer_bus.serve(now, self.bus());
        self.kernel.schedule(at, Event::AtRing(n, ring));
    }

    fn pick(&mut self, processor: usize) -> usize {
        if self.spec.scheduler == Scheduler::Adaptive {
            let cost = |ring: &Ring| {
                let queue = 360_000 * ring.queue.len() as u64;
                queue + nanos(ring.rotation) / 10
            };
            let rings = self.rings.iter().enumerate();
            return rings.min_by_key(|(_, ring)| cost(ring)).map_or(0, |(number, _)| number);
        }
        let turn = &mut self.turns[processor];
        let ring = self.orders[processor][*turn];
        *turn = (*turn + 1) % self.spec.links;
        ring
    }

    fn token(&mut self, now: Instant, number: usize, station: Station) {
        let ring = &mut self.rings[number];
        let (next, at) = match station {
            Station::Ours => {
                let (sent, at) = ring.ours(now, self.spec.packets_per_token);
                for (at, packet) in sent {
                    if self.rng.chance_ppm(self.spec.loss_ppm) {
                        self.packets[packet].lost += 1;
                    } else {
                        self.kernel.schedule(at + Shape::SOURCE.half_way, Event::Arrived(packet));
                    }
                }
                (Station::Others, at)
            }
            Station::Others => (Station::Ours, ring.others(now)),
        };
        self.kernel.schedule(at + Shape::SOURCE.half_way, Event::Token(number, next));
    }

    fn arrived(&mut self, now: Instant, n: usize) {
        let at = self.receiver.outer_bus.serve(now, self.bus());
        // A connection has its two ends; else any processor takes it.
        let own = self.spec.policy == super::Policy::Drda;
        let processor = if own { self.packets[n].owner } else { self.receiver.idlest() };
        self.kernel.schedule(at, Event::AtPeer(n, processor));
    }

    fn taken(&mut self, now: Instant, n: usize) {
        if !std::mem::replace(&mut self.packets[n].arrived, true) {
            self.receiver.inner_bus.serve(now, self.bus());
            self.waiting += 1;
            while self.packets.get(self.in_order).is_some_and(|packet| packet.arrived) {
                self.in_order += 1;
                self.waiting -= 1;
            }
            if now >= self.begin {
                self.delivered += 1;
                self.out.waiting_max = self.out.waiting_max.max(self.waiting);
            }
        }
        let at = if self.spec.policy.central_acks() {
            let time = self.tell() + self.work(ACK_INSTRUCTIONS);
            self.receiver.central.serve(now, time)
        } else {
            now
        };
        self.kernel.schedule(at, Event::Acknowledge(n));
    }

    fn ack_came(&mut self, now: Instant, n: usize) {
        let policy = self.spec.policy;
        let owner = self.packets[n].owner;
        let ack = self.work(ACK_INSTRUCTIONS);
        if policy == super::Policy::Drda {
            let at = self.sender.processors[owner].serve(now, ack);
            self.kernel.schedule(at, Event::AckDone(n));
            return;
        }
        // It came to any processor, which tells the one that waits for it.
        self.ack_turn = (self.ack_turn + 1) % self.spec.processors;
        let tell = self.tell();
        let told = self.sender.processors[self.ack_turn].serve(now, tell);
        let at = if policy.central_timers() {
            self.sender.central.serve(told, tell + ack)
        } else {
            self.sender.processors[owner].serve(told, ack)
        };
        self.kernel.schedule(at, Event::AckDone(n));
    }

    fn ack_done(&mut self, now: Instant, n: usize) {
        let central = self.spec.policy.central_timers();
        let packet = &mut self.packets[n];
        if std::mem::replace(&mut packet.done, true) {
            return;
        }
        if let Some(timer) = packet.timer.take() {
            self.kernel.cancel(timer);
        }
        // Of a packet that was repeated nobody knows which copy is meant (Karn's rule).
        if packet.repeats == 0 {
            let rtt = now.since(packet.sent);
            self.estimators[if central { 0 } else { packet.owner }].sample(rtt);
            if now >= self.begin {
                self.out.rtt.record(nanos(rtt));
            }
        }
        self.flying[packet.owner] -= 1;
        self.offer(now);
    }

    fn time_out(&mut self, now: Instant, n: usize) {
        let packet = &mut self.packets[n];
        packet.timer = None;
        if packet.done {
            return;
        }
        // As many lost as were sent before: it has to be repeated.
        let spurious = packet.lost <= packet.repeats;
        if now >= self.begin {
            self.out.timeouts += 1;
            self.out.spurious += u64::from(spurious);
        }
        if spurious && !self.spec.repeats {
            return;
        }
        packet.repeats += 1;
        let mut at = now;
        if self.spec.policy.central_timers() {
            at = self.sender.central.serve(now, self.tell());
        }
        self.kernel.schedule(at, Event::AtProcessor(n));
    }

    fn outcome(self, end: Instant) -> ParallelOutcome {
        let seconds = self.spec.measured.as_secs_f64();
        let whole = end.since(Instant::ZERO).as_secs_f64();
        let nodes = [&self.sender, &self.receiver];
        let all = nodes.iter().flat_map(|node| node.processors.iter().chain([&node.central]));
        let busiest = all.map(|server| server.busy).max().unwrap_or_default();
        ParallelOutcome {
            spec: self.spec,
            delivered_bps: (self.delivered as f64 * (PACKET_BYTES * 8) as f64 / seconds) as u64,
            rtt: self.out.rtt.summary(),
            sent: self.sent,
            timeouts: self.out.timeouts,
            spurious: self.out.spurious,
            waiting_max: self.out.waiting_max,
            busy_ppm: (busiest.as_secs_f64() / whole * 1e6) as u64,
            in_order: self.in_order,
        }
    }
}

/// A processor's order of the rings.
fn order(spec: &ParallelSpec, processor: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..spec.links).collect();
    if spec.scheduler == Scheduler::Permuted {
        let mut rng = Rng::new(spec.seed, 1000 + processor as u64);
        for last in (1..order.len()).rev() {
            order.swap(last, rng.below(last as u64 + 1) as usize);
        }
    }
    order
}
