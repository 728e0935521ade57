//! Costs of the transport on one core: the event kernel, and both machines of one association
//! joined by a queue. `cargo bench -p towpath-io --bench transport [-- SECONDS]`
//!
//! Every figure is the median of five runs. No link, no wake-ups, no system calls: what remains
//! is what the protocol itself costs.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use towpath_io::RealCrypto;
use towpath_proto::association::Opening;
use towpath_proto::endpoint::Answer;
use towpath_proto::{
    AssociationEvent, AssociationId, Config, Connect, Crypto, Endpoint, EndpointEvent, Grant,
    Machine, Memory, Psk, Rng, RxMeta, TxBatch,
};
use towpath_sim::crypto::StandIn;
use towpath_sim::kernel::Kernel;
use towpath_sim::memory::{SimMemory, VIRTUAL_LABEL};
use towpath_wire::{Admission, ByteSize, ChannelId, Direction, Instant, LinkId};

const RUNS: usize = 5;
/// UDP payload of a packet with 1400 bytes of message.
const DATAGRAM: u16 = 1400 + 16 + 16 + 21;
/// Datagrams in a train.
const TRAIN: usize = 44;

fn main() {
    let seconds: f64 = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(0.5);
    let mut kernel: Vec<f64> = (0..RUNS).map(|_| kernel(seconds)).collect();
    println!("kernel: {:.1} M events/s with 1000 pending", median(&mut kernel) / 1e6);
    let long = (1 << 20) - 64;
    for (name, payload, message) in [
        ("virtual payload, 1 MiB messages", Payload::Virtual, long),
        ("virtual payload, 1400 B messages", Payload::Virtual, 1400),
        ("bytes, the stand-in's seal, 1 MiB messages", Payload::Bytes, long),
        ("bytes, AES-256-GCM, 1 MiB messages", Payload::Sealed, long),
    ] {
        let mut rates: Vec<f64> =
            (0..RUNS).map(|_| Pair::new(payload, message).run(seconds)).collect();
        println!("association, {name}: {:.3} M packets/s delivered", median(&mut rates) / 1e6);
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn kernel(seconds: f64) -> f64 {
    let mut kernel: Kernel<u32> = Kernel::new();
    let mut rng = Rng::new(1, 1);
    for n in 0..1000 {
        kernel.schedule(Instant::from_nanos(u64::from(rng.u32())), n);
    }
    let begin = std::time::Instant::now();
    let mut happened = 0u64;
    while begin.elapsed().as_secs_f64() < seconds {
        for _ in 0..10_000 {
            let (at, n) = kernel.pop().expect("always 1000 pending");
            kernel.schedule(at + Duration::from_nanos(u64::from(rng.u32())), n);
        }
        happened += 10_000;
    }
    happened as f64 / begin.elapsed().as_secs_f64()
}

/// What messages are made of, and who seals them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Payload {
    Virtual,
    Bytes,
    Sealed,
}

fn crypto(payload: Payload, rng: Rng) -> Box<dyn Crypto> {
    if payload == Payload::Sealed {
        Box::new(RealCrypto::seeded(rng))
    } else {
        Box::new(StandIn::new(rng))
    }
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
struct Pair {
    now: Instant,
    sides: [Side; 2],
    channel: Option<ChannelId>,
    message: u32,
    buf: Vec<u8>,
    flight: [VecDeque<Vec<u8>>; 2],
    spare: Vec<Vec<u8>>,
    packets: u64,
}

impl Pair {
    fn new(payload: Payload, message: u32) -> Self {
        let side = |n: u8| Side {
            endpoint: Endpoint::new(
                Config { datagram: DATAGRAM, ..Config::default() },
                crypto(payload, Rng::new(u64::from(n), 1)),
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
            flight: [VecDeque::new(), VecDeque::new()],
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

    /// Packets per second that the receiver took in.
    fn run(mut self, seconds: f64) -> f64 {
        self.go_on(Duration::from_millis(100));
        let (begin, before) = (std::time::Instant::now(), self.packets);
        self.go_on(Duration::from_secs_f64(seconds));
        assert!(self.sides[1].messages > 0, "messages arrived");
        (self.packets - before) as f64 / begin.elapsed().as_secs_f64()
    }

    fn go_on(&mut self, time: Duration) {
        let begin = std::time::Instant::now();
        while begin.elapsed() < time {
            for _ in 0..16 {
                self.fill();
                self.turn();
            }
        }
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
            while let Some(mut data) = flight[n].pop_front() {
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
                self.flight[n].push_back(data);
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
