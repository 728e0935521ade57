//! Receives that are posted and sends that are started, and go on while the task does other things.
//!
//! | module | what it holds |
//! |---|---|
//! | `table` | what is started, and what came of it |
//! | `receive` | posted receives |
//! | `send` | started sends, and sends that do not wait |
//! | `wait` | until one or all of them are over |
//!
//! There is no thread: all of it goes on inside the task's calls, whichever they are. A message
//! goes to the earliest posted receive that matches it; other receives get what none was posted
//! for. Messages to one task leave in the order in which they were sent or started: a send waits
//! for those that were started before.
//!
//! ```no_run
//! use towpath_task::{Task, Wanted};
//!
//! let mut task = Task::enrol()?;
//! let peer = task.parent().expect("a task that was spawned");
//! // Room for what comes, before it comes.
//! let halo = task.start_recv(Wanted::any().from(peer).tag(1), vec![0.0_f64; 1000])?;
//! let edge = task.start_send(peer, 1, &[1.0_f64; 1000])?;
//! // … compute the inside …
//! let (halo, _) = task.finish_recv(halo)?;
//! task.finish_send(edge)?;
//! assert_eq!(halo.len(), 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod receive;
mod send;
mod table;
#[cfg(test)]
mod tests;
mod wait;

pub use receive::{Bytes, Cancelled, PendingReceive, Room};
pub use send::PendingSend;
pub(crate) use table::Started;
pub use table::{Operation, QUEUED_MAX, SENDS_MAX, StartedError};
