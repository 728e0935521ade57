//! What came of an experiment.

use serde::{Deserialize, Serialize};

use super::scenario::Quantity;
use crate::qos::histogram::Summary;
use crate::qos::network::{Miss, Point, PortStats};
use crate::qos::signal::{SignalReport, Verdict};

/// Results of a run, in the order of the scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// The seed it ran with.
    pub seed: u64,
    /// Simulated time.
    pub duration_ms: u64,
    /// One per channel.
    pub channels: Vec<ChannelReport>,
    /// One per direction of each link.
    pub ports: Vec<PortReport>,
    /// One per host.
    pub hosts: Vec<HostReport>,
    /// How reservations were set up, where they were.
    pub signalling: Option<SignalReport>,
    /// The source's tables beside ours.
    pub references: Vec<Comparison>,
    /// Packets sent by all ports.
    pub packet_hops: u64,
    /// Hash over every delivery, hexadecimal: the same for the same scenario and seed.
    pub trace: String,
}

/// A channel's results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelReport {
    /// Its name.
    pub name: String,
    /// The answer to its request, where there was one. A refused channel sent nothing.
    pub verdict: Option<Verdict>,
    /// What it had reserved or asked for.
    pub reserved_bps: u64,
    /// Packets handed to the network.
    pub released: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Packets dropped by a full queue.
    pub lost_queue: u64,
    /// Packets dropped by a host without processor time.
    pub lost_host: u64,
    /// Payload between first and last delivery.
    pub payload_bps: u64,
    /// Wire bytes between first and last delivery.
    pub wire_bps: u64,
    /// From release to delivery.
    pub delay: Summary,
    /// Between two deliveries.
    pub gap: Summary,
    /// From having a packet to its release.
    pub shaping: Summary,
    /// Greatest delay minus least.
    pub jitter_ns: u64,
    /// What it was promised.
    pub bound_ns: Option<u64>,
    /// Packets later than that.
    pub beyond: u64,
    /// The first of them.
    pub first_miss: Option<Miss>,
    /// Packets one by one.
    pub series: Vec<Point>,
}

/// A port's results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortReport {
    /// Its node and the next.
    pub name: String,
    /// Its rate.
    pub rate_bps: u64,
    /// What it sent, in millionths of what it could have sent.
    pub busy_ppm: u64,
    /// Its counts.
    pub stats: PortStats,
}

/// A host's results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReport {
    /// Its name.
    pub name: String,
    /// Processor time of packets, in millionths of one processor.
    pub busy_ppm: u64,
}

/// A table of the source beside our channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// Which table.
    pub label: String,
    /// Our channel.
    pub channel: String,
    /// What is compared.
    pub quantity: Quantity,
    /// The source's figures.
    pub theirs: Summary,
    /// Ours, over the whole run.
    pub ours: Summary,
    /// The source's values, for plots.
    pub theirs_us: Vec<u64>,
    /// Both without interruptions, where the source has that, too.
    pub smooth: Option<Smooth>,
}

/// A table of the source and our channel, both without the packets that an interruption held up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Smooth {
    /// Values of at least so many nanoseconds are interruptions.
    pub interruption_ns: u64,
    /// The source's figures without them.
    pub theirs: Summary,
    /// Of the packets of ours that are kept one by one, those without them.
    pub ours: Summary,
    /// How many the source's table has.
    pub theirs_left_out: u64,
    /// How many as many packets of ours have.
    pub ours_left_out: u64,
}

impl Smooth {
    /// Of the source's values and as many of ours, in nanoseconds.
    pub(super) fn new(interruption_ns: u64, theirs: &[u64], ours: &[u64]) -> Self {
        let rest = |values: &[u64]| {
            let rest: Vec<u64> = values.iter().copied().filter(|v| *v < interruption_ns).collect();
            (Summary::of(&rest), (values.len() - rest.len()) as u64)
        };
        let ((theirs, theirs_left_out), (ours, ours_left_out)) = (rest(theirs), rest(ours));
        Self { interruption_ns, theirs, ours, theirs_left_out, ours_left_out }
    }
}
