//! How a task's channel comes to stand: asked for, named on its connection, offered, answered.

use alloc::format;

use towpath_proto::association::Opening;
use towpath_proto::coding::{Coding, MEMBERS_MAX, PARITIES_MAX};
use towpath_proto::{Association, AssociationId};
use towpath_vm::Message;
use towpath_vm::channel::{CODE_PACKETS_MAX, CODE_PARITIES_MAX, ChannelSpec, Class, Closed, Code};
use towpath_vm::members::State;
use towpath_vm::message::{ChannelAnswer, ChannelAsk, LABEL_CHANNEL};
use towpath_vm::talk::{Fault, ToTask};
use towpath_wire::frame::{ChannelOpen, Direction, Reliability};
use towpath_wire::{ChannelId, HostId, Instant, TaskId};

use super::reserving::traffic;
use super::table::{End, EndId, Line, Wire, Wish};
use crate::node::Node;
use crate::peers::{ALONG_MAX, Contact};

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

const _: () = assert!(CODE_PACKETS_MAX as usize == MEMBERS_MAX);
const _: () = assert!(CODE_PARITIES_MAX as usize == PARITIES_MAX);

/// None where it is out of its limits, as nothing is that was checked.
fn coding(code: Code) -> Option<Coding> {
    let coding = Coding::new(code.packets, code.parities).ok()?;
    Some(if code.adaptive { coding.adaptive() } else { coding })
}

fn opening(spec: &ChannelSpec) -> Opening {
    Opening {
        reliability: reliability(spec.class),
        priority: PRIORITY_LEAST + u16::from(spec.priority),
        window: Some(spec.window),
        tspec: spec.reserve.as_ref().map(traffic),
        coding: spec.code.and_then(coding),
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
        && open.tspec == said.tspec
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
            self.offer(now, Wish { line: Line::Here(id), from: task, spec }, to);
        } else if let Some(association) = self.peers.up(host) {
            self.begin_channel(now, association, id);
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
        if self.log.is_none() {
            return Err(Fault::NotJoined);
        }
        if self.may_be_up(to.host()) { Ok(()) } else { Err(Fault::NoHost) }
    }

    /// Opens the channel of a connection for a task's, and says whose it is.
    fn begin_channel(&mut self, now: Instant, association: AssociationId, id: EndId) {
        let Some(end) = self.local.channels.get(id) else { return };
        let (to, spec) = (end.peer, end.spec);
        // It may have been closed, and another one opened under its number.
        if !end.wants(to) || self.peers.host_of(association) != Some(to.host()) {
            return;
        }
        if let Err(what) = self.local.channels.check_there(&spec) {
            self.local.channels.remove(id);
            return self.channel_refused(id, limit(what));
        }
        let Some(channel) = self.endpoint.open(association, opening(&spec)) else {
            self.local.channels.remove(id);
            return self.channel_refused(id, limit(self.full(association)));
        };
        let wire = (association, channel);
        self.local.channels.lead(id, Line::There(wire));
        match spec.reserve {
            Some(wish) => self.reserve_wire(now, wire, (id.0, to.host()), &wish),
            None => self.name_channel(id, wire),
        }
    }

    /// Says whose a channel is that was opened for a task's.
    pub(super) fn name_channel(&mut self, id: EndId, wire: Wire) {
        self.local.channels.is_said(wire);
        let Some(end) = self.local.channels.get(id) else { return };
        let ask = ChannelAsk { channel: wire.1.0, from: id.0, to: end.peer, spec: end.spec };
        if !self.peers.say_along(wire.0, Message::ChannelAsk(ask)) {
            self.local.channels.remove(id);
            self.finish_wire(wire);
            self.channel_refused(id, limit(("opens that wait for a host", ALONG_MAX as u64)));
        }
    }

    /// Which limit keeps an association from another channel.
    fn full(&self, association: AssociationId) -> (&'static str, u64) {
        let config = &self.config.proto;
        let count = self.endpoint.association(association).map_or(0, Association::channels);
        if count >= usize::from(config.channels_max) {
            ("channels between two hosts", config.channels_max.into())
        } else {
            ("room of all channels between two hosts, in bytes", config.credit_max)
        }
    }

    /// Answers what a peer said of a channel. One that reads no answers gets none.
    fn answer_along(&mut self, (association, channel): Wire, outcome: Result<(), Fault>) {
        let answer = Message::ChannelAnswer(ChannelAnswer { channel: channel.0, outcome });
        if !self.peers.say_along(association, answer) {
            self.malformed += 1;
        }
    }

    /// A connection to `host` stands: channels that waited for it are opened.
    pub(crate) fn open_unconnected(
        &mut self,
        now: Instant,
        host: HostId,
        association: AssociationId,
    ) {
        for id in self.local.channels.unconnected(host) {
            self.begin_channel(now, association, id);
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

    pub(super) fn channel_refused(&mut self, (task, number): EndId, fault: Fault) {
        self.say(task, ToTask::ChannelOpen { number, outcome: Err(fault) });
    }

    /// A peer opened a channel for a task's.
    pub(crate) fn handle_channel_open(&mut self, now: Instant, wire: Wire, open: ChannelOpen) {
        self.local.channels.opened(wire, open);
        self.match_offer(now, wire);
    }

    /// A peer says whose a channel is.
    pub(crate) fn handle_channel_ask(
        &mut self,
        now: Instant,
        from: HostId,
        id: AssociationId,
        ask: ChannelAsk,
    ) {
        let here = self.me == Some(ask.to.host());
        // It may not know yet that this host has begun another life, be that in another slot, and
        // this one may not have begun yet.
        let to = ask.to.host();
        let is_earlier = |me: HostId| to.incarnation() < me.incarnation() && !self.is_up(to);
        let earlier = !here && self.me.is_none_or(is_earlier);
        if ask.from.host() != from || !here && !earlier {
            self.malformed += 1;
            return;
        }
        let wire = (id, ChannelId(ask.channel));
        if let Err(what) = self.has_room_for_name(wire) {
            return self.answer_along(wire, Err(limit(what)));
        }
        if earlier {
            self.local.channels.name(wire, None);
            self.match_offer(now, wire);
            return self.answer_along(wire, Err(Fault::NoTask));
        }
        self.local.channels.name(wire, Some(ask));
        self.match_offer(now, wire);
    }

    /// A peer says that a channel is nobody's.
    pub(crate) fn handle_channel_withdrawn(
        &mut self,
        now: Instant,
        id: AssociationId,
        channel: u32,
    ) {
        let wire = (id, ChannelId(channel));
        if self.has_room_for_name(wire).is_err() {
            self.malformed += 1;
            return;
        }
        self.local.channels.name(wire, None);
        self.match_offer(now, wire);
    }

    fn has_room_for_name(&self, wire: Wire) -> Result<(), (&'static str, u64)> {
        let most = self.config.proto.channels_max;
        let opened = self.local.channels.nameless.contains_key(&wire);
        if opened || self.local.channels.named_on(wire.0) < usize::from(most) {
            return Ok(());
        }
        Err(("channels that a host has named and not opened", most.into()))
    }

    /// Offers a channel that was opened and whose owner is known.
    fn match_offer(&mut self, now: Instant, wire: Wire) {
        let Some((open, ask)) = self.local.channels.matched(wire) else { return };
        let Some(ask) = ask else { return self.finish_wire(wire) };
        let wish = Wish { line: Line::There(wire), from: ask.from, spec: ask.spec };
        if agree(&open, &ask.spec) {
            self.offer(now, wish, ask.to);
        } else {
            self.malformed += 1;
            self.turn_down(&wish, Fault::Bad("it was opened as another".into()));
        }
    }

    /// Gives a task the other end of a channel, now or when it enrols.
    fn offer(&mut self, now: Instant, wish: Wish, to: TaskId) {
        // It may have been closed, and another one opened under its number.
        if let Line::Here(opener) = wish.line
            && !self.local.channels.get(opener).is_some_and(|end| end.wants(to))
        {
            return;
        }
        let state = self.local.members.get(to).map(|member| &member.state);
        let there = match state {
            None | Some(State::Left(_)) => Err(Fault::NoTask),
            Some(_) => self.has_place(&wish, to).map_err(limit),
        };
        if let Err(fault) = there {
            return self.turn_down(&wish, fault);
        }
        if self.local.members.enrolled(to).is_none() {
            return self.local.channels.await_enrolment(now, to, wish);
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
            Line::There(wire) => {
                self.answer_along(wire, Ok(()));
                self.end_if_ended(wire);
            }
            Line::Wanted => {}
        }
    }

    fn has_place(&self, wish: &Wish, to: TaskId) -> Result<(), (&'static str, u64)> {
        self.local.channels.check_count(to)?;
        match wish.line {
            Line::Here(_) => self.local.channels.check_here(&wish.spec),
            Line::There(_) => self.local.channels.check_there(&wish.spec),
            Line::Wanted => Ok(()),
        }
    }

    fn channel_stands(&mut self, id: EndId) {
        if let Some(end) = self.local.channels.get_mut(id)
            && !core::mem::replace(&mut end.open, true)
        {
            self.say(id.0, ToTask::ChannelOpen { number: id.1, outcome: Ok(()) });
        }
    }

    pub(super) fn turn_down(&mut self, wish: &Wish, fault: Fault) {
        match wish.line {
            Line::Here(opener) => {
                if self.local.channels.remove(opener).is_some() {
                    self.channel_refused(opener, fault);
                }
            }
            Line::There(wire) => {
                self.finish_wire(wire);
                self.answer_along(wire, Err(fault));
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
            (Err(mut fault), end) => {
                fault.cut();
                let open = |id: &EndId| self.local.channels.get(*id).is_some_and(|end| end.open);
                if let Some(end) = end.filter(open) {
                    self.channel_over(end, Closed::ByPeer);
                } else if let Some(end) = end {
                    self.local.channels.remove(end);
                    self.channel_refused(end, fault);
                }
                self.finish_wire(wire);
            }
        }
    }

    /// Channels to tasks that have not enrolled within [`ENROL_WAIT`] are refused.
    ///
    /// [`ENROL_WAIT`]: towpath_vm::channel::ENROL_WAIT
    pub(crate) fn settle_awaited(&mut self, now: Instant) {
        for wish in self.local.channels.waited_in_vain(now) {
            self.turn_down(&wish, Fault::NoTask);
        }
    }

    /// A task takes part now: it is offered what others opened to it.
    pub(crate) fn offer_awaited(&mut self, now: Instant, task: TaskId) {
        for wish in self.local.channels.awaited(task) {
            self.offer(now, wish, task);
        }
    }
}
