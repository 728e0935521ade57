//! Several streams on one link.

use alloc::vec::Vec;

use thiserror::Error;

use crate::schedule::Schedule;

/// A stream that starts at some time.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// Its schedule.
    pub schedule: &'a Schedule,
    /// When its delivery starts, in ticks after the link's zero.
    pub start: u64,
}

/// From an instant on, a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Ticks after the link's zero.
    pub tick: u64,
    /// All streams together, in bit/s.
    pub rate_bps: f64,
}

/// What streams need together.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The rate of all streams over time; the last step is to zero.
    pub steps: Vec<Step>,
    /// The highest rate of all together in bit/s: the least rate of a link without a queue.
    pub peak_bps: f64,
    /// The peaks of all, added, in bit/s: what the link must have if each is reserved its peak.
    pub sum_of_peaks_bps: f64,
    /// All bytes over the time from the first start to the last end, in bit/s: no link can be
    /// slower, whatever its queue.
    pub mean_bps: f64,
}

impl Aggregate {
    /// How many times the link's rate the sum of the peaks is: what sharing gains.
    pub fn gain(&self) -> f64 {
        self.sum_of_peaks_bps / self.peak_bps
    }
}

/// Streams that cannot be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AggregateError {
    /// No stream.
    #[error("no stream to put together")]
    Empty,
    /// Different clocks.
    #[error("stream {stream} counts {hz} ticks per second, the first one {first}")]
    Clock {
        /// Which, from 1.
        stream: usize,
        /// Its ticks per second.
        hz: u64,
        /// The first stream's.
        first: u64,
    },
}

/// Adds the rates of streams over time. Instants are rounded to ticks, rates are floats: figures
/// for dimensioning a link, right to 1e-9.
pub fn aggregate(streams: &[Stream<'_>]) -> Result<Aggregate, AggregateError> {
    let first = streams.first().ok_or(AggregateError::Empty)?.schedule.ticks_per_second;
    let mut changes: Vec<(u64, f64)> = Vec::new();
    let (mut sum_of_peaks_bps, mut bytes) = (0.0, 0.0);
    for (index, stream) in streams.iter().enumerate() {
        let hz = stream.schedule.ticks_per_second;
        if hz != first {
            return Err(AggregateError::Clock { stream: index + 1, hz, first });
        }
        sum_of_peaks_bps += stream.schedule.peak.bps(hz);
        bytes += stream.schedule.total as f64;
        let points: Vec<_> = stream.schedule.points().collect();
        for (segment, ends) in stream.schedule.segments.iter().zip(points.chunks_exact(2)) {
            let rate = segment.rate.bps(hz);
            // Half a tick more and cut: the nearest tick.
            let tick = |ticks: f64| stream.start + (ticks + 0.5) as u64;
            changes.push((tick(ends[0].ticks), rate));
            changes.push((tick(ends[1].ticks), -rate));
        }
    }
    changes.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let steps = add_up(&changes);
    let peak_bps = steps.iter().map(|step| step.rate_bps).fold(0.0, f64::max);
    let ticks = steps.last().map_or(0, |last| last.tick) - steps.first().map_or(0, |s| s.tick);
    let mean_bps = bytes * 8.0 * first as f64 / ticks.max(1) as f64;
    Ok(Aggregate { steps, peak_bps, sum_of_peaks_bps, mean_bps })
}

fn add_up(changes: &[(u64, f64)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut sum, mut lost) = (0.0, 0.0);
    for &(tick, change) in changes {
        // Kahan's summation: millions of rates come and go.
        let corrected = change - lost;
        let next = sum + corrected;
        lost = (next - sum) - corrected;
        sum = next;
        let rate_bps = if sum > 0.0 { sum } else { 0.0 };
        match steps.last_mut() {
            Some(last) if last.tick == tick => last.rate_bps = rate_bps,
            _ => steps.push(Step { tick, rate_bps }),
        }
    }
    if let Some(last) = steps.last_mut() {
        last.rate_bps = 0.0;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::testing::{even, rate};
    use crate::schedule::{cbr, pcbr};

    /// PCBR at 6 B/tick sends 4 bytes from 0, 2 from 1 and 6 from 2; half a tick of pause each.
    #[test]
    fn pauses_of_one_are_another_s_chance() {
        let trace = even(300, &[4, 2, 6]);
        let schedule = pcbr::schedule(&trace, rate(6, 300), 300).expect("schedule");
        let stream = |start| Stream { schedule: &schedule, start };
        let peak = schedule.peak.bps(1);
        let together = aggregate(&[stream(0), stream(0)]).expect("aggregate");
        assert!(
            (together.peak_bps - 2.0 * peak).abs() < 1e-9 && (together.gain() - 1.0).abs() < 1e-9
        );
        let apart = aggregate(&[stream(0), stream(900)]).expect("aggregate");
        assert!((apart.peak_bps - peak).abs() < 1e-9, "{apart:?}");
        assert!((apart.gain() - 2.0).abs() < 1e-9);
        assert_eq!(apart.steps.last().map(|step| step.tick), Some(1800));
        assert!((apart.mean_bps - 24.0 * 8.0 / 1800.0).abs() < 1e-9);
    }

    #[test]
    fn clocks_must_agree() {
        let trace = even(1, &[4]);
        let schedule = cbr::schedule(&trace, rate(4, 1), 1).expect("schedule");
        let other = Schedule { ticks_per_second: 2, ..schedule.clone() };
        let streams = [&schedule, &other].map(|schedule| Stream { schedule, start: 0 });
        assert_eq!(aggregate(&streams), Err(AggregateError::Clock { stream: 2, hz: 2, first: 1 }));
        assert_eq!(aggregate(&[]), Err(AggregateError::Empty));
    }
}
