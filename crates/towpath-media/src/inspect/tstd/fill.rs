//! How full a buffer got.

use alloc::vec::Vec;

use crate::inspect::bins::Merge;
use crate::inspect::report::{FillReport, Series};
use crate::read::CLOCK_HZ;

/// Offsets kept.
pub(super) const OFFSETS_MAX: usize = 16;

impl FillReport {
    pub(super) const fn new(size_bytes: u64) -> Self {
        Self { size_bytes, max_bytes: 0, overflows: 0, first_offsets: Vec::new() }
    }

    pub(super) fn note(&mut self, bytes: u64, offset: u64) {
        self.max_bytes = self.max_bytes.max(bytes);
        if bytes > self.size_bytes {
            self.overflows += 1;
            if self.first_offsets.len() < OFFSETS_MAX {
                self.first_offsets.push(offset);
            }
        }
    }
}

/// A series of maxima that is touched once per bin and not once per packet.
#[derive(Debug)]
pub(super) struct Peaks {
    series: Series,
    peak: u64,
    at: u64,
    bin_end: u64,
}

impl Peaks {
    pub(super) fn new() -> Self {
        Self { series: Series::new(CLOCK_HZ / 20), peak: 0, at: 0, bin_end: 0 }
    }

    pub(super) fn add(&mut self, at: u64, value: u64) {
        if at >= self.bin_end {
            self.flush();
            self.peak = 0;
            self.at = at;
            self.bin_end = (at / self.series.bin_ticks + 1) * self.series.bin_ticks;
        }
        self.peak = self.peak.max(value);
    }

    fn flush(&mut self) {
        if self.bin_end > 0 {
            self.series.add(self.at, self.peak, Merge::Max);
        }
    }

    pub(super) fn finish(mut self) -> Series {
        self.flush();
        self.series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_beyond_a_buffer_is_counted_and_the_first_places_kept() {
        let mut fill = FillReport::new(10);
        for (bytes, offset) in [(10, 1), (11, 2), (3, 3)] {
            fill.note(bytes, offset);
        }
        assert_eq!((fill.max_bytes, fill.overflows, &fill.first_offsets[..]), (11, 1, &[2][..]));
        (0..40).for_each(|offset| fill.note(12, offset));
        assert_eq!((fill.overflows, fill.first_offsets.len()), (41, OFFSETS_MAX));
    }

    #[test]
    fn of_each_bin_the_most_is_kept() {
        let bin = CLOCK_HZ / 20;
        let mut peaks = Peaks::new();
        for (at, value) in [(0, 3), (5, 7), (bin - 1, 2), (bin, 4), (3 * bin + 5, 9)] {
            peaks.add(at, value);
        }
        assert_eq!(peaks.finish().bins, [7, 4, 0, 9]);
        assert!(Peaks::new().finish().bins.is_empty());
    }
}
