//! `plan`: what rate, what buffer and what wait a stored video needs.
//!
//! ```text
//! file ─ source ─ Video ─ model ─ Answer ─┬─ rows    table, JSON
//!                  (trace)  (library)     ├─ curves  pictures, CSV
//!                                         └─ command schedule file, exit status
//! ```

mod aggregate;
mod charts;
mod command;
mod curves;
mod model;
mod rows;
mod source;

pub(crate) use command::{PlanArgs, run};
