//! Pieces of tasks' messages between daemons, on the channels [`crate::message::LABEL_SMALL`] and
//! [`crate::message::LABEL_DATA`].
//!
//! ```text
//! one receiver    0..2 kind 64 | header (56) | payload
//! several         0..2 kind 65 | 2..4 count n | n × (dst u64, seq u32) | header (56) | payload
//! placed          0..2 kind 66 | 2..10 number | 10..12 count n | n × (dst u64, seq u32, at u32)
//!                 | header (56) | payload
//! continued       0..2 kind 67 | 2..10 number | 10..18 src u64 | 18..20 back u16
//!                 | 20..24 shift u32 | payload
//! ```
//! Other kinds are [`crate::Message`]s, in order with short messages. In the second and third form,
//! `dst` and `seq` of the header mean nothing. In the third, `at` is the place of the piece among
//! all that its sender sends its receiver by the daemons: charged bytes before it, modulo 2^32.
//! `number` is that of a piece whose receivers may be on several hosts, which pass it on; 0 when
//! it goes no further. The top bit of n says that the piece goes on in the middle of one that was
//! charged as a whole: it costs its payload only. The fourth form is such a piece for the receivers
//! of piece `number` − `back` of the same sender's daemon, which came by the same host in the third
//! form: `shift` charged bytes further on.

use alloc::vec::Vec;

use towpath_wire::TaskId;
use towpath_wire::bytes::{ParseError, Reader};
use towpath_wire::talk::{HEADER_LEN, Header, MULTICAST_MAX};

const KIND_ONE: u16 = 64;
const KIND_SEVERAL: u16 = 65;
const KIND_PLACED: u16 = 66;
const KIND_CONTINUED: u16 = 67;
const RECEIVER_LEN: usize = 12;
/// Length of a receiver of a piece with a place, in bytes.
pub const PLACED_LEN: usize = 16;
const GOES_ON: u16 = 1 << 15;

/// Messages of at most so many bytes do not wait behind longer ones.
pub const SMALL_MAX: u64 = 16 << 10;

/// Which of two channels a message goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Short messages, at most [`SMALL_MAX`].
    Small,
    /// Longer ones, and what goes along chains of hosts.
    Bulk,
}

impl Class {
    /// That of a message of `total` bytes.
    pub const fn of(total: u64) -> Self {
        if total <= SMALL_MAX { Self::Small } else { Self::Bulk }
    }
}

/// What stands in front of a piece for one receiver.
pub const FRONT_ONE: [u8; 2] = KIND_ONE.to_le_bytes();

/// A piece that came from another daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its header.
    pub header: Header,
    /// Who gets it.
    pub to: To,
    /// Where its payload begins.
    pub at: usize,
}

/// Who gets a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// `dst` of its header.
    One,
    /// This one, with the number of the message, at this place among its pair's pieces.
    At(TaskId, u32, u32),
    /// These, with the number of the message for each.
    Several(Vec<(TaskId, u32)>),
    /// These, at a place of their own, perhaps on several hosts.
    Placed(Placed),
}

/// What stands in front of the payload of a piece that goes on where another one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continued {
    /// Its sender's daemon's number for it.
    pub number: u64,
    /// The sender.
    pub src: TaskId,
    /// The piece that says whom it is for and what it is part of has a number so much less.
    pub back: u16,
    /// Charged bytes from the beginning of that piece to this one.
    pub shift: u32,
}

impl Continued {
    /// Its length in bytes.
    pub const LEN: usize = 24;

    /// Its bytes.
    pub fn front(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::LEN);
        out.extend(KIND_CONTINUED.to_le_bytes());
        out.extend(self.number.to_le_bytes());
        out.extend(self.src.to_raw().to_le_bytes());
        out.extend(self.back.to_le_bytes());
        out.extend(self.shift.to_le_bytes());
        out
    }

    /// Takes one apart; the payload stands behind [`Continued::LEN`] bytes. `None`: it is none.
    pub fn parse(bytes: &[u8]) -> Option<Result<Self, ParseError>> {
        let (kind, rest) = bytes.split_first_chunk::<2>()?;
        (u16::from_le_bytes(*kind) == KIND_CONTINUED).then(|| {
            let mut r = Reader::new(rest);
            let (number, src) = (r.u64()?, receiver(&mut r)?);
            Ok(Self { number, src, back: r.u16()?, shift: r.u32()? })
        })
    }
}

impl To {
    /// What stands in front of the header.
    ///
    /// # Panics
    /// With more than [`MULTICAST_MAX`] receivers.
    pub fn front(&self) -> Vec<u8> {
        match self {
            Self::One => FRONT_ONE.to_vec(),
            Self::At(task, seq, at) => front_at(*task, *seq, *at).to_vec(),
            Self::Several(receivers) => front_several(receivers),
            Self::Placed(placed) => placed.front(),
        }
    }
}

/// Length of [`front_at`].
pub const FRONT_AT_LEN: usize = 12 + PLACED_LEN;

/// What stands in front of the header of a whole piece for one receiver, at a place: the third form
/// for one task.
pub fn front_at(task: TaskId, seq: u32, at: u32) -> [u8; FRONT_AT_LEN] {
    let mut out = [0; FRONT_AT_LEN];
    out[..2].copy_from_slice(&KIND_PLACED.to_le_bytes());
    out[10..12].copy_from_slice(&1_u16.to_le_bytes());
    out[12..20].copy_from_slice(&task.to_raw().to_le_bytes());
    out[20..24].copy_from_slice(&seq.to_le_bytes());
    out[24..].copy_from_slice(&at.to_le_bytes());
    out
}

/// Takes [`front_at`] apart, which stands behind the kind; `None`: it is for several, or passed on.
fn parse_at(rest: &[u8]) -> Option<Result<(To, &[u8]), ParseError>> {
    let (front, rest) = rest.split_first_chunk::<{ FRONT_AT_LEN - 2 }>()?;
    (front[..10] == [0, 0, 0, 0, 0, 0, 0, 0, 1, 0]).then(|| {
        let mut r = Reader::new(&front[10..]);
        Ok((To::At(receiver(&mut r)?, r.u32()?, r.u32()?), rest))
    })
}

/// A piece with its place among all of its pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its sender's daemon's number for it; 0: it is not passed on.
    pub number: u64,
    /// It is the middle or end of what was charged as one piece.
    pub goes_on: bool,
    /// Receivers, the number of the message for each, and the place among its pair's pieces.
    pub receivers: Vec<(TaskId, u32, u32)>,
}

impl Placed {
    /// A whole piece for tasks of one host, which does not pass it on.
    pub const fn straight(receivers: Vec<(TaskId, u32, u32)>) -> Self {
        Self { number: 0, goes_on: false, receivers }
    }

    /// What stands in front of the header.
    ///
    /// # Panics
    /// With more than [`MULTICAST_MAX`] receivers.
    pub fn front(&self) -> Vec<u8> {
        let receivers = &self.receivers;
        assert!(receivers.len() <= MULTICAST_MAX, "{} receivers", receivers.len());
        let mut out = Vec::with_capacity(12 + receivers.len() * PLACED_LEN);
        out.extend(KIND_PLACED.to_le_bytes());
        out.extend(self.number.to_le_bytes());
        let flag = if self.goes_on { GOES_ON } else { 0 };
        out.extend((receivers.len() as u16 | flag).to_le_bytes());
        for (task, seq, at) in receivers {
            out.extend(task.to_raw().to_le_bytes());
            out.extend(seq.to_le_bytes());
            out.extend(at.to_le_bytes());
        }
        out
    }

    /// Takes apart what stands behind the kind; what is left is header and payload.
    fn parse(rest: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let mut r = Reader::new(rest);
        let number = r.u64()?;
        let count = r.u16()?;
        let (goes_on, count) = (count & GOES_ON != 0, count & !GOES_ON);
        let count = receiver_count(count)?;
        let mut receivers = Vec::with_capacity(count.min(rest.len() / PLACED_LEN));
        for _ in 0..count {
            receivers.push((receiver(&mut r)?, r.u32()?, r.u32()?));
        }
        Ok((Self { number, goes_on, receivers }, &rest[10 + count * PLACED_LEN..]))
    }
}

fn receiver_count(count: u16) -> Result<usize, ParseError> {
    let count = usize::from(count);
    if count > MULTICAST_MAX {
        let (value, limit) = (count as u64, MULTICAST_MAX as u64);
        return Err(ParseError::Limit { field: "receivers", value, limit });
    }
    Ok(count)
}

fn receiver(r: &mut Reader<'_>) -> Result<TaskId, ParseError> {
    let value = r.u64()?;
    TaskId::try_from(value).map_err(|_| ParseError::Unknown { field: "dst", value })
}

/// What stands in front of the header of a piece for several receivers.
///
/// # Panics
/// With more than [`MULTICAST_MAX`] receivers.
pub fn front_several(receivers: &[(TaskId, u32)]) -> Vec<u8> {
    assert!(receivers.len() <= MULTICAST_MAX, "{} receivers", receivers.len());
    let mut out = Vec::with_capacity(4 + receivers.len() * RECEIVER_LEN);
    out.extend(KIND_SEVERAL.to_le_bytes());
    out.extend((receivers.len() as u16).to_le_bytes());
    for (task, seq) in receivers {
        out.extend(task.to_raw().to_le_bytes());
        out.extend(seq.to_le_bytes());
    }
    out
}

/// Takes a message of the data channel apart; `None` when it is no piece but a
/// [`crate::Message`].
pub fn parse(bytes: &[u8]) -> Option<Result<Piece, ParseError>> {
    let (kind, rest) = bytes.split_first_chunk::<2>()?;
    match u16::from_le_bytes(*kind) {
        KIND_ONE => Some(split(rest).and_then(|parts| piece(bytes.len(), parts, To::One))),
        KIND_SEVERAL => Some(
            Multicast::parse(rest)
                .and_then(|m| piece(bytes.len(), (m.header, m.payload), To::Several(m.receivers))),
        ),
        KIND_PLACED if let Some(at) = parse_at(rest) => {
            Some(at.and_then(|(to, rest)| piece(bytes.len(), split(rest)?, to)))
        }
        KIND_PLACED => Some(
            Placed::parse(rest)
                .and_then(|(placed, rest)| piece(bytes.len(), split(rest)?, To::Placed(placed))),
        ),
        _ => None,
    }
}

/// A piece for several receivers as a task hands it to its daemon, and as it stands behind the
/// kind between daemons: `0..2 count n | n × (dst u64, seq u32) | header (56) | payload`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multicast<'a> {
    /// Who gets it, at most [`MULTICAST_MAX`].
    pub receivers: Vec<(TaskId, u32)>,
    /// The header's bytes.
    pub header: &'a [u8; HEADER_LEN],
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> Multicast<'a> {
    /// Takes one apart.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(bytes);
        let count = receiver_count(r.u16()?)?;
        let mut receivers = Vec::with_capacity(count.min(bytes.len() / RECEIVER_LEN));
        for _ in 0..count {
            receivers.push((receiver(&mut r)?, r.u32()?));
        }
        let (header, payload) = split(&bytes[2 + count * RECEIVER_LEN..])?;
        Ok(Self { receivers, header, payload })
    }
}

fn split(rest: &[u8]) -> Result<(&[u8; HEADER_LEN], &[u8]), ParseError> {
    let (value, limit) = (rest.len() as u64, HEADER_LEN as u64);
    rest.split_first_chunk().ok_or(ParseError::Limit { field: "length", value, limit })
}

fn piece(
    len: usize,
    (header, payload): (&[u8; HEADER_LEN], &[u8]),
    to: To,
) -> Result<Piece, ParseError> {
    let header = Header::parse(header)?;
    check(&header, payload.len())?;
    Ok(Piece { header, to, at: len - payload.len() })
}

/// A payload of `len` bytes lies within the message that its header speaks of.
pub const fn check(header: &Header, len: usize) -> Result<(), ParseError> {
    let room = header.total - header.offset;
    if len as u64 > room {
        return Err(ParseError::Limit { field: "payload", value: len as u64, limit: room });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use towpath_wire::HostId;

    fn task(n: u32) -> TaskId {
        HostId::new(3, 1).unwrap().task(n).unwrap()
    }

    fn header(total: u64, offset: u64) -> Header {
        let (src, dst) = (task(1), task(2));
        Header { src, dst, tag: 1, context: 0, seq: 0, format: 0, total, offset }
    }

    #[test]
    fn every_form_comes_back() {
        let h = header(10, 4);
        let one = [&FRONT_ONE[..], &h.emit(), b"abc"].concat();
        let piece = Piece { header: h, to: To::One, at: 2 + HEADER_LEN };
        assert_eq!(parse(&one), Some(Ok(piece)));
        let to = vec![(task(7), 1), (task(9), u32::MAX)];
        let several = [&front_several(&to)[..], &h.emit(), b"abcdef"].concat();
        let piece = Piece { header: h, to: To::Several(to), at: 4 + 24 + HEADER_LEN };
        assert_eq!(parse(&several), Some(Ok(piece)));
        let receivers = vec![(task(7), 1, 2), (task(9), u32::MAX, 1 << 31)];
        let placed = Placed { number: 1 << 40, goes_on: true, receivers };
        let bytes = [&placed.front()[..], &h.emit(), b"abcdef"].concat();
        let piece = Piece { header: h, to: To::Placed(placed), at: 12 + 32 + HEADER_LEN };
        assert_eq!(parse(&bytes), Some(Ok(piece)));
    }

    #[test]
    fn a_payload_beyond_its_message_is_an_error() {
        let bytes = [&FRONT_ONE[..], &header(10, 8).emit(), b"abc"].concat();
        assert!(matches!(parse(&bytes), Some(Err(ParseError::Limit { field: "payload", .. }))));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_piece_or_an_error(kind in 63..69u16, body: Vec<u8>) {
            let bytes = [&kind.to_le_bytes()[..], &body].concat();
            if let Some(Ok(continued)) = Continued::parse(&bytes) {
                prop_assert_eq!(&continued.front()[..], &bytes[..Continued::LEN]);
            }
            if let Some(Ok(piece)) = parse(&bytes) {
                let front = piece.to.front();
                let again = [&front[..], &piece.header.emit(), &bytes[piece.at..]].concat();
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
