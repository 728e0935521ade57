//! Message flows between hosts, and the checker of their delivery.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use towpath_node::NodeEvent;
use towpath_proto::association::Opening;
use towpath_proto::{AssociationEvent, AssociationId, Memory, Rng};
use towpath_wire::{ChannelId, Direction, Reliability};

use super::run::Violation;
use crate::memory::VIRTUAL_LABEL;
use crate::scenario::between;
use crate::world::World;

/// Messages of one flow that wait in its channel at most.
const WAITING_MAX: usize = 32;
/// The same of a timely flow.
const TIMELY_WAITING_MAX: usize = 4;
/// Longest message of an unreliable flow: of longer ones hardly any would arrive whole.
const UNRELIABLE_MAX: u64 = 8192;
/// Flows and epochs that a label can name.
const FLOWS_MAX: usize = 128;

/// A flow restarts on a new channel when its association ends: that is a new epoch.
#[derive(Debug)]
struct Flow {
    from: usize,
    to: usize,
    class: Reliability,
    bytes_left: u64,
    /// Bytes of messages given up that are still sent as new ones: not for ever.
    again_left: u64,
    epoch: u16,
    channel: Option<(AssociationId, ChannelId)>,
    /// Messages sent in this epoch.
    sent: u64,
    /// Lengths of those that are neither acknowledged nor given up, by number.
    waiting: BTreeMap<u64, u32>,
    rng: Rng,
}

impl Flow {
    /// Goes on in a new epoch; as much as was not acknowledged is sent again.
    fn restart(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.bytes_left += waiting.into_values().map(u64::from).sum::<u64>();
        (self.channel, self.sent) = (None, 0);
        self.epoch += 1;
    }

    fn done(&self) -> bool {
        self.bytes_left == 0 && self.waiting.is_empty()
    }
}

/// A channel at one of its ends: host, association, channel.
type End = (usize, AssociationId, ChannelId);

/// What the receiver of a channel has seen. Invariant: every number below `next` arrived, or, on
/// an ordered channel, is not expected any more; `beyond` holds none below `next`.
#[derive(Debug, Default)]
struct Seen {
    flow: usize,
    next: u64,
    beyond: BTreeSet<u64>,
    count: u64,
}

impl Seen {
    /// Takes note of a message; false when it was seen before, or is out of order.
    fn take(&mut self, number: u64, ordered: bool) -> bool {
        let right = if ordered { number == self.next } else { number >= self.next };
        let right = right && self.beyond.insert(number);
        self.count += 1;
        while self.beyond.remove(&self.next) {
            self.next += 1;
        }
        right
    }
}

/// All flows, and what their receivers have seen.
#[derive(Debug)]
pub(super) struct Flows {
    all: Vec<Flow>,
    message_max: u32,
    seen: BTreeMap<End, Seen>,
    pub(super) delivered_bytes: u64,
    pub(super) delivered: u64,
    /// Messages given up, and their bytes.
    pub(super) abandoned: u64,
    pub(super) abandoned_bytes: u64,
}

fn seed_of(flow: usize, epoch: u16, number: u64) -> u64 {
    Rng::new(number, (flow as u64) << 16 | u64::from(epoch)).u64()
}

impl Flows {
    pub(super) fn new(count: usize, bytes: u64, max: u32, hosts: usize, rng: &mut Rng) -> Self {
        let count = count.clamp(1, FLOWS_MAX);
        let flow = |i: usize, rng: &mut Rng| {
            let from = rng.below(hosts as u64) as usize;
            let to = (from + 1 + rng.below(hosts as u64 - 1) as usize) % hosts;
            let bytes_left = bytes / count as u64;
            let class = match rng.below(6) {
                0..=2 => Reliability::ReliableOrdered,
                3 => Reliability::ReliableUnordered,
                4 => Reliability::Timely,
                _ => Reliability::Unreliable,
            };
            let own = Rng::new(rng.u64(), i as u64);
            Flow {
                from,
                to,
                class,
                bytes_left,
                again_left: 16 * bytes_left,
                epoch: 0,
                channel: None,
                sent: 0,
                waiting: BTreeMap::new(),
                rng: own,
            }
        };
        Self {
            all: (0..count).map(|i| flow(i, rng)).collect(),
            message_max: max,
            seen: BTreeMap::new(),
            delivered_bytes: 0,
            delivered: 0,
            abandoned: 0,
            abandoned_bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// True when everything was sent, and acknowledged or given up.
    pub(super) fn done(&self) -> bool {
        self.all.iter().all(Flow::done)
    }

    /// What is missing, for the report.
    pub(super) fn missing(&self) -> Vec<String> {
        let open = |f: &&Flow| !f.done();
        let text = |f: &Flow| {
            format!(
                "flow {} -> {} ({:?}): {} bytes not sent, {} messages without an end, channel {:?}",
                f.from,
                f.to,
                f.class,
                f.bytes_left,
                f.waiting.len(),
                f.channel
            )
        };
        self.all.iter().filter(open).map(text).collect()
    }

    /// A host crashed: what flowed from or to it flows between others from now on.
    pub(super) fn redirect(&mut self, host: usize, hosts: usize) {
        for f in self.all.iter_mut().filter(|f| f.from == host || f.to == host) {
            f.from = (host + 1) % hosts;
            f.to = (host + 2) % hosts;
            f.restart();
        }
    }

    /// Opens what is not open and sends what may be sent.
    pub(super) fn tick(&mut self, world: &mut World) {
        for i in 0..self.all.len() {
            let f = &self.all[i];
            if f.bytes_left == 0 {
                continue;
            }
            if f.channel.is_none() {
                self.open(world, i);
            }
            self.send(world, i);
        }
    }

    fn open(&mut self, world: &mut World, i: usize) {
        let f = &mut self.all[i];
        let Some(to) = world.hosts[f.to].node.as_ref().and_then(towpath_node::Node::me) else {
            return;
        };
        let opening = Opening {
            reliability: f.class,
            priority: 10 + i as u16 % 3,
            ..Opening::new(Direction::Both, VIRTUAL_LABEL | (f.epoch % 256) << 7 | i as u16)
        };
        let opened = world.with(f.from, |node, now, memory| {
            if !node.hosts().any(|h| h.id == to && h.state == towpath_vm::HostState::Up) {
                return None;
            }
            node.connect_to(now, to, memory);
            let association = node.association_to(to)?;
            let channel = node.open_channel(association, opening)?;
            Some((association, channel))
        });
        f.channel = opened.flatten();
    }

    fn send(&mut self, world: &mut World, i: usize) {
        let max = self.message_max;
        let f = &mut self.all[i];
        let Some((association, channel)) = f.channel else { return };
        // More would only wait until it is late.
        let timely = f.class == Reliability::Timely;
        let waiting_max = if timely { TIMELY_WAITING_MAX } else { WAITING_MAX };
        while f.bytes_left > 0 && f.waiting.len() < waiting_max {
            let len = match f.rng.below(10) {
                0 => between(&mut f.rng, 0, 20),
                1..=4 => between(&mut f.rng, 0, 3000),
                _ if f.class == Reliability::Unreliable => {
                    between(&mut f.rng, 0, UNRELIABLE_MAX.min(max.into()))
                }
                _ => between(&mut f.rng, 0, max.into()),
            };
            let len = len.min(f.bytes_left) as u32;
            let seed = seed_of(i, f.epoch, f.sent);
            // From what cannot arrive in time to what is never late.
            let (least, most) = if f.rng.below(4) == 0 { (2_000, 8_000) } else { (1, 400) };
            let within = Duration::from_millis(between(&mut f.rng, least, most));
            let sent = world.with(f.from, |node, now, memory| {
                let block = memory.bulk(seed, len)?;
                let sent = if timely {
                    node.send_by(association, channel, block, len, now + within)
                } else {
                    node.send(association, channel, block, len)
                };
                if sent.is_err() {
                    memory.release(block);
                }
                sent.ok()
            });
            let Some(number) = sent.flatten() else { break };
            f.sent = number + 1;
            f.waiting.insert(number, len);
            f.bytes_left -= u64::from(len).min(f.bytes_left);
        }
    }

    /// An association of `host` ended: flows on it start a new epoch.
    fn ended(&mut self, host: usize, association: AssociationId) {
        self.seen.retain(|(h, a, _), _| (*h, *a) != (host, association));
        let over =
            |f: &&mut Flow| f.from == host && f.channel.is_some_and(|(a, _)| a == association);
        for f in self.all.iter_mut().filter(over) {
            f.restart();
        }
    }

    /// Looks at an event of a node; true when it was about a flow.
    pub(super) fn handle(
        &mut self,
        world: &mut World,
        host: usize,
        event: &NodeEvent,
        violations: &mut Vec<Violation>,
    ) -> bool {
        let NodeEvent::Channel { association, event, .. } = event else { return false };
        let association = *association;
        match event {
            AssociationEvent::Over(_) => self.ended(host, association),
            AssociationEvent::Sent { channel, number, block } => {
                world.with(host, |_, _, memory| memory.release(*block));
                self.settled((host, association, *channel), *number, false, violations);
                self.tick(world);
            }
            AssociationEvent::Abandoned { channel, number, block } => {
                world.with(host, |_, _, memory| memory.release(*block));
                self.settled((host, association, *channel), *number, true, violations);
                self.tick(world);
            }
            AssociationEvent::Message { channel, label, number, block, len } => {
                let message = (*label, *number, *len);
                let intact = |seed| world.hosts[host].memory.is_bulk(*block, seed, *len);
                self.arrived((host, association, *channel), message, intact, violations);
                world.with(host, |node, _, memory| {
                    memory.release(*block);
                    node.consumed(association, *channel, *len);
                });
            }
            AssociationEvent::Opened(_)
            | AssociationEvent::PathOffered { .. }
            | AssociationEvent::PathRetired { .. }
            | AssociationEvent::Noted(_)
            | AssociationEvent::Silent
            | AssociationEvent::Heard
            | AssociationEvent::Ended { .. } => {}
        }
        true
    }

    /// The sender was told of a message's end: once for each, and only where the class allows it
    /// was it given up.
    fn settled(&mut self, end: End, number: u64, given_up: bool, violations: &mut Vec<Violation>) {
        let (host, association, channel) = end;
        let at = Some((association, channel));
        // Told of a channel that the flow has left behind since.
        let Some(f) = self.all.iter_mut().find(|f| f.from == host && f.channel == at) else {
            return;
        };
        let reliable =
            matches!(f.class, Reliability::ReliableOrdered | Reliability::ReliableUnordered);
        if reliable && given_up {
            violations.push(Violation(format!("host {host}: a {:?} message given up", f.class)));
        }
        let Some(len) = f.waiting.remove(&number) else {
            violations.push(Violation(format!(
                "host {host}: message {number} ({:?}) has a second end",
                f.class
            )));
            return;
        };
        if given_up {
            let again = u64::from(len).min(f.again_left);
            (f.again_left, f.bytes_left) = (f.again_left - again, f.bytes_left + again);
            self.abandoned += 1;
            self.abandoned_bytes += u64::from(len);
        }
    }

    /// A message arrived: each at most once, in order where that is promised, and intact.
    fn arrived(
        &mut self,
        end: End,
        (label, number, len): (u16, u64, u32),
        intact: impl FnOnce(u64) -> bool,
        violations: &mut Vec<Violation>,
    ) {
        let (flow, epoch) = (usize::from(label & 0x7f), (label & 0x7fff) >> 7);
        let Some(f) = self.all.get(flow) else {
            let what = format!("host {}: a message on label {label:#x}, unknown", end.0);
            return violations.push(Violation(what));
        };
        let seen = self.seen.entry(end).or_insert_with(|| Seen { flow, ..Seen::default() });
        if !seen.take(number, f.class == Reliability::ReliableOrdered) {
            violations.push(Violation(format!(
                "host {}: message {number} of flow {flow} ({:?}) came a second time or out of \
                 order, next is {}",
                end.0, f.class, seen.next
            )));
        }
        if f.epoch < 256 && !intact(seed_of(flow, epoch, number)) {
            violations.push(Violation(format!(
                "host {}: message {number} of flow {flow} is not what was sent",
                end.0
            )));
        }
        self.delivered += 1;
        self.delivered_bytes += u64::from(len);
    }

    /// At rest, of the channels that still stand: what was sent was delivered or dropped, each
    /// once, what was acknowledged was delivered, and both sides count alike.
    pub(super) fn check(&self, world: &World) -> Vec<String> {
        let mut wrong = Vec::new();
        for ((host, association, channel), seen) in &self.seen {
            let f = &self.all[seen.flow];
            let counters = |host: usize, association, channel| {
                let node: Option<&towpath_node::Node> = world.hosts[host].node.as_ref();
                node?.channel_stats(association, channel)
            };
            let Some((a, c)) = f.channel.filter(|_| f.to == *host) else { continue };
            let (Some(sent), Some(got)) =
                (counters(f.from, a, c), counters(*host, *association, *channel))
            else {
                continue;
            };
            if c != *channel {
                continue;
            }
            let right = sent.messages_sent + sent.abandoned == f.sent
                && got.messages_received == seen.count
                && got.messages_received + got.dropped == f.sent
                && got.messages_received >= sent.messages_sent;
            if !right {
                wrong.push(format!(
                    "flow {} -> {host} ({:?}): {} sent, {} acknowledged, {} given up; {} arrived, \
                     {} of them told, {} dropped",
                    f.from,
                    f.class,
                    f.sent,
                    sent.messages_sent,
                    sent.abandoned,
                    got.messages_received,
                    seen.count,
                    got.dropped
                ));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_time_and_a_wrong_order_are_noticed() {
        let mut seen = Seen::default();
        assert!([0, 1, 2].into_iter().all(|n| seen.take(n, true)));
        assert!(!seen.take(1, true) && !seen.take(4, true));
        let mut seen = Seen::default();
        assert!([1, 0, 4, 3].into_iter().all(|n| seen.take(n, false)));
        assert!(!seen.take(0, false) && !seen.take(4, false));
        assert!(seen.take(2, false) && seen.next == 5 && seen.beyond.is_empty());
    }
}
