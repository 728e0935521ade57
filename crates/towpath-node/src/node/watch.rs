//! Hosts that others watch.

use towpath_proto::{Association, AssociationId, Memory};
use towpath_vm::{Host, Message, Tasks, message};
use towpath_wire::{HostId, Instant};

use super::Node;
use crate::event::NodeEvent;
use crate::lanes::Purpose;

impl Node {
    /// Whether the owner waits for news of hosts: then those that tell them are watched.
    pub fn watch_hosts(&mut self, now: Instant, on: bool, memory: &mut dyn Memory) {
        if self.watch.owner != on {
            self.watch.owner = on;
            self.peers.all_dirty();
            self.pump(now, memory);
        }
    }

    /// Asks every connected host that was quiet for a while whether it is there.
    pub fn ask_hosts(&mut self, now: Instant) {
        for id in self.peers.associations() {
            self.endpoint.ask(now, id, None);
        }
        self.watch.asking_until = Some(now + self.lost_after() * 2);
        self.peers.all_dirty();
    }

    /// Those that were asked have answered, or are silent.
    pub(crate) fn settle_asking(&mut self, now: Instant) {
        if self.watch.asking_until.is_some_and(|until| until <= now) {
            self.watch.asking_until = None;
            self.peers.all_dirty();
        }
    }

    /// Whether a host is the leader, and cannot be reached.
    pub(crate) fn is_out_of_reach(&self, host: HostId) -> bool {
        self.standing.frozen && self.leader() == Some(host) && self.me != Some(host)
    }

    /// Whether something new may be given to a host: not to one that leaves everything unanswered,
    /// or is called in vain, nor to one that is to be taken out. What was given to it before goes
    /// on, or waits.
    pub(crate) fn takes_new(&self, host: HostId) -> bool {
        let entry = self.log.as_ref().and_then(|log| log.table().get(host));
        !entry.is_some_and(Host::drains)
            && !self.is_out_of_reach(host)
            && !self.watch.silent.contains(&host)
    }

    /// Hosts that are up, as far as this one knows, and from which it hears nothing although it
    /// asks, or which it calls in vain while others reach them. Nothing ends because of that.
    pub fn silent(&self) -> impl Iterator<Item = HostId> + '_ {
        self.watch.silent.iter().copied().filter(|host| self.is_up(*host))
    }

    /// A host leaves everything unanswered, or is called in vain.
    pub(crate) fn falls_silent(&mut self, host: HostId) {
        if self.is_up(host) && self.watch.silent.insert(host) {
            self.events.push_back(NodeEvent::HostSilent(host));
        }
    }

    /// It is heard again.
    pub(crate) fn is_heard_again(&mut self, host: HostId) {
        if self.watch.silent.remove(&host) && self.is_up(host) {
            self.events.push_back(NodeEvent::HostHeard(host));
        }
    }

    /// Whether the host table has this host.
    pub fn is_listed(&self) -> bool {
        self.me.is_some_and(|me| self.hosts().any(|h| h.id == me))
    }

    /// Of hosts that were taken for silent, or for out of reach, those that are there are told as
    /// heard, and the others called.
    pub(crate) fn look_at_silent(&mut self, now: Instant) {
        for host in self.watch.silent.clone() {
            match self.peers.up(host).and_then(|id| self.endpoint.association(id)) {
                Some(up) if up.is_silent(now) => {}
                Some(_) => self.is_heard_again(host),
                None => self.ensure_connection(now, host),
            }
        }
    }

    /// Something here waits for what only hosts that are up can give.
    fn waits(&self) -> bool {
        self.watch.owner
            || !self.requests.is_empty()
            || !self.local.questions.is_empty()
            || !self.local.members.is_empty()
    }

    /// If the first thing came, or the last one went, that waits here for news of hosts, those who
    /// tell them are looked at again.
    pub(crate) fn waiting_changed(&mut self) {
        let waits = self.waits();
        if core::mem::replace(&mut self.watch.waited, waits) != waits {
            self.peers.all_dirty();
        }
    }

    /// Whether something depends on `host`, to which `id` leads.
    fn depends_on(&self, host: HostId, id: AssociationId) -> bool {
        let Some(log) = &self.log else { return true };
        let news = if self.leads() {
            self.waits() || !self.watch.others.is_empty()
        } else {
            host == log.leader() && self.waits()
        };
        let channels = || self.endpoint.association(id).map_or(0, Association::channels);
        // Of those that keep the log, whoever leads watches all, and is watched.
        let near = |follows| self.me == Some(follows) || host == follows;
        let voter = self.voting.voter.as_ref();
        let votes = || voter.is_some_and(|v| v.has(host) && v.follows().is_none_or(near));
        news || self.watch.asking_until.is_some()
            || votes()
            || channels() > Purpose::ALL.len()
            || self.requests.any_on(host)
            || self.local.ties.any_on(host)
            || self.data.relays.any_for(host)
            || self.local.questions.any_of(host)
            || self.local.questions.queries.values().any(|q| q.host == host)
            || self.tasks.as_ref().is_some_and(|t: &Tasks| t.any_for(host))
    }

    /// Watches `host` if something depends on it.
    pub(crate) fn settle_watch(&mut self, now: Instant, host: HostId) {
        if let Some(id) = self.peers.up(host) {
            let on = self.depends_on(host, id);
            self.endpoint.watch(now, id, on);
        }
    }

    /// Only the leader declares hosts lost: tells it when somebody here waits for that, and when
    /// nobody does any more.
    pub(crate) fn tell_leader(&mut self, now: Instant) {
        let Some(leader) = self.leader().filter(|l| self.me != Some(*l)) else { return };
        let Some(up) = self.peers.up(leader) else { return };
        let (on, told) = (self.waits(), self.watch.told == Some(up));
        if on != told {
            self.watch.told = on.then_some(up);
            self.tell(now, leader, Message::Watch(message::Watch { on }));
        }
    }

    /// A host says whether somebody there waits for news of hosts.
    pub(crate) fn handle_watch(&mut self, from: HostId, on: bool) {
        let before = self.watch.others.is_empty();
        if on {
            self.watch.others.insert(from);
        } else {
            self.watch.others.remove(&from);
        }
        if self.watch.others.is_empty() != before {
            self.peers.all_dirty();
        }
    }
}
