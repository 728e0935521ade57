//! The relay itself: a thread that moves packets between two TUN devices as the simulator's link
//! says, in real time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use towpath_io::Clock;
use towpath_proto::Rng;
use towpath_sim::link::{Link, LinkSpec};
use towpath_wire::Instant;

use crate::tun::TunDevice;

/// Bytes of the longest IP packet that passes.
pub(super) const MTU: usize = 1500;
/// Bytes that Ethernet adds to each: header, check sequence, preamble and the gap after it.
pub(super) const ETHERNET: u64 = 38;
/// Packets under way in one direction at most; what comes on top is dropped and counted.
const UNDER_WAY_MAX: usize = 1 << 17;
/// Packets taken from one device before the other has its turn.
const BATCH: usize = 64;
const IDLE: Duration = Duration::from_millis(20);

/// What the relay has done.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Bytes delivered in the first direction, Ethernet's included: TCP, UDP.
    delivered: [AtomicU64; 2],
    /// Packets dropped for lack of queue, in both directions.
    overflowed: AtomicU64,
    /// Packets that it could not take or give in time: any of these and the figures are its own.
    failed: AtomicU64,
}

/// A reading of the counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub(super) tcp_bytes: u64,
    pub(super) udp_bytes: u64,
    pub(super) overflowed: u64,
    pub(super) failed: u64,
}

/// A running relay; it ends when this is dropped.
pub(super) struct Relay {
    orders: Option<Sender<LinkSpec>>,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Between `near` and `far`, alike in both directions.
    pub(super) fn start(near: TunDevice, far: TunDevice, spec: LinkSpec) -> Self {
        let (orders, inbox) = channel();
        let counters = Arc::new(Counters::default());
        let mut work = Work {
            devices: [near, far],
            ways: [Way::new(spec, 1), Way::new(spec, 2)],
            free: Vec::new(),
            clock: Clock::start(),
            counters: Arc::clone(&counters),
        };
        let thread = Some(std::thread::spawn(move || work.run(&inbox)));
        Self { orders: Some(orders), counters, thread }
    }

    /// Makes a new link of it, empty, with the same random numbers each time.
    pub(super) fn become_link(&self, spec: LinkSpec) {
        if let Some(orders) = &self.orders {
            // Its end is noticed by whoever measures: nothing arrives.
            let _ = orders.send(spec);
        }
    }

    pub(super) fn read(&self) -> Reading {
        let c = &self.counters;
        Reading {
            tcp_bytes: c.delivered[0].load(Relaxed),
            udp_bytes: c.delivered[1].load(Relaxed),
            overflowed: c.overflowed.load(Relaxed),
            failed: c.failed.load(Relaxed),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One direction.
struct Way {
    link: Link,
    /// Arrival, order of coming, packet.
    pending: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    count: u64,
}

impl Way {
    fn new(spec: LinkSpec, stream: u64) -> Self {
        Self { link: Link::new(spec, Rng::new(1, stream)), pending: BinaryHeap::new(), count: 0 }
    }

    fn next(&self) -> Option<Instant> {
        self.pending.peek().map(|Reverse((at, ..))| *at)
    }
}

struct Work {
    devices: [TunDevice; 2],
    ways: [Way; 2],
    free: Vec<Vec<u8>>,
    clock: Clock,
    counters: Arc<Counters>,
}

impl Work {
    fn run(&mut self, inbox: &Receiver<LinkSpec>) {
        loop {
            match inbox.try_recv() {
                Ok(spec) => self.ways = [Way::new(spec, 1), Way::new(spec, 2)],
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
            let more = self.take(0) | self.take(1);
            self.give(0);
            self.give(1);
            if !more {
                self.wait();
            }
        }
    }

    /// Takes packets in; true when there may be more.
    fn take(&mut self, from: usize) -> bool {
        let now = self.clock.now();
        for _ in 0..BATCH {
            let mut packet = self.free.pop().unwrap_or_default();
            packet.resize(MTU, 0);
            let Ok(Some(len)) = self.devices[from].receive(&mut packet) else {
                self.free.push(packet);
                return false;
            };
            packet.truncate(len);
            let way = &mut self.ways[from];
            let overflowed = way.link.stats.overflowed;
            let [first, second] = way.link.offer(now, len, 0);
            if way.link.stats.overflowed > overflowed {
                self.counters.overflowed.fetch_add(1, Relaxed);
            }
            let copy = second.map(|second| (second.at, packet.clone()));
            let first = first.map(|first| (first.at, packet));
            for (at, packet) in [first, copy].into_iter().flatten() {
                if way.pending.len() < UNDER_WAY_MAX {
                    way.count += 1;
                    way.pending.push(Reverse((at, way.count, packet)));
                } else {
                    self.counters.failed.fetch_add(1, Relaxed);
                }
            }
        }
        true
    }

    fn give(&mut self, from: usize) {
        let now = self.clock.now();
        while self.ways[from].next().is_some_and(|at| at <= now) {
            let Some(Reverse((_, _, packet))) = self.ways[from].pending.pop() else { return };
            if !matches!(self.devices[1 - from].send(&packet), Ok(true)) {
                self.counters.failed.fetch_add(1, Relaxed);
            } else if from == 0
                && let Some(class) = class_of(&packet)
            {
                let bytes = packet.len() as u64 + ETHERNET;
                self.counters.delivered[class].fetch_add(bytes, Relaxed);
            }
            self.free.push(packet);
        }
    }

    fn wait(&self) {
        let next = self.ways.iter().filter_map(Way::next).min();
        let time = next.map_or(IDLE, |at| at.since(self.clock.now()).min(IDLE));
        if let Ok(timeout) = Timespec::try_from(time) {
            let [a, b] = &self.devices;
            // An interrupted wait is a short one.
            let _ = poll(
                &mut [PollFd::new(a, PollFlags::IN), PollFd::new(b, PollFlags::IN)],
                Some(&timeout),
            );
        }
    }
}

/// 0 for TCP, 1 for UDP, by the header of IPv4 or IPv6 (extension headers count as neither).
fn class_of(packet: &[u8]) -> Option<usize> {
    let at = match packet.first()? >> 4 {
        4 => 9,
        6 => 6,
        _ => return None,
    };
    match packet.get(at)? {
        6 => Some(0),
        17 => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::class_of;

    #[test]
    fn protocols_are_told_apart() {
        let v4 = |p| [0x45, 0, 0, 0, 0, 0, 0, 0, 64, p];
        assert_eq!([6, 17, 1].map(|p| class_of(&v4(p))), [Some(0), Some(1), None]);
        assert_eq!(class_of(&[0x60, 0, 0, 0, 0, 0, 17]), Some(1));
        assert_eq!((class_of(&[]), class_of(&[0x45]), class_of(&[0])), (None, None, None));
    }
}
