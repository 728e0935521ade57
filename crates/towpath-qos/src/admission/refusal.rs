//! Why a request was refused: which resource, by how much, and what would pass.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// The part of the procedure that refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The request contradicts itself or the topology.
    Request,
    /// The sender's own processor and interface.
    Source,
    /// The receiver's own processor and interface.
    Destination,
    /// The whole route, at the master.
    Route,
}

/// The resource that is short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// A host's processor.
    Cpu(String),
    /// An egress, as `node:port`: an interface of a host, a port of a switch.
    Port(String),
    /// A switch's forwarding capacity.
    Fabric(String),
    /// Queue memory of a port, as `node:port`, or of a switch.
    Memory(String),
    /// All of the route together.
    Route(String),
    /// The reservation tables themselves.
    Table,
}

/// What is short, and by how much: `asked` is what this request needs, `free` what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Shortage {
    /// Bandwidth.
    #[error("rate: {asked} bit/s asked, {free} bit/s free")]
    RateBps {
        /// Needed.
        asked: u64,
        /// There.
        free: u64,
    },
    /// The bound asked for is below what can be promised: `least` is the least.
    #[error("delay: {asked} ns asked, {least} ns is the least")]
    DelayNs {
        /// Wanted for this resource, or in all.
        asked: u64,
        /// The least that can be promised.
        least: u64,
    },
    /// The jitter asked for is below what can be promised.
    #[error("jitter: {asked} ns asked, {least} ns is the least")]
    JitterNs {
        /// Wanted.
        asked: u64,
        /// Promised at best.
        least: u64,
    },
    /// No delay can be promised, or none of those that the port has: bursts do not fit. The
    /// window in which most is due, of all channels with this one, beyond what can be sent.
    #[error("bursts: {asked} bits are due within {window_ns} ns, {limit} bits can be sent")]
    DueBits {
        /// From the arrival of the bursts on, in ns.
        window_ns: u64,
        /// What is due then, with what may be in the way.
        asked: u64,
        /// What the port can send.
        limit: u64,
    },
    /// The scheduler promises shares only.
    #[error("the scheduler promises no delay")]
    ShareOnly,
    /// Queue memory.
    #[error("memory: {asked} bits asked, {free} bits free")]
    MemoryBits {
        /// Needed.
        asked: u64,
        /// There.
        free: u64,
    },
    /// Processor time, in parts per million of one processor.
    #[error("processor: {asked} ppm asked, {free} ppm free")]
    CpuPpm {
        /// Needed.
        asked: u64,
        /// There.
        free: u64,
    },
    /// Bursts at a processor, in ns of its time.
    #[error("processor: a burst takes {asked} ns, {free} ns are free within its budget")]
    CpuBurstNs {
        /// Needed.
        asked: u64,
        /// There.
        free: u64,
    },
    /// A packet, or a train, that would be in the way for longer than the port allows.
    #[error("packet of {asked} bits, at most {limit} bits are sent in one piece")]
    PacketBits {
        /// Its size.
        asked: u64,
        /// The port's limit.
        limit: u64,
    },
    /// The probability of being late.
    #[error(
        "late more often than asked: {asked} bit/s on average leave too little of {free} bit/s"
    )]
    Late {
        /// The averages of all statistical channels with this one.
        asked: u64,
        /// What hard promises leave.
        free: u64,
    },
    /// Too many channels.
    #[error("{limit} channels are reserved already")]
    Channels {
        /// The limit.
        limit: u64,
    },
    /// Not a host of the topology.
    #[error("node {0} is no host")]
    NoHost(u32),
    /// Source and destination are the same.
    #[error("a channel to oneself needs no reservation")]
    ToItself,
    /// A bound of zero, or below what propagation and processors take.
    #[error("delay: {asked} ns asked, propagation and processors take {fixed} ns")]
    Unreachable {
        /// Wanted.
        asked: u64,
        /// Taken before any queue.
        fixed: u64,
    },
}

/// The nearest request that passes, tested as a whole at the time of the refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nearest {
    /// The same traffic with this bound.
    DelayNs(u64),
    /// The same traffic and bound, with this bound on jitter.
    JitterNs(u64),
    /// The same bound with all rates and bursts scaled to these parts per 1024, in the units of
    /// the specification and rounded down, no burst below a packet; packets as they are. Of what
    /// counts packets all intervals are longer by as much, rounded up.
    Scaled {
        /// Of 1024.
        parts: u32,
        /// The sustained rate then.
        rate_bps: u64,
    },
    /// Both.
    ScaledDelayNs {
        /// Of 1024.
        parts: u32,
        /// The sustained rate then.
        rate_bps: u64,
        /// The bound then.
        delay_ns: u64,
    },
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("refused at {resource:?}: {shortage}")]
pub struct Refusal {
    /// Who refused.
    pub phase: Phase,
    /// The bottleneck.
    pub resource: Resource,
    /// What it lacks.
    pub shortage: Shortage,
    /// What would pass; `None` where a search found none.
    pub nearest: Option<Nearest>,
    /// It is certain that nothing of the kind passes: no part of the traffic, of 1024, with this
    /// bound or a later one.
    pub nothing_passes: bool,
}

/// Why a change of an existing reservation was not made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ChangeError {
    /// There is none of this id, or no longer.
    #[error("no reservation {0}")]
    Unknown(u64),
    /// It belongs to someone else.
    #[error("reservation {id} belongs to owner {owner}")]
    NotOwner {
        /// The reservation.
        id: u64,
        /// Its owner.
        owner: u64,
    },
    /// It has been deleted and drains.
    #[error("reservation {id} drains until {until_ns} ns")]
    Draining {
        /// The reservation.
        id: u64,
        /// When its resources return.
        until_ns: u64,
    },
    /// A modification goes between other ends.
    #[error("a reservation keeps its ends: delete it and reserve anew")]
    Ends,
    /// Not admitted; the reservation stays as it was.
    #[error(transparent)]
    Refused(#[from] Refusal),
}
