//! Integer histograms of times: what a channel's delay was, without keeping each packet.

use serde::{Deserialize, Serialize};
use towpath_wire::histogram::Scale;

/// Sub-buckets per octave as a power of two: 32, so a quantile is at most 1/32 too high.
const SUB_BITS: u32 = 5;
/// Times of this many nanoseconds and above (18 minutes) share the last bucket.
const OCTAVES: u32 = 40;

/// Counts of times in nanoseconds, exact below 64 ns, within 1/32 above; least, greatest and sum
/// are exact. At most 1152 buckets (4.5 KiB), grown as they are needed.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    buckets: Vec<u32>,
    count: u64,
    sum: u128,
    least: u64,
    most: u64,
}

/// What a histogram says, in nanoseconds. Quantiles are never understated and at most 1/32 too
/// high; the other figures are exact. All zero when there was no sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Samples.
    pub samples: u64,
    /// Least.
    pub min_ns: u64,
    /// Mean, rounded down.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Greatest.
    pub max_ns: u64,
}

impl Summary {
    /// Of a few values, all figures exact.
    pub fn of(values: &[u64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let count = sorted.len() as u64;
        let sum: u128 = sorted.iter().map(|ns| u128::from(*ns)).sum();
        // As `Histogram::quantile`.
        let quantile = |per_mille: u64| {
            let rank = (count * per_mille).div_ceil(1000).max(1) as usize;
            sorted.get(rank - 1).copied().unwrap_or(0)
        };
        Self {
            samples: count,
            min_ns: sorted.first().copied().unwrap_or(0),
            mean_ns: (sum / u128::from(count.max(1))) as u64,
            p50_ns: quantile(500),
            p90_ns: quantile(900),
            p99_ns: quantile(990),
            p999_ns: quantile(999),
            max_ns: sorted.last().copied().unwrap_or(0),
        }
    }
}

type Fine = Scale<SUB_BITS>;

fn index_of(value: u64) -> usize {
    Fine::index_of(value.min((1 << OCTAVES) - 1))
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one time in.
    pub fn record(&mut self, ns: u64) {
        let index = index_of(ns);
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, 0);
        }
        self.buckets[index] = self.buckets[index].saturating_add(1);
        self.least = if self.count == 0 { ns } else { self.least.min(ns) };
        self.most = self.most.max(ns);
        self.count += 1;
        self.sum += u128::from(ns);
    }

    /// Takes all of another in.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*theirs);
        }
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.most = self.most.max(other.most);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// Samples.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Greatest time; zero without samples.
    pub const fn max(&self) -> u64 {
        self.most
    }

    /// Least time; zero without samples.
    pub const fn min(&self) -> u64 {
        self.least
    }

    /// A value that at least `per_mille` of 1000 samples do not exceed.
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let rank = (self.count * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += u64::from(*n);
            if seen >= rank {
                return Fine::top_of(i).min(self.most);
            }
        }
        self.most
    }

    /// The usual figures.
    pub fn summary(&self) -> Summary {
        Summary {
            samples: self.count,
            min_ns: self.least,
            mean_ns: (self.sum / u128::from(self.count.max(1))) as u64,
            p50_ns: self.quantile(500),
            p90_ns: self.quantile(900),
            p99_ns: self.quantile(990),
            p999_ns: self.quantile(999),
            max_ns: self.most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_gap_or_overlap() {
        for i in 0..1151 {
            assert_eq!(index_of(Fine::top_of(i)), i);
            assert_eq!(index_of(Fine::top_of(i) + 1), i + 1);
        }
        assert_eq!(index_of(u64::MAX), 1151);
    }

    proptest! {
        #[test]
        fn quantiles_are_not_understated_and_at_most_a_32nd_too_high(
            mut values in proptest::collection::vec(0..10_000_000_000u64, 1..300),
            per_mille in 1..=1000u64,
        ) {
            let mut h = Histogram::new();
            for v in &values {
                h.record(*v);
            }
            values.sort_unstable();
            let rank = (values.len() as u64 * per_mille).div_ceil(1000).max(1) as usize;
            let exact = values[rank - 1];
            let few = Summary::of(&values);
            prop_assert_eq!(few.p50_ns, values[(values.len() * 500).div_ceil(1000) - 1]);
            prop_assert_eq!(few.p99_ns, values[(values.len() * 990).div_ceil(1000) - 1]);
            let (a, b) = (h.summary(), few);
            let ends = |d: &Summary| (d.samples, d.min_ns, d.mean_ns, d.max_ns);
            prop_assert_eq!(ends(&a), ends(&b));
            let told = h.quantile(per_mille);
            prop_assert!(told >= exact && told <= exact + exact / 32 + 1, "{exact} {told}");
            prop_assert_eq!(h.summary().min_ns, values[0]);
            prop_assert_eq!(h.summary().max_ns, values[values.len() - 1]);
            let sum: u128 = values.iter().map(|v| u128::from(*v)).sum();
            prop_assert_eq!(u128::from(h.summary().mean_ns), sum / values.len() as u128);
        }

        #[test]
        fn merging_is_recording_both(
            a in proptest::collection::vec(any::<u64>(), 0..50),
            b in proptest::collection::vec(any::<u64>(), 0..50),
        ) {
            let fill = |v: &[u64]| {
                let mut h = Histogram::new();
                for x in v {
                    h.record(*x);
                }
                h
            };
            let mut merged = fill(&a);
            merged.merge(&fill(&b));
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(merged.summary(), fill(&both).summary());
        }
    }
}
