//! What a subscriber was told, put together again.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use towpath_wire::histogram::Histogram;

use super::delta::{Change, Head, MetricsError, Told, parse};
use super::subscription::SERIES_MAX;
use super::table::{Row, Series, Values, group, whole_of};

/// All series as they stand. Memory: [`SERIES_MAX`] of them.
#[derive(Clone, Debug, Default)]
pub struct Store {
    series: BTreeMap<Series, Values>,
    /// The number of the next delta.
    next: u64,
    lost: u64,
    untold: u32,
}

impl Store {
    /// Takes in the next delta, and says what it said of itself. After an error nothing more is of
    /// use.
    pub fn apply(&mut self, delta: &[u8]) -> Result<Head, MetricsError> {
        let (head, told) = parse(delta)?;
        if head.number != self.next {
            return Err(MetricsError::OutOfTurn { number: head.number, expected: self.next });
        }
        self.next += 1;
        self.lost += u64::from(head.lost);
        self.untold = head.untold;
        for told in told {
            self.take(&told?)?;
        }
        Ok(head)
    }

    fn take(&mut self, told: &Told) -> Result<(), MetricsError> {
        let Series { group, key, sub, .. } = told.series;
        match told.change {
            Change::Gone => {
                self.series.remove(&told.series);
                return Ok(());
            }
            Change::Fresh => {
                self.series.insert(told.series, Values::default());
                if self.series.len() > SERIES_MAX {
                    return Err(MetricsError::TooMany(SERIES_MAX));
                }
            }
            Change::Stepped => {}
        }
        let values = self.series.get_mut(&told.series);
        let values = values.ok_or(MetricsError::Untold { group, key, sub })?;
        for (value, step) in values.iter_mut().zip(told.steps) {
            *value = value.wrapping_add(step);
        }
        Ok(())
    }

    /// All of them, in order.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.series.iter().map(|(series, values)| Row { series: *series, values: *values })
    }

    /// Those that are distributions, each as a whole, in order.
    pub fn distributions(&self) -> impl Iterator<Item = (Series, Histogram)> + '_ {
        let is = |row: &Row| group(row.series.group).is_some_and(|g| g.distribution().is_some());
        let mut rows = self.rows().filter(is).peekable();
        core::iter::from_fn(move || {
            let series = rows.peek()?.series.whole();
            let more = || rows.next_if(|row| row.series.whole() == series);
            let parts: Vec<Row> = core::iter::from_fn(more).collect();
            Some((series, whole_of(&parts)))
        })
    }

    /// Rounds that were left out so far, since we did not read.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Series that we are not told of since there are too many.
    pub const fn untold(&self) -> u32 {
        self.untold
    }
}

#[cfg(test)]
mod tests {
    use super::super::delta::Composer;
    use super::super::table::{TRIP, part_of};
    use super::*;

    const ONE: Series = Series::new(6, 77, 0);

    fn delta(number: u64, f: impl FnOnce(&mut Composer)) -> alloc::vec::Vec<u8> {
        let mut composer = Composer::default();
        f(&mut composer);
        composer.finish(&Head { number, lost: 2, ..Head::default() })
    }

    #[test]
    fn deltas_come_in_turn_and_only_of_what_was_told() {
        let mut store = Store::default();
        let values = |n| core::array::from_fn(|i| if i < 5 { n } else { 0 });
        store.apply(&delta(0, |c| c.step(ONE, None, &values(5)))).unwrap();
        store.apply(&delta(1, |c| c.step(ONE, Some(&values(5)), &values(3)))).unwrap();
        let rows: alloc::vec::Vec<_> = store.rows().collect();
        assert_eq!(rows, [Row { series: ONE, values: values(3) }]);
        assert_eq!((store.lost(), store.untold()), (4, 0));
        let again = store.clone().apply(&delta(1, |_| {}));
        assert_eq!(again, Err(MetricsError::OutOfTurn { number: 1, expected: 2 }));
        // It is gone, and new again: what it had is forgotten.
        store.apply(&delta(2, |c| c.gone(ONE))).unwrap();
        assert_eq!(store.rows().count(), 0);
        let untold = store.clone().apply(&delta(3, |c| c.step(ONE, Some(&values(1)), &values(2))));
        assert_eq!(untold, Err(MetricsError::Untold { group: 6, key: 77, sub: 0 }));
        store.apply(&delta(3, |c| c.step(ONE, None, &values(7)))).unwrap();
        store.apply(&delta(4, |c| c.step(ONE, None, &values(9)))).unwrap();
        assert_eq!(store.rows().next().map(|r| r.values), Some(values(9)), "fresh is from zero");
    }

    #[test]
    fn parts_of_distributions_come_together() {
        let (mut store, mut of) = (Store::default(), Histogram::new());
        for v in [7, 70_000, 7] {
            of.record(v);
        }
        let [a, b] = [4, 9].map(|key| Series::new(TRIP.number, key, 0));
        let mut told = 0;
        for series in [a, b] {
            let mut last = None;
            while let Some(row) = part_of(series, &of, last) {
                last = Some(row.series.part);
                store.apply(&delta(told, |c| c.step(row.series, None, &row.values))).unwrap();
                told += 1;
            }
        }
        assert_eq!(told, 4);
        let all: Vec<_> = store.distributions().collect();
        assert_eq!(all, [(a, of), (b, of)]);
    }

    #[test]
    fn series_have_a_limit() {
        let mut store = Store::default();
        for key in 0..SERIES_MAX as u64 {
            let one = Series { key, ..ONE };
            store.apply(&delta(key, |c| c.step(one, None, &Values::default()))).unwrap();
        }
        let one = Series { key: u64::MAX, ..ONE };
        let over = delta(SERIES_MAX as u64, |c| c.step(one, None, &Values::default()));
        assert_eq!(store.apply(&over), Err(MetricsError::TooMany(SERIES_MAX)));
    }
}
