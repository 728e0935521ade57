//! Many targets, two sensors: tracking in each focal plane, then in space.
//!
//! SSDP (shared sensors): all tasks work on sensor 0, then on sensor 1. PSDP (parallel sensors):
//! half of the tasks work on each, and what both found is exchanged. The tracks are the same in
//! both, for any number of tasks.

mod assignment;
mod demo;
mod pairs;
mod plane;
mod scene;
mod score;
mod space;
#[cfg(test)]
mod tests;

pub(crate) use demo::{TrackerArgs, hundred, tracker};
