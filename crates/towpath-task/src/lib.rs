//! What lives inside a task: exchange with its daemon and its peers.
//!
//! No threads, no configuration, no daemon: everything happens inside the calls of [`Task`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`task`] | the handle: enrolment and end |
//! | `send`, `cast`, `receive` | messages out and in |
//! | [`message`] | messages as programs see them |
//! | [`channels`] | channels of its own |
//! | [`event`] | what happens beside messages |
//! | `ask`, [`groups`] | questions to the virtual machine |
//! | [`error`] | what can go wrong |
//! | `direct` | when direct routes are asked for and used |
//! | `rings` | shared memory with tasks of the same host |
//! | `streams` | kernel TCP to tasks of other hosts |
//! | [`team`], `pending` | what tasks do together: barrier, broadcast, reduce and their like |
//! | [`loan`] | memory that a message is written into where it is read |
//! | [`place`] | where the daemon is |
//! | `accounts` | what it tells of its ways to others |
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
mod direct;
mod intake;
mod link;
mod meeting;
mod peers;
mod pending;
mod receive;
mod rings;
mod send;
mod slices;
pub mod started;
mod streams;
#[cfg(test)]
mod tests;

pub use calls::{Call, CallError, PendingCall};
pub use channels::Channel;
pub use direct::Route;
pub use error::{AskError, ChannelError, EnrolError, Full, Lost, OpenError, RecvError, SendError};
pub use event::Event;
pub use groups::{Mail, Members};
pub use job::{Job, JobError};
pub use loan::{Loan, Sealed};
pub use message::{Arrived, Choice, Envelope, Message, Received};
pub use pending::{Pending, STARTED_MAX};
pub use pipe::{PipeError, PipeIn, PipeOut};
pub use plain::Plain;
pub use pool::Pool;
pub use slices::PendingValues;
pub use started::{PendingReceive, PendingSend};
pub use task::Task;
pub use team::{Team, TeamError};
pub use topology::Grid;
pub use towpath_io::shared::aside;
pub use towpath_vm::channel::{ChannelSpec, ChannelStatus, Class, Closed, Reserve};
pub use towpath_vm::collective;
pub use towpath_vm::matching::{Pattern, Wanted};
pub use towpath_vm::talk::{
    Answer, Claim, Fault, MailRules, Mailbox, Place, Question, RegistryAnswer, RegistryOp,
    SpawnTasks, Subject, WatchEvent,
};
pub use towpath_vm::{Ending, Host, HostState, Stream, TaskInfo};
pub use towpath_wire::{HostId, TaskId};
