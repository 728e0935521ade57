//! Who is under its limit, kept as packets come and go.

use towpath_wire::Instant;

use super::Sharing;
use super::policy::Class;
use crate::scheduler::indexed_heap::{IndexedHeap, Places};
use crate::scheduler::rings::Rings;
use crate::scheduler::store::Table;

/// Levels of classes: a leaf's is 1, 16 classes may be above it.
const LEVELS: usize = 32;

/// Where [`Standings`] keep a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// No packets may use what it is owed.
    #[default]
    Idle,
    /// Packets wait, and it is over its limit.
    Over,
    /// Packets wait, and it is under its limit: unsatisfied.
    Under,
}

/// Leaves in round robin, and, for guidelines that ask, who is unsatisfied: O(1) to ask,
/// O(log V) to change.
///
/// Followed are the leaves with packets and, for the formal guideline, all classes with demand;
/// but leaves that may borrow count as under their limit throughout where ancestors alone decide.
///
/// Invariants, up to the latest `now`: what is followed is in `limited`, by the end of its pause,
/// or counts in `counts` at its level; a bit of `levels` is set iff its count is not zero; `under`
/// holds the leaves that are under their limit, `open` those and the ones that may borrow.
#[derive(Clone, Debug)]
pub(super) struct Standings {
    pub(super) open: Rings,
    pub(super) under: Rings,
    limited: IndexedHeap,
    places: Places,
    counts: [u32; LEVELS],
    levels: u32,
    sharing: Sharing,
}

impl Standings {
    pub(super) fn new(sharing: Sharing) -> Self {
        Self {
            open: Rings::new(),
            under: Rings::new(),
            limited: IndexedHeap::default(),
            places: Places::default(),
            counts: [0; LEVELS],
            levels: 0,
            sharing,
        }
    }

    pub(super) fn reserve(&mut self, queues: usize) {
        self.open.reserve(queues);
        self.under.reserve(queues);
        self.limited.reserve(queues);
        self.places.reserve(queues);
    }

    /// Moves those whose pause is over.
    #[inline]
    pub(super) fn advance(&mut self, table: &mut Table<Class>, now: Instant) {
        while let Some(first) = self.limited.peek() {
            if first.key > now.as_nanos() {
                break;
            }
            self.limited.remove(&mut self.places, first.queue);
            self.enter(table.state(first.queue), first.queue, Standing::Over, Standing::Under);
        }
    }

    /// The lowest level with an unsatisfied class.
    #[inline]
    pub(super) fn lowest(&self) -> Option<u8> {
        (self.levels != 0).then(|| self.levels.trailing_zeros() as u8)
    }

    /// When the first pause ends.
    pub(super) fn next(&self) -> Option<Instant> {
        self.limited.peek().map(|first| Instant::from_nanos(first.key))
    }

    /// Moves a class whose demand or pause changed to where it belongs.
    #[inline]
    pub(super) fn refile(&mut self, table: &mut Table<Class>, at: u32, now: Instant) {
        let class = table.state(at);
        let unlimited = self.sharing == Sharing::AncestorsOnly && class.may_borrow;
        let standing = if class.demand == 0 {
            Standing::Idle
        } else if unlimited || class.estimator.is_under(now) {
            Standing::Under
        } else {
            Standing::Over
        };
        let old = class.standing;
        let until = class.estimator.undertime().as_nanos();
        match (old, standing) {
            (Standing::Over, Standing::Over) => self.limited.update(&mut self.places, until, at),
            (Standing::Over, _) => self.limited.remove(&mut self.places, at),
            (_, Standing::Over) => self.limited.push(&mut self.places, until, at),
            _ => {}
        }
        if old != standing {
            self.enter(class, at, old, standing);
        }
    }

    /// All of a change but `limited`.
    #[inline]
    fn enter(&mut self, class: &mut Class, at: u32, old: Standing, standing: Standing) {
        class.standing = standing;
        if old == Standing::Under {
            self.count(class.level, false);
        }
        if standing == Standing::Under {
            self.count(class.level, true);
        }
        if class.children > 0 {
            return;
        }
        if old == Standing::Idle {
            class.filed = class.priority;
        }
        let filed = class.filed;
        if self.sharing != Sharing::AncestorsOnly {
            if old == Standing::Under {
                self.under.remove(filed, at);
            }
            if standing == Standing::Under {
                self.under.push(filed, at);
            }
        }
        let is_open = |s| s == Standing::Under || (s == Standing::Over && class.may_borrow);
        match (is_open(old), is_open(standing)) {
            (true, false) => self.open.remove(filed, at),
            (false, true) => self.open.push(filed, at),
            _ => {}
        }
    }

    /// Gives a class another level.
    pub(super) fn relevel(&mut self, class: &mut Class, level: u8) {
        let counts = class.standing == Standing::Under;
        if counts {
            self.count(class.level, false);
        }
        class.level = level;
        if counts {
            self.count(level, true);
        }
    }

    #[inline]
    fn count(&mut self, level: u8, more: bool) {
        let level = usize::from(level) % LEVELS;
        self.counts[level] = self.counts[level].wrapping_add_signed(if more { 1 } else { -1 });
        let bit = u32::from(self.counts[level] > 0) << level;
        self.levels = self.levels & !(1 << level) | bit;
    }
}
