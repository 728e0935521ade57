//! One of those that keep the log goes on alone, where most of the others have started again.

use alloc::boxed::Box;

use towpath_vm::HostState;
use towpath_vm::control::ControlState;
use towpath_wire::{HostId, Instant};

use super::Node;
use super::restore::TERM_SLOT;
use crate::event::NodeEvent;
use crate::restore::{KeptTo, next_generation};
use crate::voting::Voter;

impl Node {
    /// A host says that it starts again: what it was here is over.
    pub(crate) fn starts_again(&mut self, now: Instant, host: HostId, kept: KeptTo) {
        if self.voting.voter.as_ref().is_some_and(|voter| voter.has(host)) {
            self.voting.over.insert(host, kept);
            self.go_on_alone(now);
        }
    }

    /// How far what this host has goes, where so many of those that vote have started again that
    /// the rest cannot decide anything any more.
    pub(crate) fn ends_with_most(&self) -> Option<KeptTo> {
        let voter = self.voting.voter.as_ref().filter(|_| self.standing.frozen)?;
        let (voters, _) = voter.members();
        let lives = voters.iter().filter(|host| !self.voting.over.contains_key(host)).count();
        (2 * lives <= voters.len()).then(|| voter.kept_to())
    }

    /// Leads from here on, alone, where none of those that have started again has more.
    fn go_on_alone(&mut self, now: Instant) {
        let (Some(me), Some(mine)) = (self.me, self.ends_with_most()) else { return };
        let Some(voter) = &self.voting.voter else { return };
        let heard = self.log.as_ref().map(|log| log.snapshot().term >> 32);
        if heard > Some(voter.state().snapshot().term >> 32) {
            // Another one has begun again, and was followed: it is the one to come back.
            return;
        }
        let (voters, _) = voter.members();
        let is_up = |state: &ControlState, host: HostId| {
            state.table().get(host).is_some_and(|host| host.state == HostState::Up)
        };
        let yields = |host: &HostId| {
            // One that was lost before decides nothing any more.
            let over = self.voting.over.get(host);
            over.map_or(!is_up(voter.state(), *host), |kept| mine.is_beyond(kept))
        };
        if !voters.contains(&me) || !voters.iter().filter(|host| **host != me).all(yields) {
            return;
        }
        let state = voter.everything();
        if !is_up(&state, me) {
            return;
        }
        let term = next_generation(state.snapshot().term) + (u64::from(me.slot()) << TERM_SLOT) + 1;
        let (state, wanted) = (state.go_on(term, me), voter.wanted);
        let rng = self.draws();
        if let Some(voter) = &mut self.voting.voter {
            // Whoever waits hears that it is not known what became of it.
            voter.drop_all();
        }
        self.settle_proposals(now);
        let Some(before) = self.voting.voter.take() else { return };
        let voter = Voter::found(now, me, wanted, &state, rng).after(&before);
        self.voting.voter = Some(Box::new(self.on_disk(voter)));
        self.voting.over.clear();
        self.events.push_back(NodeEvent::Begins);
        self.take_lead(now, state);
    }
}
