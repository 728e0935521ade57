//! The largest of the values seen of late.

use core::time::Duration;

use towpath_wire::Instant;

/// Kathleen Nichols' windowed filter: the best value, the best after it, and the best after that.
/// Exact where values fall, at most a quarter of the age too pessimistic where they do not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Largest {
    best: [(Instant, u64); 3],
}

impl Largest {
    pub(super) const fn get(&self) -> u64 {
        self.best[0].1
    }

    /// Takes a value in, and forgets those older than `age`.
    pub(super) fn update(&mut self, now: Instant, value: u64, age: Duration) {
        let new = (now, value);
        if value >= self.best[0].1 || now.since(self.best[2].0) > age {
            self.best = [new; 3];
            return;
        }
        if value >= self.best[1].1 {
            self.best[1] = new;
            self.best[2] = new;
        } else if value >= self.best[2].1 {
            self.best[2] = new;
        }
        let passed = now.since(self.best[0].0);
        if passed > age {
            self.best = [self.best[1], self.best[2], new];
            if now.since(self.best[0].0) > age {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if self.best[1].0 == self.best[0].0 && passed > age / 4 {
            self.best[1] = new;
            self.best[2] = new;
        } else if self.best[2].0 == self.best[1].0 && passed > age / 2 {
            self.best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn never_above_the_largest_of_the_age_nor_below_that_of_its_last_half(
            values in proptest::collection::vec(1..1000u64, 1..200),
        ) {
            let at = |i: usize| Instant::from_nanos(i as u64 * 1000);
            let mut largest = Largest::default();
            for (i, v) in values.iter().enumerate() {
                largest.update(at(i + 1), *v, Duration::from_micros(20));
                let of = |n: usize| values[(i + 1).saturating_sub(n)..=i].iter().max().copied();
                prop_assert!(largest.get() <= of(21).unwrap());
                prop_assert!(largest.get() >= of(10).unwrap());
            }
        }
    }
}
