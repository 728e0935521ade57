//! GF(256), and the code's coefficients.
//!
//! The field is that of AES: polynomials over two elements modulo x⁸ + x⁴ + x³ + x + 1, which is
//! what processors multiply by (`GF2P8MULB`). 3 generates its multiplicative group.

use super::kind::{MEMBERS_MAX, PARITIES_MAX};

/// x⁸ modulo the field's polynomial.
pub(super) const REDUCED: u8 = 0x1b;

/// Powers of 3, twice over, so that sums of two logarithms need no reduction; and logarithms.
const TABLES: ([u8; 510], [u8; 256]) = {
    let (mut powers, mut logs) = ([0; 510], [0; 256]);
    let (mut value, mut n) = (1_u8, 0);
    while n < 255 {
        (powers[n], powers[n + 255]) = (value, value);
        logs[value as usize] = n as u8;
        value ^= value << 1 ^ if value & 0x80 == 0 { 0 } else { REDUCED };
        n += 1;
    }
    (powers, logs)
};

/// The product of two elements.
pub const fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    let (powers, logs) = (&TABLES.0, &TABLES.1);
    powers[logs[a as usize] as usize + logs[b as usize] as usize]
}

/// What gives 1 with `a`, which is not 0.
pub const fn inverse(a: u8) -> u8 {
    assert!(a != 0, "0 has no inverse");
    TABLES.0[255 - TABLES.1[a as usize] as usize]
}

/// Products of `a` with the sixteen lower and the sixteen upper halves of a byte: the product with
/// any byte is the sum of two of them.
pub const fn halves(a: u8) -> ([u8; 16], [u8; 16]) {
    let (mut low, mut high) = ([0; 16], [0; 16]);
    let mut n = 0;
    while n < 16 {
        low[n] = product(a, n as u8);
        high[n] = product(a, (n as u8) << 4);
        n += 1;
    }
    (low, high)
}

/// The Cauchy matrix whose entry for parity `j` and member `i` is 1 / (x + y), with x = `j` and
/// y = 4 + `i`, each column divided by its first entry (Blömer et al., "An XOR-based
/// erasure-resilient coding scheme", 1995).
const COEFFICIENTS: [[u8; MEMBERS_MAX]; PARITIES_MAX] = {
    let mut matrix = [[0; MEMBERS_MAX]; PARITIES_MAX];
    let mut j = 0;
    while j < PARITIES_MAX {
        let mut i = 0;
        while i < MEMBERS_MAX {
            let y = (PARITIES_MAX + i) as u8;
            matrix[j][i] = product(y, inverse(j as u8 ^ y));
            i += 1;
        }
        j += 1;
    }
    matrix
};

/// How often member `member` is in parity `parity`: parity 0 is plain XOR.
///
/// # Panics
/// Beyond [`MEMBERS_MAX`] or [`PARITIES_MAX`].
pub const fn coefficient(parity: usize, member: usize) -> u8 {
    COEFFICIENTS[parity][member]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As on paper: shift, add, reduce.
    fn by_hand(mut a: u8, mut b: u8) -> u8 {
        let mut sum = 0;
        while b != 0 {
            sum ^= if b & 1 == 0 { 0 } else { a };
            a = a << 1 ^ if a & 0x80 == 0 { 0 } else { REDUCED };
            b >>= 1;
        }
        sum
    }

    #[test]
    fn products_are_those_of_the_polynomials_and_every_element_but_0_has_an_inverse() {
        for a in 0..=255 {
            let (low, high) = halves(a);
            for b in 0..=255 {
                assert_eq!(product(a, b), by_hand(a, b), "{a} times {b}");
                let sum = low[usize::from(b & 15)] ^ high[usize::from(b >> 4)];
                assert_eq!(product(a, b), sum, "{a} times {b} by halves");
            }
            if a != 0 {
                assert_eq!(product(a, inverse(a)), 1, "{a}");
            }
        }
        // FIPS 197, section 4.2.
        assert_eq!(product(0x57, 0x83), 0xc1);
    }

    #[test]
    fn the_first_parity_is_plain_xor_and_every_pair_of_parities_can_be_told_apart() {
        for i in 0..MEMBERS_MAX {
            assert_eq!(coefficient(0, i), 1);
            for j in 0..PARITIES_MAX {
                assert_ne!(coefficient(j, i), 0);
            }
        }
        // Every 2 × 2 part can be inverted; larger ones are tried by the decoder's tests.
        for (a, b) in (0..PARITIES_MAX).flat_map(|a| (0..a).map(move |b| (a, b))) {
            for (i, l) in (0..MEMBERS_MAX).flat_map(|i| (0..i).map(move |l| (i, l))) {
                let one = product(coefficient(a, i), coefficient(b, l));
                let other = product(coefficient(a, l), coefficient(b, i));
                assert_ne!(one, other, "parities {a} and {b}, members {i} and {l}");
            }
        }
    }
}
