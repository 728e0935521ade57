//! The log where nobody has to be asked.

use alloc::collections::VecDeque;

use super::{Command, Commits, Outcome, Ticket};

/// The log of a leader that asks nobody: what it proposes is committed.
#[derive(Debug, Default)]
pub struct Alone {
    proposed: VecDeque<(u64, Command)>,
    last: u64,
}

impl Commits for Alone {
    fn propose(&mut self, command: Command) -> Ticket {
        self.last += 1;
        self.proposed.push_back((self.last, command));
        Ticket(self.last)
    }

    fn poll(&mut self) -> Option<Outcome> {
        let (index, command) = self.proposed.pop_front()?;
        Some(Outcome::Committed(index, Ticket(index), command))
    }
}
