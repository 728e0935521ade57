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
//! What was granted is charged as what was sealed, with the frames and gaps around it
//! ([`datagram_bytes`]): a channel that was granted more or less than its head had said has the
//! difference added to the next one.

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
use towpath_qos::spec::wire::{Ip, datagram_bytes};
use towpath_qos::spec::{Regulator, TSpec};
use towpath_wire::{ByteSize, ChannelId, Instant, LinkId, Rate};

mod admission;

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
/// Reserved channels of a link at most.
pub const RESERVED_MAX: u32 = 1024;

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
    pub fn admit(&mut self, asked: &Reservation) -> Result<(), NotReserved> {
        match self {
            Self::Free(_) => Err(NotReserved::NoRate),
            Self::Scheduled(it) => it.admit(asked),
        }
    }

    /// [`Scheduled::release`].
    pub fn release(&mut self, of: (AssociationId, ChannelId)) {
        if let Self::Scheduled(it) = self {
            it.release(of);
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
    of: (AssociationId, ChannelId),
    regulator: Regulator,
    /// Largest packet that its specification knows, in wire bytes: no longer one is granted.
    most: u64,
    /// What carried its last train.
    ip: Ip,
    delay: Duration,
    /// What it was admitted with.
    admitted: Option<Reservation>,
    /// Wire bytes that it was charged too little.
    owes: i64,
    /// Its reservation is over; its head may still stand in the scheduler.
    ends: bool,
}

/// A paced link with reserved channels. Invariants: queue `n` of the scheduler is `flows[n]`, and
/// holds one head at most; `places` has each flow that does not end; `held` has at most one entry
/// for each flow.
pub struct Scheduled<S = Port<Edf<Heap>>> {
    link: LinkId,
    rate: Rate,
    /// Bytes of a train of what is not reserved.
    train: u64,
    /// When the last byte that was granted has left.
    free_at: Instant,
    /// The driver was told to wait for that.
    waits: bool,
    /// There may be something that nothing is reserved for; and of that, control.
    others: bool,
    control: bool,
    /// From when on control may go before reserved data.
    control_at: Instant,
    port: S,
    flows: Vec<Option<Flow>>,
    places: BTreeMap<(AssociationId, ChannelId), u32>,
    /// Heads that do not conform yet: when they do, and their wire bytes and datagram.
    held: BinaryHeap<Reverse<(Instant, u32, u32, u32)>>,
    /// The queue whose head was granted last, its wire bytes as stated, and when.
    granted: Option<(u32, u32, Instant)>,
    stats: EgressStats,
}

impl Scheduled {
    /// A link of `rate`, which should be a little less than what it really carries; reserved
    /// channels go by earliest deadline.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for a rate that no scheduler knows.
    pub fn new(link: LinkId, rate: Rate) -> Result<Self, ConfigError> {
        let (queues_max, packets_max) = (RESERVED_MAX, RESERVED_MAX);
        let packet_bytes_max = towpath_qos::scheduler::PACKET_BYTES_LIMIT;
        let config = PortConfig { rate, packet_bytes_max, queues_max, packets_max };
        Ok(Self::over(link, rate, Port::new(&config)?))
    }

    /// Reserves what every deadline leaves room for: the datagrams of a channel that keeps to
    /// `asked` leave within its time, however much else there is to send, and so do those of all
    /// that were admitted before. Of a machine that wakes late, so much later.
    ///
    /// The caller tells the channel's association after this, as after [`Scheduled::reserve`].
    ///
    /// # Errors
    /// [`NotReserved`]: what is left of the link, or the least time.
    pub fn admit(&mut self, asked: &Reservation) -> Result<(), NotReserved> {
        let spec = asked.spec(self.rate)?;
        let flows = self.flows.iter().flatten().filter(|f| !f.ends && f.of != asked.of);
        let delay = flows.clone().map(|f| f.delay).fold(asked.within, Duration::min);
        let train = train_bytes(self.rate, Some(delay));
        admission::fits(self.rate, train, flows.filter_map(|f| f.admitted.as_ref()), asked)?;
        let Reservation { rate, burst, within: delay, .. } = *asked;
        self.reserve(
            asked.of,
            &spec,
            &QueueConfig { rate, burst, delay, ..QueueConfig::default() },
        )?;
        let place = self.places[&asked.of] as usize;
        if let Some(flow) = &mut self.flows[place] {
            flow.admitted = Some(*asked);
        }
        Ok(())
    }
}

impl<S: Scheduler> Scheduled<S> {
    /// The same, with another scheduler, which has no queues yet.
    pub fn over(link: LinkId, rate: Rate, port: S) -> Self {
        let mut it = Self {
            link,
            rate,
            train: 0,
            free_at: Instant::ZERO,
            waits: false,
            others: false,
            control: false,
            control_at: Instant::ZERO,
            port,
            flows: Vec::new(),
            places: BTreeMap::new(),
            held: BinaryHeap::new(),
            granted: None,
            stats: EgressStats::default(),
        };
        it.set_train();
        it
    }

    /// Counters.
    pub const fn stats(&self) -> &EgressStats {
        &self.stats
    }

    /// Reserves: from now on the channel's heads are granted as the scheduler's `queue` says, no
    /// faster than `spec` of wire bytes, and in datagrams no longer than its largest packet. The
    /// caller tells the channel's association after this, also where it was reserved before.
    ///
    /// # Errors
    /// What the scheduler says of the queue; [`ConfigError::OutOfRange`] beyond [`RESERVED_MAX`],
    /// and for a largest packet that is shorter than the shortest datagram that can be granted.
    pub fn reserve(
        &mut self,
        of: (AssociationId, ChannelId),
        spec: &TSpec,
        queue: &QueueConfig,
    ) -> Result<(), ConfigError> {
        let (most, min) = (spec.packet_max().as_bytes(), frame_bytes(Ip::V6, PACKET_MIN));
        if most < min {
            let (name, value, max) = ("packet_max_bytes", most, u64::MAX);
            return Err(ConfigError::OutOfRange { name, value, min, max });
        }
        self.release(of);
        let free = self.flows.iter().position(Option::is_none).unwrap_or(self.flows.len());
        let id = QueueId(u32::try_from(free).unwrap_or(u32::MAX));
        self.port.add_queue(id, &QueueConfig { packets_max: 1, ..*queue })?;
        let (regulator, delay, ip) = (Regulator::new(spec), queue.delay, Ip::V4);
        let admitted = None;
        let flow = Some(Flow { of, regulator, most, ip, delay, admitted, owes: 0, ends: false });
        if free == self.flows.len() {
            self.flows.push(flow);
        } else {
            self.flows[free] = flow;
        }
        self.places.insert(of, id.0);
        self.set_train();
        Ok(())
    }

    /// Ends a reservation. The caller tells the channel's association.
    pub fn release(&mut self, of: (AssociationId, ChannelId)) {
        let Some(queue) = self.places.remove(&of) else { return };
        if let Some(flow) = &mut self.flows[queue as usize] {
            flow.ends = true;
        }
        self.held.retain(|Reverse((_, held, ..))| *held != queue);
        self.forget_if_empty(queue);
        self.set_train();
    }

    fn forget_if_empty(&mut self, queue: u32) {
        if self.port.remove_queue(QueueId(queue)).is_ok() {
            self.flows[queue as usize] = None;
            self.granted = self.granted.filter(|(granted, ..)| *granted != queue);
        }
    }

    fn set_train(&mut self) {
        let flows = self.flows.iter().flatten().filter(|f| !f.ends);
        self.train = train_bytes(self.rate, flows.map(|f| f.delay).min());
    }

    fn time(&self, bytes: u64) -> Duration {
        self.rate.time_for(ByteSize::from_bytes(bytes)).unwrap_or(Duration::MAX)
    }

    /// Gives heads that conform now to the scheduler.
    fn let_go(&mut self, now: Instant) {
        while let Some(Reverse((at, queue, wire, bytes))) = self.held.peek().copied()
            && at <= now
        {
            self.held.pop();
            let head = Packet::new(QueueId(queue), wire, bytes.into());
            let _ = self.port.enqueue(now, head);
        }
    }

    /// The next head whose reservation stands.
    fn dequeue(&mut self, now: Instant) -> Option<Grant> {
        loop {
            let head = self.port.dequeue(now)?;
            let queue = head.queue.0;
            match &self.flows[queue as usize] {
                Some(flow) if !flow.ends => {
                    let (association, channel) = flow.of;
                    self.granted = Some((queue, head.bytes, now));
                    return Some(Grant {
                        link: self.link,
                        association: Some(association),
                        kind: GrantKind::Data(channel),
                        bytes: head.tag as usize,
                    });
                }
                _ => self.forget_if_empty(queue),
            }
        }
    }

    fn grant(&self, kind: GrantKind) -> Decision {
        let bytes = self.train as usize;
        Decision::Grant(Grant { link: self.link, association: None, kind, bytes })
    }
}

impl<S: Scheduler> Egress for Scheduled<S> {
    const RESERVES: bool = true;

    fn woken(&mut self) {
        (self.others, self.control) = (true, true);
    }

    fn ready(&mut self, now: Instant, head: Head) {
        let Some(queue) = self.places.get(&(head.association, head.channel)).copied() else {
            return; // its reservation has ended, and its association is told so
        };
        let Some(flow) = &mut self.flows[queue as usize] else { return };
        let longest = flow.most - (frame_bytes(flow.ip, PACKET_MIN) - PACKET_MIN as u64);
        let datagram = u64::from(head.bytes).min(longest).max(PACKET_MIN as u64);
        // What is granted is at least as long as the shortest datagram that can be; what is stated
        // is not: the rest is given back.
        let stated = datagram_bytes(flow.ip, false, u64::from(head.bytes).min(longest));
        let wire = i64::try_from(stated).unwrap_or(i64::MAX);
        let most = i64::try_from(flow.most).unwrap_or(i64::MAX);
        let bytes = wire.saturating_add(flow.owes).clamp(1, most);
        flow.owes -= bytes - wire;
        let bytes = bytes as u32;
        let size = ByteSize::from_bytes(bytes.into());
        // What never conforms never goes.
        let at = flow.regulator.reserve(now, size).unwrap_or(Instant::NEVER);
        if at > now {
            self.stats.held += 1;
            self.held.push(Reverse((at, queue, bytes, datagram as u32)));
            return;
        }
        let packet = Packet::new(QueueId(queue), bytes, datagram);
        let behind = self.granted.is_some_and(|(q, _, when)| q == queue && head.since <= when);
        let _ = if behind {
            self.port.follow(head.since, packet)
        } else {
            self.port.enqueue(now, packet)
        };
    }

    fn next(&mut self, now: Instant) -> Decision {
        if self.free_at > now {
            self.waits = true;
            return Decision::Wait(self.free_at);
        }
        self.let_go(now);
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
                if let Some((queue, stated, _)) = self.granted
                    && let Some(flow) = &mut self.flows[queue as usize]
                {
                    flow.owes += i64::try_from(wire).unwrap_or(0) - i64::from(stated);
                    flow.ip = train.map_or(flow.ip, |train| ip_of(train.remote));
                }
            }
            GrantKind::Control => {
                self.stats.control_bytes += wire;
                self.control = wire > 0;
                let from = self.control_at.max(now - CONTROL_BURST);
                self.control_at = from + self.time(wire) * CONTROL_SHARE;
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
            self.free_at = self.free_at.max(now - late) + self.time(wire);
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::{format, vec};
    use towpath_qos::spec::SigmaRho;

    const LINK: LinkId = LinkId(0);
    const MBPS_100: Rate = Rate::from_mbps(100);

    fn at(us: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + us * 1000)
    }

    fn channel(n: u32) -> (AssociationId, ChannelId) {
        (AssociationId(7), ChannelId(n))
    }

    fn head(n: u32, bytes: u32, since: Instant) -> Head {
        let (association, channel) = channel(n);
        Head { association, channel, bytes, since }
    }

    fn train(len: usize, segment: usize) -> Transmit {
        Transmit { link: LINK, remote: ([10, 0, 0, 1], 1).into(), segment, len, tos: 0 }
    }

    fn spec(rate_mbps: u64, burst: u64) -> TSpec {
        let bytes = ByteSize::from_bytes;
        let rate = Rate::from_mbps(rate_mbps);
        TSpec::SigmaRho(SigmaRho::new(bytes(burst), rate).expect("it is one"))
    }

    fn within(delay_us: u64) -> QueueConfig {
        let delay = Duration::from_micros(delay_us);
        let (rate, burst) = (Rate::from_mbps(10), ByteSize::from_bytes(1538));
        QueueConfig { rate, burst, delay, ..QueueConfig::default() }
    }

    fn kind(it: &mut Scheduled, now: Instant) -> GrantKind {
        match it.next(now) {
            Decision::Grant(grant) => grant.kind,
            other => panic!("a grant, not {other:?}"),
        }
    }

    fn waits(it: &mut Scheduled, now: Instant) -> Option<Instant> {
        match it.next(now) {
            Decision::Wait(until) => Some(until),
            Decision::Idle => None,
            Decision::Grant(grant) => panic!("nothing may go, but {grant:?}"),
        }
    }

    /// Grants, and takes as granted what comes of it.
    fn go(it: &mut Scheduled, now: Instant, train: Option<Transmit>) -> Grant {
        let Decision::Grant(grant) = it.next(now) else { panic!("something may go") };
        it.sent(now, &grant, train.as_ref());
        grant
    }

    #[test]
    fn trains_are_charged_as_they_are_on_the_wire_and_short_enough() {
        let mut it = Scheduled::new(LINK, MBPS_100).unwrap();
        assert_eq!(waits(&mut it, at(0)), None);
        it.woken();
        let grant = go(&mut it, at(0), Some(train(2400, 1434)));
        assert_eq!((grant.kind, grant.bytes), (GrantKind::All, 2500), "200 us of 100 Mbit/s");
        // 1500 and 1032 bytes with their headers, frames and gaps: 2532 bytes of 80 ns.
        assert_eq!(waits(&mut it, at(0)), Some(at(0) + Duration::from_nanos(2532 * 80)));
        assert_eq!(it.stats().other_bytes, 2532);
        // Woken 100 us late: so much is made good. From rest, nothing is.
        let late = at(0) + Duration::from_nanos(2532 * 80) + Duration::from_micros(100);
        go(&mut it, late, Some(train(934, 934)));
        go(&mut it, late, None);
        assert_eq!(waits(&mut it, late), None, "1000 bytes take 80 us of the 100");
        it.woken();
        go(&mut it, at(9000), Some(train(934, 934)));
        assert_eq!(waits(&mut it, at(9000)), Some(at(9080)));
        go(&mut it, at(9080), None);
        assert_eq!(waits(&mut it, at(9080)), None);
        // A frame is 64 bytes at least, and 20 of gap.
        it.woken();
        go(&mut it, at(9500), Some(train(1, 1)));
        assert_eq!(waits(&mut it, at(9500)), Some(at(9500) + Duration::from_nanos(84 * 80)));
    }

    #[test]
    fn reserved_channels_go_first_by_deadline_a_datagram_each_and_control_keeps_its_share() {
        let mut it = Scheduled::new(LINK, MBPS_100).unwrap();
        it.reserve(channel(1), &spec(10, 3000), &within(8000)).unwrap();
        it.reserve(channel(2), &spec(10, 3000), &within(800)).unwrap();
        it.woken();
        assert_eq!(it.train, DATAGRAM, "an eighth of 800 us at 100 Mbit/s is 1250 bytes");
        it.ready(at(0), head(1, 934, at(0)));
        it.ready(at(0), head(2, 934, at(0)));
        it.ready(at(0), head(3, 934, at(0)));
        let mut now = at(0);
        assert_eq!(go(&mut it, now, Some(train(934, 934))).kind, GrantKind::Control);
        now = waits(&mut it, now).unwrap();
        // A twentieth: what took 80 us may come again in 1.6 ms, less the millisecond saved up.
        let grant = go(&mut it, now, Some(train(934, 934)));
        assert_eq!((grant.kind, grant.bytes), (GrantKind::Data(ChannelId(2)), 934));
        assert_eq!(grant.association, Some(AssociationId(7)));
        now = waits(&mut it, now).unwrap();
        assert_eq!(go(&mut it, now, None).kind, GrantKind::Data(ChannelId(1)));
        assert_eq!(it.stats().unused, 1, "given up meanwhile");
        assert_eq!(go(&mut it, now, Some(train(500, 500))).kind, GrantKind::All, "nobody else");
        it.ready(at(600), head(1, 934, at(600)));
        assert_eq!(kind(&mut it, at(600)), GrantKind::Control, "its share has come back");
    }

    #[test]
    fn a_channel_is_held_to_its_specification_and_charged_for_what_was_sealed() {
        let mut it = Scheduled::new(LINK, MBPS_100).unwrap();
        // 8 Mbit/s: a microsecond a byte; 1000 bytes at once.
        it.reserve(channel(1), &spec(8, 1538), &within(8000)).unwrap();
        let wire = 934 + 66;
        it.ready(at(0), head(1, 934, at(0)));
        let data = GrantKind::Data(ChannelId(1));
        // It sends 100 bytes more than its head has said.
        assert_eq!(go(&mut it, at(0), Some(train(1034, 1034))).kind, data);
        it.ready(at(100), head(1, 934, at(100)));
        // 538 + 100 of the bucket are there, and 1000 + 100 are asked for.
        let conforms = at(0) + Duration::from_micros(wire + wire + 100 - 1538);
        assert_eq!((waits(&mut it, at(100)), it.stats().held), (Some(conforms), 1));
        assert_eq!(kind(&mut it, conforms), data);
        it.release(channel(1));
        assert_eq!(waits(&mut it, conforms), None, "its head goes with its reservation");
        it.reserve(channel(2), &spec(8, 1538), &within(8000)).unwrap();
        assert_eq!(it.flows.len(), 1, "its place is used again");
        it.ready(conforms, head(1, 934, at(0)));
        assert_eq!(waits(&mut it, conforms), None, "nobody's");
    }

    #[test]
    fn no_datagram_is_longer_than_a_specifications_largest_packet() {
        let mut it = Scheduled::new(LINK, MBPS_100).unwrap();
        it.reserve(channel(1), &spec(8, 566), &within(8000)).unwrap();
        // It has 1434 bytes, and may send 500 in 566 of them: a microsecond a byte.
        let mut now = at(0);
        for _ in 0..20 {
            it.ready(now, head(1, 1434, now));
            let grant = loop {
                match it.next(now) {
                    Decision::Grant(grant) => break grant,
                    Decision::Wait(until) => now = until,
                    Decision::Idle => panic!("its head was lost"),
                }
            };
            it.sent(now, &grant, Some(&train(500, 500)));
            assert_eq!((grant.kind, grant.bytes), (GrantKind::Data(ChannelId(1)), 500));
            now = waits(&mut it, now).unwrap();
        }
        let took = now.since(at(0)).as_micros();
        assert!((19 * 566..19 * 566 + 100).contains(&took), "{took} us for 19 after the first");
    }

    #[test]
    fn who_is_reserved_anew_has_its_head_told_anew() {
        let mut it = Scheduled::new(LINK, MBPS_100).unwrap();
        it.reserve(channel(1), &spec(8, 1538), &within(8000)).unwrap();
        it.ready(at(0), head(1, 934, at(0)));
        it.reserve(channel(1), &spec(80, 1538), &within(800)).unwrap();
        assert_eq!(waits(&mut it, at(0)), None, "what stood there is nobody's");
        it.ready(at(0), head(1, 934, at(0)));
        assert_eq!(go(&mut it, at(0), Some(train(934, 934))).kind, GrantKind::Data(ChannelId(1)));
        assert_eq!(it.flows.iter().flatten().count(), 1);
    }

    #[test]
    fn limits_are_told_and_one_link_is_free() {
        let mut it = Scheduled::new(LINK, MBPS_100).unwrap();
        let long = QueueConfig { delay: Duration::from_secs(9), ..within(1) };
        assert!(it.reserve(channel(1), &spec(8, 1538), &long).is_err());
        assert!(it.places.is_empty() && it.flows.is_empty());
        let told = it.reserve(channel(1), &spec(8, 200), &within(8000)).unwrap_err().to_string();
        assert_eq!(told, format!("packet_max_bytes is 200, where 214..={} is allowed", u64::MAX));
        for n in 0..RESERVED_MAX {
            it.reserve(channel(n), &spec(8, 1538), &within(8000)).unwrap();
        }
        let one_more = it.reserve(channel(RESERVED_MAX), &spec(8, 1538), &within(8000));
        assert!(one_more.unwrap_err().to_string().contains("1023"), "the last place");
        it.release(channel(7));
        it.reserve(channel(RESERVED_MAX), &spec(8, 1538), &within(8000)).unwrap();
        assert!(LinkEgress::new(LINK, Some(Rate::from_bps(1))).is_err());
        let mut both: vec::Vec<LinkEgress> =
            [None, Some(MBPS_100)].map(|rate| LinkEgress::new(LINK, rate).unwrap()).into();
        for it in &mut both {
            it.woken();
            let Decision::Grant(grant) = it.next(at(0)) else { panic!("a grant") };
            it.sent(at(0), &grant, Some(&train(1434, 1434)));
        }
        assert!(matches!(both[0].next(at(0)), Decision::Grant(_)), "free: as long as there is any");
        assert!(matches!(both[1].next(at(0)), Decision::Wait(_)));
    }
}
