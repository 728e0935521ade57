//! `run`: a command on one host as if it ran here, or as many tasks of one job.

mod command;
mod failures;
mod habits;
mod input;
mod job;
mod place;
mod show;
mod summary;

pub(crate) use command::{RunArgs, lacks_library, run};
pub(crate) use habits::{hint, hint_for, understood};
