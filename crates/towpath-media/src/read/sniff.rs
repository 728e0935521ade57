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

/// A format and the bytes before its first packet.
pub(super) fn sniff(bytes: &[u8]) -> Option<(Format, usize)> {
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
