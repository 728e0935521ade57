//! A link's egress that paces and reserves: what decides who sends next where not everybody may.
//!
//! [`Scheduled`] sends just as fast as the link carries, counted in wire bytes of what was sealed,
//! so that the queue is ours and not a switch's: what is urgent overtakes what waits, and what
//! waits is not lost. In this order go, whenever the link is free:
//!
//! 1. while reserved channels wait: acknowledgements and control, within [`CONTROL_SHARE`] of the
//!    link, since what was promised carries none of them;
//! 2. the reserved channels, a datagram each, in the order of a packet scheduler, each channel held
//!    to its specification by a regulator;
//! 3. everything else, in trains short enough to keep nobody waiting ([`TRAIN_TIME`]).
//!
//! What was granted is charged to its channel as its head had said, with the frames and gaps around
//! it ([`datagram_bytes`]): what is sealed is no longer. What is not used is not given back: a
//! burst would come on top of it.
//!
//! What is promised: a datagram's last bit has left within the reservation's time after the
//! datagram *conformed*: when what it begins with began to wait, or later, when the channel's
//! token bucket had enough for it. Both are reckoned from when it waited, not from when the egress
//! heard of it. A machine that wakes late is late by so much.

use core::cmp::Reverse;
use core::net::SocketAddr;
use core::time::Duration;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec::Vec;

use towpath_proto::{
    AssociationId, Decision, Egress, Free, Grant, GrantKind, Head, PACKET_MIN, Transmit,
};
use towpath_qos::scheduler::heap::Heap;
use towpath_qos::scheduler::{
    ConfigError, Edf, Packet, Port, PortConfig, QueueConfig, QueueId, Scheduler,
};
use towpath_qos::spec::Regulator;
use towpath_qos::spec::wire::{Ip, datagram_bytes};
use towpath_wire::{ByteSize, ChannelId, Instant, LinkId, Rate};

mod admission;

#[cfg(test)]
mod tests;

pub use admission::{NotReserved, Reservation};

/// A train takes no longer than this: it is what urgent data waits for. With reserved channels it
/// takes no longer than [`DELAY_PART`] of the shortest delay that one of them was admitted with.
pub const TRAIN_TIME: Duration = Duration::from_micros(200);
/// See [`TRAIN_TIME`].
pub const DELAY_PART: u32 = 8;
/// Bytes of a train at most: as many as a socket takes at once.
const TRAIN_BYTES: u64 = 64 << 10;
/// One datagram at least, however slow the link.
const DATAGRAM: u64 = 1500;
/// The part of the link that acknowledgements and control have before reserved data: one of these.
pub const CONTROL_SHARE: u32 = 20;
/// What they did not use adds up to so much.
const CONTROL_BURST: Duration = Duration::from_millis(1);
/// The part of the link that nobody can reserve, beside that of control: one of these. Without it
/// reserved channels could keep everything else from ever being sent, the hosts' own messages with
/// it.
pub const OTHERS_SHARE: u32 = 10;
/// A driver that was woken late makes good for so much.
const LATE_MAX: Duration = Duration::from_micros(300);
/// Reserved channels of a link at most, with those that ended a moment ago.
pub const RESERVED_MAX: u32 = 1024;
/// Of these, those of one task at most.
pub const RESERVED_OF_TASK_MAX: u32 = RESERVED_MAX / 4;
/// Queues: a channel that ends keeps its queue until its head was looked at.
const PLACES_MAX: u32 = 2 * RESERVED_MAX;
/// A reservation's packet is no shorter than the shortest datagram that can be granted.
pub const PACKET_BYTES_MIN: u64 = frame_bytes(Ip::V6, PACKET_MIN);

/// One link's egress, as a value: a link without a rate costs nothing.
pub enum LinkEgress {
    /// Whatever fits, as fast as the link takes it.
    Free(Free),
    /// At the link's own rate, with reserved channels.
    Scheduled(Box<Scheduled>),
}

impl LinkEgress {
    /// For a link that is to be paced at `rate`, or is not.
    ///
    /// # Errors
    /// Where no packet scheduler can be made for such a rate.
    pub fn new(link: LinkId, rate: Option<Rate>) -> Result<Self, ConfigError> {
        Ok(match rate {
            None => Self::Free(Free::new(link)),
            Some(rate) => Self::Scheduled(Box::new(Scheduled::new(link, rate)?)),
        })
    }

    /// [`Scheduled::admit`].
    ///
    /// # Errors
    /// [`NotReserved`], and why.
    pub fn admit(&mut self, now: Instant, asked: &Reservation) -> Result<(), NotReserved> {
        match self {
            Self::Free(_) => Err(NotReserved::NoRate),
            Self::Scheduled(it) => it.admit(now, asked),
        }
    }

    /// [`Scheduled::release`].
    pub fn release(&mut self, now: Instant, of: (AssociationId, ChannelId)) {
        if let Self::Scheduled(it) = self {
            it.release(now, of);
        }
    }

    /// Channels that are reserved here.
    pub fn reserved(&self) -> usize {
        match self {
            Self::Free(_) => 0,
            Self::Scheduled(it) => it.places.len(),
        }
    }

    /// Counters, of a link that has a rate.
    pub fn stats(&self) -> Option<&EgressStats> {
        match self {
            Self::Free(_) => None,
            Self::Scheduled(it) => Some(it.stats()),
        }
    }
}

impl Egress for LinkEgress {
    const RESERVES: bool = true;

    fn woken(&mut self) {
        match self {
            Self::Free(it) => it.woken(),
            Self::Scheduled(it) => it.woken(),
        }
    }

    fn ready(&mut self, now: Instant, head: Head) {
        match self {
            Self::Free(it) => it.ready(now, head),
            Self::Scheduled(it) => it.ready(now, head),
        }
    }

    fn next(&mut self, now: Instant) -> Decision {
        match self {
            Self::Free(it) => it.next(now),
            Self::Scheduled(it) => it.next(now),
        }
    }

    fn sent(&mut self, now: Instant, grant: &Grant, train: Option<&Transmit>) {
        match self {
            Self::Free(it) => it.sent(now, grant, train),
            Self::Scheduled(it) => it.sent(now, grant, train),
        }
    }
}

/// Counters of a link's egress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressStats {
    /// Wire bytes of reserved channels.
    pub reserved_bytes: u64,
    /// Wire bytes of control alone.
    pub control_bytes: u64,
    /// Wire bytes of everything else.
    pub other_bytes: u64,
    /// Heads that were held until they conformed.
    pub held: u64,
    /// Grants of which nothing came, though a head had been told.
    pub unused: u64,
}

impl EgressStats {
    /// Both together.
    #[must_use]
    pub const fn and(self, other: &Self) -> Self {
        Self {
            reserved_bytes: self.reserved_bytes + other.reserved_bytes,
            control_bytes: self.control_bytes + other.control_bytes,
            other_bytes: self.other_bytes + other.other_bytes,
            held: self.held + other.held,
            unused: self.unused + other.unused,
        }
    }
}

/// A reserved channel.
struct Flow {
    admitted: Reservation,
    regulator: Regulator,
    /// What was under way when it was admitted has left: nothing conforms sooner.
    from: Instant,
    /// Its reservation is over; its head may still stand in the scheduler.
    ends: bool,
}

/// What is over, but has sent something that others may still be waiting behind: until nobody does,
/// nobody else is promised that time.
struct Left {
    admitted: Reservation,
    regulator: Regulator,
}

/// A paced link with reserved channels, by earliest deadline. Invariants: queue `n` of the
/// scheduler is `flows[n]`, and holds one head at most; `places` has each flow that does not end;
/// `held` has at most one entry for each flow; all that stand fit beside each other and those that
/// `left`, with trains of `train` bytes.
pub struct Scheduled {
    link: LinkId,
    rate: Rate,
    /// Bytes of a train of what is not reserved.
    train: u64,
    /// When the last byte that was granted has left, and what is left over of its nanosecond, in
    /// nanobits.
    free_at: Instant,
    rest: u64,
    /// The driver was told to wait for that.
    waits: bool,
    /// There may be something that nothing is reserved for; and of that, control.
    others: bool,
    control: bool,
    /// From when on control may go before reserved data.
    control_at: Instant,
    port: Port<Edf<Heap>>,
    flows: Vec<Option<Flow>>,
    places: BTreeMap<(AssociationId, ChannelId), u32>,
    left: Vec<Left>,
    /// Heads that do not conform yet: when they do, and their wire bytes and datagram.
    held: BinaryHeap<Reverse<(Instant, u32, u32, u32)>>,
    stats: EgressStats,
}

impl Scheduled {
    /// A link of `rate`, which should be a little less than what it really carries.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for a rate that no scheduler knows.
    pub fn new(link: LinkId, rate: Rate) -> Result<Self, ConfigError> {
        let (queues_max, packets_max) = (PLACES_MAX, PLACES_MAX);
        let packet_bytes_max = towpath_qos::scheduler::PACKET_BYTES_LIMIT;
        let config = PortConfig { rate, packet_bytes_max, queues_max, packets_max };
        Ok(Self {
            link,
            rate,
            train: train_bytes(rate, None),
            free_at: Instant::ZERO,
            rest: 0,
            waits: false,
            others: false,
            control: false,
            control_at: Instant::ZERO,
            port: Port::new(&config)?,
            flows: Vec::new(),
            places: BTreeMap::new(),
            left: Vec::new(),
            held: BinaryHeap::new(),
            stats: EgressStats::default(),
        })
    }

    /// Counters.
    pub const fn stats(&self) -> &EgressStats {
        &self.stats
    }

    /// Reserves what every deadline leaves room for: the datagrams of a channel that keeps to
    /// `asked` leave within its time, however much else there is to send, and so do those of all
    /// that were admitted before. They are no longer than its packet.
    ///
    /// Where a channel of the same reservation ended a moment ago, this one takes its place, and
    /// has at first what that one had left of its burst.
    ///
    /// The caller tells the channel's association after this, also where it was reserved before.
    ///
    /// # Errors
    /// [`NotReserved`]: what is left of the link, or the least time. What the channel had before
    /// stays.
    pub fn admit(&mut self, now: Instant, asked: &Reservation) -> Result<(), NotReserved> {
        self.forget_left(now);
        let place = self.places.get(&asked.of).map(|place| *place as usize);
        if place.is_some_and(|p| self.flows[p].as_ref().is_some_and(|f| f.admitted == *asked)) {
            return Ok(());
        }
        if let Some(port) = asked.port.filter(|port| self.rate > *port) {
            return Err(NotReserved::Faster { rate: self.rate, port });
        }
        let spec = asked.spec()?;
        let (most, min) = (asked.packet_max().as_bytes(), PACKET_BYTES_MIN);
        if most < min {
            let (name, value, max) = ("packet_max_bytes", most, u64::MAX);
            return Err(ConfigError::OutOfRange { name, value, min, max }.into());
        }
        let heir = self.left.iter().position(|left| left.admitted.promises(asked));
        if heir.is_none() && self.places.len() + self.left.len() >= RESERVED_MAX as usize {
            return Err(NotReserved::Full);
        }
        if heir.is_none()
            && place.is_none()
            && self.count_of(asked) >= RESERVED_OF_TASK_MAX as usize
        {
            return Err(NotReserved::TaskFull);
        }
        let train = match heir {
            Some(_) => self.train.min(train_bytes(self.rate, Some(asked.within))),
            None => self.fits(asked)?,
        };
        let free = self.flows.iter().position(Option::is_none).unwrap_or(self.flows.len());
        let id = QueueId(u32::try_from(free).unwrap_or(u32::MAX));
        let Reservation { rate, burst, within: delay, .. } = *asked;
        let queue = QueueConfig { rate, burst, delay, packets_max: 1, ..QueueConfig::default() };
        self.port.add_queue(id, &queue)?;
        let heir = heir.map(|at| self.left.swap_remove(at).regulator);
        self.release(now, asked.of);
        let regulator = heir.unwrap_or_else(|| Regulator::new(&spec));
        let flow = Flow { admitted: *asked, regulator, from: self.free_at, ends: false };
        if free == self.flows.len() {
            self.flows.push(Some(flow));
        } else {
            self.flows[free] = Some(flow);
        }
        self.places.insert(asked.of, id.0);
        self.train = train;
        Ok(())
    }

    /// Reservations of a task, with those that ended a moment ago.
    fn count_of(&self, asked: &Reservation) -> usize {
        let standing = self.flows.iter().flatten().filter(|f| !f.ends).map(|f| &f.admitted);
        let all = standing.chain(self.left.iter().map(|left| &left.admitted));
        all.filter(|r| r.task == asked.task).count()
    }

    /// Whether it fits beside all that stand and those that left a moment ago; how long trains may
    /// be then. The longest is tried first, then those of now, that the others were admitted with.
    fn fits(&self, asked: &Reservation) -> Result<u64, NotReserved> {
        let standing = self.flows.iter().flatten().filter(|f| !f.ends).map(|f| &f.admitted);
        let left = self.left.iter().map(|left| &left.admitted);
        let train = |least: Duration| train_bytes(self.rate, Some(least.min(asked.within)));
        let soonest = |all: &mut dyn Iterator<Item = &Reservation>| {
            all.map(|r| r.within).min().map_or(asked.within, |w| w.min(asked.within))
        };
        let all = standing.clone().chain(left);
        let longest = train(soonest(&mut all.clone()));
        let shortest = self.train.min(longest);
        let why = match admission::fits(self.rate, longest, all.clone(), asked) {
            Ok(()) => return Ok(longest),
            Err(_) if shortest < longest => {
                match admission::fits(self.rate, shortest, all, asked) {
                    Ok(()) => return Ok(shortest),
                    Err(why) => why,
                }
            }
            Err(why) => why,
        };
        if self.left.is_empty() {
            return Err(why);
        }
        let alone = train(soonest(&mut standing.clone())).min(self.train);
        match admission::fits(self.rate, alone, standing, asked) {
            Ok(()) => Err(NotReserved::Later(Box::new(why))),
            Err(why) => Err(why),
        }
    }

    /// Ends a reservation. The caller tells the channel's association.
    pub fn release(&mut self, now: Instant, of: (AssociationId, ChannelId)) {
        let Some(queue) = self.places.remove(&of) else { return };
        if let Some(flow) = &mut self.flows[queue as usize] {
            flow.ends = true;
            let Flow { admitted, regulator, .. } = flow;
            self.left.push(Left { admitted: *admitted, regulator: regulator.clone() });
        }
        self.held.retain(|Reverse((_, held, ..))| *held != queue);
        self.forget_if_empty(queue);
        self.forget_left(now);
        if self.places.is_empty() {
            self.train = train_bytes(self.rate, None);
        }
    }

    /// Where no reserved datagram waits or is under way, those that come meet nothing of what was:
    /// deadlines are proven from such an instant on.
    fn forget_left(&mut self, now: Instant) {
        if self.free_at <= now && self.port.backlog().packets == 0 {
            self.left.clear();
        }
    }

    fn forget_if_empty(&mut self, queue: u32) {
        if self.port.remove_queue(QueueId(queue)).is_ok() {
            self.flows[queue as usize] = None;
        }
    }

    /// The link is taken for so many bytes more, from `from` on: to the nanobit, so that roundings
    /// of many short ones do not add up.
    fn occupy(&mut self, from: Instant, bytes: u64) {
        if from > self.free_at {
            (self.free_at, self.rest) = (from, 0);
        }
        let (bits, bps) = (bytes.saturating_mul(8_000_000_000), self.rate.as_bps().max(1));
        let bits = bits.saturating_add(self.rest);
        self.rest = bits % bps;
        self.free_at += Duration::from_nanos(bits / bps);
    }

    /// Gives heads that conform now to the scheduler.
    fn let_go(&mut self, now: Instant) {
        while let Some(Reverse((at, queue, wire, bytes))) = self.held.peek().copied()
            && at <= now
        {
            self.held.pop();
            let _ = self.port.follow(at, Packet::new(QueueId(queue), wire, bytes.into()));
        }
    }

    /// The next head whose reservation stands.
    fn dequeue(&mut self, now: Instant) -> Option<Grant> {
        loop {
            let head = self.port.dequeue(now)?;
            let queue = head.queue.0;
            match &self.flows[queue as usize] {
                Some(flow) if !flow.ends => {
                    let (association, channel) = flow.admitted.of;
                    return Some(Grant {
                        link: self.link,
                        association: Some(association),
                        kind: GrantKind::Data(channel),
                        bytes: head.tag as usize,
                        not_before: Instant::ZERO,
                    });
                }
                _ => self.forget_if_empty(queue),
            }
        }
    }

    fn grant(&self, kind: GrantKind) -> Decision {
        let bytes = self.train as usize;
        let not_before = Instant::ZERO;
        Decision::Grant(Grant { link: self.link, association: None, kind, bytes, not_before })
    }
}

impl Egress for Scheduled {
    const RESERVES: bool = true;

    fn woken(&mut self) {
        (self.others, self.control) = (true, true);
    }

    fn ready(&mut self, now: Instant, head: Head) {
        let Some(queue) = self.places.get(&(head.association, head.channel)).copied() else {
            return; // its reservation has ended, and its association is told so
        };
        let Some(flow) = &mut self.flows[queue as usize] else { return };
        let Reservation { ip, .. } = flow.admitted;
        let around = frame_bytes(ip, PACKET_MIN) - PACKET_MIN as u64;
        let longest = flow.admitted.packet_max().as_bytes() - around;
        let datagram = u64::from(head.bytes).min(longest);
        let wire = datagram_bytes(ip, false, datagram);
        // It conforms as if it had been shown when it began to wait.
        let (since, size) = (head.since.min(now).max(flow.from), ByteSize::from_bytes(wire));
        let at = flow.regulator.reserve(since, size).unwrap_or(Instant::NEVER); // and never goes
        if at > now {
            self.stats.held += 1;
            self.held.push(Reverse((at, queue, wire as u32, datagram as u32)));
        } else {
            let _ = self.port.follow(at, Packet::new(QueueId(queue), wire as u32, datagram));
        }
    }

    fn next(&mut self, now: Instant) -> Decision {
        if self.free_at > now {
            self.waits = true;
            return Decision::Wait(self.free_at);
        }
        self.let_go(now);
        self.forget_left(now);
        let reserved = self.port.backlog().packets > 0;
        if reserved && self.control && self.control_at <= now {
            return self.grant(GrantKind::Control);
        }
        if let Some(grant) = self.dequeue(now) {
            return Decision::Grant(grant);
        }
        if self.others {
            return self.grant(GrantKind::All);
        }
        self.waits = false;
        let conforms = self.held.peek().map(|Reverse((at, ..))| *at);
        let conforms = conforms.filter(|at| *at != Instant::NEVER);
        match conforms.into_iter().chain(self.port.next_ready()).min() {
            Some(at) => Decision::Wait(at),
            None => Decision::Idle,
        }
    }

    fn sent(&mut self, now: Instant, grant: &Grant, train: Option<&Transmit>) {
        let wire = train.map_or(0, wire_bytes);
        match grant.kind {
            GrantKind::Data(_) => {
                self.stats.reserved_bytes += wire;
                self.stats.unused += u64::from(wire == 0);
            }
            GrantKind::Control => {
                self.stats.control_bytes += wire;
                self.control = wire > 0;
                let from = self.control_at.max(now - CONTROL_BURST);
                let took = self.rate.time_for(ByteSize::from_bytes(wire));
                self.control_at = from + took.unwrap_or(Duration::MAX) * CONTROL_SHARE;
            }
            GrantKind::All => {
                self.stats.other_bytes += wire;
                (self.others, self.control) = (wire > 0, wire > 0);
            }
        }
        // Whoever was made to wait is woken a little late: that is made good. Whoever was idle has
        // lost nothing.
        let late = if self.waits { LATE_MAX } else { Duration::ZERO };
        if wire > 0 {
            self.occupy(now - late, wire);
        }
    }
}

/// Bytes of a train at `rate`, where the shortest delay that was promised is `delay`.
fn train_bytes(rate: Rate, delay: Option<Duration>) -> u64 {
    let most = delay.map_or(TRAIN_TIME, |delay| TRAIN_TIME.min(delay / DELAY_PART));
    rate.bytes_in(most).as_bytes().clamp(DATAGRAM, TRAIN_BYTES)
}

/// What a train takes on the wire.
fn wire_bytes(train: &Transmit) -> u64 {
    let ip = ip_of(train.remote);
    let (whole, rest) = (train.len / train.segment, train.len % train.segment);
    let rest = if rest > 0 { frame_bytes(ip, rest) } else { 0 };
    whole as u64 * frame_bytes(ip, train.segment) + rest
}

const fn frame_bytes(ip: Ip, datagram: usize) -> u64 {
    datagram_bytes(ip, false, datagram as u64)
}

const fn ip_of(remote: SocketAddr) -> Ip {
    if remote.is_ipv4() { Ip::V4 } else { Ip::V6 }
}
