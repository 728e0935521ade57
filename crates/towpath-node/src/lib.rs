//! One host of the virtual machine, sans-IO: transport, control log and tasks put together.
//!
//! The engine drives a [`Node`] on real sockets and processes, the simulator drives the very same
//! one in virtual time. See [`towpath_proto::machine`] for the contract.
//!
//! What a host keeps stands in parts, a file each, that know nothing of [`Node`]; what it does with
//! them, one concern a file, stands in `node/`.
//!
//! | part | what it holds |
//! |---|---|
//! | [`config`], [`event`] | what a host is started with, tokens; what a node tells its owner |
//! | [`links`], `paths`, `addresses` | its addresses, those of peers, which pairs carry |
//! | `hello`, `copies` | what hosts say of themselves; two with one key |
//! | `peers`, `lanes`, `delays` | one connection per host, its channels, how long messages take |
//! | [`egress`] | who sends next on a link |
//! | `joining`, `standing` | a join under way; a host and its leader, over silences |
//! | `lead` | what only a leader has: |
//! | `commit`, `contents`, `sharing` | what the log was asked for, who waits; what it only names |
//! | `refused` | what is to be asked before what came behind it |
//! | `ledger` | what is decided, or kept of what all decide, on its way to a disk |
//! | `voters`, `voting` | who is to keep the log, and one of those that do |
//! | `ticking`, `saying` | when that one wakes up, and by which way it says what |
//! | [`invitations`] | tokens that were issued |
//! | `suspects`, `broken` | hosts out of contact; hosts that cannot reach each other |
//! | `telling` | what members are still to hear |
//! | [`restore`] | what a founder keeps for its next life |
//! | `local`, `question`, `watch` | tasks here, questions that wait, hosts that are watched |
//! | [`data`], [`room`] | tasks' messages; message memory that is kept back for control |
//! | `channels`, [`relay`] | channels of tasks; long messages along chains of hosts |
//! | [`direct`] | who may have a direct route |
//! | [`explain`], `metrics` | which way messages take, and what is measured, for those who ask |
//!
//! | in `node/` | what it does |
//! |---|---|
//! | `calling`, `arrivals` | connects to hosts; whom a message is for that arrives |
//! | `overlong` | what is longer than its host or its task takes |
//! | `joining`, `control`, `commit` | joining, leaving, losing hosts: asked, decided, carried out |
//! | `deleting` | whose turn it is to be deleted, where several that keep the log are to be |
//! | `telling`, `farewell` | how all hear of it, and whoever is deleted |
//! | `standing`, `suspects`, `reaching`, `broken`, `restore` | silences, judgements, returns |
//! | `work`, `spawn` | which message leads to what |
//! | `enrol`, `ends` | tasks of this host: how they come, who is told of their end |
//! | `credit`, `classes` | how much tasks may send, and how it is told apart |
//! | `question`, `group`, `halt` | what tasks ask for |
//! | `sharing` | what long mailbox entries hold, with all that keep the log |
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
mod refused;
pub mod relay;
pub mod restore;
pub mod room;

mod broken;
mod channels;
mod commit;
mod contents;
mod copies;
mod delays;
mod hello;
mod joining;
mod lanes;
mod lead;
mod ledger;
mod local;
mod marked;
mod metrics;
mod over;
mod parting;
mod paths;
mod peers;
mod promising;
mod question;
mod saying;
mod sharing;
mod standing;
mod suspects;
mod telling;
#[cfg(test)]
mod tests;
mod ticking;
mod unique;
mod voters;
mod voting;
mod watch;

pub use config::{Invitation, JoinTarget, NodeConfig};
pub use data::Delivery;
pub use event::{DeleteError, JoinFailure, LastWords, NodeEvent, SpawnError};
pub use event::{VoterSeen, VotersSeen};
pub use invitations::{InviteError, Issued};
pub use links::Links;
pub use node::Node;
pub use restore::{KeptTo, Saved, SavedError};
pub use voting::VOTERS;
