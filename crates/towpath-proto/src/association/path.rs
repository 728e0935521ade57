//! One path: its packet numbers, what was sent on it, time and loss.

use core::net::SocketAddr;
use core::time::Duration;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use towpath_wire::frame::{ACK_WORDS_MAX, Ack};
use towpath_wire::{ChannelId, Instant, LinkId, PathId};

use super::arrivals::Arrivals;
use super::delivery::{Delivery, Stamp};
use super::pacer::Pacer;
use super::reordering::Reordering;
use super::ring::Ring;
use crate::config::Config;
use crate::congestion::{Congestion, Loss, Sample};
use crate::rtt::{GRANULARITY, Rtt};

/// Packets between the oldest one under way and the newest at most: half the receiver's window,
/// so that none of them can leave it before its fate is known.
pub(super) const PACKETS_MAX: usize = super::received::WINDOW as usize / 2;
/// Beyond so many packets, mere acknowledgements and lost ones among them, the oldest is
/// forgotten.
const REMEMBERED_MAX: usize = 2 * PACKETS_MAX;
/// Packets that maps may cover before we ask more often whether they arrive; an acknowledgement
/// has room for four times as many.
const UNCONFIRMED_MAX: u64 = 1024;
/// Probe time-outs in a row without an answer before the congestion controller is told.
const SILENT_PROBES: u32 = 3;

/// What a packet carried that must not be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Data { channel: ChannelId, message: u64, offset: u32, len: u16 },
    Skip { channel: ChannelId, message: u64 },
    Open(ChannelId),
    Limit(ChannelId),
    CloseChannel(ChannelId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Under way, counted in `in_flight`.
    Outstanding,
    /// Nothing to wait for: acknowledged, or it held only acknowledgements.
    Settled,
    /// Given up; its items are to be sent again.
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    bytes: u32,
    items: u16,
    state: State,
    /// Place of its first item, counted since the path began.
    items_at: u64,
    /// The largest packet that this one acknowledged, plus one.
    ack_top: u64,
    stamp: Stamp,
}

// The formula at the top of the crate's documentation counts on these.
const _: () = assert!(size_of::<Sent>() == 48 && size_of::<Item>() == 24);

/// What was sent to draw an acknowledgement from a silent peer.
/// Invariants: `owed ≤ 2`; `count = 0` implies `owed = 0`, since only a probe owes packets and an
/// acknowledgement of something new clears both.
#[derive(Clone, Copy, Debug, Default)]
struct Probing {
    /// When a packet that asks for an acknowledgement was last sent, or a probe fell due.
    last_eliciting: Instant,
    /// Probes since the last acknowledgement of something new; each doubles the time-out.
    count: u32,
    /// Packets that may still go out beyond the window for the last probe.
    owed: u8,
    /// Packets sent since the last one that asked for an acknowledgement.
    acks_alone: u32,
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
}

/// What a packet to be recorded consists of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) now: Instant,
    pub(super) bytes: u32,
    pub(super) eliciting: bool,
    pub(super) acked_up_to: Option<u64>,
}

/// Invariants: `sent[i]` is packet `base + i`; `next = base + sent.len()`; the items of all
/// packets in `sent` stand in `items` in order, the first of them being item `items_base`;
/// `in_flight` is the sum of outstanding bytes; `unsettled` has the bits of just those packets in
/// `sent` that are outstanding or lost; no packet before `oldest` is outstanding.
pub(super) struct Path {
    pub(super) id: PathId,
    pub(super) link: LinkId,
    pub(super) remote: SocketAddr,
    pub(super) up: bool,
    pub(super) datagram: u16,
    next: u64,
    base: u64,
    oldest: u64,
    sent: VecDeque<Sent>,
    unsettled: Ring,
    items: VecDeque<Item>,
    items_base: u64,
    /// What packets held that were given up for lack of room, until it is queued again.
    evicted: Vec<Item>,
    largest_acked: Option<u64>,
    pub(super) in_flight: u64,
    pub(super) rtt: Rtt,
    delivery: Delivery,
    congestion: Box<dyn Congestion>,
    pacer: Pacer,
    reordering: Reordering,
    pub(super) loss_at: Option<Instant>,
    probing: Probing,
    pub(super) arrivals: Arrivals,
    #[cfg(feature = "plant")]
    pub(super) plant: crate::config::Plant,
}

impl Path {
    pub(super) fn new(id: PathId, link: LinkId, remote: SocketAddr, config: &Config) -> Self {
        #[allow(unused_mut)] // only the planted bug changes it
        let mut arrivals = Arrivals::new();
        #[cfg(feature = "plant")]
        {
            arrivals.received.off_by_one = config.plant == crate::config::Plant::BitmapOffByOne;
        }
        Self {
            id,
            link,
            remote,
            up: true,
            datagram: config.datagram,
            next: 0,
            base: 0,
            oldest: 0,
            sent: VecDeque::new(),
            unsettled: Ring::new(),
            items: VecDeque::new(),
            items_base: 0,
            evicted: Vec::new(),
            largest_acked: None,
            in_flight: 0,
            rtt: Rtt::new(config.rtt_initial),
            delivery: Delivery::default(),
            congestion: config.congestion.build(config.datagram.into()),
            pacer: Pacer::new(),
            reordering: Reordering::default(),
            loss_at: None,
            probing: Probing::default(),
            arrivals,
            #[cfg(feature = "plant")]
            plant: config.plant,
        }
    }

    /// The number that the next packet gets.
    pub(super) const fn next_number(&self) -> u64 {
        self.next
    }

    /// Bytes that window and packet numbers allow, whatever the pacer says.
    fn window_room(&self) -> u64 {
        if self.next - self.oldest >= PACKETS_MAX as u64 {
            return 0;
        }
        self.congestion.window().saturating_sub(self.in_flight)
    }

    /// Bytes of data that may be sent now; 0 unless a whole datagram may.
    pub(super) fn room(&self, now: Instant) -> u64 {
        let room = self.window_room();
        if room < self.datagram.into() || self.pacer.ready_at() > now { 0 } else { room }
    }

    /// When the pacer lets data go on, if nothing but the pacer holds it.
    pub(super) fn pace_at(&self) -> Option<Instant> {
        if !self.up || self.window_room() < self.datagram.into() {
            return None;
        }
        self.pacer.wake_at()
    }

    /// The time-out for it may have come.
    pub(super) fn pace(&mut self, now: Instant) {
        self.pacer.wake(now);
    }

    fn repace(&mut self) {
        let c = &self.congestion;
        self.pacer.set_rate(c.pacing(), c.window(), self.datagram.into());
    }

    /// The owner had nothing more to send though the path had room.
    pub(super) fn starved(&mut self) {
        self.delivery.starved(self.in_flight);
    }

    /// True when a packet of mere acknowledgements should ask for one itself, so that we learn
    /// which of our maps arrived: each 32nd, or each 8th while maps grow long.
    pub(super) fn wants_ping(&self) -> bool {
        let alone = self.probing.acks_alone;
        alone >= 32 || (alone >= 8 && self.arrivals.unconfirmed() > UNCONFIRMED_MAX)
    }

    /// True while a probe still allows packets beyond the window.
    pub(super) fn owes_probe(&self) -> bool {
        self.probing.owed > 0
    }

    /// Remembers a packet with the items in `items`.
    pub(super) fn depart(&mut self, d: Departure, items: &[Item]) {
        while self.sent.len() >= REMEMBERED_MAX {
            self.evict_front(d.now);
        }
        let state = if d.eliciting { State::Outstanding } else { State::Settled };
        if d.eliciting {
            self.in_flight += u64::from(d.bytes);
            self.pacer.spend(d.now, d.bytes.into());
            self.unsettled.set(self.next);
            self.probing.last_eliciting = d.now;
            self.probing.owed = self.probing.owed.saturating_sub(1);
            self.probing.acks_alone = 0;
        } else {
            self.probing.acks_alone += 1;
        }
        let stamp = self.delivery.stamp(self.in_flight, self.congestion.window());
        let items_at = self.items_base + self.items.len() as u64;
        self.items.extend(items);
        self.sent.push_back(Sent {
            at: d.now,
            bytes: d.bytes,
            items: items.len() as u16,
            state,
            items_at,
            ack_top: d.acked_up_to.map_or(0, |n| n + 1),
            stamp,
        });
        self.next += 1;
        if d.acked_up_to.is_some() {
            self.arrivals.told();
        }
    }

    /// Makes room for one more packet. What the oldest one held goes out again.
    fn evict_front(&mut self, now: Instant) {
        if let Some(s) = self.sent.front()
            && s.state == State::Outstanding
        {
            self.evicted.extend(self.items.range(..usize::from(s.items)));
            self.loss_at = Some(now);
        }
        self.forget_front();
    }

    fn forget_front(&mut self) {
        if let Some(s) = self.sent.pop_front() {
            if s.state == State::Outstanding {
                self.in_flight -= u64::from(s.bytes);
            }
            self.unsettled.unset(self.base);
            self.items.drain(..usize::from(s.items));
            self.items_base += u64::from(s.items);
            self.base += 1;
            self.oldest = self.oldest.max(self.base);
        }
    }

    /// Forgets packets at the front whose fate is known.
    fn shrink(&mut self, now: Instant) {
        let keep = self.rtt.probe_timeout(Duration::ZERO) * 3;
        while let Some(s) = self.sent.front() {
            let gone = match s.state {
                State::Outstanding => false,
                State::Settled => true,
                State::Lost => now.since(s.at) > keep,
            };
            if !gone {
                break;
            }
            self.forget_front();
        }
    }

    fn items_of(&self, s: &Sent) -> impl Iterator<Item = Item> + '_ {
        let at = (s.items_at - self.items_base) as usize;
        self.items.range(at..at + usize::from(s.items)).copied()
    }

    /// Takes an acknowledgement of our packets in. False when it speaks of a packet never sent.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, out: &mut Outcome) -> bool {
        if ack.largest >= self.next {
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
            let mut fresh = words[w as usize] & self.unsettled.word_below(hi);
            while fresh != 0 {
                let below = 63 - u64::from(fresh.leading_zeros());
                fresh &= !(1 << below);
                if let Some(index) = (hi - below).checked_sub(self.base) {
                    self.settle(now, index as usize, out);
                }
            }
        }
        self.conclude(now, ack, newest);
        self.detect_losses(now, out);
        self.shrink(now);
        true
    }

    /// Tells the controller what the packets just settled say together.
    fn conclude(&mut self, now: Instant, ack: &Ack<'_>, newest: bool) {
        let Some(settled) = self.delivery.conclude() else { return };
        let mut rtt = None;
        if newest
            && let Some(index) = ack.largest.checked_sub(self.base)
            && settled.newest == self.sent[index as usize].at
            && !settled.late
        {
            let delay = Duration::from_micros(ack.delay_us.into());
            rtt = Some(self.rtt.sample(now, now.since(settled.newest), delay));
        }
        self.congestion.on_acked(&Sample {
            now,
            rtt,
            acked: settled.bytes,
            sent: settled.newest,
            limited: settled.limited,
            delivered: settled.delivered,
            prior_delivered: settled.prior_delivered,
            congestion_met: false,
        });
        self.repace();
    }

    fn settle(&mut self, now: Instant, index: usize, out: &mut Outcome) {
        let s = self.sent[index];
        let number = self.base + index as u64;
        if s.state == State::Lost {
            // It was only late: wait for more packets before giving one up.
            out.spurious += 1;
            self.reordering.late(now, s.at, &self.rtt);
            self.congestion.on_spurious(s.at, s.bytes.into());
        } else {
            self.in_flight -= u64::from(s.bytes);
        }
        let late = s.state == State::Lost;
        self.delivery.settled(s.at, s.stamp, s.bytes.into(), late);
        if s.ack_top > 0 {
            self.arrivals.known_up_to(s.ack_top - 1);
        }
        self.sent[index].state = State::Settled;
        self.unsettled.unset(number);
        #[cfg(feature = "plant")]
        if self.plant == crate::config::Plant::LostAcknowledgement && number % 97 == 13 {
            return;
        }
        out.acked.extend(self.items_of(&s));
    }

    /// Gives up packets that were overtaken for too long (RFC 9002 §6.1).
    pub(super) fn detect_losses(&mut self, now: Instant, out: &mut Outcome) {
        self.loss_at = None;
        out.packets_lost += u64::from(!self.evicted.is_empty());
        out.lost.append(&mut self.evicted);
        let Some(top) = self.largest_acked else { return };
        self.reordering.calm_down(now, &self.rtt);
        let (overtaken, delay) =
            (self.reordering.overtaken_max(), self.reordering.delay(&self.rtt));
        let (mut newest_lost, mut bytes) = (None, 0);
        let mut front = true;
        for number in self.oldest.max(self.base)..=top {
            let Some(s) = self.sent.get((number - self.base) as usize).copied() else { break };
            if s.state == State::Outstanding {
                // Later packets were sent later and overtaken by fewer: none of them is lost.
                if top - number < overtaken && s.at + delay > now {
                    self.loss_at = Some(s.at + delay.max(GRANULARITY));
                    break;
                }
                self.give_up(number, out);
                newest_lost = Some(s);
                bytes += u64::from(s.bytes);
            }
            front &= self.oldest == number;
            if front {
                self.oldest = number + 1;
            }
        }
        if let Some(s) = newest_lost {
            self.congestion.on_lost(&Loss { now, sent: s.at, bytes });
            self.repace();
        }
    }

    fn give_up(&mut self, number: u64, out: &mut Outcome) {
        let s = &mut self.sent[(number - self.base) as usize];
        s.state = State::Lost;
        self.in_flight -= u64::from(s.bytes);
        out.packets_lost += 1;
        let s = *s;
        #[cfg(feature = "plant")]
        if self.plant == crate::config::Plant::ForgottenRepair && number % 97 == 13 {
            return;
        }
        out.lost.extend(self.items_of(&s));
    }

    /// When to probe, if anything is under way.
    pub(super) fn probe_at(&self, config: &Config) -> Option<Instant> {
        if self.in_flight == 0 {
            return None;
        }
        let timeout = self.rtt.probe_timeout(config.ack_delay);
        let backed_off = timeout * (1 << self.probing.count.min(8));
        Some(self.probing.last_eliciting + backed_off.min(config.probe_max.max(timeout)))
    }

    /// Nothing was acknowledged in time: two packets may go out beyond the window, and what the
    /// oldest two held is sent again. They do not count as lost (RFC 9002 §6.2).
    pub(super) fn probe(&mut self, now: Instant, out: &mut Outcome) {
        self.probing.count += 1;
        self.probing.owed = 2;
        self.probing.last_eliciting = now;
        if self.probing.count == SILENT_PROBES {
            self.congestion.on_silence();
            self.repace();
        }
        let from = self.oldest.max(self.base) - self.base;
        let outstanding =
            self.sent.range(from as usize..).filter(|s| s.state == State::Outstanding);
        for s in outstanding.take(2) {
            out.probed.extend(self.items_of(s));
        }
    }
}
