//! When a receiver asks its sender for less or more (third source, §III.A).

use core::time::Duration;

use towpath_wire::Instant;

use crate::send::Feedback;

/// At which fullness the sender is asked for less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// Never: the third source's Figure 2.
    Off,
    /// When the ring has been full for five seconds and play-out suffers (Figure 3).
    After,
    /// At the high mark, before it does (Figure 4).
    Before,
}

/// How long the effect of a message is waited for before the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// So long a ring is full before that counts as having suffered.
const SUFFERED: Duration = Duration::from_secs(5);

/// Marks in a ring of `capacity` bytes.
///
/// SLOWDOWN at the high mark, and again each second while the ring does not empty; NORMAL at the
/// low mark after that. SPEEDUP at half the low mark while it goes on emptying; NORMAL when it is
/// half full again. Invariant: low < middle < high ≤ capacity.
#[derive(Clone, Debug)]
pub struct Marks {
    when: When,
    capacity: usize,
    asked: Feedback,
    asked_at: Option<Instant>,
    /// The level a second ago at most, and when that was.
    level: usize,
    sampled: Option<Instant>,
    /// Since when it is full without a pause of a second, and when it last was.
    full: Option<(Instant, Instant)>,
    /// The ring has been at the low mark: before that, an emptying ring is one that only begins.
    filled: bool,
}

impl Marks {
    /// For a ring of so many bytes.
    pub const fn new(when: When, capacity: usize) -> Self {
        Self {
            when,
            capacity,
            asked: Feedback::Normal,
            asked_at: None,
            level: 0,
            sampled: None,
            full: None,
            filled: false,
        }
    }

    /// Bytes of the high mark.
    pub const fn high(&self) -> usize {
        match self.when {
            When::After => self.capacity,
            When::Off | When::Before => self.capacity / 4 * 3,
        }
    }

    /// Bytes of the low mark.
    pub const fn low(&self) -> usize {
        self.capacity / 4
    }

    /// What was asked for last.
    pub const fn asked(&self) -> Feedback {
        self.asked
    }

    /// The ring holds `level` bytes; `full`: something more was there and had no room.
    pub fn look(&mut self, now: Instant, level: usize, full: bool) -> Option<Feedback> {
        if self.when == When::Off {
            return None;
        }
        self.filled |= level >= self.low();
        let past = |at: Option<Instant>| at.is_none_or(|at| now.since(at) >= INTERVAL);
        let due = past(self.asked_at);
        let (rising, falling) = (level >= self.level, level < self.level);
        let suffered = self.suffers(now, full);
        let high = if self.when == When::After { suffered } else { level >= self.high() };
        let ask = match self.asked {
            _ if high => {
                (due && (rising || self.asked != Feedback::SlowDown)).then_some(Feedback::SlowDown)
            }
            Feedback::SlowDown => (level <= self.low()).then_some(Feedback::Normal),
            Feedback::SpeedUp if level >= self.capacity / 2 => Some(Feedback::Normal),
            Feedback::Normal | Feedback::SpeedUp => {
                let sparse = self.filled && level <= self.low() / 2 && falling;
                (due && sparse).then_some(Feedback::SpeedUp)
            }
        };
        if past(self.sampled) || ask.is_some() {
            (self.level, self.sampled) = (level, Some(now));
        }
        if let Some(ask) = ask {
            (self.asked, self.asked_at) = (ask, Some(now));
        }
        ask
    }
}

impl Marks {
    /// Whether it has been full for long.
    fn suffers(&mut self, now: Instant, full: bool) -> bool {
        if full {
            let since = self.full.filter(|(_, last)| now.since(*last) <= INTERVAL);
            self.full = Some((since.map_or(now, |(since, _)| since), now));
        }
        let lasts = |(since, last): (Instant, Instant)| last == now && now.since(since) >= SUFFERED;
        self.full.is_some_and(lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn run(when: When, levels: &[usize]) -> alloc::vec::Vec<(usize, Feedback)> {
        let mut marks = Marks::new(when, 1000);
        let mut asked = vec![];
        for (second, &level) in levels.iter().enumerate() {
            let now = Instant::from_nanos(second as u64 * 1_000_000_000);
            if let Some(ask) = marks.look(now, level, level == 1000) {
                asked.push((level, ask));
            }
        }
        asked
    }

    #[test]
    fn before_asks_at_the_high_mark_and_after_when_full() {
        use Feedback::{Normal, SlowDown, SpeedUp};
        let levels = [
            100, 400, 749, 750, 800, 790, 500, 251, 250, 400, 600, 1000, 1000, 900, 250, 124, 90,
            400, 500,
        ];
        let before = run(When::Before, &levels);
        let expected = [
            (750, SlowDown),
            (800, SlowDown),
            (250, Normal),
            (1000, SlowDown),
            (1000, SlowDown),
            (250, Normal),
            (124, SpeedUp),
            (90, SpeedUp),
            (500, Normal),
        ];
        assert_eq!(before, expected);
        let levels = [400, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 900, 250, 1000, 900];
        let after = run(When::After, &levels);
        assert_eq!(after, [(1000, SlowDown), (1000, SlowDown), (250, Normal)]);
        assert_eq!(run(When::Off, &levels), []);
    }

    #[test]
    fn a_ring_that_has_never_filled_asks_for_nothing() {
        assert_eq!(run(When::Before, &[100, 50, 20, 100, 240, 100, 0]), []);
    }
}
