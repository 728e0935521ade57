//! `topology`: networks from files, drawn.

mod diagram;
mod load;
mod picture;
mod show;

pub(crate) use load::{at_line, in_file, load, read_text};
pub(crate) use show::{TopologyArgs, diagram_of, host, run};
