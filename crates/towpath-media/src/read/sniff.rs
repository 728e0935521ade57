//! What a file is, from its first bytes.

use super::event::Format;
use super::start_code;

/// Bytes that are looked at; a file that shows nothing in them is unknown.
pub(super) const PROBE: usize = 1 << 16;

/// Packets in a row that must start right; a shorter file must be right throughout.
const PACKETS: usize = 5;
const SYNC: u8 = 0x47;

/// What a file is by its first bytes, best 64 KiB of them; `None` if it is none of these.
pub fn detect(bytes: &[u8]) -> Option<Format> {
    sniff(&bytes[..bytes.len().min(PROBE)]).map(|(format, _)| format)
}

/// The name of a container of video or sound that is known but not read, by its first bytes.
pub fn unsupported_container(bytes: &[u8]) -> Option<&'static str> {
    // Types of the first box (ISO/IEC 14496-12 §4.3; the others: QuickTime without one).
    if let Some(b"ftyp" | b"styp" | b"moov" | b"mdat" | b"moof" | b"wide") = bytes.get(4..8) {
        return Some("MP4/MOV");
    }
    // DocType of the EBML header (RFC 8794 §11.2.8).
    if bytes.starts_with(&[0x1A, 0x45, 0xDF, 0xA3]) {
        let header = &bytes[..bytes.len().min(64)];
        let webm = header.windows(4).any(|word| word == b"webm");
        return Some(if webm { "WebM" } else { "Matroska" });
    }
    let starts: [(&[u8], &str); 7] = [
        (b"FLV\x01", "FLV"),
        (b"OggS", "Ogg"),
        (b"fLaC", "FLAC"),
        (b"ID3", "MP3"),
        (b"\x30\x26\xB2\x75\x8E\x66\xCF\x11", "ASF/WMV"),
        (b"\x06\x0E\x2B\x34\x02\x05\x01\x01", "MXF"),
        (b"\x00\x00\x00\x0CjP  ", "JPEG 2000"),
    ];
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WAVE") {
        return Some("WAV");
    }
    starts.iter().find(|(start, _)| bytes.starts_with(start)).map(|&(_, name)| name)
}

/// A format and the bytes before its first packet.
pub(super) fn sniff(bytes: &[u8]) -> Option<(Format, usize)> {
    if unsupported_container(bytes).is_some() {
        return None;
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"AVI ") {
        return Some((Format::Avi, 0));
    }
    if bytes.starts_with(&[0xFF, 0xD8, 0xFF]) {
        return Some((Format::Mjpeg, 0));
    }
    if bytes.starts_with(&[0, 0, 1, 0xBA]) {
        return Some((Format::ProgramStream, 0));
    }
    transport(bytes).or_else(|| Some((start_codes(bytes)?, 0)))
}

/// The rhythm that starts first.
fn transport(bytes: &[u8]) -> Option<(Format, usize)> {
    for lead in 0..bytes.len() {
        if bytes[lead] != SYNC {
            continue;
        }
        for format in [Format::Ts188, Format::Ts192, Format::Ts204] {
            let stride = format.packet_stride()?;
            let mut starts = bytes[lead..].iter().step_by(stride).take(PACKETS);
            let whole = starts.len() == PACKETS || lead < stride && bytes.len() - lead >= 188;
            if whole && starts.all(|&b| b == SYNC) {
                return Some((format, lead));
            }
        }
    }
    None
}

/// The first start code that says what it is of.
fn start_codes(bytes: &[u8]) -> Option<Format> {
    let mut from = 0;
    while let Some(next) = start_code::find(bytes, from) {
        match bytes.get(next..)? {
            [0xBA, ..] => return Some(Format::ProgramStream),
            [0xB3, ..] => return Some(Format::MpegVideo),
            // Video parameter set, sequence parameter set, delimiter: layer 0, temporal id 1.
            [0x40 | 0x42 | 0x46, 0x01, ..] => return Some(Format::Hevc),
            // Sequence parameter set with any reference priority but 0; delimiter with 0.
            [0x27 | 0x47 | 0x67, ..]
            | [0x09, 0x10 | 0x30 | 0x50 | 0x70 | 0x90 | 0xB0 | 0xD0 | 0xF0, ..] => {
                return Some(Format::H264);
            }
            _ => from = next,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn a_rhythm_is_found_behind_what_does_not_belong() {
        let mut bytes = vec![0x55; 300];
        for i in 0..6 {
            let mut packet = vec![0; 204];
            packet[0] = if i == 0 { 0x46 } else { SYNC };
            bytes.extend(packet);
        }
        assert_eq!(sniff(&bytes), Some((Format::Ts204, 504)));
    }

    #[test]
    fn one_packet_is_a_transport_stream_but_one_byte_is_not() {
        let mut packet = vec![SYNC];
        assert_eq!(sniff(&packet), None);
        packet.resize(188, 0);
        assert_eq!(sniff(&packet), Some((Format::Ts188, 0)));
    }

    /// Their payload may well hold what a transport or an elementary stream begins with.
    #[test]
    fn containers_that_are_not_read_are_named() {
        let cases: [(&[u8], &str); 6] = [
            (b"\0\0\0\x20ftypisom", "MP4/MOV"),
            (b"\x1A\x45\xDF\xA3\x9F\x42\x82\x84webm", "WebM"),
            (b"\x1A\x45\xDF\xA3\x9F\x42\x82\x88matroska", "Matroska"),
            (b"FLV\x01\x05", "FLV"),
            (b"OggS\0\x02", "Ogg"),
            (b"RIFF\x24\0\0\0WAVEfmt ", "WAV"),
        ];
        for (start, name) in cases {
            let mut file = start.to_vec();
            file.extend([0, 0, 0, 1, 0x67, 0x42, 0, 0, 1, 0xB3]);
            assert_eq!((sniff(&file), unsupported_container(&file)), (None, Some(name)));
        }
        assert_eq!(unsupported_container(b"RIFF\x24\0\0\0AVI LIST"), None);
        assert_eq!(unsupported_container(&[0, 0, 1, 0xBA, 0x21, 0, 0, 0]), None);
    }

    #[test]
    fn start_codes_tell_elementary_streams() {
        assert_eq!(sniff(&[9, 0, 0, 1, 0xB3, 1]), Some((Format::MpegVideo, 0)));
        assert_eq!(sniff(&[0, 0, 0, 1, 0x09, 0xF0]), Some((Format::H264, 0)));
        assert_eq!(sniff(&[0, 0, 0, 1, 0x67, 0x42]), Some((Format::H264, 0)));
        assert_eq!(sniff(&[0, 0, 0, 1, 0x40, 0x01]), Some((Format::Hevc, 0)));
        assert_eq!(sniff(b"PK\x03\x04 a zip file"), None);
        assert_eq!(sniff(&[]), None);
    }
}
