//! Message flows between hosts, and the checker of their delivery.

use std::collections::{BTreeMap, VecDeque};

use towpath_node::NodeEvent;
use towpath_proto::{AssociationEvent, AssociationId, Memory, Rng};
use towpath_wire::ChannelId;

use super::run::Violation;
use crate::memory::VIRTUAL_LABEL;
use crate::scenario::between;
use crate::world::World;

/// Messages of one flow that wait in its channel at most.
const WAITING_MAX: usize = 32;
/// Flows and epochs that a label can name.
const FLOWS_MAX: usize = 128;

/// A flow restarts on a new channel when its association ends: that is a new epoch.
#[derive(Debug)]
struct Flow {
    from: usize,
    to: usize,
    bytes_left: u64,
    epoch: u16,
    channel: Option<(AssociationId, ChannelId)>,
    /// Messages sent in this epoch.
    sent: u64,
    /// Lengths of those not acknowledged, oldest first.
    waiting: VecDeque<u32>,
    rng: Rng,
}

impl Flow {
    /// Goes on in a new epoch; as much as was not acknowledged is sent again.
    fn restart(&mut self) {
        self.bytes_left += self.waiting.drain(..).map(u64::from).sum::<u64>();
        (self.channel, self.sent) = (None, 0);
        self.epoch += 1;
    }

    fn done(&self) -> bool {
        self.bytes_left == 0 && self.waiting.is_empty()
    }
}

/// All flows, and what their receivers have seen.
#[derive(Debug)]
pub(super) struct Flows {
    all: Vec<Flow>,
    message_max: u32,
    /// Next message number expected, by (host, association, channel).
    expected: BTreeMap<(usize, AssociationId, ChannelId), u64>,
    pub(super) delivered_bytes: u64,
    pub(super) delivered: u64,
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
            let own = Rng::new(rng.u64(), i as u64);
            Flow {
                from,
                to,
                bytes_left,
                epoch: 0,
                channel: None,
                sent: 0,
                waiting: VecDeque::new(),
                rng: own,
            }
        };
        Self {
            all: (0..count).map(|i| flow(i, rng)).collect(),
            message_max: max,
            expected: BTreeMap::new(),
            delivered_bytes: 0,
            delivered: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// True when everything was sent and acknowledged.
    pub(super) fn done(&self) -> bool {
        self.all.iter().all(Flow::done)
    }

    /// What is missing, for the report.
    pub(super) fn missing(&self) -> Vec<String> {
        let open = |f: &&Flow| !f.done();
        let text = |f: &Flow| {
            format!(
                "flow {} -> {}: {} bytes not sent, {} messages not acknowledged, channel {:?}",
                f.from,
                f.to,
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
        let label = VIRTUAL_LABEL | (f.epoch % 256) << 7 | i as u16;
        let opened = world.with(f.from, |node, now, memory| {
            if !node.hosts().any(|h| h.id == to && h.state == towpath_vm::HostState::Up) {
                return None;
            }
            node.connect_to(now, to, memory);
            let association = node.association_to(to)?;
            let channel = node.open_channel(association, label, 10 + i as u16 % 3)?;
            Some((association, channel))
        });
        f.channel = opened.flatten();
    }

    fn send(&mut self, world: &mut World, i: usize) {
        let max = self.message_max;
        let f = &mut self.all[i];
        let Some((association, channel)) = f.channel else { return };
        while f.bytes_left > 0 && f.waiting.len() < WAITING_MAX {
            let len = match f.rng.below(10) {
                0 => between(&mut f.rng, 0, 20),
                1..=4 => between(&mut f.rng, 0, 3000),
                _ => between(&mut f.rng, 0, max.into()),
            };
            let len = len.min(f.bytes_left) as u32;
            let seed = seed_of(i, f.epoch, f.sent);
            let sent = world.with(f.from, |node, _, memory| {
                let block = memory.bulk(seed, len)?;
                if node.send(association, channel, block, len).is_err() {
                    memory.release(block);
                    return None;
                }
                Some(())
            });
            if sent.flatten().is_none() {
                break;
            }
            f.sent += 1;
            f.waiting.push_back(len);
            f.bytes_left -= u64::from(len).min(f.bytes_left);
        }
    }

    /// An association of `host` ended: flows on it start a new epoch.
    fn ended(&mut self, host: usize, association: AssociationId) {
        self.expected.retain(|(h, a, _), _| (*h, *a) != (host, association));
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
            AssociationEvent::Sent { channel, block, .. } => {
                world.with(host, |_, _, memory| memory.release(*block));
                let at = Some((association, *channel));
                if let Some(f) = self.all.iter_mut().find(|f| f.from == host && f.channel == at) {
                    f.waiting.pop_front();
                }
                self.tick(world);
            }
            AssociationEvent::Message { channel, label, number, block, len } => {
                let key = (host, association, *channel);
                let expected = self.expected.entry(key).or_insert(0);
                if *number != *expected {
                    violations.push(Violation(format!(
                        "host {host}: message {number} on label {label:#x}, expected {expected}"
                    )));
                }
                *expected = number + 1;
                let (flow, epoch) = (usize::from(label & 0x7f), (label & 0x7fff) >> 7);
                let seed = seed_of(flow, epoch, *number);
                let intact = world.hosts[host].memory.is_bulk(*block, seed, *len);
                if !intact && self.all.get(flow).is_some_and(|f| f.epoch < 256) {
                    violations.push(Violation(format!(
                        "host {host}: message {number} of flow {flow} is not what was sent"
                    )));
                }
                self.delivered += 1;
                self.delivered_bytes += u64::from(*len);
                world.with(host, |node, _, memory| {
                    memory.release(*block);
                    node.consumed(association, *channel, *len);
                });
            }
            AssociationEvent::Abandoned { block, .. } => {
                // Flows run on reliable channels.
                violations.push(Violation(format!("host {host}: a reliable message given up")));
                world.with(host, |_, _, memory| memory.release(*block));
            }
            AssociationEvent::Opened { .. } | AssociationEvent::Ended { .. } => {}
        }
        true
    }
}
