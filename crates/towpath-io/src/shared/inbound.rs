//! The receiving end of a pair, and views into the sender's arena.

use std::sync::Arc;

use super::arena::filled;
use super::error::Corrupt;
use super::pair::Link;
use super::record::{Body, Head, Record};
use super::ring::Consumer;

/// How a payload came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In the ring: [`Inbound::take_short`].
    Short,
    /// In a block: [`Inbound::take_block`].
    Block,
}

/// What waits at the front of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its header.
    pub head: Head,
    /// Bytes of its payload.
    pub len: usize,
    /// How to take it.
    pub kind: Kind,
}

impl Arrival {
    #[inline]
    fn of(record: &Record) -> Self {
        let kind = if record.is_block() { Kind::Block } else { Kind::Short };
        Self { head: record.head(), len: record.len(), kind }
    }
}

/// The receiving end of a pair.
#[derive(Debug)]
pub struct Inbound {
    link: Arc<Link>,
    ring: Consumer,
}

impl Inbound {
    pub(super) fn new(link: Arc<Link>, ring: Consumer) -> Self {
        Self { link, ring }
    }

    /// Whether something has come; where nothing has, the sender learns how far this end is. One
    /// load where it knows.
    #[inline]
    pub fn ready(&mut self) -> bool {
        let ready = self.ring.ready();
        if !ready && self.ring.has_untold() {
            self.tell();
        }
        ready
    }

    /// What has come first and was not yet taken.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Arrival>, Corrupt> {
        Ok(self.ring.peek()?.map(Arrival::of))
    }

    /// What `peek` last showed, if that was not yet taken.
    #[inline]
    pub fn next(&self) -> Option<Arrival> {
        self.ring.next().map(Arrival::of)
    }

    /// Whether all of the next arrival is there. `peek` has shown it; what is not yet whole may
    /// never be, where its sender dies.
    #[inline]
    pub fn next_is_whole(&self) -> bool {
        let body = self.ring.next().map(Record::body);
        let Some(Body::Block { page, len, filling: true, .. }) = body else { return true };
        filled(&self.link.segment, page, len) == len
    }

    /// Takes the payload of the next arrival, which is of kind [`Kind::Short`] and as long as
    /// `to` (both asserted).
    #[inline]
    pub fn take_short(&mut self, to: &mut [u8]) {
        if self.ring.take_short(to) {
            self.tell();
        }
    }

    /// Takes the next arrival if it is a whole message of at most [`TINY_MAX`](super::TINY_MAX)
    /// bytes for which `to` has room, and `fits` says so of its header; the header. `None`:
    /// [`peek`](Self::peek) says what there is instead.
    #[inline]
    pub fn take_tiny(&mut self, to: &mut [u8], fits: impl FnOnce(&Head) -> bool) -> Option<Head> {
        let head = self.ring.take_tiny(to, fits)?;
        if self.ring.should_tell() {
            self.tell();
        }
        Some(head)
    }

    /// Takes the next arrival, which is of kind [`Kind::Block`] (asserted).
    pub fn take_block(&mut self) -> View {
        let next = self.ring.peek().ok().flatten().expect("`peek` showed an arrival");
        let Body::Block { page, len, ticket, filling } = next.body() else {
            panic!("the next arrival is short");
        };
        if self.ring.advance() {
            self.tell();
        }
        View { link: Arc::clone(&self.link), page, len, ticket, filling }
    }

    fn tell(&mut self) {
        if self.ring.tell() {
            self.link.wake();
        }
    }
}

/// A payload where its sender put it. Dropping it gives the block back. It outlives the pair and
/// the sender's process.
///
/// The sender has given the block up for writing, apart from the part that is not yet filled; its
/// library keeps to that whatever its program does. A program that writes there on purpose changes
/// what [`bytes`](Self::bytes) shows.
#[derive(Debug)]
pub struct View {
    link: Arc<Link>,
    page: usize,
    len: usize,
    ticket: u16,
    filling: bool,
}

impl View {
    /// Bytes of the payload.
    #[expect(clippy::len_without_is_empty, reason = "an empty payload needs no block")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How much of it is there; it only grows, and stays as it is when its sender has died.
    pub fn filled(&self) -> usize {
        if self.filling { filled(&self.link.segment, self.page, self.len) } else { self.len }
    }

    /// Whether all of it is there.
    pub fn is_whole(&self) -> bool {
        self.filled() == self.len
    }

    /// The payload in place, once it is whole.
    pub fn bytes(&self) -> Option<&[u8]> {
        let Link { segment, shape, .. } = &*self.link;
        // SAFETY: the range was checked to lie in the arena when the record was read; its sender
        // writes it again only after this view has given it back.
        self.is_whole().then(|| unsafe { segment.bytes(shape.page(self.page), self.len) })
    }

    /// Copies what is there from byte `from` on; how many bytes those were.
    pub fn read(&self, from: usize, to: &mut [u8]) -> usize {
        let len = self.filled().saturating_sub(from).min(to.len());
        let Link { segment, shape, .. } = &*self.link;
        if len > 0 {
            segment.read(shape.page(self.page) + from, &mut to[..len]);
        }
        len
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.link.give_back(self.ticket);
    }
}
