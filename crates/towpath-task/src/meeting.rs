//! Barriers within a host without messages: each member says in a word of its own card how far it
//! is, and reads those of the others. Nobody is woken before all are there; then the last to come
//! wakes those that sleep, each of them once.
//!
//! A team whose members are all on one host takes to this at its [`PRACTICE`]th barrier, if each
//! has a ring to each and one of the [`EPOCHS`] words is free at all of them; it keeps the word
//! until it is dropped. Words only ever grow, so one that is read late says no less than it did.
//!
//! **Waiting.** Where members share processors, one that waits lets others run
//! (`sched_yield`): if all of them come soon, nobody sleeps at all, and a barrier costs each
//! processor a switch for each of its members. A program that computes on the processor would
//! take a whole turn each time; so yielding is given up for a while when it took long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::sched_yield;
use towpath_io::shared::{EPOCHS, PeerCard};
use towpath_wire::TaskId;

use crate::error::RecvError;
use crate::receive::Deadline;
use crate::task::Task;

/// Barriers of a team by messages, before it takes to words.
pub(crate) const PRACTICE: u32 = 3;
/// Members of a team that meets by words at most: each looks at each other one's.
pub(crate) const MEMBERS_MAX: usize = 32;
/// How long a ring to another member is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
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
    used: Arc<AtomicU32>,
    values: [u64; EPOCHS],
    /// Waits still to do without yielding, and how many it will be the next time.
    pause: u32,
    next_pause: u32,
}

/// What a task that sleeps waits for beside messages.
#[derive(Clone, Debug)]
pub(crate) struct Meets {
    cards: Arc<[PeerCard]>,
    which: usize,
    value: u64,
}

impl Meets {
    /// Whether all the others are there.
    pub(crate) fn all_there(&self) -> bool {
        self.cards.iter().all(|card| card.epoch(self.which) >= self.value)
    }
}

/// A team's word.
#[derive(Debug)]
pub(crate) struct Meeting {
    meets: Meets,
    used: Arc<AtomicU32>,
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.used.fetch_and(!(1 << self.meets.which), Ordering::Relaxed);
    }
}

impl Meeting {
    /// Says that this member has come; whoever comes last wakes the others.
    pub(crate) fn arrive(&mut self, task: &mut Task) {
        self.meets.value += 1;
        let Meets { which, value, .. } = self.meets;
        task.ends.words.values[which] = value;
        let Some(home) = &task.home else { return };
        home.card().set_epoch(which, value);
        if self.meets.all_there() {
            for card in self.meets.cards.iter() {
                card.wake();
            }
        }
    }

    /// Whether everyone is here.
    pub(crate) fn all_there(&self) -> bool {
        self.meets.all_there()
    }

    /// Lets others run for a while, so that they come; whoever sleeps afterwards is woken.
    pub(crate) fn begin_wait(&self, task: &mut Task) {
        let words = &mut task.ends.words;
        if words.pause > 0 {
            words.pause -= 1;
        } else if !self.all_there() {
            let begin = Instant::now();
            let mut took = Duration::ZERO;
            while took < YIELD && !self.all_there() {
                sched_yield();
                took = begin.elapsed();
            }
            if took >= DISTURBED {
                words.pause = words.next_pause.max(PAUSE);
                words.next_pause = (2 * words.pause).min(PAUSE_MAX);
            } else if self.all_there() {
                words.next_pause = PAUSE;
            }
        }
        task.ends.meets = Some(self.meets.clone());
    }
}

/// What a task can offer a team that wants to meet by words.
pub(crate) struct Offer {
    cards: Arc<[PeerCard]>,
    /// Words that no team uses, as bits; none where it has not a ring to each.
    pub(crate) free: u64,
    /// What stands in its words.
    pub(crate) values: [u64; EPOCHS],
}

impl Task {
    /// Sees to it that there is a ring to each of `peers`, and what words there are.
    pub(crate) fn offer_words(&mut self, peers: &[TaskId]) -> Result<Offer, RecvError> {
        for peer in peers {
            self.ask_ring(*peer);
        }
        let known = self.wait_for(Deadline::after(Some(PATIENCE)), &mut |task| {
            peers.iter().all(|peer| task.knows_ring(*peer)).then_some(())
        });
        match known {
            // It can do without: it offers no words then.
            Ok(_) | Err(RecvError::Full(_)) => {}
            Err(e) => return Err(e),
        }
        let card = |peer: &TaskId| self.rings.get(*peer).map(|ring| ring.card.clone());
        let cards = peers.iter().map(card).collect::<Option<Vec<_>>>();
        let words = &self.ends.words;
        let used = u64::from(words.used.load(Ordering::Relaxed));
        let free = if cards.is_some() { !used & ((1 << EPOCHS) - 1) } else { 0 };
        Ok(Offer { cards: cards.unwrap_or_default().into(), free, values: words.values })
    }

    /// Takes word `which` for a team, beginning above `value`.
    pub(crate) fn take_word(&mut self, offer: Offer, which: usize, value: u64) -> Meeting {
        let used = Arc::clone(&self.ends.words.used);
        used.fetch_or(1 << which, Ordering::Relaxed);
        Meeting { meets: Meets { cards: offer.cards, which, value }, used }
    }
}
