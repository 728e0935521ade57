//! CRC-32C (Castagnoli, reflected; RFC 3720, appendix B.4): finds every burst of up to 32 bits, and
//! with it every changed byte.

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let (mut crc, mut bit) = (n as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { 0x82f6_3b78 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
}

static TABLE: [u32; 256] = table();

/// The checksum of bytes that follow on bytes whose checksum is `before`; 0 for the first.
pub fn crc32c(before: u32, bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8);
    !bytes.iter().fold(!before, step)
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn the_values_of_the_rfc() {
        assert_eq!(crc32c(0, &[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(0, &[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(crc32c(0, b"12345"), b"6789"), 0xe306_9283);
    }
}
