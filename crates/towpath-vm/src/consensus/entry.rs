//! What the replicated log consists of: who keeps it, and its entries.
//!
//! An entry as bytes, in a message or in a journal; its index stands around it:
//!
//! ```text
//! 0..8 term | 8 kind | 9..13 length n | 13..13+n body
//! 1 Empty    nothing
//! 2 Members  0..2 voters v | 2..4 learners l | then v + l ids of 8 bytes, ascending in each part
//! 3 Open     0..8 nonce
//! 4 Command  0..8 session | 8..16 number | 16..24 settled | then the command
//! ```
//! A kind is critical or skippable by [the rule of kinds](towpath_wire::parameter): a skippable one
//! that is not known is kept, passed on and applied as nothing; every replica does so alike.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;

use towpath_wire::bytes::{ParseError, Reader};
use towpath_wire::parameter;

/// Most voters. More add copies to every commit and no safety that anybody asks for.
pub const VOTERS_MAX: usize = 9;
/// Most learners at once.
pub const LEARNERS_MAX: usize = 16;
/// Longest command: beyond this a command passes what it carries by reference.
pub const COMMAND_MAX: usize = 64 << 10;
/// Bytes of an entry around its body.
pub const ENTRY_HEADER: usize = 13;
/// Longest body of an entry.
pub const BODY_MAX: usize = COMMAND_MAX + 24;

/// Names one life of one disk: a replica that lost its disk comes back under another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u64);

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Who takes part. Invariants: nobody is both; at most [`VOTERS_MAX`] and [`LEARNERS_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Those by whose majority entries are committed and leaders elected.
    pub voters: BTreeSet<ReplicaId>,
    /// Those who are only sent the log.
    pub learners: BTreeSet<ReplicaId>,
}

impl Members {
    /// Voters alone.
    pub fn of(voters: impl IntoIterator<Item = ReplicaId>) -> Self {
        Self { voters: voters.into_iter().collect(), learners: BTreeSet::new() }
    }

    /// All, in ascending order, each once.
    pub fn all(&self) -> BTreeSet<ReplicaId> {
        self.voters.union(&self.learners).copied().collect()
    }

    /// Whether it takes part.
    pub fn has(&self, id: ReplicaId) -> bool {
        self.voters.contains(&id) || self.learners.contains(&id)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for set in [&self.voters, &self.learners] {
            out.extend_from_slice(&(set.len() as u16).to_le_bytes());
        }
        for id in self.voters.iter().chain(&self.learners) {
            out.extend_from_slice(&id.0.to_le_bytes());
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, ParseError> {
        let voters = limited(r.u16()?.into(), VOTERS_MAX, "voters")?;
        let learners = limited(r.u16()?.into(), LEARNERS_MAX, "learners")?;
        let voters = ascending(r, voters)?;
        let members = Self { voters, learners: ascending(r, learners)? };
        match members.voters.intersection(&members.learners).next() {
            Some(both) => Err(ParseError::Unknown { field: "member in both", value: both.0 }),
            None => Ok(members),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

/// A number up to its limit.
pub(crate) fn limited(
    value: usize,
    limit: usize,
    field: &'static str,
) -> Result<usize, ParseError> {
    if value > limit {
        return Err(ParseError::Limit { field, value: value as u64, limit: limit as u64 });
    }
    Ok(value)
}

fn ascending(r: &mut Reader<'_>, count: usize) -> Result<BTreeSet<ReplicaId>, ParseError> {
    let mut last = 0;
    let mut all = BTreeSet::new();
    for _ in 0..count {
        let id = r.u64()?;
        if id <= last {
            return Err(ParseError::Unknown { field: "member out of order", value: id });
        }
        last = id;
        all.insert(ReplicaId(id));
    }
    Ok(all)
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing: a leader's first, since only entries of its own term are committed by counting.
    Empty,
    /// These take part from here on.
    Members(Members),
    /// A session begins; its number is the index of this entry.
    Open {
        /// By which whoever asked knows it again.
        nonce: u64,
    },
    /// A command of a session.
    Command(Command),
    /// A skippable kind of a later build.
    Other {
        /// Which.
        kind: u8,
        /// As it came.
        bytes: Vec<u8>,
    },
}

/// A command of a session: applied once, however often it is proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Which session.
    pub session: u64,
    /// Counts the session's commands, from 1.
    pub number: u64,
    /// All up to this one have been answered, and are never proposed again.
    pub settled: u64,
    /// For the state machine.
    pub bytes: Vec<u8>,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The term of the leader that made it.
    pub term: u64,
    /// Its place, from 1, without gaps.
    pub index: u64,
    /// What it says.
    pub body: Body,
}

mod kind {
    pub(super) const EMPTY: u8 = 1;
    pub(super) const MEMBERS: u8 = 2;
    pub(super) const OPEN: u8 = 3;
    pub(super) const COMMAND: u8 = 4;
}

impl Entry {
    /// Bytes that it takes in a message.
    pub fn size(&self) -> usize {
        let body = match &self.body {
            Body::Empty => 0,
            Body::Members(m) => 4 + 8 * (m.voters.len() + m.learners.len()),
            Body::Open { .. } => 8,
            Body::Command(c) => 24 + c.bytes.len(),
            Body::Other { bytes, .. } => bytes.len(),
        };
        ENTRY_HEADER + body
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.term.to_le_bytes());
        out.push(match &self.body {
            Body::Empty => kind::EMPTY,
            Body::Members(_) => kind::MEMBERS,
            Body::Open { .. } => kind::OPEN,
            Body::Command(_) => kind::COMMAND,
            Body::Other { kind, .. } => *kind,
        });
        out.extend_from_slice(&((self.size() - ENTRY_HEADER) as u32).to_le_bytes());
        match &self.body {
            Body::Empty => {}
            Body::Members(members) => members.encode(out),
            Body::Open { nonce } => out.extend_from_slice(&nonce.to_le_bytes()),
            Body::Command(command) => {
                for word in [command.session, command.number, command.settled] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
                out.extend_from_slice(&command.bytes);
            }
            Body::Other { bytes, .. } => out.extend_from_slice(bytes),
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>, index: u64) -> Result<Self, ParseError> {
        let (term, kind) = (r.u64()?, r.u8()?);
        let len = limited(r.u32()? as usize, BODY_MAX, "bytes of an entry")?;
        let mut body = Reader::new(r.take(len)?);
        let body = match kind {
            kind::EMPTY => Body::Empty,
            kind::MEMBERS => Body::Members(Members::decode(&mut body)?),
            kind::OPEN => Body::Open { nonce: body.u64()? },
            kind::COMMAND => Body::Command(Command {
                session: body.u64()?,
                number: body.u64()?,
                settled: body.u64()?,
                bytes: body.rest().into(),
            }),
            other => {
                parameter::unknown("entry of the replicated log", other)?;
                Body::Other { kind, bytes: body.rest().into() }
            }
        };
        Ok(Self { term, index, body })
    }
}
