//! Shortest queue: the fewest bytes under way.

use super::policy::{Next, PathView, StripeScheduler};

/// The path with the fewest bytes under way; among equals the first.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShortestQueue;

impl StripeScheduler for ShortestQueue {
    fn pick(&mut self, _: &Next, paths: &[PathView]) -> Option<usize> {
        (0..paths.len()).filter(|n| paths[*n].is_open()).min_by_key(|n| paths[*n].in_flight)
    }
}
