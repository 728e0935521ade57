//! One authenticated conversation between two hosts, over 1..n paths.
//!
//! **Rules.**
//! - A packet number is never used twice: what was lost goes out again in a new packet.
//! - A packet is acknowledged only when everything in it was taken in. Each frame may be applied
//!   twice without harm, so a packet that was refused for lack of memory has still told its
//!   acknowledgements and credit.
//! - A message is charged whole against the channel's credit at its first piece; credit returns
//!   when the message's owner says so ([`Association::consumed`]).
//! - Until OPEN is acknowledged it goes along with every packet that carries the channel's data,
//!   so that data never arrives for a channel not yet known.

mod arrivals;
mod build;
mod channel;
mod core;
pub(crate) mod delivery;
mod handle;
pub(crate) mod pacer;
mod path;
mod receive;
mod received;
mod ring;
mod send;

pub use channel::{Opening, PeerLimits};
pub use core::{Association, AssociationEvent, AssociationStats, End, Identity, REASON_FAULT};
pub use send::SendError;
