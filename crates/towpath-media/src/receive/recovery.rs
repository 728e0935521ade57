//! The sender's clock, from its references and the instants at which they came.

use crate::pace::PCR_WRAP;
use crate::read::CLOCK_HZ;

/// Span of a window of which the earliest arrival counts, in ns: networks only delay, so it is the
/// one that was delayed least.
const WINDOW: i64 = 2_000_000_000;
/// Shares of a window's error that correct phase and frequency: a second-order loop that settles
/// in some 60 windows, damped above critically.
const PHASE: f64 = 0.2;
const FREQUENCY: f64 = 0.012;
/// What no crystal does, in ns per ns: the standard allows 30 millionths.
const DRIFT_MAX: f64 = 500e-6;

/// A line from the sender's 27 MHz to our nanoseconds.
///
/// Two minutes after it began, and whatever jitter there is that leaves one reference in two
/// seconds with the least delay: phase within that jitter's least, frequency within a millionth.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    last: Option<u64>,
    /// 27 MHz since the first reference, wraps undone.
    ticks: i64,
    /// Our time minus the sender's at `ticks` zero, and how it grows.
    offset: f64,
    drift: f64,
    /// The sender's time at which `offset` holds, ns.
    at: i64,
    window: Option<Window>,
    windows: u64,
    restarts: u64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    from: i64,
    /// The least of arrival − reference − line, and where.
    least: f64,
    at: i64,
}

impl Recovery {
    /// A reference (27 MHz, wrapping) came at `arrival_ns`, by any clock of ours.
    pub fn take(&mut self, reference: u64, arrival_ns: i64) {
        let reference = reference % PCR_WRAP;
        let step = self.last.map(|last| (reference + PCR_WRAP - last) % PCR_WRAP);
        self.last = Some(reference);
        match step {
            Some(step) if step <= CLOCK_HZ * 10 => self.ticks += step.cast_signed(),
            _ => {
                // Another clock: its frequency is most likely the same crystal's.
                self.restarts += u64::from(step.is_some());
                let drift = if step.is_some() { self.drift } else { 0.0 };
                let (windows, restarts) = (0, self.restarts);
                let last = Some(reference);
                *self = Self { last, drift, windows, restarts, ..Self::default() };
                self.offset = arrival_ns as f64;
            }
        }
        let sent = ns(self.ticks);
        let error = (arrival_ns - sent) as f64 - self.line(sent);
        let window = self.window.get_or_insert(Window { from: sent, least: error, at: sent });
        if error < window.least {
            (window.least, window.at) = (error, sent);
        }
        if sent - window.from >= WINDOW {
            let window = *window;
            self.window = None;
            self.correct(window, sent);
        }
    }

    fn line(&self, sent: i64) -> f64 {
        self.offset + self.drift * (sent - self.at) as f64
    }

    fn correct(&mut self, window: Window, sent: i64) {
        let offset = self.line(sent);
        (self.offset, self.at) = (offset, sent);
        self.windows += 1;
        // The first windows set the phase at once.
        let phase = if self.windows <= 2 { 1.0 } else { PHASE };
        self.offset += window.least * phase;
        if self.windows > 2 {
            self.drift += window.least / WINDOW as f64 * FREQUENCY;
            self.drift = self.drift.clamp(-DRIFT_MAX, DRIFT_MAX);
        }
    }

    /// When the last reference should have come, by the line: ns of our clock.
    pub fn expected(&self) -> i64 {
        let sent = ns(self.ticks);
        sent + self.line(sent) as i64
    }

    /// How much longer the sender's seconds are than ours, in thousand-millionths.
    pub fn drift_ppb(&self) -> i64 {
        (self.drift * 1e9) as i64
    }

    /// Whether enough came to say so.
    pub const fn is_settled(&self) -> bool {
        self.windows >= 60
    }

    /// Times that another clock began.
    pub const fn restarts(&self) -> u64 {
        self.restarts
    }
}

fn ns(ticks: i64) -> i64 {
    (i128::from(ticks) * 1000 / 27) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A day of references each 40 ms over a network that delays by up to 8 ms more, to a clock
    /// that is wrong by so many millionths.
    fn day(ppm: i64, start: u64) -> (f64, f64, Recovery) {
        let mut recovery = Recovery::default();
        let (mut phase, mut drift, mut state) = (0f64, 0f64, 7u64);
        for k in 0..86_400u64 * 25 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let jitter = (state >> 40).cast_signed() % 8_000_000;
            let true_ns = k.cast_signed() * 40_000_000;
            let ours = true_ns + true_ns / 1_000_000 * ppm;
            recovery.take(start + k * 1_080_000, ours + 5_000_000 + jitter);
            if k > 120 * 25 {
                phase = phase.max((recovery.expected() - ours - 5_000_000).abs() as f64);
                drift = drift.max((recovery.drift_ppb() - ppm * 1000).abs() as f64);
            }
        }
        (phase, drift, recovery)
    }

    #[test]
    fn a_day_at_thirty_and_a_hundred_millionths() {
        for ppm in [-100, -30, 30, 100] {
            // It wraps at once, and after 26 hours again.
            let (phase, drift, recovery) = day(ppm, PCR_WRAP - 1000);
            assert!(phase < 1_500_000.0, "{ppm}: {phase} ns off");
            assert!(drift < 8_000.0, "{ppm}: {drift} ppb off");
            assert_eq!(recovery.restarts(), 0);
        }
    }

    #[test]
    fn another_clock_starts_the_line_anew() {
        let mut recovery = Recovery::default();
        for k in 0..200 {
            recovery.take(k * 1_080_000, k.cast_signed() * 40_000_000);
        }
        recovery.take(5, 200 * 40_000_000);
        assert_eq!((recovery.restarts(), recovery.expected()), (1, 200 * 40_000_000));
    }

    #[test]
    fn a_step_of_more_than_ten_seconds_is_another_clocks() {
        let most = 10 * CLOCK_HZ;
        for (step, restarts) in [(most, 0), (most + 1, 1), (PCR_WRAP - 1, 1)] {
            for start in [0, PCR_WRAP - 5] {
                let mut recovery = Recovery::default();
                recovery.take(start, 0);
                assert_eq!(recovery.restarts(), 0, "the first");
                recovery.take(start + step, 10_000_000_000);
                assert_eq!(recovery.restarts(), restarts, "{step} from {start}");
            }
        }
    }
}
