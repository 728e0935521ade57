//! A host that keeps the log and is about to end has another one lead where it leads itself, and
//! waits until the others can decide without it.

use towpath_proto::Memory;
use towpath_vm::Message;
use towpath_vm::message::{Ends, MayEnd};
use towpath_wire::{HostId, Instant};

use super::Node;
use super::voting::Reached;
use crate::voting::Voter;

impl Node {
    /// This host is about to end, and its owner asks again after every turn until it may: another
    /// one leads then, where one can, and those that keep the log can decide without this host,
    /// where they can. What cannot be is not waited for: bound it all the same, whoever leads may
    /// not answer.
    pub fn may_end(&mut self, now: Instant, memory: &mut dyn Memory) -> bool {
        self.say_that_it_ends(now, false);
        let may = self.has_parted(now);
        if may {
            self.say_that_it_ends(now, true);
        }
        self.pump(now, memory);
        may
    }

    /// Whether the others can decide without this host: it does not vote, or whoever leads has said
    /// so. Where not, what it keeps may be all that is left.
    pub fn is_let_go(&self) -> bool {
        let votes = |voter: &Voter| self.me.is_some_and(|me| voter.members().0.contains(&me));
        let votes = self.voting.voter.as_deref().is_some_and(votes);
        !votes || self.voting.parting.own.may
    }

    fn has_parted(&mut self, now: Instant) -> bool {
        self.voting.parting.own.kept |= self.keeps();
        let Some(voter) = &self.voting.voter else { return true };
        let (voters, _) = voter.members();
        let is_heard =
            |host: &HostId| self.peers.up(*host).is_some() && !self.watch.silent.contains(host);
        let stays = |host: &HostId| is_heard(host) && !self.voting.parting.hosts.contains_key(host);
        if !voters.iter().any(stays) {
            return true;
        }
        let votes = self.me.is_some_and(|me| voters.contains(&me));
        let led = self.voting.parting.own.handed;
        if self.me == self.leader() && (led || !self.standing.frozen) {
            // Asked once: where another one is not elected, this one leads on.
            let Some(mut voter) = self.voting.voter.take() else { return true };
            let (reached, parting) = (Reached { node: self, now }, &self.voting.parting.hosts);
            let hands = !led && voter.hand_over(now, &reached, parting);
            self.voting.voter = Some(voter);
            self.voting.parting.own.handed |= hands;
            return !self.voting.parting.own.handed;
        }
        !votes || self.voting.parting.own.may
    }

    /// Tells the others that keep the log, so that none of them has this host lead: those that have
    /// not heard it on the connection that stands.
    fn say_that_it_ends(&mut self, now: Instant, at_once: bool) {
        let Some(voter) = &self.voting.voter else { return };
        let (mut voters, _) = voter.members();
        voters.retain(|host| self.me != Some(*host));
        for host in voters {
            let Some(up) = self.peers.up(host) else { continue };
            let said = &mut self.voting.parting.own.said;
            if said.insert(host, (up, at_once)) != Some((up, at_once)) {
                self.tell(now, host, Message::Ends(Ends { now: at_once }));
            }
        }
    }

    /// A host that keeps the log with us is about to end. One that does not, as far as is known
    /// here, may have until just now.
    pub(crate) fn handle_parting(&mut self, now: Instant, from: HostId, ends: Ends) {
        let known = self.voting.voter.as_ref().is_some_and(|voter| voter.has(from));
        if known && self.me != Some(from) {
            // Who says it again has not heard that it may.
            self.voting.parting.hosts.insert(from, ends.now);
            self.voting.stepping |= self.leads();
        } else if !ends.now && self.leads() && self.voting.voter.is_some() {
            self.tell(now, from, Message::MayEnd(MayEnd {}));
        }
    }

    /// The leader says that the others can do without this host.
    pub(crate) fn handle_may_end(&mut self, from: HostId) {
        if self.leader() == Some(from) && self.me != Some(from) {
            self.voting.parting.own.may = true;
        } else {
            // One that led says so late.
            self.malformed += u64::from(self.voting.parting.own.said.is_empty());
        }
    }

    /// Tells those that are about to end whether they may.
    pub(crate) fn settle_parting(&mut self, now: Instant) {
        if self.voting.parting.hosts.is_empty() {
            return;
        }
        let mut parting = core::mem::take(&mut self.voting.parting);
        parting.hosts.retain(|host, _| self.is_up(*host));
        // Where this host ends itself, the next one that leads says so: it may be one of them.
        let leads = self.leads() && !parting.own.handed;
        let voter = self.voting.voter.as_ref().filter(|voter| leads && voter.is_settled());
        let is_up = |host: &HostId| self.is_up(*host);
        let may = voter.map(|voter| parting.may_end(&voter.members().0, &is_up));
        self.voting.parting = parting;
        for host in may.unwrap_or_default() {
            self.tell(now, host, Message::MayEnd(MayEnd {}));
        }
    }
}
