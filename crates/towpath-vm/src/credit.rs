//! How much a task may send another through the daemons. The receiver's daemon decides, because it
//! is the one that keeps what the receiver has not taken yet.
//!
//! A pair's *window* is what may be granted beyond what was written to the receiver. It begins with
//! [`CREDIT_FIRST`], which every pair always has, and grows fourfold each time the sender says that
//! it is not enough, to [`WINDOW_NEAR`] or [`WINDOW_FAR`]. What pairs have beyond their first bytes
//! comes out of one budget for the whole daemon. So a daemon holds at most
//! `budget + pairs × CREDIT_FIRST` bytes for its tasks, however few of them read, and a pair whose
//! receiver reads always goes on, however little is left of the budget.

use crate::talk::CREDIT_FIRST;

/// Largest window of a pair on one host, in charged bytes: more would only leave the processor's
/// caches before it is read.
pub const WINDOW_NEAR: u64 = 1 << 20;
/// Largest window of a pair on two hosts: what is on its way, and its answer, fill a round trip.
pub const WINDOW_FAR: u64 = 4 << 20;

/// What all pairs of a daemon may have beyond their first bytes.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Charged bytes in all.
    pub max: u64,
    /// Those given out.
    pub used: u64,
}

/// What one task may send another one, seen from the receiver. Counts are charged bytes since the
/// pair began. Invariant: `written ≤ received ≤ granted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    granted: u64,
    received: u64,
    written: u64,
    size: u64,
    /// The sender waits for more.
    wanted: bool,
}

impl Default for Window {
    fn default() -> Self {
        let first = CREDIT_FIRST;
        Self { granted: first, received: 0, written: 0, size: first, wanted: false }
    }
}

impl Window {
    const fn extra(&self) -> u64 {
        self.granted.saturating_sub(self.written + CREDIT_FIRST)
    }

    /// Something came from the sender; false when it was not allowed.
    pub const fn arrive(&mut self, charge: u64) -> bool {
        if charge > self.granted - self.received {
            return false;
        }
        self.received += charge;
        true
    }

    /// Charged bytes that came so far.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Whether what comes at place `at`, counted like [`Window::received`], is within what was
    /// granted.
    pub const fn may_come(&self, at: u64, charge: u64) -> bool {
        at <= self.granted && charge <= self.granted - at
    }

    /// Something was written to the receiver; the new limit, if the sender is to hear of one.
    pub fn written(&mut self, charge: u64, budget: &mut Budget) -> Option<u64> {
        let before = self.extra();
        self.written += charge.min(self.received - self.written);
        budget.used -= before - self.extra();
        let low = self.granted - self.received < self.size / 2;
        if self.wanted || (low && self.size > CREDIT_FIRST) { self.grant(budget) } else { None }
    }

    /// The sender wants to send more; the new limit, if there is one now. The window grows to `max`
    /// at most.
    pub fn blocked(&mut self, max: u64, budget: &mut Budget) -> Option<u64> {
        self.wanted = true;
        self.size = (self.size * 4).min(max);
        self.grant(budget)
    }

    fn grant(&mut self, budget: &mut Budget) -> Option<u64> {
        let before = self.extra();
        let room = before + (budget.max - budget.used);
        let limit = self.written + CREDIT_FIRST + (self.size - CREDIT_FIRST).min(room);
        // Not a word for every few bytes, unless there is nothing more to wait for.
        let last = self.wanted && self.held() == 0;
        if limit < self.granted + if last { 1 } else { self.size / 4 } {
            return None;
        }
        self.granted = limit;
        self.wanted = false;
        budget.used += self.extra() - before;
        Some(limit)
    }

    /// The pair is over: what it had goes back.
    pub const fn over(&self, budget: &mut Budget) {
        budget.used -= self.extra();
    }

    /// Charged bytes received and not written yet.
    pub const fn held(&self) -> u64 {
        self.received - self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn a_receiver_that_reads_gives_its_sender_the_whole_window_in_four_steps() {
        let mut budget = Budget { max: 1 << 30, used: 0 };
        let mut w = Window::default();
        assert!(w.arrive(CREDIT_FIRST));
        assert!(!w.arrive(1));
        let mut limit = CREDIT_FIRST;
        for size in [64 << 10, 256 << 10, 1 << 20, 1 << 20] {
            let new = w.blocked(WINDOW_NEAR, &mut budget);
            assert_eq!(new, (size > limit).then_some(size), "nothing was written yet");
            limit = new.unwrap_or(limit);
            w.arrive(limit - w.received);
        }
        assert_eq!(w.written(limit, &mut budget), Some(limit + WINDOW_NEAR));
        w.over(&mut budget);
        assert_eq!(budget.used, 0);
    }

    proptest! {
        #[test]
        fn the_budget_holds_and_a_receiver_that_reads_lets_everybody_go_on(
            ops in proptest::collection::vec((0..6usize, 0..3u8, 1..200_000u64), 0..300),
        ) {
            let mut budget = Budget { max: 700_000, used: 0 };
            let mut pairs = [Window::default(); 6];
            // As the senders see it: limit, sent, waiting for an answer.
            let mut senders = [(CREDIT_FIRST, 0u64, false); 6];
            for (i, op, n) in ops {
                let (w, s) = (&mut pairs[i], &mut senders[i]);
                let limit = match op {
                    0 => {
                        let n = n.min(s.0 - s.1);
                        s.1 += n;
                        prop_assert!(w.arrive(n));
                        None
                    }
                    1 if !s.2 => {
                        s.2 = true;
                        w.blocked(WINDOW_NEAR, &mut budget)
                    }
                    _ => w.written(n, &mut budget),
                };
                if let Some(limit) = limit {
                    prop_assert!(limit > s.0);
                    *s = (limit, s.1, false);
                }
                let used: u64 = pairs.iter().map(Window::extra).sum();
                prop_assert_eq!(used, budget.used);
                prop_assert!(budget.used <= budget.max);
                let held: Vec<u64> = pairs.iter().map(Window::held).collect();
                prop_assert!(held.iter().sum::<u64>() <= budget.max + 6 * CREDIT_FIRST);
            }
            // Everything is read: nobody waits any more, whatever the others keep.
            for (w, s) in pairs.iter_mut().zip(&mut senders) {
                let held = w.held();
                if let Some(limit) = w.written(held, &mut budget) {
                    *s = (limit, s.1, false);
                }
                prop_assert!(!s.2 || s.0 - s.1 >= CREDIT_FIRST);
            }
        }
    }
}
