//! One host of the virtual machine, sans-IO: transport, control log and tasks put together.
//!
//! The engine drives a [`Node`] on real sockets and processes, the simulator drives the very same
//! one in virtual time. See [`towpath_proto::machine`] for the contract.
//!
//! | module | what it holds |
//! |---|---|
//! | [`node`] | [`Node`] and what its owner calls |
//! | [`config`] | what a host is started with, tokens |
//! | [`event`] | what a node tells its owner |
//! | `peers` | one connection per host, made on first use |
//! | `control` | joining, leaving, losing hosts |
//! | `work` | tasks and requests across hosts |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod config;
pub mod event;
pub mod node;

mod control;
mod hello;
mod peers;
mod watch;
mod work;

pub use config::{Invitation, JoinTarget, NodeConfig};
pub use event::{DeleteError, JoinFailure, NodeEvent, SpawnError};
pub use node::Node;
