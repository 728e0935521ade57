//! Few digits that are enough.

use std::time::Duration;

use towpath_media::Stop;
use towpath_media::plan::{Given, Plan, Wish, plan_until};
use towpath_media::trace::{ExactRate, Trace};
use towpath_wire::Rate;

use crate::words::{DIGITS, RATE, SIZE, Scale, TIME};

/// What a scheme needs, as it is printed: rounded up, and such that the three do it together as
/// they stand. A little more rate can need more buffer, and so can a longer delay: the buffer is
/// that for the rate and the delay printed beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) rate_bps: u64,
    pub(super) buffer: u64,
    pub(super) delay_ns: u64,
}

impl Figures {
    /// With four digits where these do, else with more; what `wish` fixes they keep to.
    pub(super) fn of(trace: &Trace, exact: &Plan, wish: Wish, stop: Stop<'_>) -> Self {
        // All digits of 64 bits at the last.
        let tries = [DIGITS, 6, 8, 20];
        let enough = |digits| Self::enough(trace, exact, (wish, digits), stop);
        tries.into_iter().find_map(enough).unwrap_or_else(|| Self::rounded(trace, exact, DIGITS))
    }

    /// Each rounded up by itself.
    pub(super) fn rounded(trace: &Trace, exact: &Plan, digits: u32) -> Self {
        let up =
            |scale: Scale, value: u128| u64::try_from(scale.up(value, digits)).unwrap_or(u64::MAX);
        Self {
            rate_bps: up(RATE, exact.rate.ceil(trace.ticks_per_second()).as_bps().into()),
            buffer: up(SIZE, exact.buffer.into()),
            delay_ns: up(TIME, nanoseconds(trace, exact.delay)),
        }
    }

    fn enough(
        trace: &Trace,
        exact: &Plan,
        (wish, digits): (Wish, u32),
        stop: Stop<'_>,
    ) -> Option<Self> {
        let figures = Self::rounded(trace, exact, digits);
        let rate = ExactRate::from_rate(Rate::from_bps(figures.rate_bps), trace.ticks_per_second());
        let delay = trace.ticks(Duration::from_nanos(figures.delay_ns));
        let (scheme, buffer) = (exact.scheme, figures.buffer);
        let needed = if !scheme.is_greedy() {
            let needed = plan_until(trace, scheme, Wish::RateDelay(rate?, delay), stop).ok()?;
            Plan { buffer: needed.buffer.max(exact.buffer), ..*exact }
        } else if (buffer, delay) == (exact.limit, exact.delay) {
            *exact
        } else {
            let needed = plan_until(trace, scheme, Wish::BufferDelay(buffer, delay), stop).ok()?;
            Plan { rate: needed.rate.max(exact.rate), ..*exact }
        };
        let Given { rate: most_rate, buffer: most_buffer, .. } = wish.given();
        let keeps = most_rate.is_none_or(|most| needed.rate <= most)
            && most_buffer.is_none_or(|most| needed.buffer <= most);
        keeps.then(|| Self::rounded(trace, &needed, digits))
    }
}

/// Rounded up.
pub(super) fn nanoseconds(trace: &Trace, ticks: u64) -> u128 {
    (u128::from(ticks) * 1_000_000_000).div_ceil(u128::from(trace.ticks_per_second()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use towpath_media::plan::{plan, planned};
    use towpath_media::schedule::Scheme;
    use towpath_media::trace::FrameRate;

    fn wishes(rate: ExactRate, buffer: u64, delay: u64) -> [Wish; 6] {
        [
            Wish::Delay(delay),
            Wish::Rate(rate),
            Wish::BufferDelay(buffer, delay),
            Wish::RateDelay(rate, delay),
            Wish::RateBuffer(rate, buffer),
            Wish::All(rate, buffer, delay),
        ]
    }

    /// Three million bytes in two frames: whoever rounds the rate to nearest is 400 B late.
    #[test]
    fn figures_are_never_below_what_is_needed() {
        let trace = Trace::uniform([1_234_421, 1_765_579], FrameRate::TWENTY_FIVE).unwrap();
        let wish = Wish::Delay(2 * trace.slot().unwrap());
        let exact = plan(&trace, Scheme::Cbr, wish).unwrap();
        let figures = Figures::of(&trace, &exact, wish, Stop::NEVER);
        // 3 000 000 B in three slots of 40 ms.
        assert_eq!((figures.rate_bps, figures.delay_ns), (200_000_000, 80_000_000));
        let odd = Wish::Delay(trace.ticks(Duration::from_nanos(33_333_333)));
        let exact = plan(&trace, Scheme::Cbr, odd).unwrap();
        let figures = Figures::of(&trace, &exact, odd, Stop::NEVER);
        assert_eq!(figures.delay_ns, 33_340_000);
        // 3 000 000 · 8 / 73.33 ms = 327.27 Mbit/s.
        assert_eq!(figures.rate_bps, 327_300_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        /// All schemes, all questions: what is printed does it.
        #[test]
        fn what_is_printed_is_enough(
            sizes in prop::collection::vec(1u64..100_000, 2..40),
            ms in 1u64..900, kbps in 200u64..40_000, extra in 0u64..400_000,
            fps in prop::sample::select(vec![(25, 1), (30, 1), (30_000, 1001)]),
        ) {
            let trace = Trace::uniform(sizes, FrameRate::new(fps.0, fps.1).unwrap()).unwrap();
            let hz = trace.ticks_per_second();
            let rate = ExactRate::from_rate(Rate::from_bps(kbps * 1009), hz).unwrap();
            let delay = trace.ticks(Duration::from_micros(ms * 1003));
            for wish in wishes(rate, trace.largest() + extra, delay) {
                for scheme in Scheme::ALL {
                    let Ok(exact) = planned(&trace, scheme, wish, Stop::NEVER) else { continue };
                    let figures = Figures::of(&trace, &exact, wish, Stop::NEVER);
                    let all = Wish::All(
                        ExactRate::from_rate(Rate::from_bps(figures.rate_bps), hz).unwrap(),
                        figures.buffer,
                        trace.ticks(Duration::from_nanos(figures.delay_ns)),
                    );
                    let again = planned(&trace, scheme, all, Stop::NEVER);
                    prop_assert!(again.is_ok(), "{scheme} {wish:?} {figures:?}: {again:?}");
                    prop_assert!(figures.rate_bps >= exact.rate.ceil(hz).as_bps());
                    prop_assert!(figures.buffer >= exact.buffer);
                }
            }
        }
    }
}
