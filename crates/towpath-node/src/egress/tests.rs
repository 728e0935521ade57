//! A paced link: what it grants, in which order, and what it charges.

use super::*;
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::{format, vec};
use towpath_wire::{HostId, TaskId};

const LINK: LinkId = LinkId(0);
const MBPS_100: Rate = Rate::from_mbps(100);

fn at(us: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + us * 1000)
}

fn channel(n: u32) -> (AssociationId, ChannelId) {
    (AssociationId(7), ChannelId(n))
}

fn task(n: u32) -> TaskId {
    HostId::new(1, 1).unwrap().task(1 + n).unwrap()
}

fn head(n: u32, bytes: u32, since: Instant) -> Head {
    let (association, channel) = channel(n);
    Head { association, channel, bytes, since }
}

fn train(len: usize, segment: usize) -> Transmit {
    let (remote, not_before) = (([10, 0, 0, 1], 1).into(), Instant::ZERO);
    Transmit { link: LINK, remote, segment, len, tos: 0, not_before }
}

/// Of `mbps`, `burst` bytes at once, within `us`.
fn asked(n: u32, mbps: u64, burst: u64, us: u64) -> Reservation {
    Reservation {
        link: LINK,
        of: channel(n),
        // So that nobody has too many.
        task: task(n % 16),
        ip: Ip::V4,
        rate: Rate::from_mbps(mbps),
        burst: ByteSize::from_bytes(burst),
        packet: ByteSize::from_bytes(1538),
        within: Duration::from_micros(us),
        port: None,
    }
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
    it.admit(at(0), &asked(1, 10, 3000, 8000)).unwrap();
    it.admit(at(0), &asked(2, 10, 3000, 800)).unwrap();
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
fn a_channel_is_held_to_its_specification_from_when_its_datagrams_began_to_wait() {
    let mut it = Scheduled::new(LINK, MBPS_100).unwrap();
    // 8 Mbit/s: a microsecond a byte; 1538 bytes at once.
    it.admit(at(0), &asked(1, 8, 1538, 8000)).unwrap();
    let data = GrantKind::Data(ChannelId(1));
    it.ready(at(0), head(1, 934, at(0)));
    assert_eq!(go(&mut it, at(0), Some(train(934, 934))).kind, data);
    // 1000 are asked for, and 538 of the bucket are there: it conforms after 462 us, also where
    // the egress heard of it later, and what comes behind it.
    it.ready(at(100), head(1, 934, at(0)));
    assert_eq!((waits(&mut it, at(100)), it.stats().held), (Some(at(462)), 1));
    assert_eq!(go(&mut it, at(462), Some(train(934, 934))).kind, data);
    it.ready(at(9000), head(1, 934, at(500)));
    assert_eq!(go(&mut it, at(9000), Some(train(934, 934))).kind, data);
    it.ready(at(9100), head(1, 934, at(500)));
    assert_eq!(go(&mut it, at(9100), Some(train(934, 934))).kind, data, "since 2462");
    it.ready(at(9200), head(1, 934, at(9200)));
    assert_eq!(go(&mut it, at(9200), Some(train(934, 934))).kind, data);
    it.ready(at(9300), head(1, 934, at(9200)));
    assert_eq!(waits(&mut it, at(9300)), Some(at(9662)), "full at 4000");
    it.release(at(9300), channel(1));
    assert_eq!(waits(&mut it, at(9662)), None, "its head goes with its reservation");
    it.admit(at(9662), &asked(2, 8, 1600, 8000)).unwrap();
    assert_eq!(it.flows.len(), 1, "its place is used again");
    it.ready(at(9662), head(1, 934, at(0)));
    assert_eq!(waits(&mut it, at(9662)), None, "nobody's");
}

#[test]
fn no_datagram_is_longer_than_a_specifications_largest_packet_and_short_ones_are_granted_as_such() {
    let mut it = Scheduled::new(LINK, MBPS_100).unwrap();
    it.admit(at(0), &asked(1, 8, 566, 8000)).unwrap();
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
    it.ready(at(90_000), head(1, 60, at(90_000)));
    assert_eq!(go(&mut it, at(90_000), Some(train(60, 60))).bytes, 60, "no more than was stated");
}

#[test]
fn who_is_reserved_anew_has_its_head_told_anew_and_keeps_what_it_had_where_that_fails() {
    let mut it = Scheduled::new(LINK, MBPS_100).unwrap();
    it.admit(at(0), &asked(1, 8, 1538, 8000)).unwrap();
    it.ready(at(0), head(1, 934, at(0)));
    assert!(it.admit(at(0), &asked(1, 90, 1538, 8000)).is_err());
    assert_eq!(kind(&mut it, at(0)), GrantKind::Data(ChannelId(1)), "it stands");
    it.admit(at(0), &asked(1, 30, 1538, 800)).unwrap();
    assert_eq!(waits(&mut it, at(0)), None, "what stood there is nobody's");
    it.ready(at(0), head(1, 934, at(0)));
    assert_eq!(go(&mut it, at(0), Some(train(934, 934))).kind, GrantKind::Data(ChannelId(1)));
    assert_eq!((it.flows.iter().flatten().count(), it.places.len()), (1, 1));
}

/// What one has just sent is not promised to another while others may wait behind it; but the same
/// reservation goes on with what is left of it.
#[test]
fn who_closes_and_opens_again_has_no_second_burst() {
    let mut it = Scheduled::new(LINK, MBPS_100).unwrap();
    it.admit(at(0), &asked(1, 8, 3000, 2000)).unwrap();
    let data = |n| GrantKind::Data(ChannelId(n));
    for n in 0..3 {
        it.ready(at(200 * n), head(1, 934, at(0)));
        assert_eq!(go(&mut it, at(200 * n), Some(train(934, 934))).kind, data(1));
    }
    it.release(at(450), channel(1));
    it.admit(at(450), &asked(2, 8, 3000, 2000)).unwrap();
    it.ready(at(450), head(2, 934, at(450)));
    assert_eq!(waits(&mut it, at(480)), Some(at(1000)), "of 3000 bytes, 480 have come back");
    assert_eq!(go(&mut it, at(1000), Some(train(934, 934))).kind, data(2));
    it.release(at(1010), channel(2));
    // Its last datagram leaves until 1080.
    let said = it.admit(at(1010), &asked(3, 80, 3000, 2000)).unwrap_err().to_string();
    assert!(said.contains("of which 77.0 Mbit/s are left"), "{said}");
    assert!(said.ends_with("ask again in a moment"), "{said}");
    it.admit(at(1080), &asked(3, 80, 3000, 2000)).unwrap();
}

/// The train that one was promised beside does not grow because another one ends.
#[test]
fn a_train_grows_only_where_all_deadlines_hold_with_it() {
    let mut it = Scheduled::new(LINK, Rate::from_mbps(1000)).unwrap();
    assert_eq!(it.train, 25_000);
    let tight = asked(1, 10, 30_000, 1000);
    it.admit(at(0), &asked(2, 10, 1538, 120)).unwrap();
    assert_eq!(it.train, 1875, "an eighth of 120 us");
    it.admit(at(0), &tight).unwrap();
    it.release(at(0), channel(2));
    assert_eq!(it.train, 1875, "nothing says that it may be longer");
    it.admit(at(9000), &asked(3, 10, 1538, 4000)).unwrap();
    let longest = train_bytes(it.rate, Some(tight.within));
    assert_eq!((it.train, longest), (longest, 15_625), "that it may is seen here");
    it.release(at(9000), channel(1));
    it.release(at(9000), channel(3));
    assert_eq!(it.train, 25_000);
}

/// What control state counts on of a host's own port is what its egress keeps: whatever fits there
/// fits here, a driver's lateness sooner.
#[test]
fn what_is_promised_of_a_hosts_own_port_its_egress_keeps() {
    use super::admission::fits;
    use towpath_qos::admission::{Admission, Request, Wish};
    use towpath_qos::spec::wire::Demand;
    use towpath_qos::topology::{NodeId, Topology};
    use towpath_vm::promises::{OWN_LATE, OWN_PERCENT, own_port};
    assert_eq!(OWN_LATE, LATE_MAX);
    assert!(OWN_PERCENT <= 100 - 100 / u64::from(CONTROL_SHARE) - 100 / u64::from(OTHERS_SHARE));
    for mbps in [1, 10, 95, 100, 1000, 10_000] {
        let rate = Rate::from_mbps(mbps);
        let text = alloc::format!(
            "[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
             [[link]]\nends = [\"a\", \"b\"]\nrate_bps = {}\n",
            rate.as_bps()
        );
        let topology = Topology::parse(&text).expect("valid").with_host_ports(own_port);
        let mut admission = Admission::new(topology);
        let mut standing: Vec<Reservation> = Vec::new();
        let mut rng = towpath_proto::Rng::new(mbps, 3);
        for n in 0..200 {
            let size = 300 + rng.below(1238);
            let burst = size * (1 + rng.below(4));
            let asked = Reservation {
                rate: Rate::from_bps(rate.as_bps() / (5 + rng.below(60))),
                burst: ByteSize::from_bytes(burst),
                packet: ByteSize::from_bytes(size),
                within: Duration::from_micros(200 + rng.below(4_000_000 / mbps.min(100))),
                ..asked(n, 1, burst, 1)
            };
            let spec = asked.spec().expect("valid");
            let demand = Demand::of_wire(spec.buckets(), ByteSize::from_bytes(84), asked.packet);
            let wish = Wish::Bounded { delay: asked.within, jitter: None };
            let (from, to, lease) = (NodeId(0), NodeId(1), Instant::NEVER);
            let request = Request { owner: 1, from, to, demand, wish, lease };
            let Ok(admitted) = admission.admit_least(&request) else { continue };
            let first = admission.promise(admitted.id).expect("admitted").hops[0].delay_ns;
            let within = Duration::from_nanos(first).saturating_sub(OWN_LATE);
            let own = Reservation { within, ..asked };
            let train = train_bytes(
                rate,
                Some(
                    standing
                        .iter()
                        .map(|s| s.within)
                        .min()
                        .map_or(within, |least| least.min(within)),
                ),
            );
            let said = fits(rate, train, standing.iter(), &own);
            assert_eq!(said, Ok(()), "{own:?} on {rate} beside {}", standing.len());
            standing.push(own);
        }
        assert!(standing.len() > 3, "{} at {rate}", standing.len());
    }
}

#[test]
fn limits_are_told_and_one_link_is_free() {
    let mut it = Scheduled::new(LINK, MBPS_100).unwrap();
    assert!(it.admit(at(0), &asked(1, 8, 1538, 9_000_000)).is_err(), "9 s");
    assert!(it.places.is_empty() && it.flows.is_empty());
    let told = it.admit(at(0), &asked(1, 8, 200, 8000)).unwrap_err().to_string();
    assert_eq!(told, format!("packet_max_bytes is 200, where 214..={} is allowed", u64::MAX));
    let small = |n| Reservation { rate: Rate::from_bps(10_000), ..asked(n, 1, 214, 1_000_000) };
    for n in 0..RESERVED_MAX {
        it.admit(at(0), &small(n)).unwrap();
    }
    let one_more = it.admit(at(0), &small(RESERVED_MAX)).unwrap_err();
    assert!(one_more.to_string().contains("1024 channels are reserved"), "{one_more}");
    let changed = Reservation { rate: Rate::from_bps(9000), ..small(3) };
    assert!(it.admit(at(0), &changed).is_err(), "what it was would count beside what it is");
    it.release(at(0), channel(7));
    it.admit(at(0), &small(RESERVED_MAX)).unwrap();
    // What left counts while a datagram of somebody's is under way; its heir takes its place.
    it.ready(at(0), head(3, 100, at(0)));
    go(&mut it, at(0), Some(train(100, 100)));
    it.release(at(0), channel(9));
    assert!(it.admit(at(0), &Reservation { of: channel(9), ..changed }).is_err());
    it.admit(at(0), &small(9)).unwrap();
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

#[test]
fn one_task_has_a_quarter_of_a_links_places_and_the_others_the_rest() {
    let mut it = Scheduled::new(LINK, MBPS_100).unwrap();
    let small = |n, of| {
        let rate = Rate::from_bps(10_000);
        Reservation { rate, task: task(of), ..asked(n, 1, 214, 1_000_000) }
    };
    for n in 0..RESERVED_OF_TASK_MAX {
        it.admit(at(0), &small(n, 1)).unwrap();
    }
    let one_more = it.admit(at(0), &small(5000, 1)).unwrap_err();
    assert_eq!(one_more, NotReserved::TaskFull);
    assert!(one_more.to_string().starts_with("256 channels of this task"), "{one_more}");
    it.admit(at(0), &small(5000, 2)).unwrap();
    // One of its own may change.
    it.admit(at(0), &Reservation { rate: Rate::from_bps(9000), ..small(3, 1) }).unwrap();
    // One that ends makes room, though not while something of it may still be under way.
    it.ready(at(0), head(4, 100, at(0)));
    go(&mut it, at(0), Some(train(100, 100)));
    it.release(at(0), channel(9));
    let other = Reservation { rate: Rate::from_bps(8000), ..small(6000, 1) };
    assert_eq!(it.admit(at(0), &other), Err(NotReserved::TaskFull));
    it.admit(at(9000), &other).unwrap();
}

/// A channel of the swarm, with a bucket of its own that knows nothing of the egress.
struct Source {
    asked: Reservation,
    /// Datagrams that wait, and since when; the first of them is told.
    waiting: VecDeque<(u32, Instant)>,
    /// Nanobits of its bucket, at `seen`.
    level: u128,
    seen: Instant,
    next: Instant,
}

impl Source {
    /// When the head conformed.
    fn conforms(&mut self, wire: u64, since: Instant) -> Instant {
        let (bps, full) =
            (u128::from(self.asked.rate.as_bps()), u128::from(self.asked.burst.as_bytes()));
        let (full, need) = (full * 8_000_000_000, u128::from(wire) * 8_000_000_000);
        let at = since.max(self.seen);
        let gained = at.since(self.seen).as_nanos() * bps;
        self.level = full.min(self.level + gained);
        let wait = need.saturating_sub(self.level).div_ceil(bps);
        self.seen = at + Duration::from_nanos(u64::try_from(wait).unwrap());
        self.level = full.min(self.level + wait * bps) - need;
        self.seen
    }
}

struct Swarm {
    it: Scheduled,
    rate: Rate,
    random: u64,
    now: Instant,
    sources: vec::Vec<Source>,
    /// Channels ever asked for, refused, and datagrams in time.
    counts: [u32; 3],
}

impl Swarm {
    /// Below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % n
    }

    fn open(&mut self) {
        let n = self.counts[0];
        self.counts[0] += 1;
        let bps = self.rate.as_bps();
        let burst = 214 + self.below(20_000);
        let within = 2000 + self.below(300_000_000_000_000 / bps);
        let rate = Rate::from_bps(1000 + self.below(bps / 8));
        let wish = Reservation {
            rate,
            packet: ByteSize::from_bytes(214 + self.below(1324)),
            within: Duration::from_nanos(within),
            ..asked(n, 1, burst, 1)
        };
        if self.it.admit(self.now, &wish).is_err() {
            self.counts[1] += 1;
            return;
        }
        let level = u128::from(burst) * 8_000_000_000;
        // Before that, what was under way when it was admitted has to leave.
        let (seen, next) = (self.it.free_at, self.now);
        self.sources.push(Source { asked: wish, waiting: VecDeque::new(), level, seen, next });
    }

    fn close(&mut self) {
        if !self.sources.is_empty() {
            let which = self.below(self.sources.len() as u64) as usize;
            let gone = self.sources.swap_remove(which);
            self.it.release(self.now, gone.asked.of);
        }
    }

    fn show(&mut self, which: usize) {
        let s = &self.sources[which];
        if let Some((bytes, since)) = s.waiting.front().copied() {
            self.it.ready(self.now, Head { since, ..head(s.asked.of.1.0, bytes, self.now) });
        }
    }

    /// Everybody sends all that it may, now and then more.
    fn arrive(&mut self) {
        for which in 0..self.sources.len() {
            if self.sources[which].next > self.now || self.sources[which].waiting.len() > 40 {
                continue;
            }
            let s = &self.sources[which];
            let most = s.asked.packet_max().as_bytes() - 66;
            let time = s.asked.rate.time_for(s.asked.burst).unwrap();
            let quiet = self.sources[which].waiting.is_empty();
            let burst = 1 + self.below(30);
            let pause = self.below(1 + u64::try_from(time.as_nanos()).unwrap() * 2);
            for _ in 0..burst {
                let bytes = 61 + self.below(most - 60) as u32;
                let now = self.now;
                self.sources[which].waiting.push_back((bytes, now));
            }
            self.sources[which].next = self.now + Duration::from_nanos(pause);
            if quiet {
                self.show(which);
            }
        }
    }

    /// What came of a grant: of what is reserved, the head; of the rest, all there may be.
    fn give(&mut self, grant: &Grant) {
        let GrantKind::Data(channel) = grant.kind else {
            let sent = train(grant.bytes, 1434.min(grant.bytes));
            return self.it.sent(self.now, grant, Some(&sent));
        };
        let which = self.sources.iter().position(|s| s.asked.of.1 == channel).expect("it stands");
        let s = &mut self.sources[which];
        let (bytes, since) = s.waiting.pop_front().expect("it was told");
        assert_eq!(grant.bytes, bytes as usize);
        let wire = frame_bytes(Ip::V4, grant.bytes);
        let due = s.conforms(wire, since) + s.asked.within;
        self.it.sent(self.now, grant, Some(&train(grant.bytes, grant.bytes)));
        let (end, now) = (self.it.free_at, self.now);
        assert!(end <= due, "{:?}: {end} after {due}, granted at {now}", self.sources[which].asked);
        assert!(now + Duration::from_nanos(1) >= due - s.asked.within, "before it conformed");
        self.counts[2] += 1;
        self.show(which);
    }

    fn run(&mut self) {
        for _ in 0..20_000 {
            match self.below(400) {
                0..3 => self.open(),
                3..5 => self.close(),
                _ => {}
            }
            self.arrive();
            self.it.woken();
            let until = match self.it.next(self.now) {
                Decision::Grant(grant) => {
                    self.give(&grant);
                    continue;
                }
                Decision::Wait(until) => until,
                Decision::Idle => panic!("there is always something else"),
            };
            let arrival = self.sources.iter().filter(|s| s.waiting.len() <= 40).map(|s| s.next);
            self.now = arrival.filter(|next| *next > self.now).fold(until, Instant::min);
        }
    }
}

/// Whatever others do, come and go: every datagram of everybody who was admitted has left in time.
#[test]
fn every_promise_is_kept_to_the_nanosecond() {
    let mut all = [0; 3];
    for seed in 0..60 {
        let rate = Rate::from_mbps([10, 100, 933][seed as usize % 3]);
        let it = Scheduled::new(LINK, rate).unwrap();
        let (sources, counts) = (vec![], [0; 3]);
        let mut swarm = Swarm { it, rate, random: seed + 1, now: at(0), sources, counts };
        swarm.run();
        (0..3).for_each(|i| all[i] += swarm.counts[i]);
    }
    let [asked, refused, in_time] = all;
    assert!(refused > asked / 5 && asked - refused > 2000, "{refused} of {asked} refused");
    assert!(in_time > 50_000, "{in_time} datagrams of {asked}, {refused} of which were refused");
}

#[test]
fn what_several_links_did_is_put_together() {
    let one =
        EgressStats { reserved_bytes: 1, control_bytes: 20, other_bytes: 300, held: 4, unused: 5 };
    let other = EgressStats {
        reserved_bytes: 10,
        control_bytes: 200,
        other_bytes: 3000,
        held: 40,
        unused: 50,
    };
    let both = one.and(&other);
    assert_eq!((both.reserved_bytes, both.control_bytes, both.other_bytes), (11, 220, 3300));
    assert_eq!((both.held, both.unused), (44, 55));
}

#[test]
fn a_link_without_a_rate_reserves_nothing_and_one_with_a_rate_counts() {
    let mut free = LinkEgress::new(LINK, None).unwrap();
    assert_eq!(free.admit(at(0), &asked(1, 10, 1538, 5000)), Err(NotReserved::NoRate));
    free.release(at(0), channel(1));
    assert!(free.reserved() == 0 && free.stats().is_none());
    let mut paced = LinkEgress::new(LINK, Some(MBPS_100)).unwrap();
    assert_eq!(paced.reserved(), 0);
    for n in 1..=2 {
        paced.admit(at(0), &asked(n, 10, 1538, 5000)).unwrap();
    }
    assert_eq!(paced.reserved(), 2);
    // Its head goes out by a grant of its own.
    paced.ready(at(10), head(1, 1000, at(10)));
    let Decision::Grant(grant) = paced.next(at(10)) else { panic!("it conforms") };
    assert!(grant.kind == GrantKind::Data(ChannelId(1)), "{grant:?}");
    paced.sent(at(10), &grant, Some(&train(1000, 1000)));
    assert!(paced.stats().is_some_and(|stats| stats.reserved_bytes > 1000));
    // A grant that nothing came of, and one of control.
    let before = *paced.stats().expect("it counts");
    let none = Grant { kind: GrantKind::Data(ChannelId(2)), ..grant };
    paced.sent(at(300), &none, None);
    let control = Grant { kind: GrantKind::Control, ..grant };
    paced.sent(at(400), &control, Some(&train(100, 100)));
    let after = *paced.stats().expect("it counts");
    assert_eq!(after.unused, before.unused + 1);
    assert!(after.control_bytes > before.control_bytes + 100, "{after:?}");
    assert_eq!(after.reserved_bytes, before.reserved_bytes);
    paced.release(at(500), channel(1));
    paced.release(at(500), channel(9));
    assert_eq!(paced.reserved(), 1);
}
