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

pub(crate) use chart::{Axis, Chart, Shape};
pub(crate) use page::{Page, Section};
pub(crate) use scale::Unit;
pub(crate) use svg::escape;
pub(crate) use table::{Column, Table};
