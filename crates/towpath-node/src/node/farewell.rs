//! How a deleted host hears of it: by the entry of the log that deletes it, and by nothing else.
//! One that was out of contact at that time is told when it comes back.

use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::{AssociationId, HostKey};
use towpath_vm::message::Entries;
use towpath_vm::{Change, Entry, Message};
use towpath_wire::{HostId, Instant};

use super::Node;
use crate::config::reason;
use crate::hello::{Hello, Purpose};

/// How long a host may take to hear that it was deleted.
const FAREWELL: Duration = Duration::from_secs(1);

impl Node {
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
            self.cut_channels(old);
            self.channels_over(host, old);
            self.closing.push((old, reason::REPLACED));
        }
        self.tell_of_its_end(now, host);
        true
    }
}
