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
    let unix = u64::try_from(unix.as_micros()).unwrap_or(u64::MAX);
    unix.saturating_add_signed(wrong_by_us())
}

/// Names a file in which a test says by how many seconds the machine's wall clock is wrong, now
/// and later: no namespace can set it. Looked at in builds with assertions alone.
#[cfg(debug_assertions)]
const WRONG_BY: &str = "TOWPATH_CLOCK_WRONG_BY";

#[cfg(debug_assertions)]
fn wrong_by_us() -> i64 {
    let Some(path) = std::env::var_os(WRONG_BY) else { return 0 };
    us(&std::fs::read_to_string(path).unwrap_or_default())
}

#[cfg(not(debug_assertions))]
const fn wrong_by_us() -> i64 {
    0
}

/// Seconds as text, in microseconds; what is no number is none.
#[cfg(any(test, debug_assertions))]
fn us(seconds: &str) -> i64 {
    seconds.trim().parse::<i64>().map_or(0, |s| s.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::{Clock, unix_us, us};

    #[test]
    fn a_clock_knows_the_time_of_day_at_its_beginning() {
        const MINUTE_US: u64 = 60_000_000;
        let before = unix_us();
        let mut clock = Clock::start();
        let zero = clock.unix_us_at_zero();
        assert!((before..before + MINUTE_US).contains(&zero), "{before} {zero}");
        assert!(before > 1_700_000_000_000_000, "in microseconds since 1970");
        let one = clock.now();
        assert!(clock.now() >= one);
        clock.unix_us_at_zero = 0;
        clock.follow();
        let followed = clock.unix_us_at_zero();
        assert!(followed.abs_diff(zero) < MINUTE_US, "{zero} {followed}");
        assert!(followed <= unix_us());
    }

    #[test]
    fn seconds_forth_and_back_and_none() {
        assert_eq!(["3600\n", "-3600", "", "soon"].map(us), [3_600_000_000, -3_600_000_000, 0, 0]);
    }
}
