//! Bounded series and histograms.

use super::report::Series;

/// Bins of a series. At this many the bins are merged in pairs.
pub const SERIES_BINS_MAX: usize = 1024;

/// How values that fall into one bin are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    Sum,
    Max,
}

impl Series {
    /// Empty, with bins of this many 27 MHz ticks.
    pub(super) fn new(bin_ticks: u64) -> Self {
        Self { bin_ticks, bins: alloc::vec::Vec::new() }
    }

    /// Adds a value at a time since zero.
    pub(super) fn add(&mut self, ticks: u64, value: u64, merge: Merge) {
        let mut bin = ticks / self.bin_ticks;
        while bin >= SERIES_BINS_MAX as u64 {
            self.halve(merge);
            bin = ticks / self.bin_ticks;
        }
        let bin = bin as usize;
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        let place = &mut self.bins[bin];
        *place = merge.of(*place, value);
    }

    /// Adds a value that came evenly from one time to another; nothing is lost to rounding.
    pub(super) fn spread(&mut self, from: u64, to: u64, value: u64) {
        if to <= from {
            return self.add(from, value, Merge::Sum);
        }
        // The bin of `to` must exist before the bins are walked.
        self.add(to, 0, Merge::Sum);
        let share = |until: u64| {
            (u128::from(value) * u128::from(until - from) / u128::from(to - from)) as u64
        };
        let (mut at, mut given) = (from, 0);
        while at < to {
            let until = (at / self.bin_ticks + 1).saturating_mul(self.bin_ticks).min(to);
            self.add(at, share(until) - given, Merge::Sum);
            given = share(until);
            at = until;
        }
    }

    fn halve(&mut self, merge: Merge) {
        let merged = self.bins.chunks(2).map(|c| c.iter().fold(0, |a, &b| merge.of(a, b)));
        self.bins = merged.collect();
        self.bin_ticks = self.bin_ticks.saturating_mul(2);
    }
}

impl Merge {
    fn of(self, a: u64, b: u64) -> u64 {
        match self {
            Self::Sum => a.saturating_add(b),
            Self::Max => a.max(b),
        }
    }
}

/// Bins of a histogram of sizes: four per doubling, up to 2³².
pub const SIZE_BINS: usize = 128;

/// The bin of a size: sizes 0 to 3 have their own, from 4 on there are four per doubling.
pub const fn size_bin(size: u64) -> usize {
    if size < 4 {
        return size as usize;
    }
    let octave = 63 - size.leading_zeros() as usize;
    let bin = (octave - 1) * 4 + ((size >> (octave - 2)) & 3) as usize;
    if bin < SIZE_BINS { bin } else { SIZE_BINS - 1 }
}

/// The smallest size that falls into a bin.
pub const fn size_bin_floor(bin: usize) -> u64 {
    if bin < 4 {
        return bin as u64;
    }
    let octave = bin / 4 + 1;
    (4 + (bin % 4) as u64) << (octave - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bin_starts_at_its_floor() {
        for bin in 0..SIZE_BINS - 1 {
            assert_eq!(size_bin(size_bin_floor(bin)), bin);
            assert_eq!(size_bin(size_bin_floor(bin + 1) - 1), bin);
        }
        assert_eq!(size_bin(u64::MAX), SIZE_BINS - 1);
    }

    #[test]
    fn what_is_spread_falls_where_its_time_is() {
        let mut series = Series::new(10);
        series.spread(5, 25, 100);
        assert_eq!(series.bins, [25, 50, 25]);
        series.spread(7, 7, 3);
        series.spread(0, 30, 1);
        assert_eq!(series.bins.iter().sum::<u64>(), 104);
    }

    #[test]
    fn a_full_series_doubles_its_bins_and_loses_nothing() {
        let mut sum = Series::new(10);
        let mut max = Series::new(10);
        for i in 0..100_000 {
            sum.add(i * 7, 1, Merge::Sum);
            max.add(i * 7, i, Merge::Max);
        }
        assert_eq!(sum.bins.iter().sum::<u64>(), 100_000);
        assert_eq!(sum.bin_ticks, 1280); // the least 10 · 2ⁿ that keeps 699 993 below 1024 bins
        assert!(sum.bins.len() <= SERIES_BINS_MAX);
        assert_eq!(*max.bins.last().expect("it is not empty"), 99_999);
        assert_eq!(max.bins[0], 1279 / 7);
    }
}
