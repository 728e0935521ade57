//! Processors, buses and memories.

use std::time::Duration;

use towpath_wire::Instant;

/// Something that serves one after the other, first come, first served.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    pub(super) free_at: Instant,
    pub(super) busy: Duration,
}

impl Server {
    /// When it is done with that.
    pub(super) fn serve(&mut self, now: Instant, time: Duration) -> Instant {
        self.busy += time;
        self.free_at = self.free_at.max(now) + time;
        self.free_at
    }
}
