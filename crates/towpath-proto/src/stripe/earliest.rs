//! Earliest delivery: the path by which a packet arrives first.
//!
//! A path's arrival time is half its least round trip, and the time that what is under way on it
//! beyond what it holds by itself takes at the rate that it has delivered at. Where the first to
//! arrive has no room now, another one takes the packet only if by that it arrives before
//! everything that waits would have arrived by the first ("earliest completion first", Lim et al.,
//! 2017): the end of a message does not go by a slow path for which it would have to wait,
//! and while there is much to send no path stands idle.
//!
//! **Deficit.** Estimates are wrong for long. What a path was sent less than its part of the rates
//! is its deficit; it counts as a queue that much shorter, up to what it holds by itself.

use alloc::vec::Vec;

use towpath_wire::PathId;

use super::policy::{Next, PathView, StripeScheduler};

/// Bytes that a path was sent less than its part.
#[derive(Clone, Debug, Default)]
pub struct Earliest {
    deficits: Vec<(PathId, i64)>,
}

impl Earliest {
    fn deficit(&self, path: PathId) -> i64 {
        self.deficits.iter().find(|(id, _)| *id == path).map_or(0, |(_, d)| *d)
    }

    /// Nanoseconds until `bytes` more have arrived by a path.
    fn arrival(&self, path: &PathView, bytes: u64) -> i64 {
        let at = i64::try_from(path.arrival_ns(bytes)).unwrap_or(i64::MAX);
        if path.rate == 0 {
            return at;
        }
        let owed = i128::from(self.deficit(path.id)) * 1_000_000_000 / i128::from(path.rate);
        let most = path.trip.as_nanos().cast_signed() / 2;
        at.saturating_sub(owed.clamp(-most, most) as i64)
    }
}

impl StripeScheduler for Earliest {
    fn pick(&mut self, next: &Next, paths: &[PathView]) -> Option<usize> {
        let arrives = |n: &usize| self.arrival(&paths[*n], next.bytes);
        let open = (0..paths.len()).filter(|n| paths[*n].is_open()).min_by_key(arrives)?;
        let best = (0..paths.len()).filter(|n| paths[*n].up).min_by_key(arrives)?;
        // Of a path that was never used nothing is known: it is used.
        if best == open || paths[open].rate == 0 || paths[best].rate == 0 {
            return Some(open);
        }
        let waits = i64::try_from(paths[best].arrival_ns(next.backlog)).unwrap_or(i64::MAX);
        (self.arrival(&paths[open], next.bytes) <= waits).then_some(open)
    }

    fn sent(&mut self, paths: &[PathView], path: PathId, bytes: u64) {
        let shares = |p: &&PathView| p.up && p.rate > 0;
        let total: u128 = paths.iter().filter(shares).map(|p| u128::from(p.rate)).sum();
        let mut deficits = Vec::with_capacity(paths.len());
        for p in paths {
            // What a path holds bounds what it can be owed.
            let most = (u128::from(p.rate) * p.trip.as_nanos() / 1_000_000_000) as i64;
            let share = match total {
                1.. if shares(&p) => (u128::from(bytes) * u128::from(p.rate) / total) as i64,
                _ => 0,
            };
            let got = if p.id == path { bytes.cast_signed() } else { 0 };
            let owed = (self.deficit(p.id) + share - got).clamp(-most, most);
            deficits.push((p.id, owed));
        }
        self.deficits = deficits;
    }
}
