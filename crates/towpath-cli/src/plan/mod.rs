//! `plan`: what rate, what buffer and what wait a stored video needs.
//!
//! ```text
//! file ─ source ─ Video ─ model ─ Answer ─┬─ rows    table, JSON
//!                  (trace)  (library)     ├─ curves  pictures, CSV
//!                                         └─ command schedule file, exit status
//! ```
//!
//! `figures` rounds what is printed such that it is enough; `verify` judges a schedule file.

mod aggregate;
mod charts;
mod command;
mod curves;
mod figures;
mod model;
mod rows;
mod source;
mod verify;

pub(crate) use command::{PlanArgs, run};
pub(crate) use verify::load as load_schedule;
