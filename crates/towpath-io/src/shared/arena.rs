//! Memory that one task fills and its neighbours read: blocks for payloads too long for a ring.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::buddy::{Buddy, order_for};
use super::layout::{ArenaShape, PAGE};
use super::memory::Memory;

/// No block of this size can be had now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no arena block for {asked} bytes: {used} of at most {limit} bytes are in use")]
pub struct ArenaFull {
    /// What was asked for, in bytes.
    pub asked: usize,
    /// Bytes of the blocks in use.
    pub used: usize,
    /// The limit in bytes. A block's bytes also lie in one piece: large ones may fail below it.
    pub limit: usize,
}

/// A task's arena; clones are the same one. Blocks are powers of two of 4 KiB pages. Its tables
/// are private: what neighbours read of it is payload and how far it is filled.
#[derive(Clone)]
pub struct Arena(Arc<Inner>);

struct Inner {
    memory: Arc<Memory>,
    shape: ArenaShape,
    buddy: Mutex<Buddy>,
    limit: AtomicUsize,
    refused: AtomicU64,
}

impl Arena {
    /// `memory` is writable and has no other allocator.
    pub(super) fn new(memory: Arc<Memory>, shape: ArenaShape) -> Self {
        let buddy = Mutex::new(Buddy::new(shape.pages()));
        let limit = AtomicUsize::new(shape.arena_len());
        Self(Arc::new(Inner { memory, shape, buddy, limit, refused: AtomicU64::new(0) }))
    }

    fn buddy(&self) -> MutexGuard<'_, Buddy> {
        self.0.buddy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of `len` bytes; its content is whatever it was.
    ///
    /// # Errors
    /// [`ArenaFull`], counted in [`refused`](Self::refused): free something, or take back what
    /// peers gave up ([`Outbound::reclaim`](super::Outbound::reclaim)).
    pub fn alloc(&self, len: usize) -> Result<Block, ArenaFull> {
        let order = order_for(len.div_ceil(PAGE));
        let mut buddy = self.buddy();
        let (used, limit) = (buddy.used() * PAGE, self.limit());
        let size = 1_usize.checked_shl(u32::from(order)).and_then(|pages| pages.checked_mul(PAGE));
        let fits = size.is_some_and(|size| size <= limit.saturating_sub(used));
        let Some(page) = fits.then(|| buddy.alloc(order)).flatten() else {
            self.0.refused.fetch_add(1, Relaxed);
            return Err(ArenaFull { asked: len, used, limit });
        };
        Ok(Block { held: Held { arena: self.clone(), page }, len, elsewhere: false })
    }

    /// Bytes of the blocks in use, sizes rounded up to powers of two.
    pub fn used(&self) -> usize {
        self.buddy().used() * PAGE
    }

    /// How many bytes may be in use.
    pub fn limit(&self) -> usize {
        self.0.limit.load(Relaxed)
    }

    /// Sets the limit; at most the arena's length counts. Blocks in use stay.
    pub fn set_limit(&self, bytes: usize) {
        self.0.limit.store(bytes.min(self.0.shape.arena_len()), Relaxed);
    }

    /// Longest block there can be, in bytes; longer messages go in pieces.
    pub fn block_max(&self) -> usize {
        let limit = self.limit().max(PAGE);
        1 << limit.ilog2()
    }

    pub(super) fn shape(&self) -> ArenaShape {
        self.0.shape
    }

    /// Requests refused.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Relaxed)
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, limit) = (self.used(), self.limit());
        f.debug_struct("Arena").field("used", &used).field("limit", &limit).finish()
    }
}

/// One hold on a block; the last to go gives the block back.
#[derive(Debug)]
struct Held {
    arena: Arena,
    page: usize,
}

impl Held {
    fn at(&self) -> usize {
        self.arena.0.shape.page(self.page)
    }

    /// Copies bytes in, for readers that are elsewhere or here.
    ///
    /// # Safety
    /// Nothing else in this process reads or writes the range meanwhile.
    unsafe fn write(&self, at: usize, bytes: &[u8], elsewhere: bool) {
        let (memory, at) = (&self.arena.0.memory, self.at() + at);
        // SAFETY: the caller's promise.
        unsafe { if elsewhere { memory.write_past(at, bytes) } else { memory.write(at, bytes) } }
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.arena.buddy().hold(self.page);
        Self { arena: self.arena.clone(), page: self.page }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.arena.buddy().release(self.page);
    }
}

/// A block that nobody else sees yet.
#[derive(Debug)]
pub struct Block {
    held: Held,
    len: usize,
    elsewhere: bool,
}

impl Block {
    /// What stands in it.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the allocator gave these bytes to this block alone; `bytes_mut` needs it
        // mutably, and no peer was told of it.
        unsafe { self.held.arena.0.memory.bytes(self.held.at(), self.len) }
    }

    /// To be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and borrowed mutably.
        unsafe { self.held.arena.0.memory.bytes_mut(self.held.at(), self.len) }
    }

    /// Whether its readers are on other processors: bytes that are [written](Self::write) then do
    /// not stay in this one's caches.
    #[must_use]
    pub fn read_elsewhere(mut self, elsewhere: bool) -> Self {
        self.elsewhere = elsewhere;
        self
    }

    /// Copies `bytes` to place `at`; they must fit (asserted).
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.len && bytes.len() <= self.len - at, "the block is long enough");
        let Self { held, elsewhere, .. } = self;
        // SAFETY: as in `bytes`, and borrowed mutably.
        unsafe { held.write(at, bytes, *elsewhere) }
    }

    /// The first `len` bytes, done with writing.
    pub fn freeze_to(self, len: usize) -> Frozen {
        assert!(len <= self.len, "{len} bytes of a block of {}", self.len);
        Frozen { held: self.held, len }
    }

    /// Done with writing.
    pub fn freeze(self) -> Frozen {
        let len = self.len;
        self.freeze_to(len)
    }

    /// To be filled while others see how far it is.
    pub(super) fn filling(self) -> Filling {
        let Self { held, len, elsewhere } = self;
        let filling = Filling { held, len, filled: 0, elsewhere };
        filling.tell();
        filling
    }
}

/// A block that may be sent, to several receivers too; nobody writes to it any more. Clones are
/// the same block, which goes back to the arena with the last of them and of the receivers.
#[derive(Clone, Debug)]
pub struct Frozen {
    held: Held,
    len: usize,
}

impl Frozen {
    /// What stands in it.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: nobody writes to a block that is frozen until the last hold is gone.
        unsafe { self.held.arena.0.memory.bytes(self.held.at(), self.len) }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The page of the arena that it begins with.
    pub fn page(&self) -> usize {
        self.held.page
    }

    /// Whether it is a block of this arena.
    pub fn is_of(&self, arena: &Arena) -> bool {
        Arc::ptr_eq(&self.held.arena.0, &arena.0)
    }
}

/// A block that one receiver reads while it is filled. Invariant: `filled` ≤ `len`.
#[derive(Debug)]
pub(super) struct Filling {
    held: Held,
    len: usize,
    filled: usize,
    elsewhere: bool,
}

impl Filling {
    pub(super) fn page(&self) -> usize {
        self.held.page
    }

    /// Appends bytes and says so.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len - self.filled, "the block is long enough");
        // SAFETY: the block is this one's alone in this process, and its receiver reads only what
        // is filled.
        unsafe { self.held.write(self.filled, bytes, self.elsewhere) };
        self.filled += bytes.len();
        self.tell();
    }

    fn tell(&self) {
        let memory = &self.held.arena.0.memory;
        // SYNC POINT: pairs with the load in `filled`: who sees the count sees the bytes.
        memory.word(ArenaShape::progress(self.held.page)).store(self.filled as u64, Release);
    }

    /// Another hold, which keeps the block until the receiver gave it up. Not to be read before
    /// the block is full.
    pub(super) fn hold(&self) -> Frozen {
        Frozen { held: self.held.clone(), len: self.len }
    }
}

/// How much of the block of `len` bytes at `page` of a task segment is there.
pub(super) fn filled(segment: &Memory, page: usize, len: usize) -> usize {
    // SYNC POINT: pairs with the store in `Filling::tell`.
    let filled = segment.word(ArenaShape::progress(page)).load(Acquire);
    usize::try_from(filled).map_or(len, |filled| filled.min(len))
}
