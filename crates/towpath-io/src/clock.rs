//! Time as the protocol machines want it.

use std::time::{SystemTime, UNIX_EPOCH};

use towpath_wire::Instant;

/// A monotonic clock with its zero at creation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: std::time::Instant,
    unix_us_at_zero: u64,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { zero: std::time::Instant::now(), unix_us_at_zero: unix_us() }
    }

    /// Time since zero.
    pub fn now(&self) -> Instant {
        Instant::ZERO + self.zero.elapsed()
    }

    /// Wall-clock time at zero, in microseconds since the Unix epoch.
    pub const fn unix_us_at_zero(&self) -> u64 {
        self.unix_us_at_zero
    }

    /// Asks the machine for its wall clock again, which may have been set since.
    pub fn follow(&mut self) {
        let since = self.zero.elapsed().as_micros();
        self.unix_us_at_zero = unix_us().saturating_sub(u64::try_from(since).unwrap_or(u64::MAX));
    }
}

fn unix_us() -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(unix.as_micros()).unwrap_or(u64::MAX)
}
