//! Quality of service in virtual time: packets through switches and hosts, and what was promised.
//!
//! | module | what it holds |
//! |---|---|
//! | [`network`] | hosts, ports, flows, packets; the event loop |
//! | [`experiment`] | experiments as files, the source's among them |
//! | [`compare`] | every packet scheduler under the same loads |
//! | [`proof`] | whether what admission promises is true |
//! | [`signal`] | RSVP and the two-phase set-up as messages |

pub mod compare;
mod cpu;
pub mod experiment;
mod histogram;
pub mod network;
pub mod proof;
pub mod signal;

pub use cpu::{Cpu, Sharing};
pub use experiment::{Report, Scenario, run};
pub use histogram::{Histogram, Summary};
pub use network::Network;
