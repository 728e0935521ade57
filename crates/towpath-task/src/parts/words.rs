//! Words in shared memory at which teams meet.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use towpath_io::shared::{EPOCHS, PeerCard};

/// The words of this task's card: which are in use, and what was written last.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) used: Arc<AtomicU32>,
    pub(crate) values: [u64; EPOCHS],
    /// Of each word, the barriers that this task has come to and does not know to be over.
    awaited: [Option<Awaited>; EPOCHS],
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
