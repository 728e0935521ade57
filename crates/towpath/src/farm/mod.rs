//! Task farm: one command over many inputs on all hosts, like a parallel `xargs`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`template`] | the command with its placeholders |
//! | [`input`] | the items, read and checked before anything runs |
//! | [`sources`] | items of several sources and of columns |
//! | [`plan`] | which item goes to which host next, and what its result is (no IO, no clock) |
//! | [`blocks`] | standard input in blocks, the inputs of commands |
//! | [`halt`] | after which results a farm ends |
//! | [`output`] | output per item, in bounded memory, written as whole items |
//! | [`joblog`] | the job log, and what it says was done before |
//! | [`results`] | files of its own for each item |
//! | [`report`] | counts, rates and failures at the end |
//! | [`mod@print`] | items' output as text, tagged lines or JSON |
//! | [`mod@run`] | the driver: a daemon's socket, the plan, the sink |
//!
//! **Exactly one result per item.** A host that is lost may have run an item whose result never
//! came; the item then runs again elsewhere. So a command may *run* more than once, but exactly
//! one result of it is kept, counted, logged and written.

pub mod blocks;
pub mod halt;
pub mod input;
pub mod joblog;
pub mod output;
pub mod plan;
pub mod print;
pub mod report;
pub mod results;
pub mod run;
pub mod sources;
pub mod template;

mod bits;
mod daemons;
mod drive;
mod hosts;
mod link;
mod order;
mod steady;

pub use blocks::{Blocks, BlocksError};
pub use halt::{Halt, HaltError};
pub use input::{InputError, Item, Items, Separator};
pub use joblog::LogError;
pub use print::{Form, Printer};
pub use report::Report;
pub use results::ResultsError;
pub use run::{FarmError, FarmOptions, ItemDone, Outcome, Progress, Sink, run};
pub use sources::{Separation, SeparationError, Source, combined, grouped, separated};
pub use steady::Steady;
pub use template::{Template, TemplateError};
