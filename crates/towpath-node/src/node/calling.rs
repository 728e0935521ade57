//! How hosts are called: when, as whom, and what follows where nobody answers.

use core::time::Duration;

use towpath_proto::{AssociationId, Connect, ConnectFailure, HostKey, Psk};
use towpath_vm::HostState;
use towpath_wire::{Admission, HostId, Instant};

use super::Node;
use super::standing::RETRY_LEADER;
use crate::config::{reason, refusal};
use crate::hello::{Hello, Purpose};
use crate::peers::{Contact, RETRY_EVERY};
use crate::question::KEPT_FOR;
use crate::restore::KeptTo;
use crate::standing::is_later_life;

/// How long a refused connection is tried again: the peer may not have heard of us yet.
const RETRY_FOR: Duration = Duration::from_secs(3);
/// How long we wait for a peer that goes first before we try ourselves.
const YIELD_FOR: Duration = Duration::from_secs(1);

impl Node {
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        let peers = self.peers.retries.first().map(|(at, _)| *at);
        let joining = self.joining.as_ref().and_then(|j| j.retry_at);
        peers.into_iter().chain(joining).min()
    }

    /// Tries again what is due.
    pub(crate) fn handle_retries(&mut self, now: Instant) {
        while let Some((at, host)) = self.peers.retries.first().copied() {
            if at > now {
                break;
            }
            self.peers.retries.remove(&(at, host));
            if let Some(peer) = self.peers.by_host.get_mut(&host)
                && let Contact::Waiting { since } = peer.contact
            {
                self.start_connection(now, host, since);
            }
        }
        self.retry_joining(now);
    }

    pub(crate) fn ensure_connection(&mut self, now: Instant, host: HostId) {
        if self.peers.entry(host).contact == Contact::None {
            self.start_connection(now, host, now);
        }
    }

    fn start_connection(&mut self, now: Instant, host: HostId, since: Instant) {
        let entry = self.log.as_ref().and_then(|l| l.table().get(host));
        let Some(entry) = entry.filter(|h| h.state == HostState::Up) else {
            // Where nobody leads nobody can tell: it is waited for as questions of tasks are.
            let patience = if self.standing.frozen { KEPT_FOR } else { RETRY_FOR };
            if self.is_to_come(host) && now.since(since) < patience {
                self.peers.entry(host).contact = Contact::Waiting { since };
                self.peers.retries.insert((now + RETRY_EVERY, host));
            } else {
                self.contact_lost(now, host, reason::FENCED);
            }
            return;
        };
        let Some(purpose) = self.purpose() else { return };
        let tries = self.peers.by_host.get(&host).map_or(0, |p| p.tries);
        let (addr, key) = (self.addr_to_try(entry, tries), HostKey(entry.key));
        let hello = self.hello(purpose).encode(&self.config.build);
        let connect = Connect {
            link: self.config.links.to(addr),
            remote: addr,
            key,
            admission: Admission::Member,
            psk: Psk::MEMBER,
            hello: &hello,
        };
        match self.endpoint.connect(now, &connect) {
            Ok(id) => self.peers.entry(host).contact = Contact::Connecting { id, since },
            Err(_) => self.contact_lost(now, host, reason::STUCK),
        }
    }

    /// Whoever answered a call to `host` says to be `said`: whether that is a later life of it, of
    /// which the log has yet to tell, and has the connection. What waits for `host` waits for the
    /// log, too. Where nobody is known to lead, one that may know who does is asked as who it was.
    pub(crate) fn is_another_by_now(&mut self, host: HostId, said: HostId) -> bool {
        let may_lead = self.log.as_ref().is_some_and(|log| log.snapshot().voters.contains(&host));
        let asks = may_lead && self.standing.frozen;
        if asks || !is_later_life(said, host) || !self.is_to_come(said) {
            return false;
        }
        if let Some(peer) = self.peers.by_host.get_mut(&host)
            && matches!(peer.contact, Contact::Connecting { .. })
        {
            peer.contact = Contact::None;
        }
        true
    }

    /// Whether whoever answered a call of this leader to `host`, as who it was before, never heard
    /// that it is that one: who let it in was gone before it could be told, and it cannot be let in
    /// again while it is up.
    pub(crate) fn was_not_told(&self, host: HostId, said: HostId) -> bool {
        self.leads() && said.incarnation() < host.incarnation() && !self.is_up(said)
    }

    /// What this host connects to members for; `None` while it is none.
    pub(crate) fn purpose(&self) -> Option<Purpose> {
        if !self.leads() && self.lead.recovery.is_none() {
            return self.me.map(Purpose::Member);
        }
        // A member may know it by the id of an earlier life.
        let snapshot = self.log.as_ref()?.snapshot();
        let (term, index) = snapshot.place();
        Some(Purpose::Lead { id: snapshot.leader, term, index })
    }

    pub(crate) fn hello(&self, purpose: Purpose) -> Hello {
        Hello {
            purpose,
            name: self.config.name.clone(),
            arch: self.config.arch.clone(),
            speed: self.config.speed,
            cpus: self.config.cpus,
            slots: self.config.slots,
            fields: self.own_fields(purpose),
            life: self.config.life,
        }
    }

    /// A peer that may connect to us: leave it the first try if we have nothing going.
    pub(crate) fn await_contact(&mut self, now: Instant, host: HostId) {
        let peer = self.peers.entry(host);
        if matches!(peer.contact, Contact::None | Contact::Connecting { .. }) {
            peer.contact = Contact::Waiting { since: now };
            self.peers.retries.insert((now + YIELD_FOR, host));
        }
    }

    pub(crate) fn handle_connect_failed(
        &mut self,
        now: Instant,
        id: AssociationId,
        failure: ConnectFailure,
    ) {
        if self.joining.as_ref().is_some_and(|j| j.id == Some(id)) {
            self.joining_failed(now, failure);
            return;
        }
        let found = self.peers.by_host.iter().find_map(|(host, p)| match p.contact {
            Contact::Connecting { id: i, since } if i == id => Some((*host, since)),
            _ => None,
        });
        let Some((host, since)) = found else { return };
        if let ConnectFailure::Refused(refusal) = &failure
            && refusal.code == refusal::RETURNING
            && let Some(kept) = KeptTo::parse(&refusal.text)
        {
            self.starts_again(now, host, kept);
        }
        if let ConnectFailure::Refused(refusal) = &failure
            && refusal.code == refusal::COPIED
            && self.runs_elsewhere(now, host, refusal)
        {
            return;
        }
        if let Some(wait) = self.goes_on_trying(now, host, &failure) {
            // It may have been given up with what failed.
            if let Some(peer) = self.peers.by_host.get_mut(&host) {
                peer.contact = Contact::Waiting { since };
                self.peers.retries.insert((now + wait, host));
            }
            return;
        }
        if self.is_fenced_by(host, &failure) {
            self.drop_contact(now, host, reason::FENCED);
            return self.rejoin(now);
        }
        let again = match &failure {
            ConnectFailure::Yielded => Some(YIELD_FOR),
            ConnectFailure::Refused(r) if r.code == refusal::NOT_MEMBER => {
                (now.since(since) < RETRY_FOR).then_some(RETRY_EVERY)
            }
            ConnectFailure::Refused(r) if r.code == refusal::RETURNING => {
                (now.since(since) < RETRY_FOR).then_some(RETRY_LEADER)
            }
            ConnectFailure::NoAnswer => self.next_address(host).then_some(Duration::ZERO),
            _ => None,
        };
        match again {
            Some(wait) => {
                self.peers.entry(host).contact = Contact::Waiting { since };
                self.peers.retries.insert((now + wait, host));
            }
            None => self.contact_lost(now, host, reason::FENCED),
        }
    }

    /// Whether one that may come to lead says that this host, which cannot reach whoever leads, is
    /// lost.
    fn is_fenced_by(&self, host: HostId, failure: &ConnectFailure) -> bool {
        let may_lead = self.log.as_ref().is_some_and(|log| log.snapshot().voters.contains(&host));
        may_lead
            && self.standing.frozen
            && matches!(failure, ConnectFailure::Refused(r) if r.code == refusal::FENCED)
    }

    /// After how long a host is tried again that must not be given up because it does not answer,
    /// or refuses: our leader, and the leader's members before they are declared lost.
    fn goes_on_trying(
        &mut self,
        now: Instant,
        host: HostId,
        failure: &ConnectFailure,
    ) -> Option<Duration> {
        if *failure == ConnectFailure::Yielded {
            return None;
        }
        if self.lead.recovery.is_some() {
            let silent = *failure == ConnectFailure::NoAnswer;
            if !(silent && self.next_address(host)) {
                self.gone_in_recovery(now, host);
                return Some(RETRY_LEADER);
            }
            return Some(Duration::ZERO);
        }
        if self.me.is_some() && self.me != self.leader() && self.leader() == Some(host) {
            return Some(self.leader_failed(now, host, failure));
        }
        if self.lead.suspects.has(host) {
            let next = *failure == ConnectFailure::NoAnswer && self.next_address(host);
            return Some(if next { Duration::ZERO } else { RETRY_LEADER });
        }
        None
    }
}
