//! How much of the path's queue is filled, read from round-trip times.

use core::cmp::Reverse;
use core::time::Duration;

use towpath_wire::Instant;

use crate::recent::Recent;

/// How long the least round-trip time is believed at least. Longer than the longest wave of
/// CUBIC, which alone empties a queue.
const LEAST_SPAN: Duration = Duration::from_secs(15);
/// How long the greatest one is.
const MOST_SPAN: Duration = Duration::from_secs(5);
/// Smaller differences say nothing about a queue.
const VISIBLE: Duration = Duration::from_micros(100);
/// Of the least round-trip time.
const STANDING_PART: u32 = 4;
/// So much of the least round-trip time, but no more than is visible, is no queue either. Of
/// datagrams longer than usual ones, two stand for as long as they take.
const EMPTY_PART: u32 = 8;
/// The length of datagrams for which [`VISIBLE`] holds.
const USUAL: u64 = 1472;
/// Nor do those below this part of the least round-trip time.
const VISIBLE_PART: u32 = 20;

/// Where the queue stands between the least and the most seen of late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// In the lower third, or no queue has been seen of late.
    Low,
    /// Between the two others.
    Middle,
    /// In the upper half.
    High,
}

/// Invariant: `most` holds least round-trip times of whole rounds, so that no single packet that
/// was late widens the range.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    least: Recent<Reverse<Duration>>,
    most: Recent<Duration>,
    /// The present round-trip time: up at once, down by an eighth of the way at each sample. A
    /// drop is noticed a few packets after the full queue that caused it.
    present: Duration,
    /// The least within a quarter to a half of a round trip: a burst of our own comes and goes
    /// within that, a queue stands.
    standing: Recent<Reverse<Duration>>,
    /// Least of the present round.
    round: Duration,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            least: Recent::new(LEAST_SPAN),
            most: Recent::new(MOST_SPAN),
            present: Duration::ZERO,
            standing: Recent::new(Duration::ZERO),
            round: Duration::MAX,
        }
    }

    const fn visible(least: Duration) -> Duration {
        let part = Duration::from_nanos(least.as_nanos() as u64 / VISIBLE_PART as u64);
        if part.as_nanos() > VISIBLE.as_nanos() { part } else { VISIBLE }
    }

    /// The least round-trip time of late; the longest there is before the first.
    pub(super) fn least(&self) -> Duration {
        self.least.get().map_or(Duration::MAX, |r| r.0)
    }

    /// Takes a round-trip time in. True when it is so far below the least known that what passed
    /// for an empty queue was none.
    pub(super) fn take(&mut self, now: Instant, rtt: Duration) -> bool {
        let before = self.least();
        self.least.take(now, Reverse(rtt));
        self.round = self.round.min(rtt);
        self.standing.set_span(self.least() / STANDING_PART);
        self.standing.take(now, Reverse(rtt));
        let above = self.present.saturating_sub(rtt);
        self.present = rtt + above * 7 / 8;
        before != Duration::MAX && rtt + Self::visible(rtt) < before
    }

    /// A round trip is over.
    pub(super) fn end_round(&mut self, now: Instant) {
        if self.round != Duration::MAX {
            self.most.take(now, self.round);
        }
        self.round = Duration::MAX;
    }

    /// Hardly a packet waited when this was measured. Late hosts make round trips longer, never
    /// shorter.
    pub(super) fn is_empty(&self, datagram: u64) -> bool {
        let least = self.least();
        let visible = VISIBLE * if datagram > USUAL { (2 * datagram / USUAL) as u32 } else { 1 };
        self.present.saturating_sub(least) <= (least / EMPTY_PART).min(visible)
    }

    fn standing(&self) -> Duration {
        self.standing.get().map_or(Duration::ZERO, |r| r.0)
    }

    /// Between the least and the most seen of late.
    fn range(&self) -> Duration {
        let most = self.most.get().unwrap_or_default().max(self.standing());
        most.saturating_sub(self.least())
    }

    /// A queue has been seen of late.
    pub(super) fn shows(&self) -> bool {
        self.range() >= Self::visible(self.least())
    }

    pub(super) fn level(&self) -> Level {
        let range = self.range();
        let above = self.standing().saturating_sub(self.least());
        if !self.shows() || above * 3 < range {
            Level::Low
        } else if above * 2 > range {
            Level::High
        } else {
            Level::Middle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn after(queue: &mut Queue, start_ms: u64, rtts_ms: &[u64]) -> Level {
        for (i, rtt) in rtts_ms.iter().enumerate() {
            let now = Instant::ZERO + ms(start_ms + 10 * i as u64);
            queue.take(now, ms(*rtt));
            queue.end_round(now);
        }
        queue.level()
    }

    #[test]
    fn the_level_is_relative_to_what_was_seen() {
        let mut queue = Queue::new();
        assert_eq!(after(&mut queue, 0, &[20; 5]), Level::Low, "no queue at all");
        assert_eq!(after(&mut queue, 40, &[30, 30]), Level::High, "the most ever");
        assert_eq!(after(&mut queue, 60, &[60, 60]), Level::High);
        assert_eq!(after(&mut queue, 80, &[36; 40]), Level::Middle, "0.4 of the range");
        assert_eq!(after(&mut queue, 480, &[30; 40]), Level::Low);
    }

    #[test]
    fn one_late_packet_is_no_queue_for_those_after_it() {
        let mut queue = Queue::new();
        after(&mut queue, 0, &[20, 22]);
        queue.take(Instant::ZERO + ms(20), ms(200));
        assert_eq!(queue.level(), Level::High);
        assert_eq!(after(&mut queue, 20, &[22; 100]), Level::High, "the range is 2 ms still");
    }

    #[test]
    fn a_standing_queue_is_forgotten_once_the_path_is_seen_empty() {
        let mut queue = Queue::new();
        after(&mut queue, 0, &[60; 5]);
        assert!(!queue.take(Instant::ZERO + ms(50), ms(59)));
        assert!(queue.take(Instant::ZERO + ms(60), ms(40)), "it was no empty queue");
    }

    #[test]
    fn a_longer_route_is_a_queue_for_half_a_minute_at_most() {
        let mut queue = Queue::new();
        after(&mut queue, 0, &[20; 5]);
        assert_eq!(after(&mut queue, 50, &[50; 1000]), Level::High);
        after(&mut queue, 10_050, &[50; 1000]);
        assert_eq!(after(&mut queue, 20_050, &[50; 1100]), Level::Low);
    }
}
