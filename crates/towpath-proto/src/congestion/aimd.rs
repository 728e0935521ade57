//! `NewReno` as in RFC 9002 §7: slow start, then one datagram per round trip; half on loss.

use core::time::Duration;

use towpath_wire::Instant;

use super::Congestion;

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
}

/// Largest window: what a receiver's packet map can still tell apart, with room to spare.
const WINDOW_MAX: u64 = 4 << 20;

impl Aimd {
    /// Starts at ten datagrams (RFC 6928).
    pub const fn new(datagram: u64) -> Self {
        Self { datagram, window: 10 * datagram, threshold: u64::MAX, acked: 0, recovery: None }
    }

    fn in_recovery(&self, sent: Instant) -> bool {
        self.recovery.is_some_and(|start| sent <= start)
    }
}

impl Congestion for Aimd {
    fn window(&self) -> u64 {
        self.window
    }

    fn on_acked(&mut self, _now: Instant, sent: Instant, bytes: u64, _: Duration, limited: bool) {
        if self.in_recovery(sent) || !limited {
            return;
        }
        if self.window < self.threshold {
            self.window += bytes;
        } else {
            self.acked += bytes;
            if self.acked >= self.window {
                self.acked -= self.window;
                self.window += self.datagram;
            }
        }
        self.window = self.window.min(WINDOW_MAX);
    }

    fn on_lost(&mut self, now: Instant, sent: Instant, _bytes: u64) {
        if self.in_recovery(sent) {
            return;
        }
        self.recovery = Some(now);
        self.window = (self.window / 2).max(2 * self.datagram);
        self.threshold = self.window;
        self.acked = 0;
    }

    fn on_silence(&mut self) {
        self.threshold = (self.window / 2).max(2 * self.datagram);
        self.window = 2 * self.datagram;
        self.acked = 0;
    }
}
