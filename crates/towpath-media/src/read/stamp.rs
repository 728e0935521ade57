//! Time stamps and clocks that wrap.

/// Values of PTS, DTS and the base of PCR are below this.
pub(super) const STAMP_MODULUS: u64 = 1 << 33;
/// Values of PCR are below this: 2³³ · 300.
pub(super) const CLOCK_MODULUS: u64 = STAMP_MODULUS * 300;

/// The value congruent to `raw` that is nearest to `reference`.
pub(super) const fn nearest(raw: u64, reference: i64, modulus: u64) -> i64 {
    let (modulus, raw) = (modulus.cast_signed(), (raw % modulus).cast_signed());
    let step = (raw - reference.rem_euclid(modulus)).rem_euclid(modulus);
    let step = if step > modulus / 2 { step - modulus } else { step };
    reference.saturating_add(step)
}

/// Undoes the wraps of a stream's stamps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unwrap {
    last: Option<i64>,
}

impl Unwrap {
    /// The value nearest to the one before; the first one nearest to `near`, else as it is.
    pub(super) fn unwrap(&mut self, raw: u64, near: Option<i64>) -> i64 {
        let value = Self::around(raw, self.last.or(near));
        self.last = Some(value);
        value
    }

    /// The value nearest to a reference, as it is without one.
    pub(super) fn around(raw: u64, reference: Option<i64>) -> i64 {
        reference.map_or((raw % STAMP_MODULUS).cast_signed(), |r| nearest(raw, r, STAMP_MODULUS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_are_undone_both_ways() {
        let mut u = Unwrap::default();
        assert_eq!(u.unwrap(STAMP_MODULUS - 100, None), (1 << 33) - 100);
        assert_eq!(u.unwrap(50, None), (1 << 33) + 50);
        assert_eq!(u.unwrap(STAMP_MODULUS - 1, None), (1 << 33) - 1);
        assert_eq!(nearest(0, -5, 300), 0);
        assert_eq!(nearest(299, 0, 300), -1);
        assert_eq!(nearest(150, 0, 300), 150);
        assert_eq!(nearest(151, 0, 300), -149);
    }

    #[test]
    fn the_first_stamp_is_placed_by_the_clock() {
        let mut u = Unwrap::default();
        assert_eq!(u.unwrap(10, Some((1 << 33) - 20)), (1 << 33) + 10);
    }
}
