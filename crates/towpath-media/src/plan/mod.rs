//! The planner: two of rate, buffer and start-up delay give the third.
//!
//! ```text
//! file ─ read ─ video ─ question ─ planner ─ schedule
//!              (trace)  (solution)
//! ```

mod aggregate;
mod planner;
mod question;
mod questions;
mod video;

pub use aggregate::{Aggregate, AggregateError, Step, Stream, aggregate};
pub use planner::{Plan, Wish, plan, plan_until};
pub use question::{Costs, Given, Nearest, Question, QuestionError, Refusal, Solution, planned};
pub use questions::{
    BufferRow, Conventions, DelayRow, Need, RateRow, against_delay, at_fixed_buffer, at_fixed_rate,
    thesis_trace,
};
pub use video::{Note, Unit, Video, VideoError, Wanted, of_a_trace, of_listing, of_media};
