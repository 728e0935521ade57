//! Hosts that are declared lost: only those that something struck, and with all of their tasks.

use std::collections::BTreeSet;
use std::time::Duration;

use towpath_node::Node;
use towpath_wire::{HostId, Instant};

use super::faults::Fault;
use super::program::Stage;
use super::run::Run;
use super::scenario::VmScenario;

/// How long tasks of a host that is another one now may take to end.
const GRACE: Duration = Duration::from_secs(1);

/// So much longer than a fault lasts somebody may seem silent.
const NOTICED: Duration = Duration::from_secs(1);

/// Who may be lost, and whose tasks must be over.
#[derive(Debug, Default)]
pub(super) struct Fenced {
    struck: BTreeSet<usize>,
    /// Whom faults met that were too short for that by themselves.
    met: BTreeSet<usize>,
    /// How long hosts were kept from answering so far, all faults one after the other.
    struck_for: Duration,
    /// Pairs that did not reach each other, whatever since.
    apart: BTreeSet<(usize, usize)>,
    /// By when the tasks of who a host was before have ended.
    before: Vec<(Instant, HostId)>,
}

impl Fenced {
    /// Of `hosts`, these may be lost from now on. Faults that together are over before anybody is
    /// waited for for long enough cost no host.
    pub(super) fn struck(&mut self, fault: Fault, hosts: usize, scenario: &VmScenario) {
        let lost_after = Duration::from_millis(scenario.lost_after_ms.into());
        let strikes = fault.strikes(hosts, scenario.voters > 1);
        if let Fault::Apart { from, to, .. } = fault
            && scenario.voters > 1
        {
            self.parted(from, to);
        }
        let Some(lasts) = fault.lasts() else { return self.struck.extend(strikes) };
        self.met.extend(strikes);
        self.struck_for += lasts;
        if self.struck_for + NOTICED >= lost_after {
            self.struck.append(&mut self.met);
        }
    }

    /// Two do not reach each other. That costs nobody while all others reach both; whoever is apart
    /// from several may be silent to most of those that keep the log.
    fn parted(&mut self, from: usize, to: usize) {
        self.apart.extend([(from, to), (to, from)]);
        let many = |host: &usize| self.apart.iter().filter(|(of, _)| of == host).count() > 1;
        let struck: Vec<usize> = [from, to].into_iter().filter(many).collect();
        self.struck.extend(struck);
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

    /// Its unique tasks have ended, since others may take their place from now on.
    pub(super) fn check_unique(&mut self, id: HostId) {
        let Some(host) = self.ids.iter().position(|i| *i == Some(id)) else { return };
        // One that stands still ends nothing, and finds out as soon as it goes on.
        let seat = Some(&self.world.hosts[host]).filter(|seat| !seat.paused);
        let node = seat.and_then(|seat| seat.node.as_ref()).filter(|node| node.me() == Some(id));
        let run = node.map_or(0, Node::unique_running);
        self.out.lost_alive += u64::from(node.is_some());
        if run > 0 {
            let what = format!("{run} unique tasks run on host {host} ({id}), which is lost");
            self.ledger.violate(what);
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
        let scenario = VmScenario::default();
        let mut strike = |fault| {
            fenced.struck(fault, 6, &scenario);
            fenced.struck.iter().copied().collect::<Vec<_>>()
        };
        assert_eq!(strike(Fault::Cut { host: 5, ms: 400 }), [], "nobody is lost for that");
        assert_eq!(strike(Fault::Pause { host: 0, ms: 3000 }), [0, 5]);
        assert_eq!(strike(Fault::Step { host: 3, ms: 3000 }), [0, 5]);
        assert_eq!(strike(Fault::Crash { host: 2 }), [0, 2, 5]);
        assert_eq!(strike(Fault::Part { first: 3, count: 3, ms: 3000 }), [0, 2, 3, 4, 5]);
        let apart = |to| Fault::Apart { from: 1, to, both: true, ms: 20_000 };
        for to in [0, 4, 5] {
            assert_eq!(strike(apart(to)), [0, 2, 3, 4, 5], "whoever leads alone reaches both");
        }
        let scenario = VmScenario { voters: 3, ..scenario };
        for (to, lost) in [(2, &[][..]), (2, &[]), (3, &[1])] {
            fenced.struck = BTreeSet::new();
            fenced.struck(apart(to), 6, &scenario);
            assert!(fenced.struck.iter().eq(lost), "to {to}: {:?}", fenced.struck);
        }
    }

    #[test]
    fn where_hosts_are_waited_for_for_long_only_a_crash_costs_one() {
        let mut fenced = Fenced::default();
        let scenario = VmScenario { lost_after_ms: 10_000, ..VmScenario::default() };
        for fault in [Fault::Pause { host: 0, ms: 6000 }, Fault::Cut { host: 1, ms: 2500 }] {
            fenced.struck(fault, 6, &scenario);
        }
        assert!(fenced.struck.is_empty());
        fenced.struck(Fault::Crash { host: 2 }, 6, &scenario);
        assert_eq!(fenced.struck, BTreeSet::from([2]));
        // One fault after the other may keep a host away for as long as it takes.
        fenced.struck(Fault::Burst { host: 3, ms: 600 }, 6, &scenario);
        assert_eq!(fenced.struck, BTreeSet::from([0, 1, 2, 3]));
    }
}
