//! One connection per host, made on first use; what waits for it meanwhile.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::{AssociationId, Block, Endpoint, HostKey, Memory, SendError};
use towpath_vm::Message;
use towpath_vm::talk::Fault;
use towpath_wire::{ChannelId, HostId, Instant};

use crate::copies::Copies;
use crate::lanes::{Lanes, Outbox, Purpose};
use crate::marked::{Buffers, Marked};
use crate::paths::Offers;

/// Bytes of messages that wait for a peer at most, tasks' data aside: one that lets so much gather
/// does not read any more.
pub(crate) const OUTBOX_MAX: u64 = 256 << 20;
/// At so many, tasks are not listened to who would add to it ...
pub(crate) const TALK_MAX: u64 = 8 << 20;
/// ... and at so many, questions from there are turned away, and nothing is spawned there.
pub(crate) const ANSWERS_MAX: u64 = 64 << 20;
/// Words for a connection that wait because its peer does not read: opens beyond are refused.
pub(crate) const ALONG_MAX: usize = 16_384;
/// After how long what found no memory, or no peer yet, is tried again.
pub(crate) const RETRY_EVERY: Duration = Duration::from_millis(50);

/// Where the connection to a peer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contact {
    None,
    /// We try, since `since`.
    Connecting {
        id: AssociationId,
        since: Instant,
    },
    /// It tries (again, or goes first); our own next try is in `retries`.
    Waiting {
        since: Instant,
    },
    Up(AssociationId),
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) contact: Contact,
    pub(crate) outbox: Outbox,
    /// Which of its addresses is tried: nobody answered at so many.
    pub(crate) tries: usize,
}

/// An established association: whose it is and its channels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conn {
    /// `None` while the peer is the leader that has not welcomed us yet.
    pub(crate) host: Option<HostId>,
    /// Under which key the peer came.
    pub(crate) key: Option<HostKey>,
    /// Which daemon it is, if it has said so.
    pub(crate) life: u64,
    pub(crate) lanes: Lanes,
    /// The host has not been told yet who it is: until that has arrived, nothing else may, and
    /// channels do not wait for each other.
    pub(crate) greets: bool,
    /// It goes on under the id of a life that is over, to be asked who leads: what it says of its
    /// present tasks is for when that is known.
    pub(crate) asked_only: bool,
    /// What is to be said on this connection or not at all, [`ALONG_MAX`] at most.
    along: VecDeque<Message>,
    /// Bytes of blocks of tasks' data that the transport has.
    pub(crate) in_flight: u64,
}

/// Invariant: `Contact::Up(id)` of a peer and `conns[id].host` name each other.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    pub(crate) by_host: BTreeMap<HostId, Peer>,
    pub(crate) conns: BTreeMap<AssociationId, Conn>,
    pub(crate) retries: BTreeSet<(Instant, HostId)>,
    /// Peers whose outbox may have something to send, or that may have to be watched or not.
    pub(crate) dirty: Marked,
    /// Room for the next such set, and for messages of our own.
    pub(crate) looked_at: Marked,
    pub(crate) buffers: Buffers,
    /// Blocks of pieces that nobody wants any more.
    pub(crate) freed: Vec<Block>,
    /// Peers that broke the rules: their connections are to end.
    pub(crate) faulty: BTreeSet<HostId>,
    /// Messages dropped because they are longer than a peer takes.
    pub(crate) too_long: u64,
    /// Messages and channels that nobody here asked for.
    pub(crate) unserved: u64,
    /// Bytes of blocks that went with the associations that had them.
    pub(crate) gone: u64,
    /// How often a connection came to stand, or was forgotten.
    pub(crate) turned: u64,
    pub(crate) offers: Offers,
    pub(crate) copies: Copies,
}

impl Conn {
    /// One that has come to stand under a key.
    pub(crate) fn under(key: HostKey, life: u64) -> Self {
        Self { key: Some(key), life, ..Self::default() }
    }

    /// Hands what is to be said along to the transport; true: there was no memory for it. What
    /// finds no room there comes with the next message that has arrived; what is too long for the
    /// channel is counted and dropped.
    pub(crate) fn say_along(
        &mut self,
        now: Instant,
        id: AssociationId,
        endpoint: &mut Endpoint,
        too_long: &mut u64,
        memory: &mut dyn Memory,
    ) -> bool {
        // The peer may still have to open it.
        let Some(channel) = self.lanes.channel(Purpose::Control) else { return false };
        if self.greets {
            return false;
        }
        while let Some(message) = self.along.front() {
            let bytes = message.encode();
            let Some(block) = memory.put(&bytes) else { return true };
            match endpoint.send(id, channel, block, bytes.len() as u32) {
                Ok(number) => self.lanes.sent(Purpose::Control, number, now),
                Err(why) => {
                    memory.release(block);
                    if !matches!(why, SendError::TooLong { .. }) {
                        return false;
                    }
                    *too_long += 1;
                }
            }
            self.along.pop_front();
        }
        false
    }
}

impl Peers {
    pub(crate) fn up(&self, host: HostId) -> Option<AssociationId> {
        match self.by_host.get(&host)?.contact {
            Contact::Up(id) => Some(id),
            _ => None,
        }
    }

    /// Whose an association is, where that is known.
    pub(crate) fn host_of(&self, id: AssociationId) -> Option<HostId> {
        self.conns.get(&id)?.host
    }

    pub(crate) fn associations(&self) -> Vec<AssociationId> {
        self.conns.keys().copied().collect()
    }

    pub(crate) fn hosts(&self) -> Vec<HostId> {
        self.by_host.keys().copied().collect()
    }

    /// Nobody answered at an address of a host, which has `count`: whether another is left.
    pub(crate) fn next_try(&mut self, host: HostId, count: usize) -> bool {
        let tries = &mut self.entry(host).tries;
        *tries = if *tries + 1 < count { *tries + 1 } else { 0 };
        *tries > 0
    }

    /// Whether some peer is to be looked at.
    pub(crate) fn any_dirty(&self) -> bool {
        self.dirty.nth(0).is_some()
    }

    /// Has every peer looked at again.
    pub(crate) fn all_dirty(&mut self) {
        self.dirty.extend(self.by_host.keys().copied());
    }

    /// Has one looked at again, if there is a connection to it.
    pub(crate) fn look_at(&mut self, host: HostId) {
        if self.by_host.contains_key(&host) {
            self.dirty.insert(host);
        }
    }

    pub(crate) fn entry(&mut self, host: HostId) -> &mut Peer {
        self.by_host.entry(host).or_insert_with(|| Peer {
            contact: Contact::None,
            outbox: Outbox::default(),
            tries: 0,
        })
    }

    pub(crate) fn waiting(&self, host: HostId) -> u64 {
        self.by_host.get(&host).map_or(0, |p| p.outbox.bytes())
    }

    /// Whether a task may add to what waits for `host`.
    pub(crate) fn has_room(&self, host: HostId) -> bool {
        self.waiting(host) < TALK_MAX
    }

    /// A host that has no room.
    pub(crate) fn crowded(&self) -> Option<HostId> {
        self.by_host.keys().copied().find(|host| !self.has_room(*host))
    }

    /// Why `host` can be sent neither answers nor spawns, if it cannot.
    pub(crate) fn glut(&self, host: HostId) -> Result<(), Fault> {
        if self.waiting(host) < ANSWERS_MAX {
            return Ok(());
        }
        Err(Fault::Limit { what: alloc::format!("bytes that wait for {host}"), limit: ANSWERS_MAX })
    }

    /// Whether a host is in contact, and not under this key.
    pub(crate) fn is_under_another(&self, host: HostId, key: HostKey) -> bool {
        let conn = self.up(host).and_then(|id| self.conns.get(&id));
        conn.is_some_and(|conn| conn.key.is_some_and(|its| its != key))
    }

    /// Puts an established association in place; returns the one that it replaces.
    pub(crate) fn set_up(&mut self, host: HostId, id: AssociationId) -> Option<AssociationId> {
        self.conns.entry(id).or_default().host = Some(host);
        let peer = self.entry(host);
        peer.tries = 0;
        let before = core::mem::replace(&mut peer.contact, Contact::Up(id));
        self.dirty.insert(host);
        self.turned += 1;
        match before {
            Contact::Up(old) if old != id => Some(old),
            _ => None,
        }
    }

    /// Has a host without a connection called at `at`, unless it calls before.
    pub(crate) fn try_at(&mut self, now: Instant, host: HostId, at: Instant) {
        let peer = self.entry(host);
        if peer.contact == Contact::None {
            peer.contact = Contact::Waiting { since: now };
            self.retries.insert((at, host));
        }
    }

    /// A host goes on under another id: its connection, and what waits for it, is that one's.
    pub(crate) fn rename(&mut self, from: HostId, to: HostId) {
        let Some(peer) = self.by_host.remove(&from) else { return };
        if let Contact::Up(id) = peer.contact
            && let Some(conn) = self.conns.get_mut(&id)
        {
            conn.host = Some(to);
            conn.asked_only = false;
        }
        self.retries.retain(|(_, h)| *h != from);
        self.dirty.remove(from);
        self.dirty.insert(to);
        self.by_host.insert(to, peer);
    }

    /// Forgets a peer; returns its association, if it had one.
    pub(crate) fn remove(&mut self, host: HostId) -> Option<AssociationId> {
        self.retries.retain(|(_, h)| *h != host);
        self.dirty.remove(host);
        let mut peer = self.by_host.remove(&host)?;
        self.freed.extend(peer.outbox.clear());
        match peer.contact {
            Contact::Up(id) | Contact::Connecting { id, .. } => {
                self.forget(id);
                Some(id)
            }
            _ => None,
        }
    }

    /// Forgets an association, which releases what it has; whose it was, if that was known.
    pub(crate) fn forget(&mut self, id: AssociationId) -> Option<HostId> {
        let conn = self.conns.remove(&id)?;
        self.offers.forget(id);
        self.turned += 1;
        self.gone += conn.in_flight;
        conn.host
    }

    /// The transport has a block of a task's.
    pub(crate) fn departs(&mut self, id: AssociationId, cost: u64) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.in_flight += cost;
        }
    }

    /// It has it no more.
    pub(crate) fn arrived(&mut self, id: AssociationId, cost: u64) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.in_flight -= cost;
        }
    }

    /// A host that is new on a connection is told who it is, or who leads, before anything else.
    pub(crate) fn greets(&mut self, id: AssociationId) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.greets = true;
        }
    }

    /// The channels of a connection.
    pub(crate) fn lanes(&self, id: AssociationId) -> Option<&Lanes> {
        self.conns.get(&id).map(|conn| &conn.lanes)
    }

    /// A channel that every two hosts have stands.
    pub(crate) fn lane_stands(&mut self, id: AssociationId, purpose: Purpose, channel: ChannelId) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.lanes.stands(purpose, channel);
            self.dirty.extend(conn.host);
        }
    }

    /// Has something said on a connection or, where that ends before, not at all; false: too much
    /// waits for it already.
    pub(crate) fn say_along(&mut self, id: AssociationId, message: Message) -> bool {
        let Some(conn) = self.conns.get_mut(&id) else { return false };
        let fits = conn.along.len() < ALONG_MAX;
        if fits {
            conn.along.push_back(message);
            self.dirty.extend(conn.host);
        }
        fits
    }

    /// Drops what waits for a peer that goes on under another association: neither side goes on
    /// with what it was about.
    pub(crate) fn drop_waiting(&mut self, host: HostId) {
        if let Some(peer) = self.by_host.get_mut(&host) {
            self.freed.extend(peer.outbox.clear());
        }
    }
}
