//! The facade: engine, daemon, client, configuration, task farm; and what programs use to be
//! tasks of a virtual machine ([`Task`]).
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | where a virtual machine's files are, keys, limits |
//! | [`token`] | what a newcomer is given |
//! | [`engine`] | drives a node on real sockets and processes |
//! | [`daemon`] | one host's process: guard, socket, engine |
//! | [`leftovers`] | what a daemon that was killed with its guard leaves behind |
//! | [`journal`] | the replicated log on a disk, and its thread |
//! | [`lock`] | who holds a daemon's directory |
//! | [`table`] | what a founder keeps of its hosts |
//! | [`private`] | directories and files that others cannot meddle with |
//! | [`log`] | the daemon's log |
//! | [`start`] | hosts on many machines: lists, ssh, limits, control groups |
//! | [`client`], [`protocol`] | talking to a daemon |
//! | [`task`] | what lives inside a task: messages, groups, spawning |
//! | [`pvm`] | what a daemon does for programs that were written for PVM |
//! | [`farm`] | one command over many inputs on all hosts |

pub mod client;
pub mod config;
pub mod daemon;
pub mod engine;
pub mod farm;
pub mod journal;
mod keeper;
pub mod leftovers;
pub mod lock;
pub mod log;
pub mod private;
pub mod protocol;
pub mod pvm;
pub mod start;
pub mod table;
pub mod token;
mod version;

pub(crate) use log::log;

pub use client::{Client, ClientError};
pub use config::{Home, VmDir};
pub use daemon::{DaemonOptions, Role};
pub use token::Token;
pub use towpath_task as task;
pub use towpath_task::{Envelope, Event, Message, Task, TaskId, Wanted};
pub use version::{BUILD, VERSION};
