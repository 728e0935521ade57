//! Pieces of tasks' messages between daemons, on the channel [`crate::message::LABEL_DATA`].
//!
//! ```text
//! one receiver    0..2 kind 64 | header (48) | payload
//! several         0..2 kind 65 | 2..4 count n | n × (dst u64, seq u32) | header (48) | payload
//! ```
//! Other kinds are [`crate::Message`]s, in order with the data. In the second form, `dst` and
//! `seq` of the header mean nothing.

use alloc::vec::Vec;

use towpath_wire::TaskId;
use towpath_wire::bytes::{ParseError, Reader};
use towpath_wire::talk::{HEADER_LEN, Header, MULTICAST_MAX};

const KIND_ONE: u16 = 64;
const KIND_SEVERAL: u16 = 65;
const RECEIVER_LEN: usize = 12;

/// What stands in front of a piece for one receiver.
pub const FRONT_ONE: [u8; 2] = KIND_ONE.to_le_bytes();

/// A piece that came from another daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its header.
    pub header: Header,
    /// Receivers with their message numbers, when there are several.
    pub receivers: Option<Vec<(TaskId, u32)>>,
    /// Where its payload begins.
    pub at: usize,
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
        KIND_ONE => Some(piece(bytes.len(), rest, None)),
        KIND_SEVERAL => Some(several(bytes.len(), rest)),
        _ => None,
    }
}

fn several(len: usize, rest: &[u8]) -> Result<Piece, ParseError> {
    let mut r = Reader::new(rest);
    let count = usize::from(r.u16()?);
    if count > MULTICAST_MAX {
        let (value, limit) = (count as u64, MULTICAST_MAX as u64);
        return Err(ParseError::Limit { field: "receivers", value, limit });
    }
    let mut receivers = Vec::with_capacity(count.min(rest.len() / RECEIVER_LEN));
    for _ in 0..count {
        let value = r.u64()?;
        let task = TaskId::try_from(value);
        let task = task.map_err(|_| ParseError::Unknown { field: "dst", value })?;
        receivers.push((task, r.u32()?));
    }
    piece(len, &rest[2 + count * RECEIVER_LEN..], Some(receivers))
}

fn piece(
    len: usize,
    rest: &[u8],
    receivers: Option<Vec<(TaskId, u32)>>,
) -> Result<Piece, ParseError> {
    let Some((header, payload)) = rest.split_first_chunk::<HEADER_LEN>() else {
        return Err(ParseError::Limit {
            field: "length",
            value: rest.len() as u64,
            limit: HEADER_LEN as u64,
        });
    };
    let header = Header::parse(header)?;
    check(&header, payload.len())?;
    Ok(Piece { header, receivers, at: len - payload.len() })
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
    fn both_forms_come_back() {
        let h = header(10, 4);
        let one = [&FRONT_ONE[..], &h.emit(), b"abc"].concat();
        let piece = Piece { header: h, receivers: None, at: 50 };
        assert_eq!(parse(&one), Some(Ok(piece)));
        let to = vec![(task(7), 1), (task(9), u32::MAX)];
        let several = [&front_several(&to)[..], &h.emit(), b"abcdef"].concat();
        let piece = Piece { header: h, receivers: Some(to), at: 4 + 24 + 48 };
        assert_eq!(parse(&several), Some(Ok(piece)));
    }

    #[test]
    fn a_payload_beyond_its_message_is_an_error() {
        let bytes = [&FRONT_ONE[..], &header(10, 8).emit(), b"abc"].concat();
        assert!(matches!(parse(&bytes), Some(Err(ParseError::Limit { field: "payload", .. }))));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_piece_or_an_error(kind in 63..67u16, body: Vec<u8>) {
            let bytes = [&kind.to_le_bytes()[..], &body].concat();
            if let Some(Ok(piece)) = parse(&bytes) {
                prop_assert!(piece.at <= bytes.len());
            }
        }
    }
}
