//! Hashes: one for traces, one for the stand-in seal. No protection against anyone.

use xxhash_rust::xxh3::Xxh3;

/// What happened in a run, as a hash that can be compared with that of another version of this
/// program: XXH3 of 64 bits, with the run's seed.
pub struct Trace(Xxh3);

impl Trace {
    /// Of a run in which nothing has happened yet.
    pub fn new(seed: u64) -> Self {
        Self(Xxh3::with_seed(seed))
    }

    /// Takes one word in, least byte first.
    pub fn word(&mut self, w: u64) {
        self.0.update(&w.to_le_bytes());
    }

    /// Takes bytes in, and their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
        self.word(bytes.len() as u64);
    }

    /// The hash so far.
    pub fn value(&self) -> u64 {
        self.0.digest()
    }
}

/// For the stand-in seal, as fast as can be: 128-bit multiply-and-fold over 8-byte words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    a: u64,
    b: u64,
}

const fn fold(x: u64, y: u64) -> u64 {
    let p = x as u128 * y as u128;
    (p as u64) ^ (p >> 64) as u64
}

fn le_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

impl Hash {
    /// A hash under a key.
    pub const fn new(key: u64) -> Self {
        Self { a: key ^ 0xa076_1d64_78bd_642f, b: key.rotate_left(32) ^ 0xe703_7ed1_a0b4_28db }
    }

    /// Takes one word in.
    pub const fn word(&mut self, w: u64) {
        self.a = fold(self.a ^ w, 0x8ebc_6af0_9c88_c6e3).wrapping_add(self.b);
        self.b = self.b.rotate_left(23) ^ w;
    }

    /// Takes bytes in, and their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        // Four lanes side by side, as multiplications need not wait for each other then.
        let blocks = bytes.chunks_exact(32);
        let mut words = blocks.remainder().chunks_exact(8);
        if bytes.len() >= 64 {
            let mut lanes = [1, 2, 3, 4].map(|lane| Self::new(self.a ^ lane));
            for block in blocks {
                for (lane, word) in lanes.iter_mut().zip(block.chunks_exact(8)) {
                    lane.word(le_word(word));
                }
            }
            for lane in lanes {
                self.word(lane.a);
                self.word(lane.b);
            }
        } else {
            words = bytes.chunks_exact(8);
        }
        for word in &mut words {
            self.word(le_word(word));
        }
        let mut tail = [0; 8];
        tail[..words.remainder().len()].copy_from_slice(words.remainder());
        self.word(u64::from_le_bytes(tail));
        self.word(bytes.len() as u64);
    }

    /// The hash so far, in 64 bits.
    pub const fn value(&self) -> u64 {
        fold(self.a ^ 0x5899_65cc_7537_4cc3, self.b ^ 0x1d8e_4e27_c47d_124f)
    }

    /// The hash so far, in 16 bytes.
    pub fn tag(&self) -> [u8; 16] {
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&self.value().to_le_bytes());
        tag[8..].copy_from_slice(&fold(self.b, self.a | 1).to_le_bytes());
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that XXH3's reference implementation gives.
    #[test]
    fn a_trace_is_xxh3() {
        assert_eq!(Trace::new(0).value(), 0x2d06_8005_38d3_94c2);
        let mut trace = Trace::new(0);
        trace.bytes(b"");
        assert_eq!(trace.value(), xxhash_rust::xxh3::xxh3_64(&[0; 8]));
        let mut trace = Trace::new(7);
        trace.word(0x0807_0605_0403_0201);
        trace.bytes(&[9; 300]);
        let all = [&[1, 2, 3, 4, 5, 6, 7, 8][..], &[9; 300], &[44, 1, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(trace.value(), xxhash_rust::xxh3::xxh3_64_with_seed(&all, 7));
    }

    #[test]
    fn the_order_of_blocks_matters() {
        let hash = |bytes: &[u8]| {
            let mut h = Hash::new(1);
            h.bytes(bytes);
            h.tag()
        };
        let base: Vec<u8> = (0..=255).collect();
        for at in 0..base.len() / 8 - 4 {
            for step in [1, 4] {
                let mut other = base.clone();
                for i in 8 * at..8 * at + 8 {
                    other.swap(i, i + 8 * step);
                }
                assert_ne!(hash(&base), hash(&other), "words {at} and {}", at + step);
            }
        }
    }

    #[test]
    fn every_bit_and_the_length_matter() {
        let hash = |key, bytes: &[u8]| {
            let mut h = Hash::new(key);
            h.bytes(bytes);
            h.tag()
        };
        let base = [7u8; 145];
        for bit in 0..8 * base.len() {
            let mut other = base;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(hash(1, &base), hash(1, &other), "bit {bit}");
        }
        assert_ne!(hash(1, &base), hash(2, &base));
        assert_ne!(hash(1, &[0; 8]), hash(1, &[0; 9]));
    }
}
