//! `bench relay`: one association over a real path with rate, delay, loss and reordering, alone
//! and beside kernel TCP.
//!
//! Two network namespaces are joined by two TUN devices; between them a thread of this process
//! (`wire`) does in real time what the simulator's link does in virtual time. All protocols pass
//! the same bottleneck as packets of at most 1500 bytes.

mod args;
mod cases;
mod command;
mod report;
mod wire;

pub(super) use args::RelayArgs;
pub(super) use command::run;
