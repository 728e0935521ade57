//! The sending end of a pair.

use std::sync::Arc;

use super::arena::{Arena, ArenaFull, Frozen};
use super::error::Corrupt;
use super::layout::{SHORT_MAX, TICKETS};
use super::pair::Link;
use super::record::{Body, Head};
use super::returns::Reclaimer;
use super::ring::Producer;

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The peer must take something first, or give blocks back.
    #[error("the ring to the peer is full, or it holds {TICKETS} blocks of us")]
    Full,
    /// Too long for the ring; send a block.
    #[error("{len} bytes are too long for the ring, which takes at most {SHORT_MAX}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The arena has no block.
    #[error(transparent)]
    Arena(#[from] ArenaFull),
    /// The peer could not be woken.
    #[error("the peer's bell cannot be rung: its descriptor was closed in this process")]
    Lost,
    /// The peer's pages make no sense.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

/// A block that was not sent.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Unsent {
    /// Why not.
    #[source]
    pub why: PushError,
    /// The block.
    pub block: Frozen,
}

/// Blocks that the peer holds, by the ticket each went out with.
#[derive(Debug)]
struct Tickets {
    blocks: Box<[Option<Frozen>]>,
    free: Vec<u16>,
}

impl Tickets {
    fn new() -> Self {
        let blocks = (0..TICKETS).map(|_| None).collect();
        Self { blocks, free: (0..TICKETS as u16).rev().collect() }
    }

    /// The ticket that the next block goes out with.
    fn next(&self) -> Option<u16> {
        self.free.last().copied()
    }

    /// The block went out with the ticket that `next` told.
    fn give_out(&mut self, block: Frozen) {
        let ticket = self.free.pop().expect("`next` found a ticket");
        self.blocks[usize::from(ticket)] = Some(block);
    }

    /// The block came back.
    fn take_back(&mut self, ticket: u32) -> Result<(), Corrupt> {
        let held = self.blocks.get_mut(ticket as usize);
        held.and_then(Option::take).ok_or(Corrupt::Ticket { ticket })?;
        self.free.push(ticket as u16);
        Ok(())
    }
}

/// The sending end of a pair. Dropping it frees the blocks that the peer holds: to be done when
/// the peer is gone, or has said that it keeps none.
#[derive(Debug)]
pub struct Outbound {
    link: Arc<Link>,
    arena: Arena,
    ring: Producer,
    reclaimer: Reclaimer,
    tickets: Tickets,
}

impl Outbound {
    pub(super) fn new(link: Arc<Link>, arena: Arena, ring: Producer, reclaimer: Reclaimer) -> Self {
        Self { link, arena, ring, reclaimer, tickets: Tickets::new() }
    }

    /// Sends a whole message of at most [`TINY_MAX`](super::TINY_MAX) bytes if there is room for it
    /// as far as is known; false: [`push`](Self::push) says why not.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a header passed on through memory is stored in halves of words and loaded in \
                  words, which waits until the halves have left the store buffer"
    )]
    pub fn push_tiny(&mut self, head: &Head, payload: &[u8]) -> bool {
        !self.link.is_lost() && self.ring.push_tiny(head, payload)
    }

    /// Sends a message or piece of at most [`SHORT_MAX`] bytes through the ring. The payload is
    /// copied. Call [`wake`](Self::wake) after the last of several.
    pub fn push(&mut self, head: &Head, payload: &[u8]) -> Result<(), PushError> {
        let len = payload.len();
        if len > SHORT_MAX {
            return Err(PushError::TooLong { len });
        }
        debug_assert!(fits(head, len), "the piece lies in its message");
        self.check()?;
        if self.ring.push(head, payload)? { Ok(()) } else { Err(PushError::Full) }
    }

    /// Sends a block of this task's arena (asserted) without copying it. A clone of it may go to
    /// another peer. Call [`wake`](Self::wake) after the last of several.
    pub fn push_block(&mut self, head: &Head, block: Frozen) -> Result<(), Unsent> {
        debug_assert!(fits(head, block.len()), "the piece lies in its message");
        assert!(block.is_of(&self.arena), "a block of the own arena");
        let body = |ticket| {
            let (page, len) = (block.page(), block.len());
            Body::Block { page, len, ticket, filling: false }
        };
        if let Err(why) = self.push_ticket(head, body) {
            return Err(Unsent { why, block });
        }
        self.tickets.give_out(block);
        // Not before: the peer is reading the record already.
        let _ = self.reclaim();
        Ok(())
    }

    /// Sends a record with the next ticket.
    fn push_ticket(
        &mut self,
        head: &Head,
        body: impl FnOnce(u16) -> Body,
    ) -> Result<(), PushError> {
        self.check()?;
        if self.tickets.next().is_none() {
            self.reclaim()?;
        }
        let ticket = self.tickets.next().ok_or(PushError::Full)?;
        if self.ring.push_body(head, body(ticket))? { Ok(()) } else { Err(PushError::Full) }
    }

    /// Sends bytes through a block of the arena, copied once here. A peer that is not on this
    /// processor is told of it first and woken if it sleeps, so that it reads while this fills.
    /// Call [`wake`](Self::wake) after the last of several.
    pub fn push_copy(&mut self, head: &Head, data: &[u8]) -> Result<(), PushError> {
        debug_assert!(fits(head, data.len()), "the piece lies in its message");
        self.reclaim()?;
        let here = self.is_here();
        let block = self.arena.alloc(data.len())?.read_elsewhere(!here);
        let mut block = block.filling();
        let first = if here { data.len() } else { data.len().min(FIRST) };
        let (first, rest) = data.split_at(first);
        block.append(first);
        let (page, len, filling) = (block.page(), data.len(), !rest.is_empty());
        self.push_ticket(head, |ticket| Body::Block { page, len, ticket, filling })?;
        self.tickets.give_out(block.hold());
        if filling {
            self.wake();
        }
        for part in rest.chunks(STEP) {
            block.append(part);
        }
        Ok(())
    }

    /// Whether the peer was last seen on the processor that this task runs on.
    pub fn is_here(&self) -> bool {
        self.link.is_here()
    }

    #[inline]
    fn check(&self) -> Result<(), PushError> {
        if self.link.is_lost() { Err(PushError::Lost) } else { Ok(()) }
    }

    /// What the peer is not known to have taken, in order: to be sent another way once it is known
    /// that the peer does not take from this ring any more.
    pub fn untaken(&mut self) -> Result<Vec<(Head, Vec<u8>)>, Corrupt> {
        let Self { ring, arena, tickets, .. } = self;
        let mut untaken = Vec::new();
        ring.untaken(arena.shape(), |record, payload| {
            let block = match record.body() {
                Body::Block { ticket, .. } => tickets.blocks[usize::from(ticket)].as_ref(),
                _ => None,
            };
            let payload = block.map_or(payload, |block| block.bytes().to_vec());
            untaken.push((record.head(), payload));
        })?;
        Ok(untaken)
    }

    /// Rings the peer's bell if the peer sleeps; true if so. To be called after what was pushed
    /// and before waiting.
    #[inline]
    pub fn wake(&self) -> bool {
        self.link.wake()
    }

    /// Takes back the blocks that the peer gave up; how many those were.
    pub fn reclaim(&mut self) -> Result<usize, Corrupt> {
        let mut count = 0;
        while let Some(ticket) = self.reclaimer.next() {
            self.tickets.take_back(ticket)?;
            count += 1;
        }
        Ok(count)
    }

    /// Says whether this task waits for the peer to take records or to give blocks back. To be
    /// said before sleeping for that, and taken back afterwards: the peer then rings.
    pub fn want(&self, wanting: bool) {
        self.ring.want(wanting);
    }

    /// Whether a push of [`SHORT_MAX`] bytes would go now.
    pub fn has_room(&mut self) -> Result<bool, Corrupt> {
        self.ring.has_room(SHORT_MAX)
    }

    /// Whether the peer cannot be woken any more: nothing is sent to it.
    pub fn is_lost(&self) -> bool {
        self.link.is_lost()
    }

    /// Whether the peer may be given another block now.
    pub fn has_tickets(&mut self) -> Result<bool, Corrupt> {
        self.reclaim()?;
        Ok(self.tickets.next().is_some())
    }

    /// Blocks that the peer holds.
    pub fn outstanding(&self) -> usize {
        TICKETS - self.tickets.free.len()
    }
}

/// How much of a long block stands there when it is published, in bytes: a shorter one is whole.
const FIRST: usize = 8 << 10;
/// Bytes by which its receiver then sees it grow. Smaller steps cost more words that cross between
/// processors, larger ones leave the receiver idle for longer.
const STEP: usize = 16 << 10;

fn fits(head: &Head, len: usize) -> bool {
    head.offset.checked_add(len as u64).is_some_and(|end| end <= head.total)
}
