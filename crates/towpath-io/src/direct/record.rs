//! Byte map of records.
//!
//! ```text
//! record  0..4 len of the content | 4 kind | 5..8 zero | 8..8+len content, sealed
//!         (authenticated with it: the head)
//! kinds   0 more may come | 1 the last one with pieces from this side
//! content 0..8 taken | piece * | 16 tag
//! piece   0..4 len of the payload | 4..8 zero | 8..64 header (towpath_wire::talk) | payload
//! ```
//! Records are numbered from 0 on each connection and direction; the number is not sent. `taken`
//! is how many of the other direction's records the sender of this one has taken entirely.

use towpath_wire::bytes::ParseError;
use towpath_wire::talk::{HEADER_LEN, Header, PIECE_MAX};

/// Length of a record's head.
pub(super) const HEAD_LEN: usize = 8;
/// Length of a record's tag.
pub(super) const TAG_LEN: usize = 16;
/// What stands in a record before its pieces.
pub(super) const TAKEN_LEN: usize = 8;
/// What stands before a piece's header.
pub(super) const PIECE_HEAD_LEN: usize = 8;
/// What stands before a piece's payload.
pub(super) const PIECE_FRONT: usize = PIECE_HEAD_LEN + HEADER_LEN;
/// Shortest content.
pub(super) const CONTENT_MIN: usize = TAKEN_LEN + TAG_LEN;
/// Longest content: one piece of [`PIECE_MAX`].
pub(super) const CONTENT_MAX: usize = TAKEN_LEN + PIECE_FRONT + PIECE_MAX + TAG_LEN;
/// Longest record.
pub(super) const RECORD_MAX: usize = HEAD_LEN + CONTENT_MAX;

/// What a peer's record must not be. The connection ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// Its length cannot be.
    #[error("a record's content is {len} bytes, limits {CONTENT_MIN} and {CONTENT_MAX}")]
    Length {
        /// What it says.
        len: u32,
    },
    /// Its kind is not known.
    #[error("a record is of kind {kind}, which this version does not know")]
    Kind {
        /// What it says.
        kind: u32,
    },
    /// It does not open: it is not the peer's, was changed, or is out of its place.
    #[error("record {number} does not authenticate")]
    Seal {
        /// Its place on the connection.
        number: u64,
    },
    /// It says that records were taken that were not sent, or fewer than before.
    #[error("a record says {taken} were taken, of {sent} sent and {known} known to be taken")]
    Taken {
        /// What it says.
        taken: u64,
        /// Records that went out entirely.
        sent: u64,
        /// What the peer said before.
        known: u64,
    },
    /// A piece's header or length cannot be.
    #[error("a piece in a record: {0}")]
    Piece(ParseError),
    /// A piece is from or to somebody else.
    #[error("a piece is not between the two tasks of the connection")]
    Stranger,
    /// Something follows the peer's last record.
    #[error("a piece after the last record")]
    AfterLast,
}

/// Whether more pieces may come from the side that sent a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    More,
    Last,
}

pub(super) fn emit_head(content: usize, kind: Kind) -> [u8; HEAD_LEN] {
    let mut head = [0; HEAD_LEN];
    head[..4].copy_from_slice(&(content as u32).to_le_bytes());
    head[4] = u8::from(kind == Kind::Last);
    head
}

/// Length of the content, and the kind.
pub(super) fn parse_head(head: [u8; HEAD_LEN]) -> Result<(usize, Kind), BadRecord> {
    let [l0, l1, l2, l3, k0, k1, k2, k3] = head;
    let len = u32::from_le_bytes([l0, l1, l2, l3]);
    if !(CONTENT_MIN..=CONTENT_MAX).contains(&(len as usize)) {
        return Err(BadRecord::Length { len });
    }
    match u32::from_le_bytes([k0, k1, k2, k3]) {
        0 => Ok((len as usize, Kind::More)),
        1 => Ok((len as usize, Kind::Last)),
        kind => Err(BadRecord::Kind { kind }),
    }
}

/// What stands before the payload of a piece.
pub(super) fn emit_front(header: &Header, payload: usize) -> [u8; PIECE_FRONT] {
    let mut front = [0; PIECE_FRONT];
    front[..4].copy_from_slice(&(payload as u32).to_le_bytes());
    front[PIECE_HEAD_LEN..].copy_from_slice(&header.emit());
    front
}

/// The piece at the front of `rest`: its header and its length, front included.
pub(super) fn parse_piece(rest: &[u8]) -> Result<(Header, usize), BadRecord> {
    let short = |need| BadRecord::Piece(ParseError::Truncated { need, have: rest.len() });
    let front: &[u8; PIECE_FRONT] = rest.first_chunk().ok_or(short(PIECE_FRONT))?;
    let (head, header) = front.split_first_chunk::<PIECE_HEAD_LEN>().expect("lengths add up");
    let word = u64::from_le_bytes(*head);
    if word > PIECE_MAX as u64 {
        let (field, limit) = ("len of a piece", PIECE_MAX as u64);
        return Err(BadRecord::Piece(ParseError::Limit { field, value: word, limit }));
    }
    let end = PIECE_FRONT + word as usize;
    if rest.len() < end {
        return Err(short(end));
    }
    let header = Header::parse(header.try_into().expect("lengths add up"));
    let header = header.map_err(BadRecord::Piece)?;
    let room = header.total - header.offset;
    if word > room {
        let (field, limit) = ("len of a piece", room);
        return Err(BadRecord::Piece(ParseError::Limit { field, value: word, limit }));
    }
    Ok((header, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use towpath_wire::HostId;

    #[test]
    fn heads_come_back() {
        for (len, kind) in [(CONTENT_MIN, Kind::More), (CONTENT_MAX, Kind::Last)] {
            assert_eq!(parse_head(emit_head(len, kind)), Ok((len, kind)));
        }
        for len in [CONTENT_MIN - 1, CONTENT_MAX + 1] {
            let bad = BadRecord::Length { len: len as u32 };
            assert_eq!(parse_head(emit_head(len, Kind::More)), Err(bad));
        }
        let mut head = emit_head(100, Kind::More);
        head[7] = 1;
        assert_eq!(parse_head(head), Err(BadRecord::Kind { kind: 1 << 24 }));
    }

    #[test]
    fn a_piece_must_fit_into_its_message_and_its_record() {
        let host = HostId::new(1, 1).unwrap();
        let (src, dst) = (host.task(1).unwrap(), host.task(2).unwrap());
        let (tag, context, seq, format, total, offset) = (1, 0, 0, 0, 10, 4);
        let header = Header { src, dst, tag, context, seq, format, total, offset };
        let mut bytes = emit_front(&header, 6).to_vec();
        bytes.extend_from_slice(b"abcdefgh");
        assert_eq!(parse_piece(&bytes), Ok((header, PIECE_FRONT + 6)));
        assert!(matches!(
            parse_piece(&bytes[..PIECE_FRONT + 5]),
            Err(BadRecord::Piece(ParseError::Truncated { .. }))
        ));
        bytes[0] = 7;
        let (field, limit) = ("len of a piece", 6);
        let bad = ParseError::Limit { field, value: 7, limit };
        assert_eq!(parse_piece(&bytes), Err(BadRecord::Piece(bad)));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_piece_or_an_error(bytes: Vec<u8>) {
            if let Ok((header, end)) = parse_piece(&bytes) {
                prop_assert!(end <= bytes.len());
                prop_assert_eq!(&emit_front(&header, end - PIECE_FRONT)[..], &bytes[..PIECE_FRONT]);
            }
        }
    }
}
