//! Small programs for the other rows of the suite: each one file, with its tests.

mod compress;
mod keysearch;
mod knapsack;
mod make;
mod pieces;
mod queens;
mod raytrace;
mod rules;
mod search;
mod spell;
mod suite;

pub(crate) use suite::{ExampleArgs, example};
