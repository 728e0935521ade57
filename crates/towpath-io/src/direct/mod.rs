//! The direct route between tasks of two hosts: kernel TCP with sealed records.
//!
//! The kernel moves what was written while the task computes, and after it has ended.
//!
//! | module | what it holds |
//! |---|---|
//! | `keys`, `handshake` | [`Offer`]; proof of its key, fresh keys of a connection (Noise) |
//! | `record` | the byte map |
//! | `outgoing`, `incoming` | sealed records, kept until taken; a buffer, opened in place |
//! | `session` | [`Session`]: both directions as bytes, without sockets |
//! | `socket`, `stream` | [`Stream`]: a session over its socket |
//! | `rendezvous` | [`Rendezvous`]: listening and connecting |
//! | `streams` | [`Streams`]: as many as may be open |
//!
//! **Invariant:** a piece that was pushed is taken by the peer or given back by
//! [`Stream::untaken`], perhaps both; whoever takes pieces drops those that it has (by number of
//! the message and offset), so that nothing is lost or doubled by a change of route.
//!
//! **Invariant:** sending or receiving allocates nothing; memory for one stream is at most
//! [`RING_BYTES`] + [`BUFFER_BYTES`] + 8 bytes per record kept, and only what is used is touched.
//!
//! When a process ends, its kernel goes on sending what the process had written, as long as the
//! peer does not write to it: data for a closed socket makes the kernel answer with a reset and
//! drop what is unsent (`tcp_rcv_state_process`). Whoever leaves therefore waits until
//! [`Stream::drained`], or sends what is [untaken](Stream::untaken) by the daemons. Of a process
//! that is killed, what its kernel had not sent is lost when the peer writes to it: also when it
//! only says what it has taken, once for 256 KiB.

mod handshake;
mod incoming;
mod keys;
mod outgoing;
mod record;
mod rendezvous;
mod session;
mod socket;
mod stream;
mod streams;

pub use handshake::Agreed;
pub use incoming::{BUFFER_BYTES, Piece};
pub use keys::Offer;
pub use outgoing::RING_BYTES;
pub use record::BadRecord;
pub use rendezvous::{HELLO_TIME, Outcome, Rendezvous, SET_UP_TIME, SETTING_UP_MAX, SetUpError};
pub use session::{Push, Session};
pub use stream::{Counters, End, Stream};
pub use streams::{IDLE_TIME, STREAMS_MAX, Streams};
