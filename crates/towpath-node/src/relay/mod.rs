//! Long messages to tasks of several hosts: along a chain of hosts, so that each link carries
//! them once. The sender's host cuts them into short pieces; each host on the way hands a piece
//! to its own tasks and passes it on at once, so that a chain costs little more than its first
//! link (a linear pipeline, Watts and van de Geijn 1995).
//!
//! The sender's host, the *origin*, alone is responsible; the others keep nothing that it could
//! not send again:
//!
//! - It keeps each piece until the daemon of every receiver has said that it is there
//!   ([`towpath_vm::Message::Relayed`]), at most [`HELD_MAX`] bytes; beyond that messages go
//!   straight to each host. It sends no end of a task to a host before that.
//! - A piece has its place among all of its pair (charged bytes before it), and so has, from the
//!   first such piece on, every other of the pair. A receiver's daemon hands pieces on in the
//!   order of their places: one that is early waits, within what was granted; one that was there
//!   before is dropped. So pieces may come on any way, any number of times.
//! - A host that dies, or loses its contact to the origin, is done for it. What it may have had
//!   to pass on goes straight to those behind it that have not answered.
//! - A host that cannot pass a piece on, because the next one's contact broke before it had it or
//!   because [`PASSING_MAX`] bytes wait here already, says so
//!   ([`towpath_vm::Message::Unrelayed`]); the origin sends it straight to those behind. If that
//!   word is lost, so is the host. The next host that is known to be lost is left out.
//! - What wants to be sent again waits while the origin has no room for data to other hosts.
//! - Hosts remember the list of receivers of the last piece that came with one, for those that go
//!   on from it. A host that does not know a list says that it could not pass the piece on.
//! - Pairs end with the association of their hosts, and begin anew with the next. Pieces are
//!   numbered, and a receiver's daemon takes those only that began with the association it has:
//!   the origin said the first of them on it, and had an answer, before it sent any.

//!
//! | module | what it holds |
//! |---|---|
//! | `table` | what a host keeps of chains |
//! | `open` | pieces whose arrival a task's end waits for |
//! | `origin` | a sender's host |
//! | `passing` | a host on the way, and a receiver's |

mod open;
mod origin;
mod passing;
mod table;

pub(crate) use table::Relays;
pub use table::{CHAIN_MAX, HELD_MAX, PASSING_MAX, RELAY_MIN, RELAY_PIECE};
