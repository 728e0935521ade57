//! What a task shows of itself to its neighbours: whether it runs, and where.
//!
//! Going to sleep and waking a sleeper are the two halves of one handshake:
//!
//! ```text
//! sleeper                          sender
//!   card := sleeping                 publish a record
//!   fence                            fence
//!   look at the rings                look at the card
//!   nothing? sleep on the bell       sleeping? ring the bell
//! ```
//! SYNC POINT: with both fences sequentially consistent, at least one of the two sees what the
//! other wrote, so that no record waits for a sleeper whom nobody wakes.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::layout::{CARD, epoch};
use super::memory::{Memory, fence};

const SLEEPING: u64 = 1;

fn state(processor: u32, sleeping: bool) -> u64 {
    let sleeping = if sleeping { SLEEPING } else { 0 };
    u64::from(processor) << 32 | sleeping
}

/// What a card says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Showing {
    /// The task waits in the kernel until its bell rings.
    pub sleeping: bool,
    /// Where it ran when it last said so.
    pub processor: u32,
}

impl Showing {
    #[inline]
    fn of(word: u64) -> Self {
        Self { sleeping: word & SLEEPING != 0, processor: (word >> 32) as u32 }
    }
}

/// A task's own card; it alone writes it.
#[derive(Debug)]
pub struct OwnCard {
    memory: Arc<Memory>,
}

impl OwnCard {
    pub(super) fn new(memory: Arc<Memory>) -> Self {
        Self { memory }
    }

    /// What it says now.
    #[inline]
    pub fn showing(&self) -> Showing {
        Showing::of(self.memory.word(CARD).load(Relaxed))
    }

    /// Says that the task runs on `processor`.
    pub fn run_on(&self, processor: u32) {
        let (word, now) = (self.memory.word(CARD), state(processor, false));
        // Neighbours keep the line in their caches as long as it stays the same.
        if word.load(Relaxed) != now {
            word.store(now, Release);
        }
    }

    /// Says how far this task is in something that tasks of this host have in common. Wake those
    /// who wait for it afterwards ([`PeerCard::wake`](super::PeerCard::wake)). Of tasks that say
    /// so and then look at each other's, the last one sees what all of them said.
    pub fn set_epoch(&self, which: usize, value: u64) {
        self.memory.word(epoch(which)).store(value, Release);
        fence(SeqCst);
    }

    /// Says that the task sleeps. Look at every ring once more afterwards, then sleep on the bell.
    pub fn sleep(&self) {
        let word = self.memory.word(CARD);
        word.store(word.load(Relaxed) | SLEEPING, Release);
        fence(SeqCst);
    }
}

/// What a mapped task segment's card says.
#[inline]
pub(super) fn showing(memory: &Memory) -> Showing {
    Showing::of(memory.word(CARD).load(Relaxed))
}

/// What stands in one of its epochs, and all that its task wrote before it.
pub(super) fn epoch_of(memory: &Memory, which: usize) -> u64 {
    memory.word(epoch(which)).load(Acquire)
}

/// Whether the task must be woken to see what was published before this call.
#[inline]
pub(super) fn must_be_woken(memory: &Memory) -> bool {
    fence(SeqCst);
    showing(memory).sleeping
}
