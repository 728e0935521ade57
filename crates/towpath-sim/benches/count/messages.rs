//! Two nodes with a task each, whose messages go by the daemons' route: the whole of what a daemon
//! does for a message, but for sockets. Datagrams take 10 us.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use towpath_node::{JoinTarget, Links, Node, NodeConfig, NodeEvent};
use towpath_proto::{Config, Grant, HeapMemory, Machine, Memory, Rng, RxMeta, TxBatch};
use towpath_sim::crypto::StandIn;
use towpath_vm::talk::{CREDIT_FIRST, Enrol, TALK_VERSION, ToDaemon, ToTask};
use towpath_wire::talk::{HEADER_LEN, Header, PIECE_CHARGE};
use towpath_wire::{ByteSize, Instant, LinkId, TaskId};

const EPOCH_S: u64 = 1_000_000;
/// Datagrams in a train.
const TRAIN: usize = 16;
/// Messages before the count begins: channels are open by then, and credit has grown.
pub(crate) const BEGINNING: u64 = 2000;
const LONG: usize = 32 << 10;
static PAYLOAD: [u8; LONG] = [7; LONG];

struct Seat {
    node: Node,
    memory: HeapMemory,
    task: Option<TaskId>,
    seq: u32,
    sent: u64,
    limit: u64,
    asked: bool,
    /// Bytes that came.
    got: u64,
}

/// Two hosts.
pub(crate) struct Hosts {
    now: Instant,
    seats: Vec<Seat>,
    train: Vec<u8>,
    way: VecDeque<(usize, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

fn addr(index: usize) -> SocketAddr {
    ([10, 0, 0, index as u8 + 1], 7077).into()
}

fn config(index: usize) -> NodeConfig {
    NodeConfig {
        name: format!("h{index}"),
        build: "count".into(),
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

fn stand_in(seed: u64) -> StandIn {
    StandIn::new(Rng::new(seed, 7))
}

impl Hosts {
    pub(crate) fn new() -> Self {
        let founder = Node::found(config(0), Box::new(stand_in(1)), Rng::new(1, 1), [7; 32]);
        let mut hosts = Self {
            now: Instant::from_nanos(1_000_000_000),
            seats: Vec::new(),
            train: vec![0; TRAIN * 1500],
            way: VecDeque::new(),
            spare: Vec::new(),
        };
        let key = founder.endpoint().public_key();
        hosts.sit(founder);
        let now = hosts.now;
        let invitation = hosts.seats[0].node.invite(now, 60, [9; 16]).expect("it holds the key");
        let target = JoinTarget { addr: addr(0), key, others: Vec::new(), invitation };
        hosts.sit(Node::join(now, config(1), Box::new(stand_in(2)), Rng::new(2, 1), target));
        hosts.until(|hosts| hosts.seats.iter().all(|s| s.node.hosts().count() == 2));
        for host in 0..2 {
            let pid = 50;
            let enrol = Enrol { version: TALK_VERSION, claim: None, pid, command: "count".into() };
            let Seat { node, memory, .. } = &mut hosts.seats[host];
            let task = node.task_enrol(hosts.now, &enrol, memory).expect("it enrols");
            hosts.seats[host].task = Some(task);
        }
        hosts
    }

    fn sit(&mut self, node: Node) {
        self.seats.push(Seat {
            node,
            memory: HeapMemory::new(ByteSize::from_mib(512)),
            task: None,
            seq: 0,
            sent: 0,
            limit: CREDIT_FIRST,
            asked: false,
            got: 0,
        });
    }

    /// Messages of 16 bytes to and fro, `burst` at once.
    pub(crate) fn stream(&mut self, messages: u64, burst: u64) {
        let mut done = 0;
        while done < messages {
            for from in 0..2 {
                let before = self.seats[1 - from].got;
                for _ in 0..burst {
                    self.send(from, &[7; 16]);
                }
                self.until(|hosts| hosts.seats[1 - from].got == before + 16 * burst);
                done += burst;
            }
        }
    }

    /// Messages of 32 KiB from the first host's task to the second one's.
    pub(crate) fn long(&mut self, messages: u64) {
        for _ in 0..messages {
            let before = self.seats[1].got;
            self.send(0, &PAYLOAD);
            self.until(|hosts| hosts.seats[1].got == before + LONG as u64);
        }
    }

    fn send(&mut self, from: usize, payload: &[u8]) {
        let (src, dst) = (self.seats[from].task, self.seats[1 - from].task);
        let (src, dst) = (src.expect("enrolled"), dst.expect("enrolled"));
        let need = PIECE_CHARGE + payload.len() as u64;
        if self.seats[from].sent + need > self.seats[from].limit {
            self.seats[from].asked = true;
            let Seat { node, memory, .. } = &mut self.seats[from];
            node.task_says(self.now, src, ToDaemon::Blocked { peer: dst, need }, memory);
            self.until(|hosts| !hosts.seats[from].asked);
        }
        let Seat { node, memory, seq, sent, .. } = &mut self.seats[from];
        let total = payload.len() as u64;
        let header =
            Header { src, dst, tag: 5, context: 0, seq: *seq, format: 0, total, offset: 0 };
        (*seq, *sent) = (*seq + 1, *sent + need);
        let bytes: [u8; HEADER_LEN] = header.emit();
        assert!(node.task_data(self.now, src, &bytes, payload, memory), "there is memory");
    }

    fn until(&mut self, done: impl Fn(&Self) -> bool) {
        for _ in 0..1_000_000 {
            if done(self) {
                return;
            }
            self.turn();
        }
        panic!("nothing goes on any more");
    }

    /// Everything that is ready goes out and comes in; where nothing is, until the next timer.
    fn turn(&mut self) {
        let mut any = false;
        for host in 0..self.seats.len() {
            any |= self.drain(host);
        }
        self.now += Duration::from_micros(10);
        while let Some((to, mut data)) = self.way.pop_front() {
            let (remote, late) = (addr(1 - to), Duration::ZERO);
            let rx = RxMeta { link: LinkId(0), remote, ecn: 0, late };
            let Seat { node, memory, .. } = &mut self.seats[to];
            node.handle_datagram(self.now, rx, &mut data, memory);
            self.spare.push(data);
        }
        let timer = |s: &Seat| s.node.poll_timeout().map(|(at, _)| at);
        if !any && let Some(at) = self.seats.iter().filter_map(timer).min() {
            self.now = self.now.max(at);
        }
        for Seat { node, memory, .. } in &mut self.seats {
            if node.poll_timeout().is_some_and(|(at, _)| at <= self.now) {
                node.handle_timeout(self.now, memory);
            }
        }
    }

    fn drain(&mut self, host: usize) -> bool {
        let Seat { node, memory, task, limit, asked, got, .. } = &mut self.seats[host];
        let mut any = false;
        while let Some(event) = node.poll_event() {
            any = true;
            match event {
                NodeEvent::Deliver(delivery) => {
                    assert_eq!(Some(delivery.header.dst), *task);
                    std::hint::black_box(memory.bytes(delivery.block));
                    *got += u64::from(delivery.len);
                    node.task_written(self.now, &delivery, memory);
                }
                NodeEvent::ToTask { say: ToTask::Credit { limit: given, .. }, .. } => {
                    (*limit, *asked) = (given, false);
                }
                NodeEvent::CutOff { why, .. } => panic!("{why}"),
                _ => {}
            }
        }
        loop {
            let mut batch = TxBatch::new(&mut self.train, memory, TRAIN);
            let sent = node.poll_transmit(self.now, Grant::free(LinkId(0)), &mut batch);
            let Some(t) = sent else { return any };
            any = true;
            for datagram in self.train[..t.len].chunks(t.segment) {
                let mut data = self.spare.pop().unwrap_or_default();
                data.clear();
                data.extend_from_slice(datagram);
                self.way.push_back((1 - host, data));
            }
        }
    }
}
