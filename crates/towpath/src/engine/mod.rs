//! Drives a node on real sockets and processes.
//!
//! Two threads. The engine's own waits in one `epoll` for datagrams, clients and reports, and
//! never blocks on anything else; the spawner's starts, reads and reaps processes. They talk over
//! channels whose content is bounded by the tasks' output credit, and wake each other by eventfd.
//! An engine with nothing to do sleeps until the node's next timer.

mod clients;
mod control;
mod conversation;
mod core;
mod doors;
mod held;
mod input;
mod jobs;
mod keeping;
mod launch;
mod metrics;
mod network;
mod poll;
mod promises;
mod remote;
mod requests;
mod said;
mod spawner;
mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod tokens;
mod turn;
mod unclaimed;

pub use core::{Engine, EngineError, EngineOptions, LINKS_MAX};
pub use launch::Launch;
pub use tasks::TaskSocket;
