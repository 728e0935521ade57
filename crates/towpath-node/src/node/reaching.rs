//! Before a host is lost because it is silent, most of those that keep the log say that it is silent
//! for them, too.
//!
//! One of them that says so is there at that moment, so the loss is decided with its vote, not with
//! that of the host which is to be lost: fenced, that one could vote no more. One that hears the
//! host puts the judgement off.

use alloc::vec::Vec;

use towpath_vm::Message;
use towpath_vm::message::Unreachable;
use towpath_wire::{HostId, Instant};

use super::Node;
use super::restore::RETURN_FOR;
use crate::suspects::Suspect;

impl Node {
    /// The leader asks the others that keep the log, and that it hears, whether they reach a host
    /// that it does not, and asks again where that is not settled soon.
    pub(crate) fn ask_who_reaches(&mut self, now: Instant, host: HostId) {
        let (voters, _) = self.voters();
        let others = voters.into_iter().filter(|v| Some(*v) != self.me && *v != host);
        let others: Vec<HostId> = others.filter(|v| self.is_heard(now, *v)).collect();
        // They ask it themselves, and wait for as long as whoever is there takes to answer.
        let until = now + self.silent_after() + self.silent_after() / 4;
        let Some(suspect) = self.lead.suspects.by_host.get_mut(&host) else { return };
        suspect.asked = Some(others.iter().map(|other| (*other, false)).collect());
        suspect.until = until;
        suspect.latest = suspect.latest.max(until);
        for other in others {
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
        let silent = |v: &&HostId| Some(**v) == self.me || said.is_some_and(|s| s.get(*v) == Some(&true));
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
    pub(crate) fn handle_unheard(&mut self, now: Instant, from: HostId, host: HostId) {
        if !self.leads() || self.voting.voter.is_none() {
            self.malformed += u64::from(self.was_never_shared());
            return;
        }
        let Some(suspect) = self.asked_of(from, host) else { return };
        let Some(asked) = &mut suspect.asked else { return };
        asked.insert(from, true);
        // Whoever has not answered yet may reach it.
        if asked.values().all(|said| *said) {
            suspect.until = now;
            self.lead.suspects.arm();
        }
    }

    /// A host of which another one that keeps the log was asked.
    fn asked_of(&mut self, other: HostId, host: HostId) -> Option<&mut Suspect> {
        let votes = self.voting.voter.as_ref().is_some_and(|voter| voter.has(other));
        let suspect = self.lead.suspects.by_host.get_mut(&host)?;
        (votes && other != host && suspect.asked.is_some()).then_some(suspect)
    }

    /// The leader asks whether this host reaches another one: that one is asked for a sign of life.
    pub(crate) fn handle_reach(&mut self, now: Instant, from: HostId, host: HostId) {
        if self.leader() != Some(from) || self.me == Some(from) || !self.is_shared() {
            self.malformed += u64::from(self.was_never_shared());
            return;
        }
        if self.voting.voter.is_none() {
            return;
        }
        match self.peers.up(host) {
            Some(id) => self.endpoint.ask(now, id),
            None => self.ensure_connection(now, host),
        }
        self.voting.asked_about.insert(host, now);
    }

    /// Tells the leader of those that it asked about: they have given a sign of life, or none for
    /// as long as whoever is there takes.
    pub(crate) fn tell_whom_we_reach(&mut self, now: Instant) {
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
            if let Some(leader) = self.leader().filter(|l| self.me != Some(*l)) {
                let said = Unreachable { host };
                let said = if heard { Message::Reached(said) } else { Message::Unheard(said) };
                self.tell(now, leader, said);
            }
        }
    }
}
