//! Whether a history of one register is linearizable: some order of its operations, in which each
//! stands between its call and its answer, explains every answer (Herlihy and Wing 1990; the search
//! is that of Wing and Gong 1993 with the memory of Lowe 2017).

use std::collections::HashSet;

use towpath_wire::Instant;

/// What was done to a register that holds a number, 0 at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Set to this, and answered what it held.
    Swap(u64),
    /// Answered what it held.
    Read,
}

/// One operation. Invariant: `called ≤ answered`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) act: Act,
    pub(super) called: Instant,
    /// [`Instant::NEVER`] for one that was never answered: it may have been done or not.
    pub(super) answered: Instant,
    pub(super) answer: u64,
}

/// Operations that are looked at beyond the first that is not placed.
const WINDOW: usize = 128;

/// Where a search stands: all before `first` are placed, and those of `mask` after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    first: usize,
    mask: u128,
    value: u64,
}

impl State {
    fn has(&self, at: usize) -> bool {
        at < self.first || (at - self.first < WINDOW && self.mask >> (at - self.first) & 1 == 1)
    }

    fn with(mut self, at: usize, value: u64) -> Self {
        self.mask |= 1 << (at - self.first);
        let run = self.mask.trailing_ones();
        self.first += run as usize;
        self.mask = self.mask.checked_shr(run).unwrap_or(0);
        self.value = value;
        self
    }
}

/// The first operation that no order explains, if there is one.
pub(super) fn unexplained(operations: &[Operation]) -> Option<Operation> {
    let mut all = operations.to_vec();
    all.sort_by_key(|o| o.called);
    let (mut stack, mut seen) = (vec![State { first: 0, mask: 0, value: 0 }], HashSet::new());
    let mut furthest = 0;
    while let Some(state) = stack.pop() {
        furthest = furthest.max(state.first);
        let left = |at: &usize| !state.has(*at);
        if (state.first..all.len()).filter(left).all(|at| all[at].answered == Instant::NEVER) {
            return None;
        }
        let window = state.first..all.len().min(state.first + WINDOW);
        let due = window.clone().filter(left).map(|at| all[at].answered).min();
        let due = due.unwrap_or(Instant::NEVER);
        for at in window.filter(left).filter(|at| all[*at].called <= due) {
            let operation = &all[at];
            let explained = operation.answered == Instant::NEVER || operation.answer == state.value;
            let value = match operation.act {
                Act::Swap(value) => value,
                Act::Read => state.value,
            };
            let next = state.with(at, value);
            if explained && seen.insert(next) {
                stack.push(next);
            }
        }
    }
    all.get(furthest).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(act: Act, called: u64, answered: u64, answer: u64) -> Operation {
        let [called, answered] = [called, answered].map(Instant::from_nanos);
        Operation { act, called, answered, answer }
    }

    #[test]
    fn what_overlaps_may_stand_in_any_order_and_what_follows_may_not() {
        let swaps =
            |second| [operation(Act::Swap(1), 0, 10, 0), operation(Act::Swap(2), second, 20, 0)];
        assert!(unexplained(&swaps(5)).is_some(), "both found it empty");
        let read = |called, answer| {
            let first = operation(Act::Swap(1), 0, 10, 0);
            let second = operation(Act::Swap(2), 11, 20, 1);
            unexplained(&[first, second, operation(Act::Read, called, called + 3, answer)])
        };
        assert!(read(12, 1).is_none() && read(12, 2).is_none() && read(21, 2).is_none());
        assert!(read(21, 1).is_some(), "a stale read");
        assert!(read(12, 0).is_some());
    }

    #[test]
    fn what_was_never_answered_may_have_been_done_or_not() {
        let never = Instant::NEVER.as_nanos();
        let lost = operation(Act::Swap(1), 0, never, 0);
        assert!(unexplained(&[lost, operation(Act::Read, 5, 6, 0)]).is_none());
        assert!(unexplained(&[lost, operation(Act::Read, 5, 6, 1)]).is_none());
        let [one, zero] =
            [1, 0].map(|answer| operation(Act::Read, 7 + answer, 7 + answer, 1 - answer));
        assert!(unexplained(&[lost, zero, one]).is_some(), "done, then undone");
    }

    #[test]
    fn a_command_applied_twice_shows() {
        let history = [
            operation(Act::Swap(1), 0, 10, 0),
            operation(Act::Swap(2), 11, 20, 1),
            // 1 again, by its second application.
            operation(Act::Read, 21, 22, 1),
        ];
        assert!(unexplained(&history).is_some());
    }
}
