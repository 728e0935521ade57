//! What daemons of other machines measure: a daemon asks theirs on a channel of its own, where it is
//! told as a client is, and hands that on to the client that asked. Control and tasks' messages go
//! before it.

use std::collections::BTreeMap;
use std::time::Duration;

use towpath_proto::association::Opening;
use towpath_proto::{AssociationEvent, AssociationId, Block, Memory};
use towpath_vm::message::LABEL_OWNER;
use towpath_vm::metrics::Subscription;
use towpath_vm::metrics::subscription::BACKLOG_MAX;
use towpath_wire::frame::{ChannelOpen, Direction};
use towpath_wire::{ChannelId, HostId, Instant};

use super::core::Engine;
use super::metrics::Everything;
use crate::protocol::Reply;

/// Of the channels on which a daemon tells another what it measures.
pub(super) const LABEL_METRICS: u16 = LABEL_OWNER;
/// Room of such a channel, in bytes.
const WINDOW: u32 = 256 << 10;
/// Readers at other hosts that a daemon tells what it measures; and clients of a daemon that other
/// hosts tell.
const REMOTE_MAX: usize = 64;
/// Of the former, those of one host.
const HOST_MAX: usize = 8;
/// How long a host may take to answer a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Why a channel is finished: it was told all, its client is gone, or there are too many.
const DONE: u16 = 0;
const TOO_MANY: u16 = 1;

type Wire = (AssociationId, ChannelId);

/// Those at other hosts whom this daemon tells, and clients here whom other daemons tell.
#[derive(Default)]
pub(super) struct Remote {
    told: BTreeMap<Wire, Told>,
    asked: BTreeMap<Wire, Asked>,
    /// Clients whose host is not connected yet.
    unconnected: BTreeMap<u64, Wish>,
}

/// A reader at another host. Until it has said how often, there is no subscription.
#[derive(Default)]
struct Told {
    subscription: Option<Subscription>,
    /// Bytes that it has not got yet.
    under_way: usize,
}

/// A client here that another host tells.
struct Asked {
    client: u64,
    host: HostId,
    /// Lengths of what came and the client has not read: room that the other host does not have.
    owed: Vec<u32>,
}

/// What a client wants to be told of a host.
struct Wish {
    host: HostId,
    every_ms: Option<u32>,
    until: Instant,
}

/// How often, as a message.
fn said(every_ms: Option<u32>) -> [u8; 4] {
    every_ms.unwrap_or(0).to_le_bytes()
}

fn heard(bytes: &[u8]) -> Option<Option<u32>> {
    let ms = u32::from_le_bytes(bytes.try_into().ok()?);
    Some((ms > 0).then_some(ms))
}

impl Engine {
    /// A client wants to be told what another host measures.
    pub(super) fn observe_there(&mut self, client: u64, host: HostId, every_ms: Option<u32>) {
        if self.remote.asked.len() + self.remote.unconnected.len() >= REMOTE_MAX {
            let why = format!(
                "{REMOTE_MAX} are told by this daemon what other hosts measure, no more are\n\
                 hint: end one of the programs that ask `towpath metrics --every`"
            );
            return self.reply(client, &Reply::Failed(why));
        }
        if self.remote.unconnected.contains_key(&client) {
            let why = "this connection asks another host already\n\
                       hint: make another connection for another host";
            return self.reply(client, &Reply::Failed(why.into()));
        }
        let now = self.clock.now();
        self.node.connect_to(now, host, &mut self.memory);
        let wish = Wish { host, every_ms, until: now + PATIENCE };
        self.remote.unconnected.insert(client, wish);
        self.ask_connected(now);
    }

    /// Asks the hosts that are connected by now; tells the clients of those that do not answer.
    fn ask_connected(&mut self, now: Instant) {
        let all = std::mem::take(&mut self.remote.unconnected);
        for (client, wish) in all {
            if !self.clients.all.contains_key(&client) {
                continue;
            }
            let asked = self.node.association_to(wish.host).and_then(|id| self.ask(id, &wish));
            if let Some(wire) = asked {
                let asked = Asked { client, host: wish.host, owed: Vec::new() };
                self.remote.asked.insert(wire, asked);
            } else if now >= wish.until {
                let why = format!("host {} does not answer", wish.host);
                self.reply(client, &Reply::Failed(why));
            } else {
                self.remote.unconnected.insert(client, wish);
            }
        }
    }

    fn ask(&mut self, id: AssociationId, wish: &Wish) -> Option<Wire> {
        let opening =
            Opening { window: Some(WINDOW), ..Opening::new(Direction::Both, LABEL_METRICS) };
        let channel = self.node.open_channel(id, opening)?;
        let block = self.memory.put(&said(wish.every_ms))?;
        if self.node.send(id, channel, block, 4).is_err() {
            self.memory.release(block);
        }
        self.pending.rushed = true;
        Some((id, channel))
    }

    /// Something happened on a channel between daemons.
    pub(super) fn on_daemons_channel(&mut self, id: AssociationId, event: AssociationEvent) {
        match event {
            AssociationEvent::Opened(open) => self.is_asked(id, &open),
            AssociationEvent::Message { channel, block, len, .. } => {
                self.came((id, channel), block, len);
            }
            AssociationEvent::Sent { channel, block, .. }
            | AssociationEvent::Abandoned { channel, block, .. } => {
                if let Some(told) = self.remote.told.get_mut(&(id, channel)) {
                    told.under_way -= self.memory.len(block) as usize;
                }
                self.memory.release(block);
            }
            AssociationEvent::Ended { channel } => self.ended((id, channel)),
            AssociationEvent::Over(_) => {
                self.remote.told.retain(|wire, _| wire.0 != id);
                let asked = &mut self.remote.asked;
                let over: Vec<Wire> = asked.keys().filter(|wire| wire.0 == id).copied().collect();
                let over: Vec<Asked> = over.iter().filter_map(|wire| asked.remove(wire)).collect();
                for asked in over {
                    let why = format!("the connection to host {} is over", asked.host);
                    self.reply(asked.client, &Reply::Failed(why));
                }
            }
            AssociationEvent::PathOffered { .. } | AssociationEvent::PathRetired { .. } => {}
        }
    }

    fn is_asked(&mut self, id: AssociationId, open: &ChannelOpen) {
        let of_host = self.remote.told.keys().filter(|wire| wire.0 == id).count();
        if self.remote.told.len() >= REMOTE_MAX || of_host >= HOST_MAX {
            self.node.finish_channel(id, open.channel, TOO_MANY);
        } else {
            self.remote.told.insert((id, open.channel), Told::default());
        }
    }

    fn came(&mut self, wire: Wire, block: Block, len: u32) {
        let bytes = self.memory.bytes(block)[..len as usize].to_vec();
        self.memory.release(block);
        if let Some(asked) = self.remote.asked.get_mut(&wire) {
            asked.owed.push(len);
            let client = asked.client;
            return self.reply(client, &Reply::Metrics(bytes));
        }
        self.node.consumed(wire.0, wire.1, len);
        let now = self.clock.now();
        if let Some(told) = self.remote.told.get_mut(&wire)
            && told.subscription.is_none()
            && let Some(every_ms) = heard(&bytes)
        {
            let every = every_ms.map(|ms| Duration::from_millis(ms.into()));
            let new = |every| Subscription::new(now, every);
            told.subscription = Some(every.map_or_else(|| Subscription::once(now), new));
        }
    }

    /// The other daemon says nothing more.
    fn ended(&mut self, wire: Wire) {
        if self.remote.told.remove(&wire).is_some() {
            self.node.finish_channel(wire.0, wire.1, DONE);
        } else if let Some(asked) = self.remote.asked.remove(&wire) {
            self.node.finish_channel(wire.0, wire.1, DONE);
            // Who asked once, and has it all, is gone by now, or goes without reading this.
            let why = format!(
                "host {} tells no more of what it measures: it has told all, or has as many readers \
                 as it takes, {HOST_MAX} of one host",
                asked.host
            );
            self.reply(asked.client, &Reply::Failed(why));
        }
    }

    /// Tells other hosts what is due, of each a turn; gives room to those whose clients read.
    pub(super) fn serve_remote(&mut self) {
        let now = self.clock.now();
        if !self.remote.unconnected.is_empty() {
            self.ask_connected(now);
        }
        self.hand_on();
        if self.remote_due().is_none_or(|due| due > now) {
            return;
        }
        let wires: Vec<Wire> = self.remote.told.keys().copied().collect();
        for wire in wires {
            self.tell_remote(now, wire);
        }
    }

    fn tell_remote(&mut self, now: Instant, (id, channel): Wire) {
        let Some(told) = self.remote.told.get_mut(&(id, channel)) else { return };
        let Some(mut subscription) = told.subscription.take() else { return };
        let delta = subscription.turn(now, told.under_way, &mut Everything(self));
        let over = subscription.is_over();
        let Some(told) = self.remote.told.get_mut(&(id, channel)) else { return };
        told.subscription = Some(subscription);
        if let Some(delta) = delta {
            let len = delta.len() as u32;
            let Some(block) = self.memory.store(delta) else { return };
            if self.node.send(id, channel, block, len).is_ok() {
                told.under_way += len as usize;
                self.pending.rushed = true;
            } else {
                self.memory.release(block);
            }
        }
        if over {
            self.remote.told.remove(&(id, channel));
            self.node.finish_channel(id, channel, DONE);
        }
    }

    /// Clients that have gone are told no more; of what the others have read the room is given back.
    fn hand_on(&mut self) {
        let Self { remote, clients, node, .. } = self;
        remote.asked.retain(|(id, channel), asked| {
            let Some(client) = clients.all.get(&asked.client) else {
                node.finish_channel(*id, *channel, DONE);
                return false;
            };
            if client.backlog() <= BACKLOG_MAX {
                asked.owed.drain(..).for_each(|len| node.consumed(*id, *channel, len));
            }
            true
        });
    }

    /// When [`Engine::serve_remote`] has something to do that no event brings.
    pub(super) fn remote_due(&self) -> Option<Instant> {
        let told = self.remote.told.values();
        let due = told.filter_map(|told| told.subscription.as_ref()?.due(told.under_way));
        due.chain(self.remote.unconnected.values().map(|wish| wish.until)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::{heard, said};

    #[test]
    fn what_is_said_is_heard_and_nothing_else() {
        for every in [None, Some(1), Some(u32::MAX)] {
            assert_eq!(heard(&said(every)), Some(every));
        }
        assert_eq!((heard(b""), heard(b"12345")), (None, None));
    }
}
