//! One run: draw a world from the seed, load it, strike it, check it.

use std::time::Duration;

use towpath_node::{JoinFailure, JoinTarget, Links, Node, NodeConfig, NodeEvent};
use towpath_proto::association::{CodingStats, PathState, PathStatus};
use towpath_proto::coding::{Coding, CodingConfig};
use towpath_proto::config::Liveness;
use towpath_proto::{Config, Crypto, Rng};
use towpath_vm::HostState;
use towpath_wire::{ByteSize, HostId, Instant};

use super::fault::{Fault, On};
use super::flows::Flows;
use super::silence::Excuses;
use super::watched::{Reused, Watched};
use super::work::Work;
use crate::clock::Clock;
use crate::crypto::StandIn;
use crate::link::LinkSpec;
use crate::network::Tap;
use crate::scenario::{Scenario, between};
use crate::world::{SimHost, Step, World, index_of};

/// Makes the cryptography of a host from its stream of random numbers.
pub type MakeCrypto<'a> = &'a dyn Fn(Rng) -> Box<dyn Crypto>;

/// The stand-in for [`MakeCrypto`].
pub fn stand_in(rng: Rng) -> Box<dyn Crypto> {
    Box::new(StandIn::new(rng))
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// Hash over every datagram and event.
    pub trace_hash: u64,
    /// Hosts.
    pub hosts: usize,
    /// Flows.
    pub flows: usize,
    /// Messages delivered.
    pub messages: u64,
    /// Messages given up: timely ones that were late, unreliable ones that lost a piece.
    pub abandoned: u64,
    /// Bytes delivered, each counted once.
    pub bytes: u64,
    /// Data packets' worth of bytes delivered for the first time (bytes / 1416, rounded down).
    pub data_packets: u64,
    /// Datagrams handed to nodes.
    pub datagrams: u64,
    /// Datagrams that hosts sent on each network.
    pub networks: Vec<u64>,
    /// Faults that struck while data was under way.
    pub faults: u64,
    /// Requests made.
    pub requests: u64,
    /// Requests that ended because a host was lost.
    pub requests_lost: u64,
    /// Times that a host was declared lost.
    pub hosts_lost: u64,
    /// Most times that an association that stood at the end had gone on to its next key.
    pub key_updates: u64,
    /// Packets that were rebuilt from others, on associations that stood at the end.
    pub rebuilt: u64,
    /// Simulated seconds.
    pub seconds: f64,
    /// Promises not kept.
    pub violations: Vec<Violation>,
}

/// Content bytes of a full data packet: 1472 less header, tag and frame header.
const DATA_PACKET: u64 = 1416;
const TICK: Duration = Duration::from_millis(20);
/// Joins that nobody answered and that are tried again, of all hosts together.
const JOINS_AGAIN: u32 = 3;
/// One seed in so many renews its keys often, after so many packets.
const REKEYS: u64 = 4;
const REKEY_PACKETS: u64 = 400;
/// Of the runs of which one in so many codes, it is this one.
const CODED: u64 = 2;
/// For so long a key may be kept after the next one came: three probe time-outs, which seconds in
/// a queue, or a clock that jumps by four, make long.
const KEY_KEPT_MAX: Duration = Duration::from_mins(2);
/// A path on a network that is well is back within this: it is asked four times a second, and some
/// of that is lost.
const RETURN_MAX: Duration = Duration::from_secs(2);
const CALL_TICK: u64 = 0;
const CALL_BOOT: u64 = 1 << 32;
const CALL_ASK: u64 = 2 << 32;
const CALL_HEAL: u64 = 3 << 32;

/// What conversations are held against.
#[derive(Default)]
struct Watching {
    excuses: Excuses,
    reused: Reused,
    liveness: Liveness,
}

struct Run<'a> {
    scenario: &'a Scenario,
    world: World,
    rng: Rng,
    /// By network, from and to.
    specs: Vec<Vec<Vec<LinkSpec>>>,
    targets: Vec<Option<(NodeConfig, Rng, JoinTarget)>>,
    joins_again: u32,
    make_crypto: MakeCrypto<'a>,
    flows: Flows,
    work: Work,
    faults: Vec<(Fault, On)>,
    struck: Vec<(Fault, On)>,
    asks: usize,
    healed: usize,
    crashed: Option<usize>,
    watching: Watching,
    bytes_total: u64,
    loaded: bool,
    joined: usize,
    settled_since: Option<Instant>,
    out: Outcome,
}

/// Runs `scenario` with `seed`. `config` changes the transport's options from their defaults.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    make_crypto: MakeCrypto<'_>,
    config: &dyn Fn(&mut Config),
) -> Outcome {
    run_watched(scenario, seed, make_crypto, config, None)
}

/// The same, while `tap` looks on at every datagram sent.
pub fn run_watched(
    scenario: &Scenario,
    seed: u64,
    make_crypto: MakeCrypto<'_>,
    config: &dyn Fn(&mut Config),
    tap: Option<Tap>,
) -> Outcome {
    let mut run = Run::prepare(scenario, seed, make_crypto, config);
    if let Some(tap) = tap {
        run.world.set_tap(tap);
    }
    run.go();
    run.check();
    run.out
}

/// How one run in so many is coded; from a stream of its own.
fn draw_coding(every: u64, seed: u64) -> CodingConfig {
    let mut coding = CodingConfig::default();
    if every == 0 || seed % every != CODED % every {
        return coding;
    }
    let mut rng = Rng::new(seed, 2);
    let [members, parities] = [6, 3].map(|most| between(&mut rng, 1, most) as u8);
    let usual = Coding::new(members, parities).expect("within the limits");
    coding.usual = if rng.below(4) == 0 { usual.adaptive() } else { usual };
    if rng.below(4) == 0 {
        coding.memory = 32 << 10; // so little that groups are forgotten
    }
    coding
}

/// Links from each host to each.
fn draw_network(scenario: &Scenario, hosts: usize, rng: &mut Rng) -> Vec<Vec<LinkSpec>> {
    let mut row = |_| (0..hosts).map(|_| scenario.draw_link(rng)).collect();
    (0..hosts).map(&mut row).collect()
}

impl<'a> Run<'a> {
    fn prepare(
        scenario: &'a Scenario,
        seed: u64,
        make_crypto: MakeCrypto<'a>,
        config: &dyn Fn(&mut Config),
    ) -> Self {
        let mut rng = Rng::new(seed, 0);
        let pick = |rng: &mut Rng, range: [usize; 2]| {
            let [lo, hi] = range.map(|n| n as u64);
            between(rng, lo, hi) as usize
        };
        let hosts = pick(&mut rng, scenario.hosts);
        let mut world = World::new(seed);
        let mut specs = vec![draw_network(scenario, hosts, &mut rng)];
        // A share of the runs moves real bytes.
        let real = seed % 8 == 7;
        for _ in 0..hosts {
            let drift = between(&mut rng, 0, 2 * u64::from(scenario.drift_ppm)) as i32
                - scenario.drift_ppm.cast_signed();
            let clock = Clock::new(rng.below(1 << 42), drift);
            world.add_host(clock, ByteSize::from_mib(256), real, |_| LinkSpec::default());
        }
        for (from, row) in specs[0].iter().enumerate() {
            for (to, spec) in row.iter().enumerate() {
                world.link(from, to).set_spec(*spec);
            }
        }
        // From a stream of their own: where hosts have one link, all else is as it would be.
        let mut more = Rng::new(seed, 1);
        for _ in 1..pick(&mut more, scenario.links) {
            let drawn = draw_network(scenario, hosts, &mut more);
            world.add_fabric(|from, to| drawn[from][to], |_| more.below(2) == 0);
            specs.push(drawn);
        }
        let flows = pick(&mut rng, scenario.flows);
        let [lo, hi] = scenario.flow_bytes;
        let bytes_total = between(&mut rng, lo, hi);
        let flows = Flows::new(flows, bytes_total, scenario.message_bytes_max, hosts, &mut rng);
        let count = pick(&mut rng, scenario.faults);
        let fault = |_| match (Fault::draw(&mut rng, hosts), specs.len()) {
            (fault, 1) => (fault, None),
            (fault, networks) => fault.place(&mut more, hosts, networks),
        };
        let faults = (0..count).map(fault).collect();
        let asks = pick(&mut rng, scenario.tasks);
        let out = Outcome { seed, hosts, flows: flows.len(), ..Outcome::default() };
        let mut run = Self {
            scenario,
            world,
            rng,
            specs,
            targets: Vec::new(),
            joins_again: 0,
            make_crypto,
            flows,
            work: Work::default(),
            faults,
            struck: Vec::new(),
            asks,
            healed: 0,
            crashed: None,
            watching: Watching::default(),
            bytes_total,
            loaded: false,
            joined: 0,
            settled_since: None,
            out,
        };
        run.found(seed, config);
        run
    }

    /// Boots the founder; the others boot a little later, with tokens from it.
    fn found(&mut self, seed: u64, config: &dyn Fn(&mut Config)) {
        let mut proto = Config::default();
        if seed % REKEYS == 1 {
            proto.rekey.packets = REKEY_PACKETS;
        }
        proto.coding = draw_coding(self.scenario.coded_every, seed);
        config(&mut proto);
        self.watching.liveness = proto.liveness;
        let hosts = 0..self.world.hosts.len();
        let addresses: Vec<_> = hosts.map(|host| self.world.addresses(host)).collect();
        let node_config = |host: usize| NodeConfig {
            name: format!("sim{host}"),
            build: "test".into(),
            links: Links::new(addresses[host].clone()),
            arch: "x86_64-linux".into(),
            speed: 1000,
            cpus: 2,
            slots: 2,
            unix_us_at_zero: 1_000_000_000_000,
            paced: false,
            voters: 1,
            keeps_table: false,
            life: 0,
            proto: proto.clone(),
        };
        let rng = |host: usize| Rng::new(seed, 1000 + host as u64);
        let crypto = self.crypto(0);
        let key = crypto.public_key();
        self.world.boot(0, Node::found(node_config(0), crypto, rng(0), [7; 32]));
        // Where nobody waits for news of hosts, it takes longer until a dead one is known.
        if seed.is_multiple_of(2) {
            self.world.with(0, |n, now, memory| n.watch_hosts(now, true, memory));
        }
        self.targets.push(None);
        for host in 1..self.world.hosts.len() {
            let nonce = [host as u8; 16];
            let invitation = self.world.with(0, |n, now, _| n.invite(now, 3600, nonce));
            let invitation = invitation.flatten().expect("the founder invites");
            let target = JoinTarget { addr: addresses[0][0], key, others: Vec::new(), invitation };
            self.targets.push(Some((node_config(host), rng(host), target)));
            let at = Duration::from_micros(self.rng.below(20_000));
            self.world.call_at(Instant::ZERO + at, CALL_BOOT | host as u64);
        }
        self.world.call_at(Instant::ZERO + TICK, CALL_TICK);
    }

    fn crypto(&self, host: usize) -> Box<dyn Crypto> {
        let inner = (self.make_crypto)(Rng::new(self.out.seed, 2000 + host as u64));
        Box::new(Watched { inner, reused: self.watching.reused.clone() })
    }

    fn go(&mut self) {
        let end = Instant::ZERO + Duration::from_secs(self.scenario.seconds_max);
        while let Some(step) = self.world.step(end) {
            match step {
                Step::Call(CALL_TICK) => {
                    if self.tick() {
                        return;
                    }
                    let next = self.world.now() + TICK;
                    self.world.call_at(next, CALL_TICK);
                }
                Step::Call(tag) if tag >> 32 == CALL_BOOT >> 32 => self.boot(tag as u32 as usize),
                Step::Call(tag) if tag >> 32 == CALL_ASK >> 32 => {
                    self.work.ask(&mut self.world, &mut self.rng);
                }
                Step::Call(tag) => {
                    let (fault, on) = self.struck[tag as u32 as usize];
                    fault.heal(&mut self.world, on, &self.specs);
                    self.healed += 1;
                }
                Step::Event { host, event } => self.event(host, &event),
            }
            self.strike();
        }
        self.violate("the run does not come to an end".into());
        let missing = self.flows.missing().into_iter().chain(self.work.missing());
        let missing: Vec<String> = missing.take(10).collect();
        for what in missing {
            self.violate(what);
        }
    }

    fn boot(&mut self, host: usize) {
        let Some((config, rng, target)) = &mut self.targets[host] else { return };
        // Each try draws its own random numbers.
        let next = Rng::new(rng.clone().u64(), host as u64);
        let rng = std::mem::replace(rng, next);
        let (config, target) = (config.clone(), target.clone());
        let crypto = self.crypto(host);
        let now = self.world.local_now(host);
        self.world.boot(host, Node::join(now, config, crypto, rng, target));
    }

    fn event(&mut self, host: usize, event: &NodeEvent) {
        match event {
            NodeEvent::Joined { again: false, .. } => self.joined += 1,
            // Where most of what is sent is lost for seconds, one tries again, as a user would.
            NodeEvent::JoinFailed(JoinFailure::NoAnswer(_)) if self.joins_again < JOINS_AGAIN => {
                self.joins_again += 1;
                self.world.call_at(self.world.now(), CALL_BOOT | host as u64);
            }
            NodeEvent::JoinFailed(failure) => {
                self.violate(format!("host {host} cannot join: {failure}"));
            }
            NodeEvent::HostLost(_) if host == 0 => self.out.hosts_lost += 1,
            NodeEvent::ContactOver { host: other, end } => {
                let bursty = self.is_bursty(host, *other);
                let Watching { excuses, liveness, .. } = &self.watching;
                if let Some(what) = excuses.judge(end, liveness, bursty) {
                    self.violate(format!("host {host} of {other}: {what}"));
                }
            }
            _ => {}
        }
        let violations = &mut self.out.violations;
        if !self.flows.handle(&mut self.world, host, event, violations) {
            self.work.handle(&mut self.world, host, event, violations);
        }
    }

    /// Strikes the next fault once enough data has passed.
    fn strike(&mut self) {
        let count = self.faults.len() + self.struck.len();
        let due = self.bytes_total * (self.struck.len() as u64 + 1) / (count as u64 + 2);
        let passed = self.flows.delivered_bytes + self.flows.abandoned_bytes;
        if self.faults.is_empty() || passed < due || self.flows.done() {
            return;
        }
        let (mut fault, on) = self.faults.remove(0);
        if let (Some(host), Some(_)) = (fault.crashes(), self.crashed) {
            // One crash is enough: two hosts must be left to talk.
            fault = Fault::Pause { host, ms: 300 };
        }
        let index = self.struck.len() as u64;
        self.struck.push((fault, on));
        self.watching.excuses.struck(self.world.now(), fault, on);
        if let Some(host) = fault.crashes() {
            self.crashed = Some(host);
            self.flows.redirect(host, self.world.hosts.len());
            self.work.abandon(host);
        }
        self.out.faults += 1;
        match fault.strike(&mut self.world, on) {
            Some(at) => self.world.call_at(at, CALL_HEAL | index),
            None => self.healed += 1,
        }
    }

    /// Whether a link between two hosts loses datagrams in bursts.
    fn is_bursty(&self, one: usize, other: HostId) -> bool {
        let is = |h: &SimHost| h.node.as_ref().and_then(Node::me) == Some(other);
        let Some(other) = self.world.hosts.iter().position(is) else { return true };
        self.pair(one, other).any(|link| link.burst_enter_ppm > 0)
    }

    /// Looks after the load; true when the run is over.
    fn tick(&mut self) -> bool {
        if !self.loaded && self.joined == self.world.hosts.len() {
            self.loaded = true;
            for _ in 0..self.asks {
                let at = Duration::from_millis(self.rng.below(1500));
                self.world.call_at(self.world.now() + at, CALL_ASK);
            }
        }
        if !self.loaded {
            return false;
        }
        self.flows.tick(&mut self.world);
        let quiet = self.flows.done() && self.work.done() && self.healed == self.struck.len();
        if !(quiet && self.disagreement().is_none()) {
            self.settled_since = None;
            return false;
        }
        // Long enough for everything under way to arrive.
        let since = *self.settled_since.get_or_insert(self.world.now());
        self.world.now().since(since) > Duration::from_secs(4)
    }

    /// How living hosts' tables differ from what is, if they do.
    fn disagreement(&self) -> Option<String> {
        let living = || (0..self.world.hosts.len()).filter(|h| Some(*h) != self.crashed);
        let founder = self.world.hosts[0].node.as_ref()?;
        let table: Vec<_> = founder.hosts().cloned().collect();
        for host in living() {
            let node = self.world.hosts[host].node.as_ref()?;
            let theirs: Vec<_> = node.hosts().cloned().collect();
            if theirs != table {
                let (own, index) = (founder.log_index(), node.log_index());
                return Some(format!("host {host} has another table (entry {index}, not {own})"));
            }
            let state = node.me().and_then(|me| table.iter().find(|h| h.id == me));
            if state.is_none_or(|h| h.state != HostState::Up) {
                return Some(format!("host {host} lives, but not in the table"));
            }
        }
        let up = table.iter().filter(|h| h.state == HostState::Up).count();
        let alive = living().count();
        (up != alive).then(|| format!("{up} hosts up in the table, {alive} alive"))
    }

    fn violate(&mut self, what: String) {
        self.out.violations.push(Violation(what));
    }

    fn check_keys(&mut self) {
        let reused = self.watching.reused.count();
        if reused > 0 {
            self.violate(format!("{reused} packets were sealed under a nonce used before"));
        }
        let crashed = self.crashed;
        for host in (0..self.world.hosts.len()).filter(|h| Some(*h) != crashed) {
            let node = self.world.hosts[host].node.as_ref();
            let associations = node.into_iter().flat_map(|n| n.endpoint().associations());
            let now = self.world.local_now(host);
            let until = associations.filter(|(_, a)| a.is_open());
            let until = until.filter_map(|(_, a)| a.opens_previous_until());
            let kept = |until: &Instant| *until < now || *until > now + KEY_KEPT_MAX;
            if let Some(until) = until.filter(kept).max() {
                let what = format!("host {host} opens packets of a key of the past until {until}");
                self.violate(format!("{what}, and it is {now}"));
            }
        }
    }

    /// All networks have been well for a while: every association has a path on each of them, and
    /// all of these carry, but for those that have been silent for a moment only. A link that loses
    /// in bursts may be in one for as long as little is sent.
    fn check_paths(&mut self) {
        let mut amiss = Vec::new();
        for host in (0..self.world.hosts.len()).filter(|h| Some(*h) != self.crashed) {
            let Some(node) = self.world.hosts[host].node.as_ref() else { continue };
            let now = self.world.local_now(host);
            let is_well = |p: &PathStatus| match p.state {
                PathState::Carries | PathState::Standby => true,
                PathState::Silent(since) => now.since(since) < RETURN_MAX,
                _ => false,
            };
            for (_, a) in node.endpoint().associations().filter(|(_, a)| a.is_open()) {
                let other = index_of(a.remote()).unwrap_or(host);
                let bursty = self.pair(host, other).any(|link| link.burst_enter_ppm > 0);
                if !bursty && a.paths().filter(is_well).count() != self.specs.len() {
                    let states: Vec<_> = a.paths().map(|p| (p.link.0, p.state)).collect();
                    amiss.push(format!("host {host}, to host {other}: {states:?}"));
                }
            }
        }
        if let Some(first) = amiss.first() {
            let count = amiss.len();
            self.violate(format!("{count} ends do not use each network that is well: {first}"));
        }
    }

    /// Nobody codes anything but what was sent: what is rebuilt fits together.
    fn check_coding(&mut self) {
        let hosts = self.world.hosts.iter().filter_map(|h| h.node.as_ref());
        let counted: Vec<CodingStats> = hosts
            .flat_map(|n| n.endpoint().associations())
            .map(|(_, a)| a.stats().paths.coding)
            .collect();
        let garbage: u64 = counted.iter().map(|c| c.decoder.garbage + c.malformed).sum();
        if garbage > 0 {
            self.violate(format!("{garbage} coded packets do not fit together"));
        }
        self.out.rebuilt = counted.iter().map(|c| c.decoder.rebuilt).sum();
    }

    /// The links between two hosts, in both directions, on every network.
    fn pair(&self, one: usize, other: usize) -> impl Iterator<Item = &LinkSpec> {
        self.specs.iter().flat_map(move |n| [&n[one][other], &n[other][one]])
    }

    fn check(&mut self) {
        if let Some(what) = self.disagreement() {
            self.violate(what);
        }
        for what in self.flows.check(&self.world) {
            self.violate(what);
        }
        self.check_keys();
        self.check_paths();
        self.check_coding();
        if self.world.astray > 0 {
            let astray = self.world.astray;
            self.violate(format!("{astray} trains left by a link that does not lead there"));
        }
        // Per channel and direction one window, and what waits behind it, of either kind.
        let hosts = self.world.hosts.len() as u64;
        let channels = self.flows.len() as u64 + 3 * hosts;
        let waiting = 32 * u64::from(self.scenario.message_bytes_max) + (2 << 20);
        let bound = channels * (2 * (1 << 20) + waiting);
        for host in 0..self.world.hosts.len() {
            let memory = &self.world.hosts[host].memory;
            let (used, max) = (memory.used(), memory.used_max());
            if used > 0 && Some(host) != self.crashed && self.out.violations.is_empty() {
                self.violate(format!("host {host} still holds {used} bytes of messages"));
            }
            if max > bound {
                self.violate(format!("host {host} held {max} bytes, bound {bound}"));
            }
        }
        self.out.trace_hash = self.world.trace_hash();
        self.out.messages = self.flows.delivered;
        self.out.abandoned = self.flows.abandoned;
        self.out.bytes = self.flows.delivered_bytes;
        self.out.data_packets = self.out.bytes / DATA_PACKET;
        self.out.datagrams = self.world.delivered;
        self.out.networks = self.world.offered();
        self.out.requests = self.work.made;
        self.out.requests_lost = self.work.lost;
        let nodes = self.world.hosts.iter().filter_map(|h| h.node.as_ref());
        let associations = nodes.flat_map(|n| n.endpoint().associations());
        self.out.key_updates = associations.map(|(_, a)| a.stats().keys_sent).max().unwrap_or(0);
        self.out.seconds = self.world.now().as_nanos() as f64 / 1e9;
    }
}
