//! The workstation nodes of the source's §3: one bus, two buses, a serial processor.
//!
//! Two buses: a packet goes over the application's bus (ABUS) to a protocol processor, through
//! that one's own memory, over the network's bus (NBUS) to the ring's interface which the processor
//! chose. One bus: processors share a memory, in units of some words, first come, first served; a
//! multiplexer behind them has one packet at a time and chooses the interface. Serial: as one bus,
//! with one processor that does not work while its memory does.

mod run;
mod spec;

pub(super) use run::run;
pub(super) use spec::PACKET_BITS;
pub use spec::{Architecture, BusCosts, BusNode, Choice, Load, RingSpec};
