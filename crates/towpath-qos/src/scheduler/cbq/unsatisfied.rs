//! Which classes are unsatisfied, kept as packets come and go.

use towpath_wire::Instant;

use super::policy::Class;
use crate::scheduler::indexed_heap::{IndexedHeap, Places};
use crate::scheduler::store::Table;

/// Levels of classes: a leaf's is 1, 16 classes may be above it.
const LEVELS: usize = 32;

/// Where [`Unsatisfied`] keeps a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// No packets may use what it is owed.
    #[default]
    Idle,
    /// Packets wait, and it is over its limit: in `limited`.
    Over,
    /// Packets wait, and it is under its limit: unsatisfied.
    Under,
}

/// The unsatisfied classes by level: O(1) to ask, O(log V) to change.
///
/// Invariants, up to the latest `now`: a class with demand is in `limited`, by the end of its
/// pause, or counts in `under` at its level; a bit of `levels` is set iff its count is not zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsatisfied {
    limited: IndexedHeap,
    places: Places,
    under: [u32; LEVELS],
    levels: u32,
}

impl Unsatisfied {
    pub(super) fn reserve(&mut self, queues: usize) {
        self.limited.reserve(queues);
        self.places.reserve(queues);
    }

    /// The lowest level with an unsatisfied class.
    #[inline]
    pub(super) fn lowest(&mut self, table: &mut Table<Class>, now: Instant) -> Option<u8> {
        while let Some(first) = self.limited.peek() {
            if first.key > now.as_nanos() {
                break;
            }
            self.limited.remove(&mut self.places, first.queue);
            let class = table.state(first.queue);
            class.standing = Standing::Under;
            self.count(class.level, true);
        }
        (self.levels != 0).then(|| self.levels.trailing_zeros() as u8)
    }

    /// Moves a class whose demand or pause changed to where it belongs.
    #[inline]
    pub(super) fn refile(&mut self, table: &mut Table<Class>, at: u32, now: Instant) {
        let class = table.state(at);
        let standing = if class.demand == 0 {
            Standing::Idle
        } else if class.estimator.is_under(now) {
            Standing::Under
        } else {
            Standing::Over
        };
        let old = core::mem::replace(&mut class.standing, standing);
        let (level, until) = (class.level, class.estimator.undertime().as_nanos());
        match (old, standing) {
            (Standing::Over, Standing::Over) => self.limited.update(&mut self.places, until, at),
            (Standing::Over, _) => self.limited.remove(&mut self.places, at),
            (Standing::Under, Standing::Idle | Standing::Over) => self.count(level, false),
            _ => {}
        }
        match (old, standing) {
            (Standing::Idle | Standing::Under, Standing::Over) => {
                self.limited.push(&mut self.places, until, at);
            }
            (Standing::Idle | Standing::Over, Standing::Under) => self.count(level, true),
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
        self.under[level] = self.under[level].wrapping_add_signed(if more { 1 } else { -1 });
        let bit = u32::from(self.under[level] > 0) << level;
        self.levels = self.levels & !(1 << level) | bit;
    }
}
