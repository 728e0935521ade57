//! What is run, and what came of it.

use std::ops::RangeInclusive;
use std::time::Duration;

/// How many hosts there may be.
pub const HOSTS: RangeInclusive<u64> = 3..=9;
/// After the last fault has ended, each client is answered within this time: a hundred ticks for an
/// election that fails four times, and what clients and operators wait between their questions.
pub const AVAILABLE_AGAIN: Duration = Duration::from_secs(6);

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsensusScenario {
    /// Hosts, each with a voter; see [`HOSTS`].
    pub nodes: usize,
    /// For how long there are faults.
    pub faulty: Duration,
}

impl Default for ConsensusScenario {
    fn default() -> Self {
        Self { nodes: 5, faulty: Duration::from_secs(12) }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsensusOutcome {
    /// The seed.
    pub seed: u64,
    /// Same seed, same hash.
    pub trace_hash: u64,
    /// Faults.
    pub faults: u64,
    /// Terms with a leader.
    pub elections: u64,
    /// Entries committed.
    pub committed: u64,
    /// Operations of clients that were answered.
    pub answered: u64,
    /// Of these, how many had to be asked for more than once.
    pub repeated: u64,
    /// Replicas that lost their disk and were replaced.
    pub replaced: u64,
    /// Snapshots that went to another replica.
    pub snapshots: u64,
    /// Journals with a torn end.
    pub torn: u64,
    /// Messages.
    pub messages: u64,
    /// From the end of the last fault until every client had been answered.
    pub available_ms: u64,
    /// What was broken.
    pub violations: Vec<String>,
}
