//! Why a replay comes to nothing.

/// Why a record does not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Ranks do not take part in the same collectives in the same order.
    #[error(
        "line {line}: rank {rank} and rank 0 differ in collective {number}: all ranks take part \
         in the same ones"
    )]
    Collective {
        /// Of the record as a file.
        line: usize,
        /// Who differs from rank 0.
        rank: usize,
        /// Which of its collectives, from 1.
        number: usize,
    },
    /// A rank waits for ever.
    #[error("line {line}: rank {rank} waits for a message of rank {from} that never comes")]
    Never {
        /// Of the record as a file.
        line: usize,
        /// Who waits.
        rank: usize,
        /// For whose.
        from: usize,
    },
    /// Too much.
    #[error("{what} are more than {limit}, the limit of a replay")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much there may be.
        limit: u64,
    },
}
