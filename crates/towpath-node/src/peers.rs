//! One connection per host, made on first use; what waits for it meanwhile.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use towpath_proto::association::{Association, End};
use towpath_proto::memory::BLOCK_COST;
use towpath_proto::{
    AssociationEvent, AssociationId, Block, Endpoint, EndpointEvent, HostKey, Memory, SendError,
};
use towpath_vm::Message;
use towpath_vm::message::{LABEL_CHANNEL, LABEL_OWNER};
use towpath_vm::talk::Fault;
use towpath_wire::{ChannelId, HostId, Instant};

use crate::config::reason;
use crate::copies::Copies;
use crate::event::NodeEvent;
use crate::hello::Hello;
use crate::lanes::{Lanes, Outbox, Purpose, Waiting};
use crate::marked::{Buffers, Marked};
use crate::node::Node;
use crate::paths::Offers;

mod flush;

/// Bytes of messages that wait for a peer at most, tasks' data aside: one that lets so much gather
/// does not read any more.
const OUTBOX_MAX: u64 = 256 << 20;
/// At so many, tasks are not listened to who would add to it ...
const TALK_MAX: u64 = 8 << 20;
/// ... and at so many, questions from there are turned away, and nothing is spawned there.
const ANSWERS_MAX: u64 = 64 << 20;
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
    outbox: Outbox,
    /// Which of its addresses is tried: nobody answered at so many.
    pub(crate) tries: usize,
}

/// An established association: whose it is and its channels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conn {
    /// `None` while the peer is the leader that has not welcomed us yet.
    pub(crate) host: Option<HostId>,
    lanes: Lanes,
    /// What is to be said on this connection or not at all, [`ALONG_MAX`] at most.
    along: VecDeque<Message>,
    /// Bytes of blocks of tasks' data that the transport has.
    in_flight: u64,
}

/// Invariant: `Contact::Up(id)` of a peer and `conns[id].host` name each other.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    pub(crate) by_host: BTreeMap<HostId, Peer>,
    conns: BTreeMap<AssociationId, Conn>,
    pub(crate) retries: BTreeSet<(Instant, HostId)>,
    /// Peers whose outbox may have something to send, or that may have to be watched or not.
    dirty: Marked,
    /// Room for the next such set, and for messages of our own.
    looked_at: Marked,
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
    pub(crate) offers: Offers,
    pub(crate) copies: Copies,
}

impl Conn {
    /// Hands what is to be said along to the transport; true: there was no memory for it. What
    /// finds no room there comes with the next message that has arrived; what is too long for the
    /// channel is counted and dropped.
    fn say_along(
        &mut self,
        now: Instant,
        id: AssociationId,
        endpoint: &mut Endpoint,
        too_long: &mut u64,
        memory: &mut dyn Memory,
    ) -> bool {
        // The peer may still have to open it.
        let Some(channel) = self.lanes.channel(Purpose::Control) else { return false };
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

    fn waiting(&self, host: HostId) -> u64 {
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

    /// Puts an established association in place; returns the one that it replaces.
    pub(crate) fn set_up(&mut self, host: HostId, id: AssociationId) -> Option<AssociationId> {
        self.conns.entry(id).or_default().host = Some(host);
        let peer = self.entry(host);
        peer.tries = 0;
        let before = core::mem::replace(&mut peer.contact, Contact::Up(id));
        self.dirty.insert(host);
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
        self.freed.extend(peer.outbox.drop_data());
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

    /// Drops the tasks' data that waits for a peer that goes on under another association.
    fn drop_data(&mut self, host: HostId) {
        if let Some(peer) = self.by_host.get_mut(&host) {
            self.freed.extend(peer.outbox.drop_data());
        }
    }
}

impl Node {
    /// Queues a message for a host; one for ourselves is handled at once.
    pub(crate) fn tell(&mut self, now: Instant, host: HostId, message: Message) {
        if self.me == Some(host) {
            self.handle_message(now, host, message);
            return;
        }
        let Some(purpose) = Purpose::of(message.label()) else { return };
        let Some(bytes) = self.encode(now, message) else { return };
        let outbox = &mut self.peers.entry(host).outbox;
        outbox.push(purpose, Waiting::Bytes(bytes));
        let stuck = outbox.bytes() > OUTBOX_MAX;
        self.peers.dirty.insert(host);
        if stuck {
            self.contact_lost(now, host, reason::STUCK);
        } else {
            self.ensure_connection(now, host);
        }
    }

    /// Queues a piece of a task's message for another host.
    pub(crate) fn queue_data(
        &mut self,
        now: Instant,
        host: HostId,
        purpose: Purpose,
        piece: Waiting,
    ) {
        self.peers.entry(host).outbox.push(purpose, piece);
        self.peers.dirty.insert(host);
        self.ensure_connection(now, host);
    }

    pub(crate) fn handle_endpoint_event(
        &mut self,
        now: Instant,
        event: EndpointEvent,
        memory: &mut dyn Memory,
    ) {
        match event {
            EndpointEvent::Incoming { id, key, admission, hello, .. } => {
                self.handle_incoming(now, id, key, admission, &hello);
            }
            EndpointEvent::Connected { id, key, hello, initiator } => {
                self.handle_connected(now, id, key, &hello, initiator, memory);
            }
            EndpointEvent::ConnectFailed { id, failure, .. } => {
                self.handle_connect_failed(now, id, failure);
            }
            EndpointEvent::Association { id, event } => {
                self.handle_association(now, id, event, memory);
            }
        }
    }

    fn handle_connected(
        &mut self,
        now: Instant,
        id: AssociationId,
        key: HostKey,
        hello: &[u8],
        initiator: bool,
        memory: &mut dyn Memory,
    ) {
        self.peers.conns.insert(id, Conn::default());
        if !initiator {
            self.offer_paths(id);
        }
        if initiator {
            for purpose in Purpose::ALL {
                let channel = self.endpoint.open(id, purpose.opening());
                let conn = self.peers.conns.get_mut(&id);
                if let (Some(channel), Some(conn)) = (channel, conn) {
                    conn.lanes.stands(purpose, channel);
                }
            }
            if self.joining.as_ref().is_some_and(|j| j.id == Some(id)) {
                return; // the leader's welcome tells who it is
            }
        } else if self.say_farewell(now, id, &key, hello) || self.admit(now, id, key, hello) {
            return;
        }
        let host = self.log.as_ref().and_then(|l| l.table().by_key(&key.0)).map(|h| h.id);
        let theirs = Hello::decode(hello, &self.config.build).ok().and_then(|h| h.purpose.kept());
        match host {
            Some(host) => {
                self.contact_made(now, host, id, memory);
                self.contact_is_back(now, host, id, theirs);
            }
            None => self.close(now, id, (reason::FENCED, "not in the host table"), memory),
        }
    }

    /// An association to `host` stands; one that stood before is given up.
    pub(crate) fn contact_made(
        &mut self,
        now: Instant,
        host: HostId,
        id: AssociationId,
        memory: &mut dyn Memory,
    ) {
        let alone = self.is_alone(now);
        if let Some(old) = self.peers.set_up(host, id) {
            // What was under way on it has an unknown outcome: both sides give it up.
            self.peers.forget(old);
            self.cut_channels(old);
            self.peers.drop_data(host);
            self.close(now, old, (reason::REPLACED, "replaced"), memory);
            self.channels_over(host, old);
            self.give_up_work(now, host);
        }
        if alone {
            self.is_not_alone_any_more(now);
        }
        self.greet(now, host);
        self.open_unconnected(host, id);
    }

    /// Tells the owner that its channels on an association are over.
    pub(crate) fn channels_over(&mut self, host: HostId, association: AssociationId) {
        let event = AssociationEvent::Over(End::Closed);
        self.events.push_back(NodeEvent::Channel { host, association, event });
    }

    fn handle_association(
        &mut self,
        now: Instant,
        id: AssociationId,
        event: AssociationEvent,
        memory: &mut dyn Memory,
    ) {
        if let AssociationEvent::Sent { channel, number, block } = event
            && self.handle_sent(now, (id, channel), number, block, memory)
        {
            return;
        }
        let arrived = matches!(event, AssociationEvent::Sent { .. });
        if let AssociationEvent::Message { channel, label, block, len, .. } = event
            && self.handle_arrival(now, (id, channel), label, (block, len), memory)
        {
            return;
        }
        match event {
            AssociationEvent::Opened(open) if open.label == LABEL_CHANNEL => {
                self.handle_channel_open(now, (id, open.channel), *open);
            }
            AssociationEvent::Sent { channel, number, block }
            | AssociationEvent::Abandoned { channel, number, block }
                if self.is_of_task((id, channel)) =>
            {
                self.handle_channel_sent(now, (id, channel), (number, arrived), block, memory);
            }
            AssociationEvent::Ended { channel } if self.is_of_task((id, channel)) => {
                self.handle_channel_ended((id, channel));
            }
            AssociationEvent::Opened(open) if open.label < LABEL_OWNER => {
                self.handle_lane_open(id, &open);
            }
            AssociationEvent::Opened(open) if !self.serves(open.label) => {
                self.peers.unserved += 1;
                self.endpoint.finish_channel(id, open.channel, reason::UNSERVED);
            }
            AssociationEvent::PathOffered { link, remote, .. } => self.offered(id, (link, remote)),
            AssociationEvent::Over(end) => self.handle_over(now, id, &end),
            event => {
                if let Some(host) = self.peers.conns.get(&id).and_then(|c| c.host) {
                    self.peers.dirty.insert(host);
                    self.events.push_back(NodeEvent::Channel { host, association: id, event });
                    return;
                }
                // Whose it is, is not known yet, or not any more.
                match event {
                    AssociationEvent::Sent { block, .. }
                    | AssociationEvent::Abandoned { block, .. } => memory.release(block),
                    AssociationEvent::Opened(open) => {
                        self.endpoint.finish_channel(id, open.channel, reason::UNSERVED);
                    }
                    _ => {}
                }
            }
        }
    }

    /// A message of ours has arrived. False: it went by none of the channels that every two hosts
    /// have.
    fn handle_sent(
        &mut self,
        now: Instant,
        (id, channel): (AssociationId, ChannelId),
        number: u64,
        block: Block,
        memory: &mut dyn Memory,
    ) -> bool {
        let Some(conn) = self.peers.conns.get_mut(&id) else { return false };
        let Some(purpose) = conn.lanes.purpose(channel) else { return false };
        let host = conn.host;
        self.peers.dirty.extend(host);
        let trip = self.endpoint.association(id).map_or(Duration::ZERO, Association::least_trip);
        conn.lanes.settled(purpose, number, now, trip);
        if !purpose.is_data() {
            memory.release(block);
            return true;
        }
        conn.in_flight -= u64::from(memory.len(block)) + BLOCK_COST;
        let task = conn.lanes.arrived(purpose);
        if let Some(host) = host {
            self.data.relays.sent(host, block);
            if let Some(task) = task {
                self.piece_arrived(now, host, task);
            }
        }
        self.sent(block, memory);
        true
    }

    /// Forgets an association; whose it was, if that was known.
    pub(crate) fn forget_conn(&mut self, id: AssociationId) -> Option<HostId> {
        self.cut_channels(id);
        self.peers.forget(id)
    }

    /// What waits for `host` and was not handed to an association.
    #[cfg(test)]
    pub(crate) fn queued(&self, host: HostId) -> Vec<Message> {
        let own = |w: &Waiting| match w {
            Waiting::Bytes(bytes) => Message::decode(bytes).ok(),
            _ => None,
        };
        let outbox = self.peers.by_host.get(&host).map(|p| &p.outbox);
        outbox.into_iter().flat_map(Outbox::iter).filter_map(own).collect()
    }

    /// The address that an association leads to.
    pub(crate) fn remote_of(&self, id: AssociationId) -> Option<SocketAddr> {
        self.endpoint.association(id).map(towpath_proto::Association::remote)
    }
}
