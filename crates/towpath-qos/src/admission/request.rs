//! What is asked for, and what is promised.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use towpath_wire::Instant;

use crate::spec::wire::Demand;
use crate::topology::NodeId;

/// What a channel wants beside its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A proven bound on delay, and on its variation.
    Bounded {
        /// From the sender's processor to the receiver's program.
        delay: Duration,
        /// Largest difference of two packets' delays, from end to end as the delay.
        jitter: Option<Duration>,
    },
    /// The average is reserved; what is late is dropped.
    Statistical {
        /// What counts as late.
        delay: Duration,
        /// Late or lost, in parts per million.
        late_ppm: u32,
    },
    /// The sustained rate, without a bound on delay.
    Share {
        /// Among shares only: bounded channels always go before.
        priority: u8,
    },
}

/// A request in wire bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who may change it.
    pub owner: u64,
    /// Sender.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// Its traffic: `Framing::demand` of a specification.
    pub demand: Demand,
    /// What it wants.
    pub wish: Wish,
    /// When the reservation ends unless renewed; `Instant::NEVER` for none.
    pub lease: Instant,
}

/// A reservation: never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReservationId(pub u64);

/// The answer to a request that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admitted {
    /// Its name from now on.
    pub id: ReservationId,
    /// Bound on delay in ns: processors, queues, links; `None` for a share.
    pub delay_ns: Option<u64>,
    /// Bound on its variation from end to end, the processors' included; `None` for a share.
    pub jitter_ns: Option<u64>,
}

/// One hop of a promise. Delays run from the last bit in to the last bit out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromisedHop {
    /// `node:port`.
    pub port: String,
    /// The port's id in the topology.
    pub port_id: u32,
    /// Queueing and transmission at most, in ns: fixed until the reservation changes.
    pub delay_ns: u64,
    /// Switch latency before and propagation behind, in ns.
    pub fixed_ns: u64,
    /// Variation of delay with which packets arrive, in ns.
    pub jitter_in_ns: u64,
    /// Burst with which they arrive at the scheduler, in bits.
    pub burst_bits: u64,
    /// Memory that it may need here, in bits.
    pub buffer_bits: u64,
    /// Rate reserved here, in bit/s: the sustained rate, or more under rate-based scheduling.
    pub rate_bps: u64,
    /// Priority level, for schedulers that have them, from 0.
    pub level: Option<u8>,
    /// Weight, for DRR: the quantum in largest pieces of the port.
    pub weight: Option<u32>,
    /// Service curve, for HFSC: m1 in bit/s up to x ns, then m2 in bit/s.
    pub curve: Option<(u64, u64, u64)>,
}

/// Everything promised to a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// The reservation.
    pub id: ReservationId,
    /// Its bound, the sum of all parts, in ns.
    pub delay_ns: Option<u64>,
    /// Bound on the variation of delay in ns, the processors' part included.
    pub jitter_ns: Option<u64>,
    /// The sender's processor, in ns; 0: not modelled.
    pub source_cpu_ns: u64,
    /// The receiver's processor, in ns; 0: not modelled.
    pub destination_cpu_ns: u64,
    /// Hop by hop.
    pub hops: Vec<PromisedHop>,
}
