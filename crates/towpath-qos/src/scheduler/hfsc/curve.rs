//! Service curves of two pieces, in integers.

use core::time::Duration;

use towpath_wire::units::nanos;
use towpath_wire::{ByteSize, Rate};

use crate::scheduler::contract::{ConfigError, DELAY_MAX, RATE_MAX, within};
use crate::scheduler::fixed::{FRACTION, cost_per_byte};

/// Fraction bits of bytes per nanosecond: 10 Tbit/s fit 61 bits, 1 kbit/s keeps 27.
const SLOPE: u32 = 50;

/// A slope both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slope {
    /// Bytes per nanosecond, 2⁻⁵⁰, rounded down.
    rise: u64,
    /// Nanoseconds per byte, 2⁻⁴⁰, rounded up; zero where `rise` is.
    run: u64,
}

impl Slope {
    const fn bytes_in(self, ns: u64) -> u64 {
        ((ns as u128 * self.rise as u128) >> SLOPE) as u64
    }

    const fn time_for(self, bytes: u64) -> u64 {
        let ns = (bytes as u128 * self.run as u128).div_ceil(1 << FRACTION);
        if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
    }
}

/// A service curve: slope m1 for `dx` ns (`dy` bytes), then slope m2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceCurve {
    m1: Slope,
    m2: Slope,
    dx: u64,
    dy: u64,
}

impl ServiceCurve {
    /// From the paper's (umax, dmax, rate): `burst` bytes within `delay`, then `rate`. Without
    /// burst it is `rate` throughout.
    pub fn new(rate: Rate, burst: ByteSize, delay: Duration) -> Result<Self, ConfigError> {
        let run = cost_per_byte(rate)?;
        let m2 = Slope { rise: ((u128::from(rate.as_bps()) << SLOPE) / 8_000_000_000) as u64, run };
        let bytes = burst.as_bytes();
        if bytes == 0 {
            return Ok(Self { m1: m2, m2, dx: 0, dy: 0 });
        }
        within("burst_bytes", bytes, 1, u64::from(u32::MAX))?;
        within("delay_ns", nanos(delay), 1, nanos(DELAY_MAX))?;
        let dx = nanos(delay);
        let alone = m2.time_for(bytes);
        if alone <= dx {
            return Ok(Self { m1: Slope::default(), m2, dx: dx - alone, dy: 0 });
        }
        let first_bps = u128::from(bytes) * 8_000_000_000 / u128::from(dx);
        let first_bps = u64::try_from(first_bps).unwrap_or(u64::MAX);
        within("burst_bytes / delay in bit/s", first_bps, 0, RATE_MAX.as_bps())?;
        let rise = ((u128::from(bytes) << SLOPE) / u128::from(dx)) as u64;
        let run = ((u128::from(dx) << FRACTION).div_ceil(u128::from(bytes))) as u64;
        Ok(Self { m1: Slope { rise, run }, m2, dx, dy: bytes })
    }

    /// Bytes promised within `ns` of the start of a backlog.
    pub fn bytes_in(&self, ns: u64) -> u64 {
        Curve::new(self, 0, 0).bytes_at(self, ns)
    }

    /// Whether the second piece is the steeper one.
    fn is_convex(&self) -> bool {
        self.m1.rise < self.m2.rise
    }
}

/// A service curve from a point on: `y` bytes at `x` ns, and its own first piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    x: u64,
    y: u64,
    dx: u64,
    dy: u64,
}

impl Curve {
    /// From `y` bytes at `x` ns on.
    pub fn new(of: &ServiceCurve, x: u64, y: u64) -> Self {
        Self { x, y, dx: of.dx, dy: of.dy }
    }

    /// Bytes at an instant.
    pub fn bytes_at(&self, of: &ServiceCurve, at: u64) -> u64 {
        let t = at.saturating_sub(self.x);
        if t <= self.dx {
            self.y + of.m1.bytes_in(t).min(self.dy)
        } else {
            self.y + self.dy + of.m2.bytes_in(t - self.dx)
        }
    }

    /// The first instant with that many bytes.
    pub fn time_of(&self, of: &ServiceCurve, bytes: u64) -> u64 {
        let over = bytes.saturating_sub(self.y);
        if bytes <= self.y {
            self.x
        } else if over <= self.dy {
            self.x.saturating_add(of.m1.time_for(over))
        } else {
            let rest = of.m2.time_for(over - self.dy);
            self.x.saturating_add(self.dx).saturating_add(rest)
        }
    }

    /// The lesser of itself and the service curve started at (`x`, `y`), from `x` on; for a
    /// convex curve whichever is less at `x` (the paper's update of deadline curves, eq. 5, in
    /// the two-piece form of its section on implementation).
    pub fn lower(&mut self, of: &ServiceCurve, x: u64, y: u64) {
        let before = self.bytes_at(of, x);
        if of.is_convex() || of.dx == 0 {
            if before >= y {
                (self.x, self.y) = (x, y);
            }
            return;
        }
        if before <= y {
            return;
        }
        if self.bytes_at(of, x.saturating_add(of.dx)) >= y + of.dy {
            *self = Self { x, y, dx: of.dx, dy: of.dy };
            return;
        }
        // They cross: the new curve's first piece until it meets the old one's second.
        let gap = u128::from(before - y) << SLOPE;
        let mut dx = (gap / u128::from(of.m1.rise - of.m2.rise)) as u64;
        let old_knee = self.x + self.dx;
        if old_knee > x {
            dx += old_knee - x;
        }
        *self = Self { x, y, dx, dy: of.m1.bytes_in(dx) };
    }

    /// The curve by which a leaf becomes eligible: its deadline curve if concave, else the
    /// second piece from its start.
    #[must_use]
    pub fn eligible(self, of: &ServiceCurve) -> Self {
        if of.is_convex() { Self { dx: 0, dy: 0, ..self } } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(mbps: u64, burst: u64, delay_ms: u64) -> ServiceCurve {
        let delay = Duration::from_millis(delay_ms);
        ServiceCurve::new(Rate::from_mbps(mbps), ByteSize::from_bytes(burst), delay).unwrap()
    }

    #[test]
    fn concave_and_convex_from_burst_delay_and_rate() {
        // 10 000 B in 5 ms are 16 Mbit/s, then 8 Mbit/s = 1 B/µs.
        let concave = curve(8, 10_000, 5);
        assert_eq!(concave.bytes_in(2_500_001), 5_000);
        assert_eq!(concave.bytes_in(5_000_001), 10_000);
        assert_eq!(concave.bytes_in(6_000_001), 11_000);
        // 1000 B alone take 1 ms: nothing for 4 ms, then 8 Mbit/s.
        let convex = curve(8, 1_000, 5);
        assert_eq!(convex.bytes_in(4_000_000), 0);
        assert_eq!(convex.bytes_in(5_000_001), 1_000);
        assert!(convex.is_convex() && !concave.is_convex());
    }

    #[test]
    fn time_is_the_inverse_of_bytes() {
        let concave = curve(8, 10_000, 5);
        let from = Curve { x: 1_000, y: 500, dx: concave.dx, dy: concave.dy };
        assert_eq!(from.time_of(&concave, 500), 1_000);
        assert_eq!(from.time_of(&concave, 5_500), 2_501_000);
        assert_eq!(from.time_of(&concave, 11_500), 6_001_000);
    }

    proptest! {
        /// At every later instant `lower` is the lesser of both, to rounding (concave curves,
        /// where the minimum of two shifts has two pieces if the later one starts lower).
        #[test]
        fn lower_is_the_minimum(
            starts in prop::collection::vec((0u64..20_000_000, 0u64..20_000), 1..5),
        ) {
            let of = curve(8, 10_000, 5);
            let mut curve = Curve::new(&of, 0, 0);
            let mut all = alloc::vec![curve];
            let (mut x, mut y) = (0, 0);
            for (later, served) in starts {
                x += later;
                // A leaf goes idle only once it was served what it asked.
                y += served;
                curve.lower(&of, x, y);
                all.push(Curve { x, y, dx: of.dx, dy: of.dy });
                for ahead in 0..50 {
                    let at = x + ahead * 300_000;
                    let least = all.iter().map(|c| c.bytes_at(&of, at)).min().unwrap();
                    let got = curve.bytes_at(&of, at);
                    let rounding = 2 * all.len() as u64;
                    prop_assert!(got.abs_diff(least) <= rounding, "{got} at {at}, {least}");
                }
            }
        }
    }
}
