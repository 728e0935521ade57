//! `bound`: worst-case delays by network calculus.

mod case;
mod command;
mod convert;
mod report;

pub(crate) use command::{BoundArgs, run};
