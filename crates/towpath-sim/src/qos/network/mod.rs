//! A network of packets in virtual time: hosts with processors, store-and-forward switches whose
//! ports run the packet schedulers of `towpath_qos`, sources that behave and sources that do not.
//!
//! A packet is made by its [`Source`], costs its host processor time, queues at each port of its
//! route, and costs processor time again where it arrives. Time is whole nanoseconds; a port keeps
//! the fraction of a nanosecond between packets, so that a busy port sends exactly its rate.
//! Nothing is allocated per packet once queues have reached their greatest length.
//!
//! All arrivals of an instant are told to a port before it chooses, as
//! [`Scheduler`](towpath_qos::scheduler::Scheduler) asks.

mod engine;
mod port;
mod source;
mod spec;
mod stats;
#[cfg(test)]
mod tests;

pub use engine::Network;
pub use port::PortStats;
pub use source::{Gate, Pattern, Sizes, Source};
pub use spec::{Early, FlowSpec, Hop, HostSpec, NetworkError, Pacing, PortSpec};
pub use stats::{FlowStats, Miss, Point};
