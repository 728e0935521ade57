//! What a specification may at most say, and what is wrong with one.

use core::time::Duration;

use towpath_wire::units::nanos;
use towpath_wire::{ByteSize, Rate};

/// Fastest rate of a specification or a link: 2⁵⁰ bit/s, more than 1 Pbit/s.
pub const RATE_BPS_MAX: u64 = 1 << 50;
/// Largest packet, burst or cumulative amount: 2⁵⁰ bits, 128 TiB.
pub const SIZE_BITS_MAX: u64 = 1 << 50;
/// Longest interval of a specification: 2⁴⁴ ns, almost five hours.
pub const INTERVAL_NS_MAX: u64 = 1 << 44;
/// Nanobits (bit/s × ns) of a bit.
pub const NANO: u128 = 1_000_000_000;

/// Why a specification is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A value that must not be zero.
    #[error("{what} is zero")]
    Zero {
        /// The parameter.
        what: &'static str,
    },
    /// A value above its limit.
    #[error("{what} is {value}, must be at most {limit}")]
    TooLarge {
        /// The parameter, with its unit.
        what: &'static str,
        /// Its value.
        value: u128,
        /// The limit.
        limit: u64,
    },
    /// Two parameters that contradict each other.
    #[error("{what} is {value}, must be at least {than} = {limit}")]
    Contradiction {
        /// The parameter that is too small, with its unit.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The parameter it is measured by.
        than: &'static str,
        /// That one's value.
        limit: u64,
    },
    /// A list of another length than it may have.
    #[error("{what} has {count} entries, must have {least} to {most}")]
    Count {
        /// The list.
        what: &'static str,
        /// Its length.
        count: usize,
        /// The least length.
        least: usize,
        /// The largest.
        most: usize,
    },
    /// An entry of a list that must rise above, or not fall below, the one before it.
    #[error("{what} of entry {index} is {value}, out of order after {before}")]
    Order {
        /// What the entries hold, with its unit.
        what: &'static str,
        /// Which entry, from 0.
        index: usize,
        /// Its value.
        value: u64,
        /// The value before it.
        before: u64,
    },
    /// A bounding curve that bends upwards, which no set of token buckets can police.
    #[error("entry {index} bends the curve upwards: take its concave hull")]
    NotConcave {
        /// Which entry, from 0.
        index: usize,
    },
}

/// A rate in bit/s: above zero, at most [`RATE_BPS_MAX`].
pub(super) fn rate(what: &'static str, rate: Rate) -> Result<u64, SpecError> {
    within(what, u128::from(rate.as_bps()), RATE_BPS_MAX)
}

/// A size in bits: above zero, at most [`SIZE_BITS_MAX`]. What is wrong is told in bytes, as it
/// was given.
pub(super) fn size(what: &'static str, size: ByteSize) -> Result<u64, SpecError> {
    Ok(within(what, u128::from(size.as_bytes()), SIZE_BITS_MAX / 8)? * 8)
}

/// An interval in ns: above zero, at most [`INTERVAL_NS_MAX`].
pub(super) fn interval(what: &'static str, interval: Duration) -> Result<u64, SpecError> {
    within(what, u128::from(nanos(interval)), INTERVAL_NS_MAX)
}

fn within(what: &'static str, value: u128, limit: u64) -> Result<u64, SpecError> {
    match u64::try_from(value) {
        Ok(0) => Err(SpecError::Zero { what }),
        Ok(value) if value <= limit => Ok(value),
        _ => Err(SpecError::TooLarge { what, value, limit }),
    }
}

/// A number of anything: above zero, at most `limit`.
pub(super) fn at_most(what: &'static str, value: u64, limit: u64) -> Result<u64, SpecError> {
    within(what, value.into(), limit)
}

/// `value` must be at least `limit`.
pub(super) fn at_least(
    (what, value): (&'static str, u64),
    (than, limit): (&'static str, u64),
) -> Result<(), SpecError> {
    if value < limit {
        return Err(SpecError::Contradiction { what, value, than, limit });
    }
    Ok(())
}

/// The rate of `bits` every `ns`: at most [`RATE_BPS_MAX`].
pub(super) fn ratio(what: &'static str, bits: u64, ns: u64) -> Result<u64, SpecError> {
    within(what, (u128::from(bits) * NANO).div_ceil(u128::from(ns.max(1))), RATE_BPS_MAX)
}

/// The rate of `bits` every `ns`, rounded up.
pub(super) fn rate_of(bits: u64, ns: u64) -> u64 {
    rate_of_u128(u128::from(bits), ns)
}

/// As [`rate_of`]; saturates.
pub(super) fn rate_of_u128(bits: u128, ns: u64) -> u64 {
    let bps = bits.saturating_mul(NANO).div_ceil(u128::from(ns.max(1)));
    u64::try_from(bps).unwrap_or(u64::MAX)
}
