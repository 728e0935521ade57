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
        self.deadline.get_or_insert_with(|| now + delay.max(self.delay));
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

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(2);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn arrives(a: &mut Arrivals, ms: u64, number: u64) -> bool {
        a.arrived(at(ms), number, Asks::Acknowledgement, DELAY);
        a.is_due(at(ms))
    }

    #[test]
    fn every_second_packet_is_acknowledged_at_once_and_one_alone_after_a_while() {
        let mut a = Arrivals::new();
        assert!(!arrives(&mut a, 0, 0));
        assert_eq!((a.due_at(), a.awaits_telling()), (Some(at(2)), true));
        assert!(!a.is_due(at(1)) && a.is_due(at(2)));
        assert!(arrives(&mut a, 1, 1));
        assert_eq!((a.due_at(), a.range(at(3))), (None, Some((1, 0, 2000))));
        a.told();
        assert_eq!((a.range(at(3)), a.is_due(at(9)), a.awaits_telling()), (None, false, false));
        assert!(!arrives(&mut a, 3, 2), "it counts anew");
    }

    #[test]
    fn it_is_acknowledged_as_often_as_the_peer_wants_within_bounds() {
        for (asked, every) in [(1, 1), (0, 1), (4, 4), (256, 256), (65_535, 256)] {
            let mut a = Arrivals::new();
            a.asked(asked, Duration::from_millis(7));
            let first = (0..1000).find(|n| arrives(&mut a, 0, *n));
            assert_eq!(first, Some(every - 1), "{asked} asked for");
        }
        for (asked, wait) in [(0, 2), (7, 7), (100, 100), (5000, 100)] {
            let mut a = Arrivals::new();
            a.asked(100, Duration::from_millis(asked));
            arrives(&mut a, 0, 0);
            assert_eq!(a.due_at(), Some(at(wait)), "{asked} ms asked for");
        }
    }

    #[test]
    fn what_is_out_of_order_is_acknowledged_at_once() {
        let mut a = Arrivals::new();
        a.asked(100, DELAY);
        assert!(!arrives(&mut a, 0, 0) && !arrives(&mut a, 0, 1));
        assert!(arrives(&mut a, 0, 3), "one is missing");
        a.told();
        assert!(!arrives(&mut a, 0, 4));
        assert!(arrives(&mut a, 0, 2), "it came late");
        assert_eq!(a.range(at(0)), Some((4, 0, 0)));
        // What asks for nothing may be out of order.
        a.told();
        a.arrived(at(1), 9, Asks::Nothing, DELAY);
        assert!(!a.is_due(at(100)) && !a.awaits_telling());
        // What asks patiently does not count towards the next one, but waits no longer.
        a.asked(2, DELAY);
        for number in 10..20 {
            a.arrived(at(1), number, Asks::Patiently, DELAY);
        }
        assert!(!a.is_due(at(1)) && a.is_due(at(3)));
    }

    #[test]
    fn maps_reach_back_to_what_the_peer_does_not_know() {
        let mut a = Arrivals::new();
        for number in 0..300 {
            arrives(&mut a, 0, number);
        }
        assert_eq!((a.unconfirmed(), a.range(at(0))), (299, Some((299, 0, 0))));
        a.told();
        a.known_up_to(200);
        arrives(&mut a, 0, 300);
        assert_eq!((a.unconfirmed(), a.range(at(0))), (163, Some((300, 137, 0))));
        a.known_up_to(100);
        assert_eq!(a.unconfirmed(), 163, "it knows no less than before");
        a.told();
        arrives(&mut a, 0, 20);
        assert_eq!(a.range(at(0)), Some((300, 20, 0)), "an old one that came again");
    }
}
