//! Task farm: one command over many inputs on all hosts, like a parallel `xargs`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`template`] | the command with its placeholders |
//! | [`input`] | the items, read and checked before anything runs |
//! | [`plan`] | which item goes to which host next, and what its result is (no IO, no clock) |
//! | [`output`] | output per item, in bounded memory, written as whole items |
//! | [`joblog`] | the job log, and what it says was done before |
//! | [`report`] | counts, rates and failures at the end |
//! | [`mod@print`] | items' output as text, tagged lines or JSON |
//! | [`mod@run`] | the driver: a daemon's socket, the plan, the sink |
//!
//! **Exactly one result per item.** A host that is lost may have run an item whose result never
//! came; the item then runs again elsewhere. So a command may *run* more than once, but exactly
//! one result of it is kept, counted, logged and written.

pub mod input;
pub mod joblog;
pub mod output;
pub mod plan;
pub mod print;
pub mod report;
pub mod run;
pub mod template;

mod bits;
mod daemons;
mod drive;
mod link;
mod order;
mod steady;

pub use input::{InputError, Items, Separator};
pub use joblog::LogError;
pub use print::{Form, Printer};
pub use report::Report;
pub use run::{FarmError, FarmOptions, ItemDone, Outcome, Progress, Sink, run};
pub use steady::Steady;
pub use template::{Template, TemplateError};
