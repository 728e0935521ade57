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
//! | [`invitations`] | tokens that were issued, and revoking them |
//! | `peers`, `calling` | one connection per host, made on first use |
//! | `arrivals` | whom a message is for that arrives |
//! | `overlong` | what is longer than its host or its task takes |
//! | `control`, `telling` | joining, leaving, losing hosts, and how all hear of it |
//! | `farewell` | how a deleted host hears of it |
//! | `standing` | a host and its leader, over silences |
//! | `suspects` | hosts that the leader lost contact with, before it says that they are lost |
//! | [`restore`] | a founder that starts again |
//! | `broken` | hosts that cannot reach each other |
//! | `work` | which message leads to what |
//! | `enrol`, `ends` | tasks of this host: how they come, what they say, who is told of their end |
//! | [`data`], `credit` | tasks' messages; how much of them |
//! | `lanes`, `delays` | the channels that every two hosts have; how long messages take |
//! | [`relay`] | long messages for several hosts, along chains of them |
//! | [`direct`] | who may have a direct route |
//! | [`explain`] | which way messages take, for people who ask |
//! | `metrics` | what is measured, for people and programs who ask |
//! | [`room`] | message memory that is kept back for control |
//! | `question`, `spawn`, `group`, `halt` | what tasks ask for |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod config;
pub mod data;
pub mod direct;
pub mod egress;
pub mod event;
pub mod explain;
pub mod invitations;
pub mod links;
pub mod node;
pub mod relay;
pub mod restore;
pub mod room;

mod addresses;
mod arrivals;
mod broken;
mod calling;
mod channels;
mod classes;
mod commit;
mod control;
mod credit;
mod delays;
mod ends;
mod enrol;
mod farewell;
mod group;
mod halt;
mod hello;
mod lanes;
mod marked;
mod metrics;
mod overlong;
mod paths;
mod peers;
mod question;
mod spawn;
mod standing;
mod suspects;
mod telling;
#[cfg(test)]
mod tests;
mod watch;
mod work;

pub use config::{Invitation, JoinTarget, NodeConfig};
pub use data::Delivery;
pub use event::{DeleteError, JoinFailure, NodeEvent, SpawnError};
pub use invitations::{InviteError, Issued};
pub use links::Links;
pub use node::Node;
pub use restore::{Saved, SavedError};
