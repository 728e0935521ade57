//! Program association and program map (§2.4.4.3, §2.4.4.8).

use crate::read::event::Codec;

pub(super) const PAT_PID: u16 = 0;
pub(super) const PAT_TABLE: u8 = 0;
pub(super) const MAP_TABLE: u8 = 2;

/// The header that both have: id, version, whether it is in force; without the CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table<'a> {
    /// `program_number` of a map, `transport_stream_id` of an association.
    pub(super) id: u16,
    pub(super) version: u8,
    /// In force now, not only later.
    pub(super) current: bool,
    pub(super) body: &'a [u8],
}

/// Bytes before the body.
const HEAD: usize = 8;
const CRC: usize = 4;

/// `None` if it is too short.
pub(super) fn table(section: &[u8]) -> Option<Table<'_>> {
    let body = section.get(HEAD..section.len().checked_sub(CRC)?)?;
    Some(Table {
        id: u16::from_be_bytes([section[3], section[4]]),
        version: section[5] >> 1 & 0x1F,
        current: section[5] & 1 == 1,
        body,
    })
}

/// Program numbers with the PIDs of their maps; program 0 is the network table's PID.
pub(super) fn associations(body: &[u8]) -> impl Iterator<Item = (u16, u16)> {
    body.chunks_exact(4)
        .map(|c| (u16::from_be_bytes([c[0], c[1]]), u16::from_be_bytes([c[2], c[3]]) & 0x1FFF))
}

/// A stream of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapEntry {
    pub(super) stream_type: u8,
    pub(super) pid: u16,
    pub(super) codec: Codec,
}

/// PID of the clock and the streams; `None` if it is too short. A stream whose descriptors go
/// beyond the end is the last.
pub(super) fn map(body: &[u8]) -> Option<(u16, impl Iterator<Item = MapEntry>)> {
    let &[c1, c0, l1, l0, ref rest @ ..] = body else { return None };
    let descriptors = usize::from(u16::from_be_bytes([l1 & 0x0F, l0]));
    let mut entries = rest.get(descriptors..)?;
    let entries = core::iter::from_fn(move || {
        let &[stream_type, p1, p0, l1, l0, ref rest @ ..] = entries else { return None };
        let length = usize::from(u16::from_be_bytes([l1 & 0x0F, l0]));
        let (descriptors, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        entries = after;
        let codec = codec(stream_type, descriptors);
        Some(MapEntry { stream_type, pid: u16::from_be_bytes([p1 & 0x1F, p0]), codec })
    });
    Some((u16::from_be_bytes([c1 & 0x1F, c0]), entries))
}

/// By `stream_type` (table 2-34, ATSC A/53 and Blu-ray for 0x80 on), for private data by
/// descriptor (ETSI EN 300 468 §6.2).
pub(in crate::read) fn codec(stream_type: u8, mut descriptors: &[u8]) -> Codec {
    match stream_type {
        0x01 => Codec::Mpeg1Video,
        0x02 => Codec::Mpeg2Video,
        0x03 | 0x04 => Codec::MpegAudio,
        0x0F | 0x11 => Codec::Aac,
        0x10 => Codec::Mpeg4Video,
        0x1B => Codec::H264,
        0x24 => Codec::Hevc,
        0x81 | 0x87 => Codec::Ac3,
        0x06 => {
            while let &[tag, length, ref rest @ ..] = descriptors {
                let (content, after) = rest.split_at_checked(length.into()).unwrap_or((rest, &[]));
                match tag {
                    0x6A | 0x7A => return Codec::Ac3,
                    0x7C => return Codec::Aac,
                    0x05 if content.starts_with(b"HEVC") => return Codec::Hevc,
                    0x05 if content.starts_with(b"AC-3") => return Codec::Ac3,
                    _ => descriptors = after,
                }
            }
            Codec::Other
        }
        _ => Codec::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_are_told_by_type_or_for_private_data_by_descriptor() {
        use Codec::{Aac, Ac3, H264, Hevc, Mpeg1Video, Mpeg2Video, Mpeg4Video, MpegAudio, Other};
        for (stream_type, expected) in [
            (0x01, Mpeg1Video),
            (0x02, Mpeg2Video),
            (0x03, MpegAudio),
            (0x04, MpegAudio),
            (0x06, Other),
            (0x0F, Aac),
            (0x10, Mpeg4Video),
            (0x11, Aac),
            (0x1B, H264),
            (0x24, Hevc),
            (0x81, Ac3),
            (0x87, Ac3),
            (0x05, Other),
            (0x80, Other),
        ] {
            assert_eq!(codec(stream_type, &[0x0A, 0]), expected, "{stream_type:#x}");
            // Descriptors count for private data alone.
            assert_eq!(
                codec(stream_type, &[0x7C, 0]) == Aac,
                matches!(expected, Aac) || stream_type == 6
            );
        }
        for (descriptors, expected) in [
            (&[0x6A, 0][..], Ac3),
            (&[0x7A, 1, 9], Ac3),
            (&[0x7C, 1, 9], Aac),
            (&[0x05, 4, b'H', b'E', b'V', b'C'], Hevc),
            (&[0x05, 4, b'A', b'C', b'-', b'3'], Ac3),
            (&[0x05, 4, b'x', b'x', b'x', b'x'], Other),
            (&[0x0A, 2, 0x7C, 0, 0x6A, 0], Ac3),
            (&[0x0A, 2, 0x7C, 0], Other),
            (&[0x6A], Other),
            // A descriptor that is longer than what there is, is the last.
            (&[0x05, 9, b'H', b'E', b'V', b'C'], Hevc),
            (&[0x0A, 9, 0x7C, 0], Other),
        ] {
            assert_eq!(codec(6, descriptors), expected, "{descriptors:x?}");
        }
    }
}
