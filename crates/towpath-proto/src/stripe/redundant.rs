//! Redundant: every path carries everything, and the first copy that arrives counts (as ST 2022-7
//! does with two networks). It costs as many times the bytes; no link that dies is noticed.

use super::policy::{Next, PathView, StripeScheduler};

/// The first with room carries it, the others a copy each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redundant;

impl StripeScheduler for Redundant {
    fn pick(&mut self, _: &Next, paths: &[PathView]) -> Option<usize> {
        paths.iter().position(|p| p.asks && p.is_open())
    }

    fn copies(&self) -> bool {
        true
    }
}
