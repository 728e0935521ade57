//! Members, the messages between them, and chance.

use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::vec::Vec;

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
type Sent = (i32, u32, Payload);

struct Node {
    team: Rc<Team>,
    machine: Option<Collective>,
    /// Operations begun; the number of the present one.
    begun: i32,
    store: Store<(u32, Payload)>,
    /// Steps that it may still take before it dies.
    life: usize,
    results: Vec<Outcome>,
}

/// A team and its network.
pub(super) struct Network {
    nodes: Vec<Node>,
    script: Script,
    links: BTreeMap<(u32, u32), VecDeque<Sent>>,
    chance: Chance,
    /// Arrived members by host and operation; hosts released.
    arrived: BTreeMap<(u32, i32), BTreeSet<u32>>,
    released: BTreeSet<(u32, i32)>,
    hosts: Vec<u32>,
    /// Messages of each operation, a multicast counted once for each receiver.
    pub(super) messages: Vec<u64>,
    /// The same for bytes of bodies.
    pub(super) bytes: Vec<u64>,
    /// Changes each message on its way.
    pub(super) tamper: Option<Tamper>,
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
            machine: None,
            begun: 0,
            store: Store::new(Limits::NONE, seed),
            life: usize::MAX,
            results: Vec::new(),
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
        }
    }

    /// `rank` dies after so many sends.
    pub(super) fn dies_after(&mut self, rank: u32, sends: usize) {
        self.nodes[rank as usize].life = sends;
    }

    fn is_dead(&self, rank: u32) -> bool {
        self.nodes[rank as usize].life == 0
    }

    /// All results of all members, once nothing moves any more.
    pub(super) fn run(mut self) -> (Vec<Vec<Outcome>>, Vec<u64>, Vec<u64>) {
        let size = self.nodes.len();
        loop {
            let mut moved = false;
            for _ in 0..size {
                let rank = self.chance_rank();
                moved |= self.progress(rank);
            }
            for _ in 0..=self.chance_rank() {
                moved |= self.deliver();
            }
            if !moved {
                // Chance may have passed someone over.
                for rank in 0..size as u32 {
                    moved |= self.progress(rank);
                }
            }
            if !moved {
                break;
            }
        }
        let results = self.nodes.into_iter().map(|node| node.results).collect();
        (results, self.messages, self.bytes)
    }

    fn chance_rank(&mut self) -> u32 {
        self.chance.below(self.nodes.len()) as u32
    }

    /// Moves one message of a random pair into its receiver's store.
    fn deliver(&mut self) -> bool {
        if self.links.is_empty() {
            return false;
        }
        let chosen = self.chance.below(self.links.len());
        let (&(from, to), queue) = self.links.iter_mut().nth(chosen).unwrap();
        let (number, format, body) = queue.pop_front().unwrap();
        if queue.is_empty() {
            self.links.remove(&(from, to));
        }
        let node = &mut self.nodes[to as usize];
        if number + 1 >= node.begun {
            let key = Key { source: task(from), tag: number, context: CONTEXT };
            node.store.insert(key, body.len() as u64, (format, body)).unwrap();
        }
        true
    }

    /// Lets a member do all that it can.
    fn progress(&mut self, rank: u32) -> bool {
        let mut moved = false;
        while !self.is_dead(rank) && (self.begin(rank) || self.step(rank)) {
            moved = true;
        }
        moved
    }

    fn begin(&mut self, rank: u32) -> bool {
        let node = &mut self.nodes[rank as usize];
        if node.machine.is_some() {
            return false;
        }
        let Some(operation) = (self.script)(rank, node.begun as usize) else { return false };
        node.machine = Some(Collective::new(&node.team, operation).unwrap());
        node.begun += 1;
        self.messages.resize(self.messages.len().max(node.begun as usize), 0);
        self.bytes.resize(self.bytes.len().max(node.begun as usize), 0);
        true
    }

    fn step(&mut self, rank: u32) -> bool {
        let Some(mut machine) = self.nodes[rank as usize].machine.take() else { return false };
        let number = self.nodes[rank as usize].begun - 1;
        let mut moved = self.drain(rank, number, &mut machine);
        moved |= self.feed(rank, number, &mut machine);
        moved |= self.drain(rank, number, &mut machine);
        if self.is_dead(rank) {
            return true;
        }
        let Some(result) = machine.poll_result() else {
            self.nodes[rank as usize].machine = Some(machine);
            return moved;
        };
        self.drain(rank, number, &mut machine);
        let is_barrier = std::format!("{machine:?}").starts_with("a barrier");
        if is_barrier && result.is_ok() {
            assert!(self.nodes.iter().all(|node| node.begun > number), "left before all came");
        }
        let node = &mut self.nodes[rank as usize];
        // What still comes with this number is for nobody.
        while node.store.take(&Wanted::tag(number, CONTEXT)).is_some() {}
        node.results.push(result);
        true
    }

    fn drain(&mut self, rank: u32, number: i32, machine: &mut Collective) -> bool {
        let mut moved = false;
        while !self.is_dead(rank)
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
        }
        moved
    }

    fn send(&mut self, from: u32, to: u32, number: i32, message: &Message) {
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
        self.links.entry((from, to)).or_default().push_back((number, format, body));
    }

    fn feed(&mut self, rank: u32, number: i32, machine: &mut Collective) -> bool {
        let mut moved = false;
        while let Some(message) =
            self.nodes[rank as usize].store.take(&Wanted::tag(number, CONTEXT))
        {
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
            if self.is_dead(dead) && !self.links.contains_key(&(dead, rank)) {
                machine.member_lost(dead);
            }
        }
        moved
    }
}
