//! What the calls of the interface mean, for one task, whatever virtual machine it is in.
//!
//! | module | what is there |
//! |---|---|
//! | `session` | the state of a task; entering and leaving the virtual machine |
//! | `buffers` | message buffers |
//! | `format` | `pvm_packf` and `pvm_unpackf` |
//! | `send`, `receive` | messages out and in; matching; handlers |
//! | `waiting` | how a thread waits, and lets others in |
//! | `handlers` | who is called for which message |
//! | `options` | `pvm_setopt` |
//! | `notify` | ends and beginnings that a task wants to be told of |
//! | `output` | what children print |
//! | `spawn`, `machine` | tasks and hosts |
//! | `mailbox` | named messages |
//! | `group`, `reduce` | groups and what they do together |
//! | `roles` | resource manager, hoster, tasker, tracer: who is what |
//! | `system` | messages between libraries: questions to those, and their answers |
//! | `manager` | what a resource manager is asked, and does |
//! | `trace`, `events` | calls told to a tracer; how that is written |

mod buffers;
mod events;
mod format;
mod group;
mod handlers;
mod machine;
mod mailbox;
mod manager;
mod notify;
mod options;
mod output;
mod receive;
mod reduce;
mod roles;
mod send;
mod session;
mod spawn;
mod system;
#[cfg(test)]
mod tables_tests;
#[cfg(test)]
mod tests;
mod trace;
mod waiting;

pub(crate) use events::{Data, Moment, Value};
pub(crate) use format::Arguments;
pub(crate) use handlers::Handler;
pub(crate) use machine::Minfo;
pub(crate) use mailbox::flags_of;
pub(crate) use options::{MASK, Trace};
pub(crate) use output::Sink;
pub(crate) use receive::MatchFunction;
pub(crate) use reduce::{Function, Operator, built_in, size_of};
pub(crate) use roles::{HOSTER, TASKER, TRACER};
pub(crate) use session::Library;
pub(crate) use spawn::parse_int;
pub(crate) use trace::{Inside, Traced, now, registration};
pub(crate) use waiting::Wait;
