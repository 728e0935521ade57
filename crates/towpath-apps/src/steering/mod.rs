//! Computations that go on while their parameters change.

mod command;
mod helm;
mod subject;
#[cfg(test)]
mod tests;

pub(crate) use command::{SteerArgs, steer};
