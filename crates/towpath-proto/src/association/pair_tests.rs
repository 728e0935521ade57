//! Two associations joined by a network of one delay: what their owners see of channels, messages,
//! ends and counters.

mod coded;
mod formats;
mod kinds;
mod notes;
mod owner;
mod reserved;

use core::time::Duration;
use std::boxed::Box;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use towpath_wire::packet::{DATA_HEADER, Packet};
use towpath_wire::{ByteSize, ChannelId, Direction, Instant, LinkId, Reliability};

use super::{
    Association, AssociationEvent, AssociationStats, ChannelStats, End, Identity, Keys, Opening,
    PeerLimits,
};
use crate::config::Config;
use crate::crypto::{Crypto, Handshake, HostKey, PacketKey, Psk, Secrets};
use crate::id::AssociationId;
use crate::machine::{Grant, GrantKind, RxMeta, TimerKind, TxBatch};
use crate::memory::{HeapMemory, Memory};

/// From one end to the other.
const TRIP: Duration = Duration::from_millis(5);

/// Keys of a trusted link, from secrets that differ by label.
struct Labels;

impl Crypto for Labels {
    fn public_key(&self) -> HostKey {
        HostKey([0; 32])
    }
    fn initiate(&mut self, _: &HostKey, _: &Psk, _: &[u8]) -> Box<dyn Handshake> {
        unreachable!("there is no handshake")
    }
    fn respond(&mut self, _: &[u8]) -> Box<dyn Handshake> {
        unreachable!("there is no handshake")
    }
    fn packet_key(&self, _: &[u8; 32]) -> Box<dyn PacketKey> {
        unreachable!("nothing is sealed")
    }
    fn mac(&self, _: &[u8; 32], _: &[u8]) -> [u8; 16] {
        [0; 16]
    }
    fn derive(&self, secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
        let turned = |i: usize| secret[i].rotate_left(1) ^ label[i % label.len()];
        core::array::from_fn(turned)
    }
    fn random(&mut self) -> [u8; 32] {
        [0; 32]
    }
}

struct Side {
    association: Association,
    memory: HeapMemory,
    /// What is on its way here, and when it arrives.
    coming: VecDeque<(Instant, Vec<u8>)>,
    events: Vec<(Instant, AssociationEvent)>,
    /// Messages that came: channel and bytes.
    got: Vec<(ChannelId, Vec<u8>)>,
    /// Numbers of packets of its own that are lost on the way.
    loses: Vec<u64>,
    /// Nothing of its own arrives.
    cut: bool,
    /// The ECN field of what reaches it.
    ecn: u8,
    sent: u64,
}

struct Net {
    now: Instant,
    sides: [Side; 2],
}

impl Net {
    fn new() -> Self {
        Self::with(&Config::default(), 64)
    }

    /// The second side takes `channels_max` channels.
    fn with(config: &Config, channels_max: u16) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let side = |n: usize| {
            let (send, receive) = if n == 0 { ([1; 32], [2; 32]) } else { ([2; 32], [1; 32]) };
            let peer = PeerLimits { window: 1 << 24, channels_max: 64, credit: 1 << 28, paths: 16 };
            let identity = Identity {
                id: AssociationId(n as u32),
                initiator: n == 0,
                peer_index: 1 - n as u32,
                peer,
                keys: Keys::new(now, &Secrets { send, receive }, false, &Labels),
            };
            let channels_max = if n == 1 { channels_max } else { config.channels_max };
            let config = Config { channels_max, ..config.clone() };
            let remote = ([10, 0, 0, 1 - n as u8], 1).into();
            Side {
                association: Association::new(now, identity, LinkId(0), remote, &config),
                memory: HeapMemory::new(ByteSize::from_mib(64)),
                coming: VecDeque::new(),
                events: Vec::new(),
                got: Vec::new(),
                loses: Vec::new(),
                cut: false,
                ecn: 0,
                sent: 0,
            }
        };
        Self { now, sides: [side(0), side(1)] }
    }

    fn transmit(&mut self, n: usize) {
        self.granted(n, GrantKind::All);
    }

    /// Sends what there is of that kind; returns the datagrams.
    fn granted(&mut self, n: usize, kind: GrantKind) -> Vec<Vec<u8>> {
        let mut buf = vec![0; 16 * 1500];
        let mut all = Vec::new();
        loop {
            let Side { association, memory, .. } = &mut self.sides[n];
            let mut out = TxBatch::new(&mut buf, memory, 16);
            let grant = Grant { kind, ..Grant::free(LinkId(0)) };
            let Some(train) = association.poll_transmit(self.now, grant, &mut out) else {
                return all;
            };
            assert!(train.segment > 0 && train.datagrams() <= 16, "{train:?}");
            for datagram in buf[..train.len].chunks(train.segment) {
                let Ok(Packet::Data(header)) = Packet::parse(datagram) else { panic!("a packet") };
                let from = &mut self.sides[n];
                from.sent += 1;
                if !from.cut && !from.loses.contains(&header.number) {
                    self.sides[1 - n].coming.push_back((self.now + TRIP, datagram.to_vec()));
                }
                all.push(datagram.to_vec());
            }
        }
    }

    fn receive(&mut self, n: usize) {
        let side = &mut self.sides[n];
        while let Some((_, mut datagram)) = side.coming.pop_front_if(|(at, _)| *at <= self.now) {
            let Ok(Packet::Data(header)) = Packet::parse(&datagram) else { panic!("a packet") };
            let remote = side.association.remote();
            let rx = RxMeta { link: LinkId(0), remote, ecn: side.ecn, late: Duration::ZERO };
            let Side { association, memory, .. } = side;
            association.handle_packet(self.now, rx, header, &mut datagram, memory);
        }
        if let Some((due, _)) = side.association.poll_timeout().filter(|(at, _)| *at <= self.now) {
            side.association.handle_timeout(due, self.now, &mut side.memory);
        }
        while let Some(event) = side.association.poll_event() {
            match &event {
                AssociationEvent::Message { channel, block, len, .. } => {
                    side.got.push((*channel, side.memory.take(*block)));
                    side.association.consumed(*channel, *len);
                }
                AssociationEvent::Sent { block, .. }
                | AssociationEvent::Abandoned { block, .. } => side.memory.release(*block),
                _ => {}
            }
            side.events.push((self.now, event));
        }
    }

    /// Goes on for so long.
    fn run(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        loop {
            for n in [0, 1] {
                self.receive(n);
                self.transmit(n);
            }
            let wakes = self.sides.iter().flat_map(|s| {
                let timer = s.association.poll_timeout().map(|(at, _)| at);
                s.coming.front().map(|(at, _)| *at).into_iter().chain(timer)
            });
            let next = wakes.min().unwrap_or(end).max(self.now + Duration::from_micros(1));
            if next > end {
                break;
            }
            self.now = next;
        }
        self.now = end;
    }

    fn open(&mut self, n: usize, opening: Opening) -> ChannelId {
        self.sides[n].association.open(opening).expect("a channel")
    }

    fn send(&mut self, n: usize, channel: ChannelId, bytes: &[u8]) -> u64 {
        let Side { association, memory, .. } = &mut self.sides[n];
        let block = memory.put(bytes).expect("room");
        association.send(channel, block, bytes.len() as u32).expect("it is open")
    }

    fn stats(&self, n: usize) -> &AssociationStats {
        self.sides[n].association.stats()
    }

    fn of(&self, n: usize, channel: ChannelId) -> ChannelStats {
        self.sides[n].association.channel_stats(channel).expect("it is open")
    }

    /// When side `n` was told that a message has arrived, after so many milliseconds.
    fn acknowledged_ms(&self, n: usize, since: Instant) -> Vec<u64> {
        let sent = |(at, event): &(Instant, AssociationEvent)| {
            let is_sent = matches!(event, AssociationEvent::Sent { .. });
            (is_sent && *at >= since).then(|| at.since(since).as_millis() as u64)
        };
        self.sides[n].events.iter().filter_map(sent).collect()
    }
}

const BOTH: Opening = Opening::new(Direction::Both, 7);

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + seed) as u8).collect()
}

#[test]
fn messages_of_several_channels_arrive_each_on_its_own_and_are_counted() {
    let mut net = Net::new();
    let [a, b] = [7, 9].map(|label| net.open(0, Opening { label, ..BOTH }));
    net.run(20);
    let opened = |event: &(Instant, AssociationEvent)| match &event.1 {
        AssociationEvent::Opened(open) => Some((open.channel, open.label)),
        _ => None,
    };
    let told: Vec<_> = net.sides[1].events.iter().filter_map(opened).collect();
    assert_eq!(told, [(a, 7), (b, 9)], "before anything was sent on them");
    for (channel, seed, len) in [(b, 1, 100_000), (a, 2, 10), (b, 3, 0)] {
        net.send(0, channel, &bytes(seed, len));
    }
    net.send(1, b, &bytes(4, 5000));
    net.run(500);
    let mut got = net.sides[1].got.clone();
    got.sort_by_key(|(channel, bytes)| (*channel, std::cmp::Reverse(bytes.len())));
    assert_eq!(got, [(a, bytes(2, 10)), (b, bytes(1, 100_000)), (b, vec![])]);
    assert_eq!(net.sides[0].got, [(b, bytes(4, 5000))]);
    let (ours, theirs) = (net.of(0, b), net.of(1, b));
    assert_eq!((ours.messages_sent, ours.bytes_sent, ours.messages_received), (2, 100_000, 1));
    assert_eq!((theirs.messages_received, theirs.bytes_received), (2, 100_000));
    assert_eq!((ours.repaired, ours.late, ours.abandoned, theirs.stale), (0, 0, 0, 0));
    let (ours, theirs) = (net.stats(0), net.stats(1));
    assert_eq!((ours.messages_sent, ours.messages_received), (3, 1));
    assert_eq!((theirs.messages_sent, theirs.messages_received), (1, 3));
    assert_eq!((ours.packets_lost, ours.probes, ours.repaired, theirs.duplicates), (0, 0, 0, 0));
    assert_eq!(net.sides.each_ref().map(|s| s.memory.used()), [0, 0]);
}

#[test]
fn one_message_alone_is_acknowledged_after_the_delay_and_a_lost_one_repaired_by_a_probe() {
    let mut net = Net::new();
    let channel = net.open(0, BOTH);
    net.send(0, channel, b"first");
    net.run(200);
    let since = net.now;
    net.send(0, channel, b"alone");
    net.run(200);
    assert_eq!(net.acknowledged_ms(0, since), [12], "two trips and the delay of 2 ms");
    assert_eq!(net.stats(0).probes, 0);
    let next = net.sides[0].sent;
    net.sides[0].loses = vec![next];
    let since = net.now;
    net.send(0, channel, b"lost");
    net.run(1);
    let (at, kind) = net.sides[0].association.poll_timeout().expect("a probe");
    assert_eq!(kind, TimerKind::Probe);
    net.run(200);
    assert_eq!((net.stats(0).probes, net.stats(0).repaired), (1, 1));
    assert_eq!(net.of(0, channel).repaired, 1);
    let took = net.acknowledged_ms(0, since);
    assert_eq!(took.len(), 1);
    assert!(at.since(since) > TRIP * 2 && took[0] < 60, "{took:?} ms, probe at {at}");
    assert_eq!(net.sides[1].got.len(), 3);
}

#[test]
fn what_is_lost_on_the_way_is_sent_again_and_counted_once_by_packet() {
    let mut net = Net::new();
    let channel = net.open(0, BOTH);
    net.send(0, channel, b"first");
    net.run(200);
    let next = net.sides[0].sent;
    net.sides[0].loses = vec![next + 1, next + 4];
    net.send(0, channel, &bytes(1, 12_000));
    net.run(500);
    assert_eq!(net.sides[1].got.last(), Some(&(channel, bytes(1, 12_000))));
    let stats = net.stats(0);
    assert_eq!((stats.packets_lost, stats.spurious, stats.repaired), (2, 0, 2), "{stats:?}");
    assert_eq!(net.of(0, channel).repaired, 2);
}

#[test]
fn a_message_whose_time_is_over_is_given_up_and_both_ends_count_it() {
    let mut net = Net::new();
    let timely = Opening { reliability: Reliability::Timely, ..BOTH };
    let channel = net.open(0, timely);
    net.send(0, channel, b"first");
    net.run(200);
    net.sides[0].cut = true;
    let deadline = net.now + Duration::from_millis(50);
    let Side { association, memory, .. } = &mut net.sides[0];
    let block = memory.put(&bytes(1, 4000)).expect("room");
    association.send_by(channel, block, 4000, deadline).expect("it is open");
    net.run(40);
    assert_eq!(net.of(0, channel).abandoned, 0);
    net.run(20);
    assert_eq!(net.of(0, channel).abandoned, 0, "all of it is under way");
    net.sides[0].cut = false;
    net.run(1000);
    assert_eq!(net.of(0, channel).abandoned, 1, "it was lost");
    assert_eq!((net.of(1, channel).dropped, net.of(1, channel).messages_received), (1, 1));
    assert_eq!(net.of(0, channel).messages_sent, 1);
    assert_eq!(net.sides[0].memory.used(), 0);
}

#[test]
fn a_channel_that_is_refused_for_now_loses_nothing_of_what_came_on_it() {
    let mut net = Net::with(&Config::default(), 1);
    let first = net.open(0, BOTH);
    net.send(0, first, b"one");
    net.run(20);
    let second = net.open(0, BOTH);
    net.send(0, second, b"two");
    net.run(300);
    assert_eq!(net.sides[1].got, [(first, b"one".to_vec())]);
    assert_eq!(net.acknowledged_ms(0, Instant::ZERO).len(), 1, "the other must come again");
    assert!(net.stats(1).refused > 0);
    // Once the first is over in both directions there is room.
    for n in [0, 1] {
        net.sides[n].association.finish(first, 0);
    }
    net.run(3000);
    assert_eq!(net.sides[1].got.last(), Some(&(second, b"two".to_vec())));
}

#[test]
fn an_idle_pair_asks_ever_less_often_until_something_is_said() {
    let mut net = Net::new();
    let channel = net.open(0, BOTH);
    net.send(0, channel, b"first");
    net.run(60_000);
    let before = net.sides[0].sent;
    net.run(100_000);
    let asked = net.sides[0].sent - before;
    assert!((3..=5).contains(&asked), "{asked} packets in 100 s, every 25 s at last");
    net.send(0, channel, b"again");
    net.run(1000);
    let before = net.sides[0].sent;
    net.run(3000);
    assert!(net.sides[0].sent > before, "it begins with short times anew");
}

#[test]
fn a_close_is_told_three_times_and_lingers_before_it_is_over() {
    let mut net = Net::new();
    net.run(100);
    assert!(net.sides.iter().all(|s| s.association.is_open() && !s.association.is_over()));
    net.sides[1].cut = true;
    let Side { association, memory, .. } = &mut net.sides[0];
    association.close(net.now, 300, "enough", memory);
    let before = net.sides[0].sent;
    net.run(100);
    assert_eq!(net.sides[0].sent - before, 3);
    assert!(net.sides[0].association.is_lingering() && !net.sides[0].association.is_over());
    let over = |side: &Side| match &side.events.last().expect("an end").1 {
        AssociationEvent::Over(end) => end.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(over(&net.sides[0]), End::Closed);
    let text = "enough".into();
    assert_eq!(over(&net.sides[1]), End::ByPeer { reason: 300, text });
    assert!(net.sides[1].association.is_over());
    net.run(289);
    assert!(!net.sides[0].association.is_over(), "390 ms after the end");
    net.run(2);
    assert!(net.sides[0].association.is_over());
    assert_eq!(net.sides[0].association.poll_timeout(), None);
}

#[test]
fn a_stray_packet_is_counted_and_changes_nothing() {
    let mut net = Net::new();
    let channel = net.open(0, BOTH);
    net.send(0, channel, b"first");
    net.transmit(0);
    let (at, datagram) = net.sides[1].coming[0].clone();
    let mut changed = datagram.clone();
    changed[DATA_HEADER - 1] ^= 1;
    net.sides[1].coming.push_back((at, changed));
    net.sides[1].coming.push_back((at, datagram));
    net.run(100);
    let stats = net.stats(1);
    assert_eq!((stats.forged, stats.duplicates, stats.messages_received), (1, 1, 1), "{stats:?}");
}
