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

/// Invariants: `sent` ≤ `limit`; `early` holds whole messages by the daemons, their numbers
/// rising; all of them are beyond `expected`, except between a piece and [`Peer::due`].
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) next: u32,
    sent: u64,
    limit: u64,
    /// It was said that more cannot be sent without credit.
    said_blocked: bool,
    pub(super) expected: u32,
    half: Option<Partial>,
    early: VecDeque<Partial>,
}

impl Peer {
    pub(super) const fn new() -> Self {
        Self {
            next: 0,
            sent: 0,
            limit: CREDIT_FIRST,
            said_blocked: false,
            expected: 0,
            half: None,
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
        self.said_blocked = true;
        first
    }

    pub(super) fn piece(&mut self, header: &Header, payload: &[u8]) -> Result<(), BadPiece> {
        let bad = |what| BadPiece { src: header.src, seq: header.seq, what };
        let mut partial = match self.half.take() {
            None if header.offset == 0 => {
                let room = usize::try_from(header.total).unwrap_or(0).min(ROOM_MAX);
                Partial { header: *header, bytes: Vec::with_capacity(room) }
            }
            Some(p) if p.header.seq == header.seq && p.header.total == header.total => p,
            Some(_) => return Err(bad("another message's end is missing")),
            None => return Err(bad("its beginning is missing")),
        };
        let fits = payload.len() as u64 <= header.total - header.offset;
        if partial.bytes.len() as u64 != header.offset || !fits {
            return Err(bad("a piece does not begin where the last one ended"));
        }
        if self.early.back().is_some_and(|last| !is_after(header.seq, last.header.seq))
            || is_after(self.expected, header.seq)
        {
            return Err(bad("its number was used before"));
        }
        partial.bytes.extend_from_slice(payload);
        if partial.bytes.len() as u64 == header.total {
            self.early.push_back(partial);
        } else {
            self.half = Some(partial);
        }
        Ok(())
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
        self.half.iter().chain(&self.early).map(|p| p.bytes.len() as u64).sum()
    }
}

/// Number `a` comes after `b`, on the circle of numbers.
const fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).wrapping_sub(1) < 1 << 31
}
