//! How often the peer is asked to acknowledge.
//!
//! An acknowledgement for every second packet costs the way back a fiftieth of the rate, and both
//! hosts a system call's worth of work. What the sender needs is a number of them per round trip:
//! the window moves on in so many steps. So each path asks for that (`ACK_RATE`), as RFC 9000's
//! extension for acknowledgement frequency does. When the way back loses much of what the peer
//! sends, it is asked for less still: on a narrow line what fills it is mostly acknowledgements.
//! What is missing is told at once, however few are asked for.

use core::time::Duration;

use towpath_wire::Instant;

use super::arrivals::ACK_EVERY;

/// Acknowledgements asked for per round trip.
const PER_ROUND: u64 = 16;
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
/// A path that loses one in five loses more than a third of eight packets in a fifth of all rounds,
/// and there is no way back from that while it does. So a round of more than a third lasts until
/// chance does not explain it: three standard deviations, or so many packets.
const ROUND_MAX: u64 = 128;
const SURE: u64 = 3;
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

    /// `packets` of ours were delivered within the last round trip, of `rtt`.
    pub(super) fn take(&mut self, packets: u64, rtt: Duration) {
        let most = if self.sparse > 1 { EVERY_MAX } else { EVERY_MAX_WIDE };
        let every = packets * self.sparse / PER_ROUND;
        self.wanted = every.clamp(ACK_EVERY.into(), most) as u16;
        let part = rtt * self.sparse as u32 / PER_ROUND as u32;
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
        let is_narrow = lost * NARROW_PART > sent;
        if sent < ROUND_MIN || (is_narrow && sent < ROUND_MAX && !is_sure(sent, lost)) {
            return; // a longer round
        }
        self.round = (delivered, largest, came);
        if is_narrow {
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

/// More than a third is lost, by more than chance. The variance of a third of `sent` is 2/9 of it.
const fn is_sure(sent: u64, lost: u64) -> bool {
    let excess = (lost * NARROW_PART).saturating_sub(sent);
    excess * excess > SURE * SURE * (NARROW_PART - 1) * sent
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
            rate.take(packets, Duration::from_millis(20));
            assert_eq!((rate.wanted, rate.delay()), (every, LEAST), "{packets}");
        }
        rate.take(1000, Duration::from_millis(160));
        assert_eq!(rate.delay(), Duration::from_millis(10));
    }

    #[test]
    fn news_is_told_and_told_again_after_a_second() {
        let mut rate = AckRate::new(LEAST);
        rate.take(20, Duration::from_millis(20));
        assert_eq!(rate.news(at(0)), None, "as everybody does");
        rate.take(160, Duration::from_millis(20));
        assert_eq!(rate.news(at(1)), Some((10, 2000)));
        rate.told(at(1));
        assert_eq!(rate.news(at(2)), None);
        rate.take(13 * 16, Duration::from_millis(20));
        assert_eq!(rate.news(at(2)), None, "not a third more");
        rate.take(14 * 16, Duration::from_millis(20));
        assert_eq!(rate.news(at(2)), Some((14, 2000)));
        rate.take(160, Duration::from_millis(20));
        assert_eq!(rate.news(at(1001)), Some((10, 2000)), "it may have been lost");
        rate.take(0, Duration::from_millis(20));
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
        assert_eq!((round(&mut rate, 14), round(&mut rate, 14)), (2, 4));
        // Four in ten are more than a third only where they are 56 of 140.
        (0..6).for_each(|_| assert_eq!(round(&mut rate, 8), 4));
        assert_eq!(round(&mut rate, 8), 8);
        (0..10).for_each(|_| _ = round(&mut rate, 19));
        assert_eq!(rate.sparse, SPARSE_MAX);
        rate.take(4000, Duration::from_millis(20));
        assert_eq!((rate.wanted, rate.delay()), (256, Duration::from_millis(20)));
        (0..CALM).for_each(|_| _ = round(&mut rate, 0));
        assert_eq!(rate.sparse, SPARSE_MAX / 2);
        (0..5 * CALM).for_each(|_| _ = round(&mut rate, 0));
        assert_eq!(rate.sparse, 1);
    }

    #[test]
    fn one_in_five_lost_by_chance_is_no_narrow_way_back() {
        let mut rng = crate::Rng::new(1, 1);
        let (mut rate, mut came) = (AckRate::new(LEAST), 0);
        for n in 1..=20_000 {
            came += u64::from(!rng.chance_ppm(200_000));
            rate.look_back(n, n, n, came);
        }
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
