//! The receiving side of a path: when to acknowledge, and what.

use core::time::Duration;

use towpath_wire::Instant;

use super::received::{Received, Seen};

/// An acknowledgement goes out at once after so many packets that ask for one, unless the peer
/// wants it otherwise.
pub(super) const ACK_EVERY: u32 = 2;
/// What it may want at most.
const ACK_EVERY_MAX: u32 = 256;
const DELAY_MAX: Duration = Duration::from_millis(100);

/// What a packet wants of whom it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Asks {
    Nothing,
    /// To be acknowledged some time: credit rides with acknowledgements, and would have each of
    /// them answered by another one at once.
    Patiently,
    Acknowledgement,
}

/// What arrived on a path. Invariant: `deadline` is set while `eliciting > 0`.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    pub(super) received: Received,
    /// Packets recorded.
    pub(super) count: u64,
    /// What the peer wants: packets to an acknowledgement, and the wait for one.
    every: u32,
    delay: Duration,
    eliciting: u32,
    /// Those of them that count towards an acknowledgement at once.
    counted: u32,
    now: bool,
    deadline: Option<Instant>,
    largest_at: Instant,
    /// The peer knows our map above this number's predecessor.
    floor: u64,
    /// Oldest packet that arrived since the last acknowledgement.
    low: u64,
    /// Packets that routers had marked.
    pub(super) marked: u64,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self {
            received: Received::new(),
            count: 0,
            every: ACK_EVERY,
            delay: Duration::ZERO,
            eliciting: 0,
            counted: 0,
            now: false,
            deadline: None,
            largest_at: Instant::ZERO,
            floor: 0,
            low: 0,
            marked: 0,
        }
    }

    pub(super) fn status(&self, number: u64) -> Seen {
        self.received.status(number)
    }

    /// The peer says how often it wants to hear from us.
    pub(super) fn asked(&mut self, every: u16, delay: Duration) {
        self.every = u32::from(every).clamp(1, ACK_EVERY_MAX);
        self.delay = delay.min(DELAY_MAX);
    }

    /// Records an arrival, and decides when to acknowledge it; `delay` is the least wait.
    pub(super) fn arrived(&mut self, now: Instant, number: u64, asks: Asks, delay: Duration) {
        self.count += 1;
        let expected = self.received.largest().map_or(0, |n| n + 1);
        if self.received.insert(number) {
            self.largest_at = now;
        }
        if self.eliciting == 0 && self.deadline.is_none() {
            self.low = number;
        }
        self.low = self.low.min(number);
        if asks == Asks::Nothing {
            return;
        }
        self.eliciting += 1;
        self.counted += u32::from(asks == Asks::Acknowledgement);
        self.now |= number != expected || self.counted >= self.every;
        self.deadline.get_or_insert(now + delay.max(self.delay));
    }

    /// An acknowledgement goes out before long: what is not urgent may ride along.
    pub(super) const fn awaits_telling(&self) -> bool {
        self.eliciting > 0
    }

    /// When to acknowledge at the latest; `None` when the driver has only to ask.
    pub(super) fn due_at(&self) -> Option<Instant> {
        if self.now { None } else { self.deadline }
    }

    /// Waiting is over: the next packet is an acknowledgement if nothing else.
    pub(super) fn acknowledge_if_due(&mut self, now: Instant) {
        self.now |= self.is_due(now);
    }

    /// True when an acknowledgement should go out even if nothing else does.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.now || self.deadline.is_some_and(|t| t <= now)
    }

    /// What to acknowledge, if anything arrived since the last time: largest packet, oldest one
    /// to report, and the delay in microseconds.
    pub(super) fn range(&self, now: Instant) -> Option<(u64, u64, u32)> {
        if self.eliciting == 0 {
            return None;
        }
        let largest = self.received.largest()?;
        let low = self.floor.min(self.low).min(largest);
        let delay = now.since(self.largest_at).as_micros().min(u32::MAX.into());
        Some((largest, low, delay as u32))
    }

    /// Packets that every map has to cover until the peer is known to have one.
    pub(super) fn unconfirmed(&self) -> u64 {
        self.received.largest().map_or(0, |largest| largest.saturating_sub(self.floor))
    }

    /// An acknowledgement went out.
    pub(super) fn told(&mut self) {
        (self.eliciting, self.counted) = (0, 0);
        self.now = false;
        self.deadline = None;
        self.low = u64::MAX;
    }

    /// The peer has our map up to `top`: the next one need not go back further.
    pub(super) fn known_up_to(&mut self, top: u64) {
        self.floor = self.floor.max(top.saturating_sub(63));
    }
}
