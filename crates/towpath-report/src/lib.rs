//! What commands give and take, whatever they are about: charts, tables and pages, figures with
//! their units, files read and written without surprises, work in batches, interrupts.
//!
//! | module | what it holds |
//! |---|---|
//! | [`plot`] | charts as SVG, tables as text, CSV or HTML, pages that hold both |
//! | [`units`], [`words`], [`cells`] | figures with units: read, written, in tables |
//! | [`files`] | files given and made: blocks, names, a closed output |
//! | [`batch`] | work over many things, in order, with a bar |
//! | [`text`] | text from elsewhere on its way to a terminal |
//! | [`interrupt`] | Ctrl-C as a flag and as a descriptor |
#![forbid(unsafe_code)]

pub mod batch;
pub mod cells;
pub mod files;
pub mod interrupt;
pub mod plot;
pub mod text;
pub mod units;
pub mod words;
