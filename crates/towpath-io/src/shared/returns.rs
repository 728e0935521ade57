//! Blocks on their way back: tickets from the task that held a block to the one it belongs to.
//!
//! At most [`TICKETS`] blocks are out at a time, as many as there are entries: an entry is never
//! overwritten before it was read, and no count of what was read is needed.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::layout::{RETURNS, TICKETS};
use super::memory::{AtomicU64, Memory};

fn entry(count: u32) -> usize {
    RETURNS + count as usize % TICKETS * 8
}

/// Gives back, from any thread.
#[derive(Debug)]
pub(super) struct Returner {
    own: Arc<Memory>,
    given: AtomicU64,
}

impl Returner {
    /// `own` is writable and has no other returner.
    pub(super) fn new(own: Arc<Memory>) -> Self {
        Self { own, given: AtomicU64::new(0) }
    }

    /// Gives back a block that this task holds; what it read there is read.
    pub(super) fn give(&self, ticket: u16) {
        // Each thread fills the entry it drew; a later one may be filled before it, and is seen
        // after it.
        let given = self.given.fetch_add(1, Relaxed) as u32;
        let number = given.wrapping_add(1);
        // SYNC POINT: pairs with the load in `Reclaimer::next`: the sender writes the block again
        // only after this.
        let word = u64::from(number) << 32 | u64::from(ticket);
        self.own.word(entry(given)).store(word, Release);
    }
}

/// Takes back.
#[derive(Debug)]
pub(super) struct Reclaimer {
    peer: Arc<Memory>,
    seen: u32,
}

impl Reclaimer {
    pub(super) fn new(peer: Arc<Memory>) -> Self {
        Self { peer, seen: 0 }
    }

    /// The next ticket that came back, unchecked.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u32> {
        // SYNC POINT: pairs with the store in `Returner::give`.
        let word = self.peer.word(entry(self.seen)).load(Acquire);
        let number = self.seen.wrapping_add(1);
        if (word >> 32) as u32 != number {
            return None;
        }
        self.seen = number;
        Some(word as u32)
    }
}
