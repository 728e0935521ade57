//! One replica: what it is asked, told and asks for.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::config::{Config, READS_MAX, STATE_MAX};
use super::disk::{Disk, Write};
use super::entry::{Body, COMMAND_MAX, Command, Entry, Members, ReplicaId};
use super::leading::Lead;
use super::log::{Log, Snapshot};
use super::message::{Message, Payload};
use super::reads::Read;
use super::receiving::Incoming;

/// The log that several hosts keep, as its owner drives it. Nothing in it waits, reads a clock or
/// draws a number.
pub trait ReplicatedLog: fmt::Debug {
    /// A tick has gone by; `draw` is a random number.
    fn tick(&mut self, draw: u64);
    /// A message came.
    fn step(&mut self, message: Message);
    /// What is to be written and sent by now. To be called after anything else was.
    fn take(&mut self) -> Taken;
    /// All writes up to this one are on the disk.
    fn durable(&mut self, number: u64);
    /// Asks for an entry.
    fn propose(&mut self, proposal: Proposal) -> Result<Place, ProposeError>;
    /// What was committed, in order, each once.
    fn decided(&mut self) -> Option<Decided>;
}

/// What a replica wants done.
#[derive(Debug, Default)]
pub struct Taken {
    /// To be written after all that was handed out before, and then told by
    /// [`ReplicatedLog::durable`].
    pub write: Option<Write>,
    /// To be sent, now.
    pub messages: Vec<Message>,
    /// To be answered once the state holds their entries.
    pub reads: Vec<Read>,
    /// Reads that are not answered: this replica leads no longer.
    pub reads_dropped: Vec<u64>,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// A session.
    Open {
        /// By which whoever asks knows it again.
        nonce: u64,
    },
    /// A command of a session.
    Command(Command),
}

/// Where a proposal stands in the log. It is decided when an entry with this index is: if its term
/// is another one, the proposal is not in the log there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The term.
    pub term: u64,
    /// The index.
    pub index: u64,
}

/// What was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// An entry.
    Entry(Entry),
    /// All up to an entry, in the place of what the state held before.
    Snapshot(Arc<Snapshot>),
}

/// Why something was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Another one leads, if anyone.
    #[error("this replica does not lead{}", Leads(*.0))]
    NotLeader(Option<ReplicaId>),
    /// The leader gives way.
    #[error("the lead is being handed over to replica {0}")]
    HandingOver(ReplicaId),
    /// Too much is not committed yet.
    #[error("{bytes} bytes are not committed yet, limit {limit}")]
    Full {
        /// How much.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// It is too long.
    #[error("a command has {len} bytes, limit {COMMAND_MAX}")]
    Long {
        /// How long.
        len: usize,
    },
    /// It is not known yet what is committed: the leader is new.
    #[error("the leader of term {0} has committed nothing in it yet")]
    New(u64),
    /// Too many reads wait.
    #[error("{READS_MAX} reads wait already")]
    Reads,
}

struct Leads(Option<ReplicaId>);

impl fmt::Display for Leads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => write!(f, ", replica {id} does"),
            None => write!(f, ", and knows none that does"),
        }
    }
}

/// Why a replica has ended itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// Its identity was started twice.
    #[error("replica {0} was started twice: from a copy of its directory, or from an old one")]
    Superseded(ReplicaId),
    /// A leader contradicts what is committed here.
    #[error("entry {index} is committed, and the leader of term {term} has another one there")]
    Contradicted {
        /// Of the entry.
        index: u64,
        /// Of the leader.
        term: u64,
    },
}

/// Who this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which life of the log.
    pub generation: u64,
    /// Which disk.
    pub id: ReplicaId,
    /// How often it was started from that disk.
    pub boot: u32,
    /// Drawn for this start.
    pub life: u64,
}

/// What a replica starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The last term.
    pub term: u64,
    /// Who had its vote in it.
    pub vote: Option<ReplicaId>,
    /// The last snapshot.
    pub snapshot: Snapshot,
    /// All entries after it.
    pub entries: Vec<Entry>,
}

impl Stored {
    /// A log that begins with these voters and this state. All of them begin with the same, or one
    /// begins alone and takes the others in.
    pub fn found(members: Members, state: Vec<u8>) -> Self {
        let snapshot = Snapshot { index: 1, term: 1, members, state };
        Self { term: 1, vote: None, snapshot, entries: Vec::new() }
    }

    /// Term and index of the last entry.
    pub fn last(&self) -> (u64, u64) {
        let last = self.entries.last().map(|entry| (entry.term, entry.index));
        last.unwrap_or((self.snapshot.term, self.snapshot.index))
    }

    /// Who takes part as of the last entry.
    pub fn members(&self) -> &Members {
        let named = |entry: &'_ Entry| matches!(entry.body, Body::Members(_));
        match self.entries.iter().rev().find(|entry| named(entry)).map(|entry| &entry.body) {
            Some(Body::Members(members)) => members,
            _ => &self.snapshot.members,
        }
    }

    /// Nothing: a newcomer's. It votes for nobody before a leader has sent it the log.
    pub fn empty() -> Self {
        let snapshot =
            Snapshot { index: 0, term: 0, members: Members::default(), state: Vec::new() };
        Self { term: 0, vote: None, snapshot, entries: Vec::new() }
    }
}

/// What a replica is doing.
#[derive(Debug)]
pub(crate) enum Role {
    Follower { leader: Option<ReplicaId> },
    PreCandidate(BTreeMap<ReplicaId, bool>),
    Candidate(BTreeMap<ReplicaId, bool>),
    Leader(Lead),
}

/// What a replica is doing, for who looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleName {
    /// It follows, if there is somebody.
    Follower,
    /// It asks whether it would be elected.
    PreCandidate,
    /// It asks to be elected.
    Candidate,
    /// It leads.
    Leader,
}

/// What came that was of no use, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// For somebody else.
    pub misdirected: u64,
    /// Of another life of the log.
    pub generation: u64,
    /// From somebody who was started again since, or runs twice.
    pub superseded: u64,
    /// Of an earlier term.
    pub old_term: u64,
    /// Asks for votes while a leader is heard.
    pub led: u64,
    /// Snapshots with another checksum than was said.
    pub damaged: u64,
    /// Of a term that no log reaches: there must be one after each.
    pub beyond: u64,
}

/// Terms go up to here: one for each nanosecond of 292 years.
const TERM_MAX: u64 = u64::MAX >> 1;

/// Who was heard under an identity.
#[derive(Clone, Copy, Debug)]
struct Seen {
    boot: u32,
    life: u64,
    /// Two with one boot number: neither is heard until one is started again.
    twins: bool,
}

/// Most identities that are remembered.
const SEEN_MAX: usize = 256;

/// One replica. Invariants: `handed ≤ commit ≤ log.last_index()`; `log.snapshot().index ≤ handed`
/// but while a snapshot waits to be handed out; what is told to others about term, vote and entries
/// is on the disk.
#[derive(Debug)]
pub struct Replica {
    pub(crate) config: Config,
    pub(crate) me: Identity,
    pub(crate) term: u64,
    pub(crate) vote: Option<ReplicaId>,
    pub(crate) role: Role,
    pub(crate) log: Log,
    pub(crate) commit: u64,
    /// The last entry that [`ReplicatedLog::decided`] gave out.
    handed: u64,
    /// The snapshot is to be given out first.
    restored: bool,
    pub(crate) disk: Disk,
    /// Ticks since a leader was heard, a vote given, or an election begun.
    pub(crate) elapsed: u32,
    /// When an election is due; drawn at the next tick.
    pub(crate) timeout: Option<u32>,
    pub(crate) incoming: Option<Incoming>,
    pub(crate) out: Taken,
    seen: BTreeMap<ReplicaId, Seen>,
    halt: Option<Halt>,
    pub(crate) refused: Refused,
}

impl Replica {
    /// A replica that goes on from what its disk holds.
    pub fn new(config: Config, me: Identity, stored: Stored) -> Self {
        let Stored { term, vote, snapshot, entries } = stored;
        let (index, log) = (snapshot.index, Log::new(snapshot, entries));
        Self {
            config,
            me,
            term,
            vote,
            role: Role::Follower { leader: None },
            commit: index,
            handed: index,
            restored: index > 0,
            disk: Disk::with(log.last_index()),
            log,
            elapsed: 0,
            timeout: None,
            incoming: None,
            out: Taken::default(),
            seen: BTreeMap::new(),
            halt: None,
            refused: Refused::default(),
        }
    }

    /// Who this is.
    pub const fn identity(&self) -> Identity {
        self.me
    }

    /// The term.
    pub const fn term(&self) -> u64 {
        self.term
    }

    /// Up to here all is committed, as far as is known here.
    pub const fn commit(&self) -> u64 {
        self.commit
    }

    /// The last entry that was given out.
    pub const fn handed(&self) -> u64 {
        self.handed
    }

    /// Index of the last entry.
    pub fn last_index(&self) -> u64 {
        self.log.last_index()
    }

    /// Index of the last snapshot: all entries that are here come after it.
    pub fn snapshot_index(&self) -> u64 {
        self.log.snapshot().index
    }

    /// Whether the last change of members is committed.
    pub fn is_settled(&self) -> bool {
        self.log.members_since() <= self.commit
    }

    /// The term of the entry at an index that is not before the last snapshot.
    pub fn term_at(&self, index: u64) -> Option<u64> {
        self.log.term_at(index)
    }

    /// The entry at an index that is after the last snapshot.
    pub fn entry(&self, index: u64) -> Option<&Entry> {
        self.log.get(index)
    }

    /// Bytes of all entries since the last snapshot: a reason to make one.
    pub const fn log_bytes(&self) -> usize {
        self.log.bytes()
    }

    /// Who takes part, as of the last entry.
    pub fn members(&self) -> &Members {
        self.log.members()
    }

    /// What it does.
    pub const fn role(&self) -> RoleName {
        match self.role {
            Role::Follower { .. } => RoleName::Follower,
            Role::PreCandidate(_) => RoleName::PreCandidate,
            Role::Candidate(_) => RoleName::Candidate,
            Role::Leader(_) => RoleName::Leader,
        }
    }

    /// Who leads, as far as is known here.
    pub const fn leader(&self) -> Option<ReplicaId> {
        match self.role {
            Role::Follower { leader } => leader,
            Role::Leader(_) => Some(self.me.id),
            Role::PreCandidate(_) | Role::Candidate(_) => None,
        }
    }

    /// Why it has ended itself, if it has. It then does nothing any more.
    pub const fn halt(&self) -> Option<Halt> {
        self.halt
    }

    /// What came that was of no use.
    pub const fn refused(&self) -> Refused {
        self.refused
    }

    /// Messages that were dropped, since too many waited for the disk.
    pub const fn dropped(&self) -> u64 {
        self.disk.dropped
    }

    /// Asks for the state as of now: what was committed before the question is in the answer.
    pub fn read(&mut self, ticket: u64) -> Result<(), ProposeError> {
        let is_new = self.log.term_at(self.commit) != Some(self.term);
        let (term, read) = (self.term, Read { ticket, index: self.commit });
        let not = ProposeError::NotLeader(self.leader());
        let Role::Leader(lead) = &mut self.role else { return Err(not) };
        if is_new {
            return Err(ProposeError::New(term));
        }
        if lead.reads.len() >= READS_MAX {
            return Err(ProposeError::Reads);
        }
        #[cfg(plant)]
        if self.config.plant == super::config::Plant::StaleRead {
            self.out.reads.push(read);
            return Ok(());
        }
        lead.reads.push(read);
        Ok(())
    }

    /// Takes what the state machine holds, all up to [`Self::handed`], for a snapshot.
    ///
    /// # Panics
    /// With more than [`STATE_MAX`] bytes.
    pub fn compact(&mut self, state: Vec<u8>) {
        assert!(state.len() <= STATE_MAX, "a state of {} bytes, limit {STATE_MAX}", state.len());
        let index = self.handed;
        if index <= self.log.snapshot().index || self.restored {
            return;
        }
        let term = self.log.term_at(index).expect("what was given out is there");
        let members = self.log.members_at(index).clone();
        self.log.install(Snapshot { index, term, members, state });
        self.disk.replace(&self.log, self.term, self.vote);
    }

    /// Whether the disk has not taken all that was handed out.
    pub const fn waits_for_disk(&self) -> bool {
        self.disk.waits()
    }

    /// Has all that it holds written anew: what it was founded with is on no disk yet.
    pub fn keep_all(&mut self) {
        self.disk.replace(&self.log, self.term, self.vote);
    }

    /// Whether a message is from somebody who is to be heard.
    fn hears(&mut self, m: &Message) -> bool {
        if m.to != self.me.id {
            self.refused.misdirected += 1;
            return false;
        }
        if m.generation != self.me.generation {
            self.refused.generation += 1;
            return false;
        }
        if m.from == self.me.id {
            // Only one with the same identity sends that.
            self.refused.superseded += 1;
            return false;
        }
        let (boot, life) = (m.boot, m.life);
        let known = self.seen.get(&m.from).copied();
        let seen = known.unwrap_or(Seen { boot, life, twins: false });
        let now = match boot.cmp(&seen.boot) {
            core::cmp::Ordering::Less => seen,
            core::cmp::Ordering::Greater => Seen { boot, life, twins: false },
            core::cmp::Ordering::Equal => Seen { twins: seen.twins || life != seen.life, ..seen },
        };
        if known.is_some() || self.seen.len() < SEEN_MAX {
            self.seen.insert(m.from, now);
        }
        if now.twins || boot < now.boot {
            self.refused.superseded += 1;
            self.send(0, m.from, self.term, Payload::Superseded { boot, life });
            return false;
        }
        true
    }

    /// Puts a message out once write `after` is on the disk.
    pub(crate) fn send(&mut self, after: u64, to: ReplicaId, term: u64, payload: Payload) {
        let Identity { generation, id, boot, life } = self.me;
        let message = Message { generation, from: id, to, boot, life, term, payload };
        #[cfg(plant)]
        let after = if self.config.plant == super::config::Plant::SkippedSync { 0 } else { after };
        if self.disk.is_durable(after) {
            self.out.messages.push(message);
        } else {
            self.disk.hold(after, message);
        }
    }

    pub(crate) fn stop(&mut self, why: Halt) {
        self.follow(None);
        self.out.messages.clear();
        self.halt = Some(why);
    }

    /// Becomes a follower in this term.
    pub(crate) fn follow(&mut self, leader: Option<ReplicaId>) {
        if let Role::Leader(lead) = core::mem::replace(&mut self.role, Role::Follower { leader }) {
            self.out.reads_dropped.extend(lead.reads.drop_all());
        }
        self.elapsed = 0;
        self.timeout = None;
    }

    /// A later term has begun.
    pub(crate) fn enter(&mut self, term: u64, vote: Option<ReplicaId>) {
        debug_assert!(term > self.term, "terms ascend");
        (self.term, self.vote) = (term, vote);
        self.disk.vote(term, vote);
    }

    /// What came from a later term, or from an earlier one. True if it is to be looked at.
    fn is_of_term(&mut self, m: &Message) -> bool {
        let granted = matches!(m.payload, Payload::PreVoteAnswer { granted: true });
        if m.term > self.term {
            match m.payload {
                Payload::PreVote { .. } => return true,
                Payload::Vote { handed_over: false, .. } if self.is_led() => {
                    self.refused.led += 1;
                    return false;
                }
                _ if granted => return true,
                _ => {}
            }
            self.enter(m.term, None);
            self.follow(None);
        } else if m.term < self.term {
            self.refused.old_term += 1;
            match m.payload {
                // Whoever leads in an earlier term is to know.
                Payload::Append { .. } | Payload::Beat { .. } | Payload::Piece(_) => {
                    let voted = self.disk.voted();
                    self.send(voted, m.from, self.term, Payload::BeatAnswer { round: 0 });
                }
                Payload::PreVote { .. } => {
                    let voted = self.disk.voted();
                    let answer = Payload::PreVoteAnswer { granted: false };
                    self.send(voted, m.from, self.term, answer);
                }
                _ => {}
            }
            return false;
        }
        true
    }

    /// Whether a leader is there, as far as can be known: no vote is given meanwhile.
    pub(crate) const fn is_led(&self) -> bool {
        self.leader().is_some() && self.elapsed < self.config.election_ticks
    }

    fn handle(&mut self, m: Message) {
        let from = m.from;
        match m.payload {
            Payload::PreVote { last_index, last_term } => {
                self.asked_before(from, m.term, (last_term, last_index));
            }
            Payload::Vote { last_index, last_term, .. } => {
                self.asked(from, (last_term, last_index));
            }
            Payload::PreVoteAnswer { granted } => self.pre_voted(from, m.term, granted),
            Payload::VoteAnswer { granted } => self.voted(from, granted),
            Payload::Append { prev_index, prev_term, commit, entries } => {
                if self.heard(from) {
                    self.append(from, (prev_index, prev_term), commit, entries);
                }
            }
            Payload::Beat { commit, round } => {
                if self.heard(from) {
                    self.commit_to(commit.min(self.log.last_index()));
                    let voted = self.disk.voted();
                    self.send(voted, from, self.term, Payload::BeatAnswer { round });
                }
            }
            Payload::Piece(piece) => {
                if self.heard(from) {
                    self.piece(from, &piece);
                }
            }
            Payload::Appended { matched } => self.appended(from, matched),
            Payload::Refused { prev_index, hint_index, hint_term } => {
                self.append_refused(from, prev_index, (hint_index, hint_term));
            }
            Payload::BeatAnswer { round } => self.beat_answered(from, round),
            Payload::PieceAnswer { index, offset } => self.piece_answered(from, index, offset),
            Payload::HandOver => self.handed_over(),
            Payload::Superseded { .. } => {}
        }
    }

    /// Something is committed.
    pub(crate) fn commit_to(&mut self, index: u64) {
        debug_assert!(index <= self.log.last_index(), "only what is there is committed");
        self.commit = self.commit.max(index);
    }

    /// The snapshot is given out before anything else.
    pub(crate) fn restore(&mut self) {
        self.commit = self.commit.max(self.log.snapshot().index);
        self.restored = true;
    }
}

impl ReplicatedLog for Replica {
    fn tick(&mut self, draw: u64) {
        if self.halt.is_some() {
            return;
        }
        self.disk.tick();
        if matches!(self.role, Role::Leader(_)) {
            self.tick_leading();
        } else {
            self.tick_waiting(draw);
        }
    }

    fn step(&mut self, message: Message) {
        if self.halt.is_some() {
            return;
        }
        if let Payload::Superseded { boot, life } = message.payload {
            let ours = message.to == self.me.id && message.generation == self.me.generation;
            if ours && (boot, life) == (self.me.boot, self.me.life) {
                self.stop(Halt::Superseded(self.me.id));
            }
            return;
        }
        if message.term > TERM_MAX {
            self.refused.beyond += 1;
            return;
        }
        if self.hears(&message) && self.is_of_term(&message) {
            self.handle(message);
        }
    }

    fn take(&mut self) -> Taken {
        if self.halt.is_some() {
            return Taken::default();
        }
        self.flush();
        let write = self.disk.write();
        Taken { write, ..core::mem::take(&mut self.out) }
    }

    fn durable(&mut self, number: u64) {
        if self.halt.is_none() && self.disk.durable(number) {
            let released = self.disk.released();
            self.out.messages.extend(released);
            self.own_vote();
            self.advance();
        }
    }

    fn propose(&mut self, proposal: Proposal) -> Result<Place, ProposeError> {
        let body = match proposal {
            Proposal::Open { nonce } => Body::Open { nonce },
            Proposal::Command(command) if command.bytes.len() > COMMAND_MAX => {
                return Err(ProposeError::Long { len: command.bytes.len() });
            }
            Proposal::Command(command) => Body::Command(command),
        };
        self.propose_body(body)
    }

    fn decided(&mut self) -> Option<Decided> {
        if core::mem::take(&mut self.restored) {
            self.handed = self.log.snapshot().index;
            return Some(Decided::Snapshot(Arc::clone(self.log.snapshot())));
        }
        if self.handed >= self.commit {
            return None;
        }
        self.handed += 1;
        Some(Decided::Entry(self.log.get(self.handed)?.clone()))
    }
}
