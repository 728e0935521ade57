//! How long a path's datagrams may be: packetization-layer path MTU discovery for datagrams
//! (DPLPMTUD, RFC 8899).
//!
//! Nothing on the way need say that a datagram was too long. So a padded packet of the next size
//! to try goes out now and then while data flows; once it is acknowledged, its size is used. Its
//! loss says nothing about congestion. When packets of the size in use stop arriving though
//! shorter ones do not (a black hole, §4.3), the path falls back to the size that every way takes
//! and the search begins anew.

use core::time::Duration;

use towpath_wire::Instant;

use crate::config::Config;

/// What every way takes: IPv6's minimum MTU (RFC 8200 §5) less IPv6 and UDP headers
/// (`BASE_PLPMTU`).
pub(super) const BASE: u16 = 1280 - 48;
/// Sizes worth trying first: Ethernet, and Ethernet with jumbo frames.
const STEPS: [u16; 2] = [1472, 8972];
/// Trials of one size before it counts as too long (`MAX_PROBES`).
const TRIALS: u8 = 3;
/// Lost packets of more than [`BASE`] bytes, none acknowledged that was sent after them, before
/// the path counts as a black hole.
const LOST_MAX: u32 = 10;
/// After a fall back, sizes are not tried at once: what was wrong may pass.
const PAUSE: Duration = Duration::from_millis(500);
/// A search that ended begins again after so long (`PMTU_RAISE_TIMER`).
const RAISE_AFTER: Duration = Duration::from_mins(10);

/// A padded packet under way.
#[derive(Clone, Copy, Debug)]
struct Trial {
    number: u64,
    size: u16,
}

/// The search on one path. Invariants: `base ≤ passed`; a trial is longer than `passed` was when
/// it was sent; nothing above `ceiling` is tried, and that is at most `limit`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mtu {
    base: u16,
    limit: u16,
    /// The size in use.
    passed: u16,
    /// The longest that may pass.
    ceiling: u16,
    /// The ceiling itself was not tried yet.
    untried: bool,
    trial: Option<Trial>,
    /// Trials of the next size that were lost.
    failed: u8,
    not_before: Instant,
    /// When the search ended.
    ended: Option<Instant>,
    /// Newest packet of more than [`BASE`] bytes that arrived, plus one.
    arrived: u64,
    /// Such packets lost since.
    lost: u32,
    /// Nobody answered, and so the search fell back.
    silence: Option<Silence>,
}

/// An answer may have been lost as well as what it answers: a long packet of that silence that
/// turns out to have arrived says that length was not what was wrong.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// The first packet that was sent because nobody answered.
    from: u64,
    /// The size in use before.
    size: u16,
}

/// What the loss of a packet says about its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// Nothing: it is a loss like any other.
    Packet,
    /// It was a trial: no sign of congestion.
    Trial,
    /// Long packets do not pass any more: the size in use is now this.
    BlackHole(u16),
}

impl Mtu {
    /// The size of `config.datagram` is taken for granted until it fails.
    pub(super) fn new(config: &Config) -> Self {
        let passed = config.datagram;
        let limit = config.datagram_max.max(passed);
        Self {
            base: BASE.min(passed),
            limit,
            passed,
            ceiling: limit,
            untried: true,
            trial: None,
            failed: 0,
            not_before: Instant::ZERO,
            ended: None,
            arrived: 0,
            lost: 0,
            silence: None,
        }
    }

    /// The next size to try, until the answer would not be worth the question.
    fn next(&self) -> Option<u16> {
        let (passed, ceiling) = (self.passed, self.ceiling);
        if ceiling <= passed {
            return None;
        }
        if self.untried {
            return Some(ceiling);
        }
        let step = STEPS.into_iter().rev().find(|s| (passed + 1..=ceiling).contains(s));
        let middle = passed + (ceiling - passed).div_ceil(2);
        step.or_else(|| (ceiling - passed > passed / 16).then_some(middle))
    }

    /// The size of the trial that is due.
    pub(super) fn trial(&mut self, now: Instant) -> Option<u16> {
        if self.trial.is_some() || now < self.not_before {
            return None;
        }
        let next = self.next();
        match (next, self.ended) {
            (None, None) => self.ended = Some(now),
            (None, Some(at)) if now.since(at) >= RAISE_AFTER => self.raise(self.limit),
            _ => {}
        }
        next
    }

    fn raise(&mut self, ceiling: u16) {
        (self.ceiling, self.untried, self.failed, self.ended) = (ceiling, true, 0, None);
    }

    /// The trial went out as packet `number`.
    pub(super) fn sent(&mut self, number: u64, size: u16) {
        self.trial = Some(Trial { number, size });
    }

    /// A packet arrived; returns the size to use from now on where that changed.
    pub(super) fn on_acked(&mut self, number: u64, bytes: u32) -> Option<u16> {
        if bytes > u32::from(BASE) && number >= self.arrived {
            (self.arrived, self.lost) = (number + 1, 0);
            let has_passed = |s: &mut Silence| number >= s.from && bytes >= s.size.into();
            if let Some(silence) = self.silence.take_if(has_passed)
                && silence.size > self.passed
            {
                self.passed = silence.size;
                return Some(self.passed);
            }
        }
        let trial = self.trial.take_if(|t| t.number == number)?;
        self.failed = 0;
        self.passed = trial.size;
        Some(self.passed)
    }

    /// A packet was lost.
    pub(super) fn on_lost(&mut self, now: Instant, number: u64, bytes: u32) -> Lost {
        if let Some(trial) = self.trial.take_if(|t| t.number == number) {
            self.failed += 1;
            if self.failed >= TRIALS && trial.size <= self.ceiling {
                (self.ceiling, self.untried, self.failed) = (trial.size - 1, false, 0);
            }
            return Lost::Trial;
        }
        if bytes <= u32::from(BASE) || number < self.arrived || self.passed == self.base {
            return Lost::Packet;
        }
        self.lost += 1;
        if self.lost < LOST_MAX {
            return Lost::Packet;
        }
        Lost::BlackHole(self.fall_back(now))
    }

    /// Goes back to the size that every way takes, and tries the present one again later.
    /// Returns the size in use.
    pub(super) fn fall_back(&mut self, now: Instant) -> u16 {
        if self.passed > self.base {
            self.raise(self.passed);
            (self.passed, self.trial, self.lost) = (self.base, None, 0);
            self.silence = None;
            self.not_before = now + PAUSE;
        }
        self.passed
    }

    /// The same because nobody answers to what was sent from packet `from` on.
    pub(super) fn fall_silent(&mut self, now: Instant, from: u64) -> u16 {
        let size = self.passed;
        self.fall_back(now);
        self.silence = (size > self.base).then_some(Silence { from, size });
        self.passed
    }

    /// The link takes no more than `longest` bytes. Returns the size in use.
    pub(super) fn told(&mut self, longest: u16) -> u16 {
        let longest = longest.max(self.base);
        if longest < self.ceiling {
            self.raise(longest);
        }
        self.passed = self.passed.min(longest);
        self.silence = None;
        self.passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn search(max: u16) -> Mtu {
        Mtu::new(&Config { datagram: 1472, datagram_max: max, ..Config::default() })
    }

    /// Lets trials pass that are no longer than `way`; returns how many it took.
    fn settle(m: &mut Mtu, way: u16) -> u32 {
        let mut count = 0;
        while let Some(size) = m.trial(Instant::ZERO) {
            assert!(size > m.passed && size <= m.ceiling);
            let number = u64::from(count);
            m.sent(number, size);
            assert_eq!(m.trial(Instant::ZERO), None, "one at a time");
            if size <= way {
                assert_eq!(m.on_acked(number, size.into()), Some(size));
            } else {
                assert_eq!(m.on_lost(Instant::ZERO, number, size.into()), Lost::Trial);
            }
            count += 1;
            assert!(count < 60, "a search ends");
        }
        count
    }

    #[test]
    fn common_sizes_are_found_in_few_trials() {
        let mut m = search(61_440);
        assert_eq!((settle(&mut m, 65_507), m.passed), (1, 61_440));
        let mut m = search(61_440);
        settle(&mut m, 8972);
        assert_eq!(m.passed, 8972);
        let mut m = search(1472);
        assert_eq!((settle(&mut m, 1472), m.passed), (0, 1472));
    }

    #[test]
    fn what_the_link_says_is_tried_at_once() {
        let mut m = search(61_440);
        let size = m.trial(Instant::ZERO).unwrap();
        m.sent(0, size);
        assert_eq!(m.told(3000), 1472);
        assert_eq!(m.on_lost(Instant::ZERO, 0, size.into()), Lost::Trial);
        assert_eq!(m.trial(Instant::ZERO), Some(3000));
        assert_eq!(m.told(1400), 1400, "shorter than the size in use");
    }

    #[test]
    fn ten_long_packets_lost_in_a_row_are_a_black_hole_and_a_long_one_between_is_not() {
        let mut m = search(1472);
        let lost = |m: &mut Mtu, n| m.on_lost(Instant::ZERO, n, 1472);
        (0..9).for_each(|n| assert_eq!(lost(&mut m, n), Lost::Packet));
        m.on_acked(9, 1472);
        (5..9).for_each(|n| assert_eq!(lost(&mut m, n), Lost::Packet, "sent before it"));
        m.on_acked(10, 100);
        (11..20).for_each(|n| assert_eq!(lost(&mut m, n), Lost::Packet));
        assert_eq!(lost(&mut m, 20), Lost::BlackHole(BASE));
        assert_eq!(m.trial(Instant::ZERO), None, "not at once");
        assert_eq!(m.trial(Instant::ZERO + PAUSE), Some(1472));
    }

    #[test]
    fn a_long_packet_that_arrived_amid_the_silence_brings_its_length_back() {
        let silent = || {
            let mut m = search(4000);
            settle(&mut m, 4000);
            assert_eq!((m.passed, m.fall_silent(Instant::ZERO, 20)), (4000, BASE));
            m
        };
        let mut m = silent();
        assert_eq!(m.on_acked(19, 4000), None, "sent before anybody was silent");
        assert_eq!(m.on_acked(20, 3999), None, "not as long");
        assert_eq!(m.on_acked(21, 4000), Some(4000));
        assert_eq!(m.on_acked(22, 4000), None, "it is known");
        let mut m = silent();
        (30..40).for_each(|n| _ = m.on_lost(Instant::ZERO, n, 1300));
        assert_eq!(m.told(2000), BASE);
        assert_eq!(m.on_acked(41, 4000), None, "the link says that it takes less");
        let mut m = search(1472);
        m.fall_silent(Instant::ZERO, 0);
        assert_eq!(m.on_acked(2, 1472), Some(1472));
        assert_eq!(m.fall_back(Instant::ZERO), BASE);
        assert_eq!(m.on_acked(3, 1472), None, "a black hole is none of silence");
    }

    #[test]
    fn a_search_that_ended_begins_again_ten_minutes_later() {
        let mut m = search(9000);
        settle(&mut m, 1472);
        assert_eq!(m.trial(Instant::ZERO + RAISE_AFTER / 2), None);
        assert_eq!(m.trial(Instant::ZERO + RAISE_AFTER), None);
        assert_eq!(m.trial(Instant::ZERO + RAISE_AFTER), Some(9000));
    }

    proptest! {
        #[test]
        fn every_way_is_found_to_within_a_sixteenth(way in BASE..65_000, max in 1472..=65_000u16) {
            let mut m = search(max);
            if way < 1472 {
                m.fall_back(Instant::ZERO);
                m.not_before = Instant::ZERO;
            }
            settle(&mut m, way);
            let longest = way.min(max);
            prop_assert!(m.passed <= longest);
            prop_assert!(longest - m.passed <= m.passed / 16 + 1 || way < 1472);
        }
    }
}
