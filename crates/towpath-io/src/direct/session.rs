//! Both directions of one connection: what is told, kept and given back. No sockets.

use towpath_wire::TaskId;
use towpath_wire::talk::{Header, PIECE_MAX};

use super::handshake::Agreed;
use super::incoming::{Incoming, Piece};
use super::outgoing::{Outgoing, RING_BYTES};
use super::record::{BadRecord, Kind};

/// What was taken is told on its own once it is this part of the ring; the rest is on its way
/// meanwhile.
const TELL_PART: u64 = 16;

/// What became of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// It will be sent, or given back by `untaken`.
    Taken,
    /// The peer has left too much untaken: try again when something has come from it.
    Full,
    /// One of the two closes the connection, or it has ended: use another route.
    Closed,
}

/// One connection between two tasks, as bytes. Whoever has the socket moves [`Self::pending`]
/// into it and what comes out of it into [`Self::space`].
pub struct Session {
    peer: TaskId,
    outgoing: Outgoing,
    incoming: Incoming,
    /// Records taken that the peer was told of, and their bytes.
    told: u64,
    told_bytes: u64,
    tell_bytes: u64,
    closing: bool,
}

impl Session {
    /// After a handshake.
    pub fn new(agreed: Agreed) -> Self {
        Self::with_ring(agreed, RING_BYTES)
    }

    /// With another number of bytes for what the peer leaves untaken; both sides the same.
    pub(super) fn with_ring(agreed: Agreed, ring_bytes: usize) -> Self {
        let Agreed { me, peer, send, receive } = agreed;
        Self {
            peer,
            outgoing: Outgoing::new(send, ring_bytes),
            incoming: Incoming::new(receive, me, peer),
            told: 0,
            told_bytes: 0,
            tell_bytes: ring_bytes as u64 / TELL_PART,
            closing: false,
        }
    }

    /// The other task.
    pub const fn peer(&self) -> TaskId {
        self.peer
    }

    /// A piece for the peer: the bytes of all `parts`, at most [`PIECE_MAX`]. They may be reused
    /// as soon as this returns.
    pub fn push(&mut self, header: &Header, parts: &[&[u8]]) -> Push {
        let len = parts.iter().map(|part| part.len()).sum();
        assert!(len <= PIECE_MAX, "a piece of {len} bytes, limit {PIECE_MAX}");
        if self.closing {
            return Push::Closed;
        }
        if self.outgoing.push(header, parts, len, self.incoming.taken()) {
            Push::Taken
        } else {
            Push::Full
        }
    }

    /// Whether a piece of any length would be taken now.
    pub fn has_room(&self) -> bool {
        !self.closing && self.outgoing.has_room()
    }

    /// Whether pieces of `len` bytes in all would be taken now.
    pub fn has_room_for(&self, len: usize) -> bool {
        !self.closing && self.outgoing.has_room_for(len)
    }

    /// No more pieces go out from here: one of the two has closed.
    pub const fn is_closing(&self) -> bool {
        self.closing
    }

    /// Seals what was pushed and says what must be said: after this, [`Self::pending`] has all.
    pub fn seal(&mut self) {
        let taken = self.incoming.taken();
        let mut said = self.outgoing.seal_open(taken);
        if self.closing && !self.outgoing.has_last() {
            said |= self.outgoing.push_bare(Kind::Last, taken);
        }
        if !said && self.owes() {
            said = self.outgoing.push_bare(Kind::More, taken);
        }
        if said {
            (self.told, self.told_bytes) = (taken, self.incoming.taken_bytes());
        }
    }

    /// The peer waits, or may come to wait, to hear what was taken.
    pub fn owes(&self) -> bool {
        let untold = self.incoming.taken_bytes() - self.told_bytes;
        untold >= self.tell_bytes || self.incoming.last().is_some_and(|last| self.told <= last)
    }

    /// Bytes for the socket, as many as lie together; empty: none.
    pub fn pending(&self) -> &[u8] {
        self.outgoing.pending()
    }

    /// The socket took so many of the pending bytes.
    pub fn wrote(&mut self, n: usize) {
        self.outgoing.wrote(n);
    }

    /// Where bytes of the socket go. Empty only when a piece waits to be taken.
    pub fn space(&mut self) -> &mut [u8] {
        self.incoming.space()
    }

    /// So many came.
    pub fn filled(&mut self, n: usize) {
        self.incoming.filled(n);
    }

    /// Takes records apart until a piece is at the head; false when none is here.
    pub fn advance(&mut self) -> Result<bool, BadRecord> {
        let Self { incoming, outgoing, .. } = self;
        let found = incoming.advance(&mut |taken| {
            let (sent, known) = (outgoing.sent(), outgoing.first());
            if outgoing.taken(taken) {
                Ok(())
            } else {
                Err(BadRecord::Taken { taken, sent, known })
            }
        });
        self.closing |= self.incoming.last().is_some();
        found
    }

    /// The piece at the head, once [`Self::advance`] has found one.
    pub fn head(&self) -> Option<Piece<'_>> {
        self.incoming.head()
    }

    /// The piece at the head belongs to the caller now; it will not come again.
    pub fn take(&mut self) {
        self.incoming.take();
        self.closing |= self.incoming.last().is_some();
    }

    /// No more pieces from here. The peer will do likewise.
    pub const fn close(&mut self) {
        self.closing = true;
    }

    /// Both sides have closed, and each knows that the other has taken everything.
    pub fn is_done(&self) -> bool {
        self.outgoing.last_is_taken()
            && self.incoming.last().is_some_and(|last| self.told > last)
            && self.pending().is_empty()
    }

    /// What arrived ends with a whole record.
    pub const fn is_between(&self) -> bool {
        self.incoming.is_between()
    }

    /// Records sent and received entirely.
    pub fn records(&self) -> (u64, u64) {
        (self.outgoing.sent(), self.incoming.taken())
    }

    /// Gives out the pieces that the peer is not known to have taken, in order. Nothing can be
    /// sent afterwards.
    pub fn untaken(&mut self, give: &mut dyn FnMut(&Header, &[u8])) {
        self.closing = true;
        self.outgoing.untaken(give);
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
