//! Connections to hosts: made, lost, and what goes by them.

use core::net::SocketAddr;
use core::time::Duration;

use towpath_proto::association::{Association, End};
use towpath_proto::memory::BLOCK_COST;
use towpath_proto::{AssociationEvent, AssociationId, Block, EndpointEvent, HostKey, Memory};
use towpath_vm::message::{LABEL_CHANNEL, LABEL_OWNER};
use towpath_vm::{HostState, Message};
use towpath_wire::{ChannelId, HostId, Instant};

use super::Node;
use crate::config::reason;
use crate::event::NodeEvent;
use crate::hello::{self, Hello};
use crate::lanes::{Purpose, Waiting};
use crate::peers::{Conn, OUTBOX_MAX};
use crate::standing::is_later_life;

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
            EndpointEvent::Incoming { id, key, admission, remote, hello } => {
                self.handle_incoming(now, id, (key, remote), admission, &hello);
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
        let life = Hello::decode(hello, &self.config.build).map_or(0, |hello| hello.life);
        self.peers.conns.insert(id, Conn::under(key, life));
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
        let host = self.log.as_ref().and_then(|l| l.table().by_key(&key.0));
        // A call of ours may be answered by one that was lost meanwhile, and does not know it.
        let asks = self.lead.recovery.is_some();
        let host = host.filter(|h| h.state == HostState::Up || asks).map(|h| h.id);
        let purpose = Hello::decode(hello, &self.config.build).ok().map(|h| h.purpose);
        let theirs = purpose.and_then(hello::Purpose::kept);
        let Some(host) = host else {
            // What it has said before it hears that is nobody's.
            self.peers.forget(id);
            return self.close(now, id, (reason::FENCED, "not in the host table"), memory);
        };
        let host = match purpose {
            Some(hello::Purpose::Member(said)) if self.is_another_by_now(host, said) => said,
            Some(hello::Purpose::Member(said)) if initiator && self.was_not_told(host, said) => {
                self.peers.forget(id);
                self.close(now, id, (reason::FENCED, "declared lost: rejoin first"), memory);
                return self.lose(now, host);
            }
            _ => host,
        };
        let said = match purpose {
            Some(hello::Purpose::Member(said)) => said,
            _ => host,
        };
        if let Some(conn) = self.peers.conns.get_mut(&id) {
            // A founder that asks its members learns from the answer who it is.
            conn.asked_only = is_later_life(said, host) && !asks;
        }
        self.contact_made(now, host, id, memory);
        self.contact_is_back(now, host, id, theirs);
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
            self.peers.drop_waiting(host);
            self.close(now, old, (reason::REPLACED, "replaced"), memory);
            self.channels_over(host, old);
            self.give_up_work(now, host);
        }
        if alone {
            self.is_not_alone_any_more(now);
        }
        self.greet(now, host);
        self.open_unconnected(now, host, id);
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
            AssociationEvent::Noted(bytes) => self.handle_note(now, id, &bytes),
            AssociationEvent::Over(end) => self.handle_over(now, id, &end),
            AssociationEvent::Silent | AssociationEvent::Heard => match self.peers.host_of(id) {
                Some(host) if event == AssociationEvent::Silent => self.falls_silent(host),
                Some(host) => self.is_heard_again(host),
                None => {}
            },
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
        conn.greets &= purpose != Purpose::Log;
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
    pub(crate) fn queued(&self, host: HostId) -> alloc::vec::Vec<Message> {
        let own = |w: &Waiting| match w {
            Waiting::Bytes(bytes) => Message::decode(bytes).ok(),
            _ => None,
        };
        let outbox = self.peers.by_host.get(&host).map(|p| &p.outbox);
        outbox.into_iter().flat_map(crate::lanes::Outbox::iter).filter_map(own).collect()
    }

    /// The address that an association leads to.
    pub(crate) fn remote_of(&self, id: AssociationId) -> Option<SocketAddr> {
        self.endpoint.association(id).map(towpath_proto::Association::remote)
    }
}
