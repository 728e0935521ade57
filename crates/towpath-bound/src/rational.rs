//! Exact rational numbers: 128-bit while they fit, arbitrary precision beyond.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::cmp::Ordering;
use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub};
use core::str::FromStr;
use core::time::Duration;

use num_bigint::{BigInt, Sign};
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};
use towpath_wire::{ByteSize, Rate};

/// [`Rational::coarse_up`] keeps so many binary places.
const GRID_BITS: u32 = 40;

/// The longest text [`Rational::from_str`] reads, in bytes.
pub const TEXT_BYTES_MAX: usize = 256;

/// Why a text is no rational number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RationalError {
    /// Neither `a`, `a/b` nor a decimal such as `0.25`.
    #[error("not a number: expected an integer, a fraction a/b or a decimal")]
    Syntax,
    /// The denominator is zero.
    #[error("the denominator is zero")]
    ZeroDenominator,
    /// More than [`TEXT_BYTES_MAX`] bytes.
    #[error("a number of {0} bytes; the limit is {TEXT_BYTES_MAX}")]
    TooLong(usize),
}

/// An exact rational number.
///
/// Invariants: the fraction is reduced, its denominator is positive, and a value whose reduced
/// numerator and denominator fit 128 bits is never held in the large form; equality is therefore
/// equality of the parts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Rational(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// Numerator (never `i128::MIN`), denominator.
    Small(i128, i128),
    Large(Box<BigRational>),
}

impl Rational {
    /// Zero.
    pub const ZERO: Self = Self(Repr::Small(0, 1));
    /// One.
    pub const ONE: Self = Self(Repr::Small(1, 1));

    /// `numerator / denominator`; `None` if the denominator is zero.
    pub fn new(numerator: i128, denominator: i128) -> Option<Self> {
        if denominator == 0 {
            return None;
        }
        if numerator == i128::MIN || denominator == i128::MIN {
            return Some(Self::large(BigRational::new(numerator.into(), denominator.into())));
        }
        let divisor = gcd(numerator, denominator);
        let sign = denominator.signum();
        Some(Self(Repr::Small(sign * (numerator / divisor), sign * (denominator / divisor))))
    }

    /// A whole number.
    pub const fn integer(value: i64) -> Self {
        Self(Repr::Small(value as i128, 1))
    }

    /// A whole number from an unsigned one.
    pub const fn whole(value: u64) -> Self {
        Self(Repr::Small(value as i128, 1))
    }

    /// A duration in seconds.
    pub fn seconds(duration: Duration) -> Self {
        let ns = i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        Self::new(ns, 1_000_000_000).unwrap_or(Self::ZERO)
    }

    /// A rate in bit/s.
    pub const fn bit_rate(rate: Rate) -> Self {
        Self::whole(rate.as_bps())
    }

    /// A size in bits.
    pub const fn bits(size: ByteSize) -> Self {
        Self(Repr::Small(size.as_bytes() as i128 * 8, 1))
    }

    /// Whether this is zero.
    pub fn is_zero(&self) -> bool {
        matches!(self.0, Repr::Small(0, _))
    }

    /// Whether this is below zero.
    pub fn is_negative(&self) -> bool {
        match &self.0 {
            Repr::Small(numerator, _) => *numerator < 0,
            Repr::Large(value) => value.is_negative(),
        }
    }

    /// Whether this is above zero.
    pub fn is_positive(&self) -> bool {
        !self.is_zero() && !self.is_negative()
    }

    /// `self / other`; `None` if `other` is zero.
    pub fn checked_div(&self, other: &Self) -> Option<Self> {
        if other.is_zero() {
            return None;
        }
        let inverse = match &other.0 {
            Repr::Small(numerator, denominator) => {
                let sign = numerator.signum();
                Self(Repr::Small(sign * denominator, sign * numerator))
            }
            Repr::Large(value) => Self::large(value.recip()),
        };
        Some(self * &inverse)
    }

    /// The smallest whole number not below this.
    #[must_use]
    pub fn ceil(&self) -> Self {
        match &self.0 {
            Repr::Small(numerator, denominator) => {
                let floor = numerator.div_euclid(*denominator);
                let up = i128::from(numerator.rem_euclid(*denominator) != 0);
                Self(Repr::Small(floor + up, 1))
            }
            Repr::Large(value) => Self::large(value.ceil()),
        }
    }

    /// The largest whole number not above this.
    #[must_use]
    pub fn floor(&self) -> Self {
        -&(-self).ceil()
    }

    /// This if its denominator is below 2⁶⁴, else rounded up to a multiple of 2⁻⁴⁰, or of 2⁻⁴⁰ of
    /// itself where it is below one: keeps long sums of unlike fractions short, and overstates by
    /// less than a part in 10¹². Only for quantities that may be overstated.
    #[must_use]
    pub fn coarse_up(self) -> Self {
        let Repr::Small(numerator, denominator) = self.0 else { return self.coarse_large() };
        if denominator >> 64 == 0 {
            return self;
        }
        let (whole, rest) = (numerator.div_euclid(denominator), numerator.rem_euclid(denominator));
        if whole == 0 || whole.unsigned_abs().leading_zeros() < 44 {
            return self.coarse_large();
        }
        // 64 bits of the divisor, rounded down, and as many of the rest, rounded up.
        let shift = 64 - denominator.leading_zeros();
        let part = (((rest >> shift) + 1) << GRID_BITS).cast_unsigned();
        let part = part.div_ceil((denominator >> shift).cast_unsigned()).cast_signed();
        let grid = (whole << GRID_BITS) + part.min(1 << GRID_BITS);
        let twos = grid.trailing_zeros().min(GRID_BITS);
        Self(Repr::Small(grid >> twos, 1 << (GRID_BITS - twos)))
    }

    fn coarse_large(&self) -> Self {
        let value = self.to_large();
        let (above, below) = (value.numer().bits(), value.denom().bits());
        let bits = u64::from(GRID_BITS) + below.saturating_sub(above);
        let grid = BigInt::from(1) << bits;
        Self::large((value * BigRational::from(grid.clone())).ceil() / grid)
    }

    /// This as a whole number, rounded up; `None` below zero or beyond `u64`.
    pub fn ceil_u64(&self) -> Option<u64> {
        match self.ceil().0 {
            Repr::Small(numerator, _) => u64::try_from(numerator).ok(),
            Repr::Large(_) => None,
        }
    }

    /// A number of seconds as a duration, rounded up to a nanosecond: a bound is never understated.
    /// `None` below zero or beyond 584 years.
    pub fn seconds_up(&self) -> Option<Duration> {
        (self * &Self::integer(1_000_000_000)).ceil_u64().map(Duration::from_nanos)
    }

    /// The nearest double, for people and for the search of a basis; never for a bound.
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            Repr::Small(numerator, denominator) => *numerator as f64 / *denominator as f64,
            Repr::Large(value) => large_to_f64(value),
        }
    }

    fn large(value: BigRational) -> Self {
        match (value.numer().to_i128(), value.denom().to_i128()) {
            (Some(numerator), Some(denominator)) if numerator != i128::MIN => {
                Self(Repr::Small(numerator, denominator))
            }
            _ => Self(Repr::Large(Box::new(value))),
        }
    }

    fn to_large(&self) -> BigRational {
        match &self.0 {
            Repr::Small(numerator, denominator) => {
                BigRational::new_raw((*numerator).into(), (*denominator).into())
            }
            Repr::Large(value) => (**value).clone(),
        }
    }
}

/// Greatest common divisor of numbers above `i128::MIN`; 1 if both are zero.
fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    loop {
        if let (Ok(small_a), Ok(small_b)) = (u64::try_from(a), u64::try_from(b)) {
            return i128::from(gcd_small(small_a, small_b));
        }
        if b == 0 {
            return a.cast_signed();
        }
        (a, b) = (b, a % b);
    }
}

fn gcd_small(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

fn add_small(a: i128, b: i128, c: i128, d: i128) -> Option<Rational> {
    if b == 1 && d == 1 {
        let sum = a.checked_add(c)?;
        return (sum != i128::MIN).then_some(Rational(Repr::Small(sum, 1)));
    }
    let divisor = gcd(b, d);
    let left = a.checked_mul(d / divisor)?;
    let right = c.checked_mul(b / divisor)?;
    let numerator = left.checked_add(right)?;
    let denominator = (b / divisor).checked_mul(d)?;
    Rational::new(numerator, denominator)
}

fn mul_small(a: i128, b: i128, c: i128, d: i128) -> Option<Rational> {
    let first = gcd(a, d);
    let second = gcd(c, b);
    let numerator = (a / first).checked_mul(c / second)?;
    let denominator = (b / second).checked_mul(d / first)?;
    if numerator == i128::MIN {
        return None;
    }
    if numerator == 0 {
        return Some(Rational::ZERO);
    }
    Some(Rational(Repr::Small(numerator, denominator)))
}

/// Scales so that 64 significant bits of the quotient remain.
fn large_to_f64(value: &BigRational) -> f64 {
    let numerator = value.numer().magnitude();
    let denominator = value.denom().magnitude();
    let shift = numerator.bits().cast_signed() - denominator.bits().cast_signed() - 64;
    let quotient = if shift >= 0 {
        numerator / (denominator << (shift as u64))
    } else {
        (numerator << ((-shift) as u64)) / denominator
    };
    let mut result = quotient.to_u128().unwrap_or(u128::MAX) as f64;
    let mut left = shift.clamp(-2200, 2200);
    while left != 0 {
        let step = left.clamp(-1000, 1000);
        result *= f64::from_bits(((1023 + step) as u64) << 52);
        left -= step;
    }
    if value.numer().sign() == Sign::Minus { -result } else { result }
}

impl Add for &Rational {
    type Output = Rational;
    fn add(self, other: Self) -> Rational {
        if let (Repr::Small(a, b), Repr::Small(c, d)) = (&self.0, &other.0)
            && let Some(sum) = add_small(*a, *b, *c, *d)
        {
            return sum;
        }
        Rational::large(self.to_large() + other.to_large())
    }
}

impl Neg for &Rational {
    type Output = Rational;
    fn neg(self) -> Rational {
        match &self.0 {
            Repr::Small(numerator, denominator) => Rational(Repr::Small(-numerator, *denominator)),
            Repr::Large(value) => Rational::large(-(**value).clone()),
        }
    }
}

impl Sub for &Rational {
    type Output = Rational;
    fn sub(self, other: Self) -> Rational {
        self + &-other
    }
}

impl Mul for &Rational {
    type Output = Rational;
    fn mul(self, other: Self) -> Rational {
        if let (Repr::Small(a, b), Repr::Small(c, d)) = (&self.0, &other.0)
            && let Some(product) = mul_small(*a, *b, *c, *d)
        {
            return product;
        }
        Rational::large(self.to_large() * other.to_large())
    }
}

/// # Panics
/// If the divisor is zero, as integers do; [`Rational::checked_div`] does not.
impl Div for &Rational {
    type Output = Rational;
    fn div(self, other: Self) -> Rational {
        self.checked_div(other).expect("division of a rational number by zero")
    }
}

macro_rules! by_value {
    ($($operator:ident $method:ident),*) => {$(
        impl $operator for Rational {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                $operator::$method(&self, &other)
            }
        }
        impl $operator<&Rational> for Rational {
            type Output = Self;
            fn $method(self, other: &Self) -> Self {
                $operator::$method(&self, other)
            }
        }
    )*};
}
by_value!(Add add, Sub sub, Mul mul, Div div);

impl AddAssign<&Rational> for Rational {
    fn add_assign(&mut self, other: &Self) {
        *self = &*self + other;
    }
}

impl core::iter::Sum for Rational {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.fold(Self::ZERO, |sum, value| &sum + &value)
    }
}

impl<'a> core::iter::Sum<&'a Rational> for Rational {
    fn sum<I: Iterator<Item = &'a Self>>(values: I) -> Self {
        values.fold(Self::ZERO, |sum, value| &sum + value)
    }
}

impl PartialOrd for Rational {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rational {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Repr::Small(a, b), Repr::Small(c, d)) = (&self.0, &other.0) {
            if b == d {
                return a.cmp(c);
            }
            if let (Some(left), Some(right)) = (a.checked_mul(*d), c.checked_mul(*b)) {
                return left.cmp(&right);
            }
            // Each double is within 2⁻⁵¹ of its fraction: where they differ by more, so do those.
            let (left, right) = (self.to_f64(), other.to_f64());
            if (left - right).abs() > 1e-14 * left.abs().max(right.abs()) {
                return left.total_cmp(&right);
            }
        }
        self.to_large().cmp(&other.to_large())
    }
}

impl Default for Rational {
    fn default() -> Self {
        Self::ZERO
    }
}

impl From<u64> for Rational {
    fn from(value: u64) -> Self {
        Self::whole(value)
    }
}

/// An integer, or a fraction `a/b`: what [`FromStr`] reads back exactly.
impl fmt::Display for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = match &self.0 {
            Repr::Small(numerator, 1) => numerator.to_string(),
            Repr::Small(numerator, denominator) => alloc::format!("{numerator}/{denominator}"),
            Repr::Large(value) => value.to_string(),
        };
        f.pad(&text)
    }
}

impl fmt::Debug for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Rational {
    type Err = RationalError;

    fn from_str(text: &str) -> Result<Self, RationalError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(RationalError::TooLong(text.len()));
        }
        if let Some((numerator, denominator)) = text.split_once('/') {
            let denominator = big_integer(denominator)?;
            if denominator.is_zero() {
                return Err(RationalError::ZeroDenominator);
            }
            return Ok(Self::large(BigRational::new(big_integer(numerator)?, denominator)));
        }
        let Some((whole, fraction)) = text.split_once('.') else {
            return Ok(Self::large(big_integer(text)?.into()));
        };
        let digits = alloc::format!("{whole}{fraction}");
        if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(RationalError::Syntax);
        }
        let scale = BigInt::from(10).pow(fraction.len() as u32);
        Ok(Self::large(BigRational::new(big_integer(&digits)?, scale)))
    }
}

fn big_integer(text: &str) -> Result<BigInt, RationalError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(RationalError::Syntax);
    }
    text.parse().map_err(|_| RationalError::Syntax)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn big(value: &Rational) -> BigRational {
        value.to_large()
    }

    #[test]
    fn text_is_read_exactly_and_printed_back() {
        for (text, printed) in
            [("6/4", "3/2"), ("-6/4", "-3/2"), ("0.25", "1/4"), ("12144", "12144"), ("0/7", "0")]
        {
            assert_eq!(text.parse::<Rational>().unwrap().to_string(), printed);
        }
        assert_eq!("1/0".parse::<Rational>(), Err(RationalError::ZeroDenominator));
        for bad in ["", "x", "1/", "1.2.3", "1e5", "--1", "+1", "1/-"] {
            assert_eq!(bad.parse::<Rational>(), Err(RationalError::Syntax), "{bad:?}");
        }
    }

    #[test]
    fn rounding_to_nanoseconds_never_understates() {
        let third = Rational::new(1, 3).unwrap();
        assert_eq!(third.seconds_up(), Some(Duration::from_nanos(333_333_334)));
        assert_eq!(Rational::integer(-1).seconds_up(), None);
        assert_eq!(Rational::whole(u64::MAX).seconds_up(), None);
        assert_eq!(Rational::new(-7, 2).unwrap().floor(), Rational::integer(-4));
    }

    #[test]
    fn units_convert_to_bits_and_seconds() {
        assert_eq!(Rational::bits(ByteSize::from_bytes(1500)), Rational::integer(12_000));
        assert_eq!(Rational::bit_rate(Rate::from_mbps(10)), Rational::integer(10_000_000));
        let half = Rational::seconds(Duration::from_millis(500));
        assert_eq!(half, Rational::new(1, 2).unwrap());
        assert!(Rational::bits(ByteSize::from_bytes(u64::MAX)).is_positive());
    }

    #[test]
    fn coarse_numbers_are_short_and_not_smaller() {
        let fine = Rational::new(1, i128::MAX).unwrap();
        let coarse = (&Rational::ONE + &fine).coarse_up();
        assert_eq!(coarse, Rational::new((1 << 40) + 1, 1 << 40).unwrap());
        let short = Rational::new(1, 3).unwrap();
        assert_eq!(short.clone().coarse_up(), short);
    }

    #[test]
    fn huge_values_become_doubles_of_the_right_size() {
        let huge = Rational::new(i128::MAX, 1).unwrap();
        let cube = &(&huge * &huge) * &huge;
        assert!((cube.to_f64() / 4.925_250_774_549_309_4e114 - 1.0).abs() < 1e-12);
        let tiny = &Rational::ONE / &cube;
        assert!((tiny.to_f64() * 4.925_250_774_549_309_4e114 - 1.0).abs() < 1e-12);
        assert_eq!(&cube * &tiny, Rational::ONE, "back from the large form");
    }

    fn part() -> impl Strategy<Value = i128> {
        prop_oneof![any::<i128>(), any::<i64>().prop_map(i128::from), -5_i128..5]
    }

    proptest! {
        #[test]
        fn arithmetic_equals_arbitrary_precision(
            a in part(), b in part(), c in part(), d in part(),
        ) {
            prop_assume!(b != 0 && d != 0);
            let (x, y) = (Rational::new(a, b).unwrap(), Rational::new(c, d).unwrap());
            prop_assert_eq!(big(&(&x + &y)), big(&x) + big(&y));
            prop_assert_eq!(big(&(&x - &y)), big(&x) - big(&y));
            prop_assert_eq!(big(&(&x * &y)), big(&x) * big(&y));
            prop_assert_eq!(x.cmp(&y), big(&x).cmp(&big(&y)));
            if let Some(quotient) = x.checked_div(&y) {
                prop_assert_eq!(big(&quotient), big(&x) / big(&y));
            }
            prop_assert_eq!(big(&x.ceil()), big(&x).ceil());
            prop_assert_eq!(x.to_string().parse::<Rational>().unwrap(), x);
        }
    }
}
