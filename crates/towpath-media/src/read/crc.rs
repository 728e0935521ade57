//! CRC-32 of program-specific information (ISO/IEC 13818-1 Annex A): polynomial 0x04C11DB7, most
//! significant bit first, starting with ones, not inverted.

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc >> 31 == 1 { crc << 1 ^ 0x04C1_1DB7 } else { crc << 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// The remainder; zero over a section that ends with its own CRC.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, &b| crc << 8 ^ TABLE[((crc >> 24) as u8 ^ b) as usize])
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn the_catalogues_check_value() {
        assert_eq!(crc32(b"123456789"), 0x0376_E6E7); // CRC-32/MPEG-2
        assert_eq!(crc32(b"123456789\x03\x76\xE6\xE7"), 0);
    }
}
