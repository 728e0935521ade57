//! Time as the protocol machines want it.

use std::time::{SystemTime, UNIX_EPOCH};

use towpath_wire::Instant;

/// A monotonic clock with its zero at creation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: std::time::Instant,
    unix_s_at_zero: u64,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { zero: std::time::Instant::now(), unix_s_at_zero: unix.as_secs() }
    }

    /// Time since zero.
    pub fn now(&self) -> Instant {
        Instant::ZERO + self.zero.elapsed()
    }

    /// Wall-clock time at zero, in seconds since the Unix epoch.
    pub const fn unix_s_at_zero(&self) -> u64 {
        self.unix_s_at_zero
    }
}
