//! Why there is no such schedule, and what would do.

use thiserror::Error;
use towpath_wire::Rate;

/// A wish that no schedule of the scheme fulfils. Where a nearest feasible value exists it is told
/// (rates in whole bit/s, rounded up; delays in ticks of the trace's clock).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// A start-up delay of zero: no rate delivers the first frame in no time.
    #[error("start-up delay of 0: the first frame cannot arrive in no time")]
    NoDelay,
    /// Beyond exact arithmetic.
    #[error("start-up delay of {ticks} ticks is more than the limit of {limit}")]
    DelayTooLong {
        /// The wish in ticks.
        ticks: u64,
        /// The limit in ticks.
        limit: u64,
    },
    /// A rate that is zero, or too finely divided for exact arithmetic.
    #[error("rate {rate} is not between 1 bit/s and 2^62 byte per tick, or no simple fraction")]
    RateRange {
        /// The wish.
        rate: Rate,
    },
    /// The buffer is too small for this scheme, whatever else.
    #[error("buffer of {buffer} bytes is too small: at least {least} bytes are needed")]
    BufferTooSmall {
        /// The wish in bytes.
        buffer: u64,
        /// Least buffer in bytes, all else as wished.
        least: u64,
    },
    /// The rate starves the receiver.
    #[error("rate {rate} is too low: at least {least} is needed")]
    RateTooLow {
        /// The wish.
        rate: Rate,
        /// Least rate, all else as wished.
        least: Rate,
    },
    /// The delay is too short at this rate.
    #[error("start-up delay of {delay} ticks is too short: at least {least} ticks are needed")]
    DelayTooShort {
        /// The wish in ticks.
        delay: u64,
        /// Least delay in ticks, all else as wished.
        least: u64,
    },
    /// No pair of the grid of two rates fulfils the wish.
    #[error("no pair of high and low rate on the grid fulfils this")]
    NoPair,
    /// The low rate is not `num/den` of the high one with `0 ≤ num ≤ den ≤ 1000`, `den ≥ 1`.
    #[error("low rate of {num}/{den} of the high one is not between 0 and 1 in parts of 1000")]
    Share {
        /// Numerator.
        num: u32,
        /// Denominator.
        den: u32,
    },
    /// An interval of no groups.
    #[error("interval of {interval} frames is not between 1 and {limit}")]
    Interval {
        /// The wish in groups.
        interval: usize,
        /// Groups of the trace.
        limit: usize,
    },
    /// It was told to end ([`Stop`](crate::Stop)).
    #[error("interrupted")]
    Interrupted,
    /// The instants of a schedule have no common measure within 128 bits.
    #[error("segment {segment}: rates too finely divided to be checked exactly")]
    TooFine {
        /// Which segment, from 1.
        segment: usize,
    },
}
