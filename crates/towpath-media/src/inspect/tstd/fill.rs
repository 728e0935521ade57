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
