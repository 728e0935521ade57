//! Captures and frames that other tests use, too.

pub(crate) use super::layers::tests::frame;
pub(crate) use super::read::tests::{classic, next_generation};
