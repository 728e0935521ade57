//! Whole nodes with tasks in virtual time: what the tests of tasks drive.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::time::Duration;

use towpath_node::{Delivery, JoinTarget, Links, Node, NodeConfig, NodeEvent, Saved, SavedError};
use towpath_proto::config::Liveness;
use towpath_proto::{Config, Crypto, Memory, Rng};
use towpath_sim::clock::Clock;
use towpath_sim::crypto::StandIn;
use towpath_sim::link::LinkSpec;
use towpath_sim::world::{Step, World, address};
use towpath_vm::Action;
use towpath_vm::talk::{Answer, Enrol, Fault, Question, TALK_VERSION, ToDaemon, ToTask};
use towpath_wire::talk::Header;
use towpath_wire::{ByteSize, HostId, Instant, TaskId};

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// What a task got, in order.
#[derive(Debug, PartialEq)]
pub(crate) enum Got {
    Said(ToTask),
    /// Header and length of a piece.
    Piece(Header, usize),
}

pub(crate) struct Vm {
    pub(crate) world: World,
    pub(crate) got: BTreeMap<TaskId, Vec<Got>>,
    /// Deliveries to tasks that do not read.
    pub(crate) unread: Vec<(usize, Delivery)>,
    pub(crate) reads: bool,
    /// When the last piece was delivered.
    pub(crate) last: Instant,
    pub(crate) others: Vec<(usize, NodeEvent)>,
    pub(crate) started: Vec<(TaskId, u64)>,
}

/// Where a host's wall clock stands at the beginning, in microseconds since 1970: the first one's
/// is right, the others' are five hours ahead and behind in turn.
pub(crate) fn wall_clock(host: usize) -> u64 {
    const FIVE_HOURS: u64 = 5 * 3_600_000_000;
    let right = 1_000_000_000_000;
    [right, right + FIVE_HOURS, right - FIVE_HOURS][if host == 0 { 0 } else { 1 + (host + 1) % 2 }]
}

fn config(host: usize) -> NodeConfig {
    NodeConfig {
        name: format!("h{host}"),
        build: "test".into(),
        links: Links::one(address(host)),
        arch: if host == 0 { "x86_64-linux" } else { "aarch64-linux" }.into(),
        speed: 1000,
        cpus: 2,
        slots: 2,
        unix_us_at_zero: wall_clock(host),
        paced: false,
        voters: 1,
        keeps_table: false,
        life: 0,
        proto: Config::default(),
    }
}

fn crypto(host: usize) -> Box<dyn Crypto> {
    Box::new(StandIn::new(Rng::new(77, host as u64)))
}

/// No two lives of a host draw the same numbers.
fn now_seed(world: &World) -> u64 {
    world.now().as_nanos()
}

impl Vm {
    pub(crate) fn up(hosts: usize) -> Self {
        Self::with(hosts, |world| {
            let spec = LinkSpec { delay_us: 200, ..LinkSpec::default() };
            world.add_host(Clock::new(0, 0), ByteSize::from_mib(512), true, |_| spec);
        })
    }

    /// Hosts that were each told how long a silent host is waited for.
    pub(crate) fn up_with(hosts: usize, lost_after: impl Fn(usize) -> Duration) -> Self {
        let mut world = World::new(1);
        for _ in 0..hosts {
            let spec = LinkSpec { delay_us: 200, ..LinkSpec::default() };
            world.add_host(Clock::new(0, 0), ByteSize::from_mib(512), true, |_| spec);
        }
        let lives = (0..hosts).map(|host| {
            let mut config = config(host);
            config.proto.liveness = Liveness::after(lost_after(host));
            config
        });
        Self::of(world, lives.collect())
    }

    /// What a host sends passes a link of 100 Mbit/s of its own.
    pub(crate) fn shaped(hosts: usize) -> Self {
        let mut vm = Self::with(hosts, |world| {
            let spec = LinkSpec { delay_us: 50, ..LinkSpec::default() };
            world.add_host(Clock::new(0, 0), ByteSize::from_mib(512), true, |_| spec);
        });
        for host in 0..hosts {
            let pairs: Vec<(usize, usize)> =
                (0..hosts).filter(|to| *to != host).map(|to| (host, to)).collect();
            let shape = LinkSpec { rate_bps: 100_000_000, delay_us: 0, ..LinkSpec::default() };
            vm.world.share(shape, &pairs);
        }
        vm
    }

    /// Whatever a host sends and receives passes links of 100 Mbit/s of its own.
    pub(crate) fn star(hosts: usize) -> Self {
        Self::with(hosts, |world| {
            let spec = LinkSpec { rate_bps: 100_000_000, delay_us: 25, ..LinkSpec::default() };
            world.add_star_host(Clock::new(0, 0), ByteSize::from_mib(512), spec);
        })
    }

    pub(crate) fn with(hosts: usize, mut add: impl FnMut(&mut World)) -> Self {
        let mut world = World::new(1);
        for _ in 0..hosts {
            add(&mut world);
        }
        Self::of(world, (0..hosts).map(config).collect())
    }

    fn of(mut world: World, configs: Vec<NodeConfig>) -> Self {
        world.boot(0, Node::found(configs[0].clone(), crypto(0), Rng::new(5, 0), [7; 32]));
        let (got, unread, others) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (reads, last, started) = (true, Instant::ZERO, Vec::new());
        let mut vm = Self { world, got, unread, reads, last, others, started };
        for (host, config) in configs.into_iter().enumerate().skip(1) {
            vm.join_as(host, 3600, config);
        }
        vm.run(ms(1000));
        vm.others.clear();
        vm
    }

    /// Has a host join with a token that is valid for so many seconds by the founder's clock.
    pub(crate) fn join(&mut self, host: usize, ttl_s: u64) {
        self.join_as(host, ttl_s, config(host));
    }

    /// Starts a host anew under a name.
    pub(crate) fn rename(&mut self, host: usize, name: &str) {
        self.world.crash(host);
        self.join_as(host, 3600, NodeConfig { name: name.into(), ..config(host) });
    }

    pub(crate) fn watch_from(&mut self, host: usize) {
        self.world.with(host, |n, now, m| n.watch_hosts(now, true, m));
    }

    fn join_as(&mut self, host: usize, ttl_s: u64, config: NodeConfig) {
        let invite = |n: &mut Node, now, _: &mut _| n.invite(now, ttl_s, [host as u8; 16]);
        let invitation = self.world.with(0, invite).flatten().expect("the founder invites");
        let (key, others) = (crypto(0).public_key(), Vec::new());
        let target = JoinTarget { addr: address(0), key, others, invitation };
        let now = self.world.local_now(host);
        let rng = Rng::new(6 + (now_seed(&self.world) << 8), host as u64);
        self.world.boot(host, Node::join(now, config, crypto(host), rng, target));
    }

    /// What the founder has kept by now.
    pub(crate) fn saved(&self) -> Saved {
        let saved = self.world.hosts[0].node.as_ref().and_then(Node::saved).expect("it leads");
        Saved::decode(&saved.encode()).expect("it comes back")
    }

    /// Starts the founder again, with what it kept or with nothing.
    pub(crate) fn found_again(&mut self, saved: Option<Saved>) {
        let (now, rng) = (self.world.local_now(0), Rng::new(8, now_seed(&self.world)));
        let node = match saved {
            None => Node::found(config(0), crypto(0), rng, [7; 32]),
            Some(saved) => Node::found_again(now, config(0), crypto(0), rng, [7; 32], saved)
                .expect("its own table"),
        };
        self.world.boot(0, node);
    }

    /// The same by a host with another key.
    pub(crate) fn found_by_another(
        &mut self,
        host: usize,
        saved: Saved,
    ) -> Result<Node, SavedError> {
        let now = self.world.local_now(1);
        Node::found_again(now, config(1), crypto(host), Rng::new(9, 9), [7; 32], saved)
    }

    pub(crate) fn run(&mut self, d: Duration) {
        let until = self.world.now() + d;
        self.world.call_at(until, 0);
        while let Some(step) = self.world.step(until) {
            match step {
                Step::Call(_) => break,
                Step::Event { host, event } => self.event(host, event),
            }
        }
    }

    pub(crate) fn event(&mut self, host: usize, event: NodeEvent) {
        match event {
            NodeEvent::ToTask { task, say } => {
                self.got.entry(task).or_default().push(Got::Said(say));
            }
            NodeEvent::Deliver(d) => {
                let task = d.header.dst;
                let bytes = self.world.hosts[host].memory.bytes(d.block);
                let bytes = &bytes[d.at as usize..][..d.len as usize];
                assert!(bytes.iter().all(|b| *b == d.header.tag as u8), "the payload");
                self.got.entry(task).or_default().push(Got::Piece(d.header, bytes.len()));
                self.last = self.world.now();
                if self.reads {
                    self.world.with(host, |n, now, m| n.task_written(now, &d, m));
                } else {
                    self.unread.push((host, d));
                }
            }
            NodeEvent::Action(Action::Start { task, cookie, .. }) => {
                self.started.push((task, cookie));
            }
            event => self.others.push((host, event)),
        }
    }

    pub(crate) fn me(&self, host: usize) -> HostId {
        self.world.hosts[host].node.as_ref().unwrap().me().expect("it joined")
    }

    pub(crate) fn enrol(&mut self, host: usize) -> TaskId {
        self.enrol_knowing(host, &[])
    }

    /// Enrols a task that is told to ask first of these hosts.
    pub(crate) fn enrol_knowing(&mut self, host: usize, ask_first: &[HostId]) -> TaskId {
        let enrol = Enrol { version: TALK_VERSION, claim: None, pid: 1, command: "program".into() };
        let task = self.world.with(host, |n, now, m| n.task_enrol(now, &enrol, m));
        let task = task.expect("the host is there").expect("it enrols");
        self.run(Duration::ZERO);
        let got = self.take(task);
        let [Got::Said(ToTask::Welcome(welcome))] = &got[..] else { panic!("{got:?}") };
        assert_eq!((welcome.you, &welcome.ask_first[..]), (task, ask_first));
        task
    }

    pub(crate) fn says(&mut self, host: usize, task: TaskId, say: ToDaemon) {
        self.world.with(host, |n, now, m| n.task_says(now, task, say, m));
    }

    pub(crate) fn ask(
        &mut self,
        host: usize,
        task: TaskId,
        question: Question,
    ) -> Result<Answer, Fault> {
        self.says(host, task, ToDaemon::Ask { number: 7, question });
        self.run(ms(100));
        let got = self.got.remove(&task).unwrap_or_default();
        let mut answers = got.into_iter().filter_map(|g| match g {
            Got::Said(ToTask::Answer { number: 7, answer }) => Some(answer),
            _ => None,
        });
        answers.next().expect("an answer")
    }

    /// A message of one piece.
    pub(crate) fn send(
        &mut self,
        host: usize,
        src: TaskId,
        dst: TaskId,
        seq: u32,
        len: usize,
    ) -> bool {
        let tag = i64::from(seq & 0xff);
        let header =
            Header { src, dst, tag, context: 0, seq, format: 0, total: len as u64, offset: 0 };
        let (header, payload) = (header.emit(), vec![tag as u8; len]);
        let sent = self.world.with(host, |n, now, m| n.task_data(now, src, &header, &payload, m));
        sent.expect("the host is there")
    }

    /// The same message of one piece to several, with its number for each.
    pub(crate) fn cast(&mut self, host: usize, src: TaskId, to: &[(TaskId, u32)], len: usize) {
        let total = len as u64;
        let header =
            Header { src, dst: src, tag: 9, context: 0, seq: 0, format: 0, total, offset: 0 };
        let (header, payload) = (header.emit(), vec![9; len]);
        let given =
            self.world.with(host, |n, now, m| n.task_multicast(now, src, to, &header, &payload, m));
        assert_eq!(given, Some(true));
    }

    /// The numbers of a task's messages; all of them are whole, one after another.
    pub(crate) fn whole(&mut self, task: TaskId) -> Vec<u32> {
        let (mut seqs, mut at) = (Vec::new(), 0);
        for got in self.take(task) {
            let Got::Piece(h, len) = got else { panic!("{task}: {got:?}") };
            assert_eq!(h.offset, at, "{task}, message {}", h.seq);
            at += len as u64;
            if at == h.total {
                seqs.push(h.seq);
                at = 0;
            }
        }
        assert_eq!(at, 0, "{task} has the beginning of a message");
        seqs
    }

    pub(crate) fn take(&mut self, task: TaskId) -> Vec<Got> {
        self.got.remove(&task).unwrap_or_default()
    }

    pub(crate) fn seqs(&mut self, task: TaskId) -> Vec<u32> {
        let pieces = self.take(task).into_iter();
        pieces.map(|g| if let Got::Piece(h, _) = g { h.seq } else { panic!("{g:?}") }).collect()
    }

    pub(crate) fn left(&mut self, host: usize, task: TaskId) {
        self.world.with(host, |n, now, m| n.task_left(now, task, m));
    }

    pub(crate) fn counter(&self, host: usize, name: &str) -> u64 {
        let node = self.world.hosts[host].node.as_ref().unwrap();
        node.counters().iter().find(|(n, _)| *n == name).expect("a counter").1
    }

    /// Everything is given back once nobody is left.
    pub(crate) fn nothing_is_left(&mut self) {
        for host in 0..self.world.hosts.len() {
            if self.world.hosts[host].node.is_some() {
                assert_eq!(self.counter(host, "task_bytes_inside"), 0, "host {host}");
                assert_eq!(self.counter(host, "task_bytes_outgoing"), 0, "host {host}");
                assert_eq!(self.world.hosts[host].memory.used(), 0, "host {host}");
            }
        }
    }
}
