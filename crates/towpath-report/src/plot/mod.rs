//! Pictures, tables and pages that commands give: charts as SVG, tables as text, CSV or HTML, and
//! a page that holds both. No files are touched here.
//!
//! ```text
//! Chart ── svg() ──┐
//! Table ── html() ─┴─ Page ── html()
//! ```
//!
//! Written by hand rather than with a plotting crate; docs/decisions/0006-charts.md says why.

mod chart;
mod page;
mod reduce;
mod scale;
mod svg;
mod table;

pub use chart::{Axis, Chart, Series, Shape};
pub use page::{Page, Section};
pub use scale::Unit;
pub use svg::escape;
pub use table::{Column, Table};
