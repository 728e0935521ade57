//! Sealed records in one reused buffer: on their way to the kernel, and kept until they are taken.
//!
//! ```text
//! ring   | .. free .. | kept: written, not taken | kept: not written | open record | .. free .. |
//!                     ^ front                    ^ write                           ^ tail
//! ```
//! A record lies in one piece; one that does not fit before the end of the ring begins at 0.

use std::collections::VecDeque;

use towpath_wire::talk::{Header, PIECE_MAX};

use super::keys::RecordKey;
use super::record::{
    CONTENT_MIN, HEAD_LEN, Kind, PIECE_FRONT, RECORD_MAX, TAG_LEN, TAKEN_LEN, emit_front,
    emit_head, parse_head, parse_piece,
};

/// Bytes of sealed records that the peer may leave untaken.
pub const RING_BYTES: usize = 4 << 20;
/// Payloads up to here are copied into a record with others; longer ones have one of their own
/// and are sealed straight from where they are.
const SMALL_MAX: usize = 4 << 10;
/// Pieces of a shared record take this much at most.
const BATCH_BYTES: usize = 16 << 10;
/// Kept free of pieces, so that records without any can always say what was taken.
const RESERVE: usize = 4 << 10;

const _: () = assert!(PIECE_FRONT + SMALL_MAX <= BATCH_BYTES);

/// A sealed record in the ring.
#[derive(Clone, Copy)]
struct Kept {
    at: u32,
    len: u32,
}

/// A record being filled, in plain: the content so far ends at `end`.
#[derive(Clone, Copy)]
struct Open {
    at: usize,
    end: usize,
}

/// Records to the peer. Invariants: `written` ≤ `kept.len()`; `partly` < the length of
/// `kept[written]`, or 0; records never overlap; numbers rise by one along the wire.
pub(super) struct Outgoing {
    key: RecordKey,
    ring: Vec<u8>,
    kept: VecDeque<Kept>,
    /// Number of the first of `kept`; as many the peer has taken.
    first: u64,
    /// How many of `kept` are with the kernel entirely, and how much of the next one.
    written: usize,
    partly: usize,
    /// Where the last record ends.
    tail: usize,
    /// Where the upper ones end, once the last ones began again at 0.
    upper: usize,
    open: Option<Open>,
    /// Number of the last record with pieces.
    last: Option<u64>,
}

impl Outgoing {
    pub(super) fn new(key: RecordKey, ring_bytes: usize) -> Self {
        assert!(ring_bytes >= 2 * (RECORD_MAX + RESERVE), "a ring of {ring_bytes} bytes");
        Self {
            key,
            // Zero pages: memory is taken as it is first used.
            ring: vec![0; ring_bytes],
            kept: VecDeque::new(),
            first: 0,
            written: 0,
            partly: 0,
            tail: 0,
            upper: 0,
            open: None,
            last: None,
        }
    }

    /// Room for a record of `len` bytes with `beside` more left free; the tail moves there.
    fn place(&mut self, len: usize, beside: usize) -> Option<usize> {
        debug_assert!(self.open.is_none(), "the open record must be sealed first");
        let need = len + beside;
        match self.kept.front() {
            None => self.tail = 0,
            Some(front) => {
                let front = front.at as usize;
                if self.tail < front {
                    if front - self.tail <= need {
                        return None;
                    }
                } else if self.ring.len() - self.tail < need {
                    if front <= need {
                        return None;
                    }
                    self.upper = self.tail;
                    self.tail = 0;
                }
            }
        }
        Some(self.tail)
    }

    /// Whether any piece has room.
    pub(super) fn has_room(&self) -> bool {
        let need = RECORD_MAX + RESERVE;
        let tail = self.open.map_or(self.tail, |open| open.end + TAG_LEN);
        let Some(front) = self.kept.front().map(|kept| kept.at as usize) else { return true };
        if tail < front {
            return front - tail > need;
        }
        self.ring.len() - tail >= need || front > need
    }

    /// Whether pieces of `len` bytes in all have room, wherever the ring begins again.
    pub(super) fn has_room_for(&self, len: usize) -> bool {
        let records = len / PIECE_MAX + 1;
        let need = len + records * (RECORD_MAX - PIECE_MAX) + RECORD_MAX + RESERVE;
        let tail = self.open.map_or(self.tail, |open| open.end + TAG_LEN);
        let free = match self.kept.front().map(|kept| kept.at as usize) {
            None => self.ring.len() - self.open.map_or(0, |_| tail),
            Some(front) if tail < front => front - tail,
            Some(front) => self.ring.len() - tail + front,
        };
        free > need
    }

    /// A piece of the bytes of all `parts`, `len` in all. False when there is no room for it.
    pub(super) fn push(
        &mut self,
        header: &Header,
        parts: &[&[u8]],
        len: usize,
        taken: u64,
    ) -> bool {
        if len > SMALL_MAX {
            self.seal_open(taken);
            let content = TAKEN_LEN + PIECE_FRONT + len + TAG_LEN;
            let Some(at) = self.place(HEAD_LEN + content, RESERVE) else { return false };
            let front_end = at + HEAD_LEN + TAKEN_LEN + PIECE_FRONT;
            self.ring[front_end - PIECE_FRONT..front_end].copy_from_slice(&emit_front(header, len));
            if let [payload] = parts {
                self.seal(Open { at, end: front_end }, payload, Kind::More, taken);
            } else {
                let end = self.copy(front_end, parts);
                self.seal(Open { at, end }, &[], Kind::More, taken);
            }
            return true;
        }
        let need = PIECE_FRONT + len;
        let full = |o: Open| o.end + need > o.at + HEAD_LEN + TAKEN_LEN + BATCH_BYTES;
        if self.open.is_some_and(full) {
            self.seal_open(taken);
        }
        let Some(open) = self.open.or_else(|| self.begin(BATCH_BYTES, RESERVE)) else {
            return false;
        };
        let front_end = open.end + PIECE_FRONT;
        self.ring[open.end..front_end].copy_from_slice(&emit_front(header, len));
        let end = self.copy(front_end, parts);
        self.open = Some(Open { end, ..open });
        true
    }

    fn copy(&mut self, mut at: usize, parts: &[&[u8]]) -> usize {
        for part in parts {
            self.ring[at..][..part.len()].copy_from_slice(part);
            at += part.len();
        }
        at
    }

    fn begin(&mut self, pieces: usize, beside: usize) -> Option<Open> {
        let at = self.place(HEAD_LEN + TAKEN_LEN + pieces + TAG_LEN, beside)?;
        Some(Open { at, end: at + HEAD_LEN + TAKEN_LEN })
    }

    /// Seals the record being filled; `taken` goes with it. False when there is none.
    pub(super) fn seal_open(&mut self, taken: u64) -> bool {
        let Some(open) = self.open.take() else { return false };
        self.seal(open, &[], Kind::More, taken);
        true
    }

    /// A record without pieces. False when there is no room for it.
    pub(super) fn push_bare(&mut self, kind: Kind, taken: u64) -> bool {
        self.seal_open(taken);
        let Some(open) = self.begin(0, 0) else { return false };
        if kind == Kind::Last {
            self.last = Some(self.next_number());
        }
        self.seal(open, &[], kind, taken);
        true
    }

    fn next_number(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    fn seal(&mut self, open: Open, extra: &[u8], kind: Kind, taken: u64) {
        let number = self.next_number();
        let content_at = open.at + HEAD_LEN;
        let end = open.end + extra.len() + TAG_LEN;
        let head = emit_head(end - content_at, kind);
        self.ring[open.at..content_at].copy_from_slice(&head);
        self.ring[content_at..][..TAKEN_LEN].copy_from_slice(&taken.to_le_bytes());
        self.key.seal(number, head, &mut self.ring[content_at..end], extra);
        self.kept.push_back(Kept { at: open.at as u32, len: (end - open.at) as u32 });
        self.tail = end;
    }

    /// Sealed bytes for the kernel, as many as lie together; empty when all were written.
    pub(super) fn pending(&self) -> &[u8] {
        let Some(kept) = self.kept.get(self.written) else { return &[] };
        let start = kept.at as usize + self.partly;
        let end = if start < self.tail { self.tail } else { self.upper };
        &self.ring[start..end]
    }

    /// The kernel took so many of the pending bytes.
    pub(super) fn wrote(&mut self, n: usize) {
        self.partly += n;
        while let Some(kept) = self.kept.get(self.written)
            && self.partly >= kept.len as usize
        {
            self.partly -= kept.len as usize;
            self.written += 1;
        }
    }

    /// The peer has taken so many records in all. False when that cannot be.
    pub(super) fn taken(&mut self, taken: u64) -> bool {
        let known = taken.checked_sub(self.first).filter(|n| *n <= self.written as u64);
        let Some(fresh) = known else { return false };
        self.kept.drain(..fresh as usize);
        self.written -= fresh as usize;
        self.first = taken;
        true
    }

    /// Records that the peer has taken.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Records that are with the kernel entirely.
    pub(super) fn sent(&self) -> u64 {
        self.first + self.written as u64
    }

    /// The last record with pieces was sealed.
    pub(super) fn has_last(&self) -> bool {
        self.last.is_some()
    }

    /// The peer has taken everything there will be.
    pub(super) fn last_is_taken(&self) -> bool {
        self.last.is_some_and(|last| self.first > last)
    }

    /// Gives out all pieces that are not known to be taken, in order, and forgets them.
    pub(super) fn untaken(&mut self, give: &mut dyn FnMut(&Header, &[u8])) {
        self.seal_open(0);
        for (number, kept) in (self.first..).zip(self.kept.drain(..)) {
            let record = &mut self.ring[kept.at as usize..][..kept.len as usize];
            let (head, content) = record.split_first_chunk_mut().expect("a record has a head");
            self.key.open(number, *head, content).expect("what was sealed here opens");
            debug_assert!(parse_head(*head).is_ok() && content.len() >= CONTENT_MIN);
            let mut rest = &content[TAKEN_LEN..content.len() - TAG_LEN];
            while !rest.is_empty() {
                let (header, len) = parse_piece(rest).expect("pieces written here");
                give(&header, &rest[PIECE_FRONT..len]);
                rest = &rest[len..];
            }
        }
        (self.written, self.partly) = (0, 0);
    }
}
