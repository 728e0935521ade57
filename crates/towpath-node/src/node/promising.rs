//! Promises of the network: asked for, taken up, given back; and, at the host that leads, decided.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::{Association, Memory};
use towpath_qos::admission::KeptHop;
use towpath_qos::spec::limits::INTERVAL_NS_MAX;
use towpath_qos::topology::HOPS_MAX;
use towpath_vm::Message;
use towpath_vm::channel::RESERVE_MAX;
use towpath_vm::control::{Command, ControlState};
use towpath_vm::message::{Promised, SayHolds};
use towpath_vm::promises::{
    Again, Granted, HOLD, Holds, PROMISES_OF_HOST_MAX, Promise, Promises, Release, TOPOLOGY_MAX,
};
use towpath_vm::talk::Fault;
use towpath_wire::{HostId, Instant};

use super::Node;
use crate::channels::Wire;
use crate::commit::Waiting;
use crate::egress::Reservation;
use crate::event::NodeEvent;
use crate::promising::{LATE, Said, Told};

/// Numbers that a host may have, with those that were answered late and are given back.
const HELD_MAX: usize = 4 * PROMISES_OF_HOST_MAX;
/// How long whoever is to say once more what it has waits at most, and is waited for.
const SAY_AGAIN: Duration = Duration::from_secs(1);

impl Node {
    /// Asks for what a channel needs of the network.
    pub(crate) fn ask_promise(&mut self, now: Instant, to: HostId, own: Reservation) {
        match self.local.promising.ask(now, to, own) {
            Ok(Some(promise)) => self.ask_leader(now, Message::Promise(promise)),
            Ok(None) => {}
            Err(fault) => self.promise_refused(own.of, fault),
        }
    }

    /// When the leader was heard last by the connection that there is to it.
    fn leader_heard(&self) -> Option<Instant> {
        let connection = self.peers.up(self.leader()?)?;
        self.endpoint.association(connection).map(Association::heard_at)
    }

    /// Whoever leads, in which term, and by which connection; `None`: nobody, or out of contact.
    fn leader_now(&self, now: Instant) -> Option<Told> {
        let (me, log) = (self.me?, self.log.as_ref()?);
        let leader = log.leader();
        let (term, _) = log.snapshot().place();
        let connection = self.peers.up(leader);
        let heard = self.leader_heard();
        let in_contact = if leader == me {
            self.leads()
        } else {
            // After a stop of this machine nobody has told yet that it was lost.
            connection.is_some() && heard.is_none_or(|at| now < at + HOLD)
        };
        (in_contact && !self.standing.frozen).then_some((me, leader, term, connection))
    }

    fn ask_leader(&mut self, now: Instant, message: Message) {
        if let Some(leader) = self.leader() {
            self.tell(now, leader, message);
        }
    }

    /// Says what there is to whoever leads by now; gives back what is over; gives up what nobody
    /// has answered. True if anything was said.
    pub(crate) fn settle_promising(&mut self, now: Instant) -> bool {
        self.settle_orphans(now);
        let mut said = self.begin_promising(now);
        match self.leader_now(now) {
            Some(leader) if self.local.promising.is_due(now, leader) => {
                said = true;
                let (holds, asked) = self.local.promising.tell(leader);
                self.ask_leader(now, Message::Holds(holds));
                for promise in asked {
                    self.ask_leader(now, Message::Promise(promise));
                }
            }
            Some(_) => {}
            None => {
                let since = self.leader_heard().unwrap_or(now);
                for wire in self.local.promising.has_no_leader(now, since) {
                    self.promise_gone(wire);
                }
            }
        }
        for number in self.local.promising.given_back(now) {
            if let Some(host) = self.me {
                said = true;
                self.ask_leader(now, Message::Release(Release { host, number }));
            }
        }
        for wire in self.local.promising.waited_in_vain(now) {
            let frozen = self.frozen();
            self.promise_refused(wire, frozen);
        }
        said
    }

    /// When something is to be done about promises next.
    pub(crate) fn promises_due(&self) -> Option<Instant> {
        let orphans = self.lead.orphans.values().min().copied();
        [self.local.promising.due(), orphans, self.lead.say_at].into_iter().flatten().min()
    }

    /// What was said to a leader that asked its members first was not heard.
    pub(crate) fn tell_promises_again(&mut self, now: Instant) {
        self.local.promising.is_wanted(now);
    }

    /// The leader wants to hear what this host has.
    pub(crate) fn handle_say_holds(&mut self, now: Instant, from: HostId, say: SayHolds) {
        if self.leader() == Some(from) {
            let after = Duration::from_millis(say.after_ms.into()).min(SAY_AGAIN);
            self.local.promising.is_wanted(now + after);
        }
    }

    /// The leader says what came of something that this host asked for.
    pub(crate) fn handle_promised(&mut self, now: Instant, from: HostId, promised: Promised) {
        let Promised { number, outcome } = promised;
        if self.leader() != Some(from) {
            // It led a moment ago. Whoever leads now was or will be told.
            return;
        }
        let outcome = outcome.map_err(|mut fault| {
            fault.cut();
            fault
        });
        match self.local.promising.answered(number, outcome) {
            Said::Nothing => {}
            Said::Reserve(own) => self.reserve_own(own.of, own),
            Said::Refused(wire, fault) => self.promise_refused(wire, fault),
            Said::Again(again) => self.ask_leader(now, Message::Again(again)),
            Said::Gone(wire) => self.promise_gone(wire),
        }
    }

    /// A host asks for a promise.
    pub(crate) fn handle_promise(&mut self, now: Instant, from: HostId, promise: Promise) {
        if promise.host != from || promise.task.host() != from {
            self.malformed += 1;
        } else if self.leads() {
            let waiting = Waiting::Promise(from, promise.number);
            self.propose_for(now, Command::Promise(promise), waiting);
        }
    }

    /// A host has one that this one, which leads, does not know of.
    pub(crate) fn handle_again(&mut self, now: Instant, from: HostId, again: Again) {
        let Promise { host, task, .. } = again.promise;
        let absurd = |hop: &KeptHop| {
            hop.budget_ns > INTERVAL_NS_MAX || hop.at_ns.iter().any(|at| *at > INTERVAL_NS_MAX)
        };
        let hops = &again.hops;
        if host != from || task.host() != from || hops.len() > HOPS_MAX || hops.iter().any(absurd) {
            self.malformed += 1;
        } else if self.leads() {
            self.propose_for(now, Command::Again(again), Waiting::Holds(from));
        }
    }

    /// A host has no use for one any more.
    pub(crate) fn handle_release(&mut self, now: Instant, from: HostId, release: Release) {
        if release.host != from {
            self.malformed += 1;
        } else if self.knows_network() {
            self.propose_for(now, Command::Release(release), Waiting::Holds(from));
        }
    }

    /// A host says which it has.
    pub(crate) fn handle_holds(&mut self, now: Instant, from: HostId, holds: Holds) {
        if holds.host != from || holds.numbers.len() > HELD_MAX {
            self.malformed += 1;
        } else if self.knows_network() {
            self.propose_for(now, Command::Holds(holds), Waiting::Holds(from));
        }
    }

    /// What a host said of its promises was not decided: it is to say it all again.
    pub(crate) fn holds_dropped(&mut self, now: Instant, host: HostId) {
        let after_ms = SAY_AGAIN.as_millis() as u32;
        self.tell(now, host, Message::SayHolds(SayHolds { after_ms }));
    }

    fn knows_network(&self) -> bool {
        let log = self.log.as_ref().filter(|_| self.leads());
        log.is_some_and(|log| log.promises().topology().is_some())
    }

    /// A host hears what was decided.
    pub(crate) fn tell_promised(
        &mut self,
        now: Instant,
        host: HostId,
        number: u64,
        outcome: Result<Granted, Fault>,
    ) {
        self.tell(now, host, Message::Promised(Promised { number, outcome }));
    }

    /// This host leads, in a term that it did not lead in before: it looks after what is promised.
    fn begin_promising(&mut self, now: Instant) -> bool {
        let Some(log) = self.log.as_ref().filter(|_| self.leads()) else { return false };
        let (term, _) = log.snapshot().place();
        if self.lead.recovery.is_some() || self.lead.promises_in.replace(term) == Some(term) {
            return false;
        }
        self.look_for_orphans(now, None);
        self.ask_unsure(now)
    }

    /// Hosts that are gone, whose promises count on for a while (leader only): the table changed.
    /// `ended`: of that one it is known that it sends nothing any more. All others send on until
    /// they have heard of nobody who leads for [`HOLD`].
    pub(crate) fn look_for_orphans(&mut self, now: Instant, ended: Option<HostId>) {
        let Some(log) = self.log.as_ref().filter(|_| self.leads()) else { return };
        let orphans = log.promises().orphans(log.table());
        let due = |(host, longest)| {
            let known = self.lead.orphans.get(&host).copied();
            let hold = if ended == Some(host) { Duration::ZERO } else { HOLD + SAY_AGAIN };
            (host, known.unwrap_or(now + hold + longest + LATE))
        };
        self.lead.orphans = orphans.into_iter().map(due).collect();
    }

    /// Their time is over; and whoever has not said what it has is asked again.
    fn settle_orphans(&mut self, now: Instant) {
        if self.lead.say_at.is_some_and(|at| at <= now) {
            self.ask_unsure(now);
        }
        let due = |(_, at): &(&HostId, &Instant)| **at <= now;
        let over: Vec<HostId> =
            self.lead.orphans.iter().filter(due).map(|(host, _)| *host).collect();
        if over.is_empty() {
            return;
        }
        // Until that is decided.
        self.lead.orphans.extend(over.iter().map(|host| (*host, now + SAY_AGAIN)));
        if !self.leads() {
            self.lead.orphans.clear();
            return;
        }
        self.propose(now, Command::FreeOrphans(over));
        self.look_for_orphans(now, None);
    }

    /// Hosts that may have what this one does not know of are asked for it.
    pub(crate) fn ask_unsure(&mut self, now: Instant) -> bool {
        self.lead.say_at = None;
        let Some(log) = self.log.as_ref().filter(|_| self.leads()) else { return false };
        let unsure: Vec<HostId> = log.promises().unsure().collect();
        if unsure.is_empty() {
            self.lead.unsure_since = None;
            return false;
        }
        self.lead.say_at = Some(now + SAY_AGAIN);
        // One that is in contact has answered by then, and one that is not has given it up.
        let since = *self.lead.unsure_since.get_or_insert(now);
        if now > since + HOLD + RESERVE_MAX + SAY_AGAIN {
            self.lead.unsure_since = None;
            self.propose(now, Command::FreeOrphans(unsure));
            return true;
        }
        for host in unsure {
            if self.is_up(host) {
                self.tell(now, host, Message::SayHolds(SayHolds { after_ms: 0 }));
            }
        }
        true
    }

    /// Says what the network is, for promises; nothing: that nothing is known of it. Whether that
    /// is so now, [`NodeEvent::Network`] of the same number says. False where this host does not
    /// lead, or the text is too long.
    pub fn set_network(
        &mut self,
        now: Instant,
        number: u64,
        text: String,
        memory: &mut dyn Memory,
    ) -> bool {
        if !self.leads() || text.len() > TOPOLOGY_MAX {
            return false;
        }
        self.propose_for(now, Command::Network(text), Waiting::Network(number));
        self.pump(now, memory);
        true
    }

    /// What it is, and what is promised there, as far as this host keeps the log.
    pub fn promised(&self) -> Option<&Promises> {
        let own = self.log.as_ref().filter(|_| self.leads());
        let kept = self.voting.voter.as_ref().map(|voter| voter.state());
        own.or(kept.filter(|state| state.snapshot().index > 0)).map(ControlState::promises)
    }

    /// The owner hears whether the network is what it said.
    pub(crate) fn network_decided(
        &mut self,
        now: Instant,
        number: u64,
        outcome: Result<(), String>,
    ) {
        if outcome.is_ok() {
            self.look_for_orphans(now, None);
            self.ask_unsure(now);
        }
        self.events.push_back(NodeEvent::Network { number, outcome });
    }

    /// What was promised is not any more: a channel that stands goes on without.
    fn promise_gone(&mut self, wire: Wire) {
        let carrier = self.local.channels.carriers.get(&wire);
        if carrier.is_some_and(|carrier| carrier.unsaid) {
            let why = "what had been promised is not known any more".into();
            return self.promise_refused(wire, Fault::NotReserved(why));
        }
        self.end_reservation(wire);
    }

    fn promise_refused(&mut self, wire: Wire, fault: Fault) {
        self.end_reservation(wire);
        self.reservation_refused(wire, fault);
    }
}

/// When the promises of hosts that are gone are over.
pub(crate) type Orphans = BTreeMap<HostId, Instant>;
