//! Clock references by the byte map of the standard, apart from the reader.

/// Bytes of a packet.
pub(crate) const PACKET: usize = 188;

/// Packet number and 27 MHz ticks of each.
pub(crate) fn pcrs(bytes: &[u8]) -> std::vec::Vec<(u64, u64)> {
    let packets = bytes.chunks_exact(PACKET).enumerate();
    let with_pcr = packets.filter(|(_, p)| p[3] & 0x20 != 0 && p[4] > 0 && p[5] & 0x10 != 0);
    with_pcr
        .map(|(i, p)| {
            let field = p[6..12].iter().fold(0_u64, |value, &b| value << 8 | u64::from(b));
            (i as u64, (field >> 15) * 300 + (field & 0x1FF))
        })
        .collect()
}
