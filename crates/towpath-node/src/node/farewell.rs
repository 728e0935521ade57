//! How a deleted host hears of it: by the entry of the log that deletes it, and by nothing else.
//! One that was out of contact at that time is told when it comes back. And how others hear of a
//! host whose engine has ended without a word: from whoever started it, which has the host's key.

use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::association::End;
use towpath_proto::{AssociationId, HostKey};
use towpath_vm::message::Entries;
use towpath_vm::{Change, Entry, Message};
use towpath_wire::{HostId, Instant};

use super::Node;
use crate::config::reason;
use crate::event::{LastWords, NodeEvent};
use crate::hello::{Hello, Purpose};

/// Most hosts that are told of one's end.
const TOLD_MAX: usize = 1000;
/// How long a host may take to hear that it was deleted.
const FAREWELL: Duration = Duration::from_secs(1);

impl Node {
    /// What is to be said for this host where its engine ends without a word of its own, and to
    /// whom: those that may lead before the others, up to a thousand. `None`: it is no host.
    pub fn last_words(&self) -> Option<LastWords> {
        let (me, log) = (self.me?, self.log.as_ref()?);
        let hello = self.hello(Purpose::Ended(me)).encode(&self.config.build);
        let snapshot = log.snapshot();
        let leads = |host: HostId| snapshot.leader == host || snapshot.voters.contains(&host);
        let hosts = || log.table().up().filter(|h| h.id != me);
        let first = hosts().filter(|h| leads(h.id));
        let others = hosts().filter(|h| !leads(h.id) && self.peers.up(h.id).is_some());
        let to = first.chain(others).take(TOLD_MAX);
        Some(LastWords { hello, to: to.map(|h| (self.addr_of(h), h.key)).collect() })
    }

    /// Changes whenever [`Node::last_words`] may.
    pub fn last_words_as_of(&self) -> (u64, u64) {
        (self.log_index(), self.peers.turned)
    }

    /// Whoever started a host's engine says that it has ended without a word of its own. Of another
    /// life than the one that is known here, that is no news.
    pub(crate) fn hear_of_end(&mut self, now: Instant, key: &HostKey, host: HostId) {
        let known = self.log.as_ref().and_then(|log| log.table().by_key(&key.0));
        if known.is_none_or(|h| h.id != host) || !self.is_up(host) || self.me == Some(host) {
            return;
        }
        self.note_ended(host);
        let end = End::ByPeer { reason: reason::ENDED, text: "its engine has ended".into() };
        if self.peers.up(host).is_some() {
            self.events.push_back(NodeEvent::ContactOver { host, end: end.clone() });
        }
        if self.lead.recovery.is_none() {
            self.contact_over(now, host, reason::FENCED, Some(&end));
        }
    }

    /// This host is about to end, and its owner keeps what it needs to come back, or does not. One
    /// that has nothing to keep leaves, unless it was taken out of those that keep the log just
    /// now.
    pub fn comes_back(&mut self, comes_back: bool) {
        let kept = self.keeps() || self.voting.parting.own.kept;
        self.voting.comes_back = Some(comes_back && kept);
    }

    /// What a host that ends closes a connection with.
    pub(crate) fn why_it_goes(&self, id: AssociationId) -> u16 {
        let is_deleted = |host| self.lead.farewells.contains_key(&host);
        // A founder that keeps its table comes back to whoever leads meanwhile.
        let comes_back = self.voting.comes_back.unwrap_or(self.is_founder());
        let another = self.is_shared() || !self.leads();
        let comes_back = comes_back && self.config.keeps_table && another;
        match self.peers.host_of(id).is_some_and(is_deleted) {
            true => reason::SHUTDOWN,
            false if comes_back => reason::ENDED,
            false => reason::LEFT,
        }
    }

    /// A host has ended, and is not lost yet: whoever leads, or comes to, need not ask about it.
    pub(crate) fn note_ended(&mut self, host: HostId) {
        let mut ended = core::mem::take(&mut self.voting.ended);
        ended.retain(|ended| self.is_up(*ended));
        ended.extend(Some(host).filter(|host| self.is_up(*host)));
        self.voting.ended = ended;
    }

    /// Tells a host, to which a connection stands, that it was deleted.
    pub(crate) fn tell_of_its_end(&mut self, now: Instant, host: HostId) {
        let Some(log) = &self.log else { return };
        let (term, index) = log.snapshot().place();
        let entries = [Entry { term, index, change: Change::Left(host) }].into();
        self.tell(now, host, Message::Entries(Entries { entries }));
        self.handle_watch(host, false);
        self.lead.farewells.insert(host, now + FAREWELL);
    }

    /// Closes the connections to those that have heard, or have had time to.
    pub(crate) fn settle_farewells(&mut self, now: Instant) {
        while let Some(host) =
            self.lead.farewells.iter().find(|(_, at)| **at <= now).map(|(host, _)| *host)
        {
            self.lead.farewells.remove(&host);
            self.drop_contact(now, host, reason::SHUTDOWN);
        }
    }

    /// Hosts that were deleted while they were up, and did not say that they end: they may run on.
    /// They are told when they come back, as long as this host remembers them.
    pub fn unheard(&self) -> Vec<HostId> {
        let remembered = |host: &HostId| {
            self.log.as_ref().is_some_and(|log| log.deleted().values().any(|h| h == host))
                || self.lead.proposals.deletes(*host)
        };
        self.lead.unheard.iter().copied().filter(remembered).collect()
    }

    /// Whether somebody who connects was deleted while it was out of contact. A token makes a new
    /// host of it.
    pub(crate) fn is_to_hear_of_its_end(&self, key: &HostKey, purpose: Purpose) -> bool {
        matches!(purpose, Purpose::Member(_) | Purpose::Rejoin)
            && self.log.as_ref().is_some_and(|log| log.deleted().contains_key(&key.0))
    }

    /// Tells it, if so.
    pub(crate) fn say_farewell(
        &mut self,
        now: Instant,
        id: AssociationId,
        key: &HostKey,
        hello: &[u8],
    ) -> bool {
        let purpose = Hello::decode(hello, &self.config.build).map(|h| h.purpose);
        let deleted = self.log.as_ref().and_then(|log| log.deleted().get(&key.0));
        let Some(host) = deleted.copied() else { return false };
        if !purpose.is_ok_and(|p| self.is_to_hear_of_its_end(key, p)) {
            return false;
        }
        if let Some(old) = self.peers.set_up(host, id) {
            // Its end is not that of the new one.
            self.peers.forget(old);
            self.peers.drop_waiting(host);
            self.cut_channels(old);
            self.channels_over(host, old);
            self.closing.push((old, reason::REPLACED));
        }
        self.tell_of_its_end(now, host);
        true
    }
}
