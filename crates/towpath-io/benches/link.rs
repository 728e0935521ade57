//! One association over real sockets on loopback, two threads pinned to a core each, datagrams of
//! 1472 bytes, AES-256-GCM. Beside it, in the same run, what the kernel itself moves in trains of
//! the same size. `cargo bench -p towpath-io --bench link [-- SECONDS]`

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_setaffinity};
use towpath_io::{Clock, RealCrypto, UdpLink};
use towpath_proto::association::Opening;
use towpath_proto::endpoint::Answer;
use towpath_proto::{
    AssociationEvent, AssociationId, Config, Connect, Endpoint, EndpointEvent, Grant, HeapMemory,
    HostKey, Machine, Memory, Psk, Rng, Transmit, TxBatch,
};
use towpath_wire::{Admission, ByteSize, ChannelId, Direction, LinkId};

const RUNS: usize = 5;
const LINK: LinkId = LinkId(0);
const TRAIN_BYTES: usize = 60 * 1024;
/// Bytes of a bulk message: the most that a channel of 1 MiB takes.
const BULK: u32 = (1 << 20) - 64;

fn main() {
    let seconds: f64 = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(1.0);
    let time = Duration::from_secs_f64(seconds);
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        floor.push(kernel_floor(time));
        ours.push(association(time, BULK, Waiting::Block).0);
    }
    let (floor, ours) = (median(&mut floor), median(&mut ours));
    println!("kernel, trains of 1472-byte datagrams: {:.2} GB/s", floor / 1e9);
    println!(
        "association, encrypted, 1 MiB messages: {:.2} GB/s ({:.2})",
        ours / 1e9,
        ours / floor
    );
    for (name, waiting) in [("blocking", Waiting::Block), ("polling", Waiting::Poll)] {
        let mut echo: Vec<f64> = (0..RUNS).map(|_| kernel_echo(time / 4, waiting)).collect();
        let mut trip: Vec<f64> = (0..RUNS).map(|_| association(time / 4, 16, waiting).1).collect();
        let (echo, trip) = (median(&mut echo), median(&mut trip));
        println!(
            "16-byte round trip, {name}: {:.1} us, kernel alone {:.1} us ({:.2})",
            trip * 1e6,
            echo * 1e6,
            trip / echo
        );
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Block,
    Poll,
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core % std::thread::available_parallelism().map_or(1, usize::from));
    let _ = sched_setaffinity(None, &set);
}

fn wait(link: &UdpLink, writable: bool, time: Duration) {
    let flags = if writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let fd = link.as_fd();
    let mut fds = [PollFd::new(&fd, flags)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: time.as_nanos().min(50_000_000) as i64 };
    let _ = poll(&mut fds, Some(&timeout));
}

fn link() -> UdpLink {
    UdpLink::bind(LINK, ([127, 0, 0, 1], 0).into()).expect("a socket on loopback")
}

/// Bytes per second that arrive when one thread sends trains and the other only receives them.
fn kernel_floor(time: Duration) -> f64 {
    let (sender, mut receiver) = (link(), link());
    let remote = receiver.local_addr().expect("bound");
    let (stop, arrived) = (AtomicBool::new(false), AtomicU64::new(0));
    let begin = std::time::Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            while !stop.load(Ordering::Relaxed) {
                let mut bytes = 0;
                while receiver.receive(|_, d| bytes += d.len() as u64).expect("receives") {}
                arrived.fetch_add(bytes, Ordering::Relaxed);
                wait(&receiver, false, Duration::from_millis(5));
            }
        });
        pin(0);
        let (segment, count) = (1472, sender.train_max().min(TRAIN_BYTES / 1472));
        let train = vec![7; segment * count];
        let transmit = Transmit { link: LINK, remote, segment, len: train.len(), ecn: 0 };
        let mut sent = 0;
        while begin.elapsed() < time {
            // A window as the association has it, so that nothing is sent only to be dropped.
            if sent > arrived.load(Ordering::Relaxed) + (1 << 20) {
                std::hint::spin_loop();
                continue;
            }
            if sender.send(&transmit, &train).expect("sends") {
                sent += train.len() as u64;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    arrived.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64()
}

/// Seconds of a 16-byte round trip over bare sockets.
fn kernel_echo(time: Duration, waiting: Waiting) -> f64 {
    let (mut near, mut far) = (link(), link());
    let (near_addr, far_addr) =
        (near.local_addr().expect("bound"), far.local_addr().expect("bound"));
    let stop = AtomicBool::new(false);
    let to = |remote: SocketAddr| Transmit { link: LINK, remote, segment: 80, len: 80, ecn: 0 };
    let await_one = |link: &mut UdpLink, stop: &AtomicBool| {
        let mut got = false;
        while !got && !stop.load(Ordering::Relaxed) {
            while link.receive(|_, _| got = true).expect("receives") {}
            if !got && waiting == Waiting::Block {
                wait(link, false, Duration::from_millis(5));
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            while !stop.load(Ordering::Relaxed) {
                await_one(&mut far, &stop);
                let _ = far.send(&to(near_addr), &[1; 80]);
            }
        });
        pin(0);
        let (begin, mut trips) = (std::time::Instant::now(), 0u32);
        while begin.elapsed() < time {
            let _ = near.send(&to(far_addr), &[1; 80]);
            await_one(&mut near, &stop);
            trips += 1;
        }
        stop.store(true, Ordering::Relaxed);
        let _ = near.send(&to(far_addr), &[1; 80]);
        begin.elapsed().as_secs_f64() / f64::from(trips)
    })
}

/// Payload bytes per second, and seconds per round trip: a bulk transfer, or echoes of short
/// messages.
fn association(time: Duration, message: u32, waiting: Waiting) -> (f64, f64) {
    let stop = AtomicBool::new(false);
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            let mut side = Side::new(waiting, message <= 1400);
            tell.send((side.link.local_addr().expect("bound"), side.endpoint.public_key()))
                .expect("the other thread listens");
            while !stop.load(Ordering::Relaxed) {
                side.turn();
            }
        });
        pin(0);
        let mut side = Side::new(waiting, false);
        side.connect(told.recv().expect("the other thread tells"));
        let warm = std::time::Instant::now();
        side.echo = message <= 1400;
        side.begin(message, if side.echo { 1 } else { 3 });
        while warm.elapsed() < Duration::from_millis(200) {
            side.turn();
        }
        let (begin, before) = (std::time::Instant::now(), side.done);
        while begin.elapsed() < time {
            side.turn();
        }
        let (count, seconds) = ((side.done - before) as f64, begin.elapsed().as_secs_f64());
        stop.store(true, Ordering::Relaxed);
        (count * f64::from(message) / seconds, seconds / count)
    })
}

struct Side {
    endpoint: Endpoint,
    memory: HeapMemory,
    link: UdpLink,
    clock: Clock,
    train: Vec<u8>,
    pending: Option<Transmit>,
    waiting: Waiting,
    /// Answers every message with one as long (receiver), or counts answers (sender).
    echo: bool,
    id: Option<AssociationId>,
    channel: Option<ChannelId>,
    done: u64,
}

impl Side {
    fn new(waiting: Waiting, echo: bool) -> Self {
        let crypto = RealCrypto::new(RealCrypto::generate_secret());
        Self {
            endpoint: Endpoint::new(Config::default(), Box::new(crypto), Rng::new(1, 2)),
            memory: HeapMemory::new(ByteSize::from_mib(64)),
            link: link(),
            clock: Clock::start(),
            train: vec![0xff; TRAIN_BYTES],
            pending: None,
            waiting,
            echo,
            id: None,
            channel: None,
            done: 0,
        }
    }

    fn connect(&mut self, (remote, key): (SocketAddr, HostKey)) {
        let connect = Connect {
            link: LINK,
            remote,
            key,
            admission: Admission::Member,
            psk: Psk::MEMBER,
            hello: b"",
        };
        self.endpoint.connect(self.clock.now(), &connect).expect("a place in the table");
        while self.id.is_none() {
            self.turn();
        }
    }

    fn begin(&mut self, message: u32, count: u32) {
        let id = self.id.expect("connected");
        let opening = Opening::new(Direction::Both, 1);
        let channel = self.endpoint.open(id, opening).expect("a channel");
        self.channel = Some(channel);
        for _ in 0..count {
            let block = self.memory.store(vec![5; message as usize]).expect("room");
            self.endpoint.send(id, channel, block, message).expect("the queue has room");
        }
    }

    fn turn(&mut self) {
        let mut quiet = true;
        for _ in 0..8 {
            let now = self.clock.now();
            let Self { endpoint, memory, link, .. } = self;
            if !link
                .receive(|rx, d| endpoint.handle_datagram(now, rx, d, memory))
                .expect("receives")
            {
                break;
            }
            quiet = false;
        }
        let now = self.clock.now();
        if self.endpoint.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.endpoint.handle_timeout(now, &mut self.memory);
        }
        while let Some(event) = self.endpoint.poll_event() {
            quiet = false;
            self.event(event);
        }
        quiet &= self.transmit();
        if quiet && self.waiting == Waiting::Block {
            let next = self.endpoint.poll_timeout().map_or(Duration::MAX, |(at, _)| at.since(now));
            wait(&self.link, self.pending.is_some(), next);
        }
    }

    /// True when nothing went out.
    fn transmit(&mut self) -> bool {
        for n in 0..16 {
            let transmit = if let Some(kept) = self.pending.take() {
                kept
            } else {
                let max = self.link.train_max();
                let mut batch = TxBatch::new(&mut self.train, &self.memory, max);
                let now = self.clock.now();
                match self.endpoint.poll_transmit(now, Grant::free(LINK), &mut batch) {
                    Some(t) => t,
                    None => return n == 0,
                }
            };
            if !self.link.send(&transmit, &self.train).expect("sends") {
                self.pending = Some(transmit);
                return true;
            }
        }
        false
    }

    fn event(&mut self, event: EndpointEvent) {
        match event {
            EndpointEvent::Incoming { id, .. } => {
                let answer = Answer::Accept { psk: Psk::MEMBER, hello: b"" };
                self.endpoint.answer(self.clock.now(), id, &answer);
            }
            EndpointEvent::Connected { id, .. } => self.id = Some(id),
            EndpointEvent::ConnectFailed { failure, .. } => panic!("{failure:?}"),
            EndpointEvent::Association { id, event } => self.association_event(id, &event),
        }
    }

    fn association_event(&mut self, id: AssociationId, event: &AssociationEvent) {
        match *event {
            AssociationEvent::Message { channel, block, len, .. } => {
                self.endpoint.consumed(id, channel, len);
                if self.echo {
                    // The sender's own next message, or the receiver's answer.
                    self.endpoint.send(id, channel, block, len).expect("the queue has room");
                    self.done += 1;
                } else {
                    self.memory.release(block);
                }
            }
            AssociationEvent::Sent { channel, block, .. } => {
                let len = self.memory.len(block);
                if self.echo || self.channel.is_none() {
                    self.memory.release(block);
                } else {
                    self.done += 1;
                    self.endpoint.send(id, channel, block, len).expect("the queue has room");
                }
            }
            _ => {}
        }
    }
}
