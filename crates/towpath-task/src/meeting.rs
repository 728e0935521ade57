//! Barriers within a host without messages: each member says in a word of its own card how far it
//! is, and reads those of the others. Nobody is woken before all are there; then the last to come
//! wakes those that sleep, each of them once.
//!
//! A team whose members are all on one host takes to this at its [`PRACTICE`]th barrier, if each
//! has a ring to each and one of the [`EPOCHS`] words is free at all of them; else it tries again
//! after twice as many. It keeps the word until it is dropped; for ever if it has failed, since a
//! member that has not heard so may still wait for the word to grow. Words only ever grow, so one
//! read late says no less than it did, and a member that has begun several barriers has come
//! to each of them.
//!
//! **Waiting.** Where members share processors, one that waits lets others run
//! (`sched_yield`): if all of them come soon, nobody sleeps at all, and a barrier costs each
//! processor a switch for each of its members. A program that computes on the processor would
//! take a whole turn each time; so yielding is given up for a while when it took long.

use crate::parts::words::Meets;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use towpath_io::shared::{EPOCHS, PeerCard};
use towpath_wire::TaskId;

use crate::task::Task;

/// Barriers of a team before it tries to do without messages.
pub(crate) const PRACTICE: u32 = 3;
/// Members of a team that meets by words at most: each looks at each other one's.
pub(crate) const MEMBERS_MAX: usize = 32;
/// What a member says of a word that it cannot give.
const TAKEN: u64 = u64::MAX;
/// Whether a team tries to do without messages at its barrier number `count`, from 1.
pub(crate) const fn is_due(count: u32) -> bool {
    count.is_multiple_of(PRACTICE) && (count / PRACTICE).is_power_of_two()
}

/// A team's word.
#[derive(Debug)]
pub(crate) struct Meeting {
    /// The last barrier that this member has come to.
    meets: Meets,
    /// None: no other team of this task is to have the word.
    used: Option<Arc<AtomicU32>>,
}

impl Drop for Meeting {
    fn drop(&mut self) {
        if let Some(used) = &self.used {
            used.fetch_and(!(1 << self.meets.which), Ordering::Relaxed);
        }
    }
}

impl Meeting {
    /// The team has failed.
    pub(crate) fn keep(&mut self) {
        self.used = None;
    }

    /// Says that this member has come to the next barrier; whoever comes last wakes the others.
    pub(crate) fn arrive(&mut self, task: &mut Task) -> Meets {
        self.meets.value += 1;
        let Meets { which, value, .. } = self.meets;
        task.ends.words.values[which] = value;
        if let Some(home) = &task.home {
            home.card().set_epoch(which, value);
        }
        if self.meets.all_there() {
            for card in self.meets.cards.iter() {
                card.wake();
            }
        }
        task.ends.words.wait_for(&self.meets);
        self.meets.clone()
    }
}

/// What a task can offer a team that wants to meet by words. Until it is dropped, no other team
/// of this task is offered the same.
#[derive(Debug)]
pub(crate) struct Offer {
    cards: Arc<[PeerCard]>,
    /// Words that no team uses, as bits; none where there is not a ring to each.
    free: u32,
    used: Arc<AtomicU32>,
    /// What stands in each word, or that it is taken.
    values: [u64; EPOCHS],
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.used.fetch_and(!self.free, Ordering::Relaxed);
    }
}

impl Offer {
    /// What the members combine by taking the greatest.
    pub(crate) fn values(&self) -> Vec<u8> {
        self.values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// The first word that is free at all members, by what they combined; none: they go on by
    /// messages.
    pub(crate) fn take(mut self, combined: &[u8]) -> Option<Meeting> {
        let values = combined.as_chunks().0.iter().map(|value| u64::from_le_bytes(*value));
        let (which, value) = (0..EPOCHS).zip(values).find(|(_, value)| *value != TAKEN)?;
        // It stays in use.
        self.free &= !(1 << which);
        let meets = Meets { cards: Arc::clone(&self.cards), which, value };
        Some(Meeting { meets, used: Some(Arc::clone(&self.used)) })
    }

    /// The members have not agreed; some may think that they have, on whichever of the words.
    pub(crate) fn keep(mut self) {
        self.free = 0;
    }
}

impl Task {
    /// What words there are for a team with these others.
    pub(crate) fn offer_words(&mut self, peers: impl Iterator<Item = TaskId>) -> Offer {
        let card = |peer| self.rings.get(peer).map(|ring| ring.card.clone());
        let cards = peers.map(card).collect::<Option<Vec<_>>>();
        let words = &self.ends.words;
        let used = words.used.load(Ordering::Relaxed);
        let free = if cards.is_some() { !used & ((1 << EPOCHS) - 1) } else { 0 };
        words.used.fetch_or(free, Ordering::Relaxed);
        let value = |which| if free & 1_u32 << which == 0 { TAKEN } else { words.values[which] };
        let values = std::array::from_fn(value);
        let used = Arc::clone(&words.used);
        Offer { cards: cards.unwrap_or_default().into(), free, used, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::words::Words;

    #[test]
    fn a_team_tries_again_after_twice_as_many() {
        let due: Vec<u32> = (0..100).filter(|count| is_due(*count)).collect();
        assert_eq!(due, [3, 6, 12, 24, 48, 96]);
    }

    /// A barrier of nobody else: all of them are always there.
    fn alone(which: usize, value: u64) -> Meets {
        Meets { cards: Arc::new([]), which, value }
    }

    #[test]
    fn a_word_is_free_again_once_its_team_is_gone_and_no_other_is() {
        let used = Arc::new(AtomicU32::new(0b1011));
        let meeting = |which| Meeting { meets: alone(which, 1), used: Some(Arc::clone(&used)) };
        let mut failed = meeting(3);
        failed.keep();
        drop(failed);
        assert_eq!(used.load(Ordering::Relaxed), 0b1011, "somebody may wait for it to grow");
        drop(meeting(3));
        assert_eq!(used.load(Ordering::Relaxed), 0b0011);
        drop(meeting(0));
        assert_eq!(used.load(Ordering::Relaxed), 0b0010);
    }

    #[test]
    fn an_offer_takes_the_first_word_that_is_free_at_all_and_gives_the_others_back() {
        let combined = |values: &[(usize, u64)]| -> Vec<u8> {
            let mut all = [TAKEN; EPOCHS];
            for (which, value) in values {
                all[*which] = *value;
            }
            all.iter().flat_map(|value| value.to_le_bytes()).collect()
        };
        let used = Arc::new(AtomicU32::new(0b111));
        let offer = || {
            used.store(0b111, Ordering::Relaxed);
            let mut values = [TAKEN; EPOCHS];
            (values[1], values[2]) = (5, 7);
            Offer { cards: Arc::new([]), free: 0b110, used: Arc::clone(&used), values }
        };
        assert_eq!(offer().values(), combined(&[(1, 5), (2, 7)]));
        assert_eq!(used.load(Ordering::Relaxed), 0b001, "nobody took it");
        let meeting = offer().take(&combined(&[(1, 9), (2, 7)])).expect("the first");
        assert_eq!((meeting.meets.which, meeting.meets.value), (1, 9));
        assert_eq!(used.load(Ordering::Relaxed), 0b011, "its own stays in use");
        drop(meeting);
        assert_eq!(used.load(Ordering::Relaxed), 0b001);
        let meeting = offer().take(&combined(&[(2, 0)])).expect("the second");
        assert_eq!((meeting.meets.which, meeting.meets.value), (2, 0));
        drop(meeting);
        assert!(offer().take(&combined(&[])).is_none());
        assert_eq!(used.load(Ordering::Relaxed), 0b001);
        offer().keep();
        assert_eq!(used.load(Ordering::Relaxed), 0b111, "a member may have taken any");
    }

    #[test]
    fn each_barrier_that_is_over_is_news_once_and_none_that_its_team_knows() {
        let mut words = Words::default();
        assert!(!words.has_news() && words.news() == 0);
        let mut meets = alone(1, 4);
        for value in 4..7 {
            meets.value = value;
            words.wait_for(&meets);
        }
        assert!(words.has_news());
        meets.value = 4;
        words.is_known(&meets);
        assert_eq!((words.news(), words.has_news(), words.news()), (2, false, 0), "5 and 6");
        // All of them are known.
        words.wait_for(&Meets { value: 8, ..meets.clone() });
        words.is_known(&Meets { value: 8, ..meets });
        assert!(!words.has_news() && words.news() == 0);
        // Another team of the same word: what was left of the first is not counted.
        words.wait_for(&alone(1, 2));
        words.wait_for(&alone(1, 90));
        assert_eq!(words.news(), 1);
        words.wait_for(&alone(0, 1));
        words.wait_for(&alone(2, 1));
        assert_eq!(words.news(), 2, "two words");
    }
}
