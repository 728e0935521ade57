//! Words in shared memory at which teams meet.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use rustix::thread::sched_yield;
use towpath_io::shared::{EPOCHS, PeerCard};

/// How long a member yields before it sleeps.
const YIELD: Duration = Duration::from_micros(40);
/// Yielding that took so long met somebody who computes.
const DISTURBED: Duration = Duration::from_micros(400);
/// Waits that do without yielding after that; twice as many each time, up to [`PAUSE_MAX`].
const PAUSE: u32 = 64;
const PAUSE_MAX: u32 = 4096;

/// The words of this task's card: which are in use, and what was written last.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) used: Arc<AtomicU32>,
    pub(crate) values: [u64; EPOCHS],
    /// Of each word, the barriers that this task has come to and does not know to be over.
    awaited: [Option<Awaited>; EPOCHS],
    /// Waits still to do without yielding, and how many it will be the next time.
    pub(crate) pause: u32,
    pub(crate) next_pause: u32,
}

/// The first of them, and the value of the last.
#[derive(Debug)]
pub(crate) struct Awaited {
    first: Meets,
    last: u64,
}

impl Words {
    /// Whether [`Words::news`] would find something.
    pub(crate) fn has_news(&self) -> bool {
        self.awaited.iter().flatten().any(|awaited| awaited.first.all_there())
    }

    /// How many barriers are over that were not when this was asked last.
    pub(crate) fn news(&mut self) -> u64 {
        let mut news = 0;
        for awaited in self.awaited.iter_mut().filter(|awaited| awaited.is_some()) {
            while let Some(Awaited { first, last }) = awaited
                && first.all_there()
            {
                news += 1;
                first.value += 1;
                if first.value > *last {
                    *awaited = None;
                }
            }
        }
        news
    }

    pub(crate) fn wait_for(&mut self, meets: &Meets) {
        let awaited = &mut self.awaited[meets.which];
        match awaited {
            Some(Awaited { first, last }) if Arc::ptr_eq(&first.cards, &meets.cards) => {
                *last = meets.value;
            }
            // What is left of another team, which is gone.
            _ => *awaited = Some(Awaited { first: meets.clone(), last: meets.value }),
        }
    }

    /// Lets others run for a while, so that they come; whoever sleeps afterwards is woken.
    pub(crate) fn let_others_run(&mut self, meets: &Meets) {
        if self.pause > 0 {
            self.pause -= 1;
        } else if !meets.all_there() {
            let begin = Instant::now();
            let mut took = Duration::ZERO;
            while took < YIELD && !meets.all_there() {
                sched_yield();
                took = begin.elapsed();
            }
            if took >= DISTURBED {
                self.pause = self.next_pause.max(PAUSE);
                self.next_pause = (2 * self.pause).min(PAUSE_MAX);
            } else if meets.all_there() {
                self.next_pause = PAUSE;
            }
        }
    }

    /// Its team knows that `meets` is over.
    pub(crate) fn is_known(&mut self, meets: &Meets) {
        let awaited = &mut self.awaited[meets.which];
        if let Some(Awaited { first, last }) = awaited {
            first.value = first.value.max(meets.value + 1);
            if first.value > *last {
                *awaited = None;
            }
        }
    }
}

/// One barrier, as its members see it in each other's words.
#[derive(Clone, Debug)]
pub(crate) struct Meets {
    pub(crate) cards: Arc<[PeerCard]>,
    pub(crate) which: usize,
    pub(crate) value: u64,
}

impl Meets {
    /// Whether all the others are there.
    pub(crate) fn all_there(&self) -> bool {
        self.cards.iter().all(|card| card.epoch(self.which) >= self.value)
    }
}
