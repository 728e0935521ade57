//! Who is told what next. A subscriber costs its daemon [`SERIES_PER_TURN`] series a turn, and
//! memory for [`SERIES_MAX`]; one that does not read costs nothing more than that.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;
use core::time::Duration;

use towpath_wire::Instant;

use super::delta::{Composer, Head};
use super::table::{Row, Series, Values};

/// Series that a subscriber is told of.
pub const SERIES_MAX: usize = 32_768;
/// Series that are looked at before others have their turn.
pub const SERIES_PER_TURN: usize = 64;
/// Where so many bytes wait for a subscriber, nothing is added.
pub const BACKLOG_MAX: usize = 64 << 10;
/// The shortest time between two rounds.
pub const EVERY_MIN: Duration = Duration::from_millis(100);
/// The longest one.
pub const EVERY_MAX: Duration = Duration::from_hours(24);

/// Where series are read.
pub trait Source {
    /// The first series behind `last`, or of all, as it stands.
    fn after(&mut self, last: Option<Series>) -> Option<Row>;
}

/// One subscriber. Invariant: `known` is what it was told, [`SERIES_MAX`] at most.
#[derive(Debug)]
pub struct Subscription {
    /// `None`: one round is all.
    every: Option<Duration>,
    /// When the next round is to begin.
    next_at: Instant,
    known: BTreeMap<Series, Values>,
    /// A round is under way.
    under_way: bool,
    /// The last series of the present round that was looked at.
    last: Option<Series>,
    number: u64,
    lost: u32,
    untold: u32,
}

impl Subscription {
    /// One that is told of everything at once, and of changes each `every`, which is brought
    /// within [`EVERY_MIN`] and [`EVERY_MAX`].
    pub fn new(now: Instant, every: Duration) -> Self {
        Self { every: Some(every.clamp(EVERY_MIN, EVERY_MAX)), ..Self::once(now) }
    }

    /// One that is told of everything once.
    pub fn once(now: Instant) -> Self {
        Self {
            every: None,
            next_at: now,
            known: BTreeMap::new(),
            under_way: false,
            last: None,
            number: 0,
            lost: 0,
            untold: 0,
        }
    }

    /// It is told of everything once.
    pub const fn is_once(&self) -> bool {
        self.every.is_none()
    }

    /// It was told all that it is to be told.
    pub const fn is_over(&self) -> bool {
        self.is_once() && self.number > 0 && !self.under_way
    }

    /// When [`Subscription::turn`] has something to do, where `backlog` bytes wait to be written;
    /// `None`: once they are fewer.
    pub fn due(&self, backlog: usize) -> Option<Instant> {
        match self.under_way {
            true if backlog > BACKLOG_MAX => None,
            true => Some(Instant::ZERO),
            false => Some(self.next_at),
        }
    }

    /// The next delta, if it is time for one and the subscriber reads.
    pub fn turn(
        &mut self,
        now: Instant,
        backlog: usize,
        source: &mut dyn Source,
    ) -> Option<Vec<u8>> {
        if self.due(backlog).is_none_or(|at| at > now) {
            return None;
        }
        let begins = !self.under_way;
        if begins {
            self.next_at = self.every.map_or(Instant::NEVER, |every| now + every);
            if backlog > BACKLOG_MAX {
                self.lost = self.lost.saturating_add(1);
                return None;
            }
            (self.untold, self.last) = (0, None);
        }
        let mut composer = Composer::default();
        let mut ends = false;
        for _ in 0..SERIES_PER_TURN {
            let Some(series) = self.look(source, &mut composer) else {
                ends = true;
                break;
            };
            self.last = Some(series);
        }
        self.under_way = !ends;
        let Self { number, untold, .. } = *self;
        let lost = if begins { core::mem::take(&mut self.lost) } else { 0 };
        self.number += 1;
        Some(composer.finish(&Head { number, begins, ends, lost, untold }))
    }

    /// Looks at the first series behind the last one that is there, or was; `None`: there is none.
    fn look(&mut self, source: &mut dyn Source, composer: &mut Composer) -> Option<Series> {
        let last = self.last;
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let was = self.known.range((from, Bound::Unbounded)).next().map(|(series, _)| *series);
        let is = source.after(last);
        if let Some(was) = was.filter(|was| is.is_none_or(|is| *was < is.series)) {
            self.known.remove(&was);
            composer.gone(was);
            return Some(was);
        }
        let Row { series, values } = is?;
        let full = self.known.len() >= SERIES_MAX;
        match self.known.get_mut(&series) {
            Some(told) if *told == values => {}
            Some(told) => {
                composer.step(series, Some(told), &values);
                *told = values;
            }
            None if full => self.untold = self.untold.saturating_add(1),
            None => {
                composer.step(series, None, &values);
                self.known.insert(series, values);
            }
        }
        Some(series)
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::Store;
    use super::super::table::Task;
    use super::*;
    use proptest::prelude::*;

    struct Rows(BTreeMap<Series, Values>);

    impl Rows {
        fn of(count: u64) -> Self {
            let mut rows = Self(BTreeMap::new());
            for key in 0..count {
                rows.set(key, key);
            }
            rows
        }

        fn set(&mut self, key: u64, peers: u64) {
            let Row { series, values } = Task { peers, ..Task::default() }.row(key, 0);
            self.0.insert(series, values);
        }
    }

    impl Source for Rows {
        fn after(&mut self, last: Option<Series>) -> Option<Row> {
            let from = last.map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.0.range((from, Bound::Unbounded)).next();
            next.map(|(series, values)| Row { series: *series, values: *values })
        }
    }

    const EVERY: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// A round at `ms`: how many deltas it took, and the bytes of the longest.
    fn round(s: &mut Subscription, ms: u64, rows: &mut Rows, store: &mut Store) -> (usize, usize) {
        let (mut count, mut longest) = (0, 0);
        loop {
            let delta = s.turn(at(ms), 0, rows).expect("it is time");
            (count, longest) = (count + 1, longest.max(delta.len()));
            let head = store.apply(&delta).expect("it can be read");
            assert_eq!(head.begins, count == 1);
            if head.ends {
                return (count, longest);
            }
        }
    }

    fn same(store: &Store, rows: &Rows) -> bool {
        store.rows().map(|r| (r.series, r.values)).eq(rows.0.iter().map(|(s, v)| (*s, *v)))
    }

    proptest! {
        #[test]
        fn after_each_round_a_subscriber_has_what_there_is(
            changes in prop::collection::vec(
                prop::collection::vec((0..150u64, prop::option::of(0..3u64)), 0..80), 1..6),
        ) {
            let mut s = Subscription::new(at(0), EVERY);
            let (mut rows, mut store) = (Rows::of(70), Store::default());
            for (i, changes) in changes.into_iter().enumerate() {
                round(&mut s, i as u64 * 1000, &mut rows, &mut store);
                prop_assert!(same(&store, &rows));
                for (key, peers) in changes {
                    match peers {
                        Some(peers) => rows.set(key, peers),
                        None => drop(rows.0.remove(&Task::default().row(key, 0).series)),
                    }
                }
            }
        }
    }

    #[test]
    fn a_turn_looks_at_so_many_series_and_tells_what_changed_alone() {
        let mut s = Subscription::new(at(0), EVERY);
        let (mut rows, mut store) = (Rows::of(1000), Store::default());
        let (turns, longest) = round(&mut s, 0, &mut rows, &mut store);
        assert_eq!(turns, 1000 / SERIES_PER_TURN + 1);
        assert!(longest < 32 << 10, "{longest}");
        assert!(same(&store, &rows));
        assert_eq!((s.due(0), s.turn(at(999), 0, &mut rows)), (Some(at(1000)), None));
        let (turns, longest) = round(&mut s, 1000, &mut rows, &mut store);
        assert_eq!((turns, longest), (1000 / SERIES_PER_TURN + 1, 19), "nothing changed");
    }

    #[test]
    fn who_does_not_read_is_told_nothing_and_then_how_much_was_left_out() {
        let mut s = Subscription::new(at(0), EVERY);
        let (mut rows, mut store) = (Rows::of(100), Store::default());
        // In the middle of a round it waits for its reader, and nobody calls it meanwhile.
        store.apply(&s.turn(at(0), BACKLOG_MAX, &mut rows).expect("little waits")).unwrap();
        assert_eq!((s.due(BACKLOG_MAX + 1), s.due(BACKLOG_MAX)), (None, Some(Instant::ZERO)));
        assert_eq!(s.turn(at(5), BACKLOG_MAX + 1, &mut rows), None);
        assert!(store.apply(&s.turn(at(6), 0, &mut rows).expect("it reads")).unwrap().ends);
        for ms in [1000, 2000, 3000] {
            rows.set(5, ms);
            assert_eq!(s.turn(at(ms), BACKLOG_MAX + 1, &mut rows), None);
            assert_eq!(s.due(BACKLOG_MAX + 1), Some(at(ms + 1000)));
        }
        round(&mut s, 4000, &mut rows, &mut store);
        assert_eq!(store.lost(), 3);
        assert!(same(&store, &rows), "nothing but moments is lost");
    }

    #[test]
    fn one_round_is_all_for_who_wants_one() {
        let mut subscription = Subscription::once(Instant::ZERO);
        let (mut rows, mut store) = (Rows::of(100), Store::default());
        for ends in [false, true] {
            assert!(!subscription.is_over());
            let delta = subscription.turn(Instant::ZERO, 0, &mut rows).expect("it is time");
            assert_eq!(store.apply(&delta).unwrap().ends, ends);
        }
        assert!(subscription.is_over());
        assert_eq!((store.rows().count(), subscription.due(0)), (100, Some(Instant::NEVER)));
    }

    #[test]
    fn beyond_the_limit_series_are_counted() {
        let mut s = Subscription::new(at(0), EVERY);
        let (mut rows, mut store) = (Rows::of(SERIES_MAX as u64 + 3), Store::default());
        round(&mut s, 0, &mut rows, &mut store);
        assert_eq!((store.rows().count(), store.untold()), (SERIES_MAX, 3));
        // Where others go there is room.
        for key in 0..3 {
            rows.0.remove(&Task::default().row(key, 0).series);
        }
        round(&mut s, 1000, &mut rows, &mut store);
        assert_eq!((store.untold(), same(&store, &rows)), (0, true));
    }

    #[test]
    fn rounds_are_no_closer_than_they_may_be() {
        let (mut rows, mut store) = (Rows::of(1), Store::default());
        for (asked, is) in [(Duration::ZERO, EVERY_MIN), (Duration::MAX, EVERY_MAX), (EVERY, EVERY)]
        {
            let mut s = Subscription::new(at(0), asked);
            round(&mut s, 0, &mut rows, &mut store);
            assert_eq!(s.due(0), Some(at(0) + is));
            store = Store::default();
        }
    }
}
