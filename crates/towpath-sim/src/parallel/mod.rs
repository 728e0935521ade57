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

mod node;
mod outcome;
mod ring;
mod spec;
#[cfg(test)]
mod tests;
mod timer;

pub use node::run;
pub use outcome::ParallelOutcome;
pub use spec::{ParallelSpec, Policy, Scheduler};
pub use timer::Timer;
