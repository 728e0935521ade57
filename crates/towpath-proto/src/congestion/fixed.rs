//! A constant window, for channels that a reservation already limits.

use super::{Congestion, Loss, Sample};

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
    fn on_acked(&mut self, _: &Sample) {}
    fn on_lost(&mut self, _: &Loss) {}
    fn on_silence(&mut self) {}
}
