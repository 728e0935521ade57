//! A simulated task: the part of the library that needs no machine, and a program of random acts.

use std::collections::{BTreeMap, VecDeque};

use towpath_node::{Delivery, Node};
use towpath_proto::{Block, Memory, Rng};
use towpath_vm::endpoint::{Endpoint, charge};
use towpath_vm::matching::Wanted;
use towpath_vm::talk::{
    Answer, Fault, Question, RegistryAnswer, RegistryOp, ToDaemon, ToTask, WatchEvent, Welcome,
};
use towpath_wire::talk::Header;
use towpath_wire::{Instant, TaskId};

use super::ledger::{Ledger, byte_at, message_len};
use super::lines::Lines;
use crate::memory::SimMemory;
use crate::world::World;

/// How far a task came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its process runs.
    Started,
    /// It enrolled.
    Enrolled,
    /// It has no connection any more.
    Over,
}

/// What comes on a task's connection.
#[derive(Debug)]
enum Item {
    Say(ToTask),
    Piece(Delivery),
    OnChannel(u32, Block),
}

/// A message being sent.
#[derive(Debug)]
struct Outgoing {
    to: TaskId,
    seq: Option<u32>,
    sent: u32,
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// It has one before long.
    Soon,
    /// It may wait for others.
    Waits,
    /// Of a group's members, where the asker is.
    Members(Option<u32>),
    Join,
    Spawn(u32),
    /// Of a mailbox.
    Mail,
    /// A place in the task's own mailbox: so many entries came before.
    Own(u32),
}

pub(super) struct Task {
    pub(super) id: TaskId,
    pub(super) host: usize,
    pub(super) stage: Stage,
    /// It was spawned: it has a process of the world's.
    pub(super) spawned: bool,
    pub(super) asleep: bool,
    pub(super) acts_left: u32,
    /// It does not leave by itself before.
    pub(super) stays_until: Instant,
    pub(super) rng: Rng,
    pub(super) known: Vec<TaskId>,
    pub(super) joined: Option<u32>,
    /// Entries put into its own mailbox.
    pub(super) own: u32,
    pub(super) pending: BTreeMap<u64, Pending>,
    pub(super) next: u64,
    endpoint: Endpoint<()>,
    queue: VecDeque<Outgoing>,
    inbox: VecDeque<Item>,
    len_max: u32,
    pub(super) lines: Lines,
}

impl Task {
    pub(super) fn new(id: TaskId, host: usize, rng: Rng, acts: u32, len_max: u32) -> Self {
        Self {
            id,
            host,
            stage: Stage::Started,
            spawned: false,
            asleep: false,
            acts_left: acts,
            stays_until: Instant::ZERO,
            rng,
            known: Vec::new(),
            joined: None,
            own: 0,
            pending: BTreeMap::new(),
            next: 0,
            endpoint: Endpoint::new(id.to_raw()),
            queue: VecDeque::new(),
            inbox: VecDeque::new(),
            len_max,
            lines: Lines::default(),
        }
    }

    pub(super) fn says(&self, world: &mut World, say: ToDaemon) {
        let id = self.id;
        world.with(self.host, |n, now, m| n.task_says(now, id, say, m));
    }

    pub(super) fn ask(&mut self, world: &mut World, question: Question, pending: Pending) {
        self.next += 1;
        self.pending.insert(self.next, pending);
        self.says(world, ToDaemon::Ask { number: self.next, question });
    }

    pub(super) fn send(&mut self, world: &mut World, to: TaskId, ledger: &mut Ledger) {
        if to != self.id {
            self.queue.push_back(Outgoing { to, seq: None, sent: 0 });
            self.pump(world, ledger);
        }
    }

    /// Whether it still has something to send, or an answer to wait for that will come.
    pub(super) fn is_busy(&self) -> bool {
        !self.queue.is_empty() || self.pending.values().any(|p| *p != Pending::Waits)
    }

    pub(super) fn describe(&self) -> String {
        let queue = self.queue.front();
        format!("{} ({:?}): sends {queue:?}, waits for {:?}", self.id, self.stage, self.pending)
    }

    /// Sends as much as it may. False: the daemon has no room.
    pub(super) fn pump(&mut self, world: &mut World, ledger: &mut Ledger) -> bool {
        while let Some(out) = self.queue.front_mut() {
            let (to, src) = (out.to, self.id);
            if self.endpoint.has_ended(to) {
                self.queue.pop_front();
                continue;
            }
            if out.seq.is_none() {
                out.seq = Some(self.endpoint.take_number(to));
                ledger.begun(src, to);
            }
            let seq = out.seq.unwrap_or(0);
            let total = message_len(src, seq, self.len_max);
            let Some(len) = self.endpoint.room(to, (total - out.sent) as usize) else {
                if self.endpoint.blocked(to) {
                    let need = charge((total - out.sent) as usize);
                    self.says(world, ToDaemon::Blocked { peer: to, need });
                }
                return true;
            };
            let (total, offset) = (u64::from(total), u64::from(out.sent));
            let tag = seq.into();
            let header = Header { src, dst: to, tag, context: 0, seq, format: 9, total, offset };
            let payload: Vec<u8> = (offset..offset + len as u64).map(|o| byte_at(seq, o)).collect();
            let header = header.emit();
            out.sent += len as u32;
            let whole = u64::from(out.sent) == total;
            if whole {
                // Before it is handed over: the receiver may be told of it within the call.
                ledger.whole(src, to);
            }
            let give = |n: &mut Node, now: Instant, m: &mut SimMemory| {
                n.task_data(now, src, &header, &payload, m)
            };
            assert_ne!(world.with(self.host, give), Some(false), "there is room in a simulation");
            self.endpoint.wrote(to, len);
            if whole {
                self.queue.pop_front();
            }
        }
        true
    }

    /// Sends one message to several at once, as far as all of them have credit for it.
    pub(super) fn multicast(
        &mut self,
        world: &mut World,
        to: &[TaskId],
        ledger: &mut Ledger,
    ) -> bool {
        if !self.queue.is_empty() || to.is_empty() || to.contains(&self.id) {
            return false;
        }
        // All of the same number, so that all are of the same length and bytes.
        let seq = self.endpoint.next_number(to[0]);
        let len = message_len(self.id, seq, self.len_max);
        let fits = |e: &mut Endpoint<()>, t: TaskId| {
            !e.has_ended(t)
                && e.next_number(t) == seq
                && e.room(t, len as usize) == Some(len as usize)
        };
        let to: Vec<TaskId> = to.iter().copied().filter(|t| fits(&mut self.endpoint, *t)).collect();
        if to.is_empty() {
            return false;
        }
        let mut list = Vec::new();
        for t in &to {
            list.push((*t, self.endpoint.take_number(*t)));
            self.endpoint.wrote(*t, len as usize);
            ledger.begun(self.id, *t);
            ledger.whole(self.id, *t);
        }
        let (src, total) = (self.id, u64::from(len));
        let tag = seq.into();
        let header = Header { src, dst: src, tag, context: 0, seq, format: 9, total, offset: 0 };
        let payload: Vec<u8> = (0..total).map(|o| byte_at(seq, o)).collect();
        let header = header.emit();
        let give = |n: &mut Node, now: Instant, m: &mut SimMemory| {
            n.task_multicast(now, src, &list, &header, &payload, m)
        };
        assert_ne!(world.with(self.host, give), Some(false), "there is room in a simulation");
        true
    }

    // What comes.

    pub(super) fn hear(&mut self, say: ToTask) {
        self.inbox.push_back(Item::Say(say));
    }

    pub(super) fn deliver(&mut self, delivery: Delivery) {
        self.inbox.push_back(Item::Piece(delivery));
    }

    pub(super) fn on_channel(&mut self, number: u32, block: Block) {
        self.inbox.push_back(Item::OnChannel(number, block));
    }

    fn take_on_channel(
        &mut self,
        world: &mut World,
        number: u32,
        block: Block,
        ledger: &mut Ledger,
    ) {
        let bytes = world.hosts[self.host].memory.bytes(block).to_vec();
        world.with(self.host, |n, _, m| n.channel_written(block, m));
        if self.line_got(number, &bytes, ledger) {
            self.says(world, ToDaemon::ChannelTaken { number, messages: 1 });
        }
    }

    /// Reads what there is, unless it sleeps; gives its welcome, when that came.
    pub(super) fn read(&mut self, world: &mut World, ledger: &mut Ledger) -> Option<Welcome> {
        let mut welcome = None;
        while !self.asleep
            && self.stage != Stage::Over
            && let Some(item) = self.inbox.pop_front()
        {
            match item {
                Item::Piece(delivery) => self.take_in(world, &delivery, ledger),
                Item::OnChannel(number, block) => {
                    self.take_on_channel(world, number, block, ledger);
                }
                Item::Say(ToTask::Welcome(w)) => {
                    if self.stage == Stage::Enrolled {
                        ledger.violate(format!("{} is welcomed twice", self.id));
                    }
                    self.stage = Stage::Enrolled;
                    welcome = Some(w);
                }
                Item::Say(say) => self.said(say, ledger),
            }
        }
        if self.stage == Stage::Enrolled {
            self.pump(world, ledger);
        }
        welcome
    }

    fn take_in(&mut self, world: &mut World, delivery: &Delivery, ledger: &mut Ledger) {
        let memory = &world.hosts[self.host].memory;
        let bytes = &memory.bytes(delivery.block)[delivery.at as usize..];
        let taken = self.endpoint.piece(&delivery.header, &bytes[..delivery.len as usize]);
        if let Err(e) = taken {
            ledger.violate(format!("{}: {e}", self.id));
        }
        world.with(self.host, |n, now, m| n.task_written(now, delivery, m));
        let any = Wanted { source: None, tag: None, context: 0 };
        while let Some(message) = self.endpoint.take(&any) {
            let towpath_vm::endpoint::Body::Own(bytes) = message.payload.body else { continue };
            let (src, seq) = (message.key.source, message.key.tag as u32);
            let right = (0u64..).zip(&bytes).all(|(o, b)| *b == byte_at(seq, o))
                && message.payload.format == 9;
            ledger.received(src, self.id, seq, bytes.len() as u64, right);
            if self.known.len() < 32 {
                self.known.push(src);
            }
        }
    }

    fn said(&mut self, say: ToTask, ledger: &mut Ledger) {
        match say {
            ToTask::AskFirst { host, on } => self.endpoint.ask_first(host, on),
            ToTask::Credit { peer, limit } => self.endpoint.credit(peer, limit),
            ToTask::Gone { peer } => {
                ledger.gone(peer, self.id);
                self.endpoint.gone(peer);
            }
            ToTask::Notice { watch, event: WatchEvent::TaskEnded { task, ending } } => {
                ledger.noticed(self.id, watch, task, ending.as_ref());
            }
            ToTask::Answer { number, answer } => match self.pending.remove(&number) {
                None => ledger.violate(format!("{}: question {number} is answered twice", self.id)),
                Some(pending) => self.answered(pending, answer, ledger),
            },
            say => self.line_said(say, ledger),
        }
    }

    fn answered(&mut self, pending: Pending, answer: Result<Answer, Fault>, ledger: &mut Ledger) {
        match (pending, answer) {
            (Pending::Spawn(count), Ok(Answer::Spawned(results))) => {
                if results.len() != count as usize {
                    ledger.violate(format!("{}: {} results of {count}", self.id, results.len()));
                }
                self.known.extend(results.into_iter().flatten());
            }
            (Pending::Own(at), Ok(Answer::Registry(RegistryAnswer::Index(i)))) if i != at => {
                let what = format!("{}: entry {at} of its own mailbox is number {i}", self.id);
                ledger.violate(what);
            }
            (_, Ok(Answer::Registry(RegistryAnswer::Mail { content, .. }))) => {
                if content.iter().any(|byte| Some(byte) != content.first()) {
                    ledger.violate(format!("{}: an entry that nobody put", self.id));
                }
                ledger.mail += 1;
            }
            (Pending::Mail, Err(Fault::HostLost)) => ledger.mail_lost += 1,
            (Pending::Join, Ok(Answer::Registry(RegistryAnswer::Instance(i)))) => {
                self.joined = Some(i);
            }
            (pending, Ok(Answer::Registry(RegistryAnswer::Members { members, context, .. }))) => {
                let mut seen: Vec<TaskId> = members.iter().copied().flatten().collect();
                let count = seen.len();
                seen.sort_unstable();
                seen.dedup();
                let at = |i: u32| members.get(i as usize).copied().flatten();
                let misplaced =
                    matches!(pending, Pending::Members(Some(i)) if at(i) != Some(self.id));
                if seen.len() != count || misplaced {
                    ledger.violate(format!("{}: a list that cannot be: {members:?}", self.id));
                }
                if context != 0 {
                    ledger.froze(self.id, context, &members);
                }
            }
            _ => {}
        }
    }

    /// Its connection is closed: what waits on it goes back.
    pub(super) fn close(&mut self, world: &mut World) {
        self.stage = Stage::Over;
        for item in std::mem::take(&mut self.inbox) {
            match item {
                Item::Piece(delivery) => {
                    world.with(self.host, |n, now, m| n.task_written(now, &delivery, m));
                }
                Item::OnChannel(_, block) => {
                    world.with(self.host, |n, _, m| n.channel_written(block, m));
                }
                Item::Say(_) => {}
            }
        }
        self.queue.clear();
        self.lines.clear();
        self.pending.clear();
        self.endpoint = Endpoint::new(0);
    }
}

/// A group operation of a task that may be in the group.
pub(super) fn group_op(rng: &mut Rng, name: String, joined: Option<u32>) -> (RegistryOp, Pending) {
    let count = rng.below(4) as u32;
    match (rng.below(8), joined) {
        (0..=2, None) => (RegistryOp::Join(name), Pending::Join),
        (0, Some(_)) => (RegistryOp::Barrier { group: name, count }, Pending::Waits),
        (1, Some(_)) => (RegistryOp::Freeze { group: name, count }, Pending::Waits),
        (_, joined) => (RegistryOp::Members(name), Pending::Members(joined)),
    }
}
