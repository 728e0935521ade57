//! Before a host is lost because it is silent, most of those that keep the log say that it is so
//! for them, too.
//!
//! One of them that says so is there at that moment, so the loss is decided with its vote, not with
//! that of the host which is to be lost: fenced, that one could vote no more. Any host that hears
//! it puts the judgement off, whether it keeps the log or not: reach need not be transitive.

use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::Message;
use towpath_vm::message::Unreachable;
use towpath_wire::{HostId, Instant};

use super::Node;
use super::restore::RETURN_FOR;
use crate::suspects::Suspect;

/// Hosts that do not keep the log, and are asked, at most: those in the lowest slots.
const OTHERS_MAX: usize = 64;
/// How often those that were asked about are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Node {
    /// The leader asks the others that it hears whether they reach a host that it does not, and
    /// asks again where that is not settled soon.
    pub(crate) fn ask_who_reaches(&mut self, now: Instant, host: HostId) {
        let (voters, _) = self.voters();
        let table = self.log.iter().flat_map(|log| log.table().up().map(|h| h.id));
        let (mut vote, mut rest): (Vec<HostId>, Vec<HostId>) = table
            .filter(|other| Some(*other) != self.me && *other != host)
            .partition(|other| voters.contains(other));
        // Those that vote answer every beat; others may have had nothing to say for long.
        vote.retain(|other| self.is_heard(now, *other));
        rest.retain(|other| self.peers.up(*other).is_some() && self.takes_new(*other));
        // They ask it themselves, and wait for as long as whoever is there takes to answer.
        let until = now + self.silent_after() + self.silent_after() / 4;
        let Some(suspect) = self.lead.suspects.by_host.get_mut(&host) else { return };
        suspect.asked = Some(vote.iter().map(|other| (*other, false)).collect());
        suspect.until = until;
        suspect.latest = suspect.latest.max(until);
        for other in vote.into_iter().chain(rest.into_iter().take(OTHERS_MAX)) {
            self.tell(now, other, Message::Reach(Unreachable { host }));
        }
    }

    /// Whether a host is silent to most of those that vote, as far as they were asked: to this
    /// leader, and to those that have said so since. The host's own word does not count.
    pub(crate) fn is_silent_to_most(&self, host: HostId) -> bool {
        let Some(voter) = &self.voting.voter else { return true };
        #[cfg(plant)]
        if self.plant() == towpath_proto::config::Plant::LostAlone {
            return true;
        }
        let (voters, _) = voter.members();
        let suspect = self.lead.suspects.by_host.get(&host);
        let said = suspect.and_then(|suspect| suspect.asked.as_ref());
        let silent =
            |v: &&HostId| Some(**v) == self.me || said.is_some_and(|s| s.get(*v) == Some(&true));
        2 * voters.iter().filter(|v| **v != host).filter(silent).count() > voters.len()
    }

    /// Another one reaches a host that this leader does not: it is not lost.
    pub(crate) fn is_reached_by_another(&mut self, now: Instant, from: HostId, host: HostId) {
        let wait = RETURN_FOR.max(self.lost_after() * 2);
        if let Some(suspect) = self.asked_of(from, host) {
            let until = now + wait;
            *suspect = Suspect { until, latest: suspect.latest.max(until), asked: None };
            self.lead.suspects.arm();
        }
    }

    /// Nor does another one that was asked.
    pub(crate) fn handle_unheard(&mut self, from: HostId, host: HostId) {
        if !self.leads() || self.voting.voter.is_none() {
            self.malformed += u64::from(self.was_never_shared());
            return;
        }
        let over = self.silent_after();
        let Some(suspect) = self.asked_of(from, host) else { return };
        let Some(said) = suspect.asked.as_mut().and_then(|asked| asked.get_mut(&from)) else {
            return; // one that does not vote
        };
        let is_news = !core::mem::replace(said, true);
        // Those that do not keep the log have had the time to say that they reach it.
        if is_news && suspect.asked.as_ref().is_some_and(|asked| asked.values().all(|s| *s)) {
            suspect.until = suspect.until - over;
            self.lead.suspects.arm();
        }
    }

    /// A host of which others were asked, and that is not `other` itself.
    fn asked_of(&mut self, other: HostId, host: HostId) -> Option<&mut Suspect> {
        let suspect = self.lead.suspects.by_host.get_mut(&host)?;
        (other != host && suspect.asked.is_some()).then_some(suspect)
    }

    /// The leader asks whether this host reaches another one: that one is asked for a sign of life.
    /// Who keeps the log calls it for that.
    pub(crate) fn handle_reach(&mut self, now: Instant, from: HostId, host: HostId) {
        if self.leader() != Some(from) || self.me == Some(from) || !self.is_shared() {
            self.malformed += u64::from(self.was_never_shared());
            return;
        }
        if !self.is_up(host) {
            return;
        }
        match self.peers.up(host) {
            Some(id) => self.endpoint.ask(now, id, None),
            None if self.voting.voter.is_none() => return,
            None => self.ensure_connection(now, host),
        }
        self.voting.asked_about.insert(host, now);
        self.voting.look_at.get_or_insert(now + LOOK_EVERY);
    }

    /// Tells the leader of those that it asked about: they have given a sign of life, or none for
    /// as long as whoever is there takes, which only those say that keep the log.
    pub(crate) fn tell_whom_we_reach(&mut self, now: Instant) {
        if self.voting.look_at.is_none_or(|at| at > now) {
            return;
        }
        let (asked, over) = (self.voting.asked_about.clone(), self.silent_after());
        for (host, at) in asked {
            let up = self.peers.up(host).and_then(|id| self.endpoint.association(id));
            // One that was heard just before is not asked again so soon.
            let heard = up.is_some_and(|up| up.heard_at() + over / 4 >= at);
            let silent = up.is_some_and(|up| up.is_silent(now)) || now.since(at) > over;
            if !heard && !silent {
                continue;
            }
            self.voting.asked_about.remove(&host);
            let said = Unreachable { host };
            let said = if heard { Message::Reached(said) } else { Message::Unheard(said) };
            if let Some(leader) = self.leader().filter(|l| self.me != Some(*l))
                && (heard || self.voting.voter.is_some())
            {
                self.tell(now, leader, said);
            }
        }
        self.voting.look_at = (!self.voting.asked_about.is_empty()).then_some(now + LOOK_EVERY);
    }
}
