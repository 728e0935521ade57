//! Streams on real sockets: a thread that sends each datagram at its instant.
//!
//! | file | what it holds |
//! |---|---|
//! | `service` | [`Pacing`]: what its owner asks for and is told |
//! | `thread` | the thread: timer, sockets, streams |
//! | `outlet` | where a stream's datagrams go: UDP, RTP, interleaved in RTSP |
//! | `source` | where a stream's bytes come from: files, pipes; a thread that reads them |
//! | `titles` | files of a library: what they are, and where in them a time is |
//! | `reception` | the same of the other side: a socket, a receiver |
//! | `rtsp` | players that ask for titles (`towpath stream serve`) |

mod outlet;
mod reception;
mod rtsp;
mod service;
mod source;
#[cfg(test)]
mod tests;
mod thread;
mod titles;

pub use outlet::{Interleaved, Outlet};
pub use reception::{Ended, Received, Reception, ReceptionError};
pub use rtsp::{Serve, ServeError, ServeOptions, Served};
pub use service::{
    Kind, Pacing, PacingError, PacingOptions, Priority, Status, StreamControl, StreamOptions,
    Ticket,
};
pub use source::{Repeat, Source, SourceError};
pub use titles::{Library, Title, TitleError, title};
