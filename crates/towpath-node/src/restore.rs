//! A founder that starts again: from the table that it kept, as the same host in a new life.
//!
//! What it kept may be behind what it had decided, so it decides nothing before it has asked the
//! members for the place of their last entry: the latest state that any of them has is taken. It
//! calls them, since it may receive elsewhere now. Then it leads in a new term, with a gap in the
//! indices, so that nothing that a member out of reach has heard of is numbered twice.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use towpath_proto::HostKey;
use towpath_vm::consensus::{ReplicaId, Stored};
use towpath_vm::control::{ControlState, StateError};
use towpath_vm::{HostState, Snapshot};
use towpath_wire::bytes::ParseError;
use towpath_wire::id::SLOT_MAX;
use towpath_wire::{HostId, Instant, TaskId};

use crate::config::JoinTarget;
use crate::ledger::Ledger;
use crate::voters::host_of;

/// Terms below this bit count leaders; those from it on, how often a founder has led again alone,
/// whoever led meanwhile: what was decided before that is earlier than all that comes after.
const GENERATION: u32 = 32;

/// Later than any term that others may come to after this one.
pub(crate) const fn next_generation(term: u64) -> u64 {
    ((term >> GENERATION) + 1) << GENERATION
}

/// What a founder keeps on its disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    pub(crate) snapshot: Snapshot,
    /// Keys of deleted hosts, and who they were.
    pub(crate) deleted: Deleted,
    /// How many are to keep the log at most.
    pub(crate) voters: u8,
    /// The last term that any life of the founder may have led in, kept or not.
    #[serde(skip)]
    pub(crate) led: u64,
    /// It is to lead alone, whoever may lead by now.
    #[serde(skip)]
    pub(crate) alone: bool,
    /// All that it had decided, where that was written down.
    #[serde(skip)]
    pub(crate) state: Option<Box<ControlState>>,
    /// In which life of the log, and the term and the index of the last entry in it.
    #[serde(skip)]
    pub(crate) life: u64,
    #[serde(skip)]
    pub(crate) last: (u64, u64),
    /// Who voted then, by keys; `None` is one that was lost or has left since, which decides
    /// nothing any more.
    #[serde(skip)]
    pub(crate) voted: Vec<Option<[u8; 32]>>,
    /// The host was let in, and keeps all this only while it keeps the log.
    #[serde(skip)]
    pub(crate) let_in: bool,
    /// It was given a token, too.
    #[serde(skip)]
    pub(crate) target: Option<Box<JoinTarget>>,
}

/// How far what a host kept goes: the term, which life of the log that several keep was written
/// down, and the last entry of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptTo {
    pub(crate) term: u64,
    pub(crate) life: u64,
    pub(crate) last: (u64, u64),
    /// It runs, with all its tasks: of equals it is the one to go on.
    pub(crate) lives: bool,
}

impl KeptTo {
    /// Whether this goes further than another host's: in one life of a log its last entry says so,
    /// else how often one has come to lead.
    pub fn is_beyond(&self, other: &Self) -> bool {
        if self.life == other.life && self.life != 0 {
            (self.last, self.lives) > (other.last, other.lives)
        } else {
            (self.term, self.last) > (other.term, other.last)
        }
    }
}

/// Why a kept table is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    /// It does not decode.
    #[error("it does not decode")]
    Malformed,
    /// It holds more than a table may.
    #[error("it has {hosts} hosts, limit {SLOT_MAX}")]
    TooMany {
        /// How many.
        hosts: usize,
    },
    /// It says what must be known, and is not.
    #[error("{0}")]
    Refused(ParseError),
    /// It is another host's.
    #[error("it belongs to a host with another key")]
    OtherKey,
    /// What was decided does not decode.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Saved {
    pub(crate) fn new(snapshot: Snapshot, deleted: Deleted, voters: u8) -> Self {
        let (led, alone, state) = (0, false, None);
        let (life, last, voted, let_in, target) = (0, (0, 0), Vec::new(), false, None);
        Self { snapshot, deleted, voters, led, alone, state, life, last, voted, let_in, target }
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("a vector takes any body")
    }

    /// Takes bytes apart.
    pub fn decode(bytes: &[u8]) -> Result<Self, SavedError> {
        let Ok((saved, [])) = postcard::take_from_bytes::<Self>(bytes) else {
            return Err(SavedError::Malformed);
        };
        let hosts = saved.snapshot.table.len();
        if hosts > usize::from(SLOT_MAX) {
            return Err(SavedError::TooMany { hosts });
        }
        saved.snapshot.check().map_err(SavedError::Refused)?;
        Ok(saved)
    }

    /// Where the founder, which has this key, received, as its hosts know.
    pub fn addr(&self, key: &HostKey) -> Option<SocketAddr> {
        self.snapshot.table.by_key(&key.0).map(|h| h.addr)
    }

    /// How long silent hosts were waited for, in milliseconds.
    pub const fn lost_after_ms(&self) -> u32 {
        self.snapshot.lost_after_ms
    }

    /// The same, where the founder may have led in terms up to this one without keeping anything:
    /// what it decided then is not numbered again.
    #[must_use]
    pub fn led(self, led: u64) -> Self {
        Self { led, ..self }
    }

    /// The same with groups and mailboxes, as what was written of them ([`Node::to_write`]) in that
    /// life of the log says. That of an earlier life than the table's is passed over: false.
    ///
    /// [`Node::to_write`]: crate::Node::to_write
    pub fn remember(&mut self, life: u64, written: &Stored) -> Result<bool, SavedError> {
        let state = Ledger::read(written)?;
        let leader = |of: &Snapshot| of.table.get(of.leader).map(|host| host.key);
        let (own, theirs) = (&self.snapshot, state.snapshot());
        let is_later = theirs.term >= own.term && leader(theirs) == leader(own);
        // Of several that keep the log, another one may have come to lead, and the disk may have
        // heard of that by the table alone; or this one has begun again, and the table has not
        // followed yet.
        let is_shared = own.is_shared() || theirs.is_shared();
        let is_of_it = is_later || is_shared && theirs.term >> GENERATION >= own.term >> GENERATION;
        if !is_of_it {
            return Ok(false);
        }
        // Of what was written nobody knows whether it was decided; what the table has, was.
        let key = |id: &ReplicaId| {
            let host = host_of(*id)?;
            let is_known =
                own.table.get(host).is_some() || u64::from(host.incarnation()) <= own.index;
            let table = if is_known { &own.table } else { &theirs.table };
            table.get(host).filter(|host| host.state == HostState::Up).map(|host| host.key)
        };
        self.voted = written.members().voters.iter().map(key).collect();
        (self.life, self.last) = (life, written.last());
        if theirs.place() > own.place() {
            // The table had not reached the disk since.
            (self.snapshot, self.deleted) = (theirs.clone(), state.deleted().clone());
        }
        self.state = Some(Box::new(state));
        Ok(true)
    }

    /// The same for a host that was let in, and keeps this only while it keeps the log.
    #[must_use]
    pub fn let_in(self) -> Self {
        Self { let_in: true, ..self }
    }

    /// The same for a host that was given a token, for where what it kept is of no use.
    #[must_use]
    pub fn or_by(self, target: JoinTarget) -> Self {
        Self { target: Some(Box::new(target)), ..self }
    }

    /// Those that voted, as far as they can have decided anything since: whatever was decided, one
    /// of them has. `None`: not even all of them together can know.
    pub(crate) fn voters_left(&self) -> Option<impl Iterator<Item = &[u8; 32]>> {
        let left = || self.voted.iter().flatten();
        (2 * left().count() > self.voted.len()).then(left)
    }

    /// How far it goes.
    pub const fn kept_to(&self) -> KeptTo {
        let (term, life, last) = (self.snapshot.term, self.life, self.last);
        KeptTo { term, life, last, lives: false }
    }

    /// Whether all hosts, as far as is known, and all that voted have one of these keys: nobody
    /// else can lead.
    pub fn are_all(&self, keys: &[HostKey]) -> bool {
        let is_here = |key: &[u8; 32]| keys.iter().any(|own| own.0 == *key);
        self.voters_left().is_some_and(|mut voters| voters.all(is_here))
            && self.snapshot.table.up().all(|host| is_here(&host.key))
    }

    /// Whether a host with this key is, or was, one of these hosts.
    pub fn knows(&self, key: &HostKey) -> bool {
        self.snapshot.table.by_key(&key.0).is_some() || self.deleted.contains_key(&key.0)
    }

    /// The same for a founder that is to lead alone, whoever may lead meanwhile.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self.snapshot.term = self.next_generation();
        self
    }

    const fn next_generation(&self) -> u64 {
        next_generation(self.snapshot.term)
    }

    /// The last term before those that it may come to lead in.
    pub const fn before(&self) -> u64 {
        if self.is_shared() && !self.alone { self.next_generation() } else { self.snapshot.term }
    }

    /// Whether others may lead by now.
    pub const fn is_shared(&self) -> bool {
        self.snapshot.is_shared()
    }

    /// How many are to keep the log at most.
    pub const fn voters(&self) -> u8 {
        self.voters
    }

    /// True when there is nobody to come back to: no other host is up.
    pub fn is_alone(&self) -> bool {
        self.snapshot.table.up().count() <= 1
    }

    /// True when it names deleted hosts, so that they are told when they come back.
    pub fn names_deleted(&self) -> bool {
        !self.deleted.is_empty()
    }
}

/// A founder that asks its members before it leads again.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Members that have not answered.
    pub(crate) waiting: BTreeSet<HostId>,
    pub(crate) until: Instant,
    /// The last term that it may have led in.
    pub(crate) led: u64,
    /// What it had decided.
    pub(crate) state: Option<Box<ControlState>>,
    /// Tasks that ask about groups and mailboxes, as their hosts say.
    pub(crate) registered: BTreeMap<HostId, BTreeSet<TaskId>>,
    /// Since when members say that another daemon has this host's key.
    pub(crate) copied: Option<Instant>,
}

/// Keys of deleted hosts, and who they were.
pub(crate) type Deleted = BTreeMap<[u8; 32], HostId>;
