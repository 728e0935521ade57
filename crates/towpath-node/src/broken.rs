//! Two hosts that cannot reach each other while the leader reaches both: one of them has to go,
//! because what was under way between them has an unknown outcome. The two try to reach each other
//! again, and the leader waits for that, and long enough to find a dead host dead by itself; only
//! then does it declare those lost that have most broken connections.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use towpath_vm::message::Unreachable;
use towpath_vm::{HostState, Message};
use towpath_wire::{HostId, Instant};

use crate::node::Node;

/// How long the leader waits: longer than it takes to find that a silent host is dead.
const WAIT: Duration = Duration::from_secs(5);

/// Connections that were said to be broken (the smaller id first), and when they are looked at.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    /// Each with when it has been broken for long enough.
    between: BTreeMap<(HostId, HostId), Instant>,
    pub(crate) at: Option<Instant>,
    /// Hosts that the leader heard of from us that we cannot reach.
    told: BTreeSet<HostId>,
}

impl Broken {
    fn arm(&mut self) {
        self.at = self.between.values().min().copied();
    }
}

fn pair(a: HostId, b: HostId) -> (HostId, HostId) {
    (a.min(b), a.max(b))
}

impl Node {
    pub(crate) fn is_up(&self, host: HostId) -> bool {
        let entry = self.log.as_ref().and_then(|l| l.table().get(host));
        entry.is_some_and(|h| h.state == HostState::Up)
    }

    /// We lost the connection to a host that does not lead: the leader is to know, and we try to
    /// have another.
    pub(crate) fn tell_unreachable(&mut self, now: Instant, host: HostId) {
        let Some(leader) = self.leader() else { return };
        if self.is_up(host) && !self.standing.frozen && self.peers.up(leader).is_some() {
            let first = self.lead.broken.told.insert(host);
            self.tell(now, leader, Message::Unreachable(Unreachable { host }));
            if first {
                self.peers.try_at(now, host, now);
            }
        }
    }

    /// A connection to a host stands: the leader is to know, if it heard otherwise.
    pub(crate) fn tell_reached(&mut self, now: Instant, host: HostId) {
        if self.lead.broken.told.remove(&host)
            && let Some(leader) = self.leader()
        {
            self.tell(now, leader, Message::Reached(Unreachable { host }));
        }
    }

    /// A host is gone, so that nobody has to hear of connections to it.
    pub(crate) fn forget_broken(&mut self, host: HostId) {
        self.lead.broken.told.remove(&host);
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
        self.lead.broken.between.entry(pair(from, host)).or_insert(now + WAIT);
        self.lead.broken.arm();
        match self.peers.up(host) {
            Some(id) => self.endpoint.ask(now, id),
            None => self.ensure_connection(now, host),
        }
    }

    /// `from` reaches `host` again: what was under way between them both have given up.
    pub(crate) fn handle_reached(&mut self, from: HostId, host: HostId) {
        if self.me.is_none() || self.me != self.leader() {
            self.malformed += 1;
            return;
        }
        self.lead.broken.between.remove(&pair(from, host));
        self.lead.broken.arm();
    }

    /// Declares hosts lost until no two that are up have a connection broken for so long.
    pub(crate) fn settle_broken(&mut self, now: Instant) {
        if self.lead.broken.at.is_none_or(|at| at > now) {
            return;
        }
        let mut between: Vec<((HostId, HostId), Instant)> =
            core::mem::take(&mut self.lead.broken.between).into_iter().collect();
        loop {
            between.retain(|((a, b), _)| self.is_up(*a) && self.is_up(*b));
            let mut degree: BTreeMap<HostId, u32> = BTreeMap::new();
            for ((a, b), _) in between.iter().filter(|(_, due)| *due <= now) {
                *degree.entry(*a).or_default() += 1;
                *degree.entry(*b).or_default() += 1;
            }
            // Among equals the one that joined last.
            let worst = degree.into_iter().max_by_key(|(h, n)| (*n, h.incarnation(), h.slot()));
            let Some((host, _)) = worst else { break };
            self.lose(now, host);
        }
        self.lead.broken.between = between.into_iter().collect();
        self.lead.broken.arm();
    }
}
