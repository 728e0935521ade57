//! Distributions in bounded space: log-linear histograms.
//!
//! A [`Scale`] maps values to buckets: exact below `2^SUB_BITS`, and `2^SUB_BITS` equal buckets to
//! each doubling above, so that a bucket's greatest value is at most `1/2^SUB_BITS` above its least
//! one. [`Histogram`] counts on such a scale, in an array: nothing is allocated, recording is a
//! handful of instructions.

/// Which bucket a value falls into.
#[derive(Clone, Copy, Debug)]
pub struct Scale<const SUB_BITS: u32>;

impl<const SUB_BITS: u32> Scale<SUB_BITS> {
    const SUBS: u64 = 1 << SUB_BITS;

    /// The bucket of a value.
    pub const fn index_of(value: u64) -> usize {
        if value < Self::SUBS {
            return value as usize;
        }
        let octave = value.ilog2();
        let sub = (value >> (octave - SUB_BITS)) & (Self::SUBS - 1);
        ((((octave - SUB_BITS + 1) as u64) << SUB_BITS) + sub) as usize
    }

    /// The greatest value that falls into a bucket.
    pub const fn top_of(index: usize) -> u64 {
        let (octave, sub) = (index as u64 >> SUB_BITS, index as u64 & (Self::SUBS - 1));
        if octave == 0 { sub } else { ((Self::SUBS + sub + 1) << (octave - 1)) - 1 }
    }
}

/// The scale of [`Histogram`]: a quantile is at most a quarter too high.
type Quarters = Scale<2>;

/// Values from here on share the last bucket: 67 seconds in microseconds, 64 MiB in bytes.
const END: u64 = 1 << 26;
/// Buckets of a [`Histogram`].
pub const BUCKETS: usize = Quarters::index_of(END - 1) + 1;

/// How often which values came. Counts and sum wrap. 808 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    sum: u64,
    buckets: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one.
    pub const fn new() -> Self {
        Self { sum: 0, buckets: [0; BUCKETS] }
    }

    /// One of what another one counted: sum, then counts by bucket; what is beyond is passed over.
    pub fn of(sum: u64, counts: impl IntoIterator<Item = u64>) -> Self {
        let mut it = Self { sum, ..Self::new() };
        for (bucket, count) in it.buckets.iter_mut().zip(counts) {
            *bucket = count;
        }
        it
    }

    /// Takes a value in.
    pub const fn record(&mut self, value: u64) {
        let index = Quarters::index_of(if value < END { value } else { END - 1 });
        self.buckets[index] = self.buckets[index].wrapping_add(1);
        self.sum = self.sum.wrapping_add(value);
    }

    /// All values together.
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// The counts, by bucket.
    pub const fn buckets(&self) -> &[u64; BUCKETS] {
        &self.buckets
    }

    /// The buckets in which something is: greatest value and count. The last one's is
    /// [`u64::MAX`].
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let top = |i| if i == BUCKETS - 1 { u64::MAX } else { Quarters::top_of(i) };
        let all = self.buckets.iter().enumerate();
        all.filter(|(_, n)| **n > 0).map(move |(i, n)| (top(i), *n))
    }

    /// How many were at most `value`, where that is the end of a bucket; else of the buckets below.
    pub fn up_to(&self, value: u64) -> u64 {
        let whole = |(top, _): &(u64, u64)| *top <= value;
        self.filled().take_while(whole).fold(0, |sum, (_, n)| sum.wrapping_add(n))
    }

    /// The least value that `per_mille` of all do not exceed, a quarter too high at most; zero
    /// where there is none.
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let count = u128::from(self.count());
        let rank = (count * u128::from(per_mille)).div_ceil(1000).max(1);
        let mut seen = 0;
        for (top, n) in self.filled() {
            seen += u128::from(n);
            if seen >= rank {
                return top;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        let mut next = 0;
        for index in 0..BUCKETS {
            let top = Quarters::top_of(index);
            assert_eq!(Quarters::index_of(next), index);
            assert_eq!(Quarters::index_of(top), index);
            assert!(top - next <= next / 4, "{next}..={top}");
            next = top + 1;
        }
        assert_eq!(next, END);
        assert_eq!(Scale::<5>::index_of(64), 64, "exact up to twice the sub-buckets");
    }

    proptest! {
        #[test]
        fn quantiles_are_never_too_low_and_a_quarter_too_high_at_most(
            mut values in prop::collection::vec(0..END, 1..50),
            per_mille in 1..=1000u64,
        ) {
            let mut h = Histogram::new();
            for v in &values {
                h.record(*v);
            }
            values.sort_unstable();
            let count = values.len() as u64;
            let exact = values[((count * per_mille).div_ceil(1000) - 1) as usize];
            let told = h.quantile(per_mille);
            if told != u64::MAX {
                prop_assert!(exact <= told && told <= exact + exact / 4, "{exact}, told {told}");
            }
            prop_assert_eq!((h.count(), h.sum()), (count, values.iter().sum()));
            prop_assert_eq!(h.up_to(u64::MAX), count);
            let counts: Vec<u64> = h.buckets().to_vec();
            prop_assert_eq!(Histogram::of(h.sum(), counts), h);
        }
    }

    #[test]
    fn what_is_beyond_the_end_shares_the_last_bucket() {
        let mut h = Histogram::new();
        assert_eq!((h.quantile(500), h.count()), (0, 0));
        for v in [7, END, u64::MAX / 2] {
            h.record(v);
        }
        assert_eq!(h.filled().collect::<Vec<_>>(), [(7, 1), (u64::MAX, 2)]);
        assert_eq!((h.up_to(6), h.up_to(7)), (0, 1));
        assert_eq!((h.quantile(300), h.quantile(1000)), (7, u64::MAX));
        assert_eq!(size_of::<Histogram>(), 808);
    }
}
