//! Channels of tasks' own ([`towpath_vm::channel`]): opened, offered, sent on, received from,
//! closed.
//!
//! Between hosts each is a channel of their connection. The host that opens it says on the
//! connection's control channel whose it is; the other offers it to its task as soon as it has both
//! and answers. Nothing is sent before that. With the connection the channel ends. On one host a
//! message goes from task to task.
//!
//! A channel may be reserved on the link that it goes out by: that link's egress is asked before
//! the other host hears of it, and told when it ends. Where its time counts until a datagram has
//! arrived, the host that leads is asked before that, for the whole way.
//!
//! Room: what a task has sent and is not settled is at most its channel's window, and so is what
//! came for it and was not received, because its receiver's host gives that credit back only once
//! the task has received it. A task that sends more is cut off.

mod exchange;
mod opening;
mod reserving;
mod table;

pub(crate) use table::{Ends, Wire};
