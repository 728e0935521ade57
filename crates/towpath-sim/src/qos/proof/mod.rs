//! Whether what admission promises is true, packet by packet.
//!
//! [`prove`] draws a sub-network, fills it through admission, and attacks it with sources that
//! keep their word and are as bad as that allows: no packet may be later than promised, none may
//! be lost, no jitter larger.
//!
//! | module | what it holds |
//! |---|---|
//! | [`draw`] | random topologies and requests |
//! | [`deploy`](mod@deploy) | a network with queues as promised |
//! | [`attack`] | what the sources do |
//! | [`campaign`] | the proof run and its figures |
//! | [`edf`] | sets accepted and refused by a hair, against the worst source |

pub mod attack;
pub mod campaign;
pub mod deploy;
pub mod draw;
pub mod edf;

pub use attack::{Attack, Plan};
pub use campaign::{Failure, Proof, ProofError, prove};
