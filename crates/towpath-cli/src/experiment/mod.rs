//! `sim qos`: experiments with channels, and what their sources measured.

mod command;
mod report;

pub(crate) use command::{QosArgs, run};
