//! Cells of tables: what people read, and what programs do.

use crate::words::{bps_text, ns_text};

/// For people, and for programs.
pub type Cell = (String, String);

/// The same for both.
pub fn words(text: &str) -> Cell {
    (text.to_string(), text.to_string())
}

/// A number of things.
pub fn count(value: u64) -> Cell {
    (value.to_string(), value.to_string())
}

/// A time, with its unit for people.
pub fn time(ns: u64) -> Cell {
    (ns_text(ns), ns.to_string())
}

/// A rate, with its unit for people.
pub fn rate(bps: u64) -> Cell {
    (bps_text(bps), bps.to_string())
}

/// Parts per million, shown in per cent.
pub fn share(ppm: u64) -> Cell {
    (format!("{:.1} %", ppm as f64 / 1e4), ppm.to_string())
}
