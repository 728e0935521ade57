//! Ticks of a replica, by the clock of whoever keeps it.

use core::time::Duration;

use towpath_wire::Instant;

/// How long a tick of the replica is: its settings count in these.
pub(crate) const TICK: Duration = Duration::from_millis(50);
/// Where nothing was decided, and nobody was elected, for so many ticks, those that bring nothing
/// wake nobody.
const RESTLESS: u32 = 20;

/// When the next tick is due. Ticks before it bring nothing: they are counted when anything else
/// wakes this host, or with the one that is due.
/// Invariant: `1 ≤ waits ≤ most`.
#[derive(Debug)]
pub(crate) struct Ticking {
    /// When the last tick was counted.
    since: Instant,
    /// The one that is due.
    waits: u32,
    /// Most that may be counted at once: what was slept through beyond them is not made up for,
    /// since others have not heard of it either.
    most: u32,
    /// Ticks until there is rest, and as of when: what is decided, and by whom.
    restless: u32,
    seen: (u64, u64, u64),
    /// Some were counted since that was last asked.
    counted: bool,
}

impl Ticking {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { since: now, waits: 1, most: 1, restless: RESTLESS, seen: (0, 0, 0), counted: false }
    }

    /// When the one that is due is.
    pub(crate) fn next(&self) -> Instant {
        self.since + TICK * self.waits
    }

    /// So many have gone by: those that are due, too, or only those before.
    pub(crate) fn take(&mut self, now: Instant, due: bool) -> u32 {
        let most = if due { self.most } else { self.waits - 1 };
        if most == 0 || now < self.since + TICK {
            return 0;
        }
        let gone = (now.since(self.since).as_nanos() / TICK.as_nanos()).min(most.into()) as u32;
        if gone < self.waits {
            self.since += TICK * gone;
            (self.waits, self.most) = (self.waits - gone, self.most - gone);
        } else {
            // What the timer was late by is not made up for either.
            (self.since, self.waits, self.most) = (now, 1, 1);
        }
        self.restless = self.restless.saturating_sub(gone);
        self.counted = true;
        gone
    }

    /// Whether any were counted since this was last asked.
    pub(crate) const fn were_counted(&mut self) -> bool {
        core::mem::replace(&mut self.counted, false)
    }

    /// How things stand; where that is news the next tick is due, and each for a while.
    pub(crate) fn sees(&mut self, stands: (u64, u64, u64)) {
        if core::mem::replace(&mut self.seen, stands) != stands {
            (self.restless, self.waits) = (RESTLESS, 1);
        }
    }

    /// From the last one that was counted, the one after so many is due; the next one, as long as
    /// there is no rest.
    pub(crate) fn wait(&mut self, ticks: u32) {
        self.waits = if self.restless > 0 { 1 } else { ticks.max(1) };
        self.most = self.most.max(self.waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// One that rests, counted at 10 s, and waits for so many.
    fn resting(waits: u32) -> Ticking {
        let mut ticking = Ticking::new(at(0));
        for n in 1..=RESTLESS {
            ticking.wait(waits);
            assert_eq!(ticking.next(), at(50 * u64::from(n)), "not before there is rest");
            assert_eq!(ticking.take(ticking.next(), true), 1);
        }
        ticking.since = at(10_000);
        ticking.wait(waits);
        ticking
    }

    #[test]
    fn ticks_are_counted_late_but_all_of_them() {
        let mut ticking = resting(6);
        assert_eq!(ticking.next(), at(10_300));
        assert_eq!(ticking.take(at(10_049), true), 0);
        assert_eq!(ticking.take(at(10_130), true), 2, "woken by something else");
        assert_eq!(ticking.next(), at(10_300));
        assert!(ticking.were_counted() && !ticking.were_counted());
        assert_eq!(ticking.take(at(10_149), true), 0, "the third is counted once");
        assert_eq!(ticking.take(at(10_310), true), 4);
        ticking.wait(6);
        assert_eq!(ticking.next(), at(10_610), "what the timer was late by is lost");
    }

    #[test]
    fn what_was_slept_through_is_not_made_up_for() {
        let mut ticking = resting(6);
        assert_eq!(ticking.take(at(60_000), true), 6);
        assert_eq!(ticking.next(), at(60_050));
        let mut ticking = resting(1);
        assert_eq!(ticking.take(at(60_000), true), 1);
        // Something became due sooner: those before are not lost.
        let mut ticking = resting(6);
        ticking.wait(1);
        assert_eq!(ticking.next(), at(10_050));
        assert_eq!(ticking.take(at(10_220), true), 4);
    }

    #[test]
    fn before_a_message_those_are_counted_that_bring_nothing() {
        let mut ticking = resting(6);
        assert_eq!(ticking.take(at(10_301), false), 5, "the sixth brings something");
        assert_eq!(ticking.take(at(10_301), false), 0);
        assert_eq!(ticking.take(at(10_301), true), 1);
        let mut ticking = resting(1);
        assert_eq!(ticking.take(at(10_220), false), 0);
    }

    #[test]
    fn where_no_tick_has_gone_by_none_was_counted() {
        for (waits, now, due) in [(6, 10_049, true), (6, 10_049, false), (1, 10_220, false)] {
            let mut ticking = resting(waits);
            ticking.were_counted();
            assert_eq!((ticking.take(at(now), due), ticking.were_counted()), (0, false));
        }
    }

    #[test]
    fn those_counted_early_are_not_counted_again_after_a_sleep() {
        let mut ticking = resting(6);
        assert_eq!(ticking.take(at(10_120), false), 2);
        assert_eq!(ticking.take(at(60_000), true), 4, "six in all");
        ticking.wait(3);
        assert_eq!(ticking.take(at(90_000), true), 3, "those that it slept for");
    }

    #[test]
    fn news_end_the_rest() {
        let mut ticking = resting(6);
        ticking.sees((0, 0, 0));
        ticking.wait(6);
        assert_eq!(ticking.next(), at(10_300));
        ticking.sees((1, 0, 0));
        assert_eq!(ticking.next(), at(10_050), "at once");
        ticking.wait(6);
        assert_eq!(ticking.next(), at(10_050));
    }
}
