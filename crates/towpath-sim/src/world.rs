//! Hosts, their clocks, links and processes, driven together in virtual time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use towpath_node::egress::LinkEgress;
use towpath_node::{Node, NodeEvent};
use towpath_proto::{Decision, Egress, Free, Machine, RxMeta, TxBatch};
use towpath_vm::{Action, Ending};
use towpath_wire::{ByteSize, Instant, LinkId, Rate, TaskId};

use crate::clock::Clock;
use crate::hash::Trace;
use crate::kernel::{Handle, Kernel};
use crate::link::{Link, LinkSpec};
use crate::memory::SimMemory;
use crate::network::{Network, Tap, Transit};
use crate::process::{Did, Processes};

/// The link that every host has.
const LINK: LinkId = LinkId(0);
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
    /// Who decides what its link sends next.
    pub(crate) egress: LinkEgress,
    /// What it is paced at: a node that boots finds nothing reserved.
    pub(crate) rate: Option<Rate>,
    /// Before then its egress lets nothing go, by its clock.
    held_until: Option<Instant>,
    timer: Option<(Handle, Instant)>,
    paused: bool,
    /// Hosts of different sides do not reach each other.
    side: usize,
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
/// [`World::share`] adds links that several pairs pass.
pub struct World {
    kernel: Kernel<Happening>,
    /// The hosts, in order of creation.
    pub hosts: Vec<SimHost>,
    network: Network,
    train: Vec<u8>,
    trace: Trace,
    steps: VecDeque<Step>,
    /// Datagrams that nodes sent.
    pub sent: u64,
    /// Datagrams handed to nodes.
    pub delivered: u64,
}

/// The address of host `index`.
pub fn address(index: usize) -> SocketAddr {
    ([10, 0, (index >> 8) as u8, index as u8], 7077).into()
}

pub(crate) fn index_of(addr: SocketAddr) -> Option<usize> {
    match addr {
        SocketAddr::V4(a) => {
            let [_, _, hi, lo] = a.ip().octets();
            Some(usize::from(hi) << 8 | usize::from(lo))
        }
        SocketAddr::V6(_) => None,
    }
}

impl World {
    /// An empty world; `seed` feeds its links.
    pub fn new(seed: u64) -> Self {
        Self {
            kernel: Kernel::new(),
            hosts: Vec::new(),
            network: Network::new(seed),
            train: vec![0; TRAIN_BYTES],
            trace: Trace::new(seed),
            steps: VecDeque::new(),
            sent: 0,
            delivered: 0,
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
        for other in 0..=index {
            let out = self.network.add_link(spec(other));
            self.network.set_route(index, other, &[out]);
            if other < index {
                let back = self.network.add_link(spec(other));
                self.network.set_route(other, index, &[back]);
            }
        }
        index
    }

    /// Adds a host without a node to a star: whatever it sends and receives passes its own links
    /// to and from the middle. A world has such hosts only, or none.
    pub fn add_star_host(&mut self, clock: Clock, memory: ByteSize, spec: LinkSpec) -> usize {
        self.network.add_ray(spec, spec);
        self.push_host(clock, memory, true)
    }

    fn push_host(&mut self, clock: Clock, memory_limit: ByteSize, real: bool) -> usize {
        let index = self.hosts.len();
        self.hosts.push(SimHost {
            node: None,
            memory: SimMemory::new(memory_limit, real),
            clock,
            processes: Processes::default(),
            egress: LinkEgress::Free(Free::new(LINK)),
            rate: None,
            held_until: None,
            timer: None,
            paused: false,
            side: 0,
            socket: VecDeque::new(),
            socket_dropped: 0,
        });
        index
    }

    /// Paces a host's link at a rate, or not, from now on.
    ///
    /// # Panics
    /// For a rate that no packet scheduler knows.
    pub fn pace(&mut self, host: usize, rate: Option<Rate>) {
        let egress = LinkEgress::new(LINK, rate);
        self.hosts[host].egress = egress.expect("a rate that packet schedulers know");
        self.hosts[host].rate = rate;
    }

    /// Cuts a star's host off, or mends its links.
    pub fn set_ray(&mut self, host: usize, spec: LinkSpec) {
        for link in self.network.ray(host) {
            self.network.link(link).set_spec(spec);
        }
    }

    /// Puts a host on a side: those of different sides do not reach each other. All begin on 0.
    pub fn set_side(&mut self, host: usize, side: usize) {
        self.hosts[host].side = side;
    }

    /// Ends a task's process as by a signal.
    pub fn kill(&mut self, host: usize, task: TaskId, signal: i32) {
        self.hosts[host].processes.signal(task, signal);
        self.run_process(host, task);
    }

    /// The link of one host's own to another.
    pub fn link(&mut self, from: usize, to: usize) -> &mut Link {
        let own = self.network.route(from, to)[0];
        self.network.link(own)
    }

    /// Adds a link that all of these (from, to) pass behind their own one, in the order in which
    /// links are added; returns its number.
    pub fn share(&mut self, spec: LinkSpec, pairs: &[(usize, usize)]) -> usize {
        let shared = self.network.add_link(spec);
        for (from, to) in pairs {
            let mut route = self.network.route(*from, *to).to_vec();
            route.push(shared);
            self.network.set_route(*from, *to, &route);
        }
        shared
    }

    /// Every link.
    pub fn links(&self) -> &[Link] {
        self.network.links()
    }

    /// Lets someone look on at what hosts send.
    pub fn set_tap(&mut self, tap: Tap) {
        self.network.set_tap(tap);
    }

    /// What a host's clock shows.
    pub fn local_now(&self, host: usize) -> Instant {
        self.hosts[host].clock.local(self.now())
    }

    /// Puts a node on a host.
    pub fn boot(&mut self, host: usize, node: Node) {
        self.pace(host, self.hosts[host].rate);
        self.hosts[host].node = Some(node);
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

    /// Ends a host for good.
    pub fn crash(&mut self, host: usize) {
        let h = &mut self.hosts[host];
        h.node = None;
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
        let Self { kernel, network, .. } = self;
        let now = kernel.now();
        let go_on = |at, t| _ = kernel.schedule(at, Happening::Datagram(t));
        if let Some(transit) = network.arrive(now, transit, go_on) {
            self.receive(transit);
        }
    }

    fn receive(&mut self, transit: Transit) {
        if self.hosts[transit.from].side != self.hosts[transit.to].side {
            return self.network.release(transit);
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
            self.network.release(transit);
        }
    }

    fn deliver(&mut self, transit: Transit) {
        let now = self.local_now(transit.to);
        let h = &mut self.hosts[transit.to];
        if let Some(node) = &mut h.node {
            let remote = address(transit.from);
            let rx = RxMeta { link: LINK, remote, ecn: transit.ecn, late: Duration::ZERO };
            node.handle_datagram(now, rx, self.network.bytes(transit), &mut h.memory);
            self.delivered += 1;
        }
        self.network.release(transit);
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
                    let outcome = self.hosts[host].egress.admit(now, &asked);
                    let h = &mut self.hosts[host];
                    if let Some(node) = &mut h.node {
                        node.reserved(now, asked.of, outcome, &mut h.memory);
                    }
                    self.transmit(host);
                }
                NodeEvent::Release { of, .. } => {
                    let now = self.local_now(host);
                    self.hosts[host].egress.release(now, of);
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
        let now = self.local_now(host);
        let mut train = core::mem::take(&mut self.train);
        self.hosts[host].egress.woken();
        self.hosts[host].held_until = None;
        loop {
            let h = &mut self.hosts[host];
            let Some(node) = &mut h.node else { break };
            while let Some(head) = node.poll_head(now, LINK) {
                h.egress.ready(now, head);
            }
            let grant = match h.egress.next(now) {
                Decision::Grant(grant) => grant,
                Decision::Wait(until) => {
                    h.held_until = Some(until);
                    break;
                }
                Decision::Idle => break,
            };
            let mut batch = TxBatch::new(&mut train, &h.memory, TRAIN);
            let sent = node.poll_transmit(now, grant, &mut batch);
            h.egress.sent(now, &grant, sent.as_ref());
            let Some(t) = sent else { continue };
            assert_eq!(t.link, grant.link, "a train for the link that was granted");
            let Some(to) = index_of(t.remote).filter(|to| *to < self.hosts.len()) else {
                continue;
            };
            for datagram in train[..t.len].chunks(t.segment) {
                self.send(host, to, datagram, t.tos & 3);
            }
        }
        self.train = train;
    }

    fn send(&mut self, from: usize, to: usize, datagram: &[u8], ecn: u8) {
        let Self { kernel, network, trace, .. } = self;
        let now = kernel.now();
        trace.word(now.as_nanos());
        trace.word((from as u64) << 48 | (to as u64) << 32 | datagram.len() as u64);
        trace.bytes(&datagram[..datagram.len().min(64)]);
        self.sent += 1;
        let go_on = |at, t| _ = kernel.schedule(at, Happening::Datagram(t));
        network.send(now, from, to, datagram, ecn, go_on);
    }

    fn set_timer(&mut self, host: usize) {
        let h = &mut self.hosts[host];
        let next = h.node.as_ref().and_then(Machine::poll_timeout).map(|(at, _)| at);
        let at = next.into_iter().chain(h.held_until).min().map(|at| h.clock.global(at));
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
