//! Both machines of one association, joined by a queue: nothing is lost, each train takes 20 us.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use towpath_proto::association::Opening;
use towpath_proto::endpoint::Answer;
use towpath_proto::{
    AssociationEvent, AssociationId, Config, Connect, Endpoint, EndpointEvent, Grant, Machine,
    Memory, Psk, Rng, RxMeta, TxBatch,
};
use towpath_sim::crypto::StandIn;
use towpath_sim::memory::{SimMemory, VIRTUAL_LABEL};
use towpath_wire::{Admission, ByteSize, ChannelId, Direction, Instant, LinkId};

/// UDP payload of a packet with 1400 bytes of message.
const DATAGRAM: u16 = 1400 + 16 + 16 + 21;
/// Datagrams in a train.
const TRAIN: usize = 44;

/// What messages are made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    Virtual,
    Bytes,
}

struct Side {
    endpoint: Endpoint,
    memory: SimMemory,
    addr: SocketAddr,
    id: Option<AssociationId>,
    messages: u64,
    waiting: usize,
}

/// Two endpoints and the datagrams between them.
pub(crate) struct Pair {
    now: Instant,
    sides: [Side; 2],
    channel: Option<ChannelId>,
    message: u32,
    buf: Vec<u8>,
    flight: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    packets: u64,
}

impl Pair {
    pub(crate) fn new(payload: Payload, message: u32) -> Self {
        let side = |n: u8| Side {
            endpoint: Endpoint::new(
                Config { datagram: DATAGRAM, ..Config::default() },
                Box::new(StandIn::new(Rng::new(u64::from(n), 1))),
                Rng::new(u64::from(n), 2),
            ),
            memory: SimMemory::new(ByteSize::from_mib(64), payload != Payload::Virtual),
            addr: ([10, 0, 0, n], 7077).into(),
            id: None,
            messages: 0,
            waiting: 0,
        };
        let mut pair = Self {
            now: Instant::ZERO,
            sides: [side(1), side(2)],
            channel: None,
            message,
            buf: vec![0; TRAIN * usize::from(DATAGRAM)],
            flight: VecDeque::new(),
            spare: Vec::new(),
            packets: 0,
        };
        let (remote, key) = (pair.sides[1].addr, pair.sides[1].endpoint.public_key());
        let admission = Admission::Member;
        let connect =
            Connect { link: LinkId(0), remote, key, admission, psk: Psk::MEMBER, hello: b"" };
        pair.sides[0].endpoint.connect(pair.now, &connect).expect("a place");
        while pair.sides[0].id.is_none() {
            pair.turn();
        }
        let opening = Opening::new(Direction::Opener, VIRTUAL_LABEL);
        let id = pair.sides[0].id.expect("connected");
        pair.channel = pair.sides[0].endpoint.open(id, opening);
        pair
    }

    /// Goes on until so many datagrams were taken in, after as many as the beginning needs.
    pub(crate) fn run(mut self, packets: u64) {
        let until = self.packets + 20_000 + packets;
        while self.packets < until {
            self.fill();
            self.turn();
        }
        assert!(self.sides[1].messages > 0, "messages arrived");
    }

    fn fill(&mut self) {
        let (Some(channel), side) = (self.channel, &mut self.sides[0]) else { return };
        let id = side.id.expect("connected");
        let enough = 2 + (1 << 21) / self.message as usize;
        while side.waiting < enough {
            let Some(block) = side.memory.bulk(7, self.message) else { return };
            side.endpoint.send(id, channel, block, self.message).expect("the queue has room");
            side.waiting += 1;
        }
    }

    /// One train from each side to the other.
    fn turn(&mut self) {
        self.now += Duration::from_micros(20);
        for n in 0..2 {
            self.transmit(n);
            let Self { sides, flight, spare, .. } = self;
            let rx =
                RxMeta { link: LinkId(0), remote: sides[n].addr, ecn: 0, late: Duration::ZERO };
            let to = &mut sides[1 - n];
            while let Some(mut data) = flight.pop_front() {
                to.endpoint.handle_datagram(self.now, rx, &mut data, &mut to.memory);
                self.packets += u64::from(n == 0);
                spare.push(data);
            }
            if to.endpoint.poll_timeout().is_some_and(|(at, _)| at <= self.now) {
                to.endpoint.handle_timeout(self.now, &mut to.memory);
            }
            self.events(1 - n);
        }
    }

    fn transmit(&mut self, n: usize) {
        let side = &mut self.sides[n];
        let mut batch = TxBatch::new(&mut self.buf, &side.memory, TRAIN);
        let grant = Grant::free(LinkId(0));
        if let Some(t) = side.endpoint.poll_transmit(self.now, grant, &mut batch) {
            for datagram in self.buf[..t.len].chunks(t.segment) {
                let mut data = self.spare.pop().unwrap_or_default();
                data.clear();
                data.extend_from_slice(datagram);
                self.flight.push_back(data);
            }
        }
    }

    fn events(&mut self, n: usize) {
        let side = &mut self.sides[n];
        while let Some(event) = side.endpoint.poll_event() {
            match event {
                EndpointEvent::Incoming { id, .. } => {
                    let answer = Answer::Accept { psk: Psk::MEMBER, hello: b"" };
                    side.endpoint.answer(self.now, id, &answer);
                }
                EndpointEvent::Connected { id, .. } => side.id = Some(id),
                EndpointEvent::Association { id, event } => match event {
                    AssociationEvent::Message { channel, block, len, .. } => {
                        side.memory.release(block);
                        side.endpoint.consumed(id, channel, len);
                        side.messages += 1;
                    }
                    AssociationEvent::Sent { block, .. } => {
                        side.memory.release(block);
                        side.waiting -= 1;
                    }
                    AssociationEvent::Over(end) => panic!("{end:?}"),
                    _ => {}
                },
                EndpointEvent::ConnectFailed { failure, .. } => panic!("{failure:?}"),
            }
        }
    }
}
