//! The event loop.

use std::collections::VecDeque;

use towpath_proto::Rng;
use towpath_qos::scheduler::{Packet, QueueConfig, QueueId, Scheduler};
use towpath_qos::spec::Regulator;
use towpath_wire::{ByteSize, Instant};

use super::port::{Next, Port, PortStats};
use super::source::{Feed, Planned};
use super::spec::{Early, FlowSpec, Hop, HostSpec, NetworkError, Pacing, PortSpec};
use super::stats::{FlowStats, Miss, Point};
use crate::hash::Trace;
use crate::kernel::Kernel;
use crate::qos::cpu::Cpu;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A source hands its next packet over.
    Release { flow: u32 },
    /// A packet is ready at the next port of its route.
    AtPort { packet: u32 },
    /// A packet is at its destination.
    AtHost { packet: u32 },
    /// Its destination is done with it.
    Deliver { packet: u32 },
    /// A delivery lets the window's next packet go.
    Credit { flow: u32 },
    /// A port is to be asked again.
    Serve { port: u32 },
}

/// A packet under way.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    flow: u32,
    bytes: u32,
    /// Its number in the flow.
    number: u64,
    released_ns: u64,
    /// By how much it is early; see [`Early`].
    slack_ns: i64,
    /// When it reached the queue it is in, and was held no longer.
    queued_ns: u64,
    /// Ports passed.
    hop: u32,
}

struct Flow {
    from: u32,
    to: u32,
    /// Its ports: a range of `Network::hops`.
    first_hop: u32,
    hops: u32,
    feed: Feed,
    shaper: Option<Regulator>,
    /// The packet whose release is scheduled, or waits for credit or room.
    next: Option<Planned>,
    pacing: Pacing,
    /// Packets that the window still allows.
    credits: u32,
    /// `next` waits for a credit, or for a blocked packet to get in.
    held: bool,
    /// Its packets that wait outside a full queue.
    blocked: u32,
    bound_ns: u64,
    series: (u32, u32),
}

struct Host {
    spec: HostSpec,
    cpus: Vec<Cpu>,
}

/// Hosts, ports and flows with their packets. Same seed and same calls: same trace.
pub struct Network {
    kernel: Kernel<Event>,
    seed: u64,
    hosts: Vec<Host>,
    ports: Vec<Port>,
    hops: Vec<Hop>,
    flows: Vec<Flow>,
    stats: Vec<FlowStats>,
    packets: Vec<InFlight>,
    free: Vec<u32>,
    /// Ports to serve once every event of this instant has happened.
    due: VecDeque<u32>,
    trace: Trace,
    packet_hops: u64,
}

impl Network {
    /// An empty network.
    pub fn new(seed: u64) -> Self {
        Self {
            kernel: Kernel::new(),
            seed,
            hosts: Vec::new(),
            ports: Vec::new(),
            hops: Vec::new(),
            flows: Vec::new(),
            stats: Vec::new(),
            packets: Vec::new(),
            free: Vec::new(),
            due: VecDeque::new(),
            trace: Trace::new(seed),
            packet_hops: 0,
        }
    }

    /// Adds a host; gives its index.
    pub fn add_host(&mut self, name: &str, spec: HostSpec) -> Result<u32, NetworkError> {
        let fault = |field, value, must| {
            Err(NetworkError::Range { of: format!("host {name}"), field, value, must })
        };
        if !(1..=64).contains(&spec.cpus) {
            return fault("cpus", spec.cpus.into(), "1 to 64");
        }
        if let Some((field, must)) = spec.sharing.fault() {
            return fault(field, 0, must);
        }
        let costs = [spec.send_ns, spec.send_ns_per_kib, spec.receive_ns, spec.receive_ns_per_kib];
        if let Some(cost) = costs.into_iter().find(|c| *c > 1_000_000_000) {
            return fault("a packet's cost in ns", cost, "at most a second");
        }
        let index = self.hosts.len() as u32;
        let stream = |cpu: u32| 1 << 40 | u64::from(index) << 8 | u64::from(cpu);
        let cpu = |i| Cpu::new(spec.sharing, Rng::new(self.seed, stream(i)));
        let cpus = (0..spec.cpus).map(cpu).collect();
        self.hosts.push(Host { spec, cpus });
        Ok(index)
    }

    /// Adds a port without queues; gives its index.
    pub fn add_port(&mut self, spec: PortSpec) -> Result<u32, NetworkError> {
        let fail = |error| NetworkError::Port { port: spec.name.clone(), error };
        let scheduler = spec.discipline.build(&spec.config).map_err(fail)?;
        self.ports.push(Port::new(spec, scheduler));
        Ok(self.ports.len() as u32 - 1)
    }

    /// Adds a queue to a port.
    pub fn add_queue(
        &mut self,
        port: u32,
        queue: QueueId,
        config: &QueueConfig,
    ) -> Result<(), NetworkError> {
        let count = self.ports.len();
        let unknown = NetworkError::Unknown { what: "port", index: port, count };
        let port = self.ports.get_mut(port as usize).ok_or(unknown)?;
        let added = port.scheduler().add_queue(queue, config);
        added.map_err(|error| NetworkError::Port { port: port.name.clone(), error })
    }

    /// A port's scheduler, to change queues while packets flow.
    pub fn scheduler(&mut self, port: u32) -> Option<&mut dyn Scheduler> {
        self.ports.get_mut(port as usize).map(Port::scheduler)
    }

    /// Adds a flow and plans its first packet; gives its index.
    pub fn add_flow(&mut self, spec: FlowSpec) -> Result<u32, NetworkError> {
        let known = |what, index: u32, count: usize| {
            let unknown = NetworkError::Unknown { what, index, count };
            if (index as usize) < count { Ok(()) } else { Err(unknown) }
        };
        known("host", spec.from, self.hosts.len())?;
        known("host", spec.to, self.hosts.len())?;
        spec.hops.iter().try_for_each(|h| known("port", h.port, self.ports.len()))?;
        let credits = match spec.pacing {
            Pacing::Window { packets, .. } => packets,
            _ => u32::MAX,
        };
        if let Some((field, value, must)) = spec.fault() {
            let of = format!("flow {}", spec.name);
            return Err(NetworkError::Range { of, field, value, must });
        }
        let index = self.flows.len() as u32;
        let rng = Rng::new(self.seed, 2 << 40 | u64::from(index));
        self.flows.push(Flow {
            from: spec.from,
            to: spec.to,
            first_hop: self.hops.len() as u32,
            hops: spec.hops.len() as u32,
            feed: Feed::new(spec.source, rng),
            shaper: spec.shaper.as_ref().map(Regulator::new),
            next: None,
            pacing: spec.pacing,
            credits,
            held: false,
            blocked: 0,
            bound_ns: spec.bound_ns.unwrap_or(u64::MAX),
            series: spec.series,
        });
        self.hops.extend(spec.hops);
        self.stats.push(FlowStats::default());
        let now = self.kernel.now().as_nanos();
        self.plan(index, now);
        Ok(index)
    }

    /// What became of a flow.
    pub fn flow(&self, flow: u32) -> Option<&FlowStats> {
        self.stats.get(flow as usize)
    }

    /// What a port did.
    pub fn port(&self, port: u32) -> Option<&PortStats> {
        self.ports.get(port as usize).map(|p| &p.stats)
    }

    /// Processor time that a host's packets took so far, over all its processors, ns.
    pub fn host_busy_ns(&self, host: u32) -> Option<u64> {
        self.hosts.get(host as usize).map(|h| h.cpus.iter().map(Cpu::busy_ns).sum())
    }

    /// Simulated time.
    pub const fn now(&self) -> Instant {
        self.kernel.now()
    }

    /// Packets sent by all ports: the measure of the simulator's work.
    pub const fn packet_hops(&self) -> u64 {
        self.packet_hops
    }

    /// A hash over every delivery: flow, number, time.
    pub fn trace(&self) -> u64 {
        self.trace.value()
    }

    /// Runs until nothing is left to happen before or at `until`.
    pub fn run_until(&mut self, until: Instant) {
        loop {
            let next = self.kernel.next_at();
            if next.is_none_or(|at| at > self.kernel.now()) {
                let now = self.kernel.now().as_nanos();
                while let Some(port) = self.due.pop_front() {
                    self.serve(port, now);
                }
            }
            if self.kernel.next_at().is_none_or(|at| at > until) {
                return;
            }
            let Some((now, event)) = self.kernel.pop() else { return };
            self.happen(now.as_nanos(), event);
        }
    }

    fn happen(&mut self, now: u64, event: Event) {
        match event {
            Event::Release { flow } => self.release(now, flow),
            Event::AtPort { packet } => self.at_port(now, packet),
            Event::AtHost { packet } => self.at_host(now, packet),
            Event::Deliver { packet } => self.deliver(now, packet),
            Event::Credit { flow } => {
                self.flows[flow as usize].credits += 1;
                self.resume(now, flow);
            }
            Event::Serve { port } => {
                let p = &mut self.ports[port as usize];
                if p.wake_at == now {
                    p.wake_at = u64::MAX;
                }
                self.mark(now, port);
            }
        }
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.kernel.schedule(Instant::from_nanos(at_ns), event);
    }

    /// Takes the source's next packet, at `from_ns` or later, and schedules its release.
    fn plan(&mut self, flow: u32, from_ns: u64) {
        let f = &mut self.flows[flow as usize];
        f.next = f.feed.next(from_ns);
        if let Some(next) = f.next {
            self.schedule(next.release_ns, Event::Release { flow });
        }
    }

    /// Lets a held source go on.
    fn resume(&mut self, now: u64, flow: u32) {
        if core::mem::take(&mut self.flows[flow as usize].held) {
            self.schedule(now, Event::Release { flow });
        }
    }

    fn release(&mut self, now: u64, flow: u32) {
        let f = &mut self.flows[flow as usize];
        let Some(next) = f.next else { return };
        if f.credits == 0 || f.blocked > 0 {
            f.held = true;
            return;
        }
        if matches!(f.pacing, Pacing::Window { .. }) {
            f.credits -= 1;
        }
        let stats = &mut self.stats[flow as usize];
        let number = stats.released;
        stats.released += 1;
        stats.shaping.record(now - next.born_ns);
        let packet = InFlight {
            flow,
            bytes: next.bytes,
            number,
            released_ns: now,
            slack_ns: 0,
            queued_ns: 0,
            hop: 0,
        };
        let (from, bytes) = (f.from, next.bytes);
        let index = self.keep(packet);
        let cost = self.hosts[from as usize].spec.send_cost_ns(bytes);
        let done = self.work(now, from, flow, cost);
        match done.and_then(|done| self.shape(flow, done, bytes)) {
            Some(done) if done == now => self.at_port(now, index),
            Some(done) => self.schedule(done, Event::AtPort { packet: index }),
            None => self.lose(index, true),
        }
        // A sender that is held back calls again when the call before has returned.
        let open = self.flows[flow as usize].pacing == Pacing::Open;
        self.plan(flow, done.filter(|_| !open).unwrap_or(now));
    }

    fn keep(&mut self, packet: InFlight) -> u32 {
        if let Some(index) = self.free.pop() {
            self.packets[index as usize] = packet;
            return index;
        }
        self.packets.push(packet);
        self.packets.len() as u32 - 1
    }

    /// Work on a host's processor: when it is done; `None` when too much waits already.
    fn work(&mut self, now: u64, host: u32, flow: u32, cost_ns: u64) -> Option<u64> {
        if cost_ns == 0 {
            return Some(now);
        }
        let host = &mut self.hosts[host as usize];
        let n = host.cpus.len();
        let cpu = &mut host.cpus[flow as usize % n];
        let waiting = cpu.free_at().saturating_sub(now);
        (waiting <= host.spec.waiting_us_max * 1000).then(|| cpu.run(now, cost_ns))
    }

    /// When a packet that its processor is done with may enter the network.
    fn shape(&mut self, flow: u32, done_ns: u64, bytes: u32) -> Option<u64> {
        match &mut self.flows[flow as usize].shaper {
            None => Some(done_ns),
            Some(shaper) => {
                let size = ByteSize::from_bytes(bytes.into());
                shaper.reserve(Instant::from_nanos(done_ns), size).map(Instant::as_nanos)
            }
        }
    }

    fn lose(&mut self, index: u32, at_host: bool) {
        let flow = self.packets[index as usize].flow;
        let stats = &mut self.stats[flow as usize];
        if at_host {
            stats.lost_host += 1;
        } else {
            stats.lost_queue += 1;
        }
        self.free.push(index);
        self.give_credit(flow);
    }

    fn give_credit(&mut self, flow: u32) {
        if let Pacing::Window { ack_us, .. } = self.flows[flow as usize].pacing {
            let at = self.kernel.now().as_nanos() + ack_us * 1000;
            self.schedule(at, Event::Credit { flow });
        }
    }

    fn at_port(&mut self, now: u64, index: u32) {
        let p = &mut self.packets[index as usize];
        let f = &self.flows[p.flow as usize];
        let hop = self.hops[(f.first_hop + p.hop) as usize];
        let hold_ns = if matches!(hop.early, Early::Carry { .. }) { 0 } else { p.slack_ns };
        p.queued_ns = now.saturating_add_signed(hold_ns.max(0));
        p.slack_ns -= hold_ns;
        let p = *p;
        let block = p.hop == 0 && f.pacing == Pacing::Blocking;
        let port = &mut self.ports[hop.port as usize];
        if block && port.is_blocking(hop.queue) {
            self.flows[p.flow as usize].blocked += 1;
            return port.block(hop.queue, index);
        }
        let mut packet = Packet::new(hop.queue, p.bytes, index.into());
        packet.slack_ns = hold_ns;
        if port.enqueue(now, packet).is_ok() {
            self.mark(now, hop.port);
        } else if block {
            self.flows[p.flow as usize].blocked += 1;
            port.block(hop.queue, index);
        } else {
            port.stats.dropped += 1;
            self.lose(index, false);
        }
    }

    /// Has a port served at the end of this instant, or when its link is free.
    fn mark(&mut self, now: u64, port: u32) {
        let p = &mut self.ports[port as usize];
        if p.due {
            return;
        }
        if now >= p.free_at {
            p.due = true;
            self.due.push_back(port);
        } else if p.wake_at > p.free_at {
            p.wake_at = p.free_at;
            let at = p.free_at;
            self.schedule(at, Event::Serve { port });
        }
    }

    fn serve(&mut self, port: u32, now: u64) {
        let p = &mut self.ports[port as usize];
        p.due = false;
        match p.choose(now) {
            Next::Idle => {}
            Next::WakeAt(at) => {
                if p.wake_at > at {
                    p.wake_at = at;
                    self.schedule(at, Event::Serve { port });
                }
            }
            Next::Send { packet, until_ns } => {
                self.packet_hops += 1;
                let latency = p.latency_ns;
                if p.waiting() && p.wake_at > until_ns {
                    p.wake_at = until_ns;
                    self.schedule(until_ns, Event::Serve { port });
                }
                let index = packet.tag as u32;
                let under_way = &mut self.packets[index as usize];
                let flow = &self.flows[under_way.flow as usize];
                under_way.slack_ns +=
                    match self.hops[(flow.first_hop + under_way.hop) as usize].early {
                        Early::Scheduler => packet.slack_ns,
                        Early::Carry { budget_ns } | Early::Hold { budget_ns } => {
                            (under_way.queued_ns + budget_ns).cast_signed() - until_ns.cast_signed()
                        }
                    };
                under_way.hop += 1;
                let last = under_way.hop == flow.hops;
                let event = if last {
                    Event::AtHost { packet: index }
                } else {
                    Event::AtPort { packet: index }
                };
                self.schedule(until_ns + latency, event);
                self.let_in(port, packet.queue, now);
            }
        }
    }

    /// A queue has room again: blocked packets enter while it lasts, and their sources go on.
    fn let_in(&mut self, port: u32, queue: QueueId, now: u64) {
        while let Some(index) = self.ports[port as usize].unblock(queue) {
            let InFlight { flow, bytes, .. } = self.packets[index as usize];
            let p = &mut self.ports[port as usize];
            if p.enqueue(now, Packet::new(queue, bytes, index.into())).is_err() {
                return p.block_again(queue, index);
            }
            self.mark(now, port);
            self.flows[flow as usize].blocked -= 1;
            self.resume(now, flow);
        }
    }

    fn at_host(&mut self, now: u64, index: u32) {
        let InFlight { flow, bytes, .. } = self.packets[index as usize];
        let to = self.flows[flow as usize].to;
        let cost = self.hosts[to as usize].spec.receive_cost_ns(bytes);
        match self.work(now, to, flow, cost) {
            Some(done) if done == now => self.deliver(now, index),
            Some(done) => self.schedule(done, Event::Deliver { packet: index }),
            None => self.lose(index, true),
        }
    }

    fn deliver(&mut self, now: u64, index: u32) {
        let p = self.packets[index as usize];
        let f = &self.flows[p.flow as usize];
        let stats = &mut self.stats[p.flow as usize];
        let delay_ns = now - p.released_ns;
        let gap_ns = now - stats.last_ns;
        if stats.delivered == 0 {
            stats.first_ns = now;
        } else {
            stats.gap.record(gap_ns);
        }
        let (skip, keep) = (u64::from(f.series.0), u64::from(f.series.1));
        if stats.delivered >= skip && stats.delivered < skip + keep {
            stats.series.push(Point { packet: p.number, at_ns: now, delay_ns, gap_ns });
        }
        stats.delivered += 1;
        stats.delivered_bytes += u64::from(p.bytes);
        stats.last_ns = now;
        stats.delay.record(delay_ns);
        if delay_ns > f.bound_ns {
            stats.beyond += 1;
            stats.first_miss.get_or_insert(Miss {
                packet: p.number,
                released_ns: p.released_ns,
                delay_ns,
                bound_ns: f.bound_ns,
            });
        }
        self.trace.word(u64::from(p.flow) << 40 | p.number);
        self.trace.word(now);
        self.free.push(index);
        self.give_credit(p.flow);
    }
}
