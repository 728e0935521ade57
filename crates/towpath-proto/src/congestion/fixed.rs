//! A constant window, for channels that a reservation already limits.

use core::time::Duration;

use towpath_wire::Instant;

use super::Congestion;

/// Invariant: the window never changes.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    window: u64,
}

impl Fixed {
    /// A window of `bytes`.
    pub const fn new(bytes: u64) -> Self {
        Self { window: bytes }
    }
}

impl Congestion for Fixed {
    fn window(&self) -> u64 {
        self.window
    }
    fn on_acked(&mut self, _: Instant, _: Instant, _: u64, _: Duration, _: bool) {}
    fn on_lost(&mut self, _: Instant, _: Instant, _: u64) {}
    fn on_silence(&mut self) {}
}
