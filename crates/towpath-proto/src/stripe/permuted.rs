//! Round robin in an order of each sender's own: senders that all begin with the same path, and go
//! on in step, crowd one after the other (the convoy that plain round robin makes of many).

use alloc::vec::Vec;

use towpath_wire::PathId;

use super::policy::{Next, PathView, StripeScheduler};
use crate::rng::Rng;

/// The next in turn, in an order drawn anew for each round. Invariant: each path stands in `left`
/// once at most.
#[derive(Clone, Debug)]
pub struct Permuted {
    rng: Rng,
    left: Vec<PathId>,
}

impl Permuted {
    /// Each sender has a `seed` of its own.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed, 0), left: Vec::new() }
    }

    fn draw(&mut self, paths: &[PathView]) {
        self.left.clear();
        self.left.extend(paths.iter().map(|p| p.id));
        for n in (1..self.left.len()).rev() {
            let other = self.rng.below(n as u64 + 1) as usize;
            self.left.swap(n, other);
        }
    }
}

impl StripeScheduler for Permuted {
    fn pick(&mut self, _: &Next, paths: &[PathView]) -> Option<usize> {
        let open = |id: &PathId| paths.iter().position(|p| p.id == *id && p.is_open());
        if let Some(n) = self.left.iter().find_map(open) {
            return Some(n);
        }
        self.draw(paths);
        self.left.iter().find_map(open)
    }

    fn sent(&mut self, _: &[PathView], path: PathId, _: u64) {
        self.left.retain(|id| *id != path);
    }
}
