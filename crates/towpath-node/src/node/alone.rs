//! One of those that keep the log goes on alone, where most of the others have started again.

use alloc::boxed::Box;
use core::time::Duration;

use towpath_vm::HostState;
use towpath_vm::control::ControlState;
use towpath_wire::{HostId, Instant};

use super::Node;
use super::restore::TERM_SLOT;
use crate::event::NodeEvent;
use crate::joining::RETURNING_FOR;
use crate::restore::{KeptTo, next_generation};
use crate::voting::Voter;

/// For so long a host takes no part that has said that it can decide nothing: longer than that
/// counts, and takes to arrive.
const SILENT_FOR: Duration = RETURNING_FOR.saturating_add(Duration::from_secs(15));

fn is_up(state: &ControlState, host: HostId) -> bool {
    state.table().get(host).is_some_and(|host| host.state == HostState::Up)
}

impl Node {
    /// A host says that it starts again: what it was here is over.
    pub(crate) fn starts_again(&mut self, now: Instant, host: HostId, kept: KeptTo) {
        if self.voting.voter.as_ref().is_some_and(|voter| voter.has(host)) {
            self.voting.over.insert(host, kept);
            self.go_on_alone(now);
        }
    }

    /// How far what this host has goes, where so many of those that vote have started again, or
    /// were lost before, that the rest cannot decide anything any more. One that was lost may run:
    /// what this host says holds since it decides nothing with that one while anybody counts on it.
    pub(crate) fn ends_with_most(&mut self, now: Instant) -> Option<KeptTo> {
        let kept = self.can_decide_nothing()?;
        self.voting.silent_until = Some(now + SILENT_FOR);
        Some(kept)
    }

    fn can_decide_nothing(&self) -> Option<KeptTo> {
        let voter = self.voting.voter.as_ref().filter(|_| self.standing.frozen)?;
        let (voters, _) = voter.members();
        let is_over = |host: &HostId| self.voting.over.contains_key(host);
        let lives = voters.iter().filter(|host| !is_over(host) && is_up(voter.state(), **host));
        (2 * lives.count() <= voters.len()).then(|| voter.kept_to())
    }

    /// Whether this host has said of late that it can decide nothing.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        self.voting.silent_until.is_some_and(|until| now < until)
    }

    /// Leads from here on, alone, where none of those that have started again has more.
    fn go_on_alone(&mut self, now: Instant) {
        let (Some(me), Some(mine)) = (self.me, self.can_decide_nothing()) else { return };
        let Some(voter) = &self.voting.voter else { return };
        let heard = self.log.as_ref().map(|log| log.snapshot().term >> 32);
        if heard > Some(voter.state().snapshot().term >> 32) {
            // Another one has begun again, and was followed: it is the one to come back.
            return;
        }
        let (voters, _) = voter.members();
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
        self.voting.silent_until = None;
        self.events.push_back(NodeEvent::Begins);
        self.take_lead(now, state);
    }
}
