//! The indexes of AVI files: `idx1` behind the frames, `ix##` between them (`OpenDML`).

use alloc::vec::Vec;

/// `dwFlags` of an entry of `idx1`: decoding can start there.
const KEY: u32 = 0x10;
/// Of the size in an entry of `ix##`: decoding cannot start there.
const DELTA: u32 = 1 << 31;
/// An index of chunks with two words per entry: `wLongsPerEntry`, `bIndexSubType`, `bIndexType`.
const CHUNKS: u32 = 0x0100_0002;

/// What is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// An entry of `idx1`: name, flags, place, size.
    Old,
    /// The head of `ix##`: kind, entries, name of its chunks, where places count from.
    Head,
    /// An entry of it: place and size.
    Entry(u16),
}

impl Part {
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Old => 16,
            Self::Head => 24,
            Self::Entry(_) => 8,
        }
    }
}

/// The streams that have an index of their own: what `idx1` says of them was told before.
#[derive(Debug, Default)]
pub(super) struct Index {
    own: Vec<u16>,
}

impl Index {
    /// Takes a part. Gives what comes behind it, and of the next frame of a stream whether decoding
    /// can start there. `stream`: which one a chunk of this name is of.
    pub(super) fn take(
        &mut self,
        part: Part,
        bytes: &[u8],
        stream: impl Fn([u8; 4]) -> Option<u16>,
    ) -> (Option<Part>, Option<(u16, bool)>) {
        let quarter = |k: usize| core::array::from_fn(|i| bytes[4 * k + i]);
        let word = |k| u32::from_le_bytes(quarter(k));
        match part {
            Part::Old => {
                let of = stream(quarter(0)).filter(|of| !self.own.contains(of));
                // Empty chunks, which repeat a picture, are no frames.
                let told = of.filter(|_| word(3) > 0).map(|of| (of, word(1) & KEY != 0));
                (Some(Part::Old), told)
            }
            Part::Head if word(0) == CHUNKS => {
                let of = stream(quarter(2));
                if let Some(of) = of.filter(|of| !self.own.contains(of)) {
                    self.own.push(of);
                }
                (of.map(Part::Entry), None)
            }
            Part::Head => (None, None),
            Part::Entry(of) => {
                let size = word(1);
                let told = (size & !DELTA > 0).then_some((of, size & DELTA == 0));
                (Some(Part::Entry(of)), told)
            }
        }
    }
}
