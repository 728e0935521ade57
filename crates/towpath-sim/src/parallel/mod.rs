//! The coarse-grain node of the fifth source (*parallel networking*, Old Dominion University,
//! 1993): one application over many protocol processors and many token rings.
//!
//! An application hands packets to `m` protocol processors, which send them over `n` FDDI rings of
//! 100 Mbit/s, each with traffic of others; the peer is built alike. Who keeps the timers and who
//! acknowledges are the four [`Policy`]s of its §2.2; [`Timer`] has its time-out rule beside two
//! others, [`Scheduler`] picks the ring. The defaults are its 2-bus architecture (Table 1).
//!
//! What the source leaves open and what was chosen: 290 instructions to send a packet, 110 for an
//! acknowledgement; 2.35 passes of a packet through a processor's memory of 80 ns a word of four
//! bytes; others' frames of 8 kbit at random (Poisson); acknowledgements do not compete for the
//! rings; the message by which processors of a node tell each other something costs
//! [`ParallelSpec::tell_instructions`]; a ring's interface gives the token on after one packet.
//! Lost packets are repaired by time-outs, each packet alone: the source goes back to the lost one
//! at a negative acknowledgement.

//!
//! [`source`] has the source's tables as files, for its nodes of one bus, two buses, a serial
//! processor, and for its row of gateways; there packets are neither lost nor repeated.

mod bus;
mod gateway;
mod node;
mod outcome;
mod ring;
mod server;
pub mod source;
mod spec;
#[cfg(test)]
mod tests;
mod timer;
mod within;

pub use bus::{Architecture, BusCosts, BusNode, Choice, Load, RingSpec};
pub use gateway::{GatewayNode, Way};
pub use node::run;
pub use outcome::ParallelOutcome;
pub use spec::{ParallelSpec, Policy, Scheduler};
pub use timer::Timer;
pub use within::Within;
