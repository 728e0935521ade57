//! Messages as they arrive on connections: whom each is for, and what becomes of those that are for
//! nobody.

use towpath_proto::{AssociationId, Block, Memory};
use towpath_vm::message::{LABEL_CHANNEL, LABEL_LOG, LABEL_OWNER};
use towpath_vm::{Message, MessageError};
use towpath_wire::bytes::ParseError;
use towpath_wire::frame::{ChannelOpen, Direction, Reliability};
use towpath_wire::talk::FRAME_BODY_MAX;
use towpath_wire::{ChannelId, HostId, Instant};

use super::Node;
use crate::config::reason;
use crate::event::NodeEvent;
use crate::lanes::Purpose;

impl Node {
    /// A message has arrived. False: the owner is to have it.
    pub(crate) fn handle_arrival(
        &mut self,
        now: Instant,
        (id, channel): (AssociationId, ChannelId),
        label: u16,
        (block, len): (Block, u32),
        memory: &mut dyn Memory,
    ) -> bool {
        self.data.arriving.over_with(block);
        let (host, asked_only) = self.heard(id);
        // What would not fit into a frame for a task is not even looked at.
        let fits = len as usize <= FRAME_BODY_MAX;
        match (Purpose::of(label), host) {
            _ if label == LABEL_CHANNEL => {
                self.handle_on_channel((id, channel), block, len, memory);
            }
            (Some(purpose), _) if purpose.is_data() && asked_only => {
                self.drop_message((id, channel), block, len, memory);
            }
            (Some(purpose), Some(host)) if purpose.is_data() && fits => {
                self.handle_data(now, host, (id, channel), block, memory);
                self.peers.look_at(host);
            }
            (purpose, _) if label < LABEL_OWNER => {
                let control = fits && purpose.is_some_and(|p| !p.is_data());
                let decoded = control.then(|| Message::decode(memory.bytes(block)));
                self.drop_message((id, channel), block, len, memory);
                match decoded {
                    Some(Ok(message)) if message.label() == label => {
                        let of_log = label == LABEL_LOG || matches!(message, Message::Report(_));
                        if of_log || !asked_only {
                            self.receive(now, id, message);
                        }
                    }
                    Some(Err(MessageError::Refused(_, why))) => self.refuse_kind(id, why),
                    // What is being closed may still say something.
                    _ => self.malformed += u64::from(self.peers.conns.contains_key(&id)),
                }
            }
            (_, Some(_)) if self.serves(label) => return false,
            _ => {
                self.peers.unserved += 1;
                self.drop_message((id, channel), block, len, memory);
            }
        }
        true
    }

    /// A daemon says something that must not be passed over, and cannot be read: nothing else that
    /// it says is heard.
    fn refuse_kind(&mut self, id: AssociationId, why: ParseError) {
        self.malformed += 1;
        self.closing.push((id, reason::KIND));
        self.events.push_back(NodeEvent::Unread { host: self.peers.host_of(id), why });
    }

    /// A message of a daemon.
    fn receive(&mut self, now: Instant, id: AssociationId, message: Message) {
        let host = self.peers.host_of(id);
        let later = match &message {
            Message::Report(_)
            | Message::TaskOver(_)
            // Said once: of the life that is over, as whoever says it cannot know yet.
            | Message::ChannelAsk(_)
            | Message::ChannelAnswer(_)
            | Message::ChannelWithdrawn(_) => false,
            _ => self.lead.recovery.is_some(),
        };
        if later || host.is_some_and(|h| self.lead.farewells.contains_key(&h)) {
            return; // whoever was deleted has nothing to say, and whoever asks first hears later
        }
        match (message, host) {
            (Message::Welcome(welcome), None) => self.handle_welcome(now, id, welcome),
            (Message::ChannelAsk(ask), Some(host)) => self.handle_channel_ask(now, host, id, ask),
            (Message::ChannelAnswer(answer), Some(_)) => self.handle_channel_answer(id, answer),
            (Message::ChannelWithdrawn(w), Some(_)) => {
                self.handle_channel_withdrawn(now, id, w.channel);
            }
            (message, Some(host)) => {
                self.handle_message(now, host, message);
                self.peers.look_at(host);
            }
            (_, None) => self.malformed += u64::from(self.peers.conns.contains_key(&id)),
        }
    }

    /// What a daemon says once: beats of those that keep the log, and their answers.
    pub(crate) fn handle_note(&mut self, now: Instant, id: AssociationId, bytes: &[u8]) {
        match (Message::decode(bytes), self.heard(id).0) {
            (Ok(Message::Consensus(said)), Some(from)) if self.lead.recovery.is_none() => {
                self.handle_consensus(now, from, &said, true);
            }
            (Ok(Message::Consensus(_)), _) => {}
            _ => self.malformed += u64::from(self.peers.conns.contains_key(&id)),
        }
    }

    /// Whose an association is, unless that one was deleted and has nothing to say; and whether it
    /// is asked only who leads.
    fn heard(&self, id: AssociationId) -> (Option<HostId>, bool) {
        let Some(conn) = self.peers.conns.get(&id) else { return (None, false) };
        let host = conn.host.filter(|host| !self.lead.farewells.contains_key(host));
        (host, conn.asked_only)
    }

    /// Nobody keeps a message: its block and its credit go back.
    fn drop_message(
        &mut self,
        (id, channel): (AssociationId, ChannelId),
        block: Block,
        len: u32,
        memory: &mut dyn Memory,
    ) {
        memory.release(block);
        self.endpoint.consumed(id, channel, len);
    }

    /// A peer opened one of the channels that every two hosts have. What is no such channel, and
    /// would take nothing of ours or lose its order, is not used.
    pub(crate) fn handle_lane_open(&mut self, id: AssociationId, open: &ChannelOpen) {
        let usable =
            open.direction == Direction::Both && open.reliability == Reliability::ReliableOrdered;
        match Purpose::of(open.label) {
            Some(purpose) if usable => self.peers.lane_stands(id, purpose, open.channel),
            Some(_) => self.malformed += 1,
            None => self.peers.unserved += 1,
        }
    }
}
