//! Sequences of operations into two endpoints joined by an adversarial in-memory network, by one
//! link or by two.
//!
//! Always: no panic, poll loops end, message memory stays within its limit and all of it is back
//! once both associations are over, and what the protocol keeps beside it stays within
//! [`HEAP_MAX`]. As long as nobody closed, and nobody sealed garbage with the right keys: the
//! messages of a channel arrive exactly once and whole, in order where the channel keeps it,
//! whatever the network does; and each that does not arrive was given up by its sender.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use towpath_proto::association::Opening;
use towpath_proto::config::Liveness;
use towpath_proto::endpoint::Answer;
use towpath_proto::machine::nonce;
use towpath_proto::{
    AssociationEvent, AssociationId, Block, Config, Connect, Crypto, Endpoint, EndpointEvent,
    Grant, HeapMemory, Machine, Memory, PathChange, Psk, Rng, RxMeta, TxBatch,
};
use towpath_wire::packet::{DATA_HEADER, Data, TAG};
use towpath_wire::{Admission, ByteSize, ChannelId, Instant, LinkId, PathId, Reliability};

/// Each host has both; the second carries nothing before a path is opened there.
const LINKS: [LinkId; 2] = [LinkId(0), LinkId(1)];

use crate::allocation;
use crate::hostile::{Hostile, content, direction_of, reliability_of};
use crate::keys::{Heard, Tapped};
pub use crate::operation::Operation;

/// Message memory of each host.
const MEMORY: ByteSize = ByteSize::from_mib(1);
/// Growth of the whole process's heap during one sequence at most: both message memories, the
/// datagrams under way, and the bookkeeping of two associations.
const HEAP_MAX: usize = 24 << 20;
/// Turns of a poll loop without time passing.
const TURNS_MAX: usize = 20_000;
/// Datagrams under way; more are dropped.
const FLIGHT_MAX: usize = 2048;
const OPERATIONS_MAX: usize = 400;

/// A datagram under way.
#[derive(Clone)]
struct Datagram {
    to: usize,
    link: LinkId,
    bytes: Vec<u8>,
}

struct Host {
    endpoint: Endpoint,
    memory: HeapMemory,
    heard: Heard,
    id: Option<AssociationId>,
    channels: Vec<ChannelId>,
    unread: Vec<(ChannelId, Block, u32)>,
    /// Messages accepted for sending, and delivered to the owner, per channel.
    sent: HashMap<ChannelId, Vec<u32>>,
    arrived: HashMap<ChannelId, Vec<u64>>,
    /// Messages that were given up, per channel.
    abandoned: HashMap<ChannelId, Vec<u64>>,
    classes: HashMap<ChannelId, Reliability>,
    finished: Vec<ChannelId>,
    ended: Vec<ChannelId>,
}

struct World {
    now: Instant,
    hosts: [Host; 2],
    flight: Vec<Datagram>,
    /// By link.
    silent: [bool; 2],
    /// Nobody closed and nobody forged: the promises hold.
    honest: bool,
    forged: u64,
    buf: Vec<u8>,
}

fn address(n: usize, link: LinkId) -> SocketAddr {
    ([10, link.0 as u8, 0, n as u8], 7000).into()
}

fn config() -> Config {
    Config {
        window: 8192,
        window_max: 16_384,
        credit_max: 6 * 16_384,
        channels_max: 6,
        messages_max: 64,
        associations_max: 4,
        liveness: Liveness {
            keepalive: Duration::from_millis(500),
            ..Liveness::after(Duration::from_secs(3600))
        },
        ..Config::default()
    }
}

fn byte(channel: ChannelId, number: u64, at: usize) -> u8 {
    (u64::from(channel.0) * 31 + number * 7 + at as u64 * 13) as u8
}

impl Host {
    fn new(n: usize) -> Self {
        let heard = Heard::default();
        let crypto = Tapped::new(n as u64 + 1, heard.clone());
        Self {
            endpoint: Endpoint::new(config(), Box::new(crypto), Rng::new(n as u64, 2)),
            memory: HeapMemory::new(MEMORY),
            heard,
            id: None,
            channels: Vec::new(),
            unread: Vec::new(),
            sent: HashMap::new(),
            arrived: HashMap::new(),
            abandoned: HashMap::new(),
            classes: HashMap::new(),
            finished: Vec::new(),
            ended: Vec::new(),
        }
    }

    fn channel(&self, n: u8) -> Option<ChannelId> {
        self.channels.get(usize::from(n) % self.channels.len().max(1)).copied()
    }

    fn consume(&mut self, all: bool) {
        let n = if all { self.unread.len() } else { self.unread.len().min(1) };
        for (channel, block, len) in self.unread.drain(..n) {
            self.memory.release(block);
            if let Some(id) = self.id {
                self.endpoint.consumed(id, channel, len);
            }
        }
    }

    fn send(&mut self, channel: ChannelId, len: u16, deadline: Instant) {
        let number = self.sent.get(&channel).map_or(0, Vec::len) as u64;
        let bytes: Vec<u8> = (0..usize::from(len)).map(|at| byte(channel, number, at)).collect();
        let Some(id) = self.id else { return };
        let Some(block) = self.memory.put(&bytes) else { return };
        match self.endpoint.send_by(id, channel, block, len.into(), deadline) {
            Ok(n) => {
                assert_eq!(n, number, "messages are numbered in the order they were sent");
                self.sent.entry(channel).or_default().push(len.into());
            }
            Err(_) => self.memory.release(block),
        }
    }
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            now: Instant::ZERO,
            hosts: [Host::new(0), Host::new(1)],
            flight: Vec::new(),
            silent: [false; 2],
            honest: true,
            forged: 0,
            buf: vec![0; 16 * 1024],
        };
        let connect = Connect {
            link: LINKS[0],
            remote: address(1, LINKS[0]),
            key: world.hosts[1].endpoint.public_key(),
            admission: Admission::Member,
            psk: Psk::MEMBER,
            hello: b"",
        };
        world.hosts[0].endpoint.connect(world.now, &connect).expect("an empty table");
        world.settle();
        assert!(world.hosts.iter().all(|h| h.id.is_some()), "they connect");
        world
    }

    fn events(&mut self, side: usize) {
        for _ in 0..TURNS_MAX {
            let Some(event) = self.hosts[side].endpoint.poll_event() else { return };
            match event {
                EndpointEvent::Incoming { id, .. } => {
                    let answer = Answer::Accept { psk: Psk::MEMBER, hello: b"" };
                    self.hosts[side].endpoint.answer(self.now, id, &answer);
                }
                EndpointEvent::Connected { id, .. } => self.hosts[side].id = Some(id),
                EndpointEvent::ConnectFailed { .. } => {}
                EndpointEvent::Association { event, .. } => self.association_event(side, event),
            }
        }
        panic!("events end");
    }

    fn association_event(&mut self, side: usize, event: AssociationEvent) {
        let peer_sent = |world: &Self, channel, number: u64| {
            let sent = world.hosts[1 - side].sent.get(&channel)?;
            sent.get(number as usize).copied()
        };
        match event {
            AssociationEvent::Opened(open) => {
                let channel = open.channel;
                let channels = &mut self.hosts[side].channels;
                assert!(!channels.contains(&channel), "a channel is opened once");
                channels.push(channel);
            }
            AssociationEvent::Message { channel, number, block, len, .. } => {
                let expected = peer_sent(self, channel, number);
                let host = &mut self.hosts[side];
                let arrived = host.arrived.entry(channel).or_default();
                let class = host.classes.get(&channel);
                if self.honest && class == Some(&Reliability::ReliableOrdered) {
                    assert_eq!(number, arrived.len() as u64, "in order");
                }
                // A hostile peer can make it many: look only among the latest.
                let latest = &arrived[arrived.len().saturating_sub(1000)..];
                assert!(!latest.contains(&number), "exactly once");
                arrived.push(number);
                assert!(!host.ended.contains(&channel), "nothing comes after the end");
                let bytes = host.memory.bytes(block);
                assert_eq!(bytes.len(), len as usize);
                if self.honest {
                    assert_eq!(Some(len), expected, "what was sent");
                    let whole = |(at, b): (usize, &u8)| *b == byte(channel, number, at);
                    assert!(bytes.iter().enumerate().all(whole), "intact");
                }
                host.unread.push((channel, block, len));
            }
            AssociationEvent::Sent { block, .. } => self.hosts[side].memory.release(block),
            AssociationEvent::Abandoned { channel, number, block } => {
                let host = &mut self.hosts[side];
                let lossy = host.classes.get(&channel);
                let lossy = matches!(lossy, Some(Reliability::Timely | Reliability::Unreliable));
                assert!(lossy || !self.honest, "a reliable message was given up");
                let abandoned = host.abandoned.entry(channel).or_default();
                assert!(!abandoned.contains(&number), "given up once");
                abandoned.push(number);
                host.memory.release(block);
            }
            AssociationEvent::Ended { channel } => {
                let finished = self.hosts[1 - side].finished.contains(&channel);
                let host = &mut self.hosts[side];
                assert!(!host.ended.contains(&channel), "the end is told once");
                host.ended.push(channel);
                if self.honest {
                    assert!(finished, "the peer said so");
                    self.check_channel(1 - side, channel);
                }
            }
            AssociationEvent::PathOffered { link, remote, .. } => {
                let other = (LINKS[1], address(1 - side, LINKS[1]));
                assert!(!self.honest || (link, remote) == other, "an address of the peer's");
                self.open_path(side);
            }
            AssociationEvent::PathRetired { .. } => {}
            AssociationEvent::Noted(_) => assert!(!self.honest, "nobody makes notes"),
            // Time may jump here: whoever is heard again was silent.
            AssociationEvent::Silent | AssociationEvent::Heard => {}
            AssociationEvent::Over(end) => {
                assert!(!self.honest, "nobody closed or broke a rule: {end:?}");
                self.hosts[side].id = None;
            }
        }
    }

    fn transmit(&mut self, side: usize, bytes: usize) -> bool {
        LINKS.iter().fold(false, |any, link| self.transmit_by(side, *link, bytes) | any)
    }

    fn transmit_by(&mut self, side: usize, link: LinkId, bytes: usize) -> bool {
        let mut any = false;
        for _ in 0..TURNS_MAX {
            let h = &mut self.hosts[side];
            let grant = Grant { bytes, ..Grant::free(link) };
            let mut batch = TxBatch::new(&mut self.buf, &h.memory, 16);
            let Some(t) = h.endpoint.poll_transmit(self.now, grant, &mut batch) else {
                return any;
            };
            any = true;
            let handshake = self.buf[0] != 4;
            assert!(handshake || t.len <= bytes, "{} B, granted {bytes} B", t.len);
            assert!(t.len > 0 && t.len <= self.buf.len());
            assert_eq!(t.link, link, "by the link that was asked to be filled");
            let remote = address(1 - side, link);
            assert!(!self.honest || t.remote == remote, "{} is not on {link:?}", t.remote);
            for datagram in self.buf[..t.len].chunks(t.segment) {
                if self.flight.len() < FLIGHT_MAX && !self.silent[usize::from(link.0)] {
                    self.flight.push(Datagram { to: 1 - side, link, bytes: datagram.to_vec() });
                }
            }
        }
        panic!("poll_transmit ends");
    }

    fn deliver(&mut self, Datagram { to, link, mut bytes }: Datagram) {
        let rx = RxMeta { link, remote: address(1 - to, link), ecn: 0, late: Duration::ZERO };
        let h = &mut self.hosts[to];
        h.endpoint.handle_datagram(self.now, rx, &mut bytes, &mut h.memory);
        self.events(to);
    }

    fn advance(&mut self, by: Duration) {
        self.now += by;
        for side in 0..2 {
            for turn in 0.. {
                assert!(turn < TURNS_MAX, "timers end");
                let h = &mut self.hosts[side];
                if h.endpoint.poll_timeout().is_none_or(|(at, _)| at > self.now) {
                    break;
                }
                h.endpoint.handle_timeout(self.now, &mut h.memory);
                self.events(side);
                self.transmit(side, usize::MAX);
            }
        }
    }

    /// A perfect network at one instant, until nobody has anything to say.
    fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let sent = self.transmit(0, usize::MAX) | self.transmit(1, usize::MAX);
            if !sent && self.flight.is_empty() {
                return;
            }
            for datagram in std::mem::take(&mut self.flight) {
                self.deliver(datagram);
            }
        }
        panic!("two hosts on a perfect network come to rest");
    }

    fn forge(&mut self, side: usize, number: u8, frames: &[Hostile]) {
        let (Some(id), from) = (self.hosts[side].id, 1 - side) else { return };
        self.honest = false;
        self.forged += 1;
        let number = match number % 3 {
            0 => self.forged,
            1 => 2000 * self.forged,
            _ => u64::MAX - (self.forged % 4),
        };
        let content = content(frames);
        let mut packet = vec![0; DATA_HEADER + content.len() + TAG];
        packet[DATA_HEADER..DATA_HEADER + content.len()].copy_from_slice(&content);
        let (head, body) = packet.split_at_mut(DATA_HEADER);
        Data { epoch: 0, path: PathId(0), receiver: id.0, number }.emit(head);
        let secret = self.hosts[from].heard.borrow()[0];
        let crypto = Tapped::new(9, Heard::default());
        crypto.packet_key(&secret).seal(nonce(PathId(0), number), head, body);
        self.deliver(Datagram { to: side, link: LINKS[0], bytes: packet });
    }

    // tidy: dispatch
    fn step(&mut self, operation: &Operation) {
        match operation {
            Operation::Open { side, direction, reliability, priority } => {
                let h = &mut self.hosts[usize::from(*side)];
                let opening = Opening {
                    reliability: reliability_of(*reliability),
                    priority: (priority % 4).into(),
                    window: (*priority > 127).then(|| u32::from(*priority) << 7),
                    ..Opening::new(direction_of(*direction), 7)
                };
                if let Some(channel) = h.id.and_then(|id| h.endpoint.open(id, opening)) {
                    assert!(!h.channels.contains(&channel), "no number is used twice");
                    h.channels.push(channel);
                    for h in &mut self.hosts {
                        h.classes.insert(channel, opening.reliability);
                    }
                }
            }
            Operation::Send { side, channel, len } => {
                let h = &mut self.hosts[usize::from(*side)];
                if let Some(channel) = h.channel(*channel) {
                    h.send(channel, *len, Instant::NEVER);
                }
            }
            Operation::SendBy { side, channel, len, within_ms } => {
                let deadline = self.now + Duration::from_millis((*within_ms).into());
                let h = &mut self.hosts[usize::from(*side)];
                if let Some(channel) = h.channel(*channel) {
                    h.send(channel, *len, deadline);
                }
            }
            Operation::Finish { side, channel } => {
                let h = &mut self.hosts[usize::from(*side)];
                if let (Some(id), Some(channel)) = (h.id, h.channel(*channel)) {
                    h.endpoint.finish_channel(id, channel, 0);
                    h.finished.push(channel);
                }
            }
            Operation::Consume { side, all } => self.hosts[usize::from(*side)].consume(*all),
            Operation::Close { side } => {
                let h = &mut self.hosts[usize::from(*side)];
                if let Some(id) = h.id {
                    self.honest = false;
                    h.endpoint.close(self.now, id, 300, "enough", &mut h.memory);
                    self.events(usize::from(*side));
                }
            }
            Operation::Transmit { side, bytes } => {
                self.transmit(usize::from(*side), usize::from(*bytes).max(1));
            }
            Operation::Advance { step } => {
                self.advance(Duration::from_micros(1 << (step % 21)));
            }
            Operation::Forge { side, number, frames } => {
                self.forge(usize::from(*side), *number, frames);
            }
            Operation::Garbage { side, bytes } => {
                let link = LINKS[usize::from(bytes.len() % 3 == 2)];
                self.deliver(Datagram { to: usize::from(*side), link, bytes: bytes.clone() });
            }
            Operation::Path { side, change } => self.path(usize::from(*side), *change),
            Operation::OpenPath { side: false } => self.open_path(0),
            Operation::OpenPath { side: true } => {
                let h = &mut self.hosts[1];
                if let Some(id) = h.id {
                    h.endpoint.offer_path(id, LINKS[1], address(1, LINKS[1]));
                }
            }
            Operation::RetirePath { side, path } => {
                let h = &mut self.hosts[usize::from(*side)];
                if let Some(id) = h.id {
                    // The last one stays, and so does one that there is not.
                    let _ = h.endpoint.retire_path(self.now, id, PathId((path % 4).into()), 1);
                    self.events(usize::from(*side));
                }
            }
            network => self.network(network),
        }
    }

    fn open_path(&mut self, side: usize) {
        let h = &mut self.hosts[side];
        if let Some(id) = h.id {
            h.endpoint.open_path(self.now, id, LINKS[1], address(1 - side, LINKS[1]));
        }
    }

    fn path(&mut self, side: usize, change: u8) {
        let link = LINKS[usize::from(change > 127)];
        let (remote, bytes) = (address(1 - side, link), u16::from(change) * 16);
        let change = match change % 3 {
            0 => PathChange::Up,
            1 => PathChange::Down,
            _ => PathChange::Longest { remote, bytes },
        };
        self.hosts[side].endpoint.handle_path(self.now, link, change);
    }

    fn network(&mut self, operation: &Operation) {
        let n = self.flight.len();
        match operation {
            Operation::Deliver { index, keep } if n > 0 => {
                let index = usize::from(*index) % n;
                let datagram =
                    if *keep { self.flight[index].clone() } else { self.flight.remove(index) };
                self.deliver(datagram);
            }
            Operation::DeliverAll => {
                for datagram in std::mem::take(&mut self.flight) {
                    self.deliver(datagram);
                }
            }
            Operation::Silence { link } => {
                let silent = &mut self.silent[usize::from(*link)];
                *silent = !*silent;
            }
            Operation::Drop { index } if n > 0 => _ = self.flight.remove(usize::from(*index) % n),
            Operation::Corrupt { index, bit } if n > 0 => {
                let datagram = &mut self.flight[usize::from(*index) % n].bytes;
                let bit = usize::from(*bit) % (8 * datagram.len());
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            _ => {}
        }
    }

    /// From here on the network is perfect and owners take everything.
    fn finish(mut self) {
        self.silent = [false; 2];
        for side in 0..2 {
            for link in LINKS {
                self.hosts[side].endpoint.handle_path(self.now, link, PathChange::Up);
            }
        }
        // After a long silence the next try may be half a minute away.
        for round in 0..600 {
            self.hosts.iter_mut().for_each(|h| h.consume(true));
            self.settle();
            self.advance(Duration::from_millis(200));
            let is_done = self.hosts.iter().all(|h| h.memory.used() == 0 && h.unread.is_empty());
            if round > 40 && is_done {
                break;
            }
        }
        if self.honest {
            self.check_delivery();
        }
        self.honest = false;
        for side in 0..2 {
            let h = &mut self.hosts[side];
            if let Some(id) = h.id {
                h.endpoint.close(self.now, id, 300, "done", &mut h.memory);
            }
            self.events(side);
        }
        for _ in 0..10 {
            self.settle();
            self.advance(Duration::from_millis(200));
        }
        for h in &mut self.hosts {
            h.consume(true);
            assert_eq!(h.endpoint.associations().count(), 0, "closed is over");
            assert_eq!(h.memory.used(), 0, "every block came back");
        }
    }

    /// Every message that `side` sent on a channel arrived or was given up.
    fn check_channel(&self, side: usize, channel: ChannelId) {
        let (h, peer) = (&self.hosts[side], &self.hosts[1 - side]);
        let none = Vec::new();
        let arrived = peer.arrived.get(&channel).unwrap_or(&none);
        let abandoned = h.abandoned.get(&channel).unwrap_or(&none);
        for number in 0..h.sent.get(&channel).map_or(0, Vec::len) as u64 {
            let settled = arrived.contains(&number) || abandoned.contains(&number);
            assert!(settled, "message {number} of {channel:?} arrived or was given up");
        }
    }

    fn check_delivery(&self) {
        for (side, h, peer) in
            [(0, &self.hosts[0], &self.hosts[1]), (1, &self.hosts[1], &self.hosts[0])]
        {
            h.sent.keys().for_each(|channel| self.check_channel(side, *channel));
            for channel in &h.finished {
                let sends = h.sent.contains_key(channel);
                assert!(!sends || peer.ended.contains(channel), "the end of {channel:?} is told");
            }
            assert_eq!(h.memory.used(), 0, "every message was acknowledged");
        }
    }
}

/// Runs a sequence and checks every invariant.
pub fn run(operations: &[Operation]) {
    let ((), heap) = allocation::during(|| {
        let mut world = World::new();
        for operation in operations.iter().take(OPERATIONS_MAX) {
            world.step(operation);
        }
        world.finish();
    });
    assert!(heap <= HEAP_MAX, "{heap} B of heap");
}
