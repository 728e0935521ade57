//! Arrival curves: of a trace, and of what was measured from it.

use towpath_qos::spec::TSpec;

use super::samples::Sample;
use crate::plot::{Axis, Chart, Shape, Unit};

/// Lengths of windows per curve, evenly spread on a logarithmic axis.
const WINDOWS: usize = 120;
/// Steps over the trace for all windows together: bounds the time of a long trace's curve.
const STEPS_MAX: usize = 600_000_000;

/// Most bytes in any closed window of the length: both packets at its ends count.
pub(super) fn most_bytes(samples: &[Sample], window_ns: u64) -> u64 {
    let (mut most, mut within, mut first) = (0, 0, 0);
    for s in samples {
        within += s.bytes;
        while s.at_ns - samples[first].at_ns > window_ns {
            within -= samples[first].bytes;
            first += 1;
        }
        most = most.max(within);
    }
    most
}

/// From the least distance of two packets to the length of the trace.
fn windows(samples: &[Sample]) -> Vec<u64> {
    let length = samples.last().map_or(0, |s| s.at_ns).max(1) as f64;
    let gaps = samples.windows(2).map(|w| w[1].at_ns - w[0].at_ns).filter(|gap| *gap > 0);
    let least = gaps.min().unwrap_or(1) as f64 / 2.0;
    let least = least.clamp(1.0, length).max(length / 1e7);
    let count = (STEPS_MAX / samples.len().max(1)).clamp(12, WINDOWS);
    let mut windows: Vec<u64> = (0..count)
        .map(|k| (least * (length / least).powf(k as f64 / (count - 1) as f64)).round() as u64)
        .collect();
    windows.dedup();
    windows
}

/// The trace's curve below those of the specifications.
pub(super) fn chart(title: &str, samples: &[Sample], specs: &[(&str, &TSpec)]) -> Chart {
    let x = Axis::new("length of window", Unit::Seconds).log();
    let y = Axis::new("most bytes in any window", Unit::Bytes).log().tight();
    let windows = windows(samples);
    let of = |f: &dyn Fn(u64) -> f64| -> Vec<(f64, f64)> {
        windows.iter().map(|w| (*w as f64 / 1e9, f(*w))).collect()
    };
    let mut chart = Chart::new(title, x, y)
        .caption(
            "The lower the curve of a specification, the less must be reserved for it; none lies \
             below the trace.",
        )
        .with("trace", Shape::Line, of(&|w| most_bytes(samples, w) as f64));
    for (name, spec) in specs {
        chart = chart.with(*name, Shape::Line, of(&|w| spec.bits_in(w) as f64 / 8.0));
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples(gaps: &[(u64, u64)]) -> Vec<Sample> {
        let mut at_ns = 0;
        let mut sample = |&(gap, bytes): &(u64, u64)| {
            at_ns += gap;
            Sample { at_ns, bytes }
        };
        gaps.iter().map(&mut sample).collect()
    }

    #[test]
    fn packets_at_both_ends_of_a_window_count() {
        let s = samples(&[(0, 5), (10, 7), (10, 1)]);
        assert_eq!([0, 9, 10, 19, 20].map(|w| most_bytes(&s, w)), [7, 7, 12, 12, 13]);
    }

    proptest! {
        #[test]
        fn the_curve_is_that_of_trying_every_window(
            gaps in proptest::collection::vec((0_u64..50, 1_u64..100), 1..30), window in 0_u64..400,
        ) {
            let s = samples(&gaps);
            let tried = s.iter().map(|a| {
                let within = |b: &&Sample| b.at_ns >= a.at_ns && b.at_ns - a.at_ns <= window;
                s.iter().filter(within).map(|b| b.bytes).sum::<u64>()
            });
            prop_assert_eq!(most_bytes(&s, window), tried.max().unwrap());
        }
    }
}
