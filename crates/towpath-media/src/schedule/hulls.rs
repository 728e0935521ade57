//! Hulls of blocks of a trace's groups: which end of a group is seen at the steepest slope from a
//! place before them, and which beginning at the flattest, is found by halving.
//!
//! Both walls of a corridor are the consumption curve, moved: the low one by the delay, the high
//! one by delay and buffer, as far as the buffer does not hold the rest of the video. So the hulls
//! are those of the trace alone, and serve all delays and buffers.

use alloc::vec::Vec;

use crate::trace::Trace;

/// Groups in a block of the lowest level; fewer are looked at one by one.
pub(super) const BLOCK: usize = 32;
/// Blocks of a level in one of the next.
const FAN: usize = 8;

/// Hulls of blocks of 32, 256, 2048, … groups.
///
/// Memory: at most 8 bytes per group and level, that is 48 for each group of the longest trace;
/// films have few corners in a block.
#[derive(Debug)]
pub(super) struct Hulls {
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    /// Groups in a block.
    size: usize,
    /// Over the ends of groups (`sums[i + 1]`), as seen from above.
    ends: Chains,
    /// Under the beginnings (`sums[i]`), as seen from below.
    begins: Chains,
}

/// Corners of a hull per block, as numbers of groups, one behind the other.
#[derive(Debug, Default)]
struct Chains {
    corners: Vec<u32>,
    /// Where each block's corners end.
    past: Vec<usize>,
}

impl Chains {
    fn of(&self, block: usize) -> &[u32] {
        let from = if block == 0 { 0 } else { self.past[block - 1] };
        &self.corners[from..self.past[block]]
    }

    /// Adds the hull of points; `passed`: whether the middle one of three is no corner.
    fn push(&mut self, points: impl Iterator<Item = u32>, passed: impl Fn([u32; 3]) -> bool) {
        let first = self.corners.len();
        for point in points {
            while let [.., a, b] = self.corners[first..]
                && passed([a, b, point])
            {
                self.corners.pop();
            }
            self.corners.push(point);
        }
        self.past.push(self.corners.len());
    }
}

impl Hulls {
    /// Of all blocks that are full: each group is looked at once for each level it is a corner of.
    pub(super) fn new(trace: &Trace) -> Self {
        let mut levels: Vec<Level> = Vec::new();
        let (turn_of_ends, turn_of_begins) = (turn(trace, 1), turn(trace, 0));
        // On the line between its neighbours a point is no corner.
        let not_above = |points| turn_of_ends(points) >= 0;
        let not_below = |points| turn_of_begins(points) <= 0;
        let mut size = BLOCK;
        while size <= trace.groups() {
            let (mut ends, mut begins) = (Chains::default(), Chains::default());
            for block in 0..trace.groups() / size {
                if let Some(finer) = levels.last() {
                    let parts = || block * FAN..(block + 1) * FAN;
                    ends.push(parts().flat_map(|b| finer.ends.of(b)).copied(), not_above);
                    begins.push(parts().flat_map(|b| finer.begins.of(b)).copied(), not_below);
                } else {
                    let groups = || (block * size) as u32..((block + 1) * size) as u32;
                    ends.push(groups(), not_above);
                    begins.push(groups(), not_below);
                }
            }
            levels.push(Level { size, ends, begins });
            size *= FAN;
        }
        Self { levels }
    }

    /// Level and end of the largest block of at most level `most` that starts at `group` and ends
    /// at `past` at the latest.
    pub(super) fn block(&self, group: usize, past: usize, most: usize) -> Option<(usize, usize)> {
        let fits = |of: &Level| group.is_multiple_of(of.size) && group + of.size <= past;
        let found = self.levels.iter().take(most + 1).rposition(fits)?;
        Some((found, group + self.levels[found].size))
    }

    /// Of the block that starts at `group`, the last one of the groups whose ends are seen at the
    /// steepest slope; `rises(a, b)`: the end of `b` is seen at no flatter slope than that of `a`.
    pub(super) fn steepest(
        &self,
        level: usize,
        group: usize,
        rises: impl Fn(usize, usize) -> bool,
    ) -> usize {
        let level = &self.levels[level];
        top(level.ends.of(group / level.size), rises)
    }

    /// The last one of those whose beginnings are seen at the flattest slope; `falls(a, b)`: the
    /// beginning of `b` is seen at no steeper slope than that of `a`.
    pub(super) fn flattest(
        &self,
        level: usize,
        group: usize,
        falls: impl Fn(usize, usize) -> bool,
    ) -> usize {
        let level = &self.levels[level];
        top(level.begins.of(group / level.size), falls)
    }
}

/// From a place before them, slopes to the corners of the hull of ends rise and then fall, those
/// to the hull of beginnings fall and then rise: the last corner before they turn.
fn top(corners: &[u32], goes_on: impl Fn(usize, usize) -> bool) -> usize {
    let (mut low, mut high) = (0, corners.len() - 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if goes_on(corners[middle] as usize, corners[middle + 1] as usize) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    corners[low] as usize
}

/// How the curve turns at the second of three points, to the left if positive: then the second is
/// below the line between the others. `end` is 1 for the ends of groups, 0 for their beginnings.
fn turn(trace: &Trace, end: usize) -> impl Fn([u32; 3]) -> i128 {
    move |points| {
        let [a, b, c] = points.map(|group| {
            let group = group as usize;
            (trace.times()[group].cast_signed(), trace.sums()[group + end].cast_signed())
        });
        i128::from(b.0 - a.0) * i128::from(c.1 - a.1)
            - i128::from(b.1 - a.1) * i128::from(c.0 - a.0)
    }
}
