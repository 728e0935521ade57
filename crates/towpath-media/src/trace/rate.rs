//! Rates as exact fractions: a planned rate is right to the last bit, at the edge of starvation.

use core::cmp::Ordering;
use core::fmt;

use towpath_wire::Rate;

use super::TraceError;

/// Bytes per clock tick as a fraction in lowest terms.
///
/// Invariant: `ticks > 0`; `bytes, ticks ≤ 2^62`; `gcd(bytes, ticks) = 1`. Comparison is exact. The
/// tick belongs to the [`Trace`](super::Trace) the rate was planned for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExactRate {
    bytes: u64,
    ticks: u64,
}

const PART_MAX: u128 = 1 << 62;

impl ExactRate {
    /// Nothing is sent.
    pub const ZERO: Self = Self { bytes: 0, ticks: 1 };

    /// `bytes / ticks`; `None` where a part exceeds 2^62 in lowest terms or `ticks` is zero.
    pub fn new(bytes: u128, ticks: u128) -> Option<Self> {
        if ticks == 0 {
            return None;
        }
        let common = gcd(bytes, ticks);
        let (bytes, ticks) = (bytes / common, ticks / common);
        (bytes <= PART_MAX && ticks <= PART_MAX)
            .then_some(Self { bytes: bytes as u64, ticks: ticks as u64 })
    }

    /// From bit/s for a clock of `ticks_per_second`.
    pub fn from_rate(rate: Rate, ticks_per_second: u64) -> Option<Self> {
        Self::new(u128::from(rate.as_bps()), 8 * u128::from(ticks_per_second))
    }

    /// Numerator: bytes sent in [`ticks`](Self::ticks).
    pub const fn bytes(self) -> u64 {
        self.bytes
    }

    /// Denominator.
    pub const fn ticks(self) -> u64 {
        self.ticks
    }

    /// Whether nothing is sent.
    pub const fn is_zero(self) -> bool {
        self.bytes == 0
    }

    /// `self × num / den`, exactly; `None` where that no longer fits.
    pub fn scaled(self, num: u64, den: u64) -> Option<Self> {
        Self::new(
            u128::from(self.bytes) * u128::from(num),
            u128::from(self.ticks) * u128::from(den),
        )
    }

    /// In bit/s as a float, for people and plots.
    pub fn bps(self, ticks_per_second: u64) -> f64 {
        self.bytes as f64 * 8.0 * ticks_per_second as f64 / self.ticks as f64
    }

    /// In whole bit/s, rounded up, so that the rounded rate still suffices. Saturates.
    pub fn ceil(self, ticks_per_second: u64) -> Rate {
        let bits = (8 * u128::from(self.bytes)).checked_mul(u128::from(ticks_per_second));
        let bps = bits.map_or(u128::MAX, |bits| bits.div_ceil(u128::from(self.ticks)));
        Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
    }

    /// `self / other` as a float; infinite where `other` is zero.
    pub fn ratio(self, other: Self) -> f64 {
        (self.bytes as f64 / self.ticks as f64) / (other.bytes as f64 / other.ticks as f64)
    }
}

impl Ord for ExactRate {
    fn cmp(&self, other: &Self) -> Ordering {
        (u128::from(self.bytes) * u128::from(other.ticks))
            .cmp(&(u128::from(other.bytes) * u128::from(self.ticks)))
    }
}

impl PartialOrd for ExactRate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for ExactRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} B/tick", self.bytes, self.ticks)
    }
}

/// Frames per second as a fraction: 25/1, 30000/1001.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate {
    num: u32,
    den: u32,
}

impl FrameRate {
    /// The frame rate of the first source's analysis (its §4.2: 33.33 ms).
    pub const THIRTY: Self = Self { num: 30, den: 1 };
    /// European television.
    pub const TWENTY_FIVE: Self = Self { num: 25, den: 1 };

    /// `num / den` frames per second, from 1/1000 to 100 000.
    pub fn new(num: u32, den: u32) -> Result<Self, TraceError> {
        let wrong = TraceError::FrameRate { num, den };
        if num == 0 || den == 0 {
            return Err(wrong);
        }
        let common = gcd(u128::from(num), u128::from(den)) as u32;
        let (n, d) = (u64::from(num), u64::from(den));
        if n * 1000 < d || n > d * 100_000 || num / common > 1_000_000 {
            return Err(wrong);
        }
        Ok(Self { num: num / common, den: den / common })
    }

    /// Frames in [`den`](Self::den) seconds.
    pub const fn num(self) -> u32 {
        self.num
    }

    /// Seconds.
    pub const fn den(self) -> u32 {
        self.den
    }

    /// Frames per second, for people.
    pub fn per_second(self) -> f64 {
        f64::from(self.num) / f64::from(self.den)
    }

    /// A tick rate that is a multiple of 27 MHz and divides the frame time, with the frame time in
    /// such ticks: 27 MHz itself for all the usual frame rates.
    pub(super) fn clock(self) -> (u64, u64) {
        let ticks = u128::from(super::PCR_HZ) * u128::from(self.den);
        let factor = u64::from(self.num) / gcd(ticks, u128::from(self.num)) as u64;
        let slot = ticks * u128::from(factor) / u128::from(self.num);
        (super::PCR_HZ * factor, slot as u64)
    }
}

/// Greatest common divisor; of zero and x, x.
pub(crate) fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        // Most operands shrink below 64 bits at once, where the division is ten times cheaper.
        if let (Ok(mut x), Ok(mut y)) = (u64::try_from(a), u64::try_from(b)) {
            while y != 0 {
                (x, y) = (y, x % y);
            }
            return u128::from(x);
        }
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_frame_rates_tick_at_27_mhz() {
        for (num, den, slot) in
            [(25, 1, 1_080_000), (24, 1, 1_125_000), (30, 1, 900_000), (30_000, 1001, 900_900)]
        {
            assert_eq!(FrameRate::new(num, den).expect("rate").clock(), (27_000_000, slot));
        }
        let (hz, slot) = FrameRate::new(7, 1).expect("rate").clock();
        assert_eq!((hz, slot), (189_000_000, 27_000_000));
    }

    #[test]
    fn rates_compare_exactly_and_round_up() {
        let third = ExactRate::new(1, 3).expect("rate");
        assert!(third < ExactRate::new(333_333_333_334, 1_000_000_000_000).expect("rate"));
        assert_eq!(ExactRate::new(2, 6), Some(third));
        assert_eq!(third.ceil(1).as_bps(), 3, "8/3 bit/s");
        assert_eq!(third.scaled(3, 1), ExactRate::new(1, 1));
        assert_eq!(ExactRate::new(1 << 63, 1), None);
        assert_eq!(ExactRate::new(1, 0), None);
    }

    #[test]
    fn absurd_frame_rates_are_refused() {
        for (num, den) in [(0, 1), (1, 0), (1, 1001), (100_001, 1), (u32::MAX, 1)] {
            assert!(FrameRate::new(num, den).is_err(), "{num}/{den}");
        }
    }

    #[test]
    fn rates_are_told_in_bits_of_seconds() {
        let of = |bytes, ticks| ExactRate::new(bytes, ticks).expect("a rate");
        // Three bytes in seven ticks of a clock of 70 Hz: 240 bit/s.
        let rate = of(3, 7);
        assert_eq!((rate.ceil(70).as_bps(), rate.bps(70)), (240, 240.0));
        assert_eq!((rate.ceil(71).as_bps(), rate.ceil(1).as_bps()), (244, 4), "rounded up");
        assert_eq!((rate.ratio(of(1, 14)), rate.ratio(rate)), (6.0, 1.0));
        assert!(of(1, 2).ratio(ExactRate::ZERO).is_infinite());
        assert_eq!(of(1 << 62, 1).ceil(1 << 40).as_bps(), u64::MAX);
        assert_eq!(rate.scaled(14, 9), Some(of(2, 3)));
        assert_eq!((rate.scaled(1, 0), ExactRate::new(1 << 63, 1)), (None, None));
        assert!(ExactRate::new(1 << 62, 1).is_some());
    }

    #[test]
    fn fractions_are_in_their_lowest_terms_and_say_what_they_are() {
        let rate = FrameRate::new(60_000, 2002).expect("rate");
        assert_eq!((rate.num(), rate.den()), (30_000, 1001));
        assert_eq!(alloc::format!("{:?}", ExactRate::new(6, 4).expect("rate")), "3/2 B/tick");
        let large = 1_u128 << 100;
        for (a, b, common) in [
            (0, 7, 7),
            (7, 0, 7),
            (12, 18, 6),
            (large * 3, large * 5, large),
            (large * 6, 9, 3),
            (35, large, 1),
        ] {
            assert_eq!((gcd(a, b), gcd(b, a)), (common, common), "{a} and {b}");
        }
    }
}
