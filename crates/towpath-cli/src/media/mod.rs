//! `media info`: what is in a file, and whether it keeps the rules.

mod charts;
mod info;
mod text;

pub(crate) use info::{MediaArgs, run};
