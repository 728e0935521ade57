//! What came of a transfer.

use serde::Serialize;

use super::curve::Curve;
use crate::link::LinkStats;

/// What came of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransferReport {
    /// The scenario's sentence.
    pub about: String,
    /// Its seed.
    pub seed: u64,
    /// Simulated seconds.
    pub seconds: f64,
    /// Hash over every datagram sent: same scenario and seed, same hash.
    pub trace_hash: String,
    /// Datagrams that came out of links' ends.
    pub datagrams: u64,
    /// Flows, in the scenario's order.
    pub flows: Vec<FlowReport>,
    /// Links, by name.
    pub links: Vec<LinkReport>,
    /// Promises not kept.
    pub broken: Vec<String>,
}

/// What came of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// Bytes delivered, each counted once.
    pub bytes: u64,
    /// From the connection to the last acknowledgement, or to the end of the run.
    pub seconds: f64,
    /// Bytes delivered per time.
    pub goodput_bps: f64,
    /// The same over the later half of the run's samples.
    pub later_half_bps: f64,
    /// Datagrams that the sender sent.
    pub packets_sent: u64,
    /// Full data packets that the bytes would have fitted into.
    pub packets_needed: u64,
    /// Datagrams that the sender counted as lost.
    pub packets_lost: u64,
    /// Of those, how many had arrived after all.
    pub spurious: u64,
    /// Data packets with something sent before.
    pub repaired: u64,
    /// Times that nothing was acknowledged in time.
    pub probes: u64,
    /// Mean of the sender's smoothed round-trip time over the samples, in milliseconds.
    pub rtt_ms_mean: f64,
    /// Most message memory that the sender and the receiver ever used.
    pub memory_bytes_max: [u64; 2],
    /// The flow over time.
    pub samples: Vec<Sample>,
    /// Sequence, acknowledgement and credit over time.
    #[serde(skip)]
    pub curve: Curve,
}

/// A flow at one time. Counts are since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Simulated time in milliseconds.
    pub at_ms: u64,
    /// Bytes delivered.
    pub delivered_bytes: u64,
    /// The sender's smoothed round-trip time in microseconds.
    pub rtt_us: u64,
    /// Data packets with something sent before.
    pub repaired: u64,
    /// Datagrams that counted as lost.
    pub lost: u64,
    /// Bytes that wait at the first link of its route on which most wait.
    pub queue_bytes: u64,
}

/// What came of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkReport {
    /// Its name.
    pub name: String,
    /// Share of the time in which it was sending, at its first rate.
    pub load: f64,
    /// Counters.
    pub stats: LinkStats,
}
