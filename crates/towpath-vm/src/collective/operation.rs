//! What a team can do together.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::pin::Pin;

use super::error::{CollectiveError, StartError};
use super::format::Call;
use super::machine::Member;
use super::operator::Operator;
use super::payload::Payload;
use super::team::Team;
use super::{all_to_all, barrier, broadcast, gather, reduce, scan, scatter};

/// Whether the members' parts must be of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// They must; else the operation fails and names the member.
    Equal,
    /// Each part has its own length (the "v" of MPI's names).
    Any,
}

/// An operation, with what this member gives to it.
#[derive(Debug)]
pub enum Operation {
    /// Ends when all have begun it.
    Barrier,
    /// Everyone gets the root's bytes.
    Broadcast {
        /// Who has the data.
        root: u32,
        /// The data, at the root; nobody else knows their length beforehand.
        data: Option<Payload>,
    },
    /// The root gets all members' vectors combined.
    Reduce {
        /// Who gets the result.
        root: u32,
        /// This member's vector; all must have the same length.
        data: Payload,
        /// What they are combined by.
        operator: Operator,
    },
    /// Everyone gets all members' vectors combined, the same bits everywhere.
    AllReduce {
        /// This member's vector; all must have the same length.
        data: Payload,
        /// What they are combined by.
        operator: Operator,
    },
    /// The root gets all members' parts.
    Gather {
        /// Who gets the parts.
        root: u32,
        /// This member's part.
        data: Payload,
        /// Whether all must have the same length.
        lengths: Lengths,
    },
    /// Everyone gets all members' parts.
    AllGather {
        /// This member's part.
        data: Payload,
        /// Whether all must have the same length.
        lengths: Lengths,
    },
    /// Each member gets its part from the root.
    Scatter {
        /// Who has the parts.
        root: u32,
        /// One part for each rank, at the root.
        parts: Option<Vec<Payload>>,
    },
    /// Each member gets a part from each member.
    AllToAll {
        /// One part for each rank; whoever does not need its own back may leave that one empty.
        parts: Vec<Payload>,
        /// Whether all parts of all members must have the same length.
        lengths: Lengths,
    },
    /// Each member gets the vectors of the ranks up to its own combined, in their order.
    Scan {
        /// This member's vector; all must have the same length.
        data: Payload,
        /// What they are combined by.
        operator: Operator,
    },
    /// The same without its own; rank 0 gets nothing.
    ExclusiveScan {
        /// This member's vector; all must have the same length.
        data: Payload,
        /// What they are combined by.
        operator: Operator,
    },
}

/// What a member gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Nothing but the end of the operation.
    None,
    /// One part, or a combined vector.
    One(Payload),
    /// One part for each rank.
    Many(Vec<Payload>),
}

fn check_data(bytes: usize, limit: u64) -> Result<(), StartError> {
    let bytes = bytes as u64;
    if bytes > limit { Err(StartError::TooLarge { bytes, limit }) } else { Ok(()) }
}

fn check_vector(data: &Payload, operator: &Operator, limit: u64) -> Result<(), StartError> {
    check_data(data.len(), limit)?;
    let (bytes, element) = (data.len() as u64, operator.element_bytes() as u64);
    if bytes % element == 0 { Ok(()) } else { Err(StartError::Ragged { bytes, element }) }
}

fn check_parts(parts: &[Payload], size: u32, limit: u64) -> Result<(), StartError> {
    let (got, expected) = (parts.len() as u64, u64::from(size));
    if got != expected {
        return Err(StartError::Parts { got, expected });
    }
    parts.iter().try_for_each(|part| check_data(part.len(), limit))
}

impl Operation {
    fn root(&self) -> Option<u32> {
        match *self {
            Self::Broadcast { root, .. }
            | Self::Reduce { root, .. }
            | Self::Gather { root, .. }
            | Self::Scatter { root, .. } => Some(root),
            _ => None,
        }
    }

    pub(super) fn check(&self, team: &Team) -> Result<(), StartError> {
        let (size, limit) = (team.size(), team.settings.bytes_max);
        if let Some(root) = self.root().filter(|root| *root >= size) {
            return Err(StartError::Root { root, size });
        }
        let only_root = |given: bool, operation| {
            let is_root = self.root() == Some(team.rank());
            if given == is_root { Ok(()) } else { Err(StartError::RootData { operation }) }
        };
        match self {
            Self::Barrier => Ok(()),
            Self::Broadcast { data, .. } => {
                only_root(data.is_some(), "broadcast")?;
                data.as_ref().map_or(Ok(()), |data| check_data(data.len(), limit))
            }
            Self::Reduce { data, operator, .. }
            | Self::AllReduce { data, operator }
            | Self::Scan { data, operator }
            | Self::ExclusiveScan { data, operator } => check_vector(data, operator, limit),
            Self::Gather { data, .. } | Self::AllGather { data, .. } => {
                check_data(data.len(), limit)
            }
            Self::Scatter { parts, .. } => {
                only_root(parts.is_some(), "scatter")?;
                parts.as_ref().map_or(Ok(()), |parts| check_parts(parts, size, limit))
            }
            Self::AllToAll { parts, .. } => check_parts(parts, size, limit),
        }
    }

    pub(super) fn call(&self, team: &Team) -> Call {
        let (code, signature) = match self {
            // Members that meet by words do not meet those that send messages.
            Self::Barrier if team.settings.host_stage => (10, 0),
            Self::Barrier => (0, 0),
            Self::Broadcast { .. } => (1, 0),
            Self::Reduce { operator, .. } => (2, operator.signature()),
            Self::AllReduce { operator, .. } => (3, operator.signature()),
            Self::Gather { .. } => (4, 0),
            Self::AllGather { .. } => (5, 0),
            Self::Scatter { .. } => (6, 0),
            Self::AllToAll { .. } => (7, 0),
            Self::Scan { operator, .. } => (8, operator.signature()),
            Self::ExclusiveScan { operator, .. } => (9, operator.signature()),
        };
        Call::new(code, signature, self.root().unwrap_or(0))
    }

    /// What `member` does.
    pub(super) fn program(
        self,
        member: Member,
    ) -> Pin<Box<dyn Future<Output = Result<Output, CollectiveError>>>> {
        match self {
            Self::Barrier => Box::pin(barrier::run(member)),
            Self::Broadcast { root, data } => Box::pin(broadcast::run(member, root, data)),
            Self::Reduce { root, data, operator } => {
                Box::pin(reduce::to_root(member, root, data, operator))
            }
            Self::AllReduce { data, operator } => Box::pin(reduce::to_all(member, data, operator)),
            Self::Gather { root, data, lengths } => {
                Box::pin(gather::to_root(member, root, data, lengths))
            }
            Self::AllGather { data, lengths } => Box::pin(gather::to_all(member, data, lengths)),
            Self::Scatter { root, parts } => Box::pin(scatter::run(member, root, parts)),
            Self::AllToAll { parts, lengths } => Box::pin(all_to_all::run(member, parts, lengths)),
            Self::Scan { data, operator } => Box::pin(scan::inclusive(member, data, operator)),
            Self::ExclusiveScan { data, operator } => {
                Box::pin(scan::exclusive(member, data, operator))
            }
        }
    }
}
