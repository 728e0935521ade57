//! What came of a run.

use serde::Serialize;

use super::spec::ParallelSpec;
use crate::qos::Summary;

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParallelOutcome {
    /// What was run.
    pub spec: ParallelSpec,
    /// Content delivered, each packet once, in bits per second.
    pub delivered_bps: u64,
    /// Round trips of packets that were sent once: from their sending to their acknowledgement.
    pub rtt: Summary,
    /// Packets sent while it was measured, repeats included.
    pub sent: u64,
    /// Time-outs.
    pub timeouts: u64,
    /// Of those, time-outs of packets of which no copy had been lost.
    pub spurious: u64,
    /// Most packets that waited at the receiver for one before them.
    pub waiting_max: usize,
    /// Share of its time that the busiest processor worked, in millionths.
    pub busy_ppm: u64,
    /// Packets that arrived with none before them missing, from the beginning of the run.
    pub in_order: usize,
}
