//! One authenticated conversation between two hosts, over 1..n paths.
//!
//! **Rules.**
//! - A packet number is never used twice: what was lost goes out again in a new packet.
//! - A packet is acknowledged only when everything in it was taken in. Each frame may be applied
//!   twice without harm, so a packet that was refused for lack of memory has still told its
//!   acknowledgements and credit.
//! - Only a reliable ordered channel delivers in order; the other classes deliver each message as
//!   soon as it is complete. A timely message is repaired while a repair can still arrive by its
//!   deadline, an unreliable one never. What is given up is told to the peer by SKIP, which is
//!   repaired like everything else, so that both sides agree on what was charged and what is over.
//! - Within an association, control frames go first, into every packet that has room; then repairs
//!   and skips, in the order of their channels' priorities; then fresh data, by priority, with a
//!   turn each among equals. A channel of higher priority that is never out of data and credit
//!   starves the fresh data of those below it, and nothing else.
//! - A message is charged whole against the channel's credit at its first piece; credit returns
//!   when the message's owner says so ([`Association::consumed`]).
//! - Until OPEN is acknowledged it goes along with every packet that carries the channel's data,
//!   so that data never arrives for a channel not yet known.

mod ack_rate;
mod arrivals;
mod build;
mod channel;
mod channels;
mod coding;
mod core;
mod deadline;
pub(crate) mod delivery;
mod end;
mod flight;
mod handle;
mod keys;
mod liveness;
mod mtu;
mod notes;
pub(crate) mod pacer;
mod path;
mod paths;
mod proving;
mod ready;
mod receive;
mod received;
mod reordering;
mod reserved;
mod retire;
mod ring;
mod send;
mod standing;
mod stats;
mod striping;
mod view;

#[cfg(test)]
mod channels_tests;
#[cfg(test)]
mod halves_tests;
#[cfg(test)]
mod pair_tests;
#[cfg(test)]
mod path_tests;

pub use channel::{ChannelStats, Opening, PeerLimits};
pub use core::{Association, AssociationEvent, Identity};
pub use end::{End, REASON_FAULT, REASON_LOST};
pub use keys::Keys;
pub use notes::NOTE_MAX;
pub(crate) use paths::PATHS_MAX;
pub use paths::RetireError;
pub use send::SendError;
pub use stats::{AssociationStats, CodingStats, PathsStats};
pub use view::{PathCounters, PathState, PathStatus};
