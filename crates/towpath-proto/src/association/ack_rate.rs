//! How often the peer is asked to acknowledge.
//!
//! An acknowledgement for every second packet costs the way back a fiftieth of the rate, and both
//! hosts a system call's worth of work. What the sender needs is a number of them per round trip:
//! the window moves on in so many steps. So each path asks for that (`PER_ROUND`), as the extension
//! of QUIC for acknowledgement frequency does. Where a round trip takes longer than the shortest,
//! what waits may be the acknowledgements, and there are to be as many fewer. When the way back
//! loses much of what the peer sends, it is asked for less still: on a narrow line what fills it is
//! mostly acknowledgements. What is missing is told at once, however few are asked for.

use core::time::Duration;

use towpath_wire::Instant;

use super::arrivals::ACK_EVERY;

/// Acknowledgements asked for per round trip.
const PER_ROUND: u64 = 16;
/// So many times fewer at most where a round trip takes so many times the shortest.
const LONGER_MAX: u32 = 4;
/// Packets to one of them at most, and at most while the way back is not narrow.
const EVERY_MAX: u64 = 256;
const EVERY_MAX_WIDE: u64 = 64;
/// Longest wait asked for.
const DELAY_MAX: Duration = Duration::from_millis(50);
/// The wish is told again after so long: it may have been lost.
const AGAIN: Duration = Duration::from_secs(1);
/// A round of the peer's in which more than a third is lost is one of a narrow way back; a
/// thirtieth and less is none.
const NARROW_PART: u64 = 3;
const WIDE_PART: u64 = 30;
/// Packets of the peer that such a round has at least.
const ROUND_MIN: u64 = 8;
/// Rounds without loss until it is tried whether the way back has become wider.
const CALM: u32 = 256;
const SPARSE_MAX: u64 = 16;

/// What is asked of the peer, and what it sends.
/// Invariant: `1 ≤ sparse ≤ SPARSE_MAX`.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckRate {
    /// Packets to an acknowledgement: as it should be, and as it was told.
    wanted: u16,
    told: u16,
    delay: Duration,
    /// Not less than this.
    least: Duration,
    told_at: Option<Instant>,
    /// So many times fewer than usual.
    sparse: u64,
    /// Where the present round began: our bytes delivered, the peer's largest packet, its packets
    /// received.
    round: (u64, u64, u64),
    calm: u32,
}

impl AckRate {
    /// The peer waits for `least` in any case.
    pub(super) const fn new(least: Duration) -> Self {
        let every = ACK_EVERY as u16;
        Self {
            wanted: every,
            told: every,
            delay: least,
            least,
            told_at: None,
            sparse: 1,
            round: (0, 0, 0),
            calm: 0,
        }
    }

    /// `packets` of ours were delivered within the last round trip, of `rtt`; the shortest one
    /// took `rtt_min`.
    pub(super) fn take(&mut self, packets: u64, rtt: Duration, rtt_min: Duration) {
        let most = if self.sparse > 1 { EVERY_MAX } else { EVERY_MAX_WIDE };
        let (least, most_us) = (micros(rtt_min).max(1), micros(rtt_min * LONGER_MAX).max(1));
        // Where a round trip takes longer than it need, acknowledgements may be what waits.
        let rarer =
            |n: u64| n * self.sparse * micros(rtt).clamp(least, most_us) / least / PER_ROUND;
        self.wanted = rarer(packets).clamp(ACK_EVERY.into(), most) as u16;
        let part = Duration::from_micros(rarer(micros(rtt)));
        self.delay = part.min(DELAY_MAX).max(self.least);
    }

    /// Counts what the peer sends: its `largest` packet, and how many came.
    pub(super) fn look_back(&mut self, delivered: u64, prior: u64, largest: u64, came: u64) {
        let (start, from, before) = self.round;
        if prior < start {
            return;
        }
        let (sent, came_now) = (largest - from, came - before);
        let lost = sent.saturating_sub(came_now);
        if sent < ROUND_MIN {
            return; // a longer round
        }
        self.round = (delivered, largest, came);
        if lost * NARROW_PART > sent {
            self.sparse = (self.sparse * 2).min(SPARSE_MAX);
            self.calm = 0;
        } else if lost * WIDE_PART <= sent {
            self.calm += 1;
            if self.calm >= CALM {
                self.sparse = (self.sparse / 2).max(1);
                self.calm = 0;
            }
        }
    }

    /// Longest wait asked for.
    pub(super) const fn delay(&self) -> Duration {
        self.delay
    }

    /// What is to be told now: packets and microseconds. A third more or less is no news.
    pub(super) fn news(&self, now: Instant) -> Option<(u16, u32)> {
        let (a, b) = (u32::from(self.wanted), u32::from(self.told));
        let news = match self.told_at {
            None => a != b,
            Some(at) => a * 3 > b * 4 || b * 3 > a * 4 || now.since(at) >= AGAIN,
        };
        news.then_some((self.wanted, self.delay.as_micros() as u32))
    }

    /// It was told.
    pub(super) const fn told(&mut self, now: Instant) {
        self.told = self.wanted;
        self.told_at = Some(now);
    }
}

const fn micros(d: Duration) -> u64 {
    d.as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(2);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn sixteen_a_round_trip_but_never_more_than_one_in_two_nor_fewer_than_one_in_64() {
        let mut rate = AckRate::new(LEAST);
        for (packets, every) in [(0, 2), (32, 2), (47, 2), (160, 10), (1024, 64), (9000, 64)] {
            rate.take(packets, Duration::from_millis(20), Duration::from_millis(20));
            assert_eq!((rate.wanted, rate.delay()), (every, LEAST), "{packets}");
        }
        rate.take(1000, Duration::from_millis(160), Duration::from_millis(160));
        assert_eq!(rate.delay(), Duration::from_millis(10));
    }

    #[test]
    fn as_many_fewer_as_the_round_trip_is_longer_than_the_shortest() {
        let mut rate = AckRate::new(LEAST);
        for (rtt_ms, every, delay_us) in [(20, 10, 2000), (30, 15, 2812), (60, 30, 11_250)] {
            rate.take(160, Duration::from_millis(rtt_ms), Duration::from_millis(20));
            assert_eq!((rate.wanted, rate.delay()), (every, Duration::from_micros(delay_us)));
        }
        rate.take(160, Duration::from_millis(100), Duration::from_millis(20));
        assert_eq!(rate.wanted, 40, "a quarter at the least");
        rate.take(160, Duration::from_millis(100), Duration::ZERO);
        assert_eq!(rate.wanted, 10, "the shortest is not known");
    }

    #[test]
    fn news_is_told_and_told_again_after_a_second() {
        let mut rate = AckRate::new(LEAST);
        rate.take(20, Duration::from_millis(20), Duration::from_millis(20));
        assert_eq!(rate.news(at(0)), None, "as everybody does");
        rate.take(160, Duration::from_millis(20), Duration::from_millis(20));
        assert_eq!(rate.news(at(1)), Some((10, 2000)));
        rate.told(at(1));
        assert_eq!(rate.news(at(2)), None);
        rate.take(13 * 16, Duration::from_millis(20), Duration::from_millis(20));
        assert_eq!(rate.news(at(2)), None, "not a third more");
        rate.take(14 * 16, Duration::from_millis(20), Duration::from_millis(20));
        assert_eq!(rate.news(at(2)), Some((14, 2000)));
        rate.take(160, Duration::from_millis(20), Duration::from_millis(20));
        assert_eq!(rate.news(at(1001)), Some((10, 2000)), "it may have been lost");
        rate.take(0, Duration::from_millis(20), Duration::from_millis(20));
        rate.told(at(1001));
        assert_eq!(rate.news(at(2000)), None);
        assert_eq!(rate.news(at(5000)), Some((2, 2000)), "it may have been lost, too");
    }

    #[test]
    fn a_way_back_that_loses_half_gets_half_until_it_loses_nothing_for_long() {
        let mut rate = AckRate::new(LEAST);
        let (mut delivered, mut largest, mut came) = (0, 0, 0);
        let mut round = |rate: &mut AckRate, lost: u64| {
            (delivered, largest, came) = (delivered + 1, largest + 20, came + 20 - lost);
            rate.look_back(delivered, delivered, largest, came);
            rate.sparse
        };
        assert_eq!(round(&mut rate, 6), 1, "three in ten are the path's own");
        assert_eq!((round(&mut rate, 7), round(&mut rate, 10)), (2, 4));
        (0..10).for_each(|_| _ = round(&mut rate, 19));
        assert_eq!(rate.sparse, SPARSE_MAX);
        rate.take(4000, Duration::from_millis(20), Duration::from_millis(20));
        assert_eq!((rate.wanted, rate.delay()), (256, Duration::from_millis(20)));
        (0..CALM).for_each(|_| _ = round(&mut rate, 0));
        assert_eq!(rate.sparse, SPARSE_MAX / 2);
        (0..5 * CALM).for_each(|_| _ = round(&mut rate, 0));
        assert_eq!(rate.sparse, 1);
    }

    #[test]
    fn few_packets_say_nothing() {
        let mut rate = AckRate::new(LEAST);
        for n in 1..8 {
            rate.look_back(n, n, n, 0);
        }
        assert_eq!(rate.sparse, 1);
        rate.look_back(8, 8, 8, 0);
        assert_eq!(rate.sparse, 2);
    }
}
