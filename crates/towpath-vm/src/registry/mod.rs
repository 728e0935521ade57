//! Groups and mailboxes of the whole virtual machine, kept by the leader: what is done to them is
//! done in one order, and depends on nothing but that order.
//!
//! | module | what it holds |
//! |---|---|
//! | `answers` | what may have to be answered again |
//! | `body` | what stands for the content of an entry |
//! | `groups` | groups, their barriers, their freezing |
//! | `mail` | mailboxes |
//! | `core` | [`Registry`] |

mod answers;
mod body;
mod core;
mod groups;
mod mail;
#[cfg(test)]
mod tests;

pub(crate) use answers::Answers;
pub use answers::{ANSWERS_MAX, Serial};
pub use body::{Body, HERE_MAX, Kept};
pub use core::{CONTEXT_FIRST, Registry, Reply};
pub use groups::{GROUPS_MAX, GROUPS_OF_TASK_MAX, MEMBERS_MAX};
pub use mail::{
    BYTES_OF_TASK_MAX, ENTRIES_MAX, ENTRIES_OF_TASK_MAX, MAIL_BYTES_MAX, PERSISTENT_BYTES_MAX,
    PERSISTENT_MAX, WAITS_OF_TASK_MAX,
};
