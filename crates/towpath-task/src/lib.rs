//! What lives inside a task: exchange with its daemon and its peers.
//!
//! No threads, no configuration, no daemon: everything happens inside the calls of [`Task`].
//!
//! ```no_run
//! use towpath_task::collective::Function;
//! use towpath_task::{Job, Wanted};
//!
//! // All tasks that one `towpath run -n` has started.
//! let mut job = Job::enrol()?;
//! let (rank, size) = (job.rank(), job.size());
//! let next = job.member((rank + 1) % size);
//! job.task.send_slice(next, 7, &[1.5_f64, f64::from(rank)])?;
//! let got = job.task.recv_slice::<f64>(&Wanted::any().tag(7))?;
//! let sum = job.team.all_reduce_value(&mut job.task, got[1], Function::Sum)?;
//! assert_eq!(sum, f64::from(size * (size - 1) / 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What needs no daemon runs anywhere: where a rank's neighbours are, and which part of an array
//! goes to them.
//!
//! ```
//! use towpath_task::Grid;
//! use towpath_task::plain::Tile;
//!
//! let grid = Grid::balanced(6, 2);
//! assert_eq!(grid.neighbour(3, 0, 1), Some(5));
//! let block: Vec<f64> = (0..12).map(f64::from).collect(); // three rows of four
//! assert_eq!(Tile::column(&block, 4, 3).to_vec(), [3.0, 7.0, 11.0]);
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`task`] | the handle: enrolment and end |
//! | `send`, `cast`, `receive` | messages out and in |
//! | [`message`] | messages as programs see them |
//! | [`plain`] | values instead of bytes: arrays, tiles, records |
//! | [`started`] | posted receives, started sends |
//! | [`channels`] | channels of its own |
//! | [`event`] | what happens beside messages |
//! | `ask`, [`groups`] | questions to the virtual machine |
//! | [`error`] | what can go wrong |
//! | `direct` | when direct routes are asked for and used |
//! | `rings` | shared memory with tasks of the same host |
//! | `streams` | kernel TCP to tasks of other hosts |
//! | [`team`], `pending`, `slices` | what teams do: barrier, broadcast, reduce and their like |
//! | [`topology`] | grids and hypercubes of ranks |
//! | [`job`] | all tasks of one `towpath run -n` |
//! | [`calls`], [`pool`], [`mod@pipe`] | calls and replies; shared work; stages of a pipeline |
//! | [`panel`] | parameters that others change meanwhile, results that they follow |
//! | [`loan`] | memory that a message is written into where it is read |
//! | [`place`] | where the daemon is |
//! | `accounts` | what it tells of its ways to others |
//! | `parts` | what a task keeps, a file for each part |
//! | `link`, `intake` | the connection to the daemon, and what comes in by it |
#![forbid(unsafe_code)]

pub mod calls;
pub mod channels;
pub mod error;
pub mod event;
pub mod groups;
pub mod job;
pub mod loan;
pub mod message;
pub mod panel;
pub mod pipe;
pub mod place;
pub mod plain;
pub mod pool;
pub mod task;
pub mod team;
pub mod topology;

mod accounts;
mod alarm;
mod ask;
mod cast;
mod deadline;
mod direct;
mod intake;
mod link;
mod meeting;
mod parts;
mod peers;
mod pending;
mod receive;
mod rings;
mod send;
mod slices;
pub mod started;
mod streams;
mod team_error;
#[cfg(test)]
mod tests;

pub use calls::{Call, CallError, PendingCall};
pub use channels::Channel;
pub use error::{AskError, ChannelError, EnrolError, Full, Lost, OpenError, RecvError, SendError};
pub use event::Event;
pub use groups::{Mail, Members};
pub use job::{Job, JobError};
pub use loan::{Loan, Sealed};
pub use message::{Arrived, Choice, Envelope, Message, Received};
pub use parts::directs::Route;
pub use pending::{Pending, STARTED_MAX};
pub use pipe::{PipeError, PipeIn, PipeOut};
pub use plain::Plain;
pub use pool::Pool;
pub use slices::PendingValues;
pub use started::{PendingReceive, PendingSend};
pub use task::Task;
pub use team::{Sent, Team, TeamError};
pub use topology::Grid;
pub use towpath_io::shared::aside;
pub use towpath_vm::channel::{
    ChannelSpec, ChannelStatus, Class, Closed, Code, Reserve, Took, Until,
};
pub use towpath_vm::collective;
pub use towpath_vm::matching::{Pattern, Wanted};
pub use towpath_vm::talk::{
    Answer, Claim, Fault, MailRules, Mailbox, Place, Question, RegistryAnswer, RegistryOp,
    SpawnTasks, Subject, WatchEvent,
};
pub use towpath_vm::{Ending, Host, HostState, Stream, TaskInfo};
pub use towpath_wire::talk::Tag;
pub use towpath_wire::{HostId, TaskId};
