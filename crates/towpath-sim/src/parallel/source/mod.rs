//! The source's tables as files: what was printed, and what its nodes do here.
//!
//! A file of `scenarios/node` has nodes with all that the source does not print, runs that change
//! some of it, and for each run the cells that were printed. [`NodeTable::run`] takes the mean of
//! several seeds; [`NodeTable::judge`] puts it beside the source.

mod file;
mod outcome;
mod tables;
#[cfg(test)]
mod tests;
mod verdict;

pub use file::{CellSpec, Change, Division, Mark, Measure, NodeTable, RunSpec};
pub use outcome::{CellOutcome, Measured, RunOutcome, TableOutcome, Verdict};
pub use tables::TABLES;
