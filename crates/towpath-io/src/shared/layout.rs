//! Byte maps of the shared pages: what stands where. Words are little-endian `u64`, each written
//! by one process only; everything not named is zero and not used.
//!
//! ```text
//! task segment, written by its task, read by every neighbour
//!     0     stamp: what this is, in which version
//!    64     card: 0..4 state (0 running, 1 sleeping) | 4..8 processor
//!  1024     epochs: 8 words, a line each, for whoever meets there
//!  4096     ledger: 256 lines, what the task says of its direct routes
//! 20480     progress: per arena page a line whose first word says how far its block is filled
//!   ...     arena: 64 pages for each page of the progress table
//!
//! half, written by one task of a pair, read by the other
//!     0     stamp
//!    64     taken: records that I took from your ring
//!   128     wanting: 1 while I wait for room in my ring or for blocks that you hold
//!  4096     returns: 512 entries: 0..4 ticket | 4..8 number of the return, from 1, wrapping
//!  8192     slots: 128 records of a line each, my ring to you
//! 16384     bytes: 32 KiB of payload that does not fit into its record's line
//!
//! record
//!  0..4  number of the record, from 1, wrapping: written last, it makes the record valid
//!  4     kind | 5 zero | 6..8 length of a tiny payload, or ticket of a block
//!  8..24 lower half of the tag (i64) | context | seq | format
//!        kind 1, tiny      24..64 payload; a whole message; the tag is a number of 32 bits (i32)
//!        kind 2, short     24..32 total | 32..40 offset | 40..44 where in `bytes` | 44..48 length
//!                          | 52..56 upper half of the tag
//!        kind 3, block     24..32 total | 32..40 offset | 40..44 first arena page
//!                          | 44..48 upper half of the tag | 48..56 length
//!        kind 4, filling   as block; the progress table says how much of it is there
//! ```

/// Geometry small enough that a model checker sees every order of events.
const MODEL: bool = cfg!(loom);

/// A cache line, and the size of a record, in bytes.
pub(super) const LINE: usize = 64;
/// A page, and the smallest block of an arena, in bytes.
pub(super) const PAGE: usize = if MODEL { 2 * LINE } else { 4096 };

/// Records a ring holds at most.
pub const SLOTS: usize = if MODEL { 2 } else { 128 };
/// Longest payload that goes through a ring itself, in bytes; longer ones take a block.
pub const SHORT_MAX: usize = if MODEL { LINE } else { 4096 };
/// Blocks of one sender that one receiver may hold at most.
pub const TICKETS: usize = if MODEL { 2 } else { 512 };
/// Room for payloads beside the records, in bytes.
pub(super) const BYTES: usize = if MODEL { LINE } else { 32 << 10 };
/// Longest payload inside a record's own line, in bytes.
pub const TINY_MAX: usize = 40;

pub(super) const STAMP: usize = 0;
pub(super) const CARD: usize = LINE;
/// Words in which tasks of one host say how far they are in something common.
pub const EPOCHS: usize = 8;
/// Where such a word stands.
pub(super) fn epoch(which: usize) -> usize {
    assert!(which < EPOCHS, "epoch {which} of {EPOCHS}");
    PAGE / 4 + which * LINE
}
/// Direct routes that a task tells of at most.
pub const LEDGER_LINES: usize = if MODEL { 2 } else { 256 };
pub(super) const LEDGER: usize = PAGE;
/// Where the progress table begins.
const PROGRESS: usize = LEDGER + (LEDGER_LINES * LINE).next_multiple_of(PAGE);
pub(super) const TAKEN: usize = LINE;
pub(super) const WANTING: usize = 2 * LINE;
pub(super) const RETURNS: usize = if MODEL { 3 * LINE } else { PAGE };
pub(super) const SLOT_ARRAY: usize = RETURNS + (8 * TICKETS).next_multiple_of(LINE);
pub(super) const BYTE_ARRAY: usize = SLOT_ARRAY + SLOTS * LINE;
/// Length of a half, in bytes.
pub(super) const HALF_LEN: usize = BYTE_ARRAY + BYTES;

/// Arena pages described by one page of the progress table.
const PAGES_PER_TABLE_PAGE: usize = PAGE / LINE;
/// Arenas come in multiples of this many bytes.
pub(super) const ARENA_UNIT: usize = PAGES_PER_TABLE_PAGE * PAGE;
/// Longest arena, in bytes.
pub(super) const ARENA_MAX: usize = 64 << 30;

/// Stamp of a task segment: its letters and its version.
pub(super) const TASK_STAMP: u64 = u64::from_le_bytes(*b"twptask\x02");
/// Stamp of a half.
pub(super) const HALF_STAMP: u64 = u64::from_le_bytes(*b"twphalf\x02");

/// Where things stand in a task segment; follows from its length alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArenaShape {
    pages: usize,
}

impl ArenaShape {
    /// For an arena of at least `bytes` bytes.
    pub(super) fn holding(bytes: usize) -> Self {
        let units = bytes.clamp(1, ARENA_MAX).div_ceil(ARENA_UNIT);
        Self { pages: units * PAGES_PER_TABLE_PAGE }
    }

    /// Of a segment of this length; `None` where no segment has it.
    pub(super) fn of_segment(len: usize) -> Option<Self> {
        let per_unit = ARENA_UNIT + PAGE;
        let units = len.checked_sub(PROGRESS)?.checked_div(per_unit)?;
        let shape = Self { pages: units * PAGES_PER_TABLE_PAGE };
        (units > 0 && shape.segment_len() == len).then_some(shape)
    }

    pub(super) fn pages(self) -> usize {
        self.pages
    }

    pub(super) fn arena_len(self) -> usize {
        self.pages * PAGE
    }

    pub(super) fn segment_len(self) -> usize {
        self.page(self.pages)
    }

    /// Where a page's progress word stands.
    pub(super) fn progress(page: usize) -> usize {
        PROGRESS + page * LINE
    }

    /// Where a page stands.
    pub(super) fn page(self, page: usize) -> usize {
        PROGRESS + self.pages * LINE + page * PAGE
    }

    /// Where a block of `len` bytes from page `page` on stands; `None` unless it lies in the arena.
    pub(super) fn block(self, page: u64, len: u64) -> Option<(usize, usize)> {
        let (page, len) = (usize::try_from(page).ok()?, usize::try_from(len).ok()?);
        let end = page.checked_mul(PAGE)?.checked_add(len)?;
        (page < self.pages && end <= self.arena_len()).then_some((page, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_segment_tells_its_shape() {
        for bytes in [0, 1, ARENA_UNIT, ARENA_UNIT + 1, 256 << 20] {
            let shape = ArenaShape::holding(bytes);
            assert!(shape.arena_len() >= bytes && shape.arena_len() < bytes + ARENA_UNIT + 1);
            assert_eq!(ArenaShape::of_segment(shape.segment_len()), Some(shape));
            assert_eq!(ArenaShape::of_segment(shape.segment_len() + PAGE), None);
            assert_eq!(ArenaShape::progress(shape.pages()), shape.page(0));
        }
        for len in [0, 1, PROGRESS, PROGRESS + ARENA_UNIT] {
            assert_eq!(ArenaShape::of_segment(len), None);
        }
    }

    #[test]
    fn a_block_lies_in_the_arena_or_is_none() {
        let shape = ArenaShape::holding(ARENA_UNIT);
        assert_eq!(shape.block(0, ARENA_UNIT as u64), Some((0, ARENA_UNIT)));
        assert_eq!(shape.block(63, PAGE as u64), Some((63, PAGE)));
        let outside = [(0, ARENA_UNIT as u64 + 1), (63, 4097), (64, 0), (u64::MAX, 1)];
        for (page, len) in outside.into_iter().chain([(1, u64::MAX), (u64::MAX / 4096, 8192)]) {
            assert_eq!(shape.block(page, len), None, "{page} {len}");
        }
    }
}
