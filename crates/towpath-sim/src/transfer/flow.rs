//! One association's load, and the checker of its promises.

use towpath_proto::association::Opening;
use towpath_proto::endpoint::Answer;
use towpath_proto::{AssociationEvent, AssociationId, Block, EndpointEvent, Memory, Psk, Rng};
use towpath_wire::{ChannelId, Direction, Instant};

use super::curve::CurveReader;
use super::host::Host;
use super::report::Sample;
use super::scenario::{FlowSpec, Side};
use crate::memory::VIRTUAL_LABEL;

/// Broken promises that are told of one flow at most.
const TOLD_MAX: usize = 10;

pub(super) struct Flow {
    pub(super) spec: FlowSpec,
    number: usize,
    id: Option<AssociationId>,
    channel: Option<ChannelId>,
    /// Bytes handed to the channel, and messages.
    queued: u64,
    messages: u64,
    /// Messages expected next: at the receiver, and echoes at the sender.
    expected: [u64; 2],
    pub(super) acked_bytes: u64,
    pub(super) acked_messages: u64,
    pub(super) delivered_bytes: u64,
    pub(super) connected_at: Option<Instant>,
    pub(super) done_at: Option<Instant>,
    pub(super) samples: Vec<Sample>,
    pub(super) curve: CurveReader,
    pub(super) broken: Vec<String>,
}

impl Flow {
    pub(super) fn new(number: usize, spec: &FlowSpec) -> Self {
        Self {
            spec: spec.clone(),
            number,
            id: None,
            channel: None,
            queued: 0,
            messages: 0,
            expected: [0; 2],
            acked_bytes: 0,
            acked_messages: 0,
            delivered_bytes: 0,
            connected_at: None,
            done_at: None,
            samples: Vec::new(),
            curve: CurveReader::new(spec.message_bytes, spec.window_bytes.into()),
            broken: Vec::new(),
        }
    }

    pub(super) const fn channel(&self) -> Option<ChannelId> {
        self.channel
    }

    pub(super) const fn association(&self) -> Option<AssociationId> {
        self.id
    }

    fn seed(&self, side: Side, message: u64) -> u64 {
        let echo = u64::from(side == Side::Receiver);
        Rng::new(message, (self.number as u64) << 1 | echo).u64()
    }

    /// Length of a message: all are as long as the scenario says, the last one may be shorter.
    fn len(&self, message: u64) -> u32 {
        let before = message * u64::from(self.spec.message_bytes);
        let left = self.spec.bytes.map_or(u64::MAX, |b| b.saturating_sub(before));
        left.min(self.spec.message_bytes.into()) as u32
    }

    pub(super) fn break_promise(&mut self, what: impl FnOnce() -> String) {
        if self.broken.len() < TOLD_MAX {
            let name = &self.spec.name;
            self.broken.push(format!("flow {name:?}: {}", what()));
        }
    }

    /// Queues messages so that the channel never runs dry; with echo, one at a time.
    pub(super) fn fill(&mut self, host: &mut Host) {
        let (Some(id), Some(channel)) = (self.id, self.channel) else { return };
        let ahead = 2 * u64::from(self.spec.window_bytes);
        while self.queued < self.spec.bytes.unwrap_or(u64::MAX) {
            let under_way = self.queued - self.acked_bytes;
            let wait = if self.spec.echo {
                self.messages > self.expected[1]
            } else {
                under_way >= ahead && self.messages > self.acked_messages + 1
            };
            let len = self.len(self.messages);
            if wait || host.endpoint.waiting(id, channel) >= 8192 {
                return;
            }
            if !self.send(host, channel, Side::Sender, self.messages, len) {
                return;
            }
            self.queued += u64::from(len);
            self.messages += 1;
        }
    }

    fn send(&mut self, host: &mut Host, channel: ChannelId, side: Side, n: u64, len: u32) -> bool {
        let id = match side {
            Side::Sender => self.id,
            Side::Receiver => host.endpoint.associations().next().map(|(id, _)| id),
        };
        let (Some(id), Some(block)) = (id, host.memory.bulk(self.seed(side, n), len)) else {
            return false;
        };
        let sent = host.endpoint.send(id, channel, block, len);
        if let Err(e) = sent {
            host.memory.release(block);
            self.break_promise(|| format!("message {n} is not taken: {e:?}"));
        }
        sent.is_ok()
    }

    /// Answers an event of one of its hosts.
    pub(super) fn event(
        &mut self,
        now: Instant,
        side: Side,
        host: &mut Host,
        event: EndpointEvent,
    ) {
        match event {
            EndpointEvent::Incoming { id, .. } => {
                let answer = Answer::Accept { psk: Psk::MEMBER, hello: b"" };
                host.endpoint.answer(host.clock.local(now), id, &answer);
            }
            EndpointEvent::Connected { id, .. } if side == Side::Sender => {
                self.connected_at = Some(now);
                self.id = Some(id);
                let direction = if self.spec.echo { Direction::Both } else { Direction::Opener };
                let opening = Opening {
                    window: Some(self.spec.window_bytes),
                    ..Opening::new(direction, VIRTUAL_LABEL)
                };
                self.channel = host.endpoint.open(id, opening);
                self.fill(host);
            }
            EndpointEvent::Connected { .. } => {}
            EndpointEvent::ConnectFailed { failure, .. } => {
                self.break_promise(|| format!("cannot connect: {failure:?}"));
            }
            EndpointEvent::Association { id, event } => {
                self.association_event(now, side, host, id, event);
            }
        }
    }

    fn association_event(
        &mut self,
        now: Instant,
        side: Side,
        host: &mut Host,
        id: AssociationId,
        event: AssociationEvent,
    ) {
        match event {
            AssociationEvent::Message { channel, number, block, len, .. } => {
                self.check(side, host, number, block, len);
                host.memory.release(block);
                host.endpoint.consumed(id, channel, len);
                if side == Side::Receiver {
                    self.delivered_bytes += u64::from(len);
                    if self.spec.echo {
                        self.send(host, channel, side, number, len);
                    }
                } else {
                    self.fill(host);
                    self.finish_if_done(now);
                }
            }
            AssociationEvent::Sent { number, block, .. } => {
                host.memory.release(block);
                if side == Side::Sender {
                    self.acked_bytes += u64::from(self.len(number));
                    self.acked_messages += 1;
                    self.fill(host);
                    self.finish_if_done(now);
                }
            }
            AssociationEvent::Over(end) => {
                self.break_promise(|| format!("the association ended: {end:?}"));
            }
            _ => {}
        }
    }

    fn finish_if_done(&mut self, now: Instant) {
        let all = self.spec.bytes.is_some_and(|b| self.acked_bytes == b);
        if all && self.done_at.is_none() && !(self.spec.echo && self.expected[1] < self.messages) {
            self.done_at = Some(now);
        }
    }

    /// Exactly once, in order, byte for byte.
    fn check(&mut self, side: Side, host: &Host, number: u64, block: Block, len: u32) {
        let from = if side == Side::Sender { Side::Receiver } else { Side::Sender };
        let expected = self.expected[usize::from(side == Side::Sender)];
        if number != expected {
            self.break_promise(|| format!("message {number} arrived instead of {expected}"));
        }
        self.expected[usize::from(side == Side::Sender)] = number + 1;
        let intact =
            len == self.len(number) && host.memory.is_bulk(block, self.seed(from, number), len);
        if !intact {
            self.break_promise(|| format!("message {number} is not what was sent"));
        }
    }
}
