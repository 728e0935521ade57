//! Parallel sorting by regular sampling (H. Shi, J. Schaeffer, 1992): no rank ends with more than
//! twice its share of distinct keys.

use crate::exchange::{Exchange, Result, bytes};

/// Sorts all ranks' keys: this rank's part of them, parts in the order of ranks.
pub(crate) fn sort(exchange: &mut dyn Exchange, mut keys: Vec<u64>) -> Result<Vec<u64>> {
    let size = exchange.size();
    keys.sort_unstable();
    if size == 1 {
        return Ok(keys);
    }
    let sample = |i: usize| keys.get(i * keys.len() / size).copied();
    let samples: Vec<u64> = (0..size).filter_map(sample).collect();
    let mut all = Vec::new();
    for part in exchange.all_gather(bytes::of_u64(&samples))? {
        bytes::append_u64(&part, &mut all)?;
    }
    all.sort_unstable();
    let pivot = |i: usize| all.get(i * size + size / 2 - 1).or(all.last()).copied();
    let pivots: Vec<u64> = (1..size).filter_map(pivot).collect();
    let mut parts = Vec::with_capacity(size);
    let mut rest = &keys[..];
    for pivot in &pivots {
        let (low, high) = rest.split_at(rest.partition_point(|key| key <= pivot));
        parts.push(bytes::of_u64(low));
        rest = high;
    }
    parts.push(bytes::of_u64(rest));
    parts.resize(size, Vec::new());
    let mut own = Vec::new();
    for part in exchange.all_to_all(parts)? {
        bytes::append_u64(&part, &mut own)?;
    }
    #[allow(clippy::stable_sort_primitive)] // it finds the runs that came, and merges them
    own.sort();
    Ok(own)
}
