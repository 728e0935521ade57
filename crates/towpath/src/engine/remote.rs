//! What daemons of other machines measure: a daemon asks theirs on a channel of its own, where it
//! is told as a client is, and hands that on to the client that asked. Control and tasks' messages
//! go before it.

use std::collections::BTreeMap;
use std::ops::Bound;
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
use super::requests::Clients;
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
/// Readers that are told something in one turn.
const TELLINGS: usize = 4;
/// How long a host may take to answer a connection, and then the question.
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
    /// Who was told something last.
    last: Option<Wire>,
}

impl Remote {
    /// A client that waits for what another host tells, or is told.
    fn has(&self, client: u64) -> bool {
        self.unconnected.contains_key(&client) || self.asked.values().any(|a| a.client == client)
    }
}

/// A reader at another host. Until it has said how often, there is no subscription.
#[derive(Default)]
struct Told {
    subscription: Option<Subscription>,
    /// Bytes that it has not got yet.
    under_way: usize,
}

impl Told {
    fn due(&self) -> Option<Instant> {
        self.subscription.as_ref()?.due(self.under_way)
    }
}

/// A client here that another host tells.
struct Asked {
    client: u64,
    host: HostId,
    once: bool,
    /// When it has to have said something; none: it has.
    until: Option<Instant>,
    /// Lengths of what came and the client has not read: room that the other host does not have.
    owed: Vec<u32>,
}

/// What a client wants to be told of a host.
struct Wish {
    host: HostId,
    every_ms: Option<u32>,
    until: Instant,
}

/// How often, as a message: milliseconds, 0 for once.
fn said(every_ms: Option<u32>) -> [u8; 4] {
    every_ms.map_or(0, |ms| ms.max(1)).to_le_bytes()
}

fn heard(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

impl Engine {
    /// A client wants to be told what another host measures.
    pub(super) fn observe_there(&mut self, client: u64, host: HostId, every_ms: Option<u32>) {
        if self.clients.remote.asked.len() + self.clients.remote.unconnected.len() >= REMOTE_MAX {
            let why = format!(
                "{REMOTE_MAX} are told by this daemon what other hosts measure, no more are\n\
                 hint: end one of the programs that ask `towpath metrics --every`"
            );
            return self.reply(client, &Reply::Failed(why));
        }
        if self.clients.remote.has(client) {
            let why = "this connection asks another host already\n\
                       hint: make another connection for another host";
            return self.reply(client, &Reply::Failed(why.into()));
        }
        let now = self.clock.now();
        self.node.connect_to(now, host, &mut self.memory);
        let wish = Wish { host, every_ms, until: now + PATIENCE };
        self.clients.remote.unconnected.insert(client, wish);
        if let Some(client) = self.clients.all.get_mut(&client) {
            client.reads_others = true;
        }
        self.ask_connected(now);
    }

    /// A client is not told of another host any more: why, unless it has all that it asked for.
    fn told_no_more(&mut self, client: u64, why: Option<String>) {
        if let Some(conn) = self.clients.all.get_mut(&client) {
            conn.reads_others = false;
        }
        if let Some(why) = why {
            self.reply(client, &Reply::Failed(why));
        }
    }

    /// Asks the hosts that are connected by now; tells the clients of those that do not answer.
    fn ask_connected(&mut self, now: Instant) {
        let all = std::mem::take(&mut self.clients.remote.unconnected);
        for (client, wish) in all {
            if !self.clients.all.contains_key(&client) {
                continue;
            }
            let asked = self.node.association_to(wish.host).and_then(|id| self.ask(id, &wish));
            if let Some(wire) = asked {
                let (once, until) = (wish.every_ms.is_none(), Some(now + PATIENCE));
                let asked = Asked { client, host: wish.host, once, until, owed: Vec::new() };
                self.clients.remote.asked.insert(wire, asked);
            } else if now >= wish.until {
                let why = format!("host {} does not answer", wish.host);
                self.told_no_more(client, Some(why));
            } else {
                self.clients.remote.unconnected.insert(client, wish);
            }
        }
    }

    fn ask(&mut self, id: AssociationId, wish: &Wish) -> Option<Wire> {
        let opening =
            Opening { window: Some(WINDOW), ..Opening::new(Direction::Both, LABEL_METRICS) };
        let block = self.memory.put(&said(wish.every_ms))?;
        let Some(channel) = self.node.open_channel(id, opening) else {
            self.memory.release(block);
            return None;
        };
        self.pending.rushed = true;
        if self.node.send(id, channel, block, 4).is_err() {
            self.memory.release(block);
            self.node.finish_channel(id, channel, DONE);
            return None;
        }
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
                if let Some(told) = self.clients.remote.told.get_mut(&(id, channel)) {
                    told.under_way -= self.memory.len(block) as usize;
                }
                self.memory.release(block);
            }
            AssociationEvent::Ended { channel } => self.ended((id, channel)),
            AssociationEvent::Over(_) => {
                self.clients.remote.told.retain(|wire, _| wire.0 != id);
                let asked = &mut self.clients.remote.asked;
                let over: Vec<Wire> = asked.keys().filter(|wire| wire.0 == id).copied().collect();
                let over: Vec<Asked> = over.iter().filter_map(|wire| asked.remove(wire)).collect();
                for asked in over {
                    let why = format!("the connection to host {} is over", asked.host);
                    self.told_no_more(asked.client, Some(why));
                }
            }
            AssociationEvent::PathOffered { .. }
            | AssociationEvent::PathRetired { .. }
            | AssociationEvent::Noted(_)
            | AssociationEvent::Silent
            | AssociationEvent::Heard => {}
        }
    }

    fn is_asked(&mut self, id: AssociationId, open: &ChannelOpen) {
        let of_host = self.clients.remote.told.keys().filter(|wire| wire.0 == id).count();
        if self.clients.remote.told.len() >= REMOTE_MAX || of_host >= HOST_MAX {
            self.node.finish_channel(id, open.channel, TOO_MANY);
        } else {
            self.clients.remote.told.insert((id, open.channel), Told::default());
        }
    }

    fn came(&mut self, wire: Wire, block: Block, len: u32) {
        let bytes = self.memory.bytes(block)[..len as usize].to_vec();
        self.memory.release(block);
        if let Some(asked) = self.clients.remote.asked.get_mut(&wire) {
            asked.until = None;
            asked.owed.push(len);
            let client = asked.client;
            return self.reply(client, &Reply::Metrics(bytes));
        }
        self.node.consumed(wire.0, wire.1, len);
        let now = self.clock.now();
        if let Some(told) = self.clients.remote.told.get_mut(&wire)
            && told.subscription.is_none()
            && let Some(ms) = heard(&bytes)
        {
            told.subscription = Some(match ms {
                0 => Subscription::once(now),
                ms => Subscription::new(now, Duration::from_millis(ms.into())),
            });
        }
    }

    /// The other daemon says nothing more.
    fn ended(&mut self, wire: Wire) {
        self.clients.remote.told.remove(&wire);
        if let Some(asked) = self.clients.remote.asked.remove(&wire) {
            let has_all = asked.once && asked.until.is_none();
            let why = (!has_all).then(|| {
                format!(
                    "host {} tells nothing of what it measures: it has as many readers \
                     as it takes, {HOST_MAX} of one host\nhint: end one of the programs that \
                     ask for it with `towpath metrics --every`",
                    asked.host
                )
            });
            self.told_no_more(asked.client, why);
            asked.owed.iter().for_each(|len| self.node.consumed(wire.0, wire.1, *len));
        }
        self.node.finish_channel(wire.0, wire.1, DONE);
    }

    /// Tells other hosts what is due, of each a turn; gives room to those whose clients read.
    pub(super) fn serve_remote(&mut self) {
        let now = self.clock.now();
        if !self.clients.remote.unconnected.is_empty() {
            self.ask_connected(now);
        }
        self.hand_on(now);
        if self.remote_due().is_none_or(|due| due > now) {
            return;
        }
        let told = &self.clients.remote.told;
        let last = self.clients.remote.last.map_or(Bound::Unbounded, Bound::Excluded);
        let in_turn = told.range((last, Bound::Unbounded)).chain(told);
        let due = in_turn.filter(|(_, told)| told.due().is_some_and(|due| due <= now));
        let wires: Vec<Wire> = due.map(|(wire, _)| *wire).take(TELLINGS.min(told.len())).collect();
        for wire in wires {
            self.clients.remote.last = Some(wire);
            self.tell_remote(now, wire);
        }
    }

    fn tell_remote(&mut self, now: Instant, (id, channel): Wire) {
        let Some(told) = self.clients.remote.told.get_mut(&(id, channel)) else { return };
        let Some(mut subscription) = told.subscription.take() else { return };
        let delta = subscription.turn(now, told.under_way, &mut Everything(self));
        let over = subscription.is_over();
        let Some(told) = self.clients.remote.told.get_mut(&(id, channel)) else { return };
        told.subscription = Some(subscription);
        self.pending.rushed = true;
        let mut lost = false;
        if let Some(delta) = delta {
            let len = delta.len() as u32;
            let block = self.memory.store(delta);
            let sent = block.is_some_and(|block| {
                let sent = self.node.send(id, channel, block, len).is_ok();
                if !sent {
                    self.memory.release(block);
                }
                sent
            });
            told.under_way += if sent { len as usize } else { 0 };
            // What was counted as told would be missing for ever.
            lost = !sent;
        }
        if over || lost {
            self.clients.remote.told.remove(&(id, channel));
            self.node.finish_channel(id, channel, DONE);
        }
    }

    /// Clients that have gone are told no more; of what the others have read the room is given
    /// back.
    fn hand_on(&mut self, now: Instant) {
        let Self { clients, node, pending, .. } = self;
        let Clients { remote, all, .. } = clients;
        remote.asked.retain(|(id, channel), asked| {
            let client = all.get_mut(&asked.client);
            let reads = client.as_ref().is_none_or(|client| client.backlog() <= BACKLOG_MAX);
            if reads && !asked.owed.is_empty() {
                asked.owed.drain(..).for_each(|len| node.consumed(*id, *channel, len));
                pending.rushed = true;
            }
            let late = asked.until.is_some_and(|until| until <= now);
            if let Some(client) = client {
                if !late {
                    return true;
                }
                client.reads_others = false;
                client.reply(&Reply::Failed(format!("host {} does not answer", asked.host)));
            }
            node.finish_channel(*id, *channel, DONE);
            pending.rushed = true;
            false
        });
    }

    /// When [`Engine::serve_remote`] has something to do that no event brings.
    pub(super) fn remote_due(&self) -> Option<Instant> {
        let due = self.clients.remote.told.values().filter_map(Told::due);
        let unanswered = self.clients.remote.asked.values().filter_map(|asked| asked.until);
        let unconnected = self.clients.remote.unconnected.values().map(|wish| wish.until);
        due.chain(unanswered).chain(unconnected).min()
    }
}

#[cfg(test)]
mod tests {
    use super::{heard, said};

    #[test]
    fn what_is_said_is_heard_and_nothing_else() {
        for (every, ms) in [(None, 0), (Some(0), 1), (Some(1), 1), (Some(u32::MAX), u32::MAX)] {
            assert_eq!(heard(&said(every)), Some(ms));
        }
        assert_eq!((heard(b""), heard(b"12345")), (None, None));
    }
}
