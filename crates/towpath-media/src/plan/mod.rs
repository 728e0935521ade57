//! The planner: two of rate, buffer and start-up delay give the third.

mod aggregate;
mod planner;
mod questions;

pub use aggregate::{Aggregate, AggregateError, Step, Stream, aggregate};
pub use planner::{Plan, Wish, plan, plan_until};
pub use questions::{
    BufferRow, Conventions, DelayRow, Need, RateRow, against_delay, at_fixed_buffer, at_fixed_rate,
    thesis_trace,
};
