//! One path: its packet numbers, what was sent and received on it, time and loss.

use core::net::SocketAddr;
use core::time::Duration;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use towpath_wire::frame::Ack;
use towpath_wire::{ChannelId, Instant, LinkId, PathId};

use super::received::Received;
use crate::config::Config;
use crate::congestion::Congestion;
use crate::rtt::Rtt;

/// Most packets remembered at once: half the receiver's window, so that none of them can leave
/// it before its fate is known.
pub(super) const PACKETS_MAX: usize = super::received::WINDOW as usize / 2;
/// Beyond so many packets, mere acknowledgements among them, the oldest is given up.
const REMEMBERED_MAX: usize = 2 * PACKETS_MAX;
/// Packets that may overtake one before it counts as lost (RFC 9002 §6.1.1), to start with.
const REORDER_MIN: u64 = 3;
const REORDER_MAX: u64 = 256;
/// An acknowledgement goes out at once after so many packets that ask for one.
const ACK_EVERY: u32 = 2;

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
    state: State,
    /// The window held the sender back.
    limited: bool,
    items: u16,
    /// The largest packet that this one acknowledged, plus one.
    ack_top: u64,
}

/// When to acknowledge. Invariant: `deadline` is set while `eliciting > 0`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckState {
    eliciting: u32,
    now: bool,
    deadline: Option<Instant>,
    largest_at: Instant,
    /// The peer knows our map above this number's predecessor.
    floor: u64,
    /// Oldest packet that arrived since the last acknowledgement.
    low: u64,
}

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
/// packets in `sent` stand in `items` in order; `in_flight` is the sum of outstanding bytes.
pub(super) struct Path {
    pub(super) id: PathId,
    pub(super) link: LinkId,
    pub(super) remote: SocketAddr,
    pub(super) up: bool,
    pub(super) datagram: u16,
    next: u64,
    base: u64,
    sent: VecDeque<Sent>,
    items: VecDeque<Item>,
    /// What packets held that were given up for lack of room, until it is queued again.
    evicted: Vec<Item>,
    largest_acked: Option<u64>,
    pub(super) in_flight: u64,
    pub(super) rtt: Rtt,
    congestion: Box<dyn Congestion>,
    reorder: u64,
    pub(super) loss_at: Option<Instant>,
    probing: Probing,
    pub(super) received: Received,
    pub(super) ack: AckState,
    #[cfg(feature = "plant")]
    pub(super) plant: crate::config::Plant,
}

impl Path {
    pub(super) fn new(id: PathId, link: LinkId, remote: SocketAddr, config: &Config) -> Self {
        #[allow(unused_mut)] // only the planted bug changes it
        let mut received = Received::new();
        #[cfg(feature = "plant")]
        {
            received.off_by_one = config.plant == crate::config::Plant::BitmapOffByOne;
        }
        Self {
            id,
            link,
            remote,
            up: true,
            datagram: config.datagram,
            next: 0,
            base: 0,
            sent: VecDeque::new(),
            items: VecDeque::new(),
            evicted: Vec::new(),
            largest_acked: None,
            in_flight: 0,
            rtt: Rtt::new(config.rtt_initial),
            congestion: config.congestion.build(config.datagram.into()),
            reorder: REORDER_MIN,
            loss_at: None,
            probing: Probing::default(),
            received,
            ack: AckState::default(),
            #[cfg(feature = "plant")]
            plant: config.plant,
        }
    }

    /// The number that the next packet gets.
    pub(super) const fn next_number(&self) -> u64 {
        self.next
    }

    /// Bytes of data that may be sent now.
    pub(super) fn room(&self) -> u64 {
        if self.sent.len() >= PACKETS_MAX {
            return 0;
        }
        self.congestion.window().saturating_sub(self.in_flight)
    }

    /// True when every 32nd packet of mere acknowledgements should ask for one itself, so that
    /// we learn which of our maps arrived.
    pub(super) fn wants_ping(&self) -> bool {
        self.probing.acks_alone >= 32
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
            self.probing.last_eliciting = d.now;
            self.probing.owed = self.probing.owed.saturating_sub(1);
            self.probing.acks_alone = 0;
        } else {
            self.probing.acks_alone += 1;
        }
        let limited = 2 * self.in_flight >= self.congestion.window();
        self.items.extend(items);
        self.sent.push_back(Sent {
            at: d.now,
            bytes: d.bytes,
            state,
            limited,
            items: items.len() as u16,
            ack_top: d.acked_up_to.map_or(0, |n| n + 1),
        });
        self.next += 1;
        if d.acked_up_to.is_some() {
            self.ack.eliciting = 0;
            self.ack.now = false;
            self.ack.deadline = None;
            self.ack.low = u64::MAX;
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
            self.items.drain(..usize::from(s.items));
            self.base += 1;
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

    /// The items of packet `index` in `sent`. Linear only in the packets before it that have
    /// more than one item; the common case walks the front of the queue.
    fn items_start(&self, index: usize) -> usize {
        self.sent.iter().take(index).map(|s| usize::from(s.items)).sum()
    }

    /// Takes an acknowledgement of our packets in. False when it speaks of a packet never sent.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, out: &mut Outcome) -> bool {
        if ack.largest >= self.next {
            return false;
        }
        let newest = self.sample_rtt(now, ack);
        let low = (ack.largest + 1).saturating_sub(ack.span()).max(self.base);
        let mut items_at = self.items_start((low.saturating_sub(self.base)) as usize);
        let words = ack_words(ack);
        for number in low..=ack.largest {
            let index = (number - self.base) as usize;
            let below = ack.largest - number;
            let set = words[(below / 64) as usize] >> (below % 64) & 1 == 1;
            let items = usize::from(self.sent[index].items);
            if set {
                self.settle(now, index, items_at, out);
            }
            items_at += items;
        }
        if newest {
            self.probing.count = 0;
            self.probing.owed = 0;
        }
        self.detect_losses(now, out);
        self.shrink(now);
        true
    }

    /// Samples the round-trip time; true when `largest` is newly acknowledged.
    fn sample_rtt(&mut self, now: Instant, ack: &Ack<'_>) -> bool {
        if self.largest_acked.is_some_and(|n| ack.largest <= n) {
            return false;
        }
        self.largest_acked = Some(ack.largest);
        let Some(index) = ack.largest.checked_sub(self.base) else { return false };
        let s = self.sent[index as usize];
        if s.state == State::Outstanding {
            let delay = Duration::from_micros(ack.delay_us.into());
            self.rtt.sample(now.since(s.at), delay);
        }
        true
    }

    fn settle(&mut self, now: Instant, index: usize, items_at: usize, out: &mut Outcome) {
        let s = self.sent[index];
        match s.state {
            State::Settled => {}
            State::Outstanding => {
                self.in_flight -= u64::from(s.bytes);
                let rtt = self.rtt.smoothed();
                self.congestion.on_acked(now, s.at, s.bytes.into(), rtt, s.limited);
            }
            State::Lost => {
                // It was only late: wait for more packets before giving one up.
                out.spurious += 1;
                let behind = self.largest_acked.unwrap_or(0) - (self.base + index as u64);
                self.reorder = self.reorder.max(behind + 1).min(REORDER_MAX);
            }
        }
        self.ack.floor = self.ack.floor.max(s.ack_top.saturating_sub(64));
        self.sent[index].state = State::Settled;
        #[cfg(feature = "plant")]
        if self.plant == crate::config::Plant::LostAcknowledgement
            && (self.base + index as u64) % 97 == 13
        {
            return;
        }
        out.acked.extend(self.items.range(items_at..items_at + usize::from(s.items)));
    }

    /// Gives up packets that were overtaken for too long (RFC 9002 §6.1).
    pub(super) fn detect_losses(&mut self, now: Instant, out: &mut Outcome) {
        self.loss_at = None;
        out.packets_lost += u64::from(!self.evicted.is_empty());
        out.lost.append(&mut self.evicted);
        let Some(top) = self.largest_acked else { return };
        let delay = self.rtt.loss_delay();
        let end = (top + 1).saturating_sub(self.base).min(self.sent.len() as u64) as usize;
        let (mut items_at, mut newest_lost, mut bytes) = (0, None, 0);
        for index in 0..end {
            let s = self.sent[index];
            if s.state == State::Outstanding {
                let overtaken = top - (self.base + index as u64);
                if overtaken >= self.reorder || s.at + delay <= now {
                    self.give_up(index, items_at, out);
                    newest_lost = Some(s.at);
                    bytes += u64::from(s.bytes);
                } else {
                    let due = s.at + delay;
                    self.loss_at = Some(self.loss_at.map_or(due, |t| t.min(due)));
                }
            }
            items_at += usize::from(s.items);
        }
        if let Some(at) = newest_lost {
            self.congestion.on_lost(now, at, bytes);
        }
    }

    fn give_up(&mut self, index: usize, items_at: usize, out: &mut Outcome) {
        let s = &mut self.sent[index];
        s.state = State::Lost;
        self.in_flight -= u64::from(s.bytes);
        out.packets_lost += 1;
        out.lost.extend(self.items.range(items_at..items_at + usize::from(s.items)));
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
    /// oldest two held is sent again (RFC 9002 §6.2.4).
    pub(super) fn probe(&mut self, now: Instant, out: &mut Outcome) {
        self.probing.count += 1;
        self.probing.owed = 2;
        self.probing.last_eliciting = now;
        if self.probing.count == 3 {
            self.congestion.on_silence();
        }
        let (mut given_up, mut items_at) = (0, 0);
        for index in 0..self.sent.len() {
            let s = self.sent[index];
            if s.state == State::Outstanding {
                self.give_up(index, items_at, out);
                given_up += 1;
                if given_up == 2 {
                    break;
                }
            }
            items_at += usize::from(s.items);
        }
        #[cfg(feature = "plant")]
        if self.plant == crate::config::Plant::ForgottenRepair {
            out.lost.clear();
        }
    }

    /// Records an arrival, and decides when to acknowledge it.
    pub(super) fn arrived(&mut self, now: Instant, number: u64, eliciting: bool, delay: Duration) {
        let expected = self.received.largest().map_or(0, |n| n + 1);
        if self.received.insert(number) {
            self.ack.largest_at = now;
        }
        if self.ack.eliciting == 0 && self.ack.deadline.is_none() {
            self.ack.low = number;
        }
        self.ack.low = self.ack.low.min(number);
        if !eliciting {
            return;
        }
        self.ack.eliciting += 1;
        self.ack.now |= number != expected || self.ack.eliciting >= ACK_EVERY;
        self.ack.deadline.get_or_insert(now + delay);
    }

    /// When to acknowledge at the latest; `None` when the driver has only to ask.
    pub(super) fn ack_at(&self) -> Option<Instant> {
        if self.ack.now { None } else { self.ack.deadline }
    }

    /// Waiting is over: the next packet is an acknowledgement if nothing else.
    pub(super) fn acknowledge_if_due(&mut self, now: Instant) {
        self.ack.now |= self.ack.deadline.is_some_and(|t| t <= now);
    }

    /// True when an acknowledgement should go out even if nothing else does.
    pub(super) fn ack_due(&self, now: Instant) -> bool {
        self.ack.now || self.ack.deadline.is_some_and(|t| t <= now)
    }

    /// What to acknowledge, if anything arrived since the last time: largest packet, oldest one
    /// to report, and the delay in microseconds.
    pub(super) fn ack_range(&self, now: Instant) -> Option<(u64, u64, u32)> {
        if self.ack.eliciting == 0 {
            return None;
        }
        let largest = self.received.largest()?;
        let low = self.ack.floor.min(self.ack.low).min(largest);
        let delay = now.since(self.ack.largest_at).as_micros().min(u32::MAX.into());
        Some((largest, low, delay as u32))
    }
}

fn ack_words(ack: &Ack<'_>) -> [u64; towpath_wire::frame::ACK_WORDS_MAX] {
    let mut words = [0; towpath_wire::frame::ACK_WORDS_MAX];
    for (slot, word) in words.iter_mut().zip(ack.words()) {
        *slot = word;
    }
    words
}
