//! The source's tables as files: what was printed, and what its nodes do here.
//!
//! A file of `scenarios/node` has nodes with all that the source does not print, runs that change
//! some of it, and for each run the cells that were printed. [`NodeTable::run`] takes the mean of
//! several seeds; [`NodeTable::judge`] puts it beside the source.

mod file;
mod outcome;
#[cfg(test)]
mod tests;
mod verdict;

pub use file::{CellSpec, Change, Division, Mark, Measure, NodeTable, RunSpec};
pub use outcome::{CellOutcome, Measured, RunOutcome, TableOutcome, Verdict};

/// The tables that come along: names and texts.
pub const TABLES: [(&str, &str); 8] = [
    ("table-2", include_str!("../../../../../scenarios/node/table-2.toml")),
    ("table-3", include_str!("../../../../../scenarios/node/table-3.toml")),
    ("table-4", include_str!("../../../../../scenarios/node/table-4.toml")),
    ("table-5", include_str!("../../../../../scenarios/node/table-5.toml")),
    ("table-6", include_str!("../../../../../scenarios/node/table-6.toml")),
    ("table-7", include_str!("../../../../../scenarios/node/table-7.toml")),
    ("table-8", include_str!("../../../../../scenarios/node/table-8.toml")),
    ("processors", include_str!("../../../../../scenarios/node/processors.toml")),
];
