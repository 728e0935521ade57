//! RTSP 1.0 (RFC 2326): players ask for titles.
//!
//! The syntax is our own: the crate that has it brings 50 packages (docs/decisions/0021).
//!
//! | file | what is there |
//! |---|---|
//! | `message` | requests out of a connection's bytes |
//! | `transport`, `range` | two headers |
//! | `server` | sessions: who may do what, what is answered |

mod message;
mod range;
mod server;
mod transport;

pub use message::{BODY_MAX, HEAD_MAX, HEADERS_MAX, Item, Request, RtspError, item};
pub use range::{Range, range};
pub use server::{
    Answer, ConnectionId, Described, Host, Opened, Server, ServerCounters, ServerLimits, Way, sdp,
};
pub use transport::{Transport, TransportError, transport};
