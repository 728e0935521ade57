//! The facade: what programs use to be tasks of a virtual machine; and, below, what starts and
//! drives its daemons.
//!
//! ```no_run
//! use towpath::task::collective::Function;
//! use towpath::{Job, Wanted};
//!
//! // All tasks that one `towpath run -n` has started.
//! let mut job = Job::enrol()?;
//! let next = job.member((job.rank() + 1) % job.size());
//! job.task.send_slice(next, 7, &[0.5_f64; 3])?;
//! let edge = job.task.recv_slice::<f64>(&Wanted::any().tag(7))?;
//! let most = job.team.all_reduce_value(&mut job.task, edge[0], Function::Max)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | for programs | what it is |
//! |---|---|
//! | [`Job`], [`Task`] | all tasks of a run; one task: messages, groups, spawning |
//! | [`Team`] | what tasks do together: barrier, broadcast, reduce; parts of a team |
//! | [`Channel`] | a way of its own between two tasks, with a class, or reserved |
//! | [`Pool`], [`PipeIn`], [`PipeOut`] | work for whoever has time; stages of a pipeline |
//! | [`plain`](task::plain) | values instead of bytes: arrays, tiles, structures |
//! | [`farm`] | one command over many inputs on all hosts |
//! | [`task`] | all of it |
//!
//! What a message's values are travels with it:
//!
//! ```
//! use towpath::task::plain::TypeCode;
//! towpath::record! {
//!     /// What the bodies of a simulation send each other.
//!     struct Body { mass: f64, at: [f64; 3] }
//! }
//! assert_eq!(TypeCode::of::<[f64; 3]>().to_string(), "f64");
//! assert_ne!(TypeCode::of::<Body>(), TypeCode::of::<f64>());
//! ```
//!
//! The rest is what the `towpath` command, its console and tests are built from, and changes with
//! them: `config`, `token`, `engine`, `daemon`, `leftovers`, `journal`, `kept`, `lock`, `table`,
//! `private`, `log`, `start`, `client`, `protocol`, `pacing`, `pvm`.

// What builds virtual machines for integration tests speaks of the crate by its name.
#[cfg(test)]
extern crate self as towpath;

mod beginning;
#[doc(hidden)]
pub mod client;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod daemon;
#[doc(hidden)]
pub mod engine;
pub mod farm;
#[doc(hidden)]
pub mod jobs;
#[doc(hidden)]
pub mod journal;
mod keeper;
#[doc(hidden)]
pub mod kept;
mod ledger;
#[doc(hidden)]
pub mod leftovers;
#[doc(hidden)]
pub mod lock;
#[doc(hidden)]
pub mod log;
#[doc(hidden)]
pub mod pacing;
#[doc(hidden)]
pub mod private;
#[doc(hidden)]
pub mod protocol;
#[doc(hidden)]
pub mod pvm;
#[doc(hidden)]
pub mod start;
#[cfg(test)]
#[path = "../tests/it/support/mod.rs"]
mod support;
#[doc(hidden)]
pub mod table;
#[doc(hidden)]
pub mod token;
mod version;
mod words;

pub(crate) use log::log;

#[doc(hidden)]
pub use client::{Client, ClientError};
#[doc(hidden)]
pub use config::{Home, VmDir};
#[doc(hidden)]
pub use daemon::{DaemonOptions, Role};
#[doc(hidden)]
pub use token::Token;
pub use towpath_task as task;
pub use towpath_task::{
    Channel, Envelope, Event, Grid, Job, Message, PipeIn, PipeOut, Plain, Pool, Task, TaskId, Team,
    Wanted, record,
};
pub use version::{BUILD, VERSION};
