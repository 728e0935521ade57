//! Channels of tasks' own ([`towpath_vm::channel`]): opened, offered, sent on, received from,
//! closed.
//!
//! Between hosts each is a channel of their connection. The host that opens it says on the
//! connection's control channel whose it is; the other offers it to its task as soon as it has both
//! and answers. Nothing is sent before that. With the connection the channel ends. On one host a
//! message goes from task to task.
//!
//! Room: what a task has sent and is not settled is at most its channel's window, and so is what
//! came for it and was not received, because its receiver's host gives that credit back only once
//! the task has received it. A task that sends more is cut off.

mod table;

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::association::Opening;
use towpath_proto::memory::BLOCK_COST;
use towpath_proto::{AssociationId, Block, Memory};
use towpath_vm::Message;
use towpath_vm::channel::{ChannelSpec, ChannelStatus, Class, Closed};
use towpath_vm::members::State;
use towpath_vm::message::{ChannelAnswer, ChannelAsk, LABEL_CHANNEL};
use towpath_vm::talk::{Answer, Fault, ToTask};
use towpath_wire::frame::{ChannelOpen, Direction, Reliability};
use towpath_wire::talk::ChannelFront;
use towpath_wire::{ChannelId, HostId, Instant, TaskId};

use crate::event::NodeEvent;
use crate::node::Node;
use crate::peers::Contact;
pub(crate) use table::Ends;
use table::{End, EndId, Line, Wire, Wish};

/// Priority of the lowest channel among those of a connection; [`PRIORITY_USUAL`] higher stand
/// tasks' messages.
///
/// [`PRIORITY_USUAL`]: towpath_vm::channel::PRIORITY_USUAL
const PRIORITY_LEAST: u16 = 96;

const fn reliability(class: Class) -> Reliability {
    match class {
        Class::Ordered => Reliability::ReliableOrdered,
        Class::Unordered => Reliability::ReliableUnordered,
        Class::Timely => Reliability::Timely,
        Class::Once => Reliability::Unreliable,
    }
}

fn opening(spec: &ChannelSpec) -> Opening {
    Opening {
        reliability: reliability(spec.class),
        priority: PRIORITY_LEAST + u16::from(spec.priority),
        window: Some(spec.window),
        ..Opening::new(Direction::Both, LABEL_CHANNEL)
    }
}

/// Whether a channel was opened as what is said of it.
fn agree(open: &ChannelOpen, spec: &ChannelSpec) -> bool {
    let said = opening(spec);
    spec.check().is_ok()
        && open.reliability == said.reliability
        && open.priority == said.priority
        && open.direction == said.direction
        && open.limit <= u64::from(spec.window)
}

fn limit((what, limit): (&str, u64)) -> Fault {
    Fault::Limit { what: what.into(), limit }
}

impl Node {
    /// `task` opens a channel.
    pub(crate) fn open_task_channel(
        &mut self,
        now: Instant,
        task: TaskId,
        number: u32,
        to: TaskId,
        spec: ChannelSpec,
    ) {
        let id = (task, number);
        if number % 2 == 1 || self.local.channels.get(id).is_some() {
            return self.cut_off(task, format!("channel {number} is odd, or there already"));
        }
        if let Err(fault) = self.may_open(now, task, to, &spec) {
            return self.channel_refused(id, fault);
        }
        self.local.channels.insert(id, End::new(to, spec, Line::Wanted, false));
        let host = to.host();
        if self.me == Some(host) {
            self.offer(Wish { line: Line::Here(id), from: task, spec }, to);
        } else if let Some(association) = self.peers.up(host) {
            self.begin_channel(association, id);
        } else {
            self.local.channels.await_connection(host, id);
            self.ensure_connection(now, host);
            if self.peers.entry(host).contact == Contact::None {
                self.connection_unmade(host);
            }
        }
    }

    fn may_open(
        &mut self,
        now: Instant,
        task: TaskId,
        to: TaskId,
        spec: &ChannelSpec,
    ) -> Result<(), Fault> {
        spec.check().map_err(Fault::Bad)?;
        if to == task {
            return Err(Fault::Bad("a channel from a task to itself".into()));
        }
        self.local.channels.check_open(now, task).map_err(limit)?;
        let Some(log) = &self.log else { return Err(Fault::NotJoined) };
        let up = |h: &towpath_vm::Host| h.state == towpath_vm::HostState::Up;
        if log.table().get(to.host()).is_some_and(up) { Ok(()) } else { Err(Fault::NoHost) }
    }

    /// Opens the channel of a connection for a task's, and says whose it is.
    fn begin_channel(&mut self, association: AssociationId, id: EndId) {
        let Some(end) = self.local.channels.get(id) else { return };
        let (to, spec) = (end.peer, end.spec);
        let Some(channel) = self.endpoint.open(association, opening(&spec)) else {
            self.local.channels.remove(id);
            let config = &self.config.proto;
            let what = "room of all channels between two hosts, in bytes, or their number of \
                        channels";
            return self.channel_refused(id, limit((what, config.credit_max)));
        };
        self.local.channels.lead(id, Line::There((association, channel)));
        let ask = ChannelAsk { channel: channel.0, from: id.0, to, spec };
        self.say_along(association, Message::ChannelAsk(ask));
    }

    /// Says something of a connection's channels: on that connection or not at all.
    fn say_along(&mut self, association: AssociationId, message: Message) {
        self.peers.along.push_back((association, message));
    }

    /// A connection to `host` stands: channels that waited for it are opened.
    pub(crate) fn open_unconnected(&mut self, host: HostId, association: AssociationId) {
        for id in self.local.channels.unconnected(host) {
            self.begin_channel(association, id);
        }
    }

    /// No connection to `host` could be made.
    pub(crate) fn connection_unmade(&mut self, host: HostId) {
        for id in self.local.channels.unconnected(host) {
            if self.local.channels.remove(id).is_some() {
                self.channel_refused(id, Fault::HostLost);
            }
        }
    }

    fn channel_refused(&mut self, (task, number): EndId, fault: Fault) {
        self.say(task, ToTask::ChannelOpen { number, outcome: Err(fault) });
    }

    /// A peer opened a channel for a task's.
    pub(crate) fn handle_channel_open(&mut self, wire: Wire, open: ChannelOpen) {
        self.local.channels.opened(wire, open);
        self.match_offer(wire);
    }

    /// A peer says whose a channel is.
    pub(crate) fn handle_channel_ask(&mut self, from: HostId, id: AssociationId, ask: ChannelAsk) {
        let known = self.local.channels.named.len() >= usize::from(self.config.proto.channels_max);
        if ask.from.host() != from || self.me != Some(ask.to.host()) || known {
            self.malformed += 1;
            return;
        }
        let wire = (id, ChannelId(ask.channel));
        self.local.channels.named.insert(wire, ask);
        self.match_offer(wire);
    }

    /// Offers a channel that was opened and whose owner is known.
    fn match_offer(&mut self, wire: Wire) {
        let channels = &mut self.local.channels;
        let (Some(open), Some(ask)) = (channels.nameless.get(&wire), channels.named.get(&wire))
        else {
            return;
        };
        let (agreed, ask) = (agree(open, &ask.spec), *ask);
        channels.nameless.remove(&wire);
        channels.named.remove(&wire);
        let wish = Wish { line: Line::There(wire), from: ask.from, spec: ask.spec };
        if agreed {
            self.offer(wish, ask.to);
        } else {
            self.malformed += 1;
            self.turn_down(&wish, Fault::Bad("it was opened as another".into()));
        }
    }

    /// Gives a task the other end of a channel, now or when it enrols.
    fn offer(&mut self, wish: Wish, to: TaskId) {
        let state = self.local.members.get(to).map(|member| &member.state);
        let there = match state {
            None | Some(State::Left(_)) => Err(Fault::NoTask),
            Some(_) => self.has_place(&wish, to).map_err(limit),
        };
        if let Err(fault) = there {
            return self.turn_down(&wish, fault);
        }
        if self.local.members.enrolled(to).is_none() {
            return self.local.channels.await_enrolment(to, wish);
        }
        let number = self.local.channels.number_for(to);
        let Wish { line, from, spec } = wish;
        self.local.channels.insert((to, number), End::new(from, spec, line, true));
        self.say(to, ToTask::ChannelOffered { number, from, spec });
        match line {
            Line::Here(opener) => {
                self.local.channels.lead(opener, Line::Here((to, number)));
                self.channel_stands(opener);
            }
            Line::There((association, channel)) => {
                let answer = ChannelAnswer { channel: channel.0, outcome: Ok(()) };
                self.say_along(association, Message::ChannelAnswer(answer));
                self.end_if_ended((association, channel));
            }
            Line::Wanted => {}
        }
    }

    fn has_place(&self, wish: &Wish, to: TaskId) -> Result<(), (&'static str, u64)> {
        self.local.channels.check_count(to)?;
        match wish.line {
            Line::Here(_) => self.local.channels.check_here(&wish.spec),
            Line::There(_) | Line::Wanted => Ok(()),
        }
    }

    fn channel_stands(&mut self, id: EndId) {
        if let Some(end) = self.local.channels.get_mut(id)
            && !core::mem::replace(&mut end.open, true)
        {
            self.say(id.0, ToTask::ChannelOpen { number: id.1, outcome: Ok(()) });
        }
    }

    fn turn_down(&mut self, wish: &Wish, fault: Fault) {
        match wish.line {
            Line::Here(opener) => {
                if self.local.channels.remove(opener).is_some() {
                    self.channel_refused(opener, fault);
                }
            }
            Line::There(wire @ (association, channel)) => {
                self.finish_wire(wire);
                let answer = ChannelAnswer { channel: channel.0, outcome: Err(fault) };
                self.say_along(association, Message::ChannelAnswer(answer));
            }
            Line::Wanted => {}
        }
    }

    /// What the other host says to a channel that was opened to it.
    pub(crate) fn handle_channel_answer(&mut self, id: AssociationId, answer: ChannelAnswer) {
        let wire = (id, ChannelId(answer.channel));
        let Some(carrier) = self.local.channels.carriers.get(&wire) else { return };
        let end = carrier.end;
        match (answer.outcome, end) {
            (Ok(()), Some(end)) => {
                self.channel_stands(end);
                self.end_if_ended(wire);
            }
            (Ok(()), None) => {}
            (Err(fault), end) => {
                if let Some(end) = end
                    && self.local.channels.get(end).is_some_and(|e| !e.open)
                {
                    self.local.channels.remove(end);
                    self.channel_refused(end, fault);
                }
                self.finish_wire(wire);
            }
        }
    }

    /// A task takes part now: it is offered what others opened to it.
    pub(crate) fn offer_awaited(&mut self, task: TaskId) {
        for wish in self.local.channels.awaited(task) {
            self.offer(wish, task);
        }
    }

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
        if self.endpoint.send_by(wire.0, wire.1, block, len, deadline).is_err() {
            // It is over, and its task hears of that.
            memory.release(block);
            return self.channel_settled(id, len);
        }
        self.data.hold_outgoing(len);
        self.peers.departs(wire.0, u64::from(len) + BLOCK_COST);
        self.local.channels.departs(wire);
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
        match self.local.channels.carriers.get(&wire).and_then(|c| c.end) {
            Some(end) => {
                self.data.hold_inside(len);
                self.hand_over(end, block, len, memory);
            }
            None => {
                memory.release(block);
                self.endpoint.consumed(wire.0, wire.1, len);
            }
        }
    }

    /// A message that was sent on one is settled.
    pub(crate) fn handle_channel_sent(
        &mut self,
        wire: Wire,
        block: Block,
        memory: &mut dyn Memory,
    ) {
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

    fn channel_settled(&mut self, id: EndId, len: u32) {
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
            Line::There(wire) => self.finish_wire(wire),
            Line::Wanted => {}
        }
    }

    fn finish_wire(&mut self, wire: Wire) {
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
    fn end_if_ended(&mut self, wire: Wire) {
        let carrier = self.local.channels.carriers.get(&wire);
        let end = carrier.filter(|c| c.ended_by_peer()).and_then(|c| c.end);
        let stands = |id: &EndId| self.local.channels.get(*id).is_some_and(|end| end.open);
        if let Some(end) = end.filter(stands) {
            self.channel_over(end, Closed::ByPeer);
            self.finish_wire(wire);
        }
    }

    /// A channel's other end is gone.
    fn channel_over(&mut self, id: EndId, why: Closed) {
        let Some(end) = self.local.channels.remove(id) else { return };
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
        self.peers.along.retain(|(of, _)| *of != association);
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

    /// Sends what is to be said along certain connections.
    pub(crate) fn flush_along(&mut self, memory: &mut dyn Memory) -> bool {
        let mut later = Vec::new();
        let all = core::mem::take(&mut self.peers.along);
        let any = !all.is_empty();
        for (association, message) in all {
            let Some(channel) = self.peers.control_of(association) else { continue };
            let Some(channel) = channel else {
                later.push((association, message));
                continue;
            };
            let bytes = message.encode();
            let sent = memory.put(&bytes).is_some_and(|block| {
                let sent = self.endpoint.send(association, channel, block, bytes.len() as u32);
                if sent.is_err() {
                    memory.release(block);
                }
                sent.is_ok()
            });
            if !sent {
                later.push((association, message));
            }
        }
        let any = any && later.is_empty();
        self.peers.along.extend(later);
        any
    }

    /// How the channels of `task` to `peer` stand.
    pub(crate) fn channels_between(&self, task: TaskId, peer: TaskId) -> Vec<ChannelStatus> {
        let numbers = self.local.channels.of(task).into_iter();
        let all = numbers.filter_map(|number| self.status_of(task, number));
        all.filter(|status| status.peer == peer).collect()
    }

    /// How a channel of `task` stands.
    pub(crate) fn channel_status(&self, task: TaskId, number: u32) -> Result<Answer, Fault> {
        self.status_of(task, number).map(Answer::Channel).ok_or(Fault::NotFound)
    }

    fn status_of(&self, task: TaskId, number: u32) -> Option<ChannelStatus> {
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
        };
        if let Line::There((association, channel)) = end.line
            && let Some(association) = self.endpoint.association(association)
        {
            status.rtt = Some(association.rtt());
            let counted = association.channel_stats(channel).unwrap_or_default();
            (status.sent, status.bytes_sent) = (counted.messages_sent, counted.bytes_sent);
            (status.abandoned, status.late) = (counted.abandoned, counted.late);
            status.repaired = counted.repaired;
        }
        Some(status)
    }
}
