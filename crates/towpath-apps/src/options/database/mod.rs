//! What a market's models said, kept in SQLite for later questions.

mod file;
mod query;
mod record;
#[cfg(test)]
mod tests;

pub(crate) use file::{Limits, MIB_DEFAULT, MIB_MAX};
pub(crate) use query::{QueryArgs, query};
pub(crate) use record::{About, Recording};
