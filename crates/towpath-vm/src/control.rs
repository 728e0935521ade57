//! Control state and the commands that change it.
//!
//! What is to change is *proposed* as a [`Command`]; a log (whoever implements [`Commits`])
//! *commits* commands in one order; each is then *applied* to the [`ControlState`], and what
//! follows from it comes out as [`Effect`]s. Slots, incarnations and names are given when a command
//! is applied, since only then is it known what came before it; nobody is answered earlier, since a
//! command may still be dropped. Applying depends on nothing but the state and the command.

mod alone;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use towpath_wire::bytes::ParseError;
use towpath_wire::id::TASK_MAX;
use towpath_wire::{HostId, TaskId};

pub use self::alone::Alone;
use crate::fields::{DRAINS, FIELDS_ALL_MAX, Fields};
use crate::host::{Host, HostState, HostTable, NAME_MAX};
use crate::invitations::{Invitations, Issued, NotGood, Shown};
use crate::log::{Change, ControlLog, Entry, LogError, Snapshot};
use crate::message::kinds;
use crate::promises::{Again, Granted, Holds, Promise, Promises, Release};
use crate::registry::{Answers, Body, Kept, Registry, Reply, Serial};
use crate::talk::{Fault, RegistryOp};

/// Deleted hosts that are remembered, so that they hear of it when they come back: the latest.
pub const DELETED_MAX: usize = 1024;

/// Version of the encoded [`ControlState`].
const STATE_VERSION: u8 = 6;

/// Hosts that are known to have kept the log: beyond, the tokens that they may know are revoked.
pub const KEEPERS_MAX: usize = 8192;

/// A change that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A host is to be taken in.
    Join(Join),
    /// A host was silent for too long.
    Lost(HostId),
    /// A host leaves.
    Leave(Leave),
    /// A host leads from here on: the log has elected it.
    Lead(HostId),
    /// These may come to lead.
    Voters(Vec<HostId>),
    /// A host has unique tasks, and asks whether it is part of the virtual machine.
    Unique(HostId),
    /// A host is to be sent the log, and with it the secrets of tokens.
    Keeps(HostId),
    /// A host is to be given nothing new, or is again.
    Drain(Drain),
    /// A token is to admit newcomers.
    Invite(Invite),
    /// A token is to admit nobody any more, named by its nonce.
    Revoke([u8; 16]),
    /// The network is this one: a topology's text, or nothing.
    Network(String),
    /// A host asks for a promise on the way to another.
    Promise(Promise),
    /// A host has one that is not known.
    Again(Again),
    /// A host has no use for one any more.
    Release(Release),
    /// A host says which it has.
    Holds(Holds),
    /// What these had that are gone is no longer on its way; what others have not said by now, they
    /// do not have.
    FreeOrphans(Vec<HostId>),
    /// A task asks about groups or mailboxes.
    Ask(Ask),
    /// A task has ended.
    TaskOver(TaskId),
    /// What tasks of a host wait for cannot reach them any more.
    ForgetWaits(HostId),
    /// The virtual machine is to end, as this task asks.
    Halt(TaskId),
}

kinds! {
    Command:
    1 Join, 2 Lost, 3 Leave, 4 Lead, 5 Voters, 6 Drain, 7 Invite, 8 Revoke,
    9 Network, 10 Promise, 11 Again, 12 Release, 13 Holds, 14 FreeOrphans,
    16 Ask, 17 TaskOver, 18 ForgetWaits, 19 Halt, 20 Keeps, 21 Unique,
}

impl Command {
    /// Whether all that must be known of it is.
    pub fn check(&self) -> Result<(), ParseError> {
        match self {
            Self::Join(join) => join.fields.check(),
            _ => Ok(()),
        }
    }
}

/// What is known of a host that is to be taken in. Its id, and what tells its name from others,
/// it gets when the command is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// Its static public key.
    pub key: [u8; 32],
    /// What it calls itself, at most [`NAME_MAX`] bytes.
    pub name: String,
    /// Where its daemon receives.
    pub addr: SocketAddr,
    /// What programs it can run.
    pub arch: String,
    /// How fast it is beside others.
    pub speed: u32,
    /// Processors that it has.
    pub cpus: u16,
    /// Jobs that it runs at once.
    pub slots: u16,
    /// What it says of kinds, known here or not.
    pub fields: Fields,
    /// The token that it came with; `None`: its place in the host table is enough. One whose key
    /// stands there when the command is applied uses none up.
    pub token: Option<Shown>,
}

/// A token is issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    /// The token, as it is in the list.
    pub issued: Issued,
    /// When, by the clock of whoever leads, in seconds since the Unix epoch.
    pub at_unix_s: u64,
}

/// A host leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leave {
    /// Which.
    pub host: HostId,
    /// Somebody deleted it: it is to hear of that when it comes back.
    pub deleted: bool,
}

/// A host is to be given nothing new, or is again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// Which.
    pub host: HostId,
    /// Nothing new; else as before.
    pub on: bool,
}

/// A task asks about groups or mailboxes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Who.
    pub asker: TaskId,
    /// Its number for the question.
    pub number: u64,
    /// Which question of the task it is.
    pub serial: Serial,
    /// What; of long content only who keeps it.
    pub op: RegistryOp<Body>,
}

/// What follows from a command that was applied, to be carried out by the host that leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The host table changed: every host is to be told of this entry.
    Changed(Entry),
    /// The newcomer of the command is this host from now on: it is to be welcomed.
    Joined(HostId),
    /// The newcomer of the command cannot be taken in: all slots, or all bytes of fields
    /// ([`FIELDS_ALL_MAX`]), are taken.
    Full,
    /// The newcomer's token admits nobody: others have used it up meanwhile, or it is over.
    Uninvited(NotGood),
    /// Whether a token is in the list now; if not, there are too many.
    Issued(bool),
    /// Whether a token was in the list that is no longer.
    Revoked(bool),
    /// A host is part of the virtual machine, as of this command.
    Confirmed(HostId),
    /// This host was deleted, and so many tokens are revoked, of which it knew.
    AllRevoked(HostId, usize),
    /// Whether the network is what was said.
    Network(Result<(), String>),
    /// A host is to hear what came of its number; [`Fault::NotFound`]: of one that it has, and that
    /// is not known.
    Promised(HostId, u64, Result<Granted, Fault>),
    /// Tasks are to be answered.
    Reply(Reply),
    /// The virtual machine ends.
    Halt,
    /// Nobody needs these bytes any more: whoever keeps them may forget them. Comes behind the
    /// replies that name them.
    Released(Kept),
}

/// Control state as of one command. Invariants: it holds the effect of every command up to
/// `applied`, each once, in order; the registry has no reply left between two of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlState {
    hosts: ControlLog,
    registry: Registry,
    answers: Answers,
    /// Tasks that asked the registry.
    registered: BTreeSet<TaskId>,
    /// Keys of deleted hosts, and who they were.
    deleted: BTreeMap<[u8; 32], HostId>,
    invitations: Invitations,
    /// Keys of hosts that may know the secrets of those tokens, beside the one that founded: each
    /// that ever was to keep the log, or led.
    keepers: BTreeSet<[u8; 32]>,
    /// Hosts that are up, and may have unique tasks.
    unique: BTreeSet<HostId>,
    promises: Promises,
    applied: u64,
}

impl ControlState {
    /// That of a virtual machine whose hosts are these, and nothing else is known.
    pub fn new(hosts: ControlLog) -> Self {
        let (registry, answers, registered, deleted) = Default::default();
        let (invitations, keepers, unique, promises) = Default::default();
        Self {
            hosts,
            registry,
            answers,
            registered,
            deleted,
            invitations,
            keepers,
            unique,
            promises,
            applied: 0,
        }
    }

    /// The same, where these were deleted before; not those that are up again.
    #[must_use]
    pub fn with_deleted(mut self, deleted: impl IntoIterator<Item = ([u8; 32], HostId)>) -> Self {
        let is_up =
            |key: &[u8; 32]| self.table().by_key(key).is_some_and(|h| h.state == HostState::Up);
        let down = deleted.into_iter().filter(|(key, _)| !is_up(key));
        self.deleted = down.take(DELETED_MAX).collect();
        self
    }

    /// The same, where these tokens are good, which hosts of these keys may know.
    #[must_use]
    pub fn with_invitations(self, invitations: Invitations, keepers: BTreeSet<[u8; 32]>) -> Self {
        Self { invitations, keepers, ..self }
    }

    /// The same, with groups, mailboxes and promises as `before` has them, the state of the same
    /// leader in its life before. Tasks of hosts that are not up, and those that do not live, are
    /// over; nobody waits for an answer any more.
    #[must_use]
    pub fn with_tasks_of(mut self, before: Self, lives: impl Fn(TaskId) -> bool) -> Self {
        let Self { registry, answers, registered, promises, unique, .. } = before;
        let all = registered.clone();
        self = Self { registry, answers, registered, unique, promises, ..self };
        let up = self.hosts.table().up().map(|host| host.id).collect();
        self.unique = self.unique.intersection(&up).copied().collect();
        for task in all {
            if self.is_up(task.host()) && lives(task) {
                self.registry.forget_waits(task);
            } else {
                self.task_over(task);
            }
        }
        while self.registry.poll().is_some() {}
        // Who kept these bytes finds out what is named still.
        let released = self.registry.released();
        self.answers.released_by_mail(released);
        self.answers.released();
        self.promises.may_be_behind(self.hosts.table());
        self
    }

    /// The same, where what was known of groups and mailboxes is lost: tasks that go on may still
    /// use contexts of groups of before.
    #[must_use]
    pub fn without_tasks(self) -> Self {
        let registry = Registry::of_life(self.hosts.snapshot().term);
        Self { registry, ..self }
    }

    /// The same, where one of its hosts goes on alone in this term, and begins a log anew with it.
    #[must_use]
    pub fn go_on(self, term: u64, leader: HostId) -> Self {
        let mut state = Self { hosts: self.hosts.go_on(term, leader), applied: 0, ..self };
        // As where another one comes to lead: who asked is answered by nobody else, and takes
        // nothing.
        for task in state.registered.clone() {
            state.registry.forget_waits(task);
        }
        state.promises.may_be_behind(state.hosts.table());
        state
    }

    /// A member's copy: the hosts of a snapshot.
    pub fn from_snapshot(snapshot: Snapshot) -> Self {
        Self::new(ControlLog::from_snapshot(snapshot))
    }

    /// The hosts, and their place in the log that members follow.
    pub const fn snapshot(&self) -> &Snapshot {
        self.hosts.snapshot()
    }

    /// The host table.
    pub const fn table(&self) -> &HostTable {
        self.hosts.table()
    }

    /// Who leads.
    pub const fn leader(&self) -> HostId {
        self.hosts.leader()
    }

    /// Groups and mailboxes.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Tasks that asked the registry.
    pub const fn registered(&self) -> &BTreeSet<TaskId> {
        &self.registered
    }

    /// How many answers may have to be given again.
    pub fn answers_kept(&self) -> usize {
        self.answers.len()
    }

    /// Keys of deleted hosts that are not up again, and who they were.
    pub const fn deleted(&self) -> &BTreeMap<[u8; 32], HostId> {
        &self.deleted
    }

    /// Tokens that were issued.
    pub const fn invitations(&self) -> &Invitations {
        &self.invitations
    }

    /// Keys of the hosts that may know the tokens' secrets.
    pub const fn keepers(&self) -> &BTreeSet<[u8; 32]> {
        &self.keepers
    }

    /// Whether a host may have unique tasks.
    pub fn may_have_unique(&self, host: HostId) -> bool {
        self.unique.contains(&host)
    }

    /// Whether a host is known as one that may know the tokens' secrets.
    pub fn is_keeper(&self, host: HostId) -> bool {
        self.table().get(host).is_some_and(|h| self.keepers.contains(&h.key))
    }

    /// The same, past all commands.
    #[cfg(test)]
    pub(crate) const fn promises_mut(&mut self) -> &mut Promises {
        &mut self.promises
    }

    /// What is promised of the network.
    pub const fn promises(&self) -> &Promises {
        &self.promises
    }

    /// Tasks of one host that asked the registry.
    pub fn registered_of(&self, host: HostId) -> Vec<TaskId> {
        let ends = [1, TASK_MAX].map(|n| host.task(n).expect("both are task numbers"));
        self.registered.range(ends[0]..=ends[1]).copied().collect()
    }

    /// A member applies an entry from its leader.
    pub fn follow(&mut self, entry: &Entry) -> Result<(), LogError> {
        self.hosts.apply(entry)
    }

    /// Applies the command that was committed at `index`; one applied before has no effect. There
    /// may be gaps: a log may have entries of its own.
    pub fn apply(&mut self, index: u64, command: Command) -> Vec<Effect> {
        if index <= self.applied {
            return Vec::new();
        }
        self.applied = index;
        let mut effects = Vec::new();
        match command {
            Command::Join(join) => self.join(join, &mut effects),
            Command::Lost(host) => self.lost(host, &mut effects),
            Command::Leave(leave) => self.leave(leave, &mut effects),
            Command::Lead(host) => self.lead(host, &mut effects),
            Command::Voters(hosts) => self.change(Change::Voters(hosts), &mut effects),
            Command::Keeps(host) => self.keeps(host),
            Command::Unique(host) if self.is_up(host) => {
                self.unique.insert(host);
                effects.push(Effect::Confirmed(host));
            }
            Command::Unique(_) => {}
            Command::Drain(drain) => self.drain(drain, &mut effects),
            Command::Invite(Invite { issued, at_unix_s }) => {
                effects.push(Effect::Issued(self.invitations.issue(issued, at_unix_s)));
            }
            Command::Revoke(nonce) => {
                effects.push(Effect::Revoked(self.invitations.revoke(&nonce)));
            }
            Command::Network(text) => {
                let outcome = self.promises.set(self.hosts.table(), text);
                effects.push(Effect::Network(outcome));
            }
            Command::Promise(promise) => self.promise(&promise, &mut effects),
            Command::Release(Release { host, number }) => self.promises.release(host, number),
            Command::Again(again) => self.again(again, &mut effects),
            Command::Holds(holds) => {
                let up = self.is_up(holds.host);
                let unknown = if up { self.promises.holds(&holds) } else { Vec::new() };
                let said = |n| Effect::Promised(holds.host, n, Err(Fault::NotFound));
                effects.extend(unknown.into_iter().map(said));
            }
            Command::FreeOrphans(hosts) => self.promises.free_orphans(self.hosts.table(), &hosts),
            Command::Ask(ask) => self.ask(ask, &mut effects),
            Command::TaskOver(task) => self.task_over(task),
            Command::ForgetWaits(host) => {
                for task in self.registered_of(host) {
                    self.registry.forget_waits(task);
                }
            }
            Command::Halt(_) => effects.push(Effect::Halt),
        }
        while let Some(reply) = self.registry.poll() {
            for (asker, number) in &reply.askers {
                self.answers.give(*asker, *number, &reply.answer);
            }
            effects.push(Effect::Reply(reply));
        }
        let released = self.answers.released_by_mail(self.registry.released());
        let settled = self.answers.released();
        effects.extend(released.into_iter().chain(settled).map(Effect::Released));
        effects
    }

    /// For a deliberate bug: the last command may be applied once more.
    #[cfg(plant)]
    pub const fn forget_applied(&mut self) {
        self.applied -= 1;
    }

    fn ask(&mut self, ask: Ask, effects: &mut Vec<Effect>) {
        let Ask { asker, number, serial, op } = ask;
        // Its host may have gone since it asked.
        let up = self.is_up(asker.host());
        let again = if up { self.answers.ask(asker, number, serial) } else { None };
        if up && again.is_none() {
            self.registered.insert(asker);
            return self.registry.apply(asker, number, op);
        }
        if let Some(answer) = again {
            let askers = [(asker, number)].into();
            effects.push(Effect::Reply(Reply { askers, answer }));
        }
        if let RegistryOp::Put { content: Body::Kept(kept), .. } = op {
            effects.push(Effect::Released(kept));
        }
    }

    fn promise(&mut self, promise: &Promise, effects: &mut Vec<Effect>) {
        // Its host may have gone since it asked.
        if self.is_up(promise.host) {
            let outcome = self.promises.promise(self.hosts.table(), promise);
            effects.push(Effect::Promised(promise.host, promise.number, outcome));
        }
    }

    fn again(&mut self, again: Again, effects: &mut Vec<Effect>) {
        let Promise { host, number, .. } = again.promise;
        if self.is_up(host) {
            let outcome = self.promises.again(self.hosts.table(), again);
            effects.push(Effect::Promised(host, number, outcome));
        }
    }

    /// What hosts keep of mailbox entries, and of answers that may have to be given again.
    pub fn kept(&self) -> BTreeSet<Kept> {
        let mut kept = self.registry.kept();
        kept.extend(self.answers.kept());
        kept
    }

    fn is_up(&self, host: HostId) -> bool {
        self.table().get(host).is_some_and(|h| h.state == HostState::Up)
    }

    fn change(&mut self, change: Change, effects: &mut Vec<Effect>) {
        effects.push(Effect::Changed(self.hosts.append(change)));
    }

    fn join(&mut self, join: Join, effects: &mut Vec<Effect>) {
        let old = self.table().by_key(&join.key).cloned();
        // Others may have used it up since this one came.
        let token = join.token.filter(|_| old.is_none());
        if join.token.is_none() && self.deleted.contains_key(&join.key) {
            // It was in the table when it came, and has been deleted since.
            return effects.push(Effect::Uninvited(NotGood::Revoked));
        }
        if let Some(Err(why)) = token.map(|shown| self.invitations.judge(&shown)) {
            return effects.push(Effect::Uninvited(why));
        }
        if let Some(Host { id, state: HostState::Up, .. }) = old {
            self.lost(id, effects);
        }
        let fields = self.table().iter().filter(|h| h.key != join.key).map(|h| h.fields.len());
        let fits = fields.sum::<usize>() + join.fields.len() <= FIELDS_ALL_MAX;
        let slot = self.table().free_slot().filter(|_| fits);
        let id = slot.and_then(|slot| HostId::new(slot, self.hosts.next_incarnation()));
        let Some(id) = id else { return effects.push(Effect::Full) };
        if let Some(Shown { nonce, .. }) = token {
            self.invitations.count(&nonce);
        }
        let Join { key, name, addr, arch, speed, cpus, slots, fields, .. } = join;
        // Who was lost, and is back, is drained as it was; who left, or was taken out, begins anew.
        let mut fields = fields.without(DRAINS);
        if old.as_ref().is_some_and(Host::drains) {
            let _ = fields.set(DRAINS, &[]);
        }
        // Names tell hosts apart for people: no two alike, and each for as long as it can be.
        let taken = self.table().iter().any(|h| h.name == name && h.key != key);
        let name = match old.filter(|old| is_with_slot(&old.name, &name)) {
            Some(old) => old.name,
            None if taken => with_slot(&name, id.slot()),
            None => name,
        };
        self.deleted.remove(&key);
        let state = HostState::Up;
        let host = Host { id, name, addr, key, arch, speed, cpus, slots, state, fields };
        self.change(Change::Added(host), effects);
        effects.push(Effect::Joined(id));
    }

    /// Another host leads. Tasks that wait for an answer of the one before ask this one again.
    fn lead(&mut self, host: HostId, effects: &mut Vec<Effect>) {
        if !self.is_up(host) {
            return;
        }
        self.change(Change::Leads(host), effects);
        self.keeps(host);
        for task in self.registered.clone() {
            self.registry.forget_waits(task);
        }
    }

    fn lost(&mut self, host: HostId, effects: &mut Vec<Effect>) {
        if self.is_up(host) {
            self.change(Change::Lost(host), effects);
            self.host_over(host);
        }
    }

    fn drain(&mut self, drain: Drain, effects: &mut Vec<Effect>) {
        let Drain { host, on } = drain;
        let up = self.table().get(host).filter(|h| h.state == HostState::Up);
        if up.is_some_and(|h| h.drains() != on) {
            self.change(Change::Drains(host, on), effects);
        }
    }

    fn leave(&mut self, leave: Leave, effects: &mut Vec<Effect>) {
        let Leave { host, deleted } = leave;
        let Some(key) = self.table().get(host).map(|h| h.key) else { return };
        if deleted {
            self.remember_deleted(key, host);
            // It may come with any token that it knows of.
            if self.keepers.remove(&key) {
                let revoked = self.invitations.revoke_all();
                effects.extend((revoked > 0).then_some(Effect::AllRevoked(host, revoked)));
            }
        }
        self.change(Change::Left(host), effects);
        self.host_over(host);
    }

    /// A host, as who leads now, will know the secrets of tokens.
    fn keeps(&mut self, host: HostId) {
        let keys = [host, self.leader()].map(|host| self.table().get(host).map(|h| h.key));
        if self.keepers.len() + 2 > KEEPERS_MAX {
            self.keepers.clear();
            self.invitations.revoke_all();
        }
        self.keepers.extend(keys.into_iter().flatten());
    }

    fn remember_deleted(&mut self, key: [u8; 32], host: HostId) {
        let oldest = self.deleted.iter().min_by_key(|(_, host)| host.incarnation());
        if let Some((oldest, _)) = oldest.filter(|_| self.deleted.len() >= DELETED_MAX) {
            let oldest = *oldest;
            self.deleted.remove(&oldest);
        }
        self.deleted.insert(key, host);
    }

    /// A host is gone, and all its tasks with it.
    fn host_over(&mut self, host: HostId) {
        self.unique.remove(&host);
        for task in self.registered_of(host) {
            self.task_over(task);
        }
    }

    fn task_over(&mut self, task: TaskId) {
        if self.registered.remove(&task) {
            self.answers.forget(task);
            self.registry.task_over(task);
        }
    }

    /// As bytes, the version before them.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, [STATE_VERSION].into()).expect("a vector takes any body")
    }

    /// Takes bytes apart.
    pub fn decode(bytes: &[u8]) -> Result<Self, StateError> {
        let (version, body) = bytes.split_first().ok_or(StateError::Malformed)?;
        if *version != STATE_VERSION {
            return Err(StateError::Version(*version));
        }
        match postcard::take_from_bytes::<Self>(body) {
            Ok((mut state, []))
                if state.invitations.is_within_limit() && state.keepers.len() <= KEEPERS_MAX =>
            {
                state.answers.name_again(&state.registry.kept());
                state.snapshot().check().map_err(StateError::Refused).map(|()| state)
            }
            _ => Err(StateError::Malformed),
        }
    }
}

/// Why bytes are no control state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// They do not decode.
    #[error("the control state does not decode")]
    Malformed,
    /// They are of another version.
    #[error("control state of version {0}, this build knows {STATE_VERSION}")]
    Version(u8),
    /// They say what must be known, and is not.
    #[error("the control state: {0}")]
    Refused(ParseError),
}

/// Tells a proposal from others of the same leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What became of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the next command, at this index.
    Committed(u64, Ticket, Command),
    /// This host leads no longer: whether it will be is not known here.
    Dropped(Ticket),
}

/// The log that puts commands into one order. Nothing may rely on a command's being committed when
/// [`Commits::propose`] returns, nor on its being committed at all.
pub trait Commits: fmt::Debug {
    /// Asks for a command.
    fn propose(&mut self, command: Command) -> Ticket;
    /// What became of a proposal, in the order of the log.
    fn poll(&mut self) -> Option<Outcome>;
}

/// A name that is taken, with what tells its host apart; no longer than a name may be.
pub fn with_slot(name: &str, slot: u16) -> String {
    let mark = format!("~{slot}");
    let front = name.floor_char_boundary(NAME_MAX - mark.len());
    format!("{}{mark}", &name[..front])
}

/// Whether a name is `plain`, or `plain` with what told its host apart when it joined.
pub fn is_with_slot(name: &str, plain: &str) -> bool {
    let marked = |(front, slot): (&str, &str)| {
        slot.parse().is_ok_and(|slot| with_slot(plain, slot) == name) && !front.is_empty()
    };
    name == plain || name.rsplit_once('~').is_some_and(marked)
}

#[cfg(test)]
mod tests;
