//! `media info`: what is in a file, and whether it keeps the rules.

mod charts;
mod info;
mod text;
mod unreadable;

pub(crate) use info::{MediaArgs, run};
pub(crate) use unreadable::unreadable;
