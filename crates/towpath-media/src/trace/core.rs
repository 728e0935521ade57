//! The consumption curve.

use alloc::vec::Vec;
use core::time::Duration;

use super::{ExactRate, FrameRate, TraceError};

/// Ticks per second of a program clock reference (ISO/IEC 13818-1 §2.4.2.1).
pub const PCR_HZ: u64 = 27_000_000;
/// Frames of one trace: 111 hours at 25 frames per second.
pub const FRAMES_MAX: usize = 10_000_000;
/// Bytes of one frame: 1 TiB.
pub const FRAME_BYTES_MAX: u64 = 1 << 40;
/// Bytes of one trace: 4.5 PB. Products of bytes, ticks and grid steps then fit 128 bits, so that
/// every decision is exact.
pub const TOTAL_BYTES_MAX: u64 = 1 << 52;
/// Ticks from the first frame to the last, and of a start-up delay: 2.6 years at 27 MHz.
pub const DURATION_TICKS_MAX: u64 = 1 << 51;

/// The consumption curve of a stored video: which bytes leave the receiver's buffer when
/// (first source, eq. 4.1).
///
/// Group `i` of bytes (a frame, or what lies between two clock references) is consumed at one
/// instant, `times[i]` ticks after the first. Groups of one instant are one group.
///
/// Invariants: `times[0] = 0`, `times` strictly increasing; `sums[0] = 0`, `sums` not decreasing,
/// `sums.len() = times.len() + 1`, `0 < sums[N]`; all within the limits of this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    ticks_per_second: u64,
    times: Vec<u64>,
    sums: Vec<u64>,
    /// Frame time in ticks where all groups are evenly spaced.
    slot: Option<u64>,
    /// From the first instant to the end of the last group's time.
    duration: u64,
    largest: u64,
}

/// A clock reference of a transport stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcrPoint {
    /// Its value in 27 MHz ticks, with the wrap undone.
    pub ticks: u64,
    /// Byte offset in the stream of the packet that carries it.
    pub position: u64,
}

impl Trace {
    /// Frames of the given sizes (bytes, in the order sent), one each frame time.
    pub fn uniform(
        sizes: impl IntoIterator<Item = u64>,
        frame_rate: FrameRate,
    ) -> Result<Self, TraceError> {
        let (ticks_per_second, slot) = frame_rate.clock();
        let mut builder = Builder::default();
        for (index, bytes) in sizes.into_iter().enumerate() {
            builder.push(index as u64 * slot, bytes)?;
        }
        builder.finish(ticks_per_second, Some(slot))
    }

    /// The groups of bytes that start at each clock reference of a program, for a stream of
    /// `total` bytes.
    ///
    /// Group `i` reaches from reference `i` to the next one (the last to the end of the stream)
    /// and is consumed as a whole at the instant of the reference it *starts* with: the earliest
    /// instant at which a decoder that follows the references can need its first byte, so a plan
    /// for it starves no decoder. Bytes before the first reference belong to the first group. With
    /// one reference per frame, at the frame's start, this equals [`Trace::uniform`].
    pub fn from_pcrs(points: &[PcrPoint], total: u64) -> Result<Self, TraceError> {
        let mut builder = Builder::default();
        let first = points.first().ok_or(TraceError::Empty)?.ticks;
        for (index, point) in points.iter().enumerate() {
            let backwards = |what, value, before| TraceError::Backwards {
                index: index + 1,
                what,
                value,
                before,
            };
            let before = if index == 0 { *point } else { points[index - 1] };
            if point.ticks < before.ticks {
                return Err(backwards("time", point.ticks, before.ticks));
            }
            let start = if index == 0 { 0 } else { point.position };
            let end = points.get(index + 1).map_or(total, |next| next.position);
            let Some(bytes) = end.checked_sub(start) else {
                return Err(backwards("position", end, start));
            };
            builder.push(point.ticks - first, bytes)?;
        }
        builder.finish(PCR_HZ, None)
    }

    /// Groups of `(instant in ticks, bytes)` with instants that do not decrease.
    pub fn from_groups(
        groups: impl IntoIterator<Item = (u64, u64)>,
        ticks_per_second: u64,
    ) -> Result<Self, TraceError> {
        let mut builder = Builder::default();
        let mut first = None;
        let mut before = 0;
        for (index, (ticks, bytes)) in groups.into_iter().enumerate() {
            if ticks < before {
                let (index, what) = (index + 1, "time");
                return Err(TraceError::Backwards { index, what, value: ticks, before });
            }
            before = ticks;
            builder.push(ticks - *first.get_or_insert(ticks), bytes)?;
        }
        builder.finish(ticks_per_second.clamp(1, 1 << 36), None)
    }

    /// The same trace with `every` groups taken together, as clock references in every `every`-th
    /// frame would: consumed at the first one's instant.
    #[must_use]
    pub fn grouped(&self, every: usize) -> Self {
        let every = every.max(1);
        let times: Vec<u64> = self.times.iter().copied().step_by(every).collect();
        let mut sums: Vec<u64> = self.sums.iter().copied().step_by(every).collect();
        sums.truncate(times.len());
        sums.push(self.total());
        let largest = sums.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let slot = self.slot.map(|slot| slot * every as u64);
        let duration = match slot {
            Some(slot) => slot * times.len() as u64,
            None => self.duration,
        };
        Self { ticks_per_second: self.ticks_per_second, times, sums, slot, duration, largest }
    }

    /// Groups of bytes: frames, or clock references.
    pub fn groups(&self) -> usize {
        self.times.len()
    }

    /// Clock ticks per second; 27 MHz or a multiple of it, except from [`Trace::from_groups`].
    pub const fn ticks_per_second(&self) -> u64 {
        self.ticks_per_second
    }

    /// Instants of consumption in ticks after the first; strictly increasing.
    pub fn times(&self) -> &[u64] {
        &self.times
    }

    /// Bytes consumed before each group, and all of them at the end; one longer than
    /// [`times`](Self::times).
    pub fn sums(&self) -> &[u64] {
        &self.sums
    }

    /// Bytes of group `index`.
    pub fn size(&self, index: usize) -> u64 {
        self.sums[index + 1] - self.sums[index]
    }

    /// All bytes.
    pub fn total(&self) -> u64 {
        self.sums[self.times.len()]
    }

    /// Bytes of the largest group: no buffer may be smaller.
    pub const fn largest(&self) -> u64 {
        self.largest
    }

    /// The frame time in ticks, where groups are evenly spaced by construction.
    pub const fn slot(&self) -> Option<u64> {
        self.slot
    }

    /// From the first instant to one (last) group time after the last, in ticks.
    pub const fn duration(&self) -> u64 {
        self.duration
    }

    /// All bytes over the whole duration.
    pub fn mean(&self) -> ExactRate {
        ExactRate::new(u128::from(self.total()), u128::from(self.duration)).expect("within limits")
    }

    /// `delay` in ticks, rounded up; saturates at [`DURATION_TICKS_MAX`].
    pub fn ticks(&self, delay: Duration) -> u64 {
        let ticks = delay
            .as_nanos()
            .checked_mul(u128::from(self.ticks_per_second))
            .map_or(u128::MAX, |product| product.div_ceil(1_000_000_000));
        ticks.min(u128::from(DURATION_TICKS_MAX)) as u64
    }

    /// `ticks` in seconds, for people and plots.
    pub fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_second as f64
    }
}

#[derive(Default)]
struct Builder {
    times: Vec<u64>,
    sums: Vec<u64>,
    total: u64,
    largest: u64,
    frames: usize,
}

impl Builder {
    fn push(&mut self, ticks: u64, bytes: u64) -> Result<(), TraceError> {
        self.frames += 1;
        let frame = self.frames;
        if frame > FRAMES_MAX {
            return Err(TraceError::TooManyFrames { limit: FRAMES_MAX });
        }
        if bytes > FRAME_BYTES_MAX {
            return Err(TraceError::FrameTooLarge { frame, bytes, limit: FRAME_BYTES_MAX });
        }
        if ticks > DURATION_TICKS_MAX {
            return Err(TraceError::TooLong { frame, ticks, limit: DURATION_TICKS_MAX });
        }
        if self.times.last() != Some(&ticks) {
            self.times.push(ticks);
            self.sums.push(self.total);
        }
        self.total += bytes;
        if self.total > TOTAL_BYTES_MAX {
            return Err(TraceError::TotalTooLarge { frame, limit: TOTAL_BYTES_MAX });
        }
        self.largest = self.largest.max(self.total - self.sums[self.sums.len() - 1]);
        Ok(())
    }

    fn finish(mut self, ticks_per_second: u64, slot: Option<u64>) -> Result<Trace, TraceError> {
        if self.times.is_empty() {
            return Err(TraceError::Empty);
        }
        if self.total == 0 {
            return Err(TraceError::NoBytes { frames: self.frames });
        }
        self.sums.push(self.total);
        let last = self.times[self.times.len() - 1];
        let gap = match (slot, self.times.len()) {
            (Some(slot), _) => slot,
            // One instant has no spacing: a second is as good as anything.
            (None, 1) => ticks_per_second,
            (None, groups) => last - self.times[groups - 2],
        };
        let (times, sums, largest) = (self.times, self.sums, self.largest);
        Ok(Trace { ticks_per_second, times, sums, slot, duration: last + gap, largest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn point(ticks: u64, position: u64) -> PcrPoint {
        PcrPoint { ticks, position }
    }

    #[test]
    fn references_at_frame_starts_equal_frames() {
        let frames = Trace::uniform([7, 0, 5], FrameRate::TWENTY_FIVE).expect("trace");
        let slot = 1_080_000;
        let points = [point(90, 0), point(90 + slot, 7), point(90 + 2 * slot, 7)];
        let pcrs = Trace::from_pcrs(&points, 12).expect("trace");
        assert_eq!((frames.times(), frames.sums()), (pcrs.times(), pcrs.sums()));
        assert_eq!((frames.duration(), frames.mean()), (pcrs.duration(), pcrs.mean()));
        assert_eq!(frames.sums(), [0, 7, 7, 12]);
    }

    #[test]
    fn bytes_before_the_first_reference_and_equal_references_join_a_group() {
        let points = [point(5, 100), point(5, 120), point(9, 200)];
        let trace = Trace::from_pcrs(&points, 260).expect("trace");
        assert_eq!((trace.times(), trace.sums()), (&[0, 4][..], &[0, 200, 260][..]));
        assert_eq!(trace.largest(), 200);
    }

    #[test]
    fn limits_name_the_frame() {
        let rate = FrameRate::TWENTY_FIVE;
        assert_eq!(Trace::uniform([], rate), Err(TraceError::Empty));
        assert_eq!(Trace::uniform([0, 0], rate), Err(TraceError::NoBytes { frames: 2 }));
        assert!(matches!(
            Trace::uniform([1, FRAME_BYTES_MAX + 1], rate),
            Err(TraceError::FrameTooLarge { frame: 2, .. })
        ));
        let many = core::iter::repeat_n(FRAME_BYTES_MAX, 4097);
        assert!(matches!(
            Trace::uniform(many, rate),
            Err(TraceError::TotalTooLarge { frame: 4097, .. })
        ));
        assert!(matches!(
            Trace::from_pcrs(&[point(9, 0), point(8, 10)], 20),
            Err(TraceError::Backwards { index: 2, what: "time", value: 8, before: 9 })
        ));
        assert!(Trace::from_pcrs(&[point(1, 0), point(2, 30)], 20).is_err());
    }

    #[test]
    fn grouping_sums_frames_as_wider_references_do() {
        let frames = Trace::uniform([1, 2, 3, 4, 5], FrameRate::THIRTY).expect("trace");
        let triple = frames.grouped(3);
        assert_eq!(triple.times(), [0, 2_700_000]);
        assert_eq!(triple.sums(), [0, 6, 15]);
        assert_eq!((triple.largest(), triple.slot()), (9, Some(2_700_000)));
        let every: vec::Vec<u64> = frames.grouped(1).sums().to_vec();
        assert_eq!(every, frames.sums());
    }

    #[test]
    fn delays_are_told_in_ticks_and_ticks_in_seconds() {
        let trace = Trace::from_groups([(7, 1), (9, 1)], 1000).expect("trace");
        let ticks = |ns| trace.ticks(Duration::from_nanos(ns));
        assert_eq!([0, 1, 1_000_000, 1_000_001, 2_500_000_000].map(ticks), [0, 1, 1, 2, 2500]);
        assert_eq!(trace.ticks(Duration::MAX), DURATION_TICKS_MAX);
        assert_eq!(trace.seconds(2500).to_bits(), 2.5_f64.to_bits());
    }

    #[test]
    fn groups_may_come_together_and_never_back() {
        let trace = Trace::from_groups([(7, 1), (7, 2), (10, 4)], 1000).expect("trace");
        assert_eq!((trace.times(), trace.sums()), (&[0, 3][..], &[0, 3, 7][..]));
        assert_eq!((trace.duration(), trace.slot(), trace.ticks_per_second()), (6, None, 1000));
        let back = Trace::from_groups([(7, 1), (9, 2), (8, 4)], 1000);
        let (index, what) = (3, "time");
        assert_eq!(back, Err(TraceError::Backwards { index, what, value: 8, before: 9 }));
        // Taken together they last as long.
        let pair = Trace::from_groups([(0, 1), (5, 2), (6, 4), (9, 1)], 10).expect("trace");
        let grouped = pair.grouped(2);
        assert_eq!((grouped.times(), grouped.sums()), (&[0, 6][..], &[0, 3, 8][..]));
        assert_eq!((grouped.duration(), grouped.largest(), grouped.groups()), (12, 5, 2));
        let even = Trace::uniform([1, 2, 3, 4, 5], FrameRate::TWENTY_FIVE).expect("trace");
        assert_eq!(even.grouped(2).duration(), 6 * 1_080_000);
        assert_eq!(even.grouped(0), even);
    }
}
