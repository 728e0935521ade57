//! Members, the messages between them, and chance.

use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::vec::Vec;

use towpath_wire::talk::Tag;
use towpath_wire::{HostId, TaskId};

use crate::collective::*;
use crate::matching::{Key, Limits, Store, Wanted};

/// The same numbers for the same seed (Knuth's 64-bit linear congruence, its upper half).
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (self.0 >> 33) as usize % limit
    }
}

pub(super) type Outcome = Result<Output, CollectiveError>;

/// What a member's program is: its operations, one after the other.
type Script = Box<dyn Fn(u32, usize) -> Option<Operation>>;

/// Changes a message on its way: format and body, given its sender.
type Tamper = Box<dyn FnMut(u32, &mut u32, &mut Payload)>;

/// Number of the operation, format, body.
type Sent = (Tag, u32, Payload);

/// One operation of a member.
struct Underway {
    number: u32,
    machine: Option<Collective>,
    /// What the machine gave; the member has it once all is sent.
    given: Option<Outcome>,
    result: Option<Outcome>,
}

struct Node {
    team: Rc<Team>,
    underway: Vec<Underway>,
    store: Store<(u32, Payload)>,
    /// Steps that it may still take before it dies.
    life: usize,
    standing: Standing,
    /// What waits for room in the network: nothing else is sent before.
    outbox: VecDeque<(u32, Sent)>,
    /// What it tells the others when the team is broken, and who has not got it.
    telling: Vec<(u32, Message)>,
}

impl Node {
    fn begun(&self) -> u32 {
        self.underway.len() as u32
    }

    /// In a call: it takes in what comes.
    fn waits(&self) -> bool {
        let is_open = |op: &Underway| op.result.is_none();
        self.underway.iter().any(is_open) || self.must_send()
    }

    fn must_send(&self) -> bool {
        !self.outbox.is_empty() || !self.telling.is_empty()
    }

    fn has_failed(&self) -> bool {
        self.underway.iter().any(|op| matches!(op.result, Some(Err(_))))
    }
}

/// A team and its network.
pub(super) struct Network {
    nodes: Vec<Node>,
    script: Script,
    links: BTreeMap<(u32, u32), VecDeque<Sent>>,
    chance: Chance,
    /// Arrived members by host and operation; hosts released.
    arrived: BTreeMap<(u32, u32), BTreeSet<u32>>,
    released: BTreeSet<(u32, u32)>,
    hosts: Vec<u32>,
    /// Messages of each operation, a multicast counted once for each receiver.
    pub(super) messages: Vec<u64>,
    /// The same for bytes of bodies.
    pub(super) bytes: Vec<u64>,
    /// Changes each message on its way.
    pub(super) tamper: Option<Tamper>,
    /// Messages that may be under way between two members; who sends more waits. A member takes
    /// them in while it waits itself.
    pub(super) room: usize,
    /// Members do nothing more after their first error.
    pub(super) gives_up: bool,
    /// Members start some operations, chosen by this, and go on to the next ones without waiting.
    pub(super) starts: Option<u64>,
}

fn task(rank: u32) -> TaskId {
    HostId::new(1, 0).unwrap().task(rank + 1).unwrap()
}

const CONTEXT: u32 = 1 << 31;

impl Network {
    pub(super) fn new(
        hosts: &[u32],
        settings: &Settings,
        seed: u64,
        script: impl Fn(u32, usize) -> Option<Operation> + 'static,
    ) -> Self {
        let node = |rank: u32| Node {
            team: Team::new(rank, hosts, settings.clone()).unwrap(),
            underway: Vec::new(),
            store: Store::new(Limits::NONE, seed),
            life: usize::MAX,
            standing: Standing::default(),
            outbox: VecDeque::new(),
            telling: Vec::new(),
        };
        Self {
            nodes: (0..hosts.len() as u32).map(node).collect(),
            script: Box::new(script),
            links: BTreeMap::new(),
            chance: Chance(seed),
            arrived: BTreeMap::new(),
            released: BTreeSet::new(),
            hosts: hosts.to_vec(),
            messages: Vec::new(),
            bytes: Vec::new(),
            tamper: None,
            room: usize::MAX,
            gives_up: false,
            starts: None,
        }
    }

    /// `rank` dies after so many sends.
    pub(super) fn dies_after(&mut self, rank: u32, sends: usize) {
        self.nodes[rank as usize].life = sends;
    }

    fn is_dead(&self, rank: u32) -> bool {
        self.nodes[rank as usize].life == 0
    }

    /// Whether `to` knows that `rank` is dead: nothing of it is still to come.
    fn is_known_dead(&self, rank: u32, to: u32) -> bool {
        self.is_dead(rank) && !self.links.contains_key(&(rank, to))
    }

    /// All results of all members, once nothing moves any more.
    pub(super) fn run(mut self) -> (Vec<Vec<Outcome>>, Vec<u64>, Vec<u64>) {
        self.rest();
        let results = |node: Node| node.underway.into_iter().filter_map(|op| op.result).collect();
        (self.nodes.into_iter().map(results).collect(), self.messages, self.bytes)
    }

    /// Whether a member that lives is in a call.
    pub(super) fn waits(&self, rank: u32) -> bool {
        !self.is_dead(rank) && self.nodes[rank as usize].waits()
    }

    /// Goes on until nothing moves any more.
    pub(super) fn rest(&mut self) {
        let size = self.nodes.len();
        loop {
            let mut moved = false;
            for _ in 0..size {
                let rank = self.chance_rank();
                moved |= self.progress(rank);
            }
            for _ in 0..=self.chance_rank() {
                moved |= self.deliver_one();
            }
            if !moved {
                // Chance may have passed someone over.
                for rank in 0..size as u32 {
                    moved |= self.progress(rank);
                }
                let links: Vec<_> = self.links.keys().copied().collect();
                for (from, to) in links {
                    moved |= self.deliver(from, to);
                }
            }
            if !moved {
                break;
            }
        }
    }

    fn chance_rank(&mut self) -> u32 {
        self.chance.below(self.nodes.len()) as u32
    }

    fn deliver_one(&mut self) -> bool {
        if self.links.is_empty() {
            return false;
        }
        let chosen = self.chance.below(self.links.len());
        let (&(from, to), _) = self.links.iter().nth(chosen).unwrap();
        self.deliver(from, to)
    }

    /// Moves one message into its receiver's store, if that takes it in.
    fn deliver(&mut self, from: u32, to: u32) -> bool {
        let node = &mut self.nodes[to as usize];
        if self.room < usize::MAX && node.life > 0 && !node.waits() {
            return false;
        }
        let queue = self.links.get_mut(&(from, to)).unwrap();
        let (tag, format, body) = queue.pop_front().unwrap();
        if queue.is_empty() {
            self.links.remove(&(from, to));
        }
        let is_over = |tag: Tag| {
            let op = node.underway.get(tag as usize);
            op.is_some_and(|op| op.result.is_some())
        };
        if tag == NOTICE || !is_over(tag) {
            let key = Key { source: task(from), tag, context: CONTEXT };
            node.store.insert(key, body.len() as u64, (format, body)).unwrap();
        }
        true
    }

    /// Lets a member do all that it can.
    fn progress(&mut self, rank: u32) -> bool {
        let mut moved = false;
        while !self.is_dead(rank) {
            // Sooner or later.
            let listens = self.chance.below(2) == 0;
            let mut more = listens && self.listen(rank);
            more |= self.flush(rank);
            if !self.nodes[rank as usize].must_send() {
                more |= self.begin(rank) || self.step(rank);
            }
            if !more && !self.listen(rank) {
                break;
            }
            moved = true;
        }
        moved
    }

    fn begin(&mut self, rank: u32) -> bool {
        let seed = self.starts;
        let starts = |number: u32| {
            let by = |seed| Chance(seed ^ u64::from(rank) << 40 ^ u64::from(number) << 20);
            seed.is_some_and(|seed| by(seed).below(2) == 0)
        };
        let node = &mut self.nodes[rank as usize];
        let number = node.begun();
        let waits = |op: &Underway| op.result.is_none() && !starts(op.number);
        if node.underway.last().is_some_and(waits) || self.gives_up && node.has_failed() {
            return false;
        }
        let Some(operation) = (self.script)(rank, number as usize) else { return false };
        let machine = Some(Collective::new(&node.team, operation).unwrap());
        node.underway.push(Underway { number, machine, given: None, result: None });
        self.messages.resize(self.messages.len().max(number as usize + 1), 0);
        self.bytes.resize(self.bytes.len().max(number as usize + 1), 0);
        if let Some(error) = self.nodes[rank as usize].standing.error_of(number) {
            self.fail(rank, error);
        }
        true
    }

    /// Hears what others tell of the team.
    fn listen(&mut self, rank: u32) -> bool {
        let node = &mut self.nodes[rank as usize];
        let mut heard = false;
        while let Some(notice) = node.store.take(&Wanted::any().tag(NOTICE).context(CONTEXT)) {
            heard = true;
            node.standing.heard(notice.key.source.number() - 1, &notice.payload.1);
        }
        let mut open = node.underway.iter().filter(|op| op.result.is_none());
        let error = open.find_map(|op| node.standing.error_of(op.number));
        if let Some(error) = error {
            self.fail(rank, error);
        }
        heard
    }

    /// All that is open at `rank` fails, and it tells the others.
    fn fail(&mut self, rank: u32, error: CollectiveError) {
        let size = self.nodes.len() as u32;
        let node = &mut self.nodes[rank as usize];
        let open = node.underway.iter_mut().filter(|op| op.result.is_none());
        let mut first = None;
        for op in open {
            first.get_or_insert(op.number);
            op.machine = None;
            op.result = Some(Err(error));
        }
        node.outbox.clear();
        if let Some(notice) = node.standing.fail(first.unwrap(), error) {
            let others = (0..size).filter(|other| *other != rank);
            node.telling = others.map(|other| (other, notice.clone())).collect();
        }
    }

    /// Sends what has room.
    fn flush(&mut self, rank: u32) -> bool {
        let mut moved = false;
        while let Some((to, sent)) = self.nodes[rank as usize].outbox.pop_front() {
            if !self.has_room(rank, to) {
                self.nodes[rank as usize].outbox.push_front((to, sent));
                break;
            }
            self.links.entry((rank, to)).or_default().push_back(sent);
            moved = true;
        }
        for (to, notice) in std::mem::take(&mut self.nodes[rank as usize].telling) {
            let is_known_dead = self.is_known_dead(to, rank);
            if self.nodes[rank as usize].standing.is_out(to) || is_known_dead {
                moved = true;
            } else if !self.has_room(rank, to) {
                self.nodes[rank as usize].telling.push((to, notice));
            } else if !self.is_dead(rank) {
                // It may die before it has told all.
                self.nodes[rank as usize].life -= 1;
                let sent = (NOTICE, notice.format, notice.parts[0].clone());
                self.links.entry((rank, to)).or_default().push_back(sent);
                moved = true;
            }
        }
        moved
    }

    fn has_room(&self, from: u32, to: u32) -> bool {
        let queue = self.links.get(&(from, to));
        self.is_dead(to) || queue.is_none_or(|queue| queue.len() < self.room)
    }

    /// Takes on all that is open at `rank`.
    fn step(&mut self, rank: u32) -> bool {
        let mut moved = false;
        for at in 0..self.nodes[rank as usize].underway.len() {
            if self.is_dead(rank) || self.nodes[rank as usize].must_send() {
                break;
            }
            moved |= self.step_one(rank, at);
        }
        moved
    }

    fn step_one(&mut self, rank: u32, at: usize) -> bool {
        let op = &mut self.nodes[rank as usize].underway[at];
        let (number, Some(mut machine)) = (op.number, op.machine.take()) else { return false };
        let mut moved = self.drain(rank, number, &mut machine);
        if !self.nodes[rank as usize].must_send() {
            moved |= self.feed(rank, number, &mut machine);
            moved |= self.drain(rank, number, &mut machine);
        }
        if self.is_dead(rank) {
            return true;
        }
        let is_barrier = std::format!("{machine:?}").starts_with("a barrier");
        let node = &mut self.nodes[rank as usize];
        let op = &mut node.underway[at];
        if op.given.is_none() && node.outbox.is_empty() {
            op.given = machine.poll_result();
            moved |= op.given.is_some();
        }
        let is_given = op.given.is_some();
        op.machine = Some(machine);
        if is_given {
            let mut machine = op.machine.take().unwrap();
            self.drain(rank, number, &mut machine);
            if self.nodes[rank as usize].must_send() {
                self.nodes[rank as usize].underway[at].machine = Some(machine);
                return true;
            }
            moved = true;
            self.over(rank, at, is_barrier);
        }
        moved
    }

    fn over(&mut self, rank: u32, at: usize, is_barrier: bool) {
        let node = &mut self.nodes[rank as usize];
        let op = &mut node.underway[at];
        let (number, given) = (op.number, op.given.take().unwrap());
        if let Err(error) = given {
            op.given = Some(given);
            self.fail(rank, error);
        } else {
            op.result = Some(given);
            if is_barrier {
                assert!(self.nodes.iter().all(|n| n.begun() > number), "left before all came");
            }
        }
        // What still comes with this number is for nobody.
        let node = &mut self.nodes[rank as usize];
        while node.store.take(&Wanted::any().tag(number.cast_signed()).context(CONTEXT)).is_some() {
        }
    }

    fn drain(&mut self, rank: u32, number: u32, machine: &mut Collective) -> bool {
        let mut moved = false;
        while !self.is_dead(rank)
            && self.nodes[rank as usize].outbox.is_empty()
            && let Some(step) = machine.poll_send()
        {
            moved = true;
            self.nodes[rank as usize].life -= 1;
            match step {
                Step::Send { to, message } => self.send(rank, to, number, &message),
                Step::Multicast { to, message } => {
                    assert!(to.len() > 1);
                    to.iter().for_each(|&to| self.send(rank, to, number, &message));
                }
                Step::Host(HostStage::Arrive) => {
                    let host = self.hosts[rank as usize];
                    self.arrived.entry((host, number)).or_default().insert(rank);
                }
                Step::Host(HostStage::Release) => {
                    let host = self.hosts[rank as usize];
                    self.released.insert((host, number));
                }
            }
            self.flush(rank);
        }
        moved
    }

    fn send(&mut self, from: u32, to: u32, number: u32, message: &Message) {
        assert_ne!(from, to);
        let mut format = message.format;
        let mut body: Payload = match message.parts.as_slice() {
            [part] => part.clone(),
            parts => parts.iter().flat_map(|part| part.to_vec()).collect::<Vec<_>>().into(),
        };
        if let Some(tamper) = &mut self.tamper {
            tamper(from, &mut format, &mut body);
        }
        self.messages[number as usize] += 1;
        self.bytes[number as usize] += body.len() as u64;
        let sent = (number.cast_signed().into(), format, body);
        self.nodes[from as usize].outbox.push_back((to, sent));
    }

    fn feed(&mut self, rank: u32, number: u32, machine: &mut Collective) -> bool {
        let mut moved = false;
        let wanted = Wanted::any().tag(number.cast_signed()).context(CONTEXT);
        while let Some(message) = self.nodes[rank as usize].store.take(&wanted) {
            moved = true;
            let (format, body) = message.payload;
            machine.handle(message.key.source.number() - 1, format, body);
        }
        let host = self.hosts[rank as usize];
        let members = self.hosts.iter().filter(|&&other| other == host).count();
        if self.arrived.get(&(host, number)).is_some_and(|set| set.len() == members) {
            machine.host_arrived();
        }
        if self.released.contains(&(host, number)) {
            machine.host_released();
        }
        for dead in 0..self.nodes.len() as u32 {
            if self.is_known_dead(dead, rank) {
                machine.member_lost(dead);
            }
        }
        moved
    }
}
