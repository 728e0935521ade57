//! Why a collective operation fails, and how members tell each other.

use alloc::vec::Vec;

use towpath_wire::bytes::{ParseError, Reader, Writer};

use super::format::Call;

/// Why an operation failed. Ranks are those of the team; `rank` is the member at fault, whoever
/// reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectiveError {
    /// A member whose part was needed has ended.
    #[error("rank {rank} ended before it had done its part")]
    MemberLost {
        /// The member.
        rank: u32,
    },
    /// A member's part is not as long as it must be.
    #[error("rank {rank} has {got} bytes where {expected} are expected")]
    Length {
        /// The member.
        rank: u32,
        /// Length of its part.
        got: u64,
        /// Length that it must have.
        expected: u64,
    },
    /// A member is in another operation than the others.
    #[error("rank {rank} takes part in {got} where {expected} is expected")]
    Operation {
        /// The member.
        rank: u32,
        /// Its operation.
        got: Call,
        /// The operation of whoever noticed.
        expected: Call,
    },
    /// A member sent what no member sends.
    #[error("rank {rank} sent a message that cannot be read")]
    Malformed {
        /// The member.
        rank: u32,
    },
    /// A member sent more messages than the operation has.
    #[error("rank {rank} sent more messages than an operation has, {limit} together")]
    Flooded {
        /// The member that sent the last one.
        rank: u32,
        /// Messages that may wait within an operation.
        limit: u64,
    },
    /// A part is larger than this member takes.
    #[error("rank {rank} has {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Whose part it is.
        rank: u32,
        /// Its length.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A member could not go on, for a reason of its own.
    #[error("rank {rank} could not go on")]
    GaveUp {
        /// The member.
        rank: u32,
    },
}

/// Why an operation cannot begin here: a mistake of the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The root is not a member.
    #[error("root {root} is not in a team of {size}")]
    Root {
        /// The root.
        root: u32,
        /// Number of members.
        size: u32,
    },
    /// There must be one part for each member.
    #[error("{got} parts for a team of {expected}")]
    Parts {
        /// Number of parts.
        got: u64,
        /// Number of members.
        expected: u64,
    },
    /// The root has no data, or another member has some.
    #[error("the root of a {operation} gives the data, and nobody else")]
    RootData {
        /// Which operation.
        operation: &'static str,
    },
    /// The data are not whole elements.
    #[error("{bytes} bytes are not whole elements of {element} bytes")]
    Ragged {
        /// Length of the data.
        bytes: u64,
        /// Length of an element.
        element: u64,
    },
    /// The data are more than a member may have.
    #[error("{bytes} bytes of data, more than the limit of {limit} for one member")]
    TooLarge {
        /// Length of the data.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}

impl CollectiveError {
    /// As other members are told: `0 kind | 1..5 rank | 5..13 | 13..21 figures`.
    pub(super) fn emit(&self) -> Vec<u8> {
        let (kind, rank, a, b) = match *self {
            Self::MemberLost { rank } => (0, rank, 0, 0),
            Self::Length { rank, got, expected } => (1, rank, got, expected),
            Self::Operation { rank, got, expected } => {
                (2, rank, u64::from(got.to_raw()), u64::from(expected.to_raw()))
            }
            Self::Malformed { rank } => (3, rank, 0, 0),
            Self::Flooded { rank, limit } => (4, rank, limit, 0),
            Self::TooLarge { rank, bytes, limit } => (5, rank, bytes, limit),
            Self::GaveUp { rank } => (6, rank, 0, 0),
        };
        let mut out = alloc::vec![0; 21];
        let mut w = Writer::new(&mut out);
        w.u8(kind);
        w.u32(rank);
        w.u64(a);
        w.u64(b);
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(bytes);
        let (kind, rank, a, b) = (r.u8()?, r.u32()?, r.u64()?, r.u64()?);
        Ok(match kind {
            0 => Self::MemberLost { rank },
            1 => Self::Length { rank, got: a, expected: b },
            2 => {
                let (got, expected) = (Call::from_raw(a as u32), Call::from_raw(b as u32));
                Self::Operation { rank, got, expected }
            }
            4 => Self::Flooded { rank, limit: a },
            5 => Self::TooLarge { rank, bytes: a, limit: b },
            6 => Self::GaveUp { rank },
            _ => Self::Malformed { rank },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_to_other_members_as_they_are() {
        let (got, expected) = (Call::from_raw(7), Call::from_raw(9));
        for (kind, error) in [
            (0, CollectiveError::MemberLost { rank: 3 }),
            (1, CollectiveError::Length { rank: 3, got: 5, expected: 1 << 40 }),
            (2, CollectiveError::Operation { rank: 3, got, expected }),
            (3, CollectiveError::Malformed { rank: 3 }),
            (4, CollectiveError::Flooded { rank: 3, limit: 1 << 40 }),
            (5, CollectiveError::TooLarge { rank: 3, bytes: 7, limit: 6 }),
            (6, CollectiveError::GaveUp { rank: 3 }),
        ] {
            let bytes = error.emit();
            assert_eq!((bytes.len(), bytes[0], bytes[1]), (21, kind, 3));
            assert_eq!(CollectiveError::parse(&bytes), Ok(error));
            assert!(CollectiveError::parse(&bytes[..20]).is_err());
        }
        // What a later version tells.
        let mut bytes = CollectiveError::GaveUp { rank: 3 }.emit();
        bytes[0] = 7;
        assert_eq!(CollectiveError::parse(&bytes), Ok(CollectiveError::Malformed { rank: 3 }));
    }
}
