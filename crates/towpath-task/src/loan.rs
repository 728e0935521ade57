//! Loans: memory that a message is written into where its receiver will read it.

use std::ops::{Deref, DerefMut};

use towpath_io::shared::{Block, Frozen, Head, PushError, SHORT_MAX};
use towpath_wire::TaskId;

use crate::error::SendError;
use crate::message::Envelope;
use crate::parts::directs::Route;
use crate::task::Task;

/// Memory for one message, to be filled and sent by [`Task::send_loan`] without another copy
/// where the receiver is on the same host and reads shared memory. Its bytes are any at first.
#[derive(Debug)]
pub struct Loan {
    room: Room,
    len: usize,
}

#[derive(Debug)]
enum Room {
    /// In the segment that peers see.
    Shared(Block),
    /// In memory of one's own: it is sent like any other bytes.
    Own(Vec<u8>),
}

impl Deref for Loan {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.room {
            Room::Shared(block) => &block.bytes()[..self.len],
            Room::Own(bytes) => bytes,
        }
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.room {
            Room::Shared(block) => &mut block.bytes_mut()[..self.len],
            Room::Own(bytes) => bytes,
        }
    }
}

impl Loan {
    /// Memory of this process' own: [`Task::loan`] gives better.
    pub fn own(len: usize) -> Self {
        Self { room: Room::Own(vec![0; len]), len }
    }

    /// Copies `bytes` to place `at`; they must fit (asserted). Where receivers run on other
    /// processors, that is faster than through the slice that this is.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        match &mut self.room {
            Room::Shared(block) => block.write(at, bytes),
            Room::Own(own) => own[at..at + bytes.len()].copy_from_slice(bytes),
        }
    }

    /// The first `len` bytes, done with writing.
    pub fn seal(mut self, len: usize) -> Sealed {
        assert!(len <= self.len, "{len} bytes of a loan of {}", self.len);
        Sealed(match self.room {
            Room::Shared(block) => Content::Shared(block.freeze_to(len)),
            Room::Own(ref mut bytes) => {
                bytes.truncate(len);
                Content::Own(std::mem::take(bytes))
            }
        })
    }
}

/// A loan that is written: it may be sent to several tasks, and more than once
/// ([`Task::send_sealed`]).
#[derive(Debug)]
pub struct Sealed(Content);

impl AsRef<[u8]> for Sealed {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[derive(Debug)]
enum Content {
    Shared(Frozen),
    Own(Vec<u8>),
}

impl Deref for Sealed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Content::Shared(block) => block.bytes(),
            Content::Own(bytes) => bytes,
        }
    }
}

impl Task {
    /// Memory for a message of `len` bytes that may stay with the program for long: `None` where
    /// nobody would read it in place, or where less than half of the segment would be left for
    /// messages on their way.
    pub fn spare_loan(&mut self, len: usize) -> Option<Loan> {
        if !self.works() || self.rings.is_empty() {
            return None;
        }
        // What came back last is in the caches still.
        let here = self.rings.reclaim_last();
        let arena = self.home.as_ref()?.arena();
        let is_spare = || len <= (arena.limit() / 2).saturating_sub(arena.used());
        if !is_spare() && (self.rings.reclaim() == 0 || !is_spare()) {
            return None;
        }
        let block = self.block(len)?;
        Some(Loan { room: Room::Shared(block.read_elsewhere(!here)), len })
    }

    /// Memory for a message of `len` bytes. While none is free in the segment that peers see (they
    /// hold what they have not taken), it is this process' own, which costs a copy.
    pub fn loan(&mut self, len: usize) -> Result<Loan, SendError> {
        self.check()?;
        let room = match self.block(len) {
            Some(block) => Room::Shared(block),
            None => Room::Own(vec![0; len]),
        };
        Ok(Loan { room, len })
    }

    /// A block of the arena for `len` bytes; none: they go without one, or there is no room.
    pub(crate) fn block(&mut self, len: usize) -> Option<Block> {
        let arena = self.home.as_ref()?.arena();
        if len <= SHORT_MAX || len > arena.block_max() {
            return None;
        }
        let free = arena.alloc(len).ok();
        free.or_else(|| if self.rings.reclaim() > 0 { arena.alloc(len).ok() } else { None })
    }

    /// Sends what was written into a loan. Waits as [`Task::send`] does.
    pub fn send_loan(
        &mut self,
        to: TaskId,
        envelope: Envelope,
        loan: Loan,
    ) -> Result<(), SendError> {
        self.check()?;
        let len = loan.len;
        if to == self.id() {
            return self.send_parts(to, envelope, &[&loan]);
        }
        match loan.room {
            Room::Shared(block) if !self.endpoint.has_ended(to) => {
                self.consider_ring(to, len)?;
                let frozen = block.freeze_to(len);
                match self.push_frozen(to, envelope, frozen)? {
                    None => Ok(()),
                    Some(unsent) => self.send_parts(to, envelope, &[unsent.bytes()]),
                }
            }
            Room::Shared(_) => Err(SendError::NoTask(to)),
            Room::Own(bytes) => self.send_parts(to, envelope, &[&bytes]),
        }
    }

    /// Sends what was written into a loan; it stays. Waits as [`Task::send`] does.
    pub fn send_sealed(
        &mut self,
        to: TaskId,
        envelope: Envelope,
        sealed: &Sealed,
    ) -> Result<(), SendError> {
        self.check()?;
        if let Some(block) = self.block_of(sealed).filter(|_| !self.endpoint.has_ended(to)) {
            self.consider_ring(to, sealed.len())?;
            if self.push_frozen(to, envelope, block.clone())?.is_none() {
                return Ok(());
            }
        }
        self.send_parts(to, envelope, &[sealed])
    }

    /// The block of a loan, where it is one of this task's own that is worth to be sent.
    pub(crate) fn block_of<'a>(&self, sealed: &'a Sealed) -> Option<&'a Frozen> {
        let Content::Shared(block) = &sealed.0 else { return None };
        // It may be left over from before this process left its virtual machine and came back.
        let is_ours = self.home.as_ref().is_some_and(|home| block.is_of(home.arena()));
        (is_ours && sealed.len() > SHORT_MAX).then_some(block)
    }

    /// Asks for a ring to `to` if there is none and it is worth while.
    fn consider_ring(&mut self, to: TaskId, len: usize) -> Result<(), SendError> {
        if to == self.id() || self.route(to) == Route::Ring {
            return Ok(());
        }
        self.consider_direct(to, len)
    }

    /// Sends a block through the ring to `to`; gives it back where there is no ring.
    pub(crate) fn push_frozen(
        &mut self,
        to: TaskId,
        envelope: Envelope,
        mut block: Frozen,
    ) -> Result<Option<Frozen>, SendError> {
        let Envelope { tag, context, format } = envelope;
        let total = block.bytes().len() as u64;
        if self.started.has_queued() {
            self.wait_for_queued(&[to])?;
        }
        loop {
            if self.route(to) != Route::Ring {
                return Ok(Some(block));
            }
            let seq = self.endpoint.next_number(to);
            let head = Head { tag, context, seq, format, total, offset: 0 };
            let (Some(ring), Some(home)) = (self.rings.get(to), &self.home) else {
                return Ok(Some(block));
            };
            let unsent = match ring.out.push_block(&head, block) {
                Ok(()) => {
                    ring.pushed(home, total as usize);
                    self.endpoint.take_number(to);
                    self.counts.ring += 1;
                    return Ok(None);
                }
                Err(unsent) => unsent,
            };
            block = unsent.block;
            let no_tickets = (ring.out.has_room(), ring.out.has_tickets()) == (Ok(true), Ok(false));
            match unsent.why {
                PushError::Full if no_tickets => {
                    if !self.wait_for_blocks()? {
                        return Ok(Some(block));
                    }
                }
                PushError::Full => self.wait_for_room(to)?,
                _ => return Ok(Some(block)),
            }
            if self.endpoint.has_ended(to) {
                return Err(SendError::NoTask(to));
            }
        }
    }
}
