//! Two endpoints that trust their link: handshakes, and what is counted of those that fail.

mod paths;
mod proving;
mod shakes;

use ::core::time::Duration;
use std::boxed::Box;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use towpath_wire::{Admission, ByteSize, ChannelId, Direction, Instant, LinkId};

use super::*;
use crate::association::{AssociationEvent, Opening};
use crate::config::Config;
use crate::crypto::{Crypto, CryptoError, Handshake, HostKey, PacketKey, Psk, Secrets};
use crate::id::AssociationId;
use crate::machine::{Grant, GrantKind, Machine, RxMeta, TxBatch};
use crate::memory::{HeapMemory, Memory};
use crate::rng::Rng;

const LINK: LinkId = LinkId(0);
const OTHER: LinkId = LinkId(4);

/// Cryptography without secrets: enough to tell who is who and what was changed.
struct Open(u8);

fn sum(seed: u64, parts: &[&[u8]]) -> u64 {
    parts.iter().flat_map(|p| p.iter()).fold(seed ^ 0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3).rotate_left(7)
    })
}

impl Crypto for Open {
    fn public_key(&self) -> HostKey {
        HostKey([self.0; 32])
    }
    fn initiate(&mut self, remote: &HostKey, psk: &Psk, _: &[u8]) -> Box<dyn Handshake> {
        Box::new(Shake { own: self.0, remote: Some(*remote), psk: psk.clone(), initiator: true })
    }
    fn respond(&mut self, _: &[u8]) -> Box<dyn Handshake> {
        Box::new(Shake { own: self.0, remote: None, psk: Psk::MEMBER, initiator: false })
    }
    fn packet_key(&self, _: &[u8; 32]) -> Box<dyn PacketKey> {
        unreachable!("both trust the link")
    }
    fn mac(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        let mut mac = [0; 16];
        mac[..8].copy_from_slice(&sum(1, &[key, data]).to_le_bytes());
        mac
    }
    fn derive(&self, secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
        let word = |n: u64| sum(n, &[secret, label]).to_le_bytes();
        ::core::array::from_fn(|i| word(i as u64 / 8)[i % 8])
    }
    fn random(&mut self) -> [u8; 32] {
        [9; 32]
    }
}

/// Each message: the sender's number, the pre-shared key where it answers, the payload.
struct Shake {
    own: u8,
    remote: Option<HostKey>,
    psk: Psk,
    initiator: bool,
}

impl Handshake for Shake {
    fn write(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CryptoError> {
        let psk = if self.initiator { [0; 32] } else { self.psk.0 };
        out[0] = self.own;
        out[1..33].copy_from_slice(&psk);
        out[33..33 + payload.len()].copy_from_slice(payload);
        Ok(33 + payload.len())
    }
    fn read(&mut self, message: &[u8], payload: &mut [u8]) -> Result<usize, CryptoError> {
        let content = message.get(33..).ok_or(CryptoError)?;
        if self.initiator && message[1..33] != self.psk.0 {
            return Err(CryptoError);
        }
        self.remote = self.remote.or(Some(HostKey([message[0]; 32])));
        payload[..content.len()].copy_from_slice(content);
        Ok(content.len())
    }
    fn remote_key(&self) -> Option<HostKey> {
        self.remote
    }
    fn set_psk(&mut self, psk: &Psk) -> Result<(), CryptoError> {
        self.psk = psk.clone();
        Ok(())
    }
    fn split(self: Box<Self>) -> Secrets {
        let (one, two) = ([1; 32], [2; 32]);
        if self.initiator {
            Secrets { send: one, receive: two }
        } else {
            Secrets { send: two, receive: one }
        }
    }
}

struct Net {
    now: Instant,
    ends: Vec<(Endpoint, HeapMemory)>,
    coming: VecDeque<(usize, LinkId, Vec<u8>)>,
    events: [Vec<EndpointEvent>; 2],
    /// Datagrams that each link has taken.
    taken: [usize; 2],
    /// Bytes of these.
    bytes: [usize; 2],
    /// What this link takes does not arrive.
    cut: Option<LinkId>,
    /// What each round grants, in this order.
    kinds: Vec<GrantKind>,
}

fn addr_on(link: LinkId, n: usize) -> ::core::net::SocketAddr {
    ([10, 0, link.0 as u8, n as u8], 7077).into()
}

fn addr(n: usize) -> ::core::net::SocketAddr {
    addr_on(LINK, n)
}

impl Net {
    fn new(config: &Config) -> Self {
        let end = |n: u8| {
            let config = Config { trusted: true, ..config.clone() };
            let endpoint = Endpoint::new(config, Box::new(Open(n)), Rng::new(1, n.into()));
            (endpoint, HeapMemory::new(ByteSize::from_mib(64)))
        };
        let now = Instant::ZERO + Duration::from_secs(1);
        let (coming, events) = (VecDeque::new(), [Vec::new(), Vec::new()]);
        let kinds = vec![GrantKind::All];
        Self {
            now,
            ends: vec![end(0), end(1)],
            coming,
            events,
            taken: [0; 2],
            bytes: [0; 2],
            cut: None,
            kinds,
        }
    }

    fn connect(&mut self, hello: &[u8]) -> Result<AssociationId, ConnectError> {
        let connect = Connect {
            link: LINK,
            remote: addr(1),
            key: HostKey([1; 32]),
            admission: Admission::Member,
            psk: Psk::MEMBER,
            hello,
        };
        self.ends[0].0.connect(self.now, &connect)
    }

    /// What one link sent may be a reason for the other to send.
    fn transmit(&mut self, n: usize) {
        while self.transmit_once(n) {}
    }

    fn transmit_once(&mut self, n: usize) -> bool {
        let before = self.taken;
        let mut buf = vec![0; 16 * 1500];
        let (endpoint, memory) = &mut self.ends[n];
        let links = [LINK, OTHER].into_iter().enumerate();
        let grants = links.flat_map(|link| self.kinds.iter().map(move |kind| (link, *kind)));
        for ((which, link), kind) in grants {
            loop {
                let mut out = TxBatch::new(&mut buf, memory, 16);
                let grant = Grant { kind, ..Grant::free(link) };
                let sent = endpoint.poll_transmit(self.now, grant, &mut out);
                let Some(train) = sent else { break };
                assert_eq!((train.link, train.remote), (link, addr_on(link, 1 - n)));
                self.taken[which] += train.datagrams();
                self.bytes[which] += train.len;
                if self.cut != Some(link) {
                    let datagrams = buf[..train.len].chunks(train.segment);
                    self.coming.extend(datagrams.map(|d| (1 - n, link, d.to_vec())));
                }
            }
        }
        self.taken != before
    }

    fn arrive(&mut self, n: usize, link: LinkId, datagram: &[u8]) {
        let rx = RxMeta { link, remote: addr_on(link, 1 - n), ecn: 0, late: Duration::ZERO };
        let (endpoint, memory) = &mut self.ends[n];
        endpoint.handle_datagram(self.now, rx, &mut datagram.to_vec(), memory);
    }

    /// The first end sends messages of 9000 bytes.
    fn send(&mut self, id: AssociationId, channel: ChannelId, count: usize) {
        let (endpoint, memory) = &mut self.ends[0];
        for _ in 0..count {
            let block = memory.put(&[7; 9000]).expect("room");
            endpoint.send(id, channel, block, 9000).expect("it is open");
        }
    }

    /// All that is said within so long, each word a millisecond after the last.
    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            for n in [0, 1] {
                let (endpoint, memory) = &mut self.ends[n];
                if endpoint.poll_timeout().is_some_and(|(at, _)| at <= self.now) {
                    endpoint.handle_timeout(self.now, memory);
                }
                self.transmit(n);
            }
            self.now += Duration::from_millis(1);
            for (n, link, datagram) in ::core::mem::take(&mut self.coming) {
                self.arrive(n, link, &datagram);
            }
            for n in [0, 1] {
                while let Some(event) = self.ends[n].0.poll_event() {
                    self.handle(n, &event);
                    self.events[n].push(event);
                }
            }
        }
    }

    fn handle(&mut self, n: usize, event: &EndpointEvent) {
        let (endpoint, memory) = &mut self.ends[n];
        match event {
            EndpointEvent::Incoming { id, .. } => {
                let answer = Answer::Accept { psk: Psk::MEMBER, hello: b"welcome" };
                endpoint.answer(self.now, *id, &answer);
            }
            EndpointEvent::Association { id, event } => match event {
                AssociationEvent::Message { channel, block, len, .. } => {
                    memory.release(*block);
                    endpoint.consumed(*id, *channel, *len);
                }
                AssociationEvent::Sent { block, .. } => memory.release(*block),
                _ => {}
            },
            _ => {}
        }
    }
}

#[test]
fn two_that_connect_hear_each_others_hello_and_go_on_beyond_one_window() {
    let mut net = Net::new(&Config { window: 20_000, ..Config::default() });
    let id = net.connect(b"hello").expect("a place");
    net.run(20);
    let said = |events: &[EndpointEvent]| {
        events.iter().find_map(|e| match e {
            EndpointEvent::Connected { hello, initiator, key, .. } => {
                Some((hello.clone(), *initiator, key.0[0]))
            }
            _ => None,
        })
    };
    assert_eq!(said(&net.events[0]), Some((b"welcome".to_vec(), true, 1)));
    assert_eq!(said(&net.events[1]), Some((b"hello".to_vec(), false, 0)));
    let (endpoint, memory) = &mut net.ends[0];
    let channel = endpoint.open(id, Opening::new(Direction::Both, 1)).expect("a channel");
    for _ in 0..10 {
        let block = memory.put(&[7; 9000]).expect("room");
        endpoint.send(id, channel, block, 9000).expect("it is open");
    }
    net.run(200);
    let got = |e: &&EndpointEvent| {
        matches!(e, EndpointEvent::Association { event: AssociationEvent::Message { .. }, .. })
    };
    assert_eq!(net.events[1].iter().filter(got).count(), 10, "credit comes back");
    assert_eq!(net.ends[0].0.waiting(id, channel), 0);
    let counted = [0, 1].map(|n| *net.ends[n].0.stats());
    assert_eq!(counted, [EndpointStats::default(); 2]);
}

/// The association of either side, and messages that side 1 got.
fn ids(net: &Net) -> [AssociationId; 2] {
    [0, 1].map(|n| net.ends[n].0.associations().next().expect("it stands").0)
}

fn received(net: &Net) -> usize {
    let got = |e: &&EndpointEvent| {
        matches!(e, EndpointEvent::Association { event: AssociationEvent::Message { .. }, .. })
    };
    net.events[1].iter().filter(got).count()
}

#[test]
fn what_does_not_authenticate_or_belong_is_counted_and_ends_nothing() {
    let mut net = Net::new(&Config::default());
    net.connect(b"hello").expect("a place");
    net.transmit(0);
    let (_, _, initiation) = net.coming[0].clone();
    let mut changed = initiation.clone();
    changed[60] ^= 1;
    net.arrive(1, LINK, &changed);
    assert_eq!((net.ends[1].0.stats().forged, net.ends[1].0.half_open()), (1, 0));
    net.run(20);
    let connected = |e: &EndpointEvent| matches!(e, EndpointEvent::Connected { .. });
    assert!(net.events.iter().all(|events| events.iter().any(connected)));
    // A packet of an association that there is not.
    let mut stray = [0; 64];
    let header = towpath_wire::packet::Data {
        epoch: 0,
        path: towpath_wire::PathId(0),
        receiver: 77 << 16 | 5,
        number: 1,
    };
    header.emit(&mut stray);
    (0..3).for_each(|_| net.arrive(1, LINK, &stray));
    net.arrive(1, LINK, b"no packet");
    let stats = net.ends[1].0.stats();
    assert_eq!((stats.unknown, stats.garbage, stats.forged), (3, 1, 1), "{stats:?}");
    assert_eq!(net.ends[1].0.associations().count(), 1);
}

#[test]
fn what_a_grant_leaves_out_still_waits_for_another() {
    let mut net = Net::new(&Config::default());
    net.kinds = vec![GrantKind::Data(ChannelId(0))];
    let id = net.connect(b"hello").expect("a place");
    net.transmit(0);
    assert!(net.coming.is_empty(), "a handshake is nobody's data");
    net.kinds = vec![GrantKind::Control];
    net.run(20);
    let channel = net.ends[0].0.open(id, Opening::new(Direction::Both, 1)).expect("a channel");
    let (endpoint, memory) = &mut net.ends[0];
    let block = memory.put(&[7; 3000]).expect("room");
    endpoint.send(id, channel, block, 3000).expect("it is open");
    net.run(20);
    assert_eq!(received(&net), 0, "data is not control");
    // Nothing wakes the link but that the data waits: control has nothing, and it comes first.
    net.kinds = vec![GrantKind::Control, GrantKind::Data(channel)];
    net.run(20);
    assert_eq!(received(&net), 1);
}

#[test]
fn a_timer_goes_with_its_deadline_unless_it_is_overdue() {
    let mut net = Net::new(&Config::default());
    let id = net.connect(b"hello").expect("a place");
    net.run(20);
    let channel = net.ends[0].0.open(id, Opening::new(Direction::Both, 1)).expect("a channel");
    net.run(400);
    // Sent, and acknowledged before it would have been asked for.
    net.send(id, channel, 1);
    net.run(8);
    let keepalive = Config::default().liveness.keepalive;
    let next = |net: &Net, n: usize| net.ends[n].0.poll_timeout().expect("a keep-alive").0;
    let wakes = [0, 1].map(|n| next(&net, n));
    assert!(wakes[0] >= net.now + keepalive / 2, "{:?} at {:?}", wakes, net.now);
    // A host that sleeps beyond its timer, and hears something first, was late all the same.
    let lag = net.ends[0].0.lag();
    net.now = wakes[0] + Duration::from_millis(100);
    let peer = ids(&net)[1];
    assert!(net.ends[1].0.note(peer, b"word".to_vec()));
    net.transmit(1);
    for (n, link, datagram) in ::core::mem::take(&mut net.coming) {
        net.arrive(n, link, &datagram);
    }
    assert_eq!(next(&net, 0), wakes[0]);
    net.run(1);
    assert!(net.ends[0].0.lag() > lag);
}

#[test]
fn a_hello_has_its_limit() {
    let mut net = Net::new(&Config::default());
    let long = vec![1; HELLO_MAX + 1];
    let refused = net.connect(&long).unwrap_err();
    assert_eq!(refused, ConnectError::HelloTooLong { len: HELLO_MAX + 1 });
    assert!(net.connect(&long[1..]).is_ok());
}
