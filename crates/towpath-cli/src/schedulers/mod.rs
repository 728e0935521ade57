//! `schedulers`: packet schedulers side by side.

mod command;
mod report;

pub(crate) use command::{SchedulersArgs, run};
