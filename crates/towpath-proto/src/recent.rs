//! The largest of the values seen of late.

use core::time::Duration;

use towpath_wire::Instant;

/// The largest value of the present span of time and of the one before it: what is `span` old
/// still counts, what is twice as old never does. For the smallest, take `core::cmp::Reverse`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent<T> {
    span: Duration,
    since: Instant,
    present: Option<T>,
    before: Option<T>,
}

impl<T: Copy + Ord> Recent<T> {
    pub(crate) const fn new(span: Duration) -> Self {
        Self { span, since: Instant::ZERO, present: None, before: None }
    }

    /// What is taken from now on counts for so long.
    pub(crate) const fn set_span(&mut self, span: Duration) {
        self.span = span;
    }

    pub(crate) fn get(&self) -> Option<T> {
        self.present.max(self.before)
    }

    pub(crate) fn take(&mut self, now: Instant, value: T) {
        let passed = now.since(self.since);
        if passed >= 2 * self.span {
            (self.since, self.before, self.present) = (now, None, None);
        } else if passed >= self.span {
            self.since += self.span;
            self.before = self.present.take();
        }
        self.present = self.present.max(Some(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_of_one_span_and_nothing_older_than_two_counts(
            values in proptest::collection::vec((0..15u64, 1..1000u64), 1..200),
        ) {
            let mut recent = Recent::new(Duration::from_nanos(20));
            let (mut now, mut seen) = (0, std::vec::Vec::new());
            for (step, v) in values {
                now += step;
                seen.push((now, v));
                recent.take(Instant::from_nanos(now), v);
                let of = |age| seen.iter().filter(|s| now - s.0 < age).map(|s| s.1).max();
                prop_assert!(recent.get() >= of(20));
                prop_assert!(recent.get() <= of(41));
            }
        }
    }
}
