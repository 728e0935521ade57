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
}
