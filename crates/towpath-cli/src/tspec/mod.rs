//! `tspec`: what traffic a trace needs.

mod capture;
mod curve;
mod measure;
mod samples;

pub(crate) use measure::{TspecArgs, run, specification, toml_line};
