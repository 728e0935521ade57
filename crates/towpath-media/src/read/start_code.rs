//! Finding 00 00 01 in a stream that comes in pieces.
//!
//! Nearly all of the bytes of a video are looked at only here. A block of 32 positions is tested
//! with three shifted loads and no branch, which the compiler turns into vector instructions;
//! only a block with a hit is walked, eight positions a step.

/// Positions tested at once.
const BLOCK: usize = 32;

/// Byte after the first 00 00 01 at or after `from`: the index of the byte that follows the 01,
/// which may be `bytes.len()`.
pub(super) fn find(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(block) = bytes.get(at..at + BLOCK + 2) {
        let mut hit = false;
        for i in 0..BLOCK {
            hit |= (block[i] | block[i + 1] | (block[i + 2] ^ 1)) == 0;
        }
        if hit {
            return walk(bytes, at);
        }
        at += BLOCK;
    }
    walk(bytes, at)
}

/// Positions tested at once where there is a hit or too little left.
const STEP: usize = 8;
const ONES: u64 = 0x0101_0101_0101_0101;

fn walk(bytes: &[u8], mut at: usize) -> Option<usize> {
    while let Some(step) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        if let Some(hit) = first_of(step, 0) {
            return Some(at + hit + 3);
        }
        at += STEP;
    }
    // The last positions with some before them, which do not count.
    if let Some(step) = bytes.last_chunk() {
        let start = bytes.len() - (STEP + 2);
        let before = at - start;
        return if before < STEP {
            first_of(step, before).map(|hit| start + hit + 3)
        } else {
            None
        };
    }
    let codes = bytes.get(at..)?.windows(3).position(|three| three == [0, 0, 1]);
    codes.map(|hit| at + hit + 3)
}

/// The first of eight positions, but for some before, at which there is a start code.
fn first_of(step: &[u8; STEP + 2], before: usize) -> Option<usize> {
    let [_, second @ ..] = step;
    let [_, third @ ..] = second;
    let word = |bytes: &[u8]| bytes.first_chunk().copied().map_or(0, u64::from_le_bytes);
    let bits = word(step) | word(second) | (word(third) ^ ONES) | ((1 << (8 * before)) - 1);
    // The lowest zero byte is the lowest that borrows (Mycroft's test).
    let zero = bits.wrapping_sub(ONES) & !bits & (ONES << 7);
    (zero != 0).then(|| zero.trailing_zeros() as usize / 8)
}

/// Finds the start codes of a stream in pieces of any cut.
#[derive(Clone, Debug)]
pub(super) struct StartCodes {
    /// The last three bytes, newest lowest; ones at the start.
    tail: u32,
}

impl Default for StartCodes {
    fn default() -> Self {
        Self { tail: u32::MAX }
    }
}

/// A start code whose last byte (the 01) lies before `next` of the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// Index in the piece of the byte after the 01; the code itself may lie in earlier pieces.
    pub(super) next: usize,
    /// A zero byte stood before the code: it belongs to it in H.264 and H.265 (Annex B).
    pub(super) long: bool,
}

impl StartCodes {
    /// The first code that ends in `piece` at or after `from`, which is 0 or behind a code. When
    /// there is none the piece must be given to [`Self::leave`].
    pub(super) fn next(&self, piece: &[u8], from: usize) -> Option<Hit> {
        if from < 2 && self.tail.trailing_zeros() >= 8 {
            let mut tail = self.tail;
            for (i, &byte) in piece.iter().enumerate().take(2) {
                tail = tail << 8 | u32::from(byte);
                if i >= from && tail & 0xFF_FFFF == 1 {
                    return Some(Hit { next: i + 1, long: tail >> 24 == 0 });
                }
            }
        }
        let next = find(piece, from)?;
        let long = match next.checked_sub(4) {
            Some(before) => piece[before] == 0,
            None => self.tail as u8 == 0,
        };
        Some(Hit { next, long })
    }

    /// Keeps what the next piece needs to know of this one.
    pub(super) fn leave(&mut self, piece: &[u8]) {
        if let Some(&last) = piece.last_chunk() {
            self.tail = u32::from_be_bytes(last);
            return;
        }
        for &byte in piece {
            self.tail = self.tail << 8 | u32::from(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn by_definition(bytes: &[u8]) -> Vec<(usize, bool)> {
        let codes = (3..=bytes.len()).filter(|&i| bytes[i - 3..i] == [0, 0, 1]);
        codes.map(|i| (i, i >= 4 && bytes[i - 4] == 0)).collect()
    }

    fn in_pieces(bytes: &[u8], cuts: &[usize]) -> Vec<(usize, bool)> {
        let mut codes = StartCodes::default();
        let mut found = Vec::new();
        let mut at = 0;
        let mut cuts = cuts.iter().cycle();
        while at < bytes.len() {
            let end = (at + cuts.next().expect("it cycles")).min(bytes.len());
            let piece = &bytes[at..end];
            let mut from = 0;
            while let Some(hit) = codes.next(piece, from) {
                found.push((at + hit.next, hit.long));
                from = hit.next;
            }
            codes.leave(piece);
            at = end;
        }
        found
    }

    proptest! {
        #[test]
        fn any_cut_finds_what_the_definition_finds(
            bytes in prop_oneof![
                prop::collection::vec(
                    prop_oneof![6 => Just(0_u8), 3 => Just(1), 1 => any::<u8>()],
                    0..300,
                ),
                prop::collection::vec(
                    prop_oneof![20 => any::<u8>(), 1 => Just(0_u8)],
                    0..300,
                ).prop_map(|mut bytes| {
                    for at in (50..bytes.len().saturating_sub(3)).step_by(71) {
                        bytes[at..at + 3].copy_from_slice(&[0, 0, 1]);
                    }
                    bytes
                }),
            ],
            cuts in prop::collection::vec(1_usize..80, 1..10),
        ) {
            prop_assert_eq!(in_pieces(&bytes, &cuts), by_definition(&bytes));
        }
    }
}
