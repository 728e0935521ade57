//! `stream`: sends, offers, receives and judges video on the wire.
//!
//! | module | what it holds |
//! |---|---|
//! | `command` | arguments |
//! | `url` | addresses of streams |
//! | `send`, `serve` | one stream to an address; a library to players |
//! | `receive` | into a file or a pipe, on to an address, or judged |

mod command;
mod receive;
mod send;
mod serve;
mod url;

pub(crate) use command::{StreamArgs, run};
