//! The RTP header (RFC 3550 §5.1).

use thiserror::Error;
use towpath_wire::Instant;

/// Bytes of a header without contributors and extension.
pub const RTP_HEADER: usize = 12;
/// The payload type of MPEG transport streams (RFC 3551 table 5).
pub const PAYLOAD_TYPE: u8 = 33;

/// What stands before the payload. The byte map: version 2, padding 1, extension 1, contributors
/// 4; marker 1, payload type 7; sequence 16; timestamp 32; source 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// RFC 2250 §2: set where the timestamp is discontinuous.
    pub marker: bool,
    /// Below 128.
    pub payload_type: u8,
    /// Counts datagrams.
    pub sequence: u16,
    /// 90 kHz: when the first byte should leave.
    pub timestamp: u32,
    /// Whose numbers these are.
    pub ssrc: u32,
}

/// A datagram that is not RTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RtpError {
    /// Shorter than what it says.
    #[error("{len} bytes, its header needs {needs}")]
    Short {
        /// Its bytes.
        len: usize,
        /// Bytes of the header and what belongs to it.
        needs: usize,
    },
    /// Of another version.
    #[error("version {0}, not 2")]
    Version(u8),
    /// The last byte says how much padding there is: none, or more than there are bytes.
    #[error("{0} bytes of padding")]
    Padding(u8),
}

impl Header {
    /// Its bytes.
    pub fn emit(&self) -> [u8; RTP_HEADER] {
        let mut out = [0; RTP_HEADER];
        out[0] = 2 << 6;
        out[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7F;
        out[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        out[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        out[8..].copy_from_slice(&self.ssrc.to_be_bytes());
        out
    }

    /// Reads a datagram: the header and its payload.
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), RtpError> {
        let len = datagram.len();
        let fixed: &[u8; RTP_HEADER] =
            datagram.first_chunk().ok_or(RtpError::Short { len, needs: RTP_HEADER })?;
        if fixed[0] >> 6 != 2 {
            return Err(RtpError::Version(fixed[0] >> 6));
        }
        let mut start = RTP_HEADER + 4 * usize::from(fixed[0] & 0x0F);
        if fixed[0] & 0x10 != 0 {
            let words = datagram.get(start + 2..start + 4);
            let words = words.ok_or(RtpError::Short { len, needs: start + 4 })?;
            start += 4 + 4 * usize::from(u16::from_be_bytes([words[0], words[1]]));
        }
        let payload = datagram.get(start..).ok_or(RtpError::Short { len, needs: start })?;
        let padding = if fixed[0] & 0x20 == 0 { 0 } else { payload.last().copied().unwrap_or(0) };
        if fixed[0] & 0x20 != 0 && (padding == 0 || usize::from(padding) > payload.len()) {
            return Err(RtpError::Padding(padding));
        }
        let header = Self {
            marker: fixed[1] & 0x80 != 0,
            payload_type: fixed[1] & 0x7F,
            sequence: u16::from_be_bytes([fixed[2], fixed[3]]),
            timestamp: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            ssrc: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
        };
        Ok((header, &payload[..payload.len() - usize::from(padding)]))
    }
}

/// Numbers a stream's datagrams. Where its numbers begin is drawn by its owner (RFC 3550 §5.1).
#[derive(Clone, Copy, Debug)]
pub struct Numbering {
    ssrc: u32,
    sequence: u16,
    offset: u32,
    packets: u32,
    octets: u32,
}

impl Numbering {
    /// From what was drawn: three numbers that nobody guesses.
    pub const fn new(ssrc: u32, sequence: u16, offset: u32) -> Self {
        Self { ssrc, sequence, offset, packets: 0, octets: 0 }
    }

    /// The header of the next datagram, of `len` bytes, due at `at`.
    pub fn next(&mut self, at: Instant, len: usize) -> Header {
        let header = Header {
            marker: false,
            payload_type: PAYLOAD_TYPE,
            sequence: self.sequence,
            timestamp: self.timestamp(at),
            ssrc: self.ssrc,
        };
        self.sequence = self.sequence.wrapping_add(1);
        self.packets = self.packets.wrapping_add(1);
        self.octets = self.octets.wrapping_add(len as u32);
        header
    }

    /// An instant by the stream's clock of 90 kHz.
    pub fn timestamp(&self, at: Instant) -> u32 {
        let ticks = u128::from(at.as_nanos()) * 9 / 100_000;
        (ticks as u32).wrapping_add(self.offset)
    }

    /// Whose numbers these are.
    pub const fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// The next datagram's number.
    pub const fn sequence(&self) -> u16 {
        self.sequence
    }

    /// Datagrams and bytes so far, as a report tells them: they wrap.
    pub const fn sent(&self) -> (u32, u32) {
        (self.packets, self.octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use proptest::prelude::*;

    #[test]
    fn datagrams_are_numbered_and_timed_from_what_was_drawn_and_wrap() {
        let mut numbering = Numbering::new(0xDEAD, 0xFFFE, u32::MAX - 89_999);
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let header = |sequence, timestamp| Header {
            marker: false,
            payload_type: PAYLOAD_TYPE,
            sequence,
            timestamp,
            ssrc: 0xDEAD,
        };
        assert_eq!(numbering.next(at(500), 1316), header(0xFFFE, u32::MAX - 44_999));
        assert_eq!((numbering.sequence(), numbering.sent()), (0xFFFF, (1, 1316)));
        assert_eq!(numbering.next(at(1000), 188), header(0xFFFF, 0));
        assert_eq!(numbering.next(at(3000), 0), header(0, 180_000));
        assert_eq!((numbering.sequence(), numbering.sent()), (1, (3, 1504)));
        assert_eq!(numbering.ssrc(), 0xDEAD);
        // 90 ticks a millisecond: parts of a tick are dropped.
        let plain = Numbering::new(0, 0, 0);
        let ticks = |ns| plain.timestamp(Instant::ZERO + Duration::from_nanos(ns));
        assert_eq!([11_111, 11_112, 1_000_000].map(ticks), [0, 1, 90]);
    }

    #[test]
    fn what_stands_between_header_and_payload_is_passed() {
        let header = Header { marker: true, payload_type: 33, sequence: 7, timestamp: 9, ssrc: 11 };
        let mut datagram = header.emit().to_vec();
        datagram[0] |= 0x30 | 2;
        datagram.extend([0; 8]);
        datagram.extend([0xBE, 0xDE, 0, 1, 1, 2, 3, 4]);
        datagram.extend([b'x', b'y', 0, 0, 3]);
        assert_eq!(Header::parse(&datagram), Ok((header, &b"xy"[..])));
        let end = datagram.len() - 1;
        datagram[end] = 6;
        assert_eq!(Header::parse(&datagram), Err(RtpError::Padding(6)));
        datagram[end] = 0;
        assert_eq!(Header::parse(&datagram), Err(RtpError::Padding(0)));
        assert_eq!(Header::parse(&datagram[..21]), Err(RtpError::Short { len: 21, needs: 24 }));
        assert_eq!(Header::parse(&datagram[..26]), Err(RtpError::Short { len: 26, needs: 28 }));
        assert_eq!(Header::parse(&[0; 12]), Err(RtpError::Version(0)));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(
            marker: bool, payload_type in 0u8..128, sequence: u16, timestamp: u32, ssrc: u32,
            payload in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let header = Header { marker, payload_type, sequence, timestamp, ssrc };
            let datagram = [&header.emit()[..], &payload].concat();
            prop_assert_eq!(Header::parse(&datagram), Ok((header, &payload[..])));
        }

        #[test]
        fn any_bytes_are_rtp_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok((_, payload)) = Header::parse(&bytes) {
                prop_assert!(payload.len() + RTP_HEADER <= bytes.len());
            }
        }
    }

    #[test]
    fn what_a_header_claims_must_be_there() {
        let fixed = |first: u8| [first, 0xA1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        let read = |first: u8, rest: &[u8]| {
            let datagram = [&fixed(first)[..], rest].concat();
            Header::parse(&datagram).map(|(header, payload)| (header, payload.to_vec()))
        };
        let (header, payload) = read(0x80, &[7]).unwrap();
        assert_eq!((header.marker, header.payload_type, header.sequence), (true, 33, 0x0102));
        assert_eq!((header.timestamp, header.ssrc), (0x0304_0506, 0x0708_090A));
        assert_eq!(payload, [7]);
        assert_eq!(Header::parse(&fixed(0x80)[..11]), Err(RtpError::Short { len: 11, needs: 12 }));
        assert_eq!(read(0x40, &[]), Err(RtpError::Version(1)));
        // Two sources of a mixer.
        assert_eq!(read(0x82, &[0; 8]).map(|(_, payload)| payload.len()), Ok(0));
        assert_eq!(read(0x82, &[0; 7]), Err(RtpError::Short { len: 19, needs: 20 }));
        // An extension of one word.
        assert_eq!(read(0x90, &[0, 0, 0]), Err(RtpError::Short { len: 15, needs: 16 }));
        assert_eq!(read(0x90, &[9, 9, 0, 1, 0, 0, 0]), Err(RtpError::Short { len: 19, needs: 20 }));
        assert_eq!(
            read(0x90, &[9, 9, 0, 1, 0, 0, 0, 0, 5]).map(|(_, payload)| payload),
            Ok(std::vec![5])
        );
        // Padding: its length is its last byte.
        assert_eq!(read(0xA0, &[5, 0, 2]).map(|(_, payload)| payload), Ok(std::vec![5]));
        assert_eq!(read(0xA0, &[0, 2]).map(|(_, payload)| payload.len()), Ok(0), "all of it");
        for (rest, padding) in [(&[5, 3][..], 3), (&[5, 0], 0), (&[], 0)] {
            assert_eq!(read(0xA0, rest), Err(RtpError::Padding(padding)));
        }
    }
}
