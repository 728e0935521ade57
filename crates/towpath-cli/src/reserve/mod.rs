//! `reserve`: what a network would promise.

mod command;
mod decide;
mod refusal;
mod report;
mod requests;

pub(crate) use command::{ReserveArgs, run};
pub(crate) use decide::admitted;
pub(crate) use requests::read;
