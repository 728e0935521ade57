//! Time, rate and size as types, so that no name needs to carry a unit.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time, in nanoseconds since the owner's own zero.
///
/// Protocol code never asks for the time: it is handed one. Two hosts' instants are not
/// comparable. Arithmetic saturates, so that a peer's absurd delay cannot wrap it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Instant(u64);

impl Instant {
    /// The owner's zero.
    pub const ZERO: Self = Self(0);
    /// Later than everything: a timer that never fires.
    pub const NEVER: Self = Self(u64::MAX);

    /// From nanoseconds since zero.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Nanoseconds of a duration, saturating at `u64::MAX` (584 years).
pub const fn nanos(d: Duration) -> u64 {
    let ns = d.as_nanos();
    if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(nanos(d)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(d)))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A data rate in bits per second (decimal: 1 Mbit/s = 10⁶ bit/s).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Rate(u64);

impl Rate {
    /// From bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// From megabits per second (10⁶ bit/s).
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps.saturating_mul(1_000_000))
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Time that `size` takes at this rate, rounded up to a nanosecond; `None` at rate zero.
    pub const fn time_for(self, size: ByteSize) -> Option<Duration> {
        if self.0 == 0 {
            return None;
        }
        let ns = (size.0 as u128 * 8 * 1_000_000_000).div_ceil(self.0 as u128);
        Some(Duration::from_nanos(if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }))
    }

    /// Whole bytes that pass in `d`, rounded down.
    pub const fn bytes_in(self, d: Duration) -> ByteSize {
        let bytes = self.0 as u128 * nanos(d) as u128 / 8_000_000_000;
        ByteSize(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bps = self.0 as f64;
        match self.0 {
            0..=9_999 => write!(f, "{} bit/s", self.0),
            10_000..=9_999_999 => write!(f, "{:.1} kbit/s", bps / 1e3),
            10_000_000..=9_999_999_999 => write!(f, "{:.1} Mbit/s", bps / 1e6),
            _ => write!(f, "{:.2} Gbit/s", bps / 1e9),
        }
    }
}

/// A number of bytes (binary multiples: 1 KiB = 1024 B).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ByteSize(u64);

impl ByteSize {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// From bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// From KiB (1024 B).
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib.saturating_mul(1024))
    }

    /// From MiB (1024 KiB).
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib.saturating_mul(1024 * 1024))
    }

    /// Bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl Add for ByteSize {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for ByteSize {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0 as f64;
        match self.0 {
            0..=9_999 => write!(f, "{} B", self.0),
            10_000..=10_485_759 => write!(f, "{:.1} KiB", b / 1024.0),
            10_485_760..=10_737_418_239 => write!(f, "{:.1} MiB", b / 1_048_576.0),
            _ => write!(f, "{:.2} GiB", b / 1_073_741_824.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn instants_saturate_instead_of_wrapping() {
        assert_eq!(Instant::NEVER + Duration::from_secs(1), Instant::NEVER);
        assert_eq!(Instant::ZERO - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::ZERO.since(Instant::NEVER), Duration::ZERO);
    }

    #[test]
    fn a_1500_byte_packet_takes_120_us_at_100_mbps() {
        let t = Rate::from_mbps(100).time_for(ByteSize::from_bytes(1500));
        assert_eq!(t, Some(Duration::from_micros(120)));
        assert_eq!(Rate::from_bps(0).time_for(ByteSize::from_bytes(1)), None);
    }

    #[test]
    fn time_rounds_up_and_bytes_round_down() {
        let r = Rate::from_bps(3);
        assert_eq!(r.time_for(ByteSize::from_bytes(1)), Some(Duration::from_nanos(2_666_666_667)));
        assert_eq!(r.bytes_in(Duration::from_nanos(2_666_666_666)), ByteSize::ZERO);
    }

    #[test]
    fn time_that_passes_is_added() {
        let mut now = Instant::from_nanos(5);
        now += Duration::from_nanos(7);
        assert_eq!(now, Instant::from_nanos(12));
    }

    #[test]
    fn units_are_spelled() {
        let spelled = |bps| Rate::from_bps(bps).to_string();
        assert_eq!([0, 9999, 10_000].map(spelled), ["0 bit/s", "9999 bit/s", "10.0 kbit/s"]);
        assert_eq!([9_999_949, 10_000_000].map(spelled), ["9999.9 kbit/s", "10.0 Mbit/s"]);
        assert_eq!(spelled(10_000_000_000), "10.00 Gbit/s");
        assert_eq!(Rate::from_mbps(100).to_string(), "100.0 Mbit/s");
        assert_eq!(ByteSize::from_mib(32).to_string(), "32.0 MiB");
        assert_eq!(Instant::from_nanos(1_500_000_000).to_string(), "1.500000000 s");
    }
}
