//! From the stream's clock to the sender's.

use core::time::Duration;

use towpath_wire::Instant;

/// What a receiver asks of its sender (third source, §III.A).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feedback {
    /// Lengthen the gaps between sends.
    SlowDown,
    /// Shorten them.
    SpeedUp,
    /// As at the beginning.
    Normal,
}

/// A step of [`Feedback`] changes gaps by this factor.
const STEP: (u64, u64) = (5, 4);
/// Longest gaps that feedback gives, in millionths of the stream's own.
pub const GAP_MAX_PPM: u64 = 4_000_000;
/// Shortest.
pub const GAP_MIN_PPM: u64 = 512_000;
/// Slowest play-out asked for, in millionths of the stream's own speed.
pub const SPEED_MIN_PPM: u32 = 100_000;
/// Fastest.
pub const SPEED_MAX_PPM: u32 = 16_000_000;
const MILLION: u64 = 1_000_000;

/// A line from ticks (27 MHz) to instants, with corners where something changed.
///
/// `instant = anchor + (ticks − at) · 1000 / 27 ns · stretch`, and stretch is what speed, feedback
/// and drift make of it.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    anchor: Instant,
    /// Ticks of the stream at `anchor`.
    at: u64,
    started: bool,
    paused: bool,
    speed_ppm: u32,
    gap_ppm: u64,
    /// How much longer our seconds are made, to follow another's clock: millionths, signed.
    drift_ppb: i64,
}

impl Flow {
    pub(super) const fn new() -> Self {
        Self {
            anchor: Instant::ZERO,
            at: 0,
            started: false,
            paused: false,
            speed_ppm: MILLION as u32,
            gap_ppm: MILLION,
            drift_ppb: 0,
        }
    }

    pub(super) const fn is_started(&self) -> bool {
        self.started
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused
    }

    pub(super) const fn gap_ppm(&self) -> u64 {
        self.gap_ppm
    }

    /// `ticks` is due at `now`.
    pub(super) fn start(&mut self, now: Instant, ticks: u64) {
        (self.anchor, self.at, self.started) = (now, ticks, true);
    }

    /// Nanoseconds per tick, times 27 · 10⁶ · 10⁹ / 1000.
    fn stretch(&self) -> u128 {
        let gap = u128::from(self.gap_ppm) * u128::from(MILLION) / u128::from(self.speed_ppm);
        // 1 is 10¹⁵.
        gap * u128::from((1_000_000_000 + self.drift_ppb).unsigned_abs())
    }

    /// When `ticks` is due; `None` before the start and while paused.
    pub(super) fn due(&self, ticks: u64) -> Option<Instant> {
        if !self.started || self.paused {
            return None;
        }
        let ns = |ticks: u64| {
            let ns = u128::from(ticks) * self.stretch() / (27 * 1_000_000_000_000);
            Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
        };
        Some(match ticks.checked_sub(self.at) {
            Some(ahead) => self.anchor + ns(ahead),
            None => self.anchor - ns(self.at - ticks),
        })
    }

    /// The tick that is due at `now`.
    fn ticks(&self, now: Instant) -> u64 {
        if self.paused || !self.started {
            return self.at;
        }
        let ns = now.since(self.anchor).as_nanos();
        self.at + (ns * (27 * 1_000_000_000_000) / self.stretch()) as u64
    }

    /// Nothing that was due moves; what comes goes by new rules.
    fn turn(&mut self, now: Instant) {
        if self.started {
            let ticks = self.ticks(now);
            if !self.paused {
                // In whole ticks: what is less than one is kept by the anchor.
                self.anchor = self.due(ticks).unwrap_or(now);
            }
            self.at = ticks;
        }
    }

    pub(super) fn pause(&mut self, now: Instant) {
        self.turn(now);
        self.paused = true;
    }

    /// What was due at the pause is due now.
    pub(super) fn resume(&mut self, now: Instant) {
        if core::mem::take(&mut self.paused) {
            self.anchor = now;
        }
    }

    pub(super) fn speed(&mut self, now: Instant, ppm: u32) {
        self.turn(now);
        self.speed_ppm = ppm.clamp(SPEED_MIN_PPM, SPEED_MAX_PPM);
    }

    pub(super) fn drift(&mut self, now: Instant, ppb: i64) {
        self.turn(now);
        self.drift_ppb = ppb.clamp(-500_000_000, 500_000_000);
    }

    pub(super) fn feedback(&mut self, now: Instant, feedback: Feedback) {
        self.turn(now);
        let (up, down) = STEP;
        self.gap_ppm = match feedback {
            Feedback::SlowDown => self.gap_ppm * up / down,
            Feedback::SpeedUp => self.gap_ppm * down / up,
            Feedback::Normal => MILLION,
        };
        self.gap_ppm = self.gap_ppm.clamp(GAP_MIN_PPM, GAP_MAX_PPM);
    }

    /// Everything is due so much later.
    pub(super) fn shift(&mut self, by: Duration) {
        self.anchor += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn changes_bend_the_line_and_move_nothing_that_was_due() {
        let mut flow = Flow::new();
        assert_eq!(flow.due(0), None);
        flow.start(ms(10), 0);
        assert_eq!(flow.due(27_000), Some(ms(11)));
        flow.speed(ms(20), 2_000_000);
        assert_eq!(flow.due(270_000), Some(ms(20)));
        assert_eq!(flow.due(270_000 + 54_000), Some(ms(21)));
        flow.speed(ms(30), 1_000_000);
        flow.feedback(ms(30), Feedback::SlowDown);
        assert_eq!(flow.due(270_000 + 540_000 + 27_000 * 4), Some(ms(35)));
        flow.feedback(ms(30), Feedback::SpeedUp);
        assert_eq!(flow.gap_ppm(), 1_000_000, "a step up takes a step down back");
        flow.pause(ms(40));
        assert_eq!(flow.due(1_080_000), None);
        flow.resume(ms(1000));
        assert_eq!(flow.due(1_080_000), Some(ms(1000)));
        assert_eq!(flow.due(1_107_000), Some(ms(1001)));
    }

    #[test]
    fn feedback_has_ends() {
        let mut flow = Flow::new();
        flow.start(ms(0), 0);
        for _ in 0..50 {
            flow.feedback(ms(0), Feedback::SlowDown);
        }
        assert_eq!(flow.gap_ppm(), GAP_MAX_PPM);
        for _ in 0..50 {
            flow.feedback(ms(0), Feedback::SpeedUp);
        }
        assert_eq!(flow.gap_ppm(), GAP_MIN_PPM);
        flow.feedback(ms(0), Feedback::Normal);
        assert_eq!(flow.gap_ppm(), 1_000_000);
    }

    /// A day of turns: each may cost a nanosecond.
    #[test]
    fn a_turn_every_second_costs_next_to_no_time() {
        let mut flow = Flow::new();
        flow.start(ms(0), 0);
        for s in 1..=86_400 {
            flow.drift(Instant::from_nanos(s * 1_000_000_000 + 333), 0);
        }
        let due = flow.due(86_400 * 27_000_000).expect("it runs");
        assert!(
            due <= ms(86_400_000) && due + Duration::from_micros(100) > ms(86_400_000),
            "{due}"
        );
    }
}
