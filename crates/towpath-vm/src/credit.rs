//! How much a task may send another through the daemons. The receiver's daemon decides, because it
//! is the one that keeps what the receiver has not taken yet.
//!
//! A pair begins *unasked*: its sender may send [`CREDIT_FIRST`] without a word, as long as its
//! receiver's daemon has not told everybody to ask first. That it does while it keeps more than
//! [`FIRST_MAX`] of such bytes. From the first time that its sender asks, a pair may send what it
//! was granted and nothing else. Its *window* is what may be granted beyond what was written to
//! the receiver; it grows fourfold each time the sender says that it is not enough, to
//! [`WINDOW_NEAR`] or [`WINDOW_FAR`], and comes out of one budget for the whole daemon. Where that
//! is used up, each receiver still has a loan of [`LOAN_MAX`], which one of its senders has at a
//! time.
//!
//! So a daemon keeps at most `budget + FIRST_MAX + receivers × LOAN_MAX` charged bytes for its
//! tasks, beside what is sent unasked before everybody has heard that they are to ask, however many
//! pairs there are and however few of them read. And whoever sends to a receiver that reads always
//! goes on, however little is left of the budget.

use towpath_wire::talk::PIECE_CHARGE;

use crate::talk::CREDIT_FIRST;

/// Largest window of a pair on one host, in charged bytes: more would only leave the processor's
/// caches before it is read.
pub const WINDOW_NEAR: u64 = 1 << 20;
/// Largest window of a pair on two hosts: what is on its way, and its answer, fill a round trip.
pub const WINDOW_FAR: u64 = 4 << 20;
/// Charged bytes that came unasked and were not read, beyond which senders are to ask first, until
/// there is half of it.
pub const FIRST_MAX: u64 = 32 << 20;
/// Charged bytes that each receiver can always be sent, by one sender at a time.
pub const LOAN_MAX: u64 = 8 << 10;

/// What the pairs of a daemon have.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Charged bytes that may be granted in all, loans aside.
    pub max: u64,
    /// Those granted.
    pub used: u64,
    /// Charged bytes that came unasked and are kept.
    pub first: u64,
}

impl Budget {
    /// Nothing was given of `max` yet.
    pub const fn new(max: u64) -> Self {
        Self { max, used: 0, first: 0 }
    }
}

/// What one task may send another one, seen from the receiver. Counts are charged bytes since the
/// pair began. Invariant: `written ≤ received ≤ granted` and `first ≤ granted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    granted: u64,
    received: u64,
    written: u64,
    size: u64,
    /// Up to here it was sent unasked.
    first: u64,
    /// From where to where the receiver's loan goes.
    loan: (u64, u64),
    /// The sender has asked at least once.
    asked: bool,
    /// The sender waits until it may send up to here.
    wanted: Option<u64>,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            granted: CREDIT_FIRST,
            received: 0,
            written: 0,
            size: CREDIT_FIRST,
            first: CREDIT_FIRST,
            loan: (0, 0),
            asked: false,
            wanted: None,
        }
    }
}

impl Window {
    /// What it has of the budget.
    fn extra(&self) -> u64 {
        self.granted - self.written.max(self.first) - self.on_loan()
    }

    /// What it has of what came unasked.
    fn unasked(&self) -> u64 {
        self.received.min(self.first) - self.written.min(self.first)
    }

    /// What is left of its receiver's loan, until it is written.
    pub fn on_loan(&self) -> u64 {
        let (from, to) = self.loan;
        to - self.written.clamp(from, to)
    }

    /// Changes it, and the budget with it.
    fn change<T>(&mut self, budget: &mut Budget, f: impl FnOnce(&mut Self) -> T) -> T {
        let (extra, unasked) = (self.extra(), self.unasked());
        let result = f(self);
        budget.used = budget.used - extra + self.extra();
        budget.first = budget.first - unasked + self.unasked();
        result
    }

    /// Something came from the sender; false when it was not allowed.
    pub fn arrive(&mut self, charge: u64, budget: &mut Budget) -> bool {
        if charge > self.granted - self.received {
            return false;
        }
        self.change(budget, |w| w.received += charge);
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
        self.change(budget, |w| w.written += charge.min(w.received - w.written));
        // A sender far away has used up what is on its way to us before our answer is there.
        let low = self.granted - self.received < self.size / 4 * 3;
        if self.waits() || (low && self.asked) { self.grant(budget) } else { None }
    }

    /// The sender, which has sent `sent`, wants to send `need` more; the new limit, if there is one
    /// now. The window grows to `max` at most.
    pub fn blocked(
        &mut self,
        (sent, need): (u64, u64),
        max: u64,
        budget: &mut Budget,
    ) -> Option<u64> {
        let sent = sent.clamp(self.received, self.granted);
        if !self.asked {
            // From now on nothing is sent that was not granted.
            self.change(budget, |w| (w.asked, w.first, w.granted) = (true, sent, sent));
        }
        self.wanted = Some(sent + need.clamp(PIECE_CHARGE, LOAN_MAX));
        self.size = (self.size * 4).min(max);
        self.grant(budget)
    }

    /// Whether the sender waits for more.
    pub const fn waits(&self) -> bool {
        self.wanted.is_some()
    }

    fn grant(&mut self, budget: &mut Budget) -> Option<u64> {
        let limit = (self.written + self.size).min(self.granted + (budget.max - budget.used));
        // Not a word for every few bytes, unless there is nothing more to wait for.
        let least = match self.wanted {
            Some(wanted) if self.held() == 0 => wanted.max(self.granted + 1),
            _ => self.granted + self.size / 4,
        };
        if limit < least {
            return None;
        }
        self.wanted = None;
        self.change(budget, |w| w.granted = limit);
        Some(limit)
    }

    /// The receiver's loan, which nobody has, goes to this sender, which waits, unless the budget
    /// has what it wants: the new limit.
    pub fn lend(&mut self, budget: &mut Budget) -> Option<u64> {
        if let Some(limit) = self.grant(budget) {
            return Some(limit);
        }
        let wanted = self.wanted.take()?;
        self.change(budget, |w| {
            w.loan = (w.granted, wanted.max(w.granted));
            w.granted = w.loan.1;
        });
        Some(self.granted)
    }

    /// The pair is over: what it had goes back.
    pub fn over(&self, budget: &mut Budget) {
        budget.used -= self.extra();
        budget.first -= self.unasked();
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

    #[test]
    fn a_receiver_that_reads_gives_its_sender_the_whole_window_in_four_steps() {
        let mut budget = Budget::new(1 << 30);
        let mut w = Window::default();
        assert!(w.arrive(CREDIT_FIRST, &mut budget));
        assert!(!w.arrive(1, &mut budget));
        let mut limit = CREDIT_FIRST;
        for size in [64 << 10, 256 << 10, 1 << 20, 1 << 20] {
            let new = w.blocked((limit, 1000), WINDOW_NEAR, &mut budget);
            assert_eq!(new, (size > limit).then_some(size), "nothing was written yet");
            limit = new.unwrap_or(limit);
            w.arrive(limit - w.received, &mut budget);
        }
        assert_eq!((budget.first, budget.used), (CREDIT_FIRST, limit - CREDIT_FIRST));
        assert_eq!(w.written(limit, &mut budget), Some(limit + WINDOW_NEAR));
        w.over(&mut budget);
        assert_eq!((budget.first, budget.used), (0, 0));
    }

    #[test]
    fn who_has_asked_may_send_nothing_unasked_any_more() {
        let mut budget = Budget::new(0);
        let mut w = Window::default();
        assert!(w.arrive(100, &mut budget));
        // Another 50 are under way.
        assert_eq!(w.blocked((150, 1000), WINDOW_NEAR, &mut budget), None);
        assert!(w.may_come(100, 50) && !w.may_come(150, 1));
        assert!(w.arrive(50, &mut budget) && !w.arrive(1, &mut budget));
        assert_eq!(w.written(150, &mut budget), None);
        assert_eq!(w.lend(&mut budget), Some(1150));
        assert_eq!((w.on_loan(), budget.used, budget.first), (1000, 0, 0));
        assert!(w.arrive(1000, &mut budget));
        w.written(1000, &mut budget);
        assert_eq!(w.on_loan(), 0);
    }

    proptest! {
        #[test]
        fn the_budget_holds_and_a_receiver_that_reads_lets_everybody_go_on(
            ops in proptest::collection::vec((0..6usize, 0..4u8, 1..200_000u64), 0..300),
        ) {
            let mut budget = Budget::new(700_000);
            let mut pairs = [Window::default(); 6];
            // As the senders see it: limit, sent, waiting for an answer.
            let mut senders = [(CREDIT_FIRST, 0u64, false); 6];
            for (i, op, n) in ops {
                let (w, s) = (&mut pairs[i], &mut senders[i]);
                let limit = match op {
                    0 => {
                        let n = n.min(s.0 - s.1);
                        s.1 += n;
                        prop_assert!(w.arrive(n, &mut budget));
                        None
                    }
                    1 if !s.2 => {
                        if !w.asked {
                            s.0 = s.1;
                        }
                        s.2 = true;
                        w.blocked((s.1, n), WINDOW_NEAR, &mut budget)
                    }
                    2 if w.waits() && w.on_loan() == 0 => w.lend(&mut budget),
                    _ => w.written(n, &mut budget),
                };
                if let Some(limit) = limit {
                    prop_assert!(limit >= s.0);
                    *s = (limit, s.1, false);
                }
                prop_assert_eq!(s.0, w.granted);
                let used: u64 = pairs.iter().map(Window::extra).sum();
                let first: u64 = pairs.iter().map(Window::unasked).sum();
                let lent: u64 = pairs.iter().map(Window::on_loan).sum();
                prop_assert_eq!((used, first), (budget.used, budget.first));
                prop_assert!(budget.used <= budget.max && lent <= 6 * LOAN_MAX);
                let held: u64 = pairs.iter().map(Window::held).sum();
                prop_assert!(held <= used + first + lent);
            }
            // Everything is read: nobody waits any more who has the loan.
            for (w, s) in pairs.iter_mut().zip(&mut senders) {
                let (held, before) = (w.held(), s.0);
                let limit = w.written(held, &mut budget);
                if s.2 && limit.is_none() && w.on_loan() == 0 {
                    let limit = w.lend(&mut budget);
                    prop_assert!(limit.is_some_and(|limit| limit >= before));
                }
            }
        }
    }

    #[test]
    fn a_sender_that_asked_hears_of_more_when_a_quarter_is_used() {
        let mut budget = Budget::new(1 << 30);
        let mut w = Window::default();
        w.arrive(CREDIT_FIRST, &mut budget);
        // Who never asked hears nothing, however much is read.
        assert_eq!(w.written(CREDIT_FIRST, &mut budget), None);
        let size = CREDIT_FIRST * 4;
        let limit = w.blocked((CREDIT_FIRST, 1000), WINDOW_NEAR, &mut budget);
        assert_eq!((limit, w.waits()), (Some(CREDIT_FIRST + size), false));
        // Up to a quarter of the window, nothing is said; from there on, what was read.
        assert!(w.arrive(size / 4, &mut budget));
        assert_eq!(w.written(size / 4, &mut budget), None);
        assert!(w.arrive(1, &mut budget));
        assert_eq!(w.written(1, &mut budget), Some(CREDIT_FIRST + size + size / 4 + 1));
        assert_eq!((w.held(), w.received()), (0, CREDIT_FIRST + size / 4 + 1));
        // What was not received is not written.
        assert_eq!(w.written(1 << 20, &mut budget), None);
        assert_eq!(w.held(), 0);
        let used = budget.used;
        w.over(&mut budget);
        assert_eq!((budget.used, used > 0), (0, true));
    }
}
