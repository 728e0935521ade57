//! The C interface: what include/towpath.h declares, over `towpath-task`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`code`] | result codes: one table for Rust's errors, the header and their texts |
//! | `handle` | opaque handles, one user at a time, panics stop here |
//! | `given` | what C hands in, checked |
//! | `enrol`, `send`, `receive`, `event` | being a task, messages, events |
//! | `value`, `posted` | values; receives that are posted and sends that are started |
//! | `channel` | channels of a task's own |
//! | `machine`, `registry` | the virtual machine, groups and mailboxes |
//! | `team`, `operation` | what tasks do together |
//! | `panel` | parameters and results while a computation goes on |
//!
//! Functions are exported by name and documented in the header; none of them is a Rust interface.
//! Every handle belongs to its caller. There is no global state.

pub mod code;

mod channel;
mod enrol;
mod event;
mod given;
mod handle;
mod machine;
mod operation;
mod panel;
mod posted;
mod receive;
mod registry;
mod send;
mod team;
mod value;
