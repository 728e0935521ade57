//! The program stream map (ISO/IEC 13818-1 §2.5.4): which codec a stream id has.

use alloc::vec::Vec;

use super::event::Codec;
use super::ts;

/// Stream id, `stream_type` and codec of each entry, given the bytes after the length field. A map
/// that ends early tells what it tells.
pub(super) fn parse(map: &[u8]) -> Vec<(u8, u8, Codec)> {
    let mut entries = Vec::new();
    let Some((_, mut rest)) = after_length(map.get(2..)) else { return entries };
    rest = rest.get(2..).unwrap_or_default();
    // The last four bytes are the CRC.
    while let &[stream_type, id, ref more @ ..] = rest
        && rest.len() > 4
        && entries.len() < 256
    {
        let Some((descriptors, after)) = after_length(Some(more)) else { break };
        entries.push((id, stream_type, ts::codec(stream_type, descriptors)));
        rest = after;
    }
    entries
}

/// Splits off what a 16-bit length at the front counts.
fn after_length(bytes: Option<&[u8]>) -> Option<(&[u8], &[u8])> {
    let &[l1, l0, ref rest @ ..] = bytes? else { return None };
    rest.split_at_checked(u16::from_be_bytes([l1, l0]).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_streams_and_a_crc() {
        let map = [0xE1, 0xFF, 0, 0, 0, 9, 0x1B, 0xE0, 0, 1, 9, 0x03, 0xC0, 0, 0, 1, 2, 3, 4];
        let found = [(0xE0, 0x1B, Codec::H264), (0xC0, 0x03, Codec::MpegAudio)];
        assert_eq!(parse(&map), found);
        assert_eq!(parse(&map[..9]), []);
    }
}
