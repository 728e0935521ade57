//! Weighted: packets in proportion to what links are worth, whatever they carry: a link that costs
//! by the byte gets as little as its owner says, for as long as the others have room.

use alloc::vec::Vec;

use towpath_wire::PathId;

use super::policy::{Next, PathView, StripeScheduler};

/// Each in proportion to its weight. A path of weight 0 carries only what no other has room for.
/// `owed` has what each has been due since it was last chosen, in weight times bytes.
#[derive(Clone, Debug, Default)]
pub struct Weighted {
    owed: Vec<(PathId, i64)>,
}

impl Weighted {
    fn owed(&self, path: PathId) -> i64 {
        self.owed.iter().find(|(id, _)| *id == path).map_or(0, |(_, owed)| *owed)
    }
}

impl StripeScheduler for Weighted {
    fn pick(&mut self, _: &Next, paths: &[PathView]) -> Option<usize> {
        let worth = |n: &usize| (paths[*n].weight > 0, self.owed(paths[*n].id));
        let open = (0..paths.len()).filter(|n| paths[*n].is_open());
        // Among equals the first.
        open.rev().max_by_key(worth)
    }

    fn sent(&mut self, paths: &[PathView], path: PathId, bytes: u64) {
        // Only those that could have carried it are owed for it.
        let shares = |p: &&PathView| p.weight > 0 && (p.is_open() || p.id == path);
        let total: i64 = paths.iter().filter(shares).map(|p| i64::from(p.weight)).sum();
        let mut owed = Vec::with_capacity(paths.len());
        for p in paths {
            let share = if shares(&p) { i64::from(p.weight) * bytes.cast_signed() } else { 0 };
            let paid = if p.id == path { total * bytes.cast_signed() } else { 0 };
            owed.push((p.id, self.owed(p.id) + share - paid));
        }
        self.owed = owed;
    }
}
