//! Two hosts that cannot reach each other: the leader hears of it, and neither is lost for it.

use alloc::vec::Vec;

use towpath_vm::message::Unreachable;
use towpath_vm::{HostState, Message};
use towpath_wire::{HostId, Instant};

use super::Node;

/// Pairs that the owner is shown at most.
const SEEN_MAX: usize = 1024;

impl Node {
    pub(crate) fn is_up(&self, host: HostId) -> bool {
        let entry = self.log.as_ref().and_then(|l| l.table().get(host));
        entry.is_some_and(|h| h.state == HostState::Up)
    }

    /// Pairs of hosts that cannot reach each other, as those that follow this leader say: the first
    /// ones, where there are many.
    pub(crate) fn apart(&self) -> Vec<(HostId, HostId)> {
        self.lead.broken.apart().into_iter().take(SEEN_MAX).collect()
    }

    /// We lost the connection to a host that does not lead: the leader is to know, and we try to
    /// have another.
    pub(crate) fn tell_unreachable(&mut self, now: Instant, host: HostId) {
        let Some(leader) = self.leader() else { return };
        if self.is_up(host) && !self.standing.frozen && self.peers.up(leader).is_some() {
            let wait = self.lead.broken.cannot_reach(host);
            self.falls_silent(host);
            self.tell(now, leader, Message::Unreachable(Unreachable { host }));
            self.peers.try_at(now, host, now + wait);
        }
    }

    /// The leader, which was out of contact, has forgotten what it heard of us: whom we reach by
    /// now, we may have told it in vain.
    pub(crate) fn tell_unreachable_again(&mut self, now: Instant) {
        for host in self.lead.broken.unreached().collect::<Vec<_>>() {
            if self.peers.up(host).is_none() {
                self.tell_unreachable(now, host);
            }
        }
    }

    /// A connection to a host stands: the leader is to know, if it heard otherwise.
    pub(crate) fn tell_reached(&mut self, now: Instant, host: HostId) {
        if !self.lead.broken.reaches(host) {
            return;
        }
        self.is_heard_again(host);
        if let Some(leader) = self.leader() {
            self.tell(now, leader, Message::Reached(Unreachable { host }));
        }
    }

    /// `from` cannot reach `host`.
    pub(crate) fn handle_unreachable(&mut self, now: Instant, from: HostId, host: HostId) {
        if !self.leads() {
            self.malformed += u64::from(self.was_never_shared());
            return;
        }
        if from == host || self.me == Some(host) || !self.is_up(host) || !self.is_up(from) {
            return;
        }
        self.lead.broken.parts(from, host);
        // It may be dead, which the leader finds out by asking.
        match self.peers.up(host) {
            Some(id) => self.endpoint.ask(now, id, None),
            None => self.ensure_connection(now, host),
        }
    }

    /// `from` reaches `host` again: what was under way between them both have given up.
    pub(crate) fn handle_reached(&mut self, now: Instant, from: HostId, host: HostId) {
        if !self.leads() {
            self.malformed += u64::from(self.was_never_shared());
            return;
        }
        self.lead.broken.joins(from, host);
        self.is_reached_by_another(now, from, host);
    }
}
