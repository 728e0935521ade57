//! One run: builds the virtual machine, lets its tasks act, strikes, checks.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use towpath_node::{JoinTarget, Links, Node, NodeConfig, NodeEvent};
use towpath_proto::config::Liveness;
use towpath_proto::{AssociationEvent, Config, Crypto, Rng};
use towpath_vm::talk::{Claim, Enrol, TALK_VERSION, ToDaemon, ToTask};
use towpath_vm::{Action, Ending, HostState, RequestEvent};
use towpath_wire::{ByteSize, HostId, Instant, Rate, TaskId};

use super::faults::Fault;
use super::fenced::Fenced;
use super::ledger::Ledger;
use super::outcome::VmOutcome;
use super::program::{Stage, Task};
use super::restarts::{Begun, Lives};
use super::scenario::VmScenario;
use crate::clock::Clock;
use crate::crypto::StandIn;
use crate::disk::Disk;
use crate::process::Program;
use crate::world::{Step, World};

const CALL_BOOT: u64 = 1 << 40;
const CALL_ENROL: u64 = 2 << 40;
pub(super) const CALL_ACT: u64 = 3 << 40;
pub(super) const CALL_WAKE: u64 = 4 << 40;
const CALL_HEAL: u64 = 5 << 40;
const CALL_TICK: u64 = 6 << 40;
pub(super) const CALL_REBOOT: u64 = 7 << 40;
pub(super) const CALL_END: u64 = 8 << 40;
const KIND: u64 = !((1 << 40) - 1);
const TICK: Duration = Duration::from_millis(200);
/// One task in so many stays for longer than it takes until a host is lost and back: so much
/// longer than until it is lost.
const STAYING: usize = 8;
const STAYS: Duration = Duration::from_secs(10);
/// Message memory of a host.
const MEMORY: ByteSize = ByteSize::from_mib(512);

/// The virtual machine's key.
pub(super) const VM_KEY: [u8; 32] = [7; 32];

/// A run under way.
pub(super) struct Run<'a> {
    pub(super) scenario: &'a VmScenario,
    pub(super) world: World,
    rng: Rng,
    pub(super) lives: Lives,
    pub(super) ids: Vec<Option<HostId>>,
    /// By host: tasks that were there lately.
    pub(super) directory: Vec<Vec<TaskId>>,
    pub(super) tasks: Vec<Task>,
    claims: Vec<Option<Claim>>,
    pub(super) by_id: HashMap<TaskId, usize>,
    /// Signals of tasks that the scenario has not heard of yet.
    early: BTreeMap<TaskId, i32>,
    faults: Vec<Fault>,
    struck: Vec<Fault>,
    healed: usize,
    pub(super) fenced: Fenced,
    pub(super) ledger: Ledger,
    pub(super) over: usize,
    enrolled_ever: usize,
    pub(super) out: VmOutcome,
    pub(super) settled_since: Option<Instant>,
    /// Datagrams delivered, and packets of the leader, a little later.
    pub(super) settled_at: Option<(u64, u64)>,
}

/// Runs a virtual machine with `seed`.
pub fn run(scenario: &VmScenario, seed: u64) -> VmOutcome {
    run_with(scenario, seed, &|_| {})
}

/// The same; `config` changes the transport's options from their defaults.
pub fn run_with(scenario: &VmScenario, seed: u64, config: &dyn Fn(&mut Config)) -> VmOutcome {
    let lost_after = Duration::from_millis(scenario.lost_after_ms.into());
    let mut proto = Config { liveness: Liveness::after(lost_after), ..Config::default() };
    config(&mut proto);
    let mut run = Run::new(scenario, seed, &proto);
    run.go();
    run.check();
    run.out
}

pub(super) fn crypto(seed: u64, host: usize) -> Box<dyn Crypto> {
    Box::new(StandIn::new(Rng::new(seed, 2000 + host as u64)))
}

/// Of one run in `paced_in`, paces two hosts of three a little below their links, or far below.
fn pace(world: &mut World, seed: u64, scenario: &VmScenario) {
    let mut rng = Rng::new(seed, 3);
    let paced = scenario.paced_in > 0 && rng.below(scenario.paced_in) == 0;
    let link = scenario.link.rate_bps;
    for host in 0..world.hosts.len() {
        let part = [link / 20 * 19, link / 2, link / 20][rng.below(3) as usize];
        if paced && rng.below(3) > 0 {
            world.pace(host, Some(Rate::from_bps(part)));
        }
    }
}

impl<'a> Run<'a> {
    fn new(scenario: &'a VmScenario, seed: u64, proto: &Config) -> Self {
        let mut world = World::new(seed);
        let mut rng = Rng::new(seed, 1);
        let hosts = scenario.hosts.max(2);
        for _ in 0..hosts {
            // Nobody has set these clocks, and none runs like another.
            let offset_ns = rng.below(10 * 3_600_000_000_000);
            let drift_ppm = rng.below(401) as i32 - 200;
            world.add_star_host(Clock::new(offset_ns, drift_ppm), MEMORY, scenario.link);
        }
        // From a stream of their own: where hosts have one link, all else is as it would be.
        let mut more = Rng::new(seed, 5);
        for _ in 1..scenario.links {
            world.add_star_fabric(scenario.link, |_| more.below(2) == 0);
        }
        pace(&mut world, seed, scenario);
        let faults = Fault::draw_all(scenario, hosts, &mut rng, &mut more);
        let addresses: Vec<_> = (0..hosts).map(|host| world.addresses(host)).collect();
        let config = |host: usize| NodeConfig {
            name: format!("sim{host}"),
            build: "test".into(),
            links: Links::new(addresses[host].clone()),
            arch: if host.is_multiple_of(2) { "even" } else { "odd" }.into(),
            speed: 1000,
            cpus: 2,
            slots: 2,
            unix_us_at_zero: 1_000_000_000_000,
            paced: false,
            voters: scenario.voters,
            keeps_table: scenario.starts_again(),
            life: 0,
            proto: proto.clone(),
        };
        let key = crypto(seed, 0).public_key();
        let founder = Node::found(config(0), crypto(seed, 0), Rng::new(seed, 1000), VM_KEY);
        let disk = || scenario.starts_again().then(Disk::default);
        world.hosts.iter_mut().for_each(|host| host.disk = disk());
        world.boot(0, founder);
        let mut begun = vec![Begun { config: config(0), target: None }];
        for host in 1..hosts {
            let nonce: [u8; 16] = std::array::from_fn(|i| (host >> (8 * (i % 2))) as u8);
            let invitation = world.with(0, |n, now, _| n.invite(now, 3600, nonce));
            let invitation = invitation.flatten().expect("the founder invites");
            let target = JoinTarget { addr: addresses[0][0], key, others: Vec::new(), invitation };
            begun.push(Begun { config: config(host), target: Some(target) });
            let at = Duration::from_micros(rng.below(20_000 + 2000 * hosts as u64));
            world.call_at(Instant::ZERO + at, CALL_BOOT | host as u64);
        }
        world.call_at(Instant::ZERO + TICK, CALL_TICK);
        Self {
            scenario,
            world,
            rng,
            lives: Lives::of(begun),
            ids: vec![None; hosts],
            directory: vec![Vec::new(); hosts],
            tasks: Vec::new(),
            claims: Vec::new(),
            by_id: HashMap::new(),
            early: BTreeMap::new(),
            faults,
            struck: Vec::new(),
            healed: 0,
            fenced: Fenced::default(),
            ledger: Ledger::default(),
            over: 0,
            enrolled_ever: 0,
            out: VmOutcome { seed, hosts, ..VmOutcome::default() },
            settled_since: None,
            settled_at: None,
        }
    }

    fn go(&mut self) {
        let end = Instant::ZERO + Duration::from_secs(self.scenario.seconds_max);
        while let Some(step) = self.world.step(end) {
            match step {
                Step::Event { host, event } => self.event(host, event),
                Step::Call(tag) => {
                    let index = (tag & !KIND) as usize;
                    match tag & KIND {
                        CALL_BOOT => self.boot(index),
                        CALL_ENROL => self.enrol(index),
                        CALL_ACT => self.act(index),
                        CALL_WAKE => self.wake(index),
                        CALL_REBOOT => self.reboot(index, None),
                        CALL_END => self.ending(index),
                        CALL_HEAL => {
                            self.struck[index].heal(&mut self.world, self.scenario.link);
                            self.start_again(index);
                            self.healed += 1;
                        }
                        _ if self.tick() => return,
                        _ => self.world.call_at(self.world.now() + TICK, CALL_TICK),
                    }
                }
            }
        }
        let left = self.tasks.iter().filter(|t| t.stage != Stage::Over).take(5);
        let left: Vec<String> = left.map(Task::describe).collect();
        self.ledger.violate(format!("the run does not come to an end: {left:?}"));
    }

    fn boot(&mut self, host: usize) {
        let Begun { config, target } = self.lives.begun[host].clone();
        let rng = Rng::new(self.out.seed, 1000 + host as u64);
        let now = self.world.local_now(host);
        let crypto = crypto(self.out.seed, host);
        let target = target.expect("a newcomer's");
        self.world.boot(host, Node::join(now, config, crypto, rng, target));
    }

    pub(super) fn after(&mut self, mean_us: u64) -> Instant {
        let us = self.rng.below(2 * mean_us + 1);
        self.world.now() + Duration::from_micros(us)
    }

    // Tasks come.

    fn new_task(&mut self, id: TaskId, host: usize, claim: Option<Claim>) -> usize {
        let index = self.tasks.len();
        let rng = Rng::new(self.out.seed, 1 << 30 | index as u64);
        let paced = self.world.hosts.iter().any(|h| h.rate.is_some());
        let reserves = paced.then(|| Rng::new(self.out.seed, 1 << 31 | index as u64));
        let max = self.scenario.message_bytes_max;
        self.tasks.push(Task::new(id, host, rng, self.scenario.acts, max));
        self.tasks[index].lines.reserves = reserves;
        self.claims.push(claim);
        self.by_id.insert(id, index);
        self.ledger.begun.insert(id);
        index
    }

    /// A process that nobody spawned wants to be a task.
    fn come(&mut self, host: usize) {
        let enrol = Enrol {
            version: TALK_VERSION,
            claim: None,
            pid: self.tasks.len() as u32,
            command: "came".into(),
        };
        let task = self.world.with(host, |n, now, m| n.task_enrol(now, &enrol, m));
        if let Some(Ok(id)) = task {
            self.new_task(id, host, None);
            self.enrolled_ever += 1;
        }
    }

    /// A spawned process enrols.
    fn enrol(&mut self, index: usize) {
        let (id, host) = (self.tasks[index].id, self.tasks[index].host);
        if self.tasks[index].stage != Stage::Started || self.world.hosts[host].node.is_none() {
            return;
        }
        let claim = self.claims[index];
        let enrol =
            Enrol { version: TALK_VERSION, claim, pid: id.number(), command: String::new() };
        let task = self.world.with(host, |n, now, m| n.task_enrol(now, &enrol, m));
        if task != Some(Ok(id)) {
            self.ledger.violate(format!("{id} enrols and is {task:?}"));
        }
        self.enrolled_ever += 1;
    }

    fn welcomed(&mut self, index: usize, siblings: &[TaskId], parent: Option<TaskId>) {
        let task = &mut self.tasks[index];
        task.known.extend(siblings.iter().chain(&parent).filter(|t| **t != task.id));
        let (id, host, spawned) = (task.id, task.host, task.spawned);
        if spawned && !siblings.contains(&id) {
            self.ledger.violate(format!("{id} is not among its siblings {siblings:?}"));
        }
        let there = &mut self.directory[host];
        if there.len() >= 24 {
            there.remove(0);
        }
        there.push(id);
        if index.is_multiple_of(STAYING) {
            let lost_after = Duration::from_millis(self.scenario.lost_after_ms.into());
            self.tasks[index].stays_until = self.world.now() + lost_after + STAYS;
        }
        let at = self.after(self.scenario.pace_us);
        self.world.call_at(at, CALL_ACT | index as u64);
    }

    fn wake(&mut self, index: usize) {
        self.tasks[index].asleep = false;
        self.read(index);
    }

    // Tasks go.

    /// It leaves, or just ends.
    pub(super) fn leave(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        let (id, host, spawned) = (task.id, task.host, task.spawned);
        if task.rng.below(2) == 0 {
            self.ledger.task_ended(id, None);
            self.tasks[index].says(&mut self.world, ToDaemon::Leave);
            self.close(index);
            if spawned {
                self.world.kill(host, id, 15);
            }
        } else {
            self.die(index, 15);
        }
    }

    /// Its process ends, in the middle of whatever it did.
    pub(super) fn die(&mut self, index: usize, signal: i32) {
        let task = &mut self.tasks[index];
        let (id, host) = (task.id, task.host);
        let ending = task.spawned.then_some(Ending::Signalled(signal));
        self.ledger.task_ended(id, ending);
        let process_first = self.tasks[index].rng.below(2) == 0;
        if self.tasks[index].spawned && process_first {
            self.world.kill(host, id, signal);
        }
        self.close(index);
        self.world.with(host, |n, now, m| n.task_left(now, id, m));
        if self.tasks[index].spawned && !process_first {
            self.world.kill(host, id, signal);
        }
    }

    fn close(&mut self, index: usize) {
        if self.tasks[index].stage != Stage::Over {
            self.over += 1;
            self.tasks[index].close(&mut self.world);
        }
    }

    // Nodes say something.

    fn event(&mut self, host: usize, event: NodeEvent) {
        match event {
            NodeEvent::ToTask { task, say } => self.say(host, task, say),
            NodeEvent::Deliver(delivery) => {
                let task = self.by_id.get(&delivery.header.dst).copied();
                if let Some(index) = task.filter(|i| self.tasks[*i].stage != Stage::Over) {
                    self.tasks[index].deliver(delivery);
                    self.read(index);
                } else {
                    let back = |n: &mut Node, now, m: &mut crate::memory::SimMemory| {
                        n.task_written(now, &delivery, m);
                    };
                    self.world.with(host, back);
                }
            }
            NodeEvent::OnChannel { task, number, block, .. } => {
                let task = self.by_id.get(&task).copied();
                if let Some(index) = task.filter(|i| self.tasks[*i].stage != Stage::Over) {
                    self.tasks[index].on_channel(number, block);
                    self.read(index);
                } else {
                    self.world.with(host, |n, _, m| n.channel_written(block, m));
                }
            }
            NodeEvent::CutOff { task, why } => {
                self.ledger.violate(format!("{task} is cut off: {why}"));
            }
            NodeEvent::Action(Action::Start { task, spec, cookie }) => {
                if Program::parse(&spec).is_some() {
                    let claim = Claim { task, cookie };
                    let index = self.new_task(task, host, Some(claim));
                    self.tasks[index].spawned = true;
                    self.out.spawned += 1;
                    if let Some(signal) = self.early.remove(&task) {
                        return self.signalled(task, signal);
                    }
                    let at = self.after(3000);
                    self.world.call_at(at, CALL_ENROL | index as u64);
                }
            }
            NodeEvent::Action(Action::Signal { task, signal }) => self.signalled(task, signal),
            NodeEvent::Action(Action::SignalProcess { pid, signal }) => {
                let found = self.tasks.iter().position(|t| {
                    t.host == host
                        && !t.spawned
                        && t.stage == Stage::Enrolled
                        && t.id.number() != 0
                        && self.by_id[&t.id] as u32 == pid
                });
                if let Some(index) = found {
                    self.die(index, signal);
                }
            }
            NodeEvent::Request { id, event: RequestEvent::Output { bytes, .. } } => {
                let len = bytes.len() as u32;
                self.world.with(host, |n, now, m| n.credit(now, id, len, m));
            }
            event => self.host_event(host, &event),
        }
    }

    fn say(&mut self, host: usize, task: TaskId, say: ToTask) {
        let Some(index) = self.by_id.get(&task).copied() else {
            // Its welcome comes before the call that enrols it has returned.
            let index = self.new_task(task, host, None);
            self.tasks[index].hear(say);
            return self.read(index);
        };
        match say {
            ToTask::End(_) => self.signalled(task, 15),
            ToTask::Output { bytes, .. } if self.tasks[index].stage == Stage::Enrolled => {
                let credit = ToDaemon::OutputCredit(bytes.len() as u32);
                self.tasks[index].says(&mut self.world, credit);
            }
            say => {
                self.tasks[index].hear(say);
                self.read(index);
            }
        }
    }

    fn read(&mut self, index: usize) {
        if let Some(w) = self.tasks[index].read(&mut self.world, &mut self.ledger) {
            self.welcomed(index, &w.siblings, w.parent);
        }
    }

    /// A task's process is ended from outside; the world ends it, its connection closes.
    fn signalled(&mut self, task: TaskId, signal: i32) {
        let Some(index) = self.by_id.get(&task).copied() else {
            // It was ended as soon as it was started: of that the scenario hears next.
            self.early.insert(task, signal);
            return;
        };
        let (stage, host) = (self.tasks[index].stage, self.tasks[index].host);
        if stage == Stage::Over {
            return;
        }
        let ending = self.tasks[index].spawned.then_some(Ending::Signalled(signal));
        self.ledger.task_ended(task, ending);
        self.close(index);
        self.world.with(host, |n, now, m| n.task_left(now, task, m));
    }

    fn host_event(&mut self, host: usize, event: &NodeEvent) {
        let me = self.ids[host];
        match event {
            NodeEvent::Joined { me, .. } => {
                if let Some(old) = self.ids[host].replace(*me) {
                    self.fenced.became_another(self.world.now(), old);
                    self.ledger.host_lost(old);
                }
            }
            NodeEvent::JoinFailed(_) if me.is_some() => self.not_let_in(host),
            NodeEvent::JoinFailed(why) => {
                self.ledger.violate(format!("host {host} cannot join: {why}"));
            }
            NodeEvent::HostLost(id) | NodeEvent::HostLeft(id) => {
                self.check_lost(*id);
                if matches!(event, NodeEvent::HostLost(_)) {
                    self.check_unique(*id);
                }
                self.out.hosts_lost += u64::from(host == 0);
                self.ledger.host_lost(*id);
            }
            NodeEvent::ContactOver { host: other, .. }
            | NodeEvent::Channel { host: other, event: AssociationEvent::Over(_), .. } => {
                if let Some(me) = me {
                    self.ledger.broke(me, *other);
                }
            }
            _ => {}
        }
    }

    /// Strikes what is due; true when the run is over.
    fn tick(&mut self) -> bool {
        let joined = self.ids.iter().flatten().count() == self.ids.len();
        if self.tasks.is_empty() && !joined {
            return false;
        }
        if self.out.growth.joined_s == 0.0 {
            self.out.growth.joined_s = self.world.now().as_nanos() as f64 / 1e9;
            self.out.growth.join_datagrams = self.world.delivered;
        }
        self.check_fenced();
        // A third of the tasks come by themselves, a share with each tick.
        let own = self.scenario.tasks.div_ceil(3);
        if self.enrolled_ever < own && self.tasks.len() < self.scenario.tasks {
            for _ in 0..own.div_ceil(10) {
                let host = self.rng.below(self.ids.len() as u64) as usize;
                self.come(host);
            }
        }
        let count = self.faults.len() + self.struck.len();
        let due = self.scenario.tasks * (self.struck.len() + 1) / (count + 2);
        let none_left = self.over == self.tasks.len() && self.enrolled_ever >= own;
        if !self.faults.is_empty() && (self.over >= due / 2 || none_left) {
            self.strike();
        }
        let done = self.faults.is_empty()
            && self.healed == self.struck.len()
            && self.tasks.iter().all(|t| t.stage == Stage::Over)
            && self.enrolled_ever >= own.min(self.scenario.tasks);
        if !done {
            self.settled_since = None;
            return false;
        }
        self.has_settled()
    }

    /// Whether one more may be gone for good: where several keep the log, most of those that vote
    /// have to live, so all of them do before one goes.
    pub(super) fn may_crash(&self) -> bool {
        let voters = self.voters_but(&|_| false);
        self.scenario.voters == 1 || voters.is_some_and(|n| n >= 3) && !self.lives.any_ends()
    }

    /// How many vote, where all of them live that are not excepted.
    pub(super) fn voters_but(&self, excepted: &dyn Fn(HostId) -> bool) -> Option<usize> {
        let nodes = || self.world.hosts.iter().filter_map(|h| h.node.as_ref());
        let leader = nodes().find(|node| node.leads())?;
        let (voters, _) = leader.voters();
        // One that was out of contact for long may be lost, and not know it.
        let up = |id| leader.hosts().any(|host| host.id == id && host.state == HostState::Up);
        let runs = |id| nodes().any(|node| node.me() == Some(id) && !node.is_frozen());
        let lives = |id: &HostId| up(*id) && runs(*id);
        voters.iter().all(|id| lives(id) || excepted(*id)).then_some(voters.len())
    }

    fn strike(&mut self) {
        let mut fault = self.faults.remove(0);
        if let (Fault::Crash { host }, false) = (fault, self.may_crash()) {
            fault = Fault::Pause { host, ms: 300 };
        }
        let index = self.struck.len() as u64;
        self.struck.push(fault);
        self.fenced.struck(fault, self.ids.len(), self.scenario);
        if let Fault::Crash { host } = fault {
            let crashed = &self.lives.crashed;
            if crashed.len() * 4 >= self.ids.len() || crashed.contains(&host) {
                self.healed += 1;
                return;
            }
            self.lives.crashed.push(host);
            self.is_gone(host);
        }
        if let Fault::Restart(restart) = fault
            && !self.stop(self.struck.len() - 1, restart)
        {
            self.healed += 1;
            return;
        }
        self.out.faults += 1;
        match fault.strike(&mut self.world, self.scenario.link) {
            Some(at) => self.world.call_at(at, CALL_HEAL | index),
            None => self.healed += 1,
        }
    }
}
