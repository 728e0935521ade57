//! What can be wrong with what a peer wrote.

/// A peer's pages say what they cannot say. The pair is of no use any more; nothing outside it
/// was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Corrupt {
    /// A record of a kind that there is not.
    #[error("a record in shared memory has the unknown kind {kind}")]
    Kind {
        /// What stands there.
        kind: u8,
    },
    /// A record whose payload is not where payloads are, or longer than they may be.
    #[error("a record in shared memory says {len} bytes at {at}, outside of its {what}")]
    Place {
        /// What it should lie in.
        what: &'static str,
        /// Where it would begin: bytes, or arena pages.
        at: u64,
        /// How long it would be, in bytes.
        len: u64,
    },
    /// A piece that does not lie within its message.
    #[error("a record in shared memory says {len} bytes at {offset} of a message of {total}")]
    Piece {
        /// Length of the piece.
        len: u64,
        /// Where it would begin.
        offset: u64,
        /// Length of the message.
        total: u64,
    },
    /// A count of records taken that were never sent, or that goes back.
    #[error("a peer says it took {taken} records, between {least} and {most} are possible")]
    Taken {
        /// What it says.
        taken: u64,
        /// What it said before.
        least: u64,
        /// What was sent.
        most: u64,
    },
    /// A block given back that the peer does not hold.
    #[error("a peer gives back block {ticket}, which it does not hold")]
    Ticket {
        /// What it says.
        ticket: u32,
    },
}
