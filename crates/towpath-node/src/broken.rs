//! Two hosts that cannot reach each other while the leader reaches both: one of them has to go,
//! because what was under way between them has an unknown outcome. The leader waits long enough to
//! find a dead host dead by itself, and then declares those lost that have most broken connections.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::message::Unreachable;
use towpath_vm::{HostState, Message};
use towpath_wire::{HostId, Instant};

use crate::config::reason;
use crate::node::Node;

/// How long the leader waits: longer than it takes to find that a silent host is dead.
const WAIT: Duration = Duration::from_secs(5);

/// Connections that were said to be broken (the smaller id first), and when they are looked at.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    between: BTreeSet<(HostId, HostId)>,
    pub(crate) at: Option<Instant>,
}

impl Node {
    fn is_up(&self, host: HostId) -> bool {
        let entry = self.log.as_ref().and_then(|l| l.table().get(host));
        entry.is_some_and(|h| h.state == HostState::Up)
    }

    /// We lost the connection to a host that does not lead: the leader is to know.
    pub(crate) fn tell_unreachable(&mut self, now: Instant, host: HostId) {
        let Some(leader) = self.leader() else { return };
        if self.is_up(host) && !self.leader_lost && self.peers.up(leader).is_some() {
            self.tell(now, leader, Message::Unreachable(Unreachable { host }));
        }
    }

    /// `from` cannot reach `host`.
    pub(crate) fn handle_unreachable(&mut self, now: Instant, from: HostId, host: HostId) {
        if self.me.is_none() || self.me != self.leader() {
            self.malformed += 1;
            return;
        }
        if from == host || self.me == Some(host) || !self.is_up(host) || !self.is_up(from) {
            return;
        }
        self.lead.broken.between.insert((from.min(host), from.max(host)));
        self.lead.broken.at.get_or_insert(now + WAIT);
        match self.peers.up(host) {
            Some(id) => self.endpoint.ask(now, id),
            None => self.ensure_connection(now, host),
        }
    }

    /// Declares hosts lost until no two that are up have a broken connection.
    pub(crate) fn settle_broken(&mut self, now: Instant) {
        if self.lead.broken.at.is_none_or(|at| at > now) {
            return;
        }
        self.lead.broken.at = None;
        let mut between: Vec<(HostId, HostId)> =
            core::mem::take(&mut self.lead.broken.between).into_iter().collect();
        loop {
            between.retain(|(a, b)| self.is_up(*a) && self.is_up(*b));
            let mut degree: BTreeMap<HostId, u32> = BTreeMap::new();
            for (a, b) in &between {
                *degree.entry(*a).or_default() += 1;
                *degree.entry(*b).or_default() += 1;
            }
            // Among equals the one that joined last.
            let worst = degree.into_iter().max_by_key(|(h, n)| (*n, h.incarnation(), h.slot()));
            let Some((host, _)) = worst else { break };
            self.contact_lost(now, host, reason::FENCED);
        }
    }
}
