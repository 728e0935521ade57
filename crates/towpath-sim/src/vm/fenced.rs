//! Hosts that are declared lost: only those that something struck, and with all of their tasks.

use std::collections::BTreeSet;
use std::time::Duration;

use towpath_wire::{HostId, Instant};

use super::faults::Fault;
use super::program::Stage;
use super::run::Run;

/// How long tasks of a host that is another one now may take to end.
const GRACE: Duration = Duration::from_secs(1);

/// Who may be lost, and whose tasks must be over.
#[derive(Debug, Default)]
pub(super) struct Fenced {
    struck: BTreeSet<usize>,
    /// By when the tasks of who a host was before have ended.
    before: Vec<(Instant, HostId)>,
}

impl Fenced {
    /// Of `hosts`, these may be lost from now on; `shared`: others may come to lead.
    pub(super) fn struck(&mut self, fault: Fault, hosts: usize, shared: bool) {
        self.struck.extend(fault.strikes(hosts, shared));
    }

    /// A host that was `old` is another one.
    pub(super) fn became_another(&mut self, now: Instant, old: HostId) {
        self.before.push((now + GRACE, old));
    }
}

impl Run<'_> {
    /// Some host hears that `id` is lost.
    pub(super) fn check_lost(&mut self, id: HostId) {
        let Some(host) = self.ids.iter().position(|i| *i == Some(id)) else { return };
        if !self.fenced.struck.contains(&host) {
            self.ledger.violate(format!("host {host} ({id}) is lost, and nothing struck it"));
        }
    }

    /// Tasks of hosts that became others have ended.
    pub(super) fn check_fenced(&mut self) {
        let now = self.world.now();
        let (due, rest) = self.fenced.before.iter().partition(|(at, _)| *at <= now);
        self.fenced.before = rest;
        let due: Vec<(Instant, HostId)> = due;
        for (_, old) in due {
            let enrolled = |stage| stage == Stage::Enrolled;
            let left = self.tasks.iter().filter(|t| t.id.host() == old && enrolled(t.stage));
            if let Some(task) = left.map(|t| t.id).next() {
                self.ledger.violate(format!("{task} goes on though its host {old} was lost"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_the_hosts_that_it_is_about() {
        let mut fenced = Fenced::default();
        fenced.struck(Fault::Pause { host: 0, ms: 3000 }, 6, false);
        fenced.struck(Fault::Cut { host: 0, ms: 3000 }, 6, false);
        assert_eq!(fenced.struck, BTreeSet::from([0]));
        fenced.struck(Fault::Step { host: 3, ms: 3000 }, 6, false);
        fenced.struck(Fault::Crash { host: 2 }, 6, false);
        assert_eq!(fenced.struck, BTreeSet::from([0, 2]));
        fenced.struck(Fault::Part { first: 4, count: 3, ms: 3000 }, 6, false);
        assert_eq!(fenced.struck, BTreeSet::from([0, 2, 4, 5]));
    }
}
