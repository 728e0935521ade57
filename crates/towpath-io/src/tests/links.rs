//! One machine with several UDP links: each conversation stays on the link that it began on.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use towpath_io::udp::SendBatch;
use towpath_io::{Clock, LinkDriver, RealCrypto, Turn, UdpLink};
use towpath_proto::association::Opening;
use towpath_proto::endpoint::Answer;
use towpath_proto::{
    AssociationEvent, AssociationId, Config, Connect, Decision, Egress, Endpoint, EndpointEvent,
    Grant, Head, HeapMemory, Machine, Memory, Psk, Rng, Transmit,
};
use towpath_wire::{Admission, ByteSize, Direction, LinkId};

/// What sends nothing for so long is stuck.
const LONG: Duration = Duration::from_secs(20);

/// A machine with links at several addresses.
struct Host {
    endpoint: Endpoint,
    links: Vec<LinkDriver>,
    memory: HeapMemory,
    clock: Clock,
    peers: Vec<AssociationId>,
    got: Vec<(AssociationId, Vec<u8>)>,
}

impl Host {
    fn new(addrs: &[&str], seed: u64) -> Option<Self> {
        let addrs: Vec<SocketAddr> = addrs.iter().map(|a| a.parse().unwrap()).collect();
        let links = match UdpLink::bind_all(&addrs) {
            Ok(links) => links.into_iter().map(LinkDriver::new).collect(),
            Err(e) => {
                println!("left out, this machine has no IPv6: {e}");
                return None;
            }
        };
        let crypto = Box::new(RealCrypto::new(RealCrypto::generate_secret()));
        Some(Self {
            endpoint: Endpoint::new(Config::default(), crypto, Rng::new(seed, 0)),
            links,
            memory: HeapMemory::new(ByteSize::from_mib(16)),
            clock: Clock::start(),
            peers: Vec::new(),
            got: Vec::new(),
        })
    }

    fn addr(&self, link: usize) -> SocketAddr {
        self.links[link].link().local_addr().unwrap()
    }

    fn connect(&mut self, link: u16, to: &Self, to_link: usize) {
        let connect = Connect {
            link: LinkId(link),
            remote: to.addr(to_link),
            key: to.endpoint.public_key(),
            admission: Admission::Member,
            psk: Psk::MEMBER,
            hello: b"",
        };
        self.endpoint.connect(self.clock.now(), &connect).unwrap();
    }

    fn send(&mut self, id: AssociationId, bytes: &[u8]) {
        let channel = self.endpoint.open(id, Opening::new(Direction::Both, 1)).unwrap();
        let block = self.memory.put(bytes).unwrap();
        self.endpoint.send(id, channel, block, bytes.len() as u32).unwrap();
    }

    fn turn(&mut self) {
        for link in &mut self.links {
            link.receive(&self.clock, &mut self.endpoint, &mut self.memory).unwrap();
        }
        self.endpoint.handle_timeout(self.clock.now(), &mut self.memory);
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                EndpointEvent::Incoming { id, .. } => {
                    let answer = Answer::Accept { psk: Psk::MEMBER, hello: b"" };
                    self.endpoint.answer(self.clock.now(), id, &answer);
                }
                EndpointEvent::Connected { id, .. } => self.peers.push(id),
                EndpointEvent::Association { id, event } => match event {
                    AssociationEvent::Message { channel, block, len, .. } => {
                        self.endpoint.consumed(id, channel, len);
                        self.got.push((id, self.memory.take(block)));
                    }
                    AssociationEvent::Sent { block, .. } => self.memory.release(block),
                    AssociationEvent::Over(end) => panic!("{end:?}"),
                    _ => {}
                },
                EndpointEvent::ConnectFailed { failure, .. } => panic!("{failure:?}"),
            }
        }
        for link in &mut self.links {
            link.transmit(&self.clock, &mut self.endpoint, &self.memory);
        }
    }

    fn bytes(&self) -> Vec<(u64, u64)> {
        let of = |l: &LinkDriver| (l.counters().bytes_sent, l.counters().bytes_received);
        self.links.iter().map(of).collect()
    }
}

fn until(hosts: &mut [&mut Host], mut done: impl FnMut(&[&mut Host]) -> bool) {
    let begin = Instant::now();
    while !done(hosts) {
        assert!(begin.elapsed() < LONG, "stuck");
        for host in hosts.iter_mut() {
            host.turn();
        }
    }
}

#[test]
fn a_host_with_two_families_talks_to_hosts_that_have_one() {
    let Some(mut both) = Host::new(&["127.0.0.1:0", "[::1]:0"], 1) else { return };
    let mut four = Host::new(&["127.0.0.1:0"], 2).unwrap();
    let mut six = Host::new(&["[::1]:0"], 3).unwrap();
    // One comes to us, to the other we go.
    four.connect(0, &both, 0);
    both.connect(1, &six, 0);
    until(&mut [&mut both, &mut four, &mut six], |h| {
        h[0].peers.len() == 2 && h[1].peers.len() == 1 && h[2].peers.len() == 1
    });
    let message = |seed: u8| -> Vec<u8> { (0..200_000).map(|i| (i / 7) as u8 ^ seed).collect() };
    let before = both.bytes();
    for (n, peer) in both.peers.clone().into_iter().enumerate() {
        both.send(peer, &message(n as u8));
    }
    for (host, seed) in [(&mut four, 4), (&mut six, 6)] {
        let peer = host.peers[0];
        host.send(peer, &message(seed));
    }
    until(&mut [&mut both, &mut four, &mut six], |h| {
        h[0].got.len() == 2 && h[1].got.len() == 1 && h[2].got.len() == 1
    });
    let mut came: Vec<_> = both.got.drain(..).map(|(_, bytes)| bytes).collect();
    came.sort_unstable();
    assert!(came == [message(4), message(6)], "each came whole");
    for (before, now) in before.into_iter().zip(both.bytes()) {
        assert!(now.0 > before.0 + 200_000 && now.1 > before.1 + 200_000, "{before:?} {now:?}");
    }
}

#[test]
fn what_goes_out_on_another_link_waits_for_that_link() {
    let mut two = Host::new(&["127.0.0.1:0", "127.0.0.1:0"], 1).unwrap();
    let mut peer = Host::new(&["127.0.0.1:0"], 2).unwrap();
    two.connect(1, &peer, 0);
    until(&mut [&mut two, &mut peer], |h| h[0].peers.len() == 1 && h[1].peers.len() == 1);
    assert_eq!(two.links[0].counters().datagrams_sent, 0);
    two.send(two.peers[0], b"hello");
    let mut batch = SendBatch::new();
    let mut poll = |link| {
        let mut out = batch.train(&two.memory, 8).unwrap();
        two.endpoint.poll_transmit(two.clock.now(), Grant::free(LinkId(link)), &mut out)
    };
    assert_eq!(poll(0), None);
    assert_eq!(poll(0), None, "it still waits");
    let train = poll(1).expect("a packet with the message");
    assert_eq!((train.link, train.remote), (LinkId(1), peer.addr(0)));
}

#[test]
fn every_address_of_both_families_at_one_port() {
    let port = Host::new(&["127.0.0.1:0"], 1).unwrap().addr(0).port();
    let (four, six) = (format!("0.0.0.0:{port}"), format!("[::]:{port}"));
    let Some(host) = Host::new(&[&four, &six], 1) else { return };
    assert_eq!((host.addr(0).port(), host.addr(1).port()), (port, port));
}

/// Lets one train go, and nothing before an instant.
struct One {
    sent: bool,
    empty: bool,
    until: towpath_wire::Instant,
}

impl Egress for One {
    const RESERVES: bool = false;

    fn woken(&mut self) {}

    fn ready(&mut self, _: towpath_wire::Instant, _: Head) {}

    fn next(&mut self, now: towpath_wire::Instant) -> Decision {
        if self.empty {
            return Decision::Idle;
        }
        if self.sent && now < self.until {
            return Decision::Wait(self.until);
        }
        Decision::Grant(Grant { bytes: 1500, ..Grant::free(LinkId(0)) })
    }

    fn sent(&mut self, _: towpath_wire::Instant, grant: &Grant, train: Option<&Transmit>) {
        assert!(train.is_none_or(|train| train.len <= grant.bytes));
        (self.sent, self.empty) = (self.sent || train.is_some(), train.is_none());
    }
}

/// Plans departures ahead: the first train at once, the next one at an instant.
struct Planned {
    granted: u32,
    at: towpath_wire::Instant,
}

impl Egress for Planned {
    const RESERVES: bool = false;

    fn woken(&mut self) {}

    fn ready(&mut self, _: towpath_wire::Instant, _: Head) {}

    fn next(&mut self, _: towpath_wire::Instant) -> Decision {
        let not_before = if self.granted == 1 { self.at } else { towpath_wire::Instant::ZERO };
        if self.granted == 3 {
            return Decision::Idle;
        }
        Decision::Grant(Grant { bytes: 1500, not_before, ..Grant::free(LinkId(0)) })
    }

    fn sent(&mut self, _: towpath_wire::Instant, grant: &Grant, train: Option<&Transmit>) {
        let train = train.expect("there is enough");
        assert_eq!(train.not_before, grant.not_before);
        self.granted += 1;
    }
}

#[test]
fn a_train_that_is_not_to_leave_before_an_instant_is_held_and_those_behind_it() {
    let mut from = Host::new(&["127.0.0.1:0"], 1).unwrap();
    let mut to = Host::new(&["127.0.0.1:0"], 2).unwrap();
    from.connect(0, &to, 0);
    until(&mut [&mut from, &mut to], |h| h[0].peers.len() == 1 && h[1].peers.len() == 1);
    let link = UdpLink::bind(LinkId(0), "127.0.0.1:0".parse().unwrap()).unwrap();
    let at = from.clock.now() + Duration::from_millis(100);
    let mut driver = LinkDriver::with_egress(link, Planned { granted: 0, at });
    from.send(from.peers[0], &[7; 15_000]);
    let mut turn = |from: &mut Host| {
        driver.transmit(&from.clock, &mut from.endpoint, &from.memory);
        let sent = driver.counters().datagrams_sent;
        (sent, driver.held_until(), driver.egress().granted)
    };
    assert_eq!(turn(&mut from), (1, Some(at), 2), "the second is built, and waits");
    assert_eq!(turn(&mut from), (1, Some(at), 2));
    while from.clock.now() < at {
        std::hint::spin_loop();
    }
    assert_eq!(turn(&mut from), (3, None, 3));
}

#[test]
fn a_link_whose_egress_holds_back_says_until_when() {
    let mut from = Host::new(&["127.0.0.1:0"], 1).unwrap();
    let mut to = Host::new(&["127.0.0.1:0"], 2).unwrap();
    from.connect(0, &to, 0);
    until(&mut [&mut from, &mut to], |h| h[0].peers.len() == 1 && h[1].peers.len() == 1);
    let link = UdpLink::bind(LinkId(0), "127.0.0.1:0".parse().unwrap()).unwrap();
    let held = from.clock.now() + LONG;
    let mut driver = LinkDriver::with_egress(link, One { sent: false, empty: false, until: held });
    from.send(from.peers[0], &[7; 15_000]);
    assert_eq!(driver.transmit(&from.clock, &mut from.endpoint, &from.memory), Turn::Sent);
    assert_eq!((driver.counters().datagrams_sent, driver.held_until()), (1, Some(held)));
    assert_eq!(driver.transmit(&from.clock, &mut from.endpoint, &from.memory), Turn::Idle);
    driver.egress_mut().until = towpath_wire::Instant::ZERO;
    assert_eq!(driver.transmit(&from.clock, &mut from.endpoint, &from.memory), Turn::Sent);
    assert!(driver.counters().datagrams_sent > 1 && driver.held_until().is_none());
}
