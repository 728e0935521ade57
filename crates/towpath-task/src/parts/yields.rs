//! Letting others run instead of sleeping: whoever is awaited comes sooner, and need not wake
//! anybody.

use std::time::{Duration, Instant};

use rustix::thread::sched_yield;

/// A processor that somebody who computes has got may be away for so long: whoever is to be back
/// before does not yield.
pub(crate) const AWAY: Duration = Duration::from_millis(10);
/// How long a task yields before it sleeps.
const YIELD: Duration = Duration::from_micros(40);
/// Yielding that took so long met somebody who computes.
const DISTURBED: Duration = Duration::from_micros(400);
/// Waits that do without yielding after that; twice as many each time, up to [`PAUSE_MAX`].
const PAUSE: u32 = 64;
const PAUSE_MAX: u32 = 4096;
/// Where nothing came of it, one wait does without; twice as many each time, up to so many.
const VAIN_MAX: u32 = 64;

/// Whether it pays, as it went before.
#[derive(Debug, Default)]
pub(crate) struct Yields {
    /// Waits still to do without yielding, and how many it will be the next time.
    pub(crate) pause: u32,
    pub(crate) next_pause: u32,
    /// How many it will be if nothing comes again.
    vain: u32,
}

impl Yields {
    /// Lets others run for a while, until `there`; whoever sleeps afterwards is woken. True: it is
    /// there.
    pub(crate) fn let_others_run(&mut self, mut there: impl FnMut() -> bool) -> bool {
        if there() {
            return true;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        let begin = Instant::now();
        let (mut took, mut came) = (Duration::ZERO, false);
        while took < YIELD && !came {
            sched_yield();
            took = begin.elapsed();
            came = there();
        }
        if took >= DISTURBED {
            self.pause = self.next_pause.max(PAUSE);
            self.next_pause = (2 * self.pause).min(PAUSE_MAX);
        } else if came {
            (self.next_pause, self.vain) = (PAUSE, 0);
        } else {
            self.vain = (2 * self.vain).clamp(1, VAIN_MAX);
            self.pause = self.vain;
        }
        came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_costs_nothing_and_a_pause_is_kept() {
        let mut yields = Yields { pause: 2, ..Yields::default() };
        assert!(yields.let_others_run(|| true));
        assert_eq!(yields.pause, 2, "nobody waited");
        let mut looks = 0;
        let mut none = || {
            looks += 1;
            false
        };
        assert!(!yields.let_others_run(&mut none) && !yields.let_others_run(&mut none));
        assert_eq!((yields.pause, looks), (0, 2), "it looked once each time");
    }

    #[test]
    fn where_nothing_comes_of_it_it_is_tried_more_and_more_seldom() {
        let mut yields = Yields::default();
        let mut tried = |waits: u32| {
            (0..waits)
                .filter(|_| {
                    let mut looks = 0;
                    yields.let_others_run(|| {
                        looks += 1;
                        false
                    });
                    looks > 1
                })
                .count()
        };
        // Unless the machine was busy just then, which pauses for longer.
        let seen = (tried(1 + 2 + 3 + 5), tried(100_000));
        assert!(seen.0 <= 4 && seen.1 <= 1600, "{seen:?}");
    }

    #[test]
    fn what_comes_meanwhile_ends_it() {
        let (mut yields, mut looks) = (Yields::default(), 0);
        let came = yields.let_others_run(|| {
            looks += 1;
            looks > 1
        });
        assert!(came && looks == 2);
    }
}
