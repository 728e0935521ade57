//! What a leader does about two hosts that lost each other.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use towpath_vm::message::Unreachable;
use towpath_vm::{HostState, Message};
use towpath_wire::{HostId, Instant};

use super::Node;
use super::standing::RETRY_LEADER;
use crate::broken::{Look, pair};
/// How long the leader waits at least.
const WAIT: Duration = Duration::from_secs(5);
/// Beside `lost_after`, in times of `silent_after`: longer than it takes to find that a silent host
/// is dead, which may be a quarter of that late, and than that host has to come back.
const WAIT_FOR: u32 = 3;

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
            // For as long as the leader may wait: one that was away longer is there again.
            let wait = if first { Duration::ZERO } else { RETRY_LEADER };
            self.peers.try_at(now, host, now + wait);
        }
    }

    /// The leader, which was out of contact, has forgotten what it heard of us: whom we reach by
    /// now, we may have told it in vain.
    pub(crate) fn tell_unreachable_again(&mut self, now: Instant) {
        for host in self.lead.broken.told.clone() {
            self.tell_unreachable(now, host);
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

    /// How long two that lost each other have to find each other again.
    fn mend_within(&self) -> Duration {
        WAIT.max(self.lost_after() + self.silent_after() * WAIT_FOR)
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
        let at = now + self.mend_within();
        self.lead.broken.between.entry((from, host)).or_insert(Look { at, asked: None });
        self.lead.broken.arm();
        match self.peers.up(host) {
            Some(id) => self.endpoint.ask(now, id),
            None => self.ensure_connection(now, host),
        }
    }

    /// `from` reaches `host` again: what was under way between them both have given up.
    pub(crate) fn handle_reached(&mut self, now: Instant, from: HostId, host: HostId) {
        if !self.leads() {
            self.malformed += u64::from(self.was_never_shared());
            return;
        }
        self.lead.broken.between.retain(|(a, b), _| pair(*a, *b) != pair(from, host));
        self.lead.broken.arm();
        self.is_reached_by_another(now, from, host);
    }

    /// `from` was out of contact: whom it cannot reach, it says anew.
    pub(crate) fn forget_unreachable(&mut self, from: HostId) {
        self.lead.broken.between.retain(|(by, _), _| *by != from);
        self.lead.broken.arm();
    }

    /// Declares hosts lost until no two that are up have a connection broken for so long.
    pub(crate) fn settle_broken(&mut self, now: Instant) {
        if self.lead.broken.at.is_none_or(|at| at > now) {
            return;
        }
        let mut between = core::mem::take(&mut self.lead.broken.between);
        between.retain(|(a, b), _| self.is_up(*a) && self.is_up(*b));
        let mut clear: BTreeSet<(HostId, HostId)> = BTreeSet::new();
        let mut ask = false;
        for ((a, b), look) in between.iter_mut().filter(|(_, look)| look.at <= now) {
            // Whoever runs late itself has not heard what there was to hear.
            let late = now.since(look.at) > self.silent_after() / 4;
            let heard = |since| self.was_heard(*a, since) && self.was_heard(*b, since);
            if !late && look.asked.is_some_and(heard) {
                clear.insert(pair(*a, *b));
            } else {
                // A quiet host is asked within a quarter of `silent_after`.
                *look = Look { at: now + self.silent_after() / 2, asked: Some(now) };
                ask = true;
            }
        }
        loop {
            clear.retain(|(a, b)| self.is_up(*a) && self.is_up(*b));
            let mut degree: BTreeMap<HostId, u32> = BTreeMap::new();
            for (a, b) in &clear {
                *degree.entry(*a).or_default() += 1;
                *degree.entry(*b).or_default() += 1;
            }
            // Among equals the one that joined last.
            let worst = degree.into_iter().max_by_key(|(h, n)| (*n, h.incarnation(), h.slot()));
            let Some((host, _)) = worst else { break };
            self.lose(now, host);
            // It is up until that is decided.
            clear.retain(|(a, b)| *a != host && *b != host);
            let again = Look { at: now + self.mend_within(), asked: None };
            for ((a, b), look) in &mut between {
                if *a == host || *b == host {
                    *look = again;
                }
            }
        }
        between.retain(|(a, b), _| self.is_up(*a) && self.is_up(*b));
        self.lead.broken.between = between;
        self.lead.broken.arm();
        if ask {
            self.ask_hosts(now);
        }
    }

    /// Whether a host is in contact with us, and said anything since then.
    fn was_heard(&self, host: HostId, since: Instant) -> bool {
        let up = self.peers.up(host).and_then(|id| self.endpoint.association(id));
        up.is_some_and(|up| up.heard_at() >= since)
    }
}
