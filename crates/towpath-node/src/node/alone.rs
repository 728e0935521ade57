//! One of those that keep the log goes on alone, where most of them have started again.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::control::ControlState;
use towpath_vm::message::Outnumbered;
use towpath_vm::{HostState, Message};
use towpath_wire::{HostId, Instant};

use super::Node;
use super::restore::TERM_SLOT;
use super::voting::WAITING_MAX;
use crate::event::NodeEvent;
use crate::joining::RETURNING_FOR;
use crate::over::Over;
use crate::restore::{KeptTo, next_generation};
use crate::voting::Voter;

/// For so long a host takes no part that has said that it can decide nothing: longer than that
/// counts, and takes to arrive.
const SILENT_FOR: Duration = RETURNING_FOR.saturating_add(Duration::from_secs(15));

/// For so long counts what one that runs has said, who says it again each second: much less than it
/// keeps to that, since what it says may have been under way for long.
const OUTNUMBERED_FOR: Duration = Duration::from_secs(5);

fn is_up(state: &ControlState, host: HostId) -> bool {
    state.table().get(host).is_some_and(|host| host.state == HostState::Up)
}

impl Node {
    /// A host says that it starts again: what it was here is over.
    pub(crate) fn starts_again(&mut self, now: Instant, host: HostId, kept: KeptTo) {
        if self.voting.voter.as_ref().is_some_and(|voter| voter.has(host)) {
            self.voting.over.lives.insert(host, kept);
            self.go_on_alone(now);
            self.say_outnumbered(now);
        }
    }

    /// Several that run do not hear of each other, as of those that start again, by calling: each
    /// tells the others what it tells those.
    fn say_outnumbered(&mut self, now: Instant) {
        let Some(KeptTo { term, life, last, .. }) = self.can_decide_nothing(now) else { return };
        let Some(voter) = &self.voting.voter else { return };
        let is_told = |host: &HostId| {
            Some(*host) != self.me
                && !self.voting.over.lives.contains_key(host)
                && is_up(voter.state(), *host)
                && self.peers.up(*host).is_some()
                && self.peers.waiting(*host) < WAITING_MAX
        };
        let told: Vec<HostId> = voter.members().0.into_iter().filter(is_told).collect();
        for host in told {
            self.voting.over.silent_until = Some(now + SILENT_FOR);
            self.tell(now, host, Message::Outnumbered(Outnumbered { term, life, last }));
        }
    }

    /// Another one that runs says that it can decide nothing.
    pub(crate) fn handle_outnumbered(&mut self, now: Instant, from: HostId, said: &Outnumbered) {
        let Outnumbered { term, life, last } = *said;
        if self.voting.voter.as_ref().is_some_and(|voter| voter.has(from)) {
            let kept = KeptTo { term, life, last, lives: true };
            self.voting.over.outnumbered.insert(from, (kept, now));
            self.go_on_alone(now);
        } else {
            self.malformed += u64::from(self.was_never_shared());
        }
    }

    /// How far what another one has goes, if it runs and said so just now.
    fn said_outnumbered(&self, now: Instant, host: HostId) -> Option<&KeptTo> {
        let (kept, at) = self.voting.over.outnumbered.get(&host)?;
        (now.since(*at) < OUTNUMBERED_FOR).then_some(kept)
    }

    /// How far what this host has goes, where so many of those that vote have started again, or
    /// were lost before, that the rest cannot decide anything any more. One that was lost may run:
    /// what this host says holds since it decides nothing with that one while anybody counts on it.
    pub(crate) fn ends_with_most(&mut self, now: Instant) -> Option<KeptTo> {
        let kept = self.can_decide_nothing(now)?;
        self.voting.over.silent_until = Some(now + SILENT_FOR);
        Some(kept)
    }

    fn can_decide_nothing(&self, now: Instant) -> Option<KeptTo> {
        // One that is in contact with whoever leads hears of it what that can decide.
        let is_led = !self.standing.frozen
            && self.leader().is_none_or(|leader| self.said_outnumbered(now, leader).is_none());
        let voter = self.voting.voter.as_ref().filter(|_| !is_led)?;
        let (voters, _) = voter.members();
        // One that says that it can decide nothing decides nothing with this host either, which may
        // not know yet of all that were taken out.
        let is_over = |host: &HostId| {
            self.voting.over.lives.contains_key(host) || self.said_outnumbered(now, *host).is_some()
        };
        let lives = voters.iter().filter(|host| !is_over(host) && is_up(voter.state(), **host));
        (2 * lives.count() <= voters.len()).then(|| voter.kept_to())
    }

    /// Whether this host has said of late that it can decide nothing.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        self.voting.over.silent_until.is_some_and(|until| now < until)
    }

    /// Leads from here on, alone, where none of those that have started again has more.
    fn go_on_alone(&mut self, now: Instant) {
        let (Some(me), Some(mine)) = (self.me, self.can_decide_nothing(now)) else { return };
        let Some(voter) = &self.voting.voter else { return };
        let heard = self.log.as_ref().map(|log| log.snapshot().term >> 32);
        if heard > Some(voter.state().snapshot().term >> 32) {
            // Another one has begun again, and was followed: it is the one to come back.
            return;
        }
        let (voters, _) = voter.members();
        let yields = |host: &HostId| {
            if let Some(kept) = self.voting.over.lives.get(host) {
                return mine.is_beyond(kept);
            }
            match self.said_outnumbered(now, *host) {
                Some(kept) => mine.is_beyond(kept) || !kept.is_beyond(&mine) && me < *host,
                // One that was lost before decides nothing any more.
                None => !is_up(voter.state(), *host),
            }
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
        self.voting.over = Over::default();
        self.events.push_back(NodeEvent::Begins);
        self.take_lead(now, state);
    }
}
