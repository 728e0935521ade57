//! Scattering of a plane wave by two loaded slots: a computation on demand, with its field drawn.
//!
//! Rows of the matrix, directions of the pattern and lines of the map are independent: tasks share
//! them; every task solves the small system itself.

mod demo;
mod kernel;
mod lu;
mod slots;
#[cfg(test)]
mod tests;

pub(crate) use demo::{DIRECTIONS, FieldArgs, field, once, pattern, pattern_chart};
pub(crate) use slots::{Network, Slots};
