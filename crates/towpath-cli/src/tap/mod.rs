//! `tap`: a process between two links that has them behave as it is told.

mod args;
mod command;
mod record;
mod report;

pub(crate) use args::TapArgs;
pub(crate) use command::run;
