//! Which packets of one path have been received: replay protection and acknowledgement maps.

use towpath_wire::frame::ACK_WORDS_MAX;

use super::ring::Ring;

/// Packets remembered below the largest one; anything older is refused unseen.
pub(super) const WINDOW: u64 = super::ring::SPAN;

/// What a packet number tells before the packet is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Fresh,
    Duplicate,
    TooOld,
}

/// Invariant: bit `n % WINDOW` tells about packet `n` for `largest - WINDOW < n ≤ largest`.
#[derive(Clone, Debug)]
pub(super) struct Received {
    largest: Option<u64>,
    bits: Ring,
    #[cfg(plant)]
    pub(super) off_by_one: bool,
}

impl Received {
    pub(super) fn new() -> Self {
        Self {
            largest: None,
            bits: Ring::new(),
            #[cfg(plant)]
            off_by_one: false,
        }
    }

    pub(super) const fn largest(&self) -> Option<u64> {
        self.largest
    }

    pub(super) fn status(&self, number: u64) -> Seen {
        match self.largest {
            Some(top) if number > top => Seen::Fresh,
            Some(top) if top - number >= WINDOW => Seen::TooOld,
            Some(_) if self.bits.get(number) => Seen::Duplicate,
            None | Some(_) => Seen::Fresh,
        }
    }

    /// Records an authenticated packet. Returns true when it is the largest so far.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        let newest = self.largest.is_none_or(|top| number > top);
        if newest {
            let from = self.largest.map_or(number, |top| top + 1);
            self.bits.clear(from.max(number.saturating_sub(WINDOW - 1)), number);
            self.largest = Some(number);
        }
        self.bits.set(number);
        newest
    }

    /// The acknowledgement bitmap from `top` down to at least `low`, newest first; returns the
    /// number of words written (1 ..= [`ACK_WORDS_MAX`]).
    pub(super) fn map(&self, top: u64, low: u64, out: &mut [u64; ACK_WORDS_MAX]) -> usize {
        let words = (top.saturating_sub(low) / 64 + 1).min(ACK_WORDS_MAX as u64) as usize;
        for (w, word) in out.iter_mut().enumerate().take(words) {
            *word = match top.checked_sub(64 * w as u64) {
                Some(hi) => self.word_below(hi),
                None => 0,
            };
            #[cfg(plant)]
            if self.off_by_one && *word != u64::MAX && w == 0 {
                *word |= *word << 1;
            }
        }
        words
    }

    /// Bit `i` = packet `hi - i`, for the 64 packets that end at `hi`.
    fn word_below(&self, hi: u64) -> u64 {
        let word = self.bits.word_below(hi);
        // Whatever has left the window is not known any more.
        match self.largest.unwrap_or(0).saturating_sub(hi) {
            below if below + 64 > WINDOW => word & Self::low_bits(WINDOW.saturating_sub(below)),
            _ => word,
        }
    }

    const fn low_bits(n: u64) -> u64 {
        if n >= 64 { u64::MAX } else { (1 << n) - 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn maps_and_states_agree_with_a_set(
            steps in proptest::collection::vec(0..200u64, 1..300),
            jumps in proptest::collection::vec(0..6000u64, 0..3),
            down in 0..3000u64,
        ) {
            let mut received = Received::new();
            let mut model = BTreeSet::new();
            let mut base = 0;
            for (i, step) in steps.iter().enumerate() {
                if i % 100 == 99 {
                    base += jumps.get(i / 100).copied().unwrap_or(0);
                }
                let n = base + step;
                let top = model.last().copied();
                let expected = match top {
                    Some(t) if n <= t && t - n >= WINDOW => Seen::TooOld,
                    _ if model.contains(&n) => Seen::Duplicate,
                    _ => Seen::Fresh,
                };
                prop_assert_eq!(received.status(n), expected);
                if expected == Seen::Fresh {
                    prop_assert_eq!(received.insert(n), top.is_none_or(|t| n > t));
                    model.insert(n);
                }
                base += step / 20;
            }
            let largest = received.largest().unwrap();
            let top = largest.saturating_sub(down);
            let mut map = [0; ACK_WORDS_MAX];
            let words = received.map(top, top.saturating_sub(900), &mut map);
            for i in 0..64 * words as u64 {
                let bit = map[(i / 64) as usize] >> (i % 64) & 1 == 1;
                let known = top
                    .checked_sub(i)
                    .is_some_and(|n| model.contains(&n) && largest - n < WINDOW);
                prop_assert_eq!(bit, known, "packet {} below {}", i, top);
            }
        }
    }

    #[test]
    fn a_huge_jump_forgets_everything_older() {
        let mut r = Received::new();
        r.insert(5);
        r.insert(u64::MAX - 1);
        assert_eq!(r.status(5), Seen::TooOld);
        assert_eq!(r.status(u64::MAX - 2), Seen::Fresh);
    }
}
