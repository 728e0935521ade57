//! What a driver of a port and a scheduler say to each other.

use core::time::Duration;

use thiserror::Error;
use towpath_wire::{ByteSize, Instant, Rate};

/// Names a queue (a channel, a flow, a class) of one port. Numbers are dense: memory grows with
/// the highest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

/// What a scheduler knows of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The queue it goes through.
    pub queue: QueueId,
    /// Size on the wire in bytes, everything included. A GSO train counts as one packet.
    pub bytes: u32,
    /// The owner's handle; never looked at.
    pub tag: u64,
    /// Nanoseconds between the end of its transmission and its deadline; negative when late.
    /// `dequeue` sets it where the discipline has deadlines and leaves zero where not. Into
    /// `enqueue` goes what the previous node's `dequeue` said: jitter-EDD holds the packet that
    /// long (negative counts as zero); others ignore it.
    pub slack_ns: i64,
}

impl Packet {
    /// A packet that comes from no scheduler before.
    pub const fn new(queue: QueueId, bytes: u32, tag: u64) -> Self {
        Self { queue, bytes, tag, slack_ns: 0 }
    }
}

/// The promise a queue carries, where a discipline tells promises apart (the three-queue form).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Service {
    /// Every packet within its bound.
    Deterministic,
    /// Packets within their bound with a stated probability.
    Statistical,
    /// No bound.
    #[default]
    BestEffort,
}

/// What a queue may have. A discipline reads the fields it knows and ignores the others; its file
/// says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Reserved rate; the weight of the rate-proportional disciplines. At least [`RATE_MIN`]
    /// where a discipline needs it.
    pub rate: Rate,
    /// Whole-number weight, 1..=65 535, of the round robins.
    pub weight: u16,
    /// Most urgent 0, least urgent [`PRIORITIES`] − 1.
    pub priority: u8,
    /// Token bucket's depth; zero spaces packets by their own size at `rate`.
    pub burst: ByteSize,
    /// Local delay budget, at most [`DELAY_MAX`].
    pub delay: Duration,
    /// Packets waiting at once, at least 1.
    pub packets_max: u32,
    /// Bytes waiting at once, at least one largest packet.
    pub bytes_max: u32,
    /// First piece of the service curve, as a rate and how long it holds, `rate` behind it
    /// (HFSC). In place of `burst` within `delay`, the curve's other form, which is whole bytes.
    /// Either at least `rate`, or zero: nothing is owed for so long.
    pub first: Option<(Rate, Duration)>,
    /// The class this one shares in, where the discipline has a hierarchy; `None` is the link.
    pub parent: Option<QueueId>,
    /// Link-sharing rate (HFSC); `None` takes `rate`.
    pub share: Option<Rate>,
    /// Rate never exceeded (HFSC's upper limit curve).
    pub ceiling: Option<Rate>,
    /// Whether it may use what its ancestors leave unused (CBQ).
    pub may_borrow: bool,
    /// Which promise it carries (three-queue form).
    pub service: Service,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            rate: Rate::from_mbps(1),
            weight: 1,
            priority: 0,
            burst: ByteSize::ZERO,
            delay: Duration::from_millis(10),
            packets_max: 1000,
            bytes_max: u32::MAX,
            first: None,
            parent: None,
            share: None,
            ceiling: None,
            may_borrow: true,
            service: Service::default(),
        }
    }
}

/// Lowest rate a discipline computes with; below it a packet's time leaves the arithmetic.
pub const RATE_MIN: Rate = Rate::from_bps(1_000);
/// Highest link rate: 10 Tbit/s.
pub const RATE_MAX: Rate = Rate::from_bps(10_000_000_000_000);
/// Priorities of [`QueueConfig::priority`].
pub const PRIORITIES: u8 = 64;
/// Largest local delay budget and hold time.
pub const DELAY_MAX: Duration = Duration::from_secs(4);
/// Largest value of [`PortConfig::packet_bytes_max`].
pub const PACKET_BYTES_LIMIT: u32 = 1 << 20;
/// Largest value of [`PortConfig::queues_max`] and [`PortConfig::packets_max`].
pub const COUNT_LIMIT: u32 = 1 << 24;

/// An egress: its link and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Link rate C.
    pub rate: Rate,
    /// Largest packet L, at most [`PACKET_BYTES_LIMIT`].
    pub packet_bytes_max: u32,
    /// Queue ids are below this.
    pub queues_max: u32,
    /// Packets waiting at once over all queues; the queues' own limits may not sum to more.
    pub packets_max: u32,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            rate: Rate::from_mbps(1000),
            packet_bytes_max: 1538,
            queues_max: 4096,
            packets_max: 65_536,
        }
    }
}

/// What waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// Why a packet was not taken. Nothing was changed; the sender of a full queue waits or drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// No such queue.
    #[error("queue {} does not exist", queue.0)]
    Unknown {
        /// The packet's.
        queue: QueueId,
    },
    /// The class has children; only leaves hold packets.
    #[error("queue {} is a class with children and holds no packets", queue.0)]
    Interior {
        /// The packet's.
        queue: QueueId,
    },
    /// The packet is empty or larger than the port's largest.
    #[error("packet of {bytes} B, where 1..={limit} B are allowed")]
    Size {
        /// The packet's.
        bytes: u32,
        /// [`PortConfig::packet_bytes_max`].
        limit: u32,
    },
    /// Its queue holds as many packets as it may.
    #[error("queue {} holds its limit of {limit} packets", queue.0)]
    Full {
        /// The packet's.
        queue: QueueId,
        /// [`QueueConfig::packets_max`].
        limit: u32,
    },
    /// Its queue would hold more bytes than it may.
    #[error("queue {} may hold {limit} B", queue.0)]
    FullBytes {
        /// The packet's.
        queue: QueueId,
        /// [`QueueConfig::bytes_max`].
        limit: u32,
    },
}

/// Why a port or queue cannot be what was asked. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The id is in use.
    #[error("queue {} exists already", queue.0)]
    Exists {
        /// The id.
        queue: QueueId,
    },
    /// No such queue.
    #[error("queue {} does not exist", queue.0)]
    Unknown {
        /// The id.
        queue: QueueId,
    },
    /// It holds packets or has children; a queue leaves when it is drained.
    #[error("queue {} still holds {packets} packets and {children} children", queue.0)]
    Busy {
        /// The id.
        queue: QueueId,
        /// Waiting in it.
        packets: u32,
        /// Classes below it.
        children: u32,
    },
    /// The limits of all queues together would exceed the port's packets: then one queue could
    /// take the memory that another was promised.
    #[error("queue limits would sum to {requested} packets, the port has {limit}")]
    Memory {
        /// Sum of [`QueueConfig::packets_max`] over all queues.
        requested: u64,
        /// [`PortConfig::packets_max`].
        limit: u32,
    },
    /// A number outside its limits.
    #[error("{name} is {value}, where {min}..={max} is allowed")]
    OutOfRange {
        /// The field, with its unit.
        name: &'static str,
        /// What was asked.
        value: u64,
        /// Lowest allowed.
        min: u64,
        /// Highest allowed.
        max: u64,
    },
    /// The parent holds packets, is too deep, is the queue itself or would change.
    #[error("queue {} cannot be under {}: {reason}", queue.0, parent.0)]
    Parent {
        /// The queue asked for.
        queue: QueueId,
        /// The parent asked for.
        parent: QueueId,
        /// Why not.
        reason: &'static str,
    },
}

/// Fails unless `min <= value <= max`.
pub(super) fn within(
    name: &'static str,
    value: u64,
    min: u64,
    max: u64,
) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(ConfigError::OutOfRange { name, value, min, max })
    }
}

/// The order in which packets leave an egress.
///
/// The driver tells each arrival (`enqueue`) and, whenever the link is free, asks for the packet
/// to transmit (`dequeue`); it transmits that packet at the port's rate from `now` on, and asks
/// again when that ends. Arrivals of the same instant are told before it asks. `now` never goes
/// back; if it does, the latest `now` counts.
pub trait Scheduler {
    /// Adds an empty queue.
    fn add_queue(&mut self, queue: QueueId, config: &QueueConfig) -> Result<(), ConfigError>;

    /// Changes a queue; packets in it stay, in order. Holds for packets not yet stamped: those
    /// that arrive from now on, or come to the head from now on. A lower limit drops nothing.
    fn reconfigure(&mut self, queue: QueueId, config: &QueueConfig) -> Result<(), ConfigError>;

    /// Removes an empty queue.
    fn remove_queue(&mut self, queue: QueueId) -> Result<(), ConfigError>;

    /// Takes a packet that arrives at `now`. Refused, the packet is still its owner's: a sender
    /// that blocks tries again after a `dequeue` gave a packet of the same queue, or asks
    /// [`room`](Self::room).
    fn enqueue(&mut self, now: Instant, packet: Packet) -> Result<(), Refused>;

    /// Takes the packet that waited behind the one that `dequeue` gave last, in the same queue,
    /// since `since`: for an owner who knows only the head of each queue, and shows the next one
    /// when it has left. Called at once after that `dequeue`, it is as if the packet had been here
    /// all the time, for the disciplines that say so ([`Policy::follow`](super::Policy::follow));
    /// for the others it arrives now.
    fn follow(&mut self, since: Instant, packet: Packet) -> Result<(), Refused>;

    /// The packet whose transmission starts at `now`. `None`: nothing waits, or nothing may go
    /// yet ([`next_ready`](Self::next_ready)).
    fn dequeue(&mut self, now: Instant) -> Option<Packet>;

    /// When to ask again if nothing arrives before: `None` when nothing waits, an instant in the
    /// past when `dequeue` gives a packet at once. It gives none earlier; after it gave none,
    /// this lies in the future. (Where a hold exceeds a calendar's window, it may give none then
    /// and name a later instant.)
    fn next_ready(&self) -> Option<Instant>;

    /// What waits in the whole port.
    fn backlog(&self) -> Backlog;

    /// Packets that still fit into a queue; `None` when there is no such queue.
    fn room(&self, queue: QueueId) -> Option<u32>;

    /// What waits in one queue; `None` when there is no such queue.
    fn queue_backlog(&self, queue: QueueId) -> Option<Backlog>;
}
