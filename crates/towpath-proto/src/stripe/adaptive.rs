//! Adaptive: the length of the queue, and the last service time (the source's adaptive policy,
//! whose service time is the last rotation of the token; its weight of a tenth is fitted, since
//! with one half and more it was no better than round robin there).

use super::policy::{Next, PathView, StripeScheduler};

/// What one tenth of the last service time is worth beside the queue.
const SERVICE_SHARE: u32 = 10;

/// The path with the least of both.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adaptive;

impl StripeScheduler for Adaptive {
    fn pick(&mut self, next: &Next, paths: &[PathView]) -> Option<usize> {
        let cost = |n: &usize| {
            let p = &paths[*n];
            let queue = u128::from(p.in_flight + next.bytes) * 1_000_000_000;
            // Before a rate is known its service time stands for both.
            let queue = if p.rate == 0 { 0 } else { queue / u128::from(p.rate) };
            queue + (p.service / SERVICE_SHARE).as_nanos()
        };
        (0..paths.len()).filter(|n| paths[*n].is_open()).min_by_key(cost)
    }
}
