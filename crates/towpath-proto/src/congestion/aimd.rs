//! `NewReno` as in RFC 9002 §7: slow start, then one datagram per round trip; half on loss.

use towpath_wire::Instant;

use super::policy::WINDOW_MAX;
use super::{Congestion, Loss, Sample};

/// Invariant: `2 · datagram ≤ window ≤ WINDOW_MAX`.
#[derive(Clone, Debug)]
pub struct Aimd {
    datagram: u64,
    window: u64,
    threshold: u64,
    /// Bytes acknowledged towards the next additive increase.
    acked: u64,
    /// Losses of packets sent before this belong to a reduction already made.
    recovery: Option<Instant>,
    /// Window and threshold before the last reduction, while it may prove needless.
    undo: Option<(u64, u64)>,
    /// Bytes that the last reduction was made for.
    blamed: u64,
}

impl Aimd {
    /// Starts at ten datagrams (RFC 6928).
    pub const fn new(datagram: u64) -> Self {
        Self {
            datagram,
            window: 10 * datagram,
            threshold: u64::MAX,
            acked: 0,
            recovery: None,
            undo: None,
            blamed: 0,
        }
    }

    fn in_recovery(&self, sent: Instant) -> bool {
        self.recovery.is_some_and(|start| sent <= start)
    }

    fn halve(&mut self, now: Instant) {
        self.undo = None;
        self.recovery = Some(now);
        self.window = (self.window / 2).max(2 * self.datagram);
        self.threshold = self.window;
        self.acked = 0;
    }
}

impl Congestion for Aimd {
    fn window(&self) -> u64 {
        self.window
    }

    fn on_acked(&mut self, sample: &Sample) {
        if self.in_recovery(sample.sent) {
            return;
        }
        if sample.congestion_met {
            // As a loss, but one that will not prove spurious (RFC 9002 §7.1).
            self.halve(sample.now);
            return;
        }
        if !sample.limited {
            return;
        }
        self.undo = None;
        if self.window < self.threshold {
            self.window += sample.acked;
        } else {
            self.acked += sample.acked;
            if self.acked >= self.window {
                self.acked -= self.window;
                self.window += self.datagram;
            }
        }
        self.window = self.window.min(WINDOW_MAX);
    }

    fn on_lost(&mut self, loss: &Loss) {
        if self.in_recovery(loss.sent) {
            self.blamed += loss.bytes;
            return;
        }
        let before = (self.window, self.threshold);
        self.halve(loss.now);
        self.undo = Some(before);
        self.blamed = loss.bytes;
    }

    fn on_spurious(&mut self, sent: Instant, bytes: u64) {
        if !self.in_recovery(sent) {
            return;
        }
        self.blamed = self.blamed.saturating_sub(bytes);
        // None of what the reduction was made for was lost (RFC 9002 has no such rule; the idea
        // is RFC 3522's and RFC 3708's).
        if self.blamed == 0
            && let Some((window, threshold)) = self.undo.take()
        {
            (self.window, self.threshold) = (window.max(self.window), threshold);
            self.recovery = None;
        }
    }

    fn on_silence(&mut self) {
        self.threshold = (self.window / 2).max(2 * self.datagram);
        self.window = 2 * self.datagram;
        self.acked = 0;
        self.undo = None;
    }

    fn on_datagram(&mut self, bytes: u64) {
        self.datagram = bytes;
        self.window = self.window.max(2 * bytes);
    }
}
