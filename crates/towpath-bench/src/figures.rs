//! What samples say, and how a size is written.

/// The median; none of nothing.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let upper = values.get(n / 2)?;
    Some(if n % 2 == 1 { *upper } else { f64::midpoint(values[n / 2 - 1], *upper) })
}

/// What this share of sorted nanoseconds does not exceed, in microseconds; none of nothing.
pub(crate) fn us_at(sorted_ns: &[u64], share: f64) -> Option<f64> {
    let last = sorted_ns.len().checked_sub(1)?;
    Some(sorted_ns[((sorted_ns.len() as f64 * share) as usize).min(last)] as f64 / 1e3)
}

/// `1 MiB`, `4000000 B`.
pub(crate) fn bytes(len: usize) -> String {
    match len {
        l if l % (1 << 20) == 0 => format!("{} MiB", l >> 20),
        l if l % (1 << 10) == 0 => format!("{} KiB", l >> 10),
        l => format!("{l} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_what_is_there() {
        assert_eq!(median([9.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([1.0, 2.0].into_iter()), Some(1.5));
        assert_eq!(median(std::iter::empty()), None);
        let ns: Vec<u64> = (1..=1000).map(|n| n * 1000).collect();
        let at = [0.5, 0.9, 0.99, 1.0].map(|share| us_at(&ns, share));
        assert_eq!(at, [501.0, 901.0, 991.0, 1000.0].map(Some));
        assert_eq!(us_at(&[], 0.5), None);
    }

    #[test]
    fn sizes_are_written_in_the_largest_unit_that_is_exact() {
        assert_eq!([1 << 20, 64 << 10, 1400].map(bytes), ["1 MiB", "64 KiB", "1400 B"]);
    }
}
