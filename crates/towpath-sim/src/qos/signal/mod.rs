//! Set-up of reservations as messages in virtual time: RSVP hop by hop, and the source's
//! two-phase set-up through the master of the sub-network. Same requests, same network.
//!
//! | module | what it holds |
//! |---|---|
//! | [`rsvp`] | PATH and RESV, soft state, refresh, time-out, switches without it (RFC 2205) |
//! | [`master`] | source, destination, then the whole route at one place (Cui 1999, chapter IV) |
//! | [`levels`] | managers of node, sub-network and group against one master, at 100 000 channels |

pub mod levels;
pub mod master;
mod network;
pub mod rsvp;

pub use network::{
    Costs, Outcome, Request, SignalError, SignalLink, SignalNetwork, SignalReport, Verdict,
};
#[cfg(test)]
mod tests;
