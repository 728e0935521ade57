//! What this task tells of its ways to others, in memory that its daemon reads: for `explain` and
//! `top`.

use crate::parts::accounts::GONE;

use towpath_io::shared::Home;
use towpath_vm::account::{Account, RouteState};
use towpath_wire::TaskId;

use crate::task::Task;

impl Task {
    /// The line of `peer`, from now on.
    pub(crate) fn account(&mut self, peer: TaskId) -> Option<u16> {
        if let Some(line) = self.directs.accounts.lines.get(&peer) {
            return Some(*line);
        }
        let ledger = self.home.as_ref().map(Home::ledger)?;
        let line = self.directs.accounts.free.pop()?;
        // So far everything went by the daemons.
        ledger.set(line, Account::BY_DAEMONS, self.endpoint.next_number(peer).into());
        ledger.set(line, Account::PEER, peer.to_raw());
        self.directs.accounts.lines.insert(peer, line);
        Some(line)
    }

    /// How the direct route to `peer`, which has a line, stands.
    pub(crate) fn route_is(&self, peer: TaskId, state: RouteState) {
        if let (Some(line), Some(home)) = (self.directs.accounts.lines.get(&peer), &self.home) {
            home.ledger().set(*line, Account::DIRECT, state.to_raw());
        }
    }

    /// A message goes to `peer`, otherwise than by shared memory: `way` is the word that counts it.
    pub(crate) fn count(&self, peer: TaskId, way: usize, len: usize) {
        if let (Some(line), Some(home)) = (self.directs.accounts.lines.get(&peer), &self.home) {
            home.ledger().count(*line, way, len);
        }
    }

    /// A peer is gone; what went to it counts on.
    pub(crate) fn close_account(&mut self, peer: TaskId) {
        let (Some(line), Some(home)) = (self.directs.accounts.lines.remove(&peer), &self.home)
        else {
            return;
        };
        let ledger = home.ledger();
        let (theirs, all) = (ledger.get(line), ledger.get(GONE));
        for (word, value) in theirs.into_iter().enumerate() {
            ledger.set(line, word, 0);
            if word >= Account::BY_RING {
                ledger.set(GONE, word, all[word].wrapping_add(value));
            }
        }
        self.directs.accounts.free.push(line);
    }
}
