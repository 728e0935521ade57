//! A set of item indices.

/// A fixed range of indices, each in the set or not: one bit per index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: u32,
    ones: u32,
}

impl Bits {
    /// The empty set over `0..len`.
    pub(crate) fn new(len: u32) -> Self {
        Self { words: vec![0; len.div_ceil(64) as usize], len, ones: 0 }
    }

    /// Puts an index in; false when it was in already. Panics outside the range.
    pub(crate) fn insert(&mut self, index: u32) -> bool {
        assert!(index < self.len, "index {index} of {}", self.len);
        let (word, bit) = (&mut self.words[index as usize / 64], 1 << (index % 64));
        let new = *word & bit == 0;
        *word |= bit;
        self.ones += u32::from(new);
        new
    }

    /// Takes an index out.
    pub(crate) fn remove(&mut self, index: u32) {
        if self.contains(index) {
            self.words[index as usize / 64] &= !(1 << (index % 64));
            self.ones -= 1;
        }
    }

    /// Whether an index is in; false outside the range.
    pub(crate) fn contains(&self, index: u32) -> bool {
        self.words.get(index as usize / 64).is_some_and(|w| w >> (index % 64) & 1 == 1)
    }

    /// How many are in.
    pub(crate) const fn count(&self) -> u32 {
        self.ones
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_goes_in_once() {
        let mut bits = Bits::new(65);
        assert!(bits.insert(64));
        assert!(!bits.insert(64));
        assert!(bits.contains(64) && !bits.contains(63) && !bits.contains(1000));
        assert_eq!(bits.count(), 1);
        bits.remove(63);
        bits.remove(64);
        bits.remove(1000);
        assert!(!bits.contains(64) && bits.count() == 0);
    }
}
