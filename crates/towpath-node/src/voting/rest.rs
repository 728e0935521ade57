//! When a voter wakes up by itself.

use towpath_vm::consensus::{Config, ReplicatedLog, RoleName};
use towpath_wire::{HostId, Instant};

use super::Voter;
use crate::voters::host_of;

impl Voter {
    /// Counts the ticks that have gone by. True if there were any since the last time.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        if self.count(now, true) {
            self.turn();
        }
        self.ticking.were_counted()
    }

    /// Something else happens: the ticks before it that bring nothing have gone by before it did.
    pub(crate) fn catch_up(&mut self, now: Instant) {
        self.count(now, false);
    }

    fn count(&mut self, now: Instant, due: bool) -> bool {
        let gone = self.ticking.take(now, due);
        for _ in 0..gone {
            let draw = self.rng.u64();
            self.replica.tick(draw);
            self.ticks = self.ticks.wrapping_add(1);
            let again = self.ticks.is_multiple_of(2 * Config::default().election_ticks);
            if self.is_only_elected() && self.passed > 0 && again {
                self.pass_lead_on();
            }
        }
        gone > 0
    }

    /// Whether the log has elected this host, and does not say so yet.
    fn is_only_elected(&self) -> bool {
        self.replica.role() == RoleName::Leader && self.leads_in.is_none()
    }

    /// When the next tick is due.
    pub(crate) fn next_tick(&self) -> Instant {
        self.ticking.next()
    }

    /// Sleeps until a tick may bring something; `busy`: until the next one.
    pub(crate) fn rest(&mut self, busy: bool) {
        let ahead = self.replica.ticks_ahead();
        self.ticking.wait(if busy || self.is_only_elected() { 1 } else { ahead });
    }

    /// Who leads, as far as this replica knows.
    pub(crate) fn follows(&self) -> Option<HostId> {
        self.replica.leader().and_then(host_of)
    }
}
