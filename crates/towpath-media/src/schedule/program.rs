//! A schedule as a program that a sender can follow.

use alloc::vec::Vec;

use super::Scheme;
use crate::trace::{ExactRate, Trace};

/// Positions count in parts of a byte: where a rate changes between two bytes the next rate is
/// still right to 1e-8, and a video within the limits fits 64 bits.
pub const POSITION_UNIT: u64 = 1024;

/// From a byte on, a rate, not before a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Tick after the start of delivery before which nothing of this segment is sent. Sending of
    /// a segment starts then, or when the segment before it is done, whichever is later.
    pub start: u64,
    /// First position sent in this segment, in bytes × [`POSITION_UNIT`].
    pub position: u64,
    /// At which rate, until the next segment's position.
    pub rate: ExactRate,
}

/// When to send what: a start, and a rate for each stretch of the video.
///
/// Invariants: `segments` is not empty and starts at position 0; positions strictly increase and
/// stay below `total`; starts do not decrease; no rate is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// By which scheme.
    pub scheme: Scheme,
    /// The clock of all ticks.
    pub ticks_per_second: u64,
    /// From the start of delivery to the consumption of the first group, in ticks.
    pub delay: u64,
    /// What the receiver's buffer must hold, in bytes.
    pub buffer: u64,
    /// The highest rate.
    pub peak: ExactRate,
    /// Bytes of the video.
    pub total: u64,
    /// The program.
    pub segments: Vec<Segment>,
}

/// A point of a delivery curve, for plots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Ticks after the start of delivery.
    pub ticks: f64,
    /// Bytes sent until then.
    pub bytes: f64,
}

impl Schedule {
    /// Segments and the highest rate of them, for a trace.
    pub(super) fn new(
        scheme: Scheme,
        trace: &Trace,
        delay: u64,
        buffer: u64,
        (segments, peak): (Vec<Segment>, ExactRate),
    ) -> Self {
        let (ticks_per_second, total) = (trace.ticks_per_second(), trace.total());
        Self { scheme, ticks_per_second, delay, buffer, peak, total, segments }
    }

    /// Corners of the delivery curve from its start to its end, in order; in floats, for plots.
    pub fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let unit = POSITION_UNIT as f64;
        let mut done = 0.0;
        let ends = self.segments[1..].iter().map(|next| next.position);
        let ends = ends.chain([self.total * POSITION_UNIT]);
        self.segments.iter().zip(ends).flat_map(move |(segment, end)| {
            let start = f64::max(done, segment.start as f64);
            let from = segment.position as f64 / unit;
            let to = end as f64 / unit;
            let rate = segment.rate.bytes() as f64 / segment.rate.ticks() as f64;
            done = start + (to - from) / rate;
            [Point { ticks: start, bytes: from }, Point { ticks: done, bytes: to }]
        })
    }
}

impl Schedule {
    /// The delivery curve in whole nanoseconds and bytes: its corners, instants rounded down and
    /// bytes rounded up, so that the true curve is never above the line through them by more than
    /// what a nanosecond carries. For arrival curves and traffic specifications.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let per_tick = 1e9 / self.ticks_per_second as f64;
        self.points().map(move |point| {
            let bytes = point.bytes as u64;
            let up = u64::from((bytes as f64) < point.bytes);
            ((point.ticks * per_tick) as u64, bytes + up)
        })
    }
}

/// Puts segments together, joining those that change nothing.
pub(super) struct Writer {
    segments: Vec<Segment>,
}

impl Writer {
    pub(super) const fn new() -> Self {
        Self { segments: Vec::new() }
    }

    /// From `position` (in parts of a byte) on, `rate`, not before `start`; where nothing is sent
    /// before the next call, that one counts.
    pub(super) fn push(&mut self, start: u64, position: u64, rate: ExactRate) {
        match self.segments.last_mut() {
            Some(last) if last.position == position => {
                *last = Segment { start: start.max(last.start), position, rate };
            }
            _ => self.segments.push(Segment { start, position, rate }),
        }
    }

    /// As [`push`](Self::push), without waiting: the rate changes when the byte is reached.
    pub(super) fn change(&mut self, position: u64, rate: ExactRate) {
        match self.segments.last() {
            Some(last) if last.rate == rate => {}
            Some(&Segment { start, .. }) => self.push(start, position, rate),
            None => self.push(0, position, rate),
        }
    }

    pub(super) fn finish(self, total: u64) -> Vec<Segment> {
        let mut segments = self.segments;
        let end = total * POSITION_UNIT;
        while segments.last().is_some_and(|segment| segment.position >= end) {
            segments.pop();
        }
        segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::pcbr;
    use crate::schedule::testing::{even, rate};

    /// Sizes 4, 2, 6 at 6 B/s, delay 1 s: sent from 0, 1 and 2 s on.
    #[test]
    fn corners_of_a_curve() {
        let trace = even(1, &[4, 2, 6]);
        let schedule = pcbr::schedule(&trace, rate(6, 1), 1).expect("schedule");
        let corners: Vec<_> = schedule.cumulative().collect();
        let ms = 1_000_000;
        let rounded: Vec<_> = corners.iter().map(|&(ns, bytes)| (ns / ms, bytes)).collect();
        assert_eq!(rounded, [(0, 0), (666, 4), (1000, 4), (1333, 6), (2000, 6), (3000, 12)]);
        // Whole bytes are not rounded up, begun ones are.
        let mut begun = schedule;
        begun.segments[1].position += 1;
        let bytes: Vec<u64> = begun.cumulative().map(|(_, bytes)| bytes).collect();
        assert_eq!(bytes, [0, 5, 5, 6, 6, 12]);
    }
}
