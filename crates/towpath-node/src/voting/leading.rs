//! Who takes part, as the one that leads changes it, and who leads next.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use towpath_vm::consensus::{Change, ReplicaId};
use towpath_vm::{Host, HostState, Snapshot};
use towpath_wire::{HostId, Instant};

use super::Voter;
use crate::parting::Parting;
use crate::voters::{Reach, Seen, Step, host_of, next_step};

impl Voter {
    /// Asks for a change of who takes part; false: it has to be asked for again.
    pub(crate) fn change(&mut self, step: &Step) -> bool {
        let change = match step {
            Step::Learn(host) => Some(Change::Learn(ReplicaId(self.name_for(*host).replica))),
            Step::Promote(host) => self.member(*host).map(Change::Promote),
            Step::Remove(host) => self.member(*host).map(Change::Remove),
            Step::Name(_) => None,
        };
        // Whatever speaks against it is over some ticks later, or is looked at anew then.
        let changes = change.is_some_and(|change| self.replica.change(change).is_ok());
        if changes {
            self.turn();
        }
        changes
    }

    /// Has another one lead that is heard, if there is one: this host is about to end, and so are
    /// those in `part`.
    pub(crate) fn hand_over(
        &mut self,
        now: Instant,
        reach: &dyn Reach,
        part: &BTreeMap<HostId, bool>,
    ) -> bool {
        self.catch_up(now);
        let me = self.replica.identity().id;
        let state = &self.state;
        let is_up =
            |host: HostId| state.table().get(host).is_some_and(|h| h.state == HostState::Up);
        let stays = |host: HostId| is_up(host) && !part.contains_key(&host);
        let fit = |id: &&ReplicaId| {
            **id != me && host_of(**id).is_some_and(|host| stays(host) && reach.is_heard(host))
        };
        // One that is to be taken out next only where there is no other.
        let drains = |id: &&ReplicaId| {
            let host = host_of(**id).and_then(|host| state.table().get(host));
            host.is_some_and(Host::drains)
        };
        let other = self.replica.members().voters.iter().filter(fit).min_by_key(drains).copied();
        let hands = self.leads() && other.is_some_and(|to| self.replica.hand_over(to).is_ok());
        if hands {
            self.turn();
        }
        hands
    }

    /// It is elected, and is up no longer as the state has it: another one is to lead.
    pub(super) fn pass_lead_on(&mut self) {
        self.passed += 1;
        let is_up =
            |host: HostId| self.state.table().get(host).is_some_and(|h| h.state == HostState::Up);
        let me = self.replica.identity().id;
        let rest = self.replica.members().voters.iter().filter(|id| **id != me);
        let others: Vec<_> = rest.filter(|id| host_of(**id).is_some_and(is_up)).copied().collect();
        if !others.is_empty() {
            // One of them may be gone: the next one is asked after an election's time.
            let other = others[self.passed as usize % others.len()];
            let _ = self.replica.hand_over(other);
        }
    }

    /// What is to be changed about who takes part, seen from the host that leads; `None`: nothing,
    /// or not yet.
    pub(crate) fn next_step(
        &self,
        told: &Snapshot,
        reach: &dyn Reach,
        parting: &Parting,
    ) -> Option<Step> {
        if !self.leads() || !self.replica.is_settled() {
            return None;
        }
        let (voters, learners) = self.members();
        let acked = self.replica.followers().filter(|(_, matched)| *matched > 0);
        let acked: BTreeSet<HostId> = acked.filter_map(|(id, _)| host_of(id)).collect();
        let (voters, learners, wanted) = (&voters, &learners, self.wanted);
        let seen = Seen { voters, learners, acked: &acked, wanted, parting };
        let step = next_step(&seen, told, reach);
        // Who is told to be a voter before it is one, can be believed when it leads.
        let named = |host: &HostId| told.voters.contains(host);
        match step {
            Some(Step::Promote(_)) if !learners.iter().all(named) => {
                Some(Step::Name(voters.union(learners).copied().collect()))
            }
            None if !voters.iter().eq(&told.voters) => Some(Step::Name(voters.clone())),
            step => step,
        }
    }
}
