//! Some nodes and the datagrams between them, delivered by hand: no simulator, no loss, a
//! millisecond each way.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use towpath_proto::{
    Config, Endpoint, EndpointEvent, Grant, HeapMemory, HostKey, Machine, Memory, Rng, RxMeta,
    TxBatch,
};
use towpath_vm::talk::{Answer, Claim, Enrol, Fault, Question, TALK_VERSION, ToDaemon, ToTask};
use towpath_vm::{Action, RequestEvent, RequestId, TaskSpec};
use towpath_wire::talk::{HEADER_LEN, Header};
use towpath_wire::{ByteSize, HostId, Instant, LinkId, TaskId};

use super::disk::Disk;
use super::standin::StandIn;
use crate::{Delivery, JoinTarget, Links, Node, NodeConfig, NodeEvent};

/// How long a datagram takes.
const DELAY: Duration = Duration::from_millis(1);
/// Seconds since the Unix epoch at instant zero.
pub(super) const EPOCH_S: u64 = 1_000_000;
pub(super) const VM_KEY: [u8; 32] = [7; 32];

/// A host.
pub(super) struct Seat {
    /// `None` once it crashed.
    pub(super) node: Option<Node>,
    pub(super) memory: HeapMemory,
    /// What the node said and nobody looked at.
    pub(super) events: Vec<NodeEvent>,
    /// Deliveries that were not written to their tasks: none, unless `holds`.
    pub(super) held: Vec<Delivery>,
    /// Its tasks do not read.
    pub(super) holds: bool,
    /// Messages on its tasks' channels: task, number, bytes.
    pub(super) on_channels: Vec<(TaskId, u32, Vec<u8>)>,
    /// Payloads that were written to its tasks.
    pub(super) given: Vec<(Header, Vec<u8>)>,
    /// Takes at once what the node writes, where there is one.
    pub(super) disk: Option<Disk>,
}

/// Somebody who speaks the transport's language, and says what they want in the handshake.
pub(super) struct Stranger {
    pub(super) endpoint: Endpoint,
    pub(super) events: Vec<EndpointEvent>,
    memory: HeapMemory,
}

/// All of them.
pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) seats: Vec<Seat>,
    /// At the address behind the last seat's.
    pub(super) stranger: Option<Stranger>,
    /// From where to where nothing passes.
    cut: BTreeSet<(usize, usize)>,
    way: BTreeMap<(Instant, u64), (usize, usize, Vec<u8>)>,
    pub(super) serial: u64,
    /// Datagrams that went from one host to another.
    pub(super) passed: BTreeMap<(usize, usize), u64>,
}

pub(super) fn addr(index: usize) -> SocketAddr {
    ([10, 0, 0, index as u8 + 1], 7077).into()
}

fn index(addr: SocketAddr) -> usize {
    let SocketAddr::V4(v4) = addr else { panic!("{addr} is nobody's") };
    usize::from(v4.ip().octets()[3]) - 1
}

pub(super) fn config(index: usize, name: &str) -> NodeConfig {
    NodeConfig {
        name: name.into(),
        build: "test".into(),
        links: Links::one(addr(index)),
        arch: "any".into(),
        speed: 1000,
        cpus: 2,
        slots: 2,
        unix_us_at_zero: EPOCH_S * 1_000_000,
        paced: false,
        voters: 1,
        keeps_table: false,
        life: 0,
        proto: Config::default(),
    }
}

impl Net {
    /// A virtual machine of so many hosts, the first of which founded it.
    pub(super) fn new(hosts: usize) -> Self {
        let mut net = Self::founded(config(0, "h0"));
        for index in 1..hosts {
            net.add(config(index, &alloc::format!("h{index}")));
            net.run(100);
        }
        for index in 0..hosts {
            net.events(index);
        }
        net
    }

    /// A virtual machine of one host.
    pub(super) fn founded(config: NodeConfig) -> Self {
        let node = Node::found(config, Box::new(StandIn::new(1)), Rng::new(1, 1), VM_KEY);
        let mut net = Self {
            now: Instant::from_nanos(1_000_000_000),
            seats: Vec::new(),
            stranger: None,
            cut: BTreeSet::new(),
            way: BTreeMap::new(),
            serial: 0,
            passed: BTreeMap::new(),
        };
        net.sit(node);
        net
    }

    pub(super) fn sit(&mut self, node: Node) {
        self.seats.push(Seat {
            node: Some(node),
            memory: HeapMemory::new(ByteSize::from_mib(512)),
            events: Vec::new(),
            held: Vec::new(),
            holds: false,
            on_channels: Vec::new(),
            given: Vec::new(),
            disk: None,
        });
    }

    /// What a token of the founder says, good for so long.
    pub(super) fn target(&mut self, ttl_s: u64) -> JoinTarget {
        self.target_of(0, ttl_s)
    }

    /// The same of whoever leads.
    pub(super) fn target_of(&mut self, host: usize, ttl_s: u64) -> JoinTarget {
        let now = self.now;
        let nonce = [self.seats.len() as u8; 16];
        let leader = self.node(host);
        let key = leader.endpoint().public_key();
        let invitation = leader.invite(now, ttl_s, nonce).expect("it holds the VM key");
        // Where others keep the log, they have to hear of it first.
        for _ in 0..50 {
            let now = self.now;
            if self.node(host).invitations(now).iter().any(|issued| issued.nonce == nonce) {
                break;
            }
            self.run(10);
        }
        JoinTarget { addr: addr(host), key, others: Vec::new(), invitation }
    }

    /// A host that joins by a token of the founder's.
    pub(super) fn add(&mut self, config: NodeConfig) {
        let target = self.target(60);
        self.add_by(config, target);
    }

    pub(super) fn add_by(&mut self, config: NodeConfig, target: JoinTarget) {
        let seed = self.seats.len() as u64 + 1;
        let (crypto, rng) = (Box::new(StandIn::new(seed)), Rng::new(seed, 1));
        self.sit(Node::join(self.now, config, crypto, rng, target));
    }

    /// Somebody who is not a node, with the key of the host of this number.
    pub(super) fn stranger(&mut self, key_of: u64) -> HostKey {
        let crypto = Box::new(StandIn::new(key_of));
        let config = Config { unix_ns_at_zero: (EPOCH_S + 1) * 1_000_000_000, ..Config::default() };
        let endpoint = Endpoint::new(config, crypto, Rng::new(99, 1));
        let key = endpoint.public_key();
        let memory = HeapMemory::new(ByteSize::from_mib(4));
        self.stranger = Some(Stranger { endpoint, events: Vec::new(), memory });
        key
    }

    pub(super) fn node(&mut self, host: usize) -> &mut Node {
        self.seats[host].node.as_mut().expect("it did not crash")
    }

    pub(super) fn id(&self, host: usize) -> HostId {
        let node = self.seats[host].node.as_ref().expect("it did not crash");
        node.me().expect("it has joined")
    }

    /// Calls a node.
    pub(super) fn call<R>(
        &mut self,
        host: usize,
        call: impl FnOnce(&mut Node, Instant, &mut dyn Memory) -> R,
    ) -> R {
        let now = self.now;
        let seat = &mut self.seats[host];
        let node = seat.node.as_mut().expect("it did not crash");
        let result = call(node, now, &mut seat.memory);
        self.drain(host);
        result
    }

    /// Nothing passes from `a` to `b`.
    pub(super) fn cut_way(&mut self, a: usize, b: usize) {
        self.cut.insert((a, b));
    }

    /// Nothing passes between `a` and `b`.
    pub(super) fn cut(&mut self, a: usize, b: usize) {
        self.cut_way(a, b);
        self.cut_way(b, a);
    }

    pub(super) fn mend(&mut self) {
        self.cut.clear();
    }

    pub(super) fn crash(&mut self, host: usize) {
        self.seats[host].node = None;
    }

    fn drain(&mut self, host: usize) {
        let now = self.now;
        let seat = &mut self.seats[host];
        let Some(node) = seat.node.as_mut() else { return };
        if let Some(disk) = &mut seat.disk {
            while let Some(write) = node.to_write() {
                disk.put(write);
            }
            node.wrote(now, Some(disk.number), &mut seat.memory);
        }
        let mut out = Vec::new();
        let mut train = vec![0; 32 * 1500];
        loop {
            let mut batch = TxBatch::new(&mut train, &seat.memory, 32);
            let Some(t) = node.poll_transmit(now, Grant::free(LinkId(0)), &mut batch) else {
                break;
            };
            let to = index(t.remote);
            out.extend(train[..t.len].chunks(t.segment).map(|d| (to, d.to_vec())));
        }
        while let Some(event) = node.poll_event() {
            if let NodeEvent::OnChannel { task, number, block, len } = event
                && !seat.holds
            {
                let bytes = seat.memory.bytes(block);
                assert_eq!(bytes.len(), len as usize);
                seat.on_channels.push((task, number, bytes.to_vec()));
                node.channel_written(block, &mut seat.memory);
                continue;
            }
            let NodeEvent::Deliver(delivery) = event else {
                seat.events.push(event);
                continue;
            };
            if seat.holds {
                seat.held.push(delivery);
                continue;
            }
            seat.given.push(handed_on(&seat.memory, &delivery));
            node.task_written(now, &delivery, &mut seat.memory);
        }
        for (to, datagram) in out {
            self.post(host, to, datagram);
        }
    }

    fn post(&mut self, from: usize, to: usize, datagram: Vec<u8>) {
        *self.passed.entry((from, to)).or_default() += 1;
        if !self.cut.contains(&(from, to)) {
            self.serial += 1;
            self.way.insert((self.now + DELAY, self.serial), (from, to, datagram));
        }
    }

    fn drain_stranger(&mut self) {
        let (now, from) = (self.now, self.seats.len());
        let Some(stranger) = &mut self.stranger else { return };
        let mut out = Vec::new();
        let mut train = vec![0; 32 * 1500];
        loop {
            let mut batch = TxBatch::new(&mut train, &stranger.memory, 32);
            let sent = stranger.endpoint.poll_transmit(now, Grant::free(LinkId(0)), &mut batch);
            let Some(t) = sent else { break };
            let to = index(t.remote);
            out.extend(train[..t.len].chunks(t.segment).map(|d| (to, d.to_vec())));
        }
        while let Some(event) = stranger.endpoint.poll_event() {
            stranger.events.push(event);
        }
        for (to, datagram) in out {
            self.post(from, to, datagram);
        }
    }

    fn next(&self) -> Option<Instant> {
        let nodes = self.seats.iter().filter_map(|s| s.node.as_ref()?.poll_timeout());
        let stranger = self.stranger.iter().filter_map(|s| s.endpoint.poll_timeout());
        let timers = nodes.chain(stranger).map(|(at, _)| at);
        timers.chain(self.way.keys().map(|(at, _)| *at).take(1)).min()
    }

    /// Lets so many milliseconds pass.
    pub(super) fn run(&mut self, ms: u64) {
        let until = self.now + Duration::from_millis(ms);
        let (mut at, mut turns) = (Instant::ZERO, 0);
        for host in 0..self.seats.len() {
            self.drain(host);
        }
        self.drain_stranger();
        while let Some(next) = self.next().filter(|next| *next <= until) {
            turns = if next > at { 0 } else { turns + 1 };
            assert!(turns < 10_000, "a timer at {next} never ends");
            at = at.max(next);
            self.now = self.now.max(next);
            self.turn();
        }
        self.now = until;
    }

    /// Lets time pass until this is so, and loses what is under way then from one to another.
    pub(super) fn lose_once(&mut self, lost: (usize, usize), is: impl Fn(&mut Self) -> bool) {
        while !is(self) {
            let next = self.next().expect("something is due");
            self.now = self.now.max(next);
            self.turn();
        }
        self.way.retain(|_, (from, to, _)| (*from, *to) != lost);
    }

    /// Hands out what is due.
    fn turn(&mut self) {
        let now = self.now;
        while let Some(((at, serial), _)) = self.way.first_key_value()
            && *at <= now
        {
            let key = (*at, *serial);
            let Some((from, to, mut bytes)) = self.way.remove(&key) else { break };
            let (remote, late) = (addr(from), Duration::ZERO);
            let rx = RxMeta { link: LinkId(0), remote, ecn: 0, late };
            if let Some(seat) = self.seats.get_mut(to) {
                if let Some(node) = &mut seat.node {
                    node.handle_datagram(now, rx, &mut bytes, &mut seat.memory);
                    self.drain(to);
                }
            } else if let Some(s) = &mut self.stranger {
                s.endpoint.handle_datagram(now, rx, &mut bytes, &mut s.memory);
                self.drain_stranger();
            }
        }
        for host in 0..self.seats.len() {
            let seat = &mut self.seats[host];
            let Some(node) = &mut seat.node else { continue };
            if node.poll_timeout().is_some_and(|(at, _)| at <= now) {
                node.handle_timeout(now, &mut seat.memory);
            }
            self.drain(host);
        }
        if let Some(s) = &mut self.stranger {
            s.endpoint.handle_timeout(now, &mut s.memory);
            self.drain_stranger();
        }
    }

    /// What a node said since the last time; what it said to tasks stays, unless it is taken with
    /// [`Net::told`].
    pub(super) fn events(&mut self, host: usize) -> Vec<NodeEvent> {
        let (tasks, rest) = core::mem::take(&mut self.seats[host].events)
            .into_iter()
            .partition(|e| matches!(e, NodeEvent::ToTask { .. }));
        self.seats[host].events = tasks;
        rest
    }

    /// What was said to a task since the last time.
    pub(super) fn told(&mut self, host: usize, task: TaskId) -> Vec<ToTask> {
        let events = core::mem::take(&mut self.seats[host].events);
        let (mine, rest): (Vec<_>, _) = events
            .into_iter()
            .partition(|e| matches!(e, NodeEvent::ToTask { task: t, .. } if *t == task));
        self.seats[host].events = rest;
        let say = |e| if let NodeEvent::ToTask { say, .. } = e { Some(say) } else { None };
        mine.into_iter().filter_map(say).collect()
    }

    /// Why a task is to be cut off, if it is.
    pub(super) fn cut_off(&mut self, host: usize, task: TaskId) -> Option<String> {
        let events = core::mem::take(&mut self.seats[host].events);
        let (cut, rest): (Vec<_>, _) = events
            .into_iter()
            .partition(|e| matches!(e, NodeEvent::CutOff { task: t, .. } if *t == task));
        self.seats[host].events = rest;
        match cut.into_iter().next() {
            Some(NodeEvent::CutOff { why, .. }) => Some(why),
            _ => None,
        }
    }

    // Tasks.

    /// A process of `host` becomes a task by itself.
    pub(super) fn enrol(&mut self, host: usize) -> TaskId {
        let task = self.enrol_by(host, None).expect("it enrols");
        let told = self.told(host, task);
        assert!(matches!(&told[..], [ToTask::Welcome(w)] if w.you == task), "{told:?}");
        task
    }

    pub(super) fn enrol_by(&mut self, host: usize, claim: Option<Claim>) -> Result<TaskId, String> {
        let enrol = Enrol { version: TALK_VERSION, claim, pid: 50, command: "by itself".into() };
        self.call(host, |node, now, memory| node.task_enrol(now, &enrol, memory))
    }

    pub(super) fn left(&mut self, host: usize, task: TaskId) {
        self.call(host, |node, now, memory| node.task_left(now, task, memory));
    }

    pub(super) fn says(&mut self, host: usize, task: TaskId, say: ToDaemon) -> Option<HostId> {
        self.call(host, |node, now, memory| node.task_says(now, task, say, memory))
    }

    /// Asks with a number, and gives the answer, which comes within 100 ms.
    pub(super) fn ask(
        &mut self,
        host: usize,
        task: TaskId,
        question: Question,
    ) -> Result<Answer, Fault> {
        self.serial += 1;
        let asked = self.serial;
        self.says(host, task, ToDaemon::Ask { number: asked, question });
        self.run(100);
        let told = self.told(host, task);
        let (answers, rest): (Vec<_>, Vec<_>) = told
            .into_iter()
            .partition(|t| matches!(t, ToTask::Answer { number, .. } if *number == asked));
        let rest = rest.into_iter().map(|say| NodeEvent::ToTask { task, say });
        self.seats[host].events.extend(rest);
        match <[ToTask; 1]>::try_from(answers) {
            Ok([ToTask::Answer { answer, .. }]) => answer,
            other => panic!("not one answer to {asked}: {other:?}"),
        }
    }

    /// A piece of a message of `total` bytes.
    pub(super) fn piece(&mut self, host: usize, header: &Header, payload: &[u8]) -> bool {
        let bytes: [u8; HEADER_LEN] = header.emit();
        self.call(host, |node, now, memory| {
            node.task_data(now, header.src, &bytes, payload, memory)
        })
    }

    /// A message of one piece.
    pub(super) fn send(
        &mut self,
        host: usize,
        src: TaskId,
        dst: TaskId,
        seq: u32,
        len: usize,
    ) -> bool {
        self.piece(host, &header(src, dst, seq, len), &payload(seq, len))
    }

    /// A message of one piece to several, each of which has `seq` as its number.
    pub(super) fn cast(
        &mut self,
        host: usize,
        src: TaskId,
        to: &[TaskId],
        seq: u32,
        len: usize,
    ) -> bool {
        let to: Vec<(TaskId, u32)> = to.iter().map(|t| (*t, seq)).collect();
        let bytes = header(src, src, 0, len).emit();
        let payload = payload(seq, len);
        self.call(host, |node, now, memory| {
            node.task_multicast(now, src, &to, &bytes, &payload, memory)
        })
    }

    /// Whole messages that came to `dst` since the last time, by their numbers: in order, and as
    /// they were sent.
    pub(super) fn got(&mut self, host: usize, dst: TaskId) -> Vec<u32> {
        let given = core::mem::take(&mut self.seats[host].given);
        let (mine, rest): (Vec<_>, Vec<_>) = given.into_iter().partition(|(h, _)| h.dst == dst);
        self.seats[host].given = rest;
        let mut out = Vec::new();
        let mut parts: BTreeMap<TaskId, Vec<u8>> = BTreeMap::new();
        for (header, bytes) in mine {
            let part = parts.entry(header.src).or_default();
            assert_eq!(header.offset, part.len() as u64, "pieces in order: {header:?}");
            part.extend(bytes);
            if part.len() as u64 == header.total {
                assert!(*part == payload(header.seq, part.len()), "changed: {header:?}");
                out.push(header.seq);
                parts.remove(&header.src);
            }
        }
        assert!(parts.is_empty(), "incomplete");
        out
    }

    /// `src` of `host` gets leave to send `need` more to `dst`; 50 ms.
    pub(super) fn credit(&mut self, host: usize, src: TaskId, dst: TaskId, need: u64) {
        self.says(host, src, ToDaemon::Blocked { peer: dst, need });
        self.run(50);
        let told = self.told(host, src);
        let ours = |t: &ToTask| matches!(t, ToTask::Credit { peer, .. } if *peer == dst);
        assert!(told.iter().any(ours), "{told:?}");
    }

    /// Tasks of a host read again, and what was held for them.
    pub(super) fn read(&mut self, host: usize) {
        self.seats[host].holds = false;
        for delivery in core::mem::take(&mut self.seats[host].held) {
            let seat = &mut self.seats[host];
            seat.given.push(handed_on(&seat.memory, &delivery));
            self.call(host, |node, now, memory| node.task_written(now, &delivery, memory));
        }
    }

    // Requests.

    pub(super) fn spawn(&mut self, host: usize, on: HostId, spec: TaskSpec) -> RequestId {
        self.call(host, |node, now, memory| node.spawn(now, on, spec, memory)).expect("it is asked")
    }

    /// The processes that a host was told to start.
    pub(super) fn starts(&mut self, host: usize) -> Vec<Claim> {
        let start = |e: &NodeEvent| match e {
            NodeEvent::Action(Action::Start { task, cookie, .. }) => {
                Some(Claim { task: *task, cookie: *cookie })
            }
            _ => None,
        };
        let started = self.seats[host].events.iter().filter_map(start).collect();
        self.seats[host].events.retain(|e| start(e).is_none());
        started
    }

    /// The one process that a host was told to start runs.
    pub(super) fn started(&mut self, host: usize) -> Claim {
        let starts = self.starts(host);
        let [claim] = starts[..] else { panic!("{starts:?}") };
        self.call(host, |node, now, memory| node.task_started(now, claim.task, 77, memory));
        claim
    }

    /// News of a request since the last time.
    pub(super) fn news(&mut self, host: usize, request: RequestId) -> Vec<RequestEvent> {
        let events = core::mem::take(&mut self.seats[host].events);
        let (mine, rest): (Vec<_>, _) = events
            .into_iter()
            .partition(|e| matches!(e, NodeEvent::Request { id, .. } if *id == request));
        self.seats[host].events = rest;
        let news = |e| if let NodeEvent::Request { event, .. } = e { Some(event) } else { None };
        mine.into_iter().filter_map(news).collect()
    }

    /// Nothing is kept anywhere because of tasks, and no message memory.
    pub(super) fn nothing_is_left(&mut self) {
        for (host, seat) in self.seats.iter_mut().enumerate() {
            let Some(node) = &seat.node else { continue };
            assert_eq!(node.remains(), Vec::<String>::new(), "host {host}");
            assert_eq!(seat.memory.used(), 0, "host {host}: bytes of message memory");
            assert_eq!(node.malformed(), 0, "host {host}");
        }
    }
}

/// What is handed on, with its header.
fn handed_on(memory: &HeapMemory, delivery: &Delivery) -> (Header, Vec<u8>) {
    let at = delivery.at as usize;
    (delivery.header, memory.bytes(delivery.block)[at..at + delivery.len as usize].to_vec())
}

pub(super) fn header(src: TaskId, dst: TaskId, seq: u32, total: usize) -> Header {
    let total = total as u64;
    Header { src, dst, tag: 5, context: 0, seq, format: 0, total, offset: 0 }
}

pub(super) fn payload(seq: u32, len: usize) -> Vec<u8> {
    let line: [u8; 251] = core::array::from_fn(|i| (seq as usize * 31 + i * 7) as u8);
    let mut out = line.repeat(len.div_ceil(line.len()));
    out.truncate(len);
    out
}

pub(super) fn program(args: &[&str]) -> TaskSpec {
    TaskSpec {
        program: b"p".to_vec(),
        args: args.iter().map(|a| a.as_bytes().to_vec()).collect(),
        output_window: 1000,
        input_window: 1000,
        ..TaskSpec::default()
    }
}
