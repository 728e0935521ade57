//! Bits of a header, most significant first. Past the end everything is zero and `overrun` tells.

/// Reads bits from a slice.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    skip_emulation: bool,
}

impl<'a> Bits<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, skip_emulation: false }
    }

    /// Of a NAL unit: a 3 after two zero bytes is not part of the payload (H.264 §7.4.1.1).
    pub(super) const fn of_nal(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, skip_emulation: true }
    }

    /// More bits were asked for than there are.
    pub(super) const fn overrun(&self) -> bool {
        self.at > self.bytes.len() * 8
    }

    pub(super) fn bit(&mut self) -> bool {
        if self.skip_emulation && self.at.is_multiple_of(8) {
            let byte = self.at / 8;
            if byte >= 2 && self.bytes.get(byte - 2..=byte) == Some(&[0, 0, 3]) {
                self.at += 8;
            }
        }
        let byte = self.bytes.get(self.at / 8).copied().unwrap_or(0);
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        bit == 1
    }

    /// Up to 32 bits.
    pub(super) fn bits(&mut self, n: u32) -> u32 {
        (0..n).fold(0, |value, _| value << 1 | u32::from(self.bit()))
    }

    pub(super) fn skip(&mut self, n: u32) {
        for _ in 0..n {
            self.bit();
        }
    }

    /// Unsigned Exp-Golomb code (H.264 §9.1); saturates at `u32::MAX`.
    pub(super) fn ue(&mut self) -> u32 {
        let mut zeros = 0;
        while zeros < 32 && self.at < self.bytes.len() * 8 && !self.bit() {
            zeros += 1;
        }
        if zeros == 32 {
            return u32::MAX;
        }
        (1_u32 << zeros) - 1 + self.bits(zeros)
    }

    /// Signed Exp-Golomb code (H.264 §9.1.1).
    pub(super) fn se(&mut self) -> i32 {
        let code = i64::from(self.ue());
        (if code % 2 == 1 { (code + 1) / 2 } else { -(code / 2) }) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golomb_codes_of_the_standards_table_9_2() {
        // 1, 010, 011, 00100, 00101 are 0 to 4; signed 0, 1, -1, 2, -2.
        let bytes = [0b1010_0110, 0b0100_0010, 0b1000_0000];
        let mut b = Bits::new(&bytes);
        assert_eq!([b.ue(), b.ue(), b.ue(), b.ue(), b.ue()], [0, 1, 2, 3, 4]);
        let mut b = Bits::new(&bytes);
        assert_eq!([b.se(), b.se(), b.se(), b.se(), b.se()], [0, 1, -1, 2, -2]);
        assert!(!b.overrun());
    }

    #[test]
    fn emulation_prevention_is_left_out() {
        let mut b = Bits::of_nal(&[0, 0, 3, 0x80, 0, 0, 3, 1]);
        assert_eq!(b.bits(24), 0x80);
        assert_eq!(b.bits(24), 1);
        assert!(!b.overrun());
        assert!(!b.bit());
        assert!(b.overrun());
    }

    #[test]
    fn endless_zeros_end() {
        assert_eq!(Bits::new(&[0; 3]).ue(), 0xFF_FFFF);
        assert_eq!(Bits::new(&[0; 40]).ue(), u32::MAX);
        assert_eq!(Bits::new(&[]).ue(), 0);
    }
}
