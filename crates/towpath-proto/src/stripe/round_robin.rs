//! Round robin: each path in turn, those without room passed over.

use towpath_wire::PathId;

use super::policy::{Next, PathView, StripeScheduler};

/// The next in turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    last: Option<PathId>,
}

impl StripeScheduler for RoundRobin {
    fn pick(&mut self, _: &Next, paths: &[PathView]) -> Option<usize> {
        let after = paths.iter().position(|p| Some(p.id) > self.last).unwrap_or(0);
        let turns = (after..paths.len()).chain(0..after);
        turns.into_iter().find(|n| paths[*n].is_open())
    }

    fn sent(&mut self, _: &[PathView], path: PathId, _: u64) {
        self.last = Some(path);
    }
}
