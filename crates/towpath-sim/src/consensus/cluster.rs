//! One run: hosts, clients, faults and an operator, in simulated time.

use std::collections::BTreeSet;
use std::time::Duration;

use towpath_proto::Rng;
use towpath_vm::consensus::{Config, Members, Message, ReplicaId, ReplicatedLog};
use towpath_wire::Instant;

use super::checks::Checks;
use super::client::Client;
use super::history::unexplained;
use super::host::{Brought, Host, Reply};
use super::register::KEYS;
use super::{AVAILABLE_AGAIN, ConsensusOutcome, ConsensusScenario};
use crate::hash::Trace;
use crate::kernel::Kernel;

const TICK: Duration = Duration::from_millis(20);
pub(super) const CLIENTS: usize = 6;
const OPERATOR: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(500);

/// What happens. `u64`s beside hosts are their epochs, those beside clients their calls.
pub(super) enum Event {
    Tick(usize, u64),
    Message(usize, Vec<u8>),
    Synced(usize, u64),
    Start(usize, u64),
    Ask(usize, u64),
    Asked(usize, usize, u64),
    Replied(usize, u64, Reply),
    Fault,
    Mend(Mend),
    Heal,
    Operator,
    Look,
}

/// The end of a fault.
pub(super) enum Mend {
    Ways(Vec<(usize, usize)>),
    Loss,
    Disk(usize),
    Go(usize),
}

pub(super) struct Cluster {
    pub(super) config: Config,
    pub(super) kernel: Kernel<Event>,
    pub(super) rng: Rng,
    pub(super) trace: Trace,
    pub(super) hosts: Vec<Host>,
    pub(super) clients: Vec<Client>,
    pub(super) checks: Checks,
    pub(super) outcome: ConsensusOutcome,
    pub(super) cut: BTreeSet<(usize, usize)>,
    pub(super) loss_ppm: u32,
    pub(super) lossy: bool,
    pub(super) healed: Option<Instant>,
    pub(super) end: Instant,
    pub(super) next_id: u64,
    pub(super) values: u64,
    /// Entries after which a replica makes a snapshot.
    pub(super) compact_after: u64,
    /// How often a leader is cut off at the very moment of its election, or of a commit, in a
    /// million: what is true only until then is true for longest.
    pub(super) meanness_ppm: u32,
    /// Who was elected last, while it has committed nothing.
    pub(super) new_leader: Option<usize>,
    /// Which clients have been answered since all was mended.
    pub(super) served: BTreeSet<usize>,
}

/// Runs one seed.
pub fn run(scenario: &ConsensusScenario, seed: u64) -> ConsensusOutcome {
    run_with(scenario, seed, &|_| {})
}

/// Runs one seed with other settings of the replicas.
///
/// # Panics
/// With fewer hosts than three or more than nine.
pub fn run_with(
    scenario: &ConsensusScenario,
    seed: u64,
    set: &dyn Fn(&mut Config),
) -> ConsensusOutcome {
    assert!(super::HOSTS.contains(&(scenario.nodes as u64)), "{} hosts", scenario.nodes);
    let mut cluster = Cluster::new(scenario, seed, set);
    while let Some((now, event)) = cluster.kernel.pop() {
        if now > cluster.end || cluster.checks.violations.len() >= 8 {
            break;
        }
        cluster.happen(now, event);
    }
    cluster.close()
}

impl Cluster {
    fn new(scenario: &ConsensusScenario, seed: u64, set: &dyn Fn(&mut Config)) -> Self {
        let mut rng = Rng::new(seed, 1);
        let mut config = Config {
            beat_ticks: 2,
            election_ticks: 10,
            disk_ticks: 15,
            append_bytes: [1, 200, 64 << 10][rng.below(3) as usize],
            piece_bytes: [40, 1 << 10][rng.below(2) as usize],
            under_way_bytes: [300, 1 << 20][rng.below(2) as usize],
            ..Config::default()
        };
        set(&mut config);
        let faulty = Instant::ZERO + scenario.faulty;
        let mut cluster = Self {
            config,
            kernel: Kernel::new(),
            trace: Trace::new(seed),
            hosts: Vec::new(),
            clients: Vec::new(),
            checks: Checks::default(),
            outcome: ConsensusOutcome { seed, ..ConsensusOutcome::default() },
            cut: BTreeSet::new(),
            loss_ppm: [0, 2_000, 50_000][rng.below(3) as usize],
            lossy: false,
            healed: None,
            end: faulty + AVAILABLE_AGAIN,
            next_id: 1,
            values: 0,
            compact_after: [8, 40, 400][rng.below(3) as usize],
            meanness_ppm: [0, 400_000][rng.below(2) as usize],
            new_leader: None,
            served: BTreeSet::new(),
            rng,
        };
        cluster.begin(scenario.nodes);
        let clients = (0..CLIENTS).map(|n| Client::new(n % scenario.nodes, 1 + n as u64));
        cluster.clients = clients.collect();
        for client in 0..CLIENTS {
            cluster.kernel.schedule(Instant::ZERO, Event::Ask(client, 0));
        }
        let firsts = [(LOOK, Event::Look), (OPERATOR, Event::Operator)];
        for (after, event) in firsts {
            cluster.kernel.schedule(Instant::ZERO + after, event);
        }
        cluster.kernel.schedule(Instant::ZERO + Duration::from_millis(400), Event::Fault);
        cluster.kernel.schedule(faulty, Event::Heal);
        cluster
    }

    fn begin(&mut self, nodes: usize) {
        let members = Members::of((1..=nodes as u64).map(ReplicaId));
        for _ in 0..nodes {
            let mut host = self.newcomer();
            host.found(&self.config, members.clone());
            self.hosts.push(host);
        }
        for host in 0..nodes {
            self.settle(host);
            self.tick_next(host);
        }
    }

    pub(super) fn newcomer(&mut self) -> Host {
        let id = ReplicaId(self.next_id);
        self.next_id += 1;
        let mut host = Host::new(id, self.rng.u64());
        // From four fifths to five fourths of what it should be.
        host.tick = TICK.mul_f64(0.8 + self.rng.below(450) as f64 / 1000.0);
        host.sync = Duration::from_micros(100 + self.rng.below(4000));
        host
    }

    pub(super) fn after(&mut self, delay: Duration, event: Event) {
        self.kernel.schedule(self.kernel.now() + delay, event);
    }

    pub(super) fn tick_next(&mut self, host: usize) {
        let (tick, epoch) = (self.hosts[host].tick, self.hosts[host].epoch);
        self.after(tick, Event::Tick(host, epoch));
    }

    fn happen(&mut self, now: Instant, event: Event) {
        self.trace.word(now.as_nanos());
        match event {
            Event::Tick(host, epoch) if self.hosts[host].epoch == epoch => {
                if !self.stands(host, now) {
                    self.tick(host, 1);
                }
                self.tick_next(host);
            }
            Event::Message(host, bytes) => self.message(now, host, bytes),
            Event::Synced(host, epoch) if self.hosts[host].epoch == epoch => {
                self.synced(now, host);
            }
            Event::Start(host, epoch) if self.hosts[host].epoch == epoch => self.start(host),
            // Of an earlier start.
            Event::Tick(..) | Event::Synced(..) | Event::Start(..) => {}
            Event::Ask(client, call) => self.ask(now, client, call),
            Event::Asked(host, client, call) => self.asked(now, host, client, call),
            Event::Replied(client, call, reply) => self.replied(now, client, call, reply),
            Event::Fault => self.fault(now),
            Event::Mend(mend) => self.mend(mend),
            Event::Heal => self.heal(now),
            Event::Operator => {
                self.operate();
                self.after(OPERATOR, Event::Operator);
            }
            Event::Look => {
                self.checks.match_logs(&self.hosts);
                self.after(LOOK, Event::Look);
            }
        }
    }

    /// A host that stands still does nothing; what comes meanwhile waits.
    pub(super) fn stands(&self, host: usize, now: Instant) -> bool {
        self.hosts[host].stands_until > now
    }

    pub(super) fn tick(&mut self, host: usize, ticks: u32) {
        for _ in 0..ticks {
            let draw = self.rng.u64();
            if let Some(replica) = &mut self.hosts[host].replica {
                replica.tick(draw);
            }
        }
        self.settle(host);
    }

    fn message(&mut self, now: Instant, host: usize, bytes: Vec<u8>) {
        if self.stands(host, now) {
            let until = self.hosts[host].stands_until;
            self.kernel.schedule(until, Event::Message(host, bytes));
            return;
        }
        self.trace.bytes(&bytes);
        let decoded = Message::decode(&bytes);
        let message = decoded.expect("replicas send what they can read").expect("and know");
        // The place may have another replica by now.
        if let Some(replica) = &mut self.hosts[host].replica {
            replica.step(message);
            self.settle(host);
        }
    }

    fn synced(&mut self, now: Instant, host: usize) {
        let at = &mut self.hosts[host];
        let epoch = at.epoch;
        if at.disk_stalls || at.stands_until > now {
            return self.after(Duration::from_millis(20), Event::Synced(host, epoch));
        }
        let number = at.disk.done().expect("a sync was under way");
        if let Some(replica) = &mut at.replica {
            replica.durable(number);
        }
        self.settle(host);
    }

    /// Carries out what a host wants done, and looks at what came of it.
    pub(super) fn settle(&mut self, host: usize) {
        let mut brought = Brought::default();
        let at = &mut self.hosts[host];
        at.settle(&mut brought);
        let elected = self.checks.look(at);
        if elected {
            self.new_leader = Some(host);
        }
        for decided in &brought.applied {
            self.checks.applied(at, decided);
            let is_snapshot = matches!(decided, towpath_vm::consensus::Decided::Snapshot(_));
            self.outcome.snapshots += u64::from(is_snapshot);
        }
        if !brought.applied.is_empty() {
            self.checks.state(at);
            self.compact(host);
        }
        if elected {
            self.be_mean(host);
        } else if !brought.applied.is_empty() && self.new_leader == Some(host) {
            self.new_leader = None;
            self.be_mean(host);
        }
        for (client, call, reply) in brought.replies {
            self.reply(client, call, reply);
        }
        for message in brought.messages {
            self.send(host, &message);
        }
        self.sync(host);
    }

    fn compact(&mut self, host: usize) {
        let at = &mut self.hosts[host];
        let state = at.machine.save();
        let Some(replica) = &mut at.replica else { return };
        let since = replica.handed() - replica.snapshot_index();
        if since < self.compact_after {
            return;
        }
        replica.compact(state);
        let taken = replica.take();
        if let Some(write) = taken.write {
            at.disk.push(write);
        }
        for message in taken.messages {
            self.send(host, &message);
        }
    }

    fn sync(&mut self, host: usize) {
        let salt = self.rng.u64();
        let at = &mut self.hosts[host];
        if at.is_up() && at.disk.begin(salt) {
            let (sync, epoch) = (at.sync, at.epoch);
            let jitter = Duration::from_micros(self.rng.below(300));
            self.after(sync + jitter, Event::Synced(host, epoch));
        }
    }

    fn send(&mut self, from: usize, message: &Message) {
        self.outcome.messages += 1;
        let Some(to) = self.hosts.iter().position(|h| h.id == message.to) else { return };
        let loss = if self.lossy { 300_000 } else { self.loss_ppm };
        if self.cut.contains(&(from, to)) || self.rng.chance_ppm(loss) {
            return;
        }
        let copies = 1 + u32::from(self.rng.chance_ppm(self.loss_ppm / 2));
        for _ in 0..copies {
            let mut delay = Duration::from_micros(100 + self.rng.below(1500));
            if self.rng.chance_ppm(self.loss_ppm) {
                delay *= 40;
            }
            self.after(delay, Event::Message(to, message.encode()));
        }
    }

    fn start(&mut self, host: usize) {
        let life = self.rng.u64();
        let started = self.hosts[host].start(&self.config, life);
        match started {
            Ok(torn) => self.outcome.torn += u64::from(torn),
            Err(why) => {
                let id = self.hosts[host].id;
                return self.checks.broken(format!("replica {id}'s journal is refused: {why}"));
            }
        }
        self.settle(host);
        self.tick_next(host);
    }
}

impl Cluster {
    fn close(mut self) -> ConsensusOutcome {
        self.checks.match_logs(&self.hosts);
        let waiting = (0..CLIENTS).filter(|n| !self.served.contains(n)).count();
        if waiting > 0 && self.checks.violations.is_empty() {
            let limit = AVAILABLE_AGAIN.as_secs();
            self.checks.broken(format!(
                "{waiting} clients were not answered within {limit} s of the end of all faults"
            ));
        }
        self.explain();
        let mut outcome = self.outcome;
        outcome.elections = self.checks.elections();
        outcome.committed = self.checks.last_committed();
        outcome.violations = self.checks.violations;
        outcome.trace_hash = self.trace.value();
        outcome
    }

    /// Whether all answers can be explained.
    fn explain(&mut self) {
        for client in &mut self.clients {
            client.note(Instant::NEVER, 0);
        }
        for key in 0..KEYS {
            let all = self.clients.iter().flat_map(|c| &c.history);
            let of_key: Vec<_> = all.filter(|(k, _)| *k == key).map(|(_, o)| *o).collect();
            if let Some(o) = unexplained(&of_key) {
                self.checks.broken(format!(
                    "register {key} is not linearizable: no order explains {:?}, asked at {:?}, \
                     answered {} at {:?}",
                    o.act, o.called, o.answer, o.answered
                ));
            }
        }
    }
}
