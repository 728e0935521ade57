//! Fixed-point time: 2⁻⁴⁰ ns, and keys that order it.

use towpath_wire::{Instant, Rate};

use super::contract::{ConfigError, RATE_MAX, RATE_MIN, within};

/// Fraction bits of a [`Fine`] time and of a cost.
pub const FRACTION: u32 = 40;
/// A key drops this many bits of a [`Fine`]: it counts 2⁻¹⁶ ns.
const KEY_SHIFT: u32 = 24;
/// Longest lead of one key over another: 2⁴⁶ ns, 19.5 hours. Keys are compared modulo 2⁶⁴
/// (2⁴⁸ ns), so that a lead below 2⁴⁷ ns never wraps; a stamp further ahead is cut to this.
pub const LEAD_MAX: Fine = Fine(1 << (46 + FRACTION));

/// A real or virtual time in 2⁻⁴⁰ ns. 128 bits hold 9·10⁹ years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fine(pub u128);

impl Fine {
    /// From a whole instant.
    #[inline]
    pub const fn from_instant(at: Instant) -> Self {
        Self((at.as_nanos() as u128) << FRACTION)
    }

    /// The first whole nanosecond not before it.
    #[inline]
    pub const fn ceil(self) -> Instant {
        let ns = (self.0 + ((1 << FRACTION) - 1)) >> FRACTION;
        Instant::from_nanos(if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 })
    }

    /// Later by `bytes` at `cost`.
    #[inline]
    #[must_use]
    pub const fn after(self, bytes: u32, cost: u64) -> Self {
        Self(self.0 + bytes as u128 * cost as u128)
    }

    /// Earlier by `bytes` at `cost`, not below zero.
    #[inline]
    #[must_use]
    pub const fn before(self, bytes: u32, cost: u64) -> Self {
        Self(self.0.saturating_sub(bytes as u128 * cost as u128))
    }

    /// Its place in an order: 2⁻¹⁶ ns modulo 2⁶⁴, see [`precedes`].
    #[inline]
    pub const fn key(self) -> u64 {
        (self.0 >> KEY_SHIFT) as u64
    }
}

impl Fine {
    /// The first time not before `self` whose key is `key`, but for bits that keys drop.
    #[inline]
    #[must_use]
    pub const fn at_key(self, key: u64) -> Self {
        let ahead = key.wrapping_sub(self.key());
        Self(((self.0 >> KEY_SHIFT) + ahead as u128) << KEY_SHIFT)
    }
}

/// A ratio of two rates to 63 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ratio {
    mantissa: u64,
    shift: u32,
}

impl Ratio {
    /// `over / under`, rounded down; `under` is not zero, both are below 2⁶³.
    pub fn new(over: u64, under: u64) -> Self {
        debug_assert!(under > 0 && over < 1 << 63);
        let whole = (over / under).max(1).ilog2();
        let shift = 62 - whole;
        Self { mantissa: ((u128::from(over) << shift) / u128::from(under)) as u64, shift }
    }

    /// `time` times the ratio, rounded down.
    #[inline]
    pub const fn of(self, time: Fine) -> Fine {
        let (high, low) = (time.0 >> 64, time.0 as u64);
        let high = high * self.mantissa as u128;
        let low = low as u128 * self.mantissa as u128;
        Fine((high << (64 - self.shift)) + (low >> self.shift))
    }
}

/// Whether key `a` comes before `b`, both within 2⁶³ of each other.
#[inline]
pub const fn precedes(a: u64, b: u64) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

/// Time per byte at `rate` in 2⁻⁴⁰ ns, rounded up; the rate must lie in
/// [`RATE_MIN`]..=[`RATE_MAX`].
pub fn cost_per_byte(rate: Rate) -> Result<u64, ConfigError> {
    within("rate_bps", rate.as_bps(), RATE_MIN.as_bps(), RATE_MAX.as_bps())?;
    Ok(((8_000_000_000u128 << FRACTION).div_ceil(u128::from(rate.as_bps()))) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_at_1_gbps_costs_8_ns() {
        assert_eq!(cost_per_byte(Rate::from_mbps(1000)).unwrap(), 8 << FRACTION);
        let t = Fine::default().after(1500, 8 << FRACTION);
        assert_eq!(t.ceil(), Instant::from_nanos(12_000));
    }

    #[test]
    fn the_lowest_rate_fits_and_lower_is_refused() {
        assert_eq!(cost_per_byte(RATE_MIN).unwrap() >> FRACTION, 8_000_000);
        assert_eq!(
            cost_per_byte(Rate::from_bps(999)),
            Err(ConfigError::OutOfRange {
                name: "rate_bps",
                value: 999,
                min: 1_000,
                max: 10_000_000_000_000
            })
        );
    }

    #[test]
    fn rounding_never_makes_a_rate_faster() {
        for bps in [1_001, 3_333_333, 400_000_000_000, 9_999_999_999_999] {
            let cost = u128::from(cost_per_byte(Rate::from_bps(bps)).unwrap());
            let exact = 8_000_000_000u128 << FRACTION;
            assert!(cost * u128::from(bps) >= exact, "{bps}");
            assert!((cost - 1) * u128::from(bps) < exact, "{bps}");
        }
    }

    #[test]
    fn ratios_keep_62_bits() {
        let year = Fine(31_536_000_000_000_000 << FRACTION);
        let third = Ratio::new(1, 3).of(year);
        assert!(year.0 / 3 - third.0 < 1 << FRACTION, "under 1 ns in a year");
        assert_eq!(Ratio::new(7, 7).of(year), year);
        let much = Ratio::new(10_000_000_000_000, 1_000).of(Fine(3 << FRACTION));
        assert_eq!(much, Fine(30_000_000_000 << FRACTION));
    }

    #[test]
    fn a_time_is_found_again_by_its_key() {
        let from = Fine(((1 << 64) - 5) << KEY_SHIFT);
        let to = Fine(from.0 + (77 << KEY_SHIFT));
        assert!(to.key() < from.key(), "across the wrap");
        assert_eq!(from.at_key(to.key()), to);
    }

    #[test]
    fn keys_order_across_their_wrap() {
        let late = Fine((1 << 88) - (1 << 30));
        let later = late.after(1000, 8 << FRACTION);
        assert!(later.key() < late.key(), "the case is about the wrap");
        assert!(precedes(late.key(), later.key()));
        assert!(!precedes(later.key(), late.key()));
        assert!(!precedes(late.key(), late.key()));
    }
}
