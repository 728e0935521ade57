//! Endpoints joined by a small in-memory network, in virtual time: what the behaviour tests of
//! the transport drive. An owner that answers every event in the plainest way comes with it.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use towpath_node::egress::LinkEgress;
use towpath_proto::association::{End, Opening};
use towpath_proto::endpoint::Answer;
use towpath_proto::{
    AssociationEvent, AssociationId, AssociationStats, Block, Config, Connect, ConnectFailure,
    Crypto, Decision, Egress, Endpoint, EndpointEvent, Free, Grant, Handshake, HeapMemory, HostKey,
    Machine, Memory, PacketKey, Psk, Rng, RxMeta, SendError, TxBatch,
};
use towpath_sim::crypto::StandIn;
use towpath_sim::hash::Hash;
use towpath_sim::link::{Link, LinkSpec};
use towpath_wire::packet::{DATA_HEADER, Data, Packet, TAG};
use towpath_wire::{Admission, ByteSize, ChannelId, Direction, Instant, LinkId, PathId};

/// A link that loses, delays beyond 500 us and reorders nothing.
pub(crate) const CLEAN: LinkSpec = LinkSpec {
    rate_bps: 10_000_000_000,
    delay_us: 500,
    queue_bytes: 1 << 30,
    reorder_us: 0,
    ..LinkSpec::PLAIN
};

pub(crate) const LINK: LinkId = LinkId(0);

/// A channel that both sides may send on.
pub(crate) const BOTH: Opening = Opening::new(Direction::Both, 7);
/// A channel that only its opener may send on.
pub(crate) const ONE_WAY: Opening = Opening::new(Direction::Opener, 7);

/// Steps at one instant before we say that a poll loop does not end.
const STEPS_MAX: u64 = 100_000;

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn at(d: Duration) -> Instant {
    Instant::ZERO + d
}

/// Secrets that passed through an endpoint's cryptography, in the order (send, receive) of each
/// association: what an authenticated but hostile peer holds.
pub(crate) type Secrets64 = Rc<RefCell<Vec<[u8; 32]>>>;

/// The stand-in cryptography, with an ear for the packet keys.
struct Tapped {
    inner: StandIn,
    secrets: Secrets64,
}

impl Crypto for Tapped {
    fn public_key(&self) -> HostKey {
        self.inner.public_key()
    }
    fn initiate(&mut self, remote: &HostKey, psk: &Psk, prologue: &[u8]) -> Box<dyn Handshake> {
        self.inner.initiate(remote, psk, prologue)
    }
    fn respond(&mut self, prologue: &[u8]) -> Box<dyn Handshake> {
        self.inner.respond(prologue)
    }
    fn packet_key(&self, secret: &[u8; 32]) -> Box<dyn PacketKey> {
        self.secrets.borrow_mut().push(*secret);
        self.inner.packet_key(secret)
    }
    fn mac(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        self.inner.mac(key, data)
    }
    fn derive(&self, secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
        self.inner.derive(secret, label)
    }
    fn random(&mut self) -> [u8; 32] {
        self.inner.random()
    }
}

/// A message as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) channel: ChannelId,
    pub(crate) number: u64,
    pub(crate) len: u32,
    pub(crate) digest: u64,
}

/// The bytes of message `number` of `len` bytes.
pub(crate) fn content(number: u64, len: u32) -> Vec<u8> {
    let mut rng = Rng::new(number, u64::from(len));
    let mut bytes = Vec::with_capacity(len as usize + 8);
    while bytes.len() < len as usize {
        bytes.extend_from_slice(&rng.u64().to_le_bytes());
    }
    bytes.truncate(len as usize);
    bytes
}

pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let mut hash = Hash::new(1);
    hash.bytes(bytes);
    hash.value()
}

/// One endpoint with its memory, and what its owner has seen.
pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    pub(crate) memory: HeapMemory,
    pub(crate) addr: SocketAddr,
    /// Expected of whoever asks to be let in.
    pub(crate) psk: Psk,
    /// Messages are taken as they arrive; otherwise they wait in `unread`.
    pub(crate) reading: bool,
    /// The process does not run before this.
    pub(crate) stalled_until: Instant,
    /// Longest train's bytes that the link grants at once.
    pub(crate) grant: usize,
    /// Who decides what its link sends.
    pub(crate) egress: LinkEgress,
    held_until: Option<Instant>,
    pub(crate) secrets: Secrets64,
    pub(crate) unread: VecDeque<(AssociationId, ChannelId, u64, Block, u32)>,
    pub(crate) arrived: Vec<Arrived>,
    pub(crate) incoming: usize,
    pub(crate) connected: Vec<(Instant, AssociationId)>,
    pub(crate) failed: Vec<(Instant, ConnectFailure)>,
    pub(crate) opened: Vec<ChannelId>,
    pub(crate) ended: Vec<ChannelId>,
    pub(crate) over: Vec<(Instant, End)>,
    pub(crate) sent: u64,
    pub(crate) abandoned: Vec<(ChannelId, u64)>,
}

impl Host {
    /// Host `n`, with its own address, key and 256 MiB of message memory.
    pub(crate) fn new(n: u32, config: Config) -> Self {
        let secrets = Secrets64::default();
        let inner = StandIn::new(Rng::new(0x686f_7374, n.into()));
        let crypto = Tapped { inner, secrets: secrets.clone() };
        let ip = Ipv4Addr::from(0x0a00_0000 + n);
        Self {
            endpoint: Endpoint::new(config, Box::new(crypto), Rng::new(n.into(), 2)),
            memory: HeapMemory::new(ByteSize::from_mib(256)),
            addr: SocketAddr::new(IpAddr::V4(ip), 7000),
            psk: Psk::MEMBER,
            reading: true,
            stalled_until: Instant::ZERO,
            grant: usize::MAX,
            egress: LinkEgress::Free(Free::new(LINK)),
            held_until: None,
            secrets,
            unread: VecDeque::new(),
            arrived: Vec::new(),
            incoming: 0,
            connected: Vec::new(),
            failed: Vec::new(),
            opened: Vec::new(),
            ended: Vec::new(),
            over: Vec::new(),
            sent: 0,
            abandoned: Vec::new(),
        }
    }

    /// The one association that it has.
    pub(crate) fn id(&self) -> AssociationId {
        assert_eq!(self.endpoint.associations().count(), 1, "exactly one association");
        self.endpoint.associations().next().map(|(id, _)| id).expect("counted")
    }

    pub(crate) fn stats(&self) -> AssociationStats {
        *self.endpoint.association(self.id()).expect("it is open").stats()
    }

    pub(crate) fn open(&mut self, opening: Opening) -> Option<ChannelId> {
        self.endpoint.open(self.id(), opening)
    }

    /// Sends [`content`] as the next message of `channel`.
    pub(crate) fn send(
        &mut self,
        channel: ChannelId,
        number: u64,
        len: u32,
    ) -> Result<u64, SendError> {
        let block = self.memory.store(content(number, len)).expect("the test's memory is enough");
        let sent = self.endpoint.send(self.id(), channel, block, len);
        if sent.is_err() {
            self.memory.release(block);
        }
        sent
    }

    /// Sends [`content`] on a timely channel, to arrive by `deadline`.
    pub(crate) fn send_by(
        &mut self,
        channel: ChannelId,
        number: u64,
        len: u32,
        deadline: Instant,
    ) -> Result<u64, SendError> {
        let block = self.memory.store(content(number, len)).expect("the test's memory is enough");
        let sent = self.endpoint.send_by(self.id(), channel, block, len, deadline);
        if sent.is_err() {
            self.memory.release(block);
        }
        sent
    }

    /// Depends on the peer of its one association, or does not any more.
    pub(crate) fn watch(&mut self, now: Instant, on: bool) {
        self.endpoint.watch(now, self.id(), on);
    }

    fn take(&mut self, id: AssociationId, channel: ChannelId, number: u64, block: Block, len: u32) {
        let bytes = self.memory.take(block);
        assert_eq!(bytes.len(), len as usize);
        self.arrived.push(Arrived { channel, number, len, digest: digest(&bytes) });
        self.endpoint.consumed(id, channel, len);
    }

    /// Takes everything that waits, and whatever comes from now on.
    pub(crate) fn read(&mut self) {
        self.reading = true;
        while let Some((id, channel, number, block, len)) = self.unread.pop_front() {
            self.take(id, channel, number, block, len);
        }
    }

    /// True when exactly messages `0..count` of `len` bytes arrived on `channel`, in order.
    pub(crate) fn has_all(&self, channel: ChannelId, count: u64, len: u32) -> bool {
        let on: Vec<_> = self.arrived.iter().filter(|a| a.channel == channel).collect();
        on.len() as u64 == count
            && on
                .iter()
                .zip(0..)
                .all(|(a, n)| a.number == n && a.len == len && a.digest == digest(&content(n, len)))
    }

    fn event(&mut self, now: Instant, event: EndpointEvent) {
        match event {
            EndpointEvent::Incoming { id, .. } => {
                self.incoming += 1;
                let answer = Answer::Accept { psk: self.psk.clone(), hello: b"" };
                self.endpoint.answer(now, id, &answer);
            }
            EndpointEvent::Connected { id, .. } => self.connected.push((now, id)),
            EndpointEvent::ConnectFailed { failure, .. } => self.failed.push((now, failure)),
            EndpointEvent::Association { id, event } => self.association_event(now, id, event),
        }
    }

    fn association_event(&mut self, now: Instant, id: AssociationId, event: AssociationEvent) {
        match event {
            AssociationEvent::Opened(open) => self.opened.push(open.channel),
            AssociationEvent::Message { channel, number, block, len, .. } if self.reading => {
                self.take(id, channel, number, block, len);
            }
            AssociationEvent::Message { channel, number, block, len, .. } => {
                self.unread.push_back((id, channel, number, block, len));
            }
            AssociationEvent::Sent { block, .. } => {
                self.sent += 1;
                self.memory.release(block);
            }
            AssociationEvent::Abandoned { channel, number, block } => {
                self.abandoned.push((channel, number));
                self.memory.release(block);
            }
            AssociationEvent::Ended { channel } => self.ended.push(channel),
            AssociationEvent::Over(end) => self.over.push((now, end)),
            AssociationEvent::PathOffered { .. }
            | AssociationEvent::PathRetired { .. }
            | AssociationEvent::Noted(_)
            | AssociationEvent::Silent
            | AssociationEvent::Heard => {}
        }
    }
}

/// What becomes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Drop,
}

/// Looks at (and may change) each datagram as it leaves: time, sender, bytes.
pub(crate) type Tap = Box<dyn FnMut(Instant, usize, &mut Vec<u8>) -> Fate>;

/// Datagrams that do not come from one of the hosts have this sender.
const OUTSIDE: usize = usize::MAX;

pub(crate) struct Network {
    pub(crate) now: Instant,
    pub(crate) hosts: Vec<Host>,
    /// One per sending host.
    pub(crate) links: Vec<Link>,
    pub(crate) tap: Tap,
    /// Datagrams that the hosts sent: sender and bytes.
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
    flight: BTreeMap<(Instant, u64), (usize, SocketAddr, Vec<u8>)>,
    sequence: u64,
    steps_at: (Instant, u64),
    buf: Vec<u8>,
}

impl Network {
    pub(crate) fn new(hosts: Vec<Host>, spec: LinkSpec) -> Self {
        let link = |n| Link::new(spec, Rng::new(0x6c69_6e6b, n));
        Self {
            now: Instant::ZERO,
            links: (0..hosts.len() as u64).map(link).collect(),
            hosts,
            tap: Box::new(|_, _, _| Fate::Pass),
            datagrams: 0,
            bytes: 0,
            flight: BTreeMap::new(),
            sequence: 0,
            steps_at: (Instant::ZERO, 0),
            buf: vec![0; 64 * 1024],
        }
    }

    /// Two hosts, not yet connected.
    pub(crate) fn pair(config: &Config, spec: LinkSpec) -> Self {
        Self::new(vec![Host::new(1, config.clone()), Host::new(2, config.clone())], spec)
    }

    /// Two hosts with an association; host 0 started it.
    pub(crate) fn connected(config: &Config, spec: LinkSpec) -> Self {
        let mut net = Self::pair(config, spec);
        net.connect(0, 1);
        let both = |n: &Self| n.hosts.iter().all(|h| h.connected.len() == 1);
        assert!(net.run_until(both, Duration::from_secs(20)), "they connect");
        net
    }

    pub(crate) fn connect(&mut self, from: usize, to: usize) -> AssociationId {
        self.connect_with(from, to, Psk::MEMBER)
    }

    pub(crate) fn connect_with(&mut self, from: usize, to: usize, psk: Psk) -> AssociationId {
        let (remote, key) = (self.hosts[to].addr, self.hosts[to].endpoint.public_key());
        let admission = Admission::Member;
        let connect = Connect { link: LINK, remote, key, admission, psk, hello: b"" };
        let id = self.hosts[from].endpoint.connect(self.now, &connect).expect("a table place");
        self.drain(from);
        id
    }

    /// Puts a datagram of someone outside into the network; it arrives at once.
    pub(crate) fn inject(&mut self, to: usize, from: SocketAddr, bytes: Vec<u8>) {
        self.sequence += 1;
        self.flight.insert((self.now, self.sequence), (to, from, bytes));
    }

    /// A packet to `to` with `content` as `from`'s association would seal it, numbered `number`.
    pub(crate) fn seal(&self, from: usize, to: usize, number: u64, content: &[u8]) -> Vec<u8> {
        let host = &self.hosts[from];
        let secret = host.secrets.borrow()[0];
        let receiver = self.hosts[to].id().0;
        let mut packet = vec![0; DATA_HEADER + content.len() + TAG];
        packet[DATA_HEADER..DATA_HEADER + content.len()].copy_from_slice(content);
        let header = Data { epoch: 0, path: PathId(0), receiver, number };
        let (head, body) = packet.split_at_mut(DATA_HEADER);
        header.emit(head);
        let nonce = towpath_proto::machine::nonce(PathId(0), number);
        host.endpoint.crypto().packet_key(&secret).seal(nonce, head, body);
        host.secrets.borrow_mut().pop();
        packet
    }

    /// [`Network::seal`], sent at once; then everything that follows from it at this instant.
    pub(crate) fn forge(&mut self, from: usize, to: usize, number: u64, content: &[u8]) {
        let packet = self.seal(from, to, number, content);
        let addr = self.hosts[from].addr;
        self.inject(to, addr, packet);
        self.run_for(Duration::ZERO);
    }

    fn next_at(&self) -> Instant {
        let flight = self.flight.first_key_value().map_or(Instant::NEVER, |((at, _), _)| *at);
        let timer = |h: &Host| {
            let timer = h.endpoint.poll_timeout().map(|(at, _)| at);
            let next = timer.into_iter().chain(h.held_until).min();
            next.map_or(Instant::NEVER, |at| at.max(h.stalled_until))
        };
        self.hosts.iter().map(timer).fold(flight, Instant::min)
    }

    /// Moves on to the next thing that happens, but not beyond `until`; false when nothing does.
    fn step(&mut self, until: Instant) -> bool {
        let next = self.next_at();
        if next > until {
            self.now = until;
            return false;
        }
        self.now = self.now.max(next);
        if self.steps_at.0 != self.now {
            self.steps_at = (self.now, 0);
        }
        self.steps_at.1 += 1;
        assert!(self.steps_at.1 < STEPS_MAX, "poll loops end: stuck at {}", self.now);
        while let Some(((at, _), _)) = self.flight.first_key_value() {
            if *at > self.now {
                break;
            }
            let (_, (to, from, bytes)) = self.flight.pop_first().expect("looked at");
            self.arrive(to, from, bytes);
        }
        for n in 0..self.hosts.len() {
            let h = &mut self.hosts[n];
            let due = h.endpoint.poll_timeout().is_some_and(|(at, _)| at <= self.now);
            let due = due || h.held_until.is_some_and(|at| at <= self.now);
            if due && h.stalled_until <= self.now {
                h.endpoint.handle_timeout(self.now, &mut h.memory);
                self.drain(n);
            }
        }
        true
    }

    fn arrive(&mut self, to: usize, from: SocketAddr, mut bytes: Vec<u8>) {
        let h = &mut self.hosts[to];
        if h.stalled_until > self.now {
            self.sequence += 1;
            self.flight.insert((h.stalled_until, self.sequence), (to, from, bytes));
            return;
        }
        let rx = RxMeta { link: LINK, remote: from, ecn: 0, late: Duration::ZERO };
        h.endpoint.handle_datagram(self.now, rx, &mut bytes, &mut h.memory);
        self.drain(to);
    }

    /// Events and datagrams of a host, until there are none.
    pub(crate) fn drain(&mut self, n: usize) {
        let h = &mut self.hosts[n];
        h.egress.woken();
        h.held_until = None;
        for _ in 0..STEPS_MAX {
            let h = &mut self.hosts[n];
            if let Some(event) = h.endpoint.poll_event() {
                h.event(self.now, event);
                h.egress.woken();
                continue;
            }
            while let Some(head) = h.endpoint.poll_head(self.now, LINK) {
                h.egress.ready(self.now, head);
            }
            let grant = match h.egress.next(self.now) {
                Decision::Grant(grant) => Grant { bytes: grant.bytes.min(h.grant), ..grant },
                Decision::Wait(until) => {
                    h.held_until = Some(until);
                    return;
                }
                Decision::Idle => return,
            };
            let mut batch = TxBatch::new(&mut self.buf, &h.memory, 64);
            let sent = h.endpoint.poll_transmit(self.now, grant, &mut batch);
            h.egress.sent(self.now, &grant, sent.as_ref());
            let Some(t) = sent else { continue };
            let train = self.buf[..t.len].to_vec();
            train.chunks(t.segment).for_each(|d| self.depart(n, t.remote, d.to_vec()));
        }
        panic!("poll loops end");
    }

    fn depart(&mut self, from: usize, remote: SocketAddr, mut bytes: Vec<u8>) {
        self.datagrams += 1;
        self.bytes += bytes.len() as u64;
        if (self.tap)(self.now, from, &mut bytes) == Fate::Drop {
            return;
        }
        let to = self.hosts.iter().position(|h| h.addr == remote).unwrap_or(OUTSIDE);
        for arrival in self.links[from].offer(self.now, bytes.len(), 0).into_iter().flatten() {
            let mut bytes = bytes.clone();
            if let Some(bit) = arrival.corrupt {
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            if to != OUTSIDE {
                self.sequence += 1;
                let addr = self.hosts[from].addr;
                self.flight.insert((arrival.at, self.sequence), (to, addr, bytes));
            }
        }
    }

    pub(crate) fn run_for(&mut self, d: Duration) {
        let until = self.now + d;
        while self.step(until) {}
    }

    /// Runs until `done`, at most for `limit`; true when it came to that.
    pub(crate) fn run_until(&mut self, done: impl Fn(&Self) -> bool, limit: Duration) -> bool {
        let until = self.now + limit;
        while !done(self) {
            if !self.step(until) {
                return done(self);
            }
        }
        true
    }

    /// Lets a host's own calls take effect.
    pub(crate) fn flush(&mut self) {
        (0..self.hosts.len()).for_each(|n| self.drain(n));
    }
}

/// True for a handshake's response.
pub(crate) fn is_response(datagram: &[u8]) -> bool {
    matches!(Packet::parse(datagram), Ok(Packet::Response(_)))
}

/// True for a sealed packet.
pub(crate) fn is_data(datagram: &[u8]) -> bool {
    matches!(Packet::parse(datagram), Ok(Packet::Data(_)))
}

/// A network whose `n`-th datagram of a kind, counted from 0, is dropped on its way.
pub(crate) fn drop_nth(
    net: &mut Network,
    from: usize,
    n: usize,
    kind: fn(&[u8]) -> bool,
) -> Rc<Cell<usize>> {
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    net.tap = Box::new(move |_, sender, bytes| {
        if sender != from || !kind(bytes) {
            return Fate::Pass;
        }
        count.set(count.get() + 1);
        if count.get() == n + 1 { Fate::Drop } else { Fate::Pass }
    });
    seen
}

/// Cuts every link.
pub(crate) fn cut(net: &mut Network) {
    net.links.iter_mut().for_each(|l| l.set_up(false));
}
