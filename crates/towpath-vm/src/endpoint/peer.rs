//! One peer: numbers, credit, and messages that are not whole or not yet due.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use towpath_wire::TaskId;
use towpath_wire::talk::{Header, PIECE_CHARGE, PIECE_MAX};

use crate::talk::CREDIT_FIRST;

/// Room made at once for an arriving message, in bytes: `total` is only its sender's word.
const ROOM_MAX: usize = 1 << 20;

/// What a piece with so many bytes of payload takes of the credit.
pub const fn charge(payload: usize) -> u64 {
    payload as u64 + PIECE_CHARGE
}

/// A piece that cannot be: its sender's library or a daemon is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message {seq} of {src}: {what}")]
pub struct BadPiece {
    /// Its sender.
    pub src: TaskId,
    /// Its message.
    pub seq: u32,
    /// What is wrong.
    pub what: &'static str,
}

/// A message of which `bytes` are here.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) header: Header,
    pub(super) bytes: Vec<u8>,
}

impl Partial {
    fn begin(header: &Header) -> Self {
        let room = usize::try_from(header.total).unwrap_or(0).min(ROOM_MAX);
        Self { header: *header, bytes: Vec::with_capacity(room) }
    }

    fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.header.total
    }

    /// Adds what is new of a piece; how many bytes. What came by a route that broke may come
    /// again by another, perhaps cut elsewhere.
    fn add(&mut self, header: &Header, payload: &[u8]) -> Result<u64, &'static str> {
        if header.total != self.header.total || payload.len() as u64 > header.total - header.offset
        {
            return Err("a piece does not fit into its message");
        }
        let have = self.bytes.len() as u64;
        let Some(known) = have.checked_sub(header.offset) else {
            return Err("a piece does not begin where the last one ended");
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(payload.len());
        self.bytes.extend_from_slice(&payload[known..]);
        Ok((payload.len() - known) as u64)
    }
}

/// Invariants: `sent` ≤ `limit`; `early` holds whole messages, their numbers rising; all of them
/// are beyond `expected`, except between a piece and [`Peer::due`]; `due_half` is of message
/// `expected`.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) next: u32,
    sent: u64,
    limit: u64,
    /// Credit was asked for at least once: nothing is sent unasked any more.
    asked: bool,
    /// It was said that more cannot be sent without credit.
    said_blocked: bool,
    pub(super) expected: u32,
    /// What is here of a message that comes by the daemons.
    half: Option<Partial>,
    /// What is here of the message that is due, if it began on a stream.
    due_half: Option<Partial>,
    early: VecDeque<Partial>,
}

impl Peer {
    pub(super) const fn new() -> Self {
        Self {
            next: 0,
            sent: 0,
            limit: CREDIT_FIRST,
            asked: false,
            said_blocked: false,
            expected: 0,
            half: None,
            due_half: None,
            early: VecDeque::new(),
        }
    }

    pub(super) const fn take_number(&mut self) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }

    /// Bytes of payload that the next piece may have, at most `left`; `None`: no credit.
    pub(super) fn room(&self, left: usize) -> Option<usize> {
        let room = (self.limit - self.sent).checked_sub(PIECE_CHARGE)?;
        let piece = left.min(PIECE_MAX).min(usize::try_from(room).unwrap_or(usize::MAX));
        (piece > 0 || left == 0).then_some(piece)
    }

    /// Whether the next piece goes unasked.
    pub(super) const fn is_unasked(&self) -> bool {
        !self.asked
    }

    pub(super) const fn wrote(&mut self, payload: usize) {
        self.sent += charge(payload);
    }

    pub(super) fn raise(&mut self, limit: u64) {
        if limit > self.limit {
            self.limit = limit;
            self.said_blocked = false;
        }
    }

    /// True the first time since the limit was raised.
    pub(super) const fn blocked(&mut self) -> bool {
        let first = !self.said_blocked;
        if !self.asked {
            self.asked = true;
            self.limit = self.sent;
        }
        self.said_blocked = true;
        first
    }

    /// A piece by the daemons; how many of its bytes are kept.
    pub(super) fn piece(&mut self, header: &Header, payload: &[u8]) -> Result<u64, BadPiece> {
        let bad = |what| BadPiece { src: header.src, seq: header.seq, what };
        if self.has(header.seq) {
            return Ok(0);
        }
        let slot = match &self.due_half {
            Some(due) if due.header.seq == header.seq => &mut self.due_half,
            _ => &mut self.half,
        };
        match slot {
            None if header.offset == 0 => *slot = Some(Partial::begin(header)),
            None => return Err(bad("its beginning is missing")),
            Some(half) if half.header.seq == header.seq => {}
            Some(_) => return Err(bad("another message's end is missing")),
        }
        let kept = slot.as_mut().map_or(Ok(0), |half| half.add(header, payload)).map_err(bad)?;
        if let Some(whole) = slot.take_if(|half| half.is_whole()) {
            self.keep(whole);
        }
        Ok(kept)
    }

    /// A piece at the head of a stream; how many of its bytes are kept. `None`: it is not due.
    pub(super) fn stream_piece(
        &mut self,
        header: &Header,
        payload: &[u8],
    ) -> Result<Option<u64>, BadPiece> {
        if !self.has(header.seq) {
            if header.seq != self.expected {
                return Ok(None);
            }
            let by_daemons = self.half.as_ref().is_some_and(|half| half.header.seq == header.seq);
            if !by_daemons && self.due_half.is_none() && header.offset == 0 {
                self.due_half = Some(Partial::begin(header));
            }
        }
        self.piece(header, payload).map(Some)
    }

    /// Whether message `seq` was here, or is here entirely.
    fn has(&self, seq: u32) -> bool {
        let last = self.early.back().map(|early| early.header.seq);
        is_after(self.expected, seq)
            || (last.is_some_and(|last| !is_after(seq, last))
                && self.early.iter().any(|early| early.header.seq == seq))
    }

    /// Keeps a whole message until it is due.
    fn keep(&mut self, whole: Partial) {
        let before = |early: &Partial| is_after(whole.header.seq, early.header.seq);
        let at = self.early.iter().rposition(before).map_or(0, |at| at + 1);
        self.early.insert(at, whole);
    }

    /// The message `expected` was taken from its route.
    pub(super) const fn advance(&mut self) {
        self.expected = self.expected.wrapping_add(1);
    }

    pub(super) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// The next message by the daemons, if it is due.
    pub(super) fn due(&mut self) -> Option<Partial> {
        if self.early.front()?.header.seq != self.expected {
            return None;
        }
        let due = self.early.pop_front();
        self.advance();
        due
    }

    /// Bytes of messages that are here and were not handed out.
    pub(super) fn held(&self) -> u64 {
        self.half
            .iter()
            .chain(&self.due_half)
            .chain(&self.early)
            .map(|p| p.bytes.len() as u64)
            .sum()
    }
}

/// Number `a` comes after `b`, on the circle of numbers.
const fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).wrapping_sub(1) < 1 << 31
}
