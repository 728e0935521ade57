//! Which byte ranges of a message have been seen.

use alloc::vec::Vec;

/// Most ranges kept. Beyond it new pieces are refused (and repeated by their sender), so that a
/// peer that sends every second byte cannot make us keep half a message in bookkeeping.
pub(crate) const RANGES_MAX: usize = 4096;

/// A set of offsets: all below `prefix`, and sorted, disjoint, non-adjacent ranges `start..end`.
/// What comes in order costs no memory but this.
/// Invariants: `start < end`; `prefix` < the first `start`; each range's `end` < the next one's
/// `start`; `len ≤ RANGES_MAX`.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    prefix: u32,
    ranges: Vec<(u32, u32)>,
}

impl RangeSet {
    /// Adds `start..end`. False when the set is too fragmented to take it.
    pub(crate) fn insert(&mut self, start: u32, end: u32) -> bool {
        if start >= end {
            return true;
        }
        if start <= self.prefix {
            self.raise_prefix(end);
            return true;
        }
        // The first range that reaches `start`, and the first that begins beyond `end`.
        let from = self.ranges.partition_point(|r| r.1 < start);
        let to = from + self.ranges[from..].partition_point(|r| r.0 <= end);
        if from == to {
            if self.ranges.len() >= RANGES_MAX {
                return false;
            }
            self.ranges.insert(from, (start, end));
            return true;
        }
        self.ranges[from] = (start.min(self.ranges[from].0), end.max(self.ranges[to - 1].1));
        self.ranges.drain(from + 1..to);
        true
    }

    fn raise_prefix(&mut self, end: u32) {
        self.prefix = self.prefix.max(end);
        let reached = self.ranges.partition_point(|r| r.0 <= self.prefix);
        if let Some(last) = self.ranges.drain(..reached).next_back() {
            self.prefix = self.prefix.max(last.1);
        }
    }

    /// True when `start..end` is all there.
    pub(crate) fn covers(&self, start: u32, end: u32) -> bool {
        if start >= end || end <= self.prefix {
            return true;
        }
        let i = self.ranges.partition_point(|r| r.1 < end);
        self.ranges.get(i).is_some_and(|r| r.0 <= start && end <= r.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_set_of_offsets(
            ops in proptest::collection::vec((0..200u32, 0..20u32), 0..60),
            probes in proptest::collection::vec((0..200u32, 0..20u32), 20),
        ) {
            let mut set = RangeSet::default();
            let mut model = [false; 256];
            for (start, len) in ops {
                prop_assert!(set.insert(start, start + len));
                model[start as usize..(start + len) as usize].fill(true);
                prop_assert!(set.ranges.first().is_none_or(|r| set.prefix < r.0));
                prop_assert!(set.ranges.windows(2).all(|w| w[0].1 < w[1].0));
                prop_assert!(set.ranges.iter().all(|r| r.0 < r.1));
            }
            for (start, len) in probes {
                let all = model[start as usize..(start + len) as usize].iter().all(|b| *b);
                prop_assert_eq!(set.covers(start, start + len), all);
            }
        }
    }

    #[test]
    fn fragmentation_is_bounded_and_joining_still_works() {
        let mut set = RangeSet::default();
        for i in 0..RANGES_MAX as u32 {
            assert!(set.insert(2 * i + 1, 2 * i + 2));
        }
        assert!(!set.insert(1_000_000, 1_000_001));
        assert!(set.insert(2, 3));
        assert!(set.covers(1, 4));
        assert!(set.insert(0, 1));
        assert!(set.covers(0, 4) && !set.covers(0, 5));
    }
}
