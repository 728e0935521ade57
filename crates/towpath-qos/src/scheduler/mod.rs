//! Packet schedulers of an egress, a file each.
//!
//! All of them stand behind one trait, [`Scheduler`]. A discipline is a [`Policy`]: the order in
//! which packets leave. What every discipline needs besides (packet memory, limits, the life of a
//! queue) is written once, in [`Port`], which makes a `Scheduler` of any `Policy`. [`Discipline`]
//! lists them by name.
//!
//! # Memory
//! Everything is allocated by [`Port::new`] and `add_queue`; a packet never allocates.
//! A port holds `24 B · packets_max` for packets (one slab for all queues) and
//! `72..=232 B · (highest queue id + 1)` for queues; a heap adds 16 B a queue, the calendar
//! 1 MiB + 33 KiB and 4 B a queue.
//!
//! # Time
//! Integers only. Instants are nanoseconds; virtual times and token clocks count 2⁻⁴⁰ ns in 128
//! bits, which lasts longer than the 584 years of an `Instant` (see [`fixed`]). A rate is turned
//! into a cost per byte once, rounded up by less than 2⁻⁴⁰ ns a byte (5·10⁻¹¹ of the rate at
//! 400 Gbit/s, less below), so that nothing drifts against that cost.

mod clock;
mod contract;
mod indexed_heap;
mod port;
mod registry;
mod rings;
mod store;
mod tree;

pub mod calendar;
pub mod cbq;
pub mod fixed;
pub mod heap;
pub mod hfsc;

mod cbq_source;
mod drr;
mod edf;
mod fcfs;
mod jitter_edd;
mod priority;
mod priority_bitmap;
mod rcsp;
mod scfq;
#[cfg(test)]
mod tests;
mod three_queue;
mod virtual_clock;
mod wf2q;
mod wfq;

pub use cbq_source::CbqSource;
pub use contract::{
    Backlog, COUNT_LIMIT, ConfigError, DELAY_MAX, PACKET_BYTES_LIMIT, PRIORITIES, Packet,
    PortConfig, QueueConfig, QueueId, RATE_MAX, RATE_MIN, Refused, Scheduler, Service,
};
pub use drr::Drr;
pub use edf::{Deadlines, Edf, EdfCalendar};
pub use fcfs::Fcfs;
pub use jitter_edd::JitterEdd;
pub use port::{Policy, Port};
pub use priority::StaticPriority;
pub use priority_bitmap::PriorityBitmap;
pub use rcsp::Rcsp;
pub use registry::{Discipline, Facts};
pub use scfq::Scfq;
pub use store::{Popped, Table};
pub use three_queue::ThreeQueue;
pub use virtual_clock::VirtualClock;
pub use wf2q::Wf2q;
pub use wfq::Wfq;
