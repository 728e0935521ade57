//! A bit for each of the last packet numbers of one path.

use alloc::boxed::Box;

/// Packets that a ring can tell apart.
pub(super) const SPAN: u64 = 16_384;
const WORDS: usize = (SPAN / 64) as usize;

/// Bit `n % SPAN` stands for packet `n`; the owner knows which `n` that is.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    bits: Box<[u64; WORDS]>,
}

impl Ring {
    pub(super) fn new() -> Self {
        Self { bits: Box::new([0; WORDS]) }
    }

    const fn word(n: u64) -> usize {
        (n % SPAN / 64) as usize
    }

    pub(super) fn set(&mut self, n: u64) {
        self.bits[Self::word(n)] |= 1 << (n % 64);
    }

    pub(super) fn unset(&mut self, n: u64) {
        self.bits[Self::word(n)] &= !(1 << (n % 64));
    }

    pub(super) fn get(&self, n: u64) -> bool {
        self.bits[Self::word(n)] >> (n % 64) & 1 == 1
    }

    /// Clears packets `from..=to`, fewer than [`SPAN`] of them.
    pub(super) fn clear(&mut self, from: u64, to: u64) {
        let mut n = from;
        while n <= to {
            if n.is_multiple_of(64) && to - n >= 63 {
                self.bits[Self::word(n)] = 0;
                n += 64;
            } else {
                self.unset(n);
                n += 1;
            }
        }
    }

    /// Bit `i` = packet `hi - i`, for the 64 packets that end at `hi`; below packet 0: zero.
    pub(super) fn word_below(&self, hi: u64) -> u64 {
        let shift = 63 - hi % 64;
        let mut word = self.bits[Self::word(hi)] << shift;
        if shift > 0 && hi >= 64 {
            word |= self.bits[Self::word(hi - 64)] >> (64 - shift);
        }
        word.reverse_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_clearing_and_bits_agree(
            set in proptest::collection::vec(0..SPAN, 0..200),
            from in 0..SPAN,
            len in 0..3000u64,
            hi in 0..SPAN,
        ) {
            let mut ring = Ring::new();
            for n in &set {
                ring.set(*n);
            }
            let to = (from + len).min(SPAN - 1);
            ring.clear(from, to);
            let there = |n: u64| set.contains(&n) && !(from..=to).contains(&n);
            let word = ring.word_below(hi);
            for i in 0..64 {
                let expected = hi.checked_sub(i).is_some_and(there);
                prop_assert_eq!(word >> i & 1 == 1, expected, "packet {} - {}", hi, i);
            }
            prop_assert_eq!(ring.get(from), false);
        }
    }
}
