//! What a stream is made of and whether it keeps the rules: programs, clocks, frames, buffers.
//!
//! | file | what is there |
//! |---|---|
//! | `inspector` | [`Inspector`]: takes what a reader tells and makes a [`Report`] |
//! | `report` | the report: plain values |
//! | `clocks`, `frames` | statistics |
//! | `timeline`, `transport` | when each packet arrives, and what follows from it |
//! | `checks` | ETSI TR 101 290 |
//! | `tstd/`, `levels` | the model decoder's buffers |
//! | `bins` | bounded series and histograms |

mod bins;
mod checks;
mod clocks;
mod frames;
mod inspector;
mod levels;
#[cfg(test)]
mod levels_tables;
mod report;
mod timeline;
mod transport;
mod tstd;

pub use bins::{SERIES_BINS_MAX, SIZE_BINS, size_bin, size_bin_floor};
pub use inspector::Inspector;
pub use report::{
    AccuracyReport, BufferReport, CheckReport, ClockReport, DurationSource, FillReport,
    IntervalReport, PidReport, Report, Series, SizeReport, StreamReport,
};
