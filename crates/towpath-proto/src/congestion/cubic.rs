//! CUBIC as in RFC 9438: the window that kernels' TCP uses. Slow start without `HyStart`.

use towpath_wire::Instant;

use super::policy::WINDOW_MAX;
use super::{Congestion, Loss, Sample};

/// Growth constant, RFC 9438 §5: in segments per cubic second.
const C: f64 = 0.4;
/// Multiplicative decrease, RFC 9438 §4.6.
pub(super) const BETA: f64 = 0.7;
/// Additive increase of the Reno-friendly region, RFC 9438 §4.3: `3 (1 - BETA) / (1 + BETA)`.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Windows in segments (datagrams), times in seconds.
/// Invariant: `2 ≤ window ≤ WINDOW_MAX / datagram`.
#[derive(Clone, Debug)]
pub struct Cubic {
    datagram: u64,
    window: f64,
    threshold: f64,
    /// Window before the last reduction.
    most: f64,
    /// The Reno-friendly estimate of the window.
    friendly: f64,
    /// When the present growth began.
    epoch: Option<Instant>,
    /// Seconds from then until the curve comes back to `most`.
    back: f64,
    recovery: Option<Instant>,
}

impl Cubic {
    /// Starts at ten datagrams (RFC 6928).
    pub const fn new(datagram: u64) -> Self {
        Self {
            datagram,
            window: 10.0,
            threshold: f64::MAX,
            most: 0.0,
            friendly: 0.0,
            epoch: None,
            back: 0.0,
            recovery: None,
        }
    }

    /// Still doubling.
    pub(super) fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Goes on from here as after a loss, but without one.
    pub(super) const fn leave_slow_start(&mut self) {
        self.threshold = self.window;
    }

    /// Packets sent up to `now` belong to what this cut answers.
    pub(super) fn cut(&mut self, now: Instant, leaves: f64) {
        self.recovery = Some(now);
        self.epoch = None;
        // Fast convergence, RFC 9438 §4.7.
        self.most =
            if self.window < self.most { self.window * (1.0 + leaves) / 2.0 } else { self.window };
        self.window = (self.window * leaves).max(2.0);
        self.threshold = self.window;
    }

    /// Leaves slow start at a window of so many bytes, the most that was found to pass.
    pub(super) fn land(&mut self, bytes: u64) {
        self.window = (bytes as f64 / self.datagram as f64).clamp(2.0, self.window);
        self.most = self.window;
        self.threshold = self.window;
    }

    /// A packet sent then belongs to what the last cut answered.
    pub(super) fn in_recovery(&self, sent: Instant) -> bool {
        self.recovery.is_some_and(|start| sent <= start)
    }

    fn begin(&mut self, now: Instant) {
        self.epoch = Some(now);
        self.friendly = self.window;
        self.back = if self.window < self.most {
            cube_root((self.most - self.window) / C)
        } else {
            self.most = self.window;
            0.0
        };
    }

    fn grow(&mut self, sample: &Sample) {
        if self.epoch.is_none() {
            self.begin(sample.now);
        }
        let Some(epoch) = self.epoch else { return };
        let acked = sample.acked as f64 / self.datagram as f64;
        let rtt = sample.rtt.unwrap_or_default().as_secs_f64();
        let t = sample.now.since(epoch).as_secs_f64() + rtt - self.back;
        let target = (C * t * t * t + self.most).clamp(self.window, 1.5 * self.window);
        self.friendly += ALPHA * acked / self.window;
        self.window += (target - self.window) / self.window * acked;
        self.window = self.window.max(self.friendly);
    }
}

/// By Newton's method: the core library has no cube root.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut root = if x > 1.0 { x / 3.0 + 1.0 } else { 1.0 };
    for _ in 0..60 {
        root = (2.0 * root + x / (root * root)) / 3.0;
    }
    root
}

impl Congestion for Cubic {
    fn window(&self) -> u64 {
        (self.window * self.datagram as f64) as u64
    }

    fn on_acked(&mut self, sample: &Sample) {
        if self.in_recovery(sample.sent) {
            return;
        }
        if sample.congestion_met {
            return self.cut(sample.now, BETA);
        }
        if !sample.limited {
            return;
        }
        if self.in_slow_start() {
            self.window += sample.acked as f64 / self.datagram as f64;
        } else {
            self.grow(sample);
        }
        self.window = self.window.min((WINDOW_MAX / self.datagram) as f64);
    }

    fn on_lost(&mut self, loss: &Loss) {
        if !self.in_recovery(loss.sent) {
            self.cut(loss.now, BETA);
        }
    }

    fn on_silence(&mut self) {
        self.threshold = (self.window * BETA).max(2.0);
        self.window = 2.0;
        self.epoch = None;
    }

    fn on_datagram(&mut self, bytes: u64) {
        let scale = self.datagram as f64 / bytes as f64;
        self.datagram = bytes;
        self.window = (self.window * scale).max(2.0);
        self.most *= scale;
        self.threshold *= scale;
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9438 §4.1 and §4.2: W(t) = C (t - K)³ + w, with C = 0.4 and K = ∛(w (1 - β)/C).
    #[test]
    fn after_a_cut_the_window_follows_the_curve_back() {
        let (datagram, ms) = (1000, |n: u64| Instant::from_nanos(n * 1_000_000));
        let mut c = Cubic::new(datagram);
        (c.window, c.threshold) = (1000.0, 1.0);
        c.cut(ms(0), BETA);
        assert_eq!(c.window(), 700_000);
        let rtt = 100;
        for n in 1..=200 {
            let sample = Sample {
                now: ms(n * rtt),
                rtt: Some(core::time::Duration::from_millis(rtt)),
                acked: c.window(),
                sent: ms((n - 1) * rtt + 1),
                limited: true,
                delivered: 0,
                prior_delivered: 0,
                congestion_met: false,
            };
            c.on_acked(&sample);
            let k = cube_root(1000.0 * 0.3 / 0.4);
            // The curve begins with the first acknowledgement, and looks a round trip ahead.
            let t = (n * rtt) as f64 / 1e3 - k;
            let curve = 0.4 * t * t * t + 1000.0;
            let off = (c.window / curve - 1.0).abs();
            assert!(off < 0.02, "after {n} round trips {:.1} where {curve:.1} is due", c.window);
        }
    }

    #[test]
    fn another_length_of_datagrams_leaves_the_bytes_as_they_were() {
        let mut c = Cubic::new(1000);
        (c.window, c.most, c.threshold) = (100.0, 200.0, 150.0);
        c.on_datagram(500);
        assert_eq!((c.window, c.most, c.threshold), (200.0, 400.0, 300.0));
        c.on_datagram(50_000);
        assert_eq!(c.window(), 100_000, "two of any length");
    }

    #[test]
    fn cube_roots() {
        for x in [1e-6, 0.3, 1.0, 8.0, 1e9] {
            let root = cube_root(x);
            assert!((root * root * root - x).abs() <= 1e-9 * x, "{x}");
        }
    }
}
