//! `bench relay`: one association over a real path with rate, delay, loss and reordering, alone
//! and beside kernel TCP.
//!
//! Two network namespaces are joined by two TUN devices with a [tap](crate::tap) between them. All
//! protocols pass the same bottleneck as packets of at most 1500 bytes.

mod args;
mod cases;
mod command;
mod path;
mod report;

pub(super) use args::RelayArgs;
pub(super) use command::run;
