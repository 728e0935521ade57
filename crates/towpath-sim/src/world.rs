//! Hosts, their clocks, links and processes, driven together in virtual time.

mod links;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use towpath_node::egress::LinkEgress;
use towpath_node::{Node, NodeEvent};
use towpath_proto::{Decision, Egress, Grant, Machine, RxMeta, Transmit, TxBatch};
use towpath_vm::message::LABEL_OWNER;
use towpath_vm::{Action, Ending};
use towpath_wire::{ByteSize, Instant, LinkId, Rate, TaskId};

use self::links::{Held, SimLink};
pub use self::links::{address, address_on};
pub(crate) use self::links::{index_of, place_of};
use crate::apart::Apart;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::hash::Trace;
use crate::kernel::{Handle, Kernel};
use crate::link::{Link, LinkSpec};
use crate::memory::SimMemory;
use crate::network::{Network, Tap, Transit};
use crate::process::{Did, Processes};

/// Datagrams in one train at most.
const TRAIN: usize = 16;
/// Bytes of a train at most.
const TRAIN_BYTES: usize = TRAIN * 1500;
/// Datagrams that a host's socket holds while the host is stopped.
const SOCKET_MAX: usize = 256;

/// What happens in a world. `Call` is the scenario's own.
#[derive(Debug)]
enum Happening {
    Datagram(Transit),
    Timer { host: usize },
    Process { host: usize, task: TaskId },
    Resume { host: usize },
    Call(u64),
}

/// One simulated host.
pub struct SimHost {
    /// The node; `None` once the host crashed.
    pub node: Option<Node>,
    /// Its message memory.
    pub memory: SimMemory,
    /// Its clock.
    pub clock: Clock,
    /// Its processes.
    pub processes: Processes,
    /// Its disk, if it has one.
    pub disk: Option<Disk>,
    /// Its links; the one at place `i` is `LinkId(i)`.
    links: Vec<SimLink>,
    /// What each of them is paced at: a node that boots finds nothing reserved.
    pub(crate) rate: Option<Rate>,
    timer: Option<(Handle, Instant)>,
    pub(crate) paused: bool,
    /// So long after a grant what comes of it leaves.
    ahead: Duration,
    socket: VecDeque<Transit>,
    /// Datagrams dropped because the host was stopped and its socket full.
    pub socket_dropped: u64,
}

/// Something for the scenario to look at.
#[derive(Debug)]
pub enum Step {
    /// A node said something.
    Event {
        /// Which host.
        host: usize,
        /// What.
        event: NodeEvent,
    },
    /// A call that the scenario asked for.
    Call(u64),
}

/// A simulated network of hosts. Every pair is joined by a link of its own in each direction;
/// [`World::share`] adds links that several pairs pass. [`World::add_fabric`] adds further networks
/// between the same hosts, which then have a link to each.
pub struct World {
    kernel: Kernel<Happening>,
    /// The hosts, in order of creation.
    pub hosts: Vec<SimHost>,
    /// One at least.
    fabrics: Vec<Network>,
    seed: u64,
    train: Vec<u8>,
    trace: Trace,
    steps: VecDeque<Step>,
    /// Hosts that do not reach each other.
    pub apart: Apart,
    /// Datagrams that nodes sent.
    pub sent: u64,
    /// Datagrams handed to nodes.
    pub delivered: u64,
    /// Datagrams that nodes sent to an address to which the link that they chose does not lead.
    pub astray: u64,
}

impl World {
    /// An empty world; `seed` feeds its links.
    pub fn new(seed: u64) -> Self {
        Self {
            kernel: Kernel::new(),
            hosts: Vec::new(),
            fabrics: vec![Network::new(seed)],
            seed,
            train: vec![0; TRAIN_BYTES],
            trace: Trace::new(seed),
            steps: VecDeque::new(),
            apart: Apart::default(),
            sent: 0,
            delivered: 0,
            astray: 0,
        }
    }

    /// Simulated time.
    pub const fn now(&self) -> Instant {
        self.kernel.now()
    }

    /// Events that have happened.
    pub const fn happened(&self) -> u64 {
        self.kernel.happened()
    }

    /// Hash over every datagram sent and every event told: same seed, same hash.
    pub fn trace_hash(&self) -> u64 {
        self.trace.value()
    }

    /// Adds a host without a node; links from and to it get `spec` of (other, direction).
    pub fn add_host(
        &mut self,
        clock: Clock,
        memory_limit: ByteSize,
        real: bool,
        mut spec: impl FnMut(usize) -> LinkSpec,
    ) -> usize {
        let index = self.push_host(clock, memory_limit, real);
        let network = &mut self.fabrics[0];
        for other in 0..=index {
            let out = network.add_link(spec(other));
            network.set_route(index, other, &[out]);
            if other < index {
                let back = network.add_link(spec(other));
                network.set_route(other, index, &[back]);
            }
        }
        index
    }

    /// Adds a host without a node to a star: whatever it sends and receives passes its own links
    /// to and from the middle. A world has such hosts only, or none.
    pub fn add_star_host(&mut self, clock: Clock, memory: ByteSize, spec: LinkSpec) -> usize {
        self.fabrics[0].add_ray(spec, spec);
        self.push_host(clock, memory, true)
    }

    fn push_host(&mut self, clock: Clock, memory_limit: ByteSize, real: bool) -> usize {
        let index = self.hosts.len();
        self.hosts.push(SimHost {
            node: None,
            memory: SimMemory::new(memory_limit, real),
            clock,
            processes: Processes::default(),
            disk: None,
            links: vec![SimLink::new(0)],
            rate: None,
            timer: None,
            paused: false,
            ahead: Duration::ZERO,
            socket: VecDeque::new(),
            socket_dropped: 0,
        });
        index
    }

    /// Paces each of a host's links at a rate, or not, from now on.
    ///
    /// # Panics
    /// For a rate that no packet scheduler knows.
    pub fn pace(&mut self, host: usize, rate: Option<Rate>) {
        for (at, link) in self.hosts[host].links.iter_mut().enumerate() {
            let egress = LinkEgress::new(LinkId(at as u16), rate);
            link.egress = egress.expect("a rate that packet schedulers know");
        }
        self.hosts[host].rate = rate;
    }

    /// From now on what a host sends leaves so long after it was granted, as where departures are
    /// planned ahead; zero: at once.
    pub fn set_ahead(&mut self, host: usize, ahead: Duration) {
        self.hosts[host].ahead = ahead;
    }

    /// Cuts a star's host off, or mends its links.
    pub fn set_ray(&mut self, host: usize, spec: LinkSpec) {
        for network in &mut self.fabrics {
            for link in network.ray(host) {
                network.link(link).set_spec(spec);
            }
        }
    }

    /// Ends a task's process as by a signal.
    pub fn kill(&mut self, host: usize, task: TaskId, signal: i32) {
        self.hosts[host].processes.signal(task, signal);
        self.run_process(host, task);
    }

    /// The link of one host's own to another, on the first network.
    pub fn link(&mut self, from: usize, to: usize) -> &mut Link {
        self.link_on(0, from, to)
    }

    /// The link of one host's own to another, on a network.
    pub fn link_on(&mut self, fabric: u8, from: usize, to: usize) -> &mut Link {
        let network = &mut self.fabrics[usize::from(fabric)];
        let own = network.route(from, to)[0];
        network.link(own)
    }

    /// Adds a link of the first network that all of these (from, to) pass behind their own one, in
    /// the order in which links are added; returns its number.
    pub fn share(&mut self, spec: LinkSpec, pairs: &[(usize, usize)]) -> usize {
        let network = &mut self.fabrics[0];
        let shared = network.add_link(spec);
        for (from, to) in pairs {
            let mut route = network.route(*from, *to).to_vec();
            route.push(shared);
            network.set_route(*from, *to, &route);
        }
        shared
    }

    /// Every link of the first network.
    pub fn links(&self) -> &[Link] {
        self.fabrics[0].links()
    }

    /// Lets someone look on at what hosts send, on every network.
    pub fn set_tap(&mut self, tap: Tap) {
        let tap = Rc::new(RefCell::new(tap));
        for network in &mut self.fabrics {
            let tap = tap.clone();
            network.set_tap(Box::new(move |sent| tap.borrow_mut()(sent)));
        }
    }

    /// What a host's clock shows.
    pub fn local_now(&self, host: usize) -> Instant {
        self.hosts[host].clock.local(self.now())
    }

    /// Puts a node on a host.
    pub fn boot(&mut self, host: usize, mut node: Node) {
        node.serve(LABEL_OWNER..=u16::MAX);
        self.pace(host, self.hosts[host].rate);
        // What an earlier one held is told of no more.
        self.hosts[host].memory.forget();
        self.hosts[host].node = Some(node);
        for at in 0..self.hosts[host].links.len() {
            let SimLink { fabric, up, .. } = self.hosts[host].links[at];
            if !up {
                self.set_carrier(host, fabric, up);
            }
        }
        self.drain(host);
    }

    /// Calls a node, then carries out what follows from it. `None` when the host has crashed.
    pub fn with<R>(
        &mut self,
        host: usize,
        call: impl FnOnce(&mut Node, Instant, &mut SimMemory) -> R,
    ) -> Option<R> {
        let now = self.local_now(host);
        let h = &mut self.hosts[host];
        let result = h.node.as_mut().map(|node| call(node, now, &mut h.memory));
        self.drain(host);
        result
    }

    /// Asks for a [`Step::Call`] at a time.
    pub fn call_at(&mut self, at: Instant, tag: u64) {
        self.kernel.schedule(at, Happening::Call(tag));
    }

    /// Stops a host until `until`: it neither receives nor wakes.
    pub fn pause(&mut self, host: usize, until: Instant) {
        self.hosts[host].paused = true;
        self.kernel.schedule(until, Happening::Resume { host });
    }

    /// Makes a host's clock jump ahead, as after a suspension that its clock counts.
    pub fn step_clock(&mut self, host: usize, ahead: Duration) {
        let now = self.now();
        self.hosts[host].clock.step(now, ahead);
        self.set_timer(host);
    }

    /// Ends a host; another node may be put there.
    pub fn crash(&mut self, host: usize) {
        let h = &mut self.hosts[host];
        h.node = None;
        h.links.iter_mut().for_each(|link| link.held = None);
        h.processes = Processes::default();
        if let Some((handle, _)) = h.timer.take() {
            self.kernel.cancel(handle);
        }
    }

    /// Goes on to the next thing that concerns the scenario, but not beyond `until`.
    pub fn step(&mut self, until: Instant) -> Option<Step> {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return Some(step);
            }
            if self.kernel.next_at().is_none_or(|at| at > until) {
                return None;
            }
            let (_, happening) = self.kernel.pop()?;
            match happening {
                Happening::Call(tag) => return Some(Step::Call(tag)),
                Happening::Datagram(transit) => self.arrive(transit),
                Happening::Timer { host } => self.wake(host),
                Happening::Process { host, task } => self.run_process(host, task),
                Happening::Resume { host } => self.resume(host),
            }
        }
    }

    fn arrive(&mut self, transit: Transit) {
        let Self { kernel, fabrics, .. } = self;
        let now = kernel.now();
        let go_on = |at, t| _ = kernel.schedule(at, Happening::Datagram(t));
        if let Some(transit) = fabrics[usize::from(transit.fabric)].arrive(now, transit, go_on) {
            self.receive(transit);
        }
    }

    /// A datagram's way is over.
    fn release(&mut self, transit: Transit) {
        self.fabrics[usize::from(transit.fabric)].release(transit);
    }

    fn receive(&mut self, transit: Transit) {
        let to = &self.hosts[transit.to];
        let has_carrier = |l: &SimLink| l.fabric == transit.fabric && l.up;
        if self.apart.has(transit.from, transit.to) || !to.links.iter().any(has_carrier) {
            return self.release(transit);
        }
        let h = &mut self.hosts[transit.to];
        if !h.paused {
            self.deliver(transit);
            return self.drain(transit.to);
        }
        if h.socket.len() < SOCKET_MAX {
            h.socket.push_back(transit);
        } else {
            h.socket_dropped += 1;
            self.release(transit);
        }
    }

    fn deliver(&mut self, transit: Transit) {
        let now = self.local_now(transit.to);
        let link = self.link_to(transit.to, transit.fabric);
        let h = &mut self.hosts[transit.to];
        if let Some(node) = &mut h.node {
            let remote = address_on(transit.fabric, transit.from);
            let rx = RxMeta { link, remote, ecn: transit.ecn, late: Duration::ZERO };
            let bytes = self.fabrics[usize::from(transit.fabric)].bytes(transit);
            node.handle_datagram(now, rx, bytes, &mut h.memory);
            self.delivered += 1;
        }
        self.release(transit);
    }

    fn resume(&mut self, host: usize) {
        self.hosts[host].paused = false;
        while let Some(transit) = self.hosts[host].socket.pop_front() {
            self.deliver(transit);
        }
        self.wake(host);
        let tasks: Vec<TaskId> = self.hosts[host].processes.tasks().collect();
        for task in tasks {
            self.run_process(host, task);
        }
    }

    fn wake(&mut self, host: usize) {
        let now = self.local_now(host);
        let h = &mut self.hosts[host];
        h.timer = None;
        if h.paused {
            return;
        }
        if let Some(node) = &mut h.node {
            node.handle_timeout(now, &mut h.memory);
        }
        self.drain(host);
    }

    fn run_process(&mut self, host: usize, task: TaskId) {
        if self.hosts[host].paused {
            return;
        }
        let now = self.now();
        while let Some(did) = self.hosts[host].processes.step(now, task) {
            self.with(host, |node, now, memory| match did {
                Did::Wrote(stream, bytes) => node.task_output(now, task, stream, bytes, memory),
                Did::Ended(ending) => node.task_exited(now, task, ending, memory),
            });
        }
    }

    fn act(&mut self, host: usize, action: &Action) {
        let now = self.now();
        match action {
            Action::SignalProcess { .. } => {} // the scenario's, whose process it is
            Action::Start { task, spec, .. } => {
                let task = *task;
                if self.hosts[host].processes.start(now, task, spec).is_none() {
                    let ending = Ending::NotStarted { errno: 2, text: "no such program".into() };
                    self.with(host, |n, now, m| n.task_exited(now, task, ending, m));
                    return;
                }
                self.with(host, |n, now, m| n.task_started(now, task, task.number(), m));
                if let Some(until) = self.hosts[host].processes.until(task) {
                    self.kernel.schedule(until, Happening::Process { host, task });
                }
                self.kernel.schedule(now, Happening::Process { host, task });
            }
            Action::Signal { task, signal } => {
                self.hosts[host].processes.signal(*task, *signal);
                self.kernel.schedule(now, Happening::Process { host, task: *task });
            }
            Action::Input { task, bytes, .. } => {
                // Simulated programs read everything at once.
                let (task, bytes) = (*task, bytes.len() as u32);
                self.with(host, |n, now, m| n.task_input_taken(now, task, bytes, m));
            }
            Action::Credit { task, bytes } => {
                self.hosts[host].processes.credit(*task, *bytes);
                self.kernel.schedule(now, Happening::Process { host, task: *task });
            }
        }
    }

    /// Carries out what a node wants: send, act, tell, wake it in time.
    fn drain(&mut self, host: usize) {
        if self.hosts[host].paused {
            return;
        }
        let now = self.local_now(host);
        self.hosts[host].write_down(now);
        self.transmit(host);
        while let Some(event) = self.hosts[host].node.as_mut().and_then(Machine::poll_event) {
            self.note(host, &event);
            match event {
                NodeEvent::Action(action) => {
                    self.act(host, &action);
                    // A start tells the scenario how the process proves who it is; the process
                    // that came by itself is the scenario's own.
                    if let Action::Start { .. }
                    | Action::Signal { .. }
                    | Action::SignalProcess { .. } = action
                    {
                        self.steps
                            .push_back(Step::Event { host, event: NodeEvent::Action(action) });
                    }
                }
                NodeEvent::Reserve(asked) => {
                    let now = self.local_now(host);
                    let h = &mut self.hosts[host];
                    let egress = &mut h.links[usize::from(asked.link.0)].egress;
                    let outcome = egress.admit(now, &asked);
                    if let Some(node) = &mut h.node {
                        node.reserved(now, asked.of, outcome, &mut h.memory);
                    }
                    self.transmit(host);
                }
                NodeEvent::Release { of, link } => {
                    let now = self.local_now(host);
                    self.hosts[host].links[usize::from(link.0)].egress.release(now, of);
                }
                event => self.steps.push_back(Step::Event { host, event }),
            }
        }
        self.set_timer(host);
    }

    fn note(&mut self, host: usize, event: &NodeEvent) {
        self.trace.word(self.kernel.now().as_nanos());
        self.trace.word(host as u64);
        self.trace.bytes(format!("{event:?}").as_bytes());
    }

    fn transmit(&mut self, host: usize) {
        let mut train = core::mem::take(&mut self.train);
        // What one link sent may be a reason for another to send: of a stripe.
        loop {
            let (before, links) = (self.sent, self.hosts[host].links.len());
            for at in 0..links {
                self.transmit_on(host, LinkId(at as u16), &mut train);
            }
            if links == 1 || self.sent == before {
                break;
            }
        }
        self.train = train;
    }

    fn transmit_on(&mut self, host: usize, id: LinkId, train: &mut [u8]) {
        let now = self.local_now(host);
        let at = usize::from(id.0);
        let link = &mut self.hosts[host].links[at];
        link.egress.woken();
        link.held_until = None;
        if let Some(held) = link.held.take_if(|held| held.train.not_before <= now) {
            self.depart(host, at, &held.train, &held.bytes);
        }
        loop {
            let h = &mut self.hosts[host];
            let Some(node) = &mut h.node else { break };
            let link = &mut h.links[at];
            if let Some(held) = &link.held {
                link.held_until = Some(held.train.not_before);
                break;
            }
            while let Some(head) = node.poll_head(now, id) {
                link.egress.ready(now, head);
            }
            let grant = match link.egress.next(now) {
                Decision::Grant(grant) if h.ahead.is_zero() => grant,
                Decision::Grant(grant) => Grant { not_before: now + h.ahead, ..grant },
                Decision::Wait(until) => {
                    link.held_until = Some(until);
                    break;
                }
                Decision::Idle => break,
            };
            let mut batch = TxBatch::new(train, &h.memory, TRAIN);
            let sent = node.poll_transmit(now, grant, &mut batch);
            link.egress.sent(now, &grant, sent.as_ref());
            let Some(t) = sent else { continue };
            assert!(grant.link == id && t.link == id, "a train for the link that was granted");
            if t.not_before > now {
                link.held = Some(Held { train: t, bytes: train[..t.len].to_vec() });
                continue;
            }
            self.depart(host, at, &t, &train[..t.len]);
        }
    }

    /// A train leaves by a host's link.
    fn depart(&mut self, host: usize, at: usize, train: &Transmit, bytes: &[u8]) {
        let SimLink { fabric, up, .. } = self.hosts[host].links[at];
        // Of a network that there is not, every link leads to: another name of the host.
        let on = |leads: u8| leads == fabric || usize::from(leads) >= self.fabrics.len();
        match place_of(train.remote).filter(|(_, to)| *to < self.hosts.len()) {
            Some((leads, to)) if up && on(leads) => {
                for datagram in bytes.chunks(train.segment) {
                    self.send((fabric, host, to), datagram, train.tos & 3);
                }
            }
            Some((leads, _)) if !on(leads) => self.astray += 1,
            _ => {}
        }
    }

    fn send(&mut self, (fabric, from, to): (u8, usize, usize), datagram: &[u8], ecn: u8) {
        let Self { kernel, fabrics, trace, .. } = self;
        let now = kernel.now();
        trace.word(now.as_nanos());
        let way = (from as u64) << 48 | (to as u64) << 32;
        trace.word(way | u64::from(fabric) << 24 | datagram.len() as u64);
        trace.bytes(&datagram[..datagram.len().min(64)]);
        self.sent += 1;
        let go_on = |at, t| _ = kernel.schedule(at, Happening::Datagram(t));
        fabrics[usize::from(fabric)].send(now, from, to, datagram, ecn, go_on);
    }

    fn set_timer(&mut self, host: usize) {
        let h = &mut self.hosts[host];
        let next = h.node.as_ref().and_then(Machine::poll_timeout).map(|(at, _)| at);
        let held = h.links.iter().filter_map(|l| l.held_until);
        let at = next.into_iter().chain(held).min().map(|at| h.clock.global(at));
        if h.timer.map(|(_, t)| t) == at {
            return;
        }
        if let Some((handle, _)) = h.timer.take() {
            self.kernel.cancel(handle);
        }
        if let Some(at) = at {
            let handle = self.kernel.schedule(at, Happening::Timer { host });
            self.hosts[host].timer = Some((handle, at));
        }
    }
}
