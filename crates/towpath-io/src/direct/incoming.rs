//! Records from the peer: one bounded buffer, opened in place.

use towpath_wire::TaskId;
use towpath_wire::talk::Header;

use super::keys::RecordKey;
use super::record::{
    BadRecord, HEAD_LEN, Kind, PIECE_FRONT, RECORD_MAX, TAG_LEN, TAKEN_LEN, parse_head, parse_piece,
};

/// Bytes that arrived and were not taken, at most.
pub const BUFFER_BYTES: usize = 256 << 10;

const _: () = assert!(BUFFER_BYTES >= 2 * RECORD_MAX);

/// A piece of a message, where it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Whose, which and where in it.
    pub header: Header,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// The record at the front of the buffer, opened. Offsets count from its first byte.
struct Opened {
    /// Where its next piece begins, and that piece, once looked at.
    at: usize,
    piece: Option<(Header, usize)>,
    /// Where its pieces end.
    end: usize,
    len: usize,
    kind: Kind,
}

/// Invariants: `start` ≤ `end` ≤ the buffer's length; what `opened` describes lies at `start`.
pub(super) struct Incoming {
    key: RecordKey,
    me: TaskId,
    peer: TaskId,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    opened: Option<Opened>,
    /// Records taken entirely, and their bytes.
    taken: u64,
    taken_bytes: u64,
    /// Number of the record that was the peer's last with pieces, once taken.
    last: Option<u64>,
}

impl Incoming {
    pub(super) fn new(key: RecordKey, me: TaskId, peer: TaskId) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        let (start, end, taken, taken_bytes) = (0, 0, 0, 0);
        let (opened, last) = (None, None);
        Self { key, me, peer, buffer, start, end, opened, taken, taken_bytes, last }
    }

    /// Where the next bytes go. Empty only when a piece waits to be taken.
    pub(super) fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.buffer.len() - self.end < RECORD_MAX && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.buffer[self.end..]
    }

    /// So many bytes arrived in [`Self::space`].
    pub(super) fn filled(&mut self, n: usize) {
        self.end += n;
        assert!(self.end <= self.buffer.len(), "more was filled than there was space");
    }

    /// Opens records until a piece is at the head; `told` hears what each says was taken.
    pub(super) fn advance(
        &mut self,
        told: &mut dyn FnMut(u64) -> Result<(), BadRecord>,
    ) -> Result<bool, BadRecord> {
        loop {
            match &mut self.opened {
                Some(Opened { piece: Some(_), .. }) => return Ok(true),
                Some(opened) if opened.at < opened.end => {
                    let rest = &self.buffer[self.start..][opened.at..opened.end];
                    let (header, len) = parse_piece(rest)?;
                    if header.src != self.peer || header.dst != self.me {
                        return Err(BadRecord::Stranger);
                    }
                    opened.piece = Some((header, len));
                    return Ok(true);
                }
                Some(_) => self.finish(),
                None => {
                    let Some(taken) = self.open()? else { return Ok(false) };
                    told(taken)?;
                }
            }
        }
    }

    /// Opens the record at the front, if it is all there; what it says was taken.
    fn open(&mut self) -> Result<Option<u64>, BadRecord> {
        let bytes = &mut self.buffer[self.start..self.end];
        let Some((head, rest)) = bytes.split_first_chunk_mut::<HEAD_LEN>() else {
            return Ok(None);
        };
        let (len, kind) = parse_head(*head)?;
        let Some(content) = rest.get_mut(..len) else { return Ok(None) };
        let number = self.taken;
        self.key.open(number, *head, content).map_err(|_| BadRecord::Seal { number })?;
        let taken = content.first_chunk().expect("the shortest content has it");
        let taken = u64::from_le_bytes(*taken);
        let (at, end, len) = (HEAD_LEN + TAKEN_LEN, HEAD_LEN + len - TAG_LEN, HEAD_LEN + len);
        if self.last.is_some() && (at < end || kind == Kind::Last) {
            return Err(BadRecord::AfterLast);
        }
        self.opened = Some(Opened { at, piece: None, end, len, kind });
        Ok(Some(taken))
    }

    fn finish(&mut self) {
        if let Some(opened) = self.opened.take() {
            self.start += opened.len;
            if opened.kind == Kind::Last {
                self.last = Some(self.taken);
            }
            self.taken += 1;
            self.taken_bytes += opened.len as u64;
        }
    }

    /// The piece at the head, if [`Self::advance`] said that there is one.
    pub(super) fn head(&self) -> Option<Piece<'_>> {
        let opened = self.opened.as_ref()?;
        let (header, len) = opened.piece?;
        let payload = &self.buffer[self.start..][opened.at + PIECE_FRONT..opened.at + len];
        Some(Piece { header, payload })
    }

    /// The piece at the head was taken.
    pub(super) fn take(&mut self) {
        let opened = self.opened.as_mut().expect("there is a piece at the head");
        let (_, len) = opened.piece.take().expect("there is a piece at the head");
        opened.at += len;
        if opened.at == opened.end {
            self.finish();
        }
    }

    /// Records taken entirely.
    pub(super) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes of them.
    pub(super) const fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Number of the record that was the peer's last with pieces, once taken.
    pub(super) const fn last(&self) -> Option<u64> {
        self.last
    }

    /// No record is partly here, nor partly taken.
    pub(super) const fn is_between(&self) -> bool {
        self.start == self.end
    }
}
