//! Moves datagrams between one UDP link and one machine, a bounded number per turn.
//!
//! The engine and `towpath bench link` drive their machines through this; they differ only in
//! how they wait.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use towpath_proto::{Decision, Egress, Free, Machine, Memory, PathChange};
use towpath_wire::Instant;

use crate::clock::Clock;
use crate::udp::{LinkCounters, Notice, SendBatch, TRAIN_BYTES, TooLong, UdpLink, route_mtu};

/// Receive calls per turn: bounded work per wake-up.
const RECEIVES_PER_TURN: usize = 8;
/// Send calls per turn.
const SENDS_PER_TURN: usize = 16;

/// Longest look for the next datagram before sleeping: about what it costs to fall asleep and to
/// be woken, twice over.
const SPIN: Duration = Duration::from_micros(60);
/// With more bytes on the move than this between two waits, sleeping gathers larger batches.
const LIGHT: u64 = 16 * 1024;
/// After a datagram as long as this, more are likely to wait behind it.
const LOOK_BYTES: usize = 1024;

/// From so many bytes received per millisecond on, waking up for each train costs more than it
/// gives: whoever waits lets about [`GATHERED`] come together, for [`GATHER_MAX`] at most.
const FAST: u64 = 512 << 10;
const GATHERED: u64 = 1 << 20;
const GATHER_MAX: Duration = Duration::from_micros(300);
/// The rate is measured over so long.
const RATE_OVER: Duration = Duration::from_millis(1);

/// How a turn of sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There was nothing to send.
    Idle,
    /// Everything was sent.
    Sent,
    /// The turn was over first: come again after whoever else has something.
    More,
    /// The socket takes no more: come again when it is writable.
    Blocked,
}

/// A link with the trains that it did not take yet.
pub struct LinkDriver<E = Free> {
    link: UdpLink,
    batch: SendBatch,
    egress: E,
    /// Before then the egress lets nothing go, or the last train may not leave.
    held_until: Option<Instant>,
    /// Before then the train that is held in the batch does not leave.
    not_before: Option<Instant>,
    /// Bytes that had passed through the link at the last wait.
    passed: u64,
    /// When the last wait began, where little had passed before it.
    waits_since: Option<Instant>,
    /// What was waited for last time came so soon that looking for it was worth while.
    soon: bool,
    /// When the rate was last measured, and bytes received until then.
    measured: (Instant, u64),
    /// How long it takes until enough has come together; zero on links that are not fast.
    gathering: Duration,
}

impl LinkDriver {
    /// A driver of `link` that sends whatever there is.
    pub fn new(link: UdpLink) -> Self {
        let free = Free::new(link.id());
        Self::with_egress(link, free)
    }
}

impl<E: Egress> LinkDriver<E> {
    /// A driver of `link` that sends what `egress` lets go.
    pub fn with_egress(link: UdpLink, egress: E) -> Self {
        Self {
            link,
            batch: SendBatch::new(),
            egress,
            held_until: None,
            not_before: None,
            passed: 0,
            waits_since: None,
            soon: false,
            measured: (Instant::ZERO, 0),
            gathering: Duration::ZERO,
        }
    }

    /// The link.
    pub const fn link(&self) -> &UdpLink {
        &self.link
    }

    /// Who decides what goes next.
    pub const fn egress(&self) -> &E {
        &self.egress
    }

    /// The same, to reserve.
    pub const fn egress_mut(&mut self) -> &mut E {
        &mut self.egress
    }

    /// When to call [`LinkDriver::transmit`] again though nothing else happened: until then the
    /// egress holds back what waits, or what is on its way may not leave.
    pub const fn held_until(&self) -> Option<Instant> {
        self.held_until
    }

    /// The link's counters.
    pub const fn counters(&self) -> &LinkCounters {
        self.link.counters()
    }

    /// What a person may want to know, each kind once.
    pub fn notice(&mut self) -> Option<Notice> {
        self.link.notice()
    }

    /// Hands waiting datagrams to the machine, as many as fit into a turn. True when any came.
    pub fn receive<M: Machine>(
        &mut self,
        clock: &Clock,
        machine: &mut M,
        memory: &mut dyn Memory,
    ) -> io::Result<bool> {
        let before = self.link.counters().datagrams_received;
        for _ in 0..RECEIVES_PER_TURN {
            let mut now = None;
            let more = self.link.receive(|rx, data| {
                // Once per batch, and after the call that may have waited for it.
                let now = *now.get_or_insert_with(|| clock.now());
                machine.handle_datagram(now, rx, data, memory);
            })?;
            if let Some(now) = now
                && let Some(since) = self.waits_since.take()
            {
                self.soon = now < since + SPIN;
            }
            if !more {
                break;
            }
        }
        Ok(self.link.counters().datagrams_received > before)
    }

    /// To be called before sleeping: where short messages go to and fro, the next one may be here
    /// sooner than a sleeper would wake. True when something came: do not sleep. Never looks
    /// when the last wait was long, so an idle link costs nothing.
    pub fn spin<M: Machine>(
        &mut self,
        clock: &Clock,
        machine: &mut M,
        memory: &mut dyn Memory,
    ) -> io::Result<bool> {
        let (now, counters) = (clock.now(), self.link.counters());
        let passed = counters.bytes_sent + counters.bytes_received;
        let light = passed - self.passed < LIGHT;
        self.passed = passed;
        self.waits_since = light.then_some(now);
        if !light || !self.soon || self.held_until.is_some_and(|until| until <= now) {
            return Ok(false);
        }
        self.soon = self.look(clock, machine, memory, now + SPIN)?;
        Ok(self.soon)
    }

    /// How long to sleep before the link is watched again: not at all, unless datagrams come so
    /// fast that it pays to let them come together. To be asked after [`LinkDriver::spin`] found
    /// nothing.
    pub fn gather(&mut self, clock: &Clock) -> Duration {
        let (now, received) = (clock.now(), self.link.counters().bytes_received);
        let (since, before) = self.measured;
        let time = now.since(since);
        if time >= RATE_OVER {
            self.gathering = gathering(received - before, time);
            self.measured = (now, received);
        }
        self.gathering
    }

    /// Looks for datagrams again and again, until some came, the machine's time has come, or it
    /// is `until`. True when some came.
    pub fn look<M: Machine>(
        &mut self,
        clock: &Clock,
        machine: &mut M,
        memory: &mut dyn Memory,
        until: Instant,
    ) -> io::Result<bool> {
        let timer = machine.poll_timeout().map_or(Instant::NEVER, |(at, _)| at);
        let until = timer.min(until).min(self.held_until.unwrap_or(Instant::NEVER));
        loop {
            let mut came = 0;
            self.link.receive_one(|rx, data| {
                came += data.len();
                machine.handle_datagram(clock.now(), rx, data, memory);
            })?;
            if came >= LOOK_BYTES {
                self.receive(clock, machine, memory)?;
            }
            if came > 0 {
                return Ok(true);
            }
            if clock.now() >= until {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
    }

    /// Sends what the machine has to send, as much as fits into a turn.
    pub fn transmit<M: Machine>(
        &mut self,
        clock: &Clock,
        machine: &mut M,
        memory: &dyn Memory,
    ) -> Turn {
        self.egress.woken();
        for turn in 0..SENDS_PER_TURN {
            let full = self.fill(clock, machine, memory);
            if self.batch.is_empty() {
                return if turn == 0 { Turn::Idle } else { Turn::Sent };
            }
            let flushed = self.link.flush_from(&mut self.batch, Some(memory));
            self.tell_too_long(clock, machine);
            if !flushed {
                return Turn::Blocked;
            }
            if !full {
                return Turn::Sent;
            }
        }
        Turn::More
    }

    /// Fills the batch; true when the machine may have more.
    fn fill<M: Machine>(&mut self, clock: &Clock, machine: &mut M, memory: &dyn Memory) -> bool {
        let (link, datagrams) = (self.link.id(), self.link.train_max());
        let now = clock.now();
        self.held_until = None;
        if let Some(until) = self.not_before {
            if now < until {
                self.held_until = Some(until);
                return false;
            }
            self.not_before = None;
            self.batch.release();
        }
        while let Some(mut out) = self.batch.train(memory, datagrams) {
            while E::RESERVES
                && let Some(head) = machine.poll_head(now, link)
            {
                self.egress.ready(now, head);
            }
            let grant = match self.egress.next(now) {
                Decision::Grant(grant) => grant,
                Decision::Wait(until) => {
                    self.held_until = Some(until);
                    return false;
                }
                Decision::Idle => return false,
            };
            let train = machine.poll_transmit(now, grant, &mut out);
            self.egress.sent(now, &grant, train.as_ref());
            if let Some(train) = train {
                // Sealed for a path on this link: by another one it would reach nobody.
                assert_eq!(train.link, link, "a train for the link that was granted");
                self.batch.push(train);
                if train.not_before > now {
                    self.batch.hold(memory);
                    self.held_until = Some(train.not_before);
                    self.not_before = self.held_until;
                    return false;
                }
            }
        }
        true
    }

    /// The kernel knows that the way takes only shorter datagrams than we sent.
    fn tell_too_long<M: Machine>(&mut self, clock: &Clock, machine: &mut M) {
        let Some(TooLong { remote, bytes }) = self.link.too_long() else { return };
        let known = route_mtu(remote).map_or(0, |mtu| longest(remote, mtu));
        let bytes = known.min(bytes - 1) as u16;
        machine.handle_path(clock.now(), self.link.id(), PathChange::Longest { remote, bytes });
    }
}

/// How long it pays to wait where so many bytes came in this time.
fn gathering(bytes: u64, time: Duration) -> Duration {
    let per_ms = bytes * 1_000_000 / time.as_nanos().max(1) as u64;
    let full = Duration::from_nanos(GATHERED * 1_000_000 / per_ms.max(1));
    if per_ms < FAST { Duration::ZERO } else { full.min(GATHER_MAX) }
}

/// The longest datagram in an IP packet of `mtu` bytes.
fn longest(remote: SocketAddr, mtu: u32) -> usize {
    let headers = if remote.is_ipv4() { 20 + 8 } else { 40 + 8 };
    (mtu as usize).saturating_sub(headers).min(TRAIN_BYTES)
}

impl<E> AsFd for LinkDriver<E> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use towpath_proto::machine::TimerKind;
    use towpath_proto::{Grant, HeapMemory, RxMeta, Transmit, TxBatch};
    use towpath_wire::{ByteSize, LinkId};

    use super::*;

    /// Takes what comes, and sends nothing.
    #[derive(Default)]
    struct Ear {
        heard: Vec<Vec<u8>>,
        due: Option<Instant>,
    }

    impl Machine for Ear {
        type Event = ();

        fn handle_datagram(&mut self, _: Instant, _: RxMeta, data: &mut [u8], _: &mut dyn Memory) {
            self.heard.push(data.to_vec());
        }

        fn handle_timeout(&mut self, _: Instant, _: &mut dyn Memory) {}

        fn handle_path(&mut self, _: Instant, _: LinkId, _: PathChange) {}

        fn poll_transmit(&mut self, _: Instant, _: Grant, _: &mut TxBatch<'_>) -> Option<Transmit> {
            None
        }

        fn poll_timeout(&self) -> Option<(Instant, TimerKind)> {
            self.due.map(|at| (at, TimerKind::Pace))
        }

        fn poll_event(&mut self) -> Option<()> {
            None
        }
    }

    fn link() -> (LinkDriver, UdpSocket) {
        let link = UdpLink::bind(LinkId(0), (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.connect(link.local_addr().unwrap()).unwrap();
        (LinkDriver::new(link), peer)
    }

    #[test]
    fn a_look_ends_with_what_came_or_with_its_time() {
        let (mut driver, peer) = link();
        let (clock, mut ear) = (Clock::start(), Ear::default());
        let mut memory = HeapMemory::new(ByteSize::from_mib(1));
        let long = clock.now() + Duration::from_mins(1);
        for bytes in [vec![1; 10], vec![2; 1400]] {
            peer.send(&bytes).unwrap();
            assert!(driver.look(&clock, &mut ear, &mut memory, long).unwrap());
        }
        // What stands behind a long one comes with it.
        for n in 3..20 {
            peer.send(&[n; 1200]).unwrap();
        }
        while ear.heard.len() < 19 {
            assert!(driver.look(&clock, &mut ear, &mut memory, long).unwrap());
        }
        let firsts: Vec<u8> = ear.heard.iter().map(|data| data[0]).collect();
        assert_eq!(firsts, (1..20).collect::<Vec<u8>>());
        let soon = clock.now() + Duration::from_millis(2);
        assert!(!driver.look(&clock, &mut ear, &mut memory, soon).unwrap());
        assert!(clock.now() >= soon, "it looked until then");
        // The machine has something to do before.
        ear.due = Some(clock.now() + Duration::from_millis(1));
        assert!(!driver.look(&clock, &mut ear, &mut memory, long).unwrap());
        assert!(!driver.receive(&clock, &mut ear, &mut memory).unwrap());
        peer.send(&[9]).unwrap();
        while !driver.receive(&clock, &mut ear, &mut memory).unwrap() {}
        assert_eq!(ear.heard.last(), Some(&vec![9]));
        assert_eq!(driver.transmit(&clock, &mut ear, &memory), Turn::Idle);
        assert_eq!((driver.held_until(), driver.notice()), (None, None));
    }

    #[test]
    fn who_waits_for_little_gathers_nothing_and_does_not_spin_at_once() {
        let (mut driver, _peer) = link();
        let (clock, mut ear) = (Clock::start(), Ear::default());
        let mut memory = HeapMemory::new(ByteSize::from_mib(1));
        assert!(!driver.spin(&clock, &mut ear, &mut memory).unwrap());
        for _ in 0..3 {
            assert_eq!(driver.gather(&clock), Duration::ZERO);
        }
        // As fast as it pays to wait for more: the time until about a megabyte has come.
        let now = clock.now();
        driver.measured = (now - Duration::from_millis(10), 0);
        assert_eq!(driver.gather(&clock), Duration::ZERO, "nothing came");
        driver.gathering = Duration::from_micros(7);
        driver.measured = (clock.now(), 0);
        assert_eq!(driver.gather(&clock), Duration::from_micros(7), "not measured anew so soon");
    }

    #[test]
    fn the_longest_datagram_leaves_room_for_its_headers() {
        let (v4, v6) = (([127, 0, 0, 1], 1).into(), "[::1]:1".parse().unwrap());
        assert_eq!((longest(v4, 1500), longest(v6, 1500)), (1472, 1452));
        assert_eq!((longest(v4, 28), longest(v6, 20)), (0, 0));
        assert_eq!(longest(v4, 1 << 20), TRAIN_BYTES);
    }

    #[test]
    fn only_fast_links_are_waited_for_and_never_for_long() {
        let ms = Duration::from_millis;
        for (bytes, time, waits) in [
            (0, ms(1), Duration::ZERO),
            (FAST - 1, ms(1), Duration::ZERO),
            (FAST, ms(1), GATHER_MAX),
            (2 * FAST - 1, ms(2), Duration::ZERO),
            (10 * FAST, ms(10), GATHER_MAX),
            // 4 MiB in a millisecond: a megabyte comes in a quarter of one.
            (4 << 20, ms(1), Duration::from_micros(250)),
            (80 << 20, ms(10), Duration::from_micros(125)),
        ] {
            assert_eq!(gathering(bytes, time), waits, "{bytes} bytes in {time:?}");
        }
    }
}
