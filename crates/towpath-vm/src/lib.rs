//! Sans-IO virtual machine: which hosts there are, which tasks run where, what became of them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`account`] | what a task tells of its direct routes |
//! | [`host`], [`fields`] | the host table; what its entries say beside what every build knows |
//! | [`log`] | the one ordered log through which the table changes |
//! | [`consensus`] | the log that several hosts keep together |
//! | [`invitations`] | tokens that were issued: part of control state |
//! | [`control`] | control state, the commands that change it, the log that commits them |
//! | [`task`] | what a task is started with and how it ends |
//! | [`tasks`] | tasks that run on this host |
//! | [`requests`] | tasks that this host asked for, wherever they run |
//! | [`endpoint`] | one task's end of all its conversations |
//! | [`talk`] | what a task and its daemon say to each other |
//! | [`members`] | tasks of this host as parts of the virtual machine |
//! | [`ties`] | who exchanged data with whom, who watches whom |
//! | [`panel`] | parameters and results that a task shows while it computes |
//! | [`parted`] | who was told that whom is gone, though only the way there was |
//! | [`place`], [`spawning`] | tasks that tasks spawn: where, and what came of it |
//! | [`catching`] | output of tasks that goes to other tasks |
//! | [`promises`] | what is promised of the network between hosts: part of control state |
//! | [`registry`] | groups and mailboxes, at the leader |
//! | [`credit`] | how much a task may send another |
//! | [`data`] | pieces of tasks' messages between daemons |
//! | [`message`] | what daemons tell each other |
//! | [`metrics`] | what a daemon measures, and how it tells who asks |
//! | [`collective`] | barrier, broadcast, reduce and the like, as one member takes part in them |
//! | [`matching`] | messages that wait in a task to be received |
//!
//! Messages that wait, and who gets which:
//!
//! ```
//! use towpath_vm::matching::{Key, Limits, Store, Wanted};
//! use towpath_wire::HostId;
//!
//! let ann = HostId::new(1, 0).unwrap().task(1).unwrap();
//! let mut store = Store::new(Limits::NONE, 0x5eed);
//! store.insert(Key { source: ann, tag: 7, context: 0 }, 5, "hello").unwrap();
//! assert!(store.take(&Wanted::any().tag(8)).is_none());
//! assert_eq!(store.take(&Wanted::any().from(ann)).unwrap().payload, "hello");
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod account;
pub mod catching;
pub mod channel;
pub mod collective;
pub mod consensus;
pub mod control;
pub mod credit;
pub mod data;
pub mod endpoint;
pub mod fields;
pub mod host;
pub mod invitations;
pub mod log;
pub mod matching;
pub mod members;
pub mod message;
pub mod metrics;
pub mod panel;
pub mod parted;
pub mod place;
pub mod promises;
pub mod registry;
pub mod requests;
pub mod spawning;
pub mod talk;
pub mod task;
pub mod tasks;
pub mod ties;

#[cfg(test)]
mod edges;

pub use fields::Fields;
pub use host::{Host, HostState, HostTable};
pub use log::{Change, ControlLog, Entry, LogError, RESTART_GAP, Snapshot};
pub use message::{Message, MessageError};
pub use requests::{RequestEvent, RequestId, Requests};
pub use task::{Ending, Stream, TaskExit, TaskInfo, TaskSpec};
pub use tasks::{Action, Tasks};
