//! What is sent and received on tasks' channels, how they end, and how they stand.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::memory::BLOCK_COST;
use towpath_proto::{Association, AssociationId, Block, Memory};
use towpath_vm::Message;
use towpath_vm::channel::{ChannelStatus, Class, Closed};
use towpath_vm::message::ChannelWithdrawn;
use towpath_vm::talk::{Answer, Fault, ToTask};
use towpath_wire::talk::ChannelFront;
use towpath_wire::{Instant, TaskId};

use super::table::{End, EndId, Line, Wire};
use crate::event::NodeEvent;
use crate::node::Node;

impl Node {
    /// A message came on `task`'s connection, for a channel of its own. False: there is no room for
    /// it now; hand it in again once [`Node::task_budget_left`].
    pub fn task_channel(
        &mut self,
        now: Instant,
        task: TaskId,
        front: ChannelFront,
        payload: &[u8],
        memory: &mut dyn Memory,
    ) -> bool {
        let done = self.send_on_channel(now, task, front, payload, memory);
        self.pump(now, memory);
        done
    }

    fn send_on_channel(
        &mut self,
        now: Instant,
        task: TaskId,
        front: ChannelFront,
        payload: &[u8],
        memory: &mut dyn Memory,
    ) -> bool {
        let id = (task, front.number);
        let budget = self.task_budget_left();
        // It may have been closed while this was under way.
        let Some(end) = self.local.channels.get_mut(id) else { return true };
        let (len, longest) = (payload.len(), end.spec.longest());
        let fault = if !end.open {
            Some("before it stood".into())
        } else if len > longest as usize {
            Some(format!("{len} bytes, limit {longest}"))
        } else {
            None
        };
        if let Some(why) = fault {
            self.cut_off(task, format!("it sent on channel {}: {why}", front.number));
            return true;
        }
        let len = len as u32;
        let left = front.left.or(end.spec.deadline).filter(|_| end.spec.class == Class::Timely);
        let line = end.line;
        let there = matches!(line, Line::There(_));
        let block = if there && !budget { None } else { memory.put(payload) };
        let Some(block) = block else { return false };
        if !end.take_room(len) {
            memory.release(block);
            self.cut_off(task, format!("it sent more on channel {} than it may", front.number));
            return true;
        }
        match line {
            Line::Here(other) if left != Some(Duration::ZERO) => {
                self.data.hold_inside(len);
                self.hand_over(other, block, len, memory);
            }
            Line::There(wire) => self.send_wire(now, id, wire, (block, len), left, memory),
            Line::Here(_) | Line::Wanted => {
                memory.release(block);
                if let Some(end) = self.local.channels.get_mut(id) {
                    end.abandoned += 1;
                }
                self.channel_settled(id, len);
            }
        }
        true
    }

    fn send_wire(
        &mut self,
        now: Instant,
        id: EndId,
        wire: Wire,
        (block, len): (Block, u32),
        left: Option<Duration>,
        memory: &mut dyn Memory,
    ) {
        let deadline = left.map_or(Instant::NEVER, |left| now + left);
        let Ok(number) = self.endpoint.send_by(wire.0, wire.1, block, len, deadline) else {
            // It is over, and its task hears of that; or, where nothing is promised of a message,
            // too many that were given up wait for an older one.
            memory.release(block);
            if let Some(end) = self.local.channels.get_mut(id) {
                end.abandoned += 1;
            }
            return self.channel_settled(id, len);
        };
        self.data.hold_outgoing(len);
        self.peers.departs(wire.0, u64::from(len) + BLOCK_COST);
        self.local.channels.departs(wire, number, now);
    }

    /// Hands a message to a task of this host.
    fn hand_over(&mut self, id: EndId, block: Block, len: u32, memory: &mut dyn Memory) {
        let Some(end) = self.local.channels.get_mut(id) else {
            return self.written(block, memory);
        };
        end.give(len);
        let (task, number) = id;
        self.events.push_back(NodeEvent::OnChannel { task, number, block, len });
    }

    /// A block of [`NodeEvent::OnChannel`] was written to its task's connection, or will not be.
    pub fn channel_written(&mut self, block: Block, memory: &mut dyn Memory) {
        self.written(block, memory);
    }

    /// A message on a task's channel came from another host.
    pub(crate) fn handle_on_channel(
        &mut self,
        wire: Wire,
        block: Block,
        len: u32,
        memory: &mut dyn Memory,
    ) {
        let end = self.local.channels.carriers.get(&wire).and_then(|c| c.end);
        let longest = end.and_then(|id| self.local.channels.get(id)).map(|end| end.spec.longest());
        self.malformed += u64::from(longest.is_some_and(|longest| len > longest));
        if let Some(end) = end.filter(|_| longest.is_some_and(|longest| len <= longest)) {
            self.data.hold_inside(len);
            self.hand_over(end, block, len, memory);
        } else {
            memory.release(block);
            self.endpoint.consumed(wire.0, wire.1, len);
        }
    }

    /// A message that was sent on one is settled.
    pub(crate) fn handle_channel_sent(
        &mut self,
        now: Instant,
        wire: Wire,
        (number, arrived): (u64, bool),
        block: Block,
        memory: &mut dyn Memory,
    ) {
        let trip =
            self.endpoint.association(wire.0).map_or(Duration::ZERO, Association::least_trip);
        if let Some(carrier) = self.local.channels.carriers.get_mut(&wire) {
            carrier.delays.settled(number, now, trip, arrived);
        }
        let len = memory.len(block);
        self.peers.arrived(wire.0, u64::from(len) + BLOCK_COST);
        self.sent(block, memory);
        if let Some(end) = self.local.channels.settled(wire) {
            self.channel_settled(end, len);
        }
    }

    /// Whether a channel of a connection is a task's.
    pub(crate) fn is_of_task(&self, wire: Wire) -> bool {
        self.local.channels.carriers.contains_key(&wire)
    }

    pub(super) fn channel_settled(&mut self, id: EndId, len: u32) {
        let Some(end) = self.local.channels.get_mut(id) else { return };
        if let Some(bytes) = end.settle(len) {
            self.say(id.0, ToTask::ChannelSent { number: id.1, bytes });
        }
    }

    /// `task` received messages.
    pub(crate) fn channel_taken(&mut self, task: TaskId, number: u32, messages: u32) {
        let Some(end) = self.local.channels.get_mut((task, number)) else { return };
        let (line, taken) = (end.line, end.take(messages));
        let Some(taken) = taken else {
            let why = format!("it received {messages} messages of channel {number}: too many");
            return self.cut_off(task, why);
        };
        for len in taken {
            match line {
                Line::There((association, channel)) => {
                    self.endpoint.consumed(association, channel, len);
                }
                Line::Here(other) => {
                    if let Some(end) = self.local.channels.get_mut(other) {
                        end.sent = (end.sent.0 + 1, end.sent.1 + u64::from(len));
                    }
                    self.channel_settled(other, len);
                }
                Line::Wanted => {}
            }
        }
    }

    /// `task` is done with a channel.
    pub(crate) fn close_task_channel(&mut self, task: TaskId, number: u32) {
        let Some(end) = self.local.channels.remove((task, number)) else { return };
        match end.line {
            Line::Here(other) => self.channel_over(other, Closed::ByPeer),
            Line::There(wire) => {
                self.give_credit_back(wire, &end);
                self.finish_wire(wire);
            }
            Line::Wanted => self.local.channels.forget_wanted((task, number), end.peer),
        }
    }

    /// Nobody receives any more what its task was handed: its peer may go on, to its end.
    fn give_credit_back(&mut self, wire: Wire, end: &End) {
        #[cfg(plant)]
        if self.plant() == towpath_proto::config::Plant::ChannelCreditKept {
            return;
        }
        for len in end.unreceived() {
            self.endpoint.consumed(wire.0, wire.1, len);
        }
    }

    pub(super) fn finish_wire(&mut self, wire: Wire) {
        self.end_reservation(wire);
        if self.local.channels.is_said(wire) {
            let withdrawn = ChannelWithdrawn { channel: wire.1.0 };
            let told = self.peers.say_along(wire.0, Message::ChannelWithdrawn(withdrawn));
            self.malformed += u64::from(!told);
        }
        self.endpoint.finish_channel(wire.0, wire.1, 0);
        self.local.channels.end_ours(wire);
    }

    /// The other host sends nothing more on a channel.
    pub(crate) fn handle_channel_ended(&mut self, wire: Wire) {
        self.local.channels.end_theirs(wire);
        self.end_if_ended(wire);
    }

    /// Tells the task of a channel that its peer sends nothing more on. One that waits for its
    /// answer still does: that says whether there was a channel.
    pub(super) fn end_if_ended(&mut self, wire: Wire) {
        let carrier = self.local.channels.carriers.get(&wire);
        let end = carrier.filter(|c| c.ended_by_peer()).and_then(|c| c.end);
        let stands = |id: &EndId| self.local.channels.get(*id).is_some_and(|end| end.open);
        if let Some(end) = end.filter(stands) {
            self.channel_over(end, Closed::ByPeer);
            self.finish_wire(wire);
        }
    }

    /// A channel's other end is gone.
    pub(super) fn channel_over(&mut self, id: EndId, why: Closed) {
        let Some(end) = self.local.channels.remove(id) else { return };
        if let Line::There(wire) = end.line {
            self.give_credit_back(wire, &end);
        }
        let (task, number) = id;
        if end.open {
            self.say(task, ToTask::ChannelClosed { number, why });
        } else {
            let fault = if why == Closed::Cut { Fault::HostLost } else { Fault::NoTask };
            self.channel_refused(id, fault);
        }
    }

    /// An association is over: so are the channels on it.
    pub(crate) fn cut_channels(&mut self, association: AssociationId) {
        for wire in self.local.channels.reserved_on(association) {
            self.end_reservation(wire);
        }
        self.local.promising.cut(association);
        for end in self.local.channels.cut(association) {
            self.channel_over(end, Closed::Cut);
        }
    }

    /// A task takes part no longer, and its channels are closed.
    pub(crate) fn close_channels_of(&mut self, task: TaskId) {
        for number in self.local.channels.of(task) {
            self.close_task_channel(task, number);
        }
        for wish in self.local.channels.awaited(task) {
            self.turn_down(&wish, Fault::NoTask);
        }
        self.local.channels.forget_task(task);
    }

    /// How the channels of `task` to `peer` stand.
    pub(crate) fn channels_between(&self, task: TaskId, peer: TaskId) -> Vec<ChannelStatus> {
        let numbers = self.local.channels.of(task).into_iter();
        let all = numbers.filter_map(|number| self.status_of(task, number));
        all.filter(|status| status.peer == peer).collect()
    }

    /// How a channel of `task` stands.
    pub(crate) fn channel_status(&self, task: TaskId, number: u32) -> Result<Answer, Fault> {
        self.status_of(task, number)
            .map(|status| Answer::Channel(status.into()))
            .ok_or(Fault::NotFound)
    }

    pub(crate) fn status_of(&self, task: TaskId, number: u32) -> Option<ChannelStatus> {
        let end = self.local.channels.get((task, number))?;
        let mut status = ChannelStatus {
            number,
            peer: end.peer,
            spec: end.spec,
            sent: end.sent.0,
            bytes_sent: end.sent.1,
            abandoned: end.abandoned,
            late: 0,
            repaired: 0,
            received: end.received.0,
            bytes_received: end.received.1,
            waiting: end.in_use,
            rtt: None,
            reserved: false,
            promised: None,
            took: None,
        };
        if let Line::There(wire) = end.line {
            let carrier = self.local.channels.carriers.get(&wire);
            status.reserved = end.open && carrier.is_some_and(|c| c.reserved.is_some());
            status.promised = self.local.promising.bound(wire).filter(|_| end.open);
            status.took = carrier.and_then(|c| c.delays.took());
        }
        if let Line::There((association, channel)) = end.line
            && let Some(association) = self.endpoint.association(association)
        {
            status.rtt = Some(association.rtt());
            let counted = association.channel_stats(channel).unwrap_or_default();
            (status.sent, status.bytes_sent) = (counted.messages_sent, counted.bytes_sent);
            (status.abandoned, status.late) = (status.abandoned + counted.abandoned, counted.late);
            status.repaired = counted.repaired;
        }
        Some(status)
    }
}
