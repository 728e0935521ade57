//! The first source's three questions, a point at a time, for curves: what rate and buffer at a
//! delay (its §4.6), what rate within a buffer (§4.7.1), what delay at a rate (§4.7.2).

use crate::schedule::{ScheduleError, cbr, pcbr, pdcbr, window};
use crate::stop::Stop;
use crate::trace::{ExactRate, FrameRate, Trace, TraceError};

/// Whose conventions figures follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conventions {
    /// Ours: delay from the first bit to the first frame, buffers of bytes that exist, exact rates.
    #[default]
    Exact,
    /// Those that the first source's figures imply: PCBR's rate on the grid of 1 % of `R_CBR` and
    /// its buffer `R · P · F`; CBR's buffer by eq. 4.2 as printed, beyond the end of the video.
    /// Its `P` is our delay (`P · F` from the first bit to the first frame) and its frame time
    /// 1/30 s ([`thesis_trace`]); its MB is 10⁶ bytes.
    Thesis,
}

/// The trace as the first source analyses every video: 30 frames per second (its §4.6: a clock
/// reference every 33.33 ms), although its tables of lengths imply 24 for the MPEG-1 traces.
pub fn thesis_trace(sizes: impl IntoIterator<Item = u64>) -> Result<Trace, TraceError> {
    Trace::uniform(sizes, FrameRate::THIRTY)
}

/// Rate and buffer of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Highest rate.
    pub rate: ExactRate,
    /// Buffer in bytes.
    pub buffer: u64,
}

/// What each scheme needs at a start-up delay (Figures 4.3, 4.9, 4.10, 4.12 to 4.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayRow {
    /// Start-up delay in ticks.
    pub delay: u64,
    /// Constant rate.
    pub cbr: Need,
    /// One rate, held while early.
    pub pcbr: Need,
    /// The pair of the grid with the least buffer, where one starves nobody.
    pub pdcbr: Option<pdcbr::Choice>,
    /// No scheme needs less rate at this delay; and at this rate none less buffer.
    pub optimum: Need,
}

/// One point of the first question.
pub fn against_delay(
    trace: &Trace,
    delay: u64,
    conventions: Conventions,
    stop: Stop<'_>,
) -> Result<DelayRow, ScheduleError> {
    let cbr_rate = cbr::least_rate(trace, delay)?;
    let (cbr_buffer, pcbr_rate, pcbr_buffer) = match conventions {
        Conventions::Exact => {
            let rate = pcbr::least_rate(trace, delay)?;
            (cbr::buffer(trace, cbr_rate, delay), rate, pcbr::buffer(trace, rate, delay))
        }
        Conventions::Thesis => {
            let rate = pcbr::grid_rate(trace, delay)?;
            let product = u128::from(rate.bytes()) * u128::from(delay);
            let buffer = product.div_ceil(u128::from(rate.ticks()));
            let buffer = u64::try_from(buffer).unwrap_or(u64::MAX);
            (cbr::buffer_uncapped(trace, cbr_rate, delay), rate, buffer)
        }
    };
    let pdcbr = match pdcbr::least_buffer(trace, delay, stop) {
        Ok(choice) => Some(choice),
        Err(ScheduleError::NoPair) => None,
        Err(error) => return Err(error),
    };
    let least = window::least_buffer(trace, cbr_rate, delay)?;
    Ok(DelayRow {
        delay,
        cbr: Need { rate: cbr_rate, buffer: cbr_buffer },
        pcbr: Need { rate: pcbr_rate, buffer: pcbr_buffer },
        pdcbr,
        optimum: Need { rate: cbr_rate, buffer: least },
    })
}

/// What rate each scheme needs within a buffer, at a delay (Figure 4.15, whose axis is the data
/// pre-fetched in that delay).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRow {
    /// Start-up delay in ticks.
    pub delay: u64,
    /// PCBR's rate, the first of the mean rate · 1.00, 1.01, …, and the bytes it pre-fetches; none
    /// where the buffer overflows.
    pub pcbr: Option<(ExactRate, u64)>,
    /// PDCBR's rates, of high ones on the same grid up to PCBR's rate, and the bytes they
    /// pre-fetch; none where no pair does.
    pub pdcbr: Option<(pdcbr::Choice, u64)>,
    /// The least rate of any schedule, exactly.
    pub optimum: ExactRate,
}

/// One point of the second question; an error only where nothing fits the buffer at all.
pub fn at_fixed_buffer(
    trace: &Trace,
    buffer: u64,
    delay: u64,
    stop: Stop<'_>,
) -> Result<BufferRow, ScheduleError> {
    let optimum = window::least_rate(trace, buffer, delay)?;
    let rate = pcbr::mean_grid_rate(trace, delay)?;
    let fits = pcbr::buffer(trace, rate, delay) <= buffer;
    let pcbr = fits.then(|| (rate, pcbr::prefetched(trace, rate, delay)));
    let pdcbr = match pdcbr::least_rate(trace, (buffer, delay), rate, stop) {
        Ok(choice) => Some((choice, pdcbr::prefetched(trace, choice.rates, delay))),
        Err(ScheduleError::NoPair) => None,
        Err(error) => return Err(error),
    };
    Ok(BufferRow { delay, pcbr, pdcbr, optimum })
}

/// What delay each scheme needs at a rate, within a buffer (Figure 4.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRow {
    /// The rate.
    pub rate: ExactRate,
    /// PCBR's least delay in ticks; none where the buffer overflows.
    pub pcbr: Option<u64>,
    /// The low rate with the least delay; none where the buffer overflows with all.
    pub pdcbr: Option<pdcbr::Choice>,
    /// The least delay of any schedule in ticks; none where no schedule fits the buffer.
    pub optimum: Option<u64>,
}

/// One point of the third question: at the mean rate · `percent`/100 (the source: 100 to 124).
pub fn at_fixed_rate(
    trace: &Trace,
    percent: u64,
    buffer: u64,
    stop: Stop<'_>,
) -> Result<RateRow, ScheduleError> {
    let mean = trace.mean();
    let too_odd = ScheduleError::RateRange { rate: mean.ceil(trace.ticks_per_second()) };
    let rate = mean.scaled(percent, 100).filter(|rate| !rate.is_zero()).ok_or(too_odd)?;
    let delay = pcbr::least_delay(trace, rate)?;
    let fits = pcbr::buffer(trace, rate, delay) <= buffer;
    let none_if_too_small = |error| match error {
        ScheduleError::BufferTooSmall { .. } | ScheduleError::NoPair => Ok(None),
        error => Err(error),
    };
    Ok(RateRow {
        rate,
        pcbr: fits.then_some(delay),
        pdcbr: pdcbr::least_delay_at(trace, rate, buffer, stop)
            .map(Some)
            .or_else(none_if_too_small)?,
        optimum: window::least_delay(trace, rate, buffer).map(Some).or_else(
            |error| match error {
                ScheduleError::BufferTooSmall { .. } => Ok(None),
                error => Err(error),
            },
        )?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{any_trace, even, rate};
    use proptest::prelude::*;

    /// The one printed pair that fixes the source's units: 2.57 Mbit/s over 10 frames of 1/30 s
    /// is 0.107 MB.
    #[test]
    fn the_source_counts_rate_times_delay() {
        let trace = thesis_trace([4000, 100, 100, 9000, 100]).expect("trace");
        let delay = 2 * trace.slot().expect("even");
        let row = against_delay(&trace, delay, Conventions::Thesis, Stop::NEVER).expect("row");
        let bytes = row.pcbr.rate.bps(trace.ticks_per_second()) / 8.0 * 2.0 / 30.0;
        assert!((row.pcbr.buffer as f64 - bytes).abs() < 1.0, "{row:?} {bytes}");
        assert!((2.57e6_f64 / 8.0 * 10.0 / 30.0 / 1e6 - 0.107).abs() < 5e-4);
    }

    /// Sizes 4, 2, 6, 6, mean 4.5.
    #[test]
    fn by_hand() {
        let trace = even(1, &[4, 2, 6, 6]);
        let row = at_fixed_rate(&trace, 100, 100, Stop::NEVER).expect("row");
        assert_eq!(row.rate, rate(9, 2));
        // 18/4.5 − 3 = 1 from the start. From the third frame on: 12/4.5 − 1 = 5/3, so 2.
        assert_eq!((row.optimum, row.pcbr), (Some(1), Some(2)));
        let row = at_fixed_buffer(&trace, 9, 2, Stop::NEVER).expect("row");
        // PCBR: 12 bytes in 3 ticks from the third frame, 14 in 4 from the second: 4, below mean.
        assert_eq!(row.pcbr, Some((rate(9, 2), 6)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn nothing_beats_the_optimum(trace in any_trace(), delay in 1u64..40, extra in 0u64..60) {
            let row = against_delay(&trace, delay, Conventions::Exact, Stop::NEVER).expect("row");
            prop_assert!(row.optimum.rate <= row.pcbr.rate && row.optimum.buffer <= row.cbr.buffer);
            let buffer = trace.largest() + extra;
            let row = at_fixed_buffer(&trace, buffer, delay, Stop::NEVER).expect("row");
            prop_assert!(row.pcbr.is_none_or(|(rate, _)| rate >= row.optimum));
            prop_assert!(row.pdcbr.is_none_or(|(choice, _)| choice.rates.high() >= row.optimum));
            for percent in [100, 124] {
                let row = at_fixed_rate(&trace, percent, buffer, Stop::NEVER).expect("row");
                prop_assert!(row.pcbr.is_none_or(|delay| Some(delay) >= row.optimum));
                prop_assert!(row.pdcbr.is_none_or(|choice| Some(choice.delay) >= row.optimum));
            }
        }
    }
}
