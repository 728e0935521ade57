//! One path: its packet numbers, what was sent on it, time and loss.

use core::net::SocketAddr;
use core::time::Duration;

use alloc::boxed::Box;
use alloc::vec::Vec;

use towpath_wire::frame::{ACK_WORDS_MAX, Ack};
use towpath_wire::{Instant, LinkId, PathId};

mod apart;
mod losses;

use self::apart::Apart;
use self::losses::{Losses, Overtaking};
use super::ack_rate::AckRate;
use super::arrivals::Arrivals;
use super::delivery::Delivery;
use super::flight::{Flight, Item, Sent, State};
use super::handle::LATE_MAX;
use super::mtu::{Lost, Mtu};
use super::pacer::Pacer;
use super::standing::Standing;
use super::view::PathCounters;
use crate::config::Config;
use crate::congestion::{Congestion, Loss, Sample};
use crate::rtt::Rtt;

/// Packets that maps may cover before we ask more often whether they arrive; an acknowledgement
/// has room for four times as many.
const UNCONFIRMED_MAX: u64 = 1024;
/// Probe time-outs over which everything sent was lost, before the congestion controller is told
/// (RFC 9002 §7.6.1).
const SILENT: u32 = 3;

/// Where round trips are shorter than this, hosts that are late make the most of them: there the
/// usual one counts, not the least.
const TRIP_LATE: Duration = Duration::from_millis(1);
/// Datagrams that may be under way on a path beside others at least.
const HELD_MIN: u64 = 2;
/// After so many probes without an answer perhaps only long packets vanish.
const PROBES_OF_LONG: u32 = 3;

/// What was sent to draw an acknowledgement from a silent peer.
/// Invariants: `owed ≤ 2`; `count = 0` implies `owed = 0`, since only a probe owes packets and an
/// acknowledgement of something new clears both.
#[derive(Clone, Copy, Debug, Default)]
struct Probing {
    /// When a packet that asks for an acknowledgement was last sent, or a probe fell due.
    last_eliciting: Instant,
    /// Probes since the last acknowledgement of something new; each doubles the time-out.
    count: u32,
    /// The number of the first packet after the first of those.
    first: u64,
    /// Packets that may still go out beyond the window for the last probe.
    owed: u8,
    /// Packets sent since the last one that asked for an acknowledgement.
    acks_alone: u32,
    /// Nothing is asked for on this path any more.
    over: bool,
}

/// What an acknowledgement or a timer changed; the lists are reused.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) acked: Vec<Item>,
    pub(super) lost: Vec<Item>,
    /// To be sent once more, though nothing says that it is lost.
    pub(super) probed: Vec<Item>,
    pub(super) packets_lost: u64,
    pub(super) spurious: u64,
    /// Something was acknowledged for the first time.
    pub(super) progress: bool,
    /// A round trip that was measured, without what the peer says that it waited.
    pub(super) trip: Option<Duration>,
}

/// Explicit congestion notification (RFC 3168).
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// As the peer told last.
    known: u64,
    /// More than before, and the controller has not heard of it.
    fresh: bool,
    /// Nothing that we sent with the field set was acknowledged (RFC 9000 §13.4.2).
    refused: bool,
}

/// Probes in a row without any answer ever after which a path is taken to drop packets with ECN.
const ECN_TRIES: u32 = 3;

/// What a packet to be recorded consists of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) now: Instant,
    pub(super) bytes: u32,
    pub(super) eliciting: bool,
    /// It was granted to a reserved channel: it asks neither window nor pacer, and says nothing of
    /// how much of them is needed.
    pub(super) reserved: bool,
    pub(super) acked_up_to: Option<u64>,
}

impl Departure {
    pub(super) const fn at(now: Instant) -> Self {
        Self { now, bytes: 0, eliciting: false, reserved: false, acked_up_to: None }
    }
}

/// What decides how much may be under way. Invariant: `window` is the controller's, as it was when
/// it last heard something: asked for with each packet, it is not computed each time.
struct Control {
    congestion: Box<dyn Congestion>,
    window: u64,
}

impl Control {
    fn new(congestion: Box<dyn Congestion>) -> Self {
        Self { window: congestion.window(), congestion }
    }
}

/// One way to the peer.
pub(super) struct Path {
    pub(super) id: PathId,
    pub(super) link: LinkId,
    pub(super) remote: SocketAddr,
    pub(super) standing: Standing,
    /// The size that `mtu` has found to pass.
    pub(super) datagram: u16,
    mtu: Mtu,
    flight: Flight,
    /// What packets held that were given up for lack of room, until it is queued again.
    evicted: Vec<Item>,
    largest_acked: Option<u64>,
    marks: Marks,
    pub(super) rtt: Rtt,
    pub(super) ack_rate: AckRate,
    delivery: Delivery,
    control: Control,
    pacer: Pacer,
    overtaking: Overtaking,
    pub(super) loss_at: Option<Instant>,
    probing: Probing,
    pub(super) arrivals: Arrivals,
    #[cfg(plant)]
    pub(super) plant: crate::config::Plant,
}

impl Path {
    pub(super) fn new(id: PathId, link: LinkId, remote: SocketAddr, config: &Config) -> Self {
        #[allow(unused_mut)] // only the planted bug changes it
        let mut arrivals = Arrivals::new();
        #[cfg(plant)]
        {
            arrivals.received.off_by_one = config.plant == crate::config::Plant::BitmapOffByOne;
        }
        Self {
            id,
            link,
            remote,
            standing: Standing::new(config.paths.is_standby(link)),
            datagram: config.datagram,
            mtu: Mtu::new(config),
            flight: Flight::new(),
            evicted: Vec::new(),
            largest_acked: None,
            marks: Marks::default(),
            rtt: Rtt::new(config.probes.rtt_initial),
            ack_rate: AckRate::new(config.ack_delay),
            delivery: Delivery::new(),
            control: Control::new(config.congestion.build(config.datagram.into())),
            pacer: Pacer::new(),
            overtaking: Overtaking::default(),
            loss_at: None,
            probing: Probing::default(),
            arrivals,
            #[cfg(plant)]
            plant: config.plant,
        }
    }

    /// The number that the next packet gets.
    pub(super) const fn next_number(&self) -> u64 {
        self.flight.next()
    }

    /// The largest packet that the peer acknowledged.
    pub(super) const fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// Bytes under way.
    pub(super) const fn in_flight(&self) -> u64 {
        self.flight.bytes()
    }

    /// Bytes that window and packet numbers allow, whatever the pacer says.
    fn window_room(&self) -> u64 {
        if !self.flight.has_room() {
            return 0;
        }
        self.control.window.saturating_sub(self.flight.asked())
    }

    /// Bytes that a reserved channel may send now: it asks no window, but packet numbers.
    pub(super) fn room_reserved(&self) -> u64 {
        if self.flight.has_room() { self.datagram.into() } else { 0 }
    }

    /// Bytes of data that may be sent now; 0 unless a whole datagram may.
    pub(super) fn room(&self, now: Instant) -> u64 {
        let room = self.window_room();
        if room < self.datagram.into() || self.pacer.ready_at() > now { 0 } else { room }
    }

    /// Bytes that may be under way.
    pub(super) const fn window(&self) -> u64 {
        self.control.window
    }

    /// Until when the pacer holds data back, whatever else does.
    pub(super) fn paced_until(&self) -> Instant {
        self.pacer.ready_at()
    }

    /// When the pacer lets data go on, if nothing but the pacer holds it.
    pub(super) fn pace_at(&self) -> Option<Instant> {
        if !self.standing.is_fit() || self.window_room() < self.datagram.into() {
            return None;
        }
        self.pacer.wake_at()
    }

    /// The time-out for it may have come.
    pub(super) fn pace(&mut self, now: Instant) {
        self.pacer.wake(now);
    }

    /// The ECN field of what we send: ECT(0) unless the path seems to lose such packets.
    pub(super) const fn codepoint(&self) -> u8 {
        if self.marks.refused { 0 } else { 2 }
    }

    /// The peer says how many of our packets routers had marked so far.
    pub(super) const fn on_marks(&mut self, marked: u64) {
        self.marks.fresh |= marked > self.marks.known;
        if marked > self.marks.known {
            self.marks.known = marked;
        }
    }

    /// To be called whenever the controller has heard something.
    fn repace(&mut self, now: Instant) {
        self.control.window = self.control.congestion.window();
        let (rate, window) = (self.control.congestion.pacing(), self.control.window);
        self.pacer.set_rate(now, rate, window, self.datagram.into());
    }

    /// The owner had nothing more to send though the path had room.
    pub(super) fn starved(&mut self) {
        self.delivery.starved(self.flight.asked());
    }

    /// The size of a padded packet that is to show whether longer ones pass.
    pub(super) fn trial(&mut self, now: Instant) -> Option<u16> {
        self.largest_acked?;
        if self.probing.over || self.standing.is_idle() {
            return None;
        }
        let size = self.mtu.trial(now)?;
        (self.room(now) >= size.into()).then_some(size)
    }

    /// The next packet is that trial.
    pub(super) fn trial_departs(&mut self, size: u16) {
        self.mtu.sent(self.flight.next(), size);
    }

    /// The link takes no longer datagrams than this.
    pub(super) fn longest_told(&mut self, now: Instant, bytes: u16) {
        let size = self.mtu.told(bytes);
        self.resize(now, size);
    }

    fn resize(&mut self, now: Instant, size: u16) {
        if size != self.datagram {
            self.datagram = size;
            self.control.congestion.on_datagram(size.into());
            self.repace(now);
        }
    }

    /// What is under way counts as lost, and nothing is asked for on this path any more.
    pub(super) fn retire(&mut self, now: Instant, out: &mut Outcome) {
        self.probing.over = true;
        self.let_go(now, out);
    }

    /// What is under way counts as lost.
    pub(super) fn let_go(&mut self, now: Instant, out: &mut Outcome) {
        (self.probing.owed, self.loss_at) = (0, None);
        out.lost.append(&mut self.evicted);
        let (mut from, top) = (0, self.flight.next());
        while let Some((number, _)) = self.flight.outstanding(from, top) {
            self.give_up(now, number, out);
            from = number + 1;
        }
    }

    /// True when a packet of mere acknowledgements should ask for one itself, so that we learn
    /// which of our maps arrived: each 32nd, or each 8th while maps grow long.
    pub(super) fn wants_ping(&self) -> bool {
        let over = self.probing.over || self.standing.is_idle();
        let alone = if over { 0 } else { self.probing.acks_alone };
        alone >= 32 || (alone >= 8 && self.arrivals.unconfirmed() > UNCONFIRMED_MAX)
    }

    /// Something came on it: where it is silent the peer may have found it back.
    pub(super) fn note_heard(&mut self) {
        if self.standing.is_silent() {
            let timeout = self.rtt.probe_timeout(self.ack_rate.delay());
            self.standing.heard(timeout);
        }
    }

    /// The path answers again after it was silent: it is as a new one to whoever sends.
    pub(super) fn come_back(&mut self, now: Instant, config: &Config) {
        self.standing.come_back(now);
        self.control = Control::new(config.congestion.build(self.datagram.into()));
        self.delivery.forget_rate();
        self.pacer = Pacer::new();
        self.probing.count = 0;
    }

    /// Bytes per second that arrived of late, at its best.
    pub(super) fn rate(&self) -> u64 {
        self.delivery.rate()
    }

    /// Bytes that may be under way beside other paths.
    pub(super) fn most_beside(&self) -> u64 {
        self.delivery.most().max(HELD_MIN * u64::from(self.datagram))
    }

    /// Bytes per second that it may be expected to deliver: while that still grows, a window in
    /// each round trip.
    pub(super) fn rate_hoped(&self) -> u64 {
        let trip = self.rtt.min().as_micros() as u64;
        if !self.delivery.grows() || trip == 0 {
            return self.rate();
        }
        self.rate().max(self.control.window.saturating_mul(1_000_000) / trip)
    }

    /// What it has counted.
    pub(super) const fn counted(&self) -> PathCounters {
        PathCounters {
            packets_sent: self.flight.next(),
            bytes_sent: self.delivery.sent,
            packets_lost: self.delivery.lost,
            packets_received: self.arrivals.count,
            left: self.standing.left,
            returned: self.standing.returned,
        }
    }

    /// True while a probe still allows packets beyond the window.
    pub(super) fn owes_probe(&self) -> bool {
        self.probing.owed > 0
    }

    /// Remembers a packet with the items in `items`.
    pub(super) fn depart(&mut self, d: Departure, items: &[Item]) {
        while self.flight.is_full() {
            // What it held goes out again.
            self.flight.evict(&mut self.evicted);
            self.loss_at = Some(d.now);
        }
        self.standing.went(d.bytes.into());
        self.delivery.sent += u64::from(d.bytes);
        let state = if d.eliciting { State::Outstanding } else { State::Unasked };
        if d.eliciting {
            if !d.reserved {
                self.pacer.spend(d.now, d.bytes.into());
            }
            self.standing.departs(d.now, self.flight.bytes() == 0);
            self.probing.last_eliciting = d.now;
            self.probing.owed = self.probing.owed.saturating_sub(1);
            self.probing.acks_alone = 0;
        } else {
            self.probing.acks_alone += 1;
        }
        let in_flight = self.flight.asked() + if d.reserved { 0 } else { d.bytes.into() };
        let stamp = self.delivery.stamp(in_flight, self.control.window);
        let ack_top = d.acked_up_to.map_or(0, |n| n + 1);
        let Departure { now: at, bytes, reserved, .. } = d;
        if reserved && self.overtaking.apart.is_none() {
            let apart = Apart::new(self.largest_acked, self.rtt, self.flight.next());
            self.overtaking.apart = Some(Box::new(apart));
        }
        let sent = Sent { at, bytes, items: 0, state, reserved, items_at: 0, ack_top, stamp };
        self.flight.push(sent, items);
        if d.acked_up_to.is_some() {
            self.arrivals.told();
        }
    }

    /// Takes an acknowledgement of our packets in that came so long ago. False when it speaks of a
    /// packet never sent.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        late: Duration,
        ack: &Ack<'_>,
        out: &mut Outcome,
    ) -> bool {
        if ack.largest >= self.flight.next() {
            return false;
        }
        let newest = self.largest_acked.is_none_or(|n| ack.largest > n);
        if newest {
            self.largest_acked = Some(ack.largest);
            self.probing.count = 0;
            self.probing.owed = 0;
        }
        let mut words = [0; ACK_WORDS_MAX];
        let mut count = 0;
        for word in ack.words().take(ACK_WORDS_MAX) {
            words[count] = word;
            count += 1;
        }
        // Oldest first.
        for w in (0..count as u64).rev() {
            let Some(hi) = ack.largest.checked_sub(64 * w) else { continue };
            let mut fresh = words[w as usize] & self.flight.unsettled_below(hi);
            while fresh != 0 {
                let below = 63 - u64::from(fresh.leading_zeros());
                fresh &= !(1 << below);
                self.settle(now, hi - below, out);
            }
        }
        if let Some(apart) = &mut self.overtaking.apart {
            apart.conclude(now - late);
        }
        out.trip = self.conclude(now, late, ack, newest);
        // What came later may still wait to be read.
        self.detect_losses(now - late, out);
        self.flight.shrink(now, self.rtt.probe_timeout(Duration::ZERO) * 3);
        true
    }

    /// Tells the controller what the packets just settled say together; a round trip, if they say
    /// one.
    fn conclude(
        &mut self,
        now: Instant,
        late: Duration,
        ack: &Ack<'_>,
        newest: bool,
    ) -> Option<Duration> {
        let settled = self.delivery.conclude()?;
        let (mut rtt, mut measured) = (None, None);
        if newest
            && self.flight.get(ack.largest).is_some_and(|s| s.at == settled.newest)
            && !settled.late
            && self.rtt.counts(settled.newest)
        {
            // Timers have to wait for late hosts (RFC 9002 §5.3); of the path those say nothing.
            let delay = Duration::from_micros(ack.delay_us.into());
            let trip = now.since(settled.newest);
            measured = Some(self.rtt.sample(now, trip, delay.min(self.ack_rate.delay())));
            let said = delay.min(LATE_MAX);
            rtt = Some(trip.saturating_sub(late + said).max(self.rtt.min() / 4));
        }
        if !settled.late {
            let trip = self.rtt.min().max(self.rtt.smoothed().min(TRIP_LATE));
            // The peer acknowledges every other packet, or waits for so long.
            let second = u64::from(self.datagram) * 1_000_000 / self.rate().max(1);
            let waits = Duration::from_micros(second).min(self.ack_rate.delay());
            self.delivery.learn(now, &settled, trip + waits);
        }
        self.wish(settled.delivered, settled.prior_delivered);
        self.control.congestion.on_acked(&Sample {
            now,
            rtt,
            acked: settled.bytes,
            sent: settled.newest,
            limited: settled.limited,
            delivered: settled.delivered,
            prior_delivered: settled.prior_delivered,
            congestion_met: core::mem::take(&mut self.marks.fresh),
        });
        self.repace(now);
        measured
    }

    /// How often we want to hear from the peer.
    fn wish(&mut self, delivered: u64, prior: u64) {
        let Some(largest) = self.arrivals.received.largest() else { return };
        self.ack_rate.look_back(delivered, prior, largest, self.arrivals.count);
        let packets = (delivered - prior) / u64::from(self.datagram);
        self.ack_rate.take(packets, self.rtt.smoothed());
    }

    /// The peer has rebuilt a packet of ours. What it held was delivered; the packet itself counts
    /// for its path as before. False for one that was never sent.
    pub(super) fn on_rebuilt(&mut self, number: u64, out: &mut Outcome) -> bool {
        if number >= self.flight.next() {
            return false;
        }
        out.progress |= self.flight.rebuilt(number, &mut out.acked);
        true
    }

    fn settle(&mut self, now: Instant, number: u64, out: &mut Outcome) {
        let Some(s) = self.flight.settle(number) else { return };
        out.progress = true;
        self.standing.progresses(now);
        let late = s.state == State::Lost;
        if late {
            // Wait longer before giving one up.
            out.spurious += 1;
            self.overtaking.reordering.late(now, s.at, &self.rtt);
            self.control.congestion.on_spurious(s.at, s.bytes.into());
        }
        if let Some(apart) = &mut self.overtaking.apart {
            apart.settled(number, s.at, s.reserved);
        }
        let asked = if s.reserved { 0 } else { s.bytes.into() };
        self.delivery.settled(s.at, s.stamp, asked, late);
        if s.ack_top > 0 {
            self.arrivals.known_up_to(s.ack_top - 1);
        }
        if let Some(size) = self.mtu.on_acked(number, s.bytes) {
            self.resize(now, size);
        }
        #[cfg(plant)]
        if self.plant == crate::config::Plant::LostAcknowledgement && number % 97 == 13 {
            return;
        }
        out.acked.extend(self.flight.items_of(&s));
    }

    /// Gives up packets that were overtaken for too long (RFC 9002 §6.1).
    pub(super) fn detect_losses(&mut self, now: Instant, out: &mut Outcome) {
        self.loss_at = None;
        out.packets_lost += u64::from(!self.evicted.is_empty());
        out.lost.append(&mut self.evicted);
        let Some(top) = self.largest_acked else { return };
        self.overtaking.reordering.calm_down(now, &self.rtt);
        // Whether all packets of so long a time were lost.
        let timeout = self.rtt.probe_timeout(self.ack_rate.delay());
        let mut losses = Losses::new(now, timeout);
        if self.overtaking.apart.is_some() {
            self.detect_apart(now, &mut losses, out);
        } else {
            self.detect_overtaken(now, top, &mut losses, out);
        }
        if let Some(s) = losses.newest {
            self.control.congestion.on_lost(&Loss { now, sent: s.at, bytes: losses.bytes });
            if losses.silent {
                self.control.congestion.on_silence();
            }
            self.repace(now);
        }
    }

    /// True when the loss may be a sign of congestion.
    fn give_up(&mut self, now: Instant, number: u64, out: &mut Outcome) -> bool {
        let Some(s) = self.flight.give_up(number) else { return false };
        out.packets_lost += 1;
        self.delivery.lost += 1;
        let lost = self.mtu.on_lost(now, number, s.bytes);
        if let Lost::BlackHole(size) = lost {
            self.resize(now, size);
        }
        #[cfg(plant)]
        if self.plant == crate::config::Plant::ForgottenRepair && number % 97 == 13 {
            return lost == Lost::Packet;
        }
        out.lost.extend(self.flight.items_of(&s));
        lost == Lost::Packet
    }

    /// When to probe, if anything is under way.
    pub(super) fn probe_at(&self, config: &Config) -> Option<Instant> {
        if self.flight.bytes() == 0 || self.probing.over {
            return None;
        }
        let timeout = self.rtt.probe_timeout(self.ack_rate.delay());
        if self.probing.count == 0 {
            return Some(self.probing.last_eliciting + timeout);
        }
        let backed_off = timeout * (1 << self.probing.count.min(8));
        Some(self.probing.last_eliciting + backed_off.min(config.probes.after_max.max(timeout)))
    }

    /// Nothing was acknowledged in time: two packets may go out beyond the window, and what the
    /// oldest two held is sent again. They do not count as lost (RFC 9002 §6.2).
    pub(super) fn probe(&mut self, now: Instant, out: &mut Outcome) {
        if self.probing.count == 0 {
            self.probing.first = self.flight.next();
        }
        self.probing.count += 1;
        self.marks.refused |= self.largest_acked.is_none() && self.probing.count >= ECN_TRIES;
        self.probing.owed = 2;
        self.probing.last_eliciting = now;
        if self.probing.count == PROBES_OF_LONG {
            let size = self.mtu.fall_silent(now, self.probing.first);
            self.resize(now, size);
        }
        let (mut from, top) = (0, self.flight.next());
        for _ in 0..2 {
            let Some((number, s)) = self.flight.outstanding(from, top) else { break };
            out.probed.extend(self.flight.items_of(&s));
            from = number + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATAGRAM: u32 = 1472;

    pub(super) fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    pub(super) fn path() -> Path {
        Path::new(PathId(0), LinkId(0), ([10, 0, 0, 1], 1).into(), &Config::default())
    }

    fn send(path: &mut Path, now: Instant, count: u32) {
        let departure = Departure { bytes: DATAGRAM, eliciting: true, ..Departure::at(now) };
        (0..count).for_each(|_| path.depart(departure, &[]));
        // A mere acknowledgement.
        path.depart(Departure { eliciting: false, ..departure }, &[]);
    }

    /// All of the `count` packets up to `largest` arrived.
    fn ack(path: &mut Path, now: Instant, largest: u64, count: u32) -> Outcome {
        ack_words(path, now, largest, if count == 64 { u64::MAX } else { (1 << count) - 1 })
    }

    /// Those arrived whose bits are set, the largest being the lowest.
    pub(super) fn ack_words(path: &mut Path, now: Instant, largest: u64, word: u64) -> Outcome {
        let mut bytes = [0; 64];
        let mut w = towpath_wire::bytes::Writer::new(&mut bytes);
        towpath_wire::frame::emit_ack(&mut w, PathId(0), 0, largest, &[word]);
        let mut out = Outcome::default();
        for frame in towpath_wire::frame::Frames::new(&bytes) {
            if let Ok(towpath_wire::frame::Frame::Ack(ack)) = frame {
                assert!(path.on_ack(now, Duration::ZERO, &ack, &mut out));
            }
        }
        out
    }

    #[test]
    fn what_was_under_way_while_we_slept_says_nothing_of_the_round_trip_time() {
        const HOUR: u64 = 3_600_000;
        let mut path = path();
        send(&mut path, at(0), 10);
        ack(&mut path, at(20), 9, 10);
        send(&mut path, at(21), 10);
        path.rtt.slept(at(HOUR));
        let pace = path.control.congestion.pacing();
        ack(&mut path, at(HOUR + 1), 20, 10);
        assert_eq!((path.in_flight(), path.rtt.longest()), (0, Duration::from_millis(20)));
        assert!(path.control.congestion.pacing() >= pace);
        send(&mut path, at(HOUR + 2), 10);
        ack(&mut path, at(HOUR + 22 + 8), 31, 10);
        assert_eq!(path.rtt.smoothed(), Duration::from_millis(21));
    }

    #[test]
    fn when_all_was_lost_over_three_probe_time_outs_the_window_starts_anew() {
        for (last, expected) in [(100, 22), (1200, 2)] {
            let mut path = path();
            send(&mut path, at(0), 10);
            ack(&mut path, at(20), 9, 10);
            send(&mut path, at(21), 10);
            let mut out = Outcome::default();
            path.probe(at(last), &mut out);
            send(&mut path, at(last), 2);
            path.probe(at(1600), &mut out);
            send(&mut path, at(1600), 2);
            assert_eq!(out.packets_lost, 0);
            let lost = ack(&mut path, at(1620), 26, 2);
            assert_eq!(lost.packets_lost, 12);
            assert_eq!(path.window(), expected * u64::from(DATAGRAM), "{last}");
        }
    }

    const fn open(channel: u32) -> Item {
        Item::Open(towpath_wire::ChannelId(channel))
    }

    /// `count` packets that ask for an acknowledgement, each with an item of its own number.
    fn send_each(path: &mut Path, now: Instant, count: u32) {
        let departure = Departure { bytes: DATAGRAM, eliciting: true, ..Departure::at(now) };
        for _ in 0..count {
            let number = path.next_number() as u32;
            path.depart(departure, &[open(number)]);
        }
    }

    #[test]
    fn a_probe_repeats_the_two_oldest_packets_and_two_may_go_beyond_the_window() {
        let mut path = path();
        send_each(&mut path, at(0), 5);
        ack(&mut path, at(20), 0, 1);
        let mut out = Outcome::default();
        path.probe(at(100), &mut out);
        assert_eq!(out.probed, [open(1), open(2)]);
        assert_eq!((out.packets_lost, out.lost.len()), (0, 0), "they do not count as lost");
        for _ in 0..2 {
            assert!(path.owes_probe());
            send_each(&mut path, at(100), 1);
        }
        assert!(!path.owes_probe());
        // An answer ends it.
        path.probe(at(300), &mut out);
        assert!(path.owes_probe());
        ack(&mut path, at(320), 6, 1);
        assert!(!path.owes_probe());
    }

    #[test]
    fn each_probe_doubles_the_wait_for_the_next_and_an_answer_ends_that() {
        let (mut path, config) = (path(), Config::default());
        assert_eq!(path.probe_at(&config), None, "nothing is under way");
        send_each(&mut path, at(0), 1);
        ack(&mut path, at(20), 0, 1);
        send_each(&mut path, at(1000), 3);
        let wait = |path: &Path, from: u64| path.probe_at(&config).map(|t| t.since(at(from)));
        let first = wait(&path, 1000).expect("something is under way");
        let mut out = Outcome::default();
        path.probe(at(2000), &mut out);
        assert_eq!(wait(&path, 2000), Some(first * 2));
        path.probe(at(3000), &mut out);
        assert_eq!(wait(&path, 3000), Some(first * 4));
        for n in 0..10 {
            path.probe(at(4000 + n), &mut out);
        }
        assert_eq!(wait(&path, 4009), Some(config.probes.after_max.max(first)), "the longest");
        // One that is not new says nothing of the path now.
        ack(&mut path, at(4010), 0, 1);
        assert_eq!(wait(&path, 4009), Some(config.probes.after_max.max(first)));
        ack(&mut path, at(4010), 1, 1);
        send_each(&mut path, at(5000), 1);
        assert!(wait(&path, 5000).expect("it is under way") <= path.rtt.longest() * 5);
        assert_eq!(path.probing.count, 0);
    }

    #[test]
    fn where_only_the_answers_were_lost_datagrams_stay_as_long_as_they_were() {
        for (arrived, size) in [(4, 1232), (7, DATAGRAM)] {
            let (mut path, mut out) = (path(), Outcome::default());
            send_each(&mut path, at(0), 5);
            ack(&mut path, at(20), 0, 1);
            // Packets 5 to 8 go out for the first two of three probes.
            for n in 1..=2 {
                path.probe(at(100 * n), &mut out);
                send_each(&mut path, at(100 * n), 2);
            }
            path.probe(at(400), &mut out);
            assert_eq!(path.datagram, 1232);
            ack(&mut path, at(420), arrived, 1);
            assert_eq!(u32::from(path.datagram), size, "packet {arrived} arrived");
        }
    }

    #[test]
    fn a_packet_is_lost_once_three_later_ones_have_arrived() {
        let mut path = path();
        send_each(&mut path, at(0), 5);
        assert_eq!(ack(&mut path, at(20), 1, 1).lost, [], "one");
        assert_eq!(ack(&mut path, at(20), 2, 1).lost, [], "two");
        let third = ack(&mut path, at(20), 3, 1);
        assert_eq!((third.lost, third.packets_lost), ([open(0)].into(), 1));
        // After time alone.
        let mut path = self::path();
        send_each(&mut path, at(0), 2);
        assert_eq!(ack(&mut path, at(20), 1, 1).lost, []);
        let due = path.loss_at.expect("it was overtaken");
        assert!(due > at(20) && due <= at(0) + path.rtt.longest() * 2, "{due}");
        let mut out = Outcome::default();
        path.detect_losses(due, &mut out);
        assert_eq!(out.lost, [open(0)]);
    }

    #[test]
    fn a_path_is_used_without_ecn_after_three_probes_without_any_answer() {
        let (mut path, mut out) = (path(), Outcome::default());
        send_each(&mut path, at(0), 1);
        for n in 1..=2 {
            path.probe(at(100 * n), &mut out);
            assert_eq!(path.codepoint(), 2, "after {n}");
        }
        path.probe(at(300), &mut out);
        assert_eq!(path.codepoint(), 0);
        // One that has answered once drops nothing for its field.
        let mut path = self::path();
        send_each(&mut path, at(0), 2);
        ack(&mut path, at(20), 0, 1);
        (0..9).for_each(|n| path.probe(at(100 * n), &mut out));
        assert_eq!(path.codepoint(), 2);
    }

    #[test]
    fn what_the_peer_knows_of_our_map_is_not_told_again() {
        let mut path = path();
        for number in 0..300 {
            let asks = super::super::arrivals::Asks::Acknowledgement;
            path.arrivals.arrived(at(0), number, asks, Duration::ZERO);
        }
        let departure = Departure { bytes: 100, eliciting: true, ..Departure::at(at(0)) };
        path.depart(Departure { acked_up_to: Some(200), ..departure }, &[]);
        assert_eq!(path.arrivals.unconfirmed(), 299);
        ack(&mut path, at(20), 0, 1);
        assert_eq!(path.arrivals.unconfirmed(), 299 - (200 - 63));
    }

    #[test]
    fn an_acknowledgement_of_what_was_never_sent_is_noticed() {
        let mut path = path();
        send_each(&mut path, at(0), 2);
        let mut bytes = [0; 64];
        let mut w = towpath_wire::bytes::Writer::new(&mut bytes);
        towpath_wire::frame::emit_ack(&mut w, PathId(0), 0, 2, &[1]);
        let frame = towpath_wire::frame::Frames::new(&bytes).next();
        let Some(Ok(towpath_wire::frame::Frame::Ack(ack))) = frame else { panic!("{frame:?}") };
        assert!(!path.on_ack(at(1), Duration::ZERO, &ack, &mut Outcome::default()));
        assert_eq!(path.largest_acked(), None);
    }
}
