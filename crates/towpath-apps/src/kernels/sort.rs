//! Parallel sorting by regular sampling (H. Shi, J. Schaeffer, 1992): no rank ends with more than
//! twice its share of distinct keys.

use crate::exchange::{Exchange, Result};

/// Sorts all ranks' keys: this rank's part of them, parts in the order of ranks.
pub(crate) fn sort(exchange: &mut dyn Exchange, mut keys: Vec<u64>) -> Result<Vec<u64>> {
    let size = exchange.size();
    keys.sort_unstable();
    if size == 1 {
        return Ok(keys);
    }
    let sample = |i: usize| keys.get(i * keys.len() / size).copied();
    let samples: Vec<u64> = (0..size).filter_map(sample).collect();
    let mut all = exchange.all_gather_parts(&samples)?.concat();
    all.sort_unstable();
    let pivot = |i: usize| all.get(i * size + size / 2 - 1).or(all.last()).copied();
    let pivots: Vec<u64> = (1..size).filter_map(pivot).collect();
    let mut counts = Vec::with_capacity(size);
    let mut from = 0;
    for pivot in &pivots {
        counts.push(keys[from..].partition_point(|key| key <= pivot));
        from += counts[counts.len() - 1];
    }
    counts.push(keys.len() - from);
    counts.resize(size, 0);
    let mut own = exchange.all_to_all_counts(&keys, &counts)?.concat();
    #[allow(clippy::stable_sort_primitive)] // it finds the runs that came, and merges them
    own.sort();
    Ok(own)
}
