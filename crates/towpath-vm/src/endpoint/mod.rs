//! One task's end of all its conversations, whatever routes messages take.
//!
//! | module | what it holds |
//! |---|---|
//! | `peer` | numbers, credit and half-taken messages of one peer |
//! | `peers` | all peers |
//! | `core` | [`Endpoint`]: all peers and the messages that wait to be received |
//!
//! Each message of a (sender, receiver) pair has a number, counted over all routes. Each route is
//! first in, first out. The receiver takes message after message by number, looking only at the
//! head of each route, so that a change of route never reorders:
//!
//! - the daemon route brings pieces ([`Endpoint::piece`]); messages that are whole but early wait
//!   in the peer's queue, which credit bounds;
//! - a stream to another host brings pieces, too ([`Endpoint::stream_piece`]), taken only when
//!   they are due;
//! - any other route (shared memory) shows the number at its head; its owner asks
//!   [`Endpoint::is_turn`] and hands the message over ([`Endpoint::arrive`]) when it is.
//!
//! When a stream breaks, its sender sends by the daemons what the receiver has not said to have
//! taken, also from the middle of a message on: pieces that are here already are dropped.
//!
//! Once a peer is gone ([`Endpoint::gone`]), what it left half is dropped, and its numbers are
//! forgotten.
//!
//! Credit counts [`charge`] bytes per piece. The receiver's daemon raises the limit; a sender
//! without credit says so once ([`Endpoint::blocked`]). Some can be sent to a peer without that
//! ([`crate::talk::CREDIT_FIRST`]), unless its host wants to be asked first
//! ([`Endpoint::ask_first`]).

mod core;
mod peer;
mod peers;

pub use self::core::{Body, Endpoint, POSTED_MAX, Parcel};
pub use self::peer::{BadPiece, charge};

#[cfg(test)]
mod tests;
