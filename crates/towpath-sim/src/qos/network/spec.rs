//! What a network is made of.

use serde::{Deserialize, Serialize};
use towpath_qos::scheduler::{ConfigError, Discipline, PortConfig, QueueId};
use towpath_qos::spec::TSpec;

use super::source::Source;
use crate::qos::cpu::Sharing;

/// An egress: a scheduler and the link behind it.
#[derive(Clone, Debug)]
pub struct PortSpec {
    /// Name for people.
    pub name: String,
    /// Order in which packets leave.
    pub discipline: Discipline,
    /// Rate and limits.
    pub config: PortConfig,
    /// From the end of a packet's transmission to its being ready at the next node: propagation
    /// and the node's processing.
    pub latency_ns: u64,
}

/// A host's processors and what packets cost them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostSpec {
    /// Processors; a channel's packets stay on one of them. 1 to 64.
    pub cpus: u32,
    /// How packet work shares them with everything else.
    pub sharing: Sharing,
    /// Time to send one packet.
    pub send_ns: u64,
    /// Time to send 1024 bytes, beside that.
    pub send_ns_per_kib: u64,
    /// Time to take in one packet.
    pub receive_ns: u64,
    /// Time to take in 1024 bytes, beside that.
    pub receive_ns_per_kib: u64,
    /// Packet work that may wait for a processor; a packet beyond it is dropped.
    pub waiting_us_max: u64,
}

impl Default for HostSpec {
    fn default() -> Self {
        Self {
            cpus: 1,
            sharing: Sharing::Dedicated,
            send_ns: 0,
            send_ns_per_kib: 0,
            receive_ns: 0,
            receive_ns_per_kib: 0,
            waiting_us_max: 10_000_000,
        }
    }
}

impl HostSpec {
    /// Cost of sending a packet of `bytes`, ns, rounded up.
    pub const fn send_cost_ns(&self, bytes: u32) -> u64 {
        self.send_ns + (self.send_ns_per_kib * bytes as u64).div_ceil(1024)
    }

    /// Cost of taking one in, ns, rounded up.
    pub const fn receive_cost_ns(&self, bytes: u32) -> u64 {
        self.receive_ns + (self.receive_ns_per_kib * bytes as u64).div_ceil(1024)
    }
}

/// What keeps a source from running ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Pacing {
    /// Nothing: a full queue drops.
    #[default]
    Open,
    /// A full queue at its own host blocks it.
    Blocking,
    /// As many packets under way as this; each delivery lets the next go, as TCP does when its
    /// window is full. A lost packet's place comes back with the next delivery.
    Window {
        /// Packets under way, 1 to 65 536.
        packets: u32,
        /// Time of the acknowledgement's way back.
        ack_us: u64,
    },
}

/// A port of a route and the queue there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index that [`Network::add_port`](super::Network::add_port) gave.
    pub port: u32,
    /// Queue of that port.
    pub queue: QueueId,
    /// What a packet is early here, it carries on to the next port that holds packets.
    pub early: Early,
}

/// How a port deals with packets that are ahead of their budgets (Verma, Zhang and Ferrari 1991:
/// the next node's regulator holds a packet for what the one before took less than promised).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Early {
    /// The scheduler says how early a packet is, and the next one is told.
    #[default]
    Scheduler,
    /// The budget says; what was carried here is carried on.
    Carry {
        /// From arrival to the end of transmission.
        budget_ns: u64,
    },
    /// As `Carry`, but what was carried here is handed to this port's scheduler, which holds the
    /// packet for so long.
    Hold {
        /// From the end of the hold to the end of transmission.
        budget_ns: u64,
    },
}

impl Hop {
    /// A queue of a port, its scheduler having the say.
    pub const fn new(port: u32, queue: QueueId) -> Self {
        Self { port, queue, early: Early::Scheduler }
    }
}

/// A flow of packets.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// Name for people.
    pub name: String,
    /// Sending host.
    pub from: u32,
    /// Receiving host.
    pub to: u32,
    /// Its ports in order, the sending host's first.
    pub hops: Vec<Hop>,
    /// Where its packets come from.
    pub source: Source,
    /// What holds them back.
    pub pacing: Pacing,
    /// Regulator between the sender's processor and its first port, so that what enters the
    /// network conforms however the processor served it. Packets larger than it allows are lost.
    pub shaper: Option<TSpec>,
    /// What it was promised: greatest time from release to delivery.
    pub bound_ns: Option<u64>,
    /// Packets whose times are kept one by one: how many to pass over, how many to keep.
    pub series: (u32, u32),
}

impl FlowSpec {
    /// What is wrong with it: field, its value, what it must be.
    pub(super) fn fault(&self) -> Option<(&'static str, u64, &'static str)> {
        if self.hops.is_empty() || self.hops.len() > 64 {
            return Some(("ports of the route", self.hops.len() as u64, "1 to 64"));
        }
        match self.pacing {
            Pacing::Window { packets, .. } if !(1..=65_536).contains(&packets) => {
                return Some(("window packets", packets.into(), "1 to 65536"));
            }
            Pacing::Window { ack_us, .. } if ack_us > 3_600_000_000 => {
                return Some(("ack_us", ack_us, "at most an hour"));
            }
            Pacing::Open if self.source.unbounded() => {
                let must = "1 where the source is greedy without a specification";
                return Some(("pacing (window or blocking)", 0, must));
            }
            _ => {}
        }
        self.source.fault()
    }
}

/// Why a network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// A port or queue that its scheduler refuses.
    #[error("port {port}: {error}")]
    Port {
        /// The port.
        port: String,
        /// What the scheduler said.
        error: ConfigError,
    },
    /// Something is named that there is not.
    #[error("{what} {index} is unknown, there are {count}")]
    Unknown {
        /// Host, port.
        what: &'static str,
        /// The index named.
        index: u32,
        /// How many there are.
        count: usize,
    },
    /// A number outside its limits.
    #[error("{of}: {field} is {value}, must be {must}")]
    Range {
        /// Host, port or flow.
        of: String,
        /// Field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        must: &'static str,
    },
}
