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
use towpath_vm::Snapshot;
use towpath_vm::consensus::Stored;
use towpath_vm::control::{ControlState, StateError};
use towpath_wire::bytes::ParseError;
use towpath_wire::id::SLOT_MAX;
use towpath_wire::{HostId, Instant, TaskId};

use crate::ledger::Ledger;

/// Terms below this bit count leaders; those from it on, how often a founder has led again alone,
/// whoever led meanwhile: what was decided before that is earlier than all that comes after.
const GENERATION: u32 = 32;

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

    /// The term of what was kept.
    pub const fn term(&self) -> u64 {
        self.snapshot.term
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

    /// The same with groups and mailboxes, as what was written of them ([`Node::to_write`]) says.
    /// That of an earlier life than the table's is passed over: false.
    ///
    /// [`Node::to_write`]: crate::Node::to_write
    pub fn remember(&mut self, written: &Stored) -> Result<bool, SavedError> {
        let state = Ledger::read(written)?;
        let leader = |of: &Snapshot| of.table.get(of.leader).map(|host| host.key);
        let (own, theirs) = (&self.snapshot, state.snapshot());
        let is_of_it = theirs.term >= own.term && leader(theirs) == leader(own);
        if is_of_it && theirs.place() > own.place() {
            // The table had not reached the disk since.
            (self.snapshot, self.deleted) = (theirs.clone(), state.deleted().clone());
        }
        self.state = is_of_it.then(|| Box::new(state));
        Ok(is_of_it)
    }

    /// The same for a founder that is to lead alone, whoever may lead meanwhile.
    #[must_use]
    pub fn alone(mut self) -> Self {
        let term = &mut self.snapshot.term;
        self.alone = true;
        // Later than any term that the others may have come to since.
        *term = ((*term >> GENERATION) + 1) << GENERATION;
        self
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
}

/// Keys of deleted hosts, and who they were.
pub(crate) type Deleted = BTreeMap<[u8; 32], HostId>;
