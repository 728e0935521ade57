//! Where message bytes live.
//!
//! The driver owns message memory (a heap here, shared arenas later, nothing at all in the
//! simulator's virtual mode). A machine asks for a [`Block`] when the first piece of a message
//! arrives, has authenticated bytes placed into it once, and hands the block on. It never holds
//! message bytes itself.

use alloc::vec::Vec;

use towpath_wire::{ByteSize, ChannelId};

use crate::id::AssociationId;

/// A handle to a message's bytes. Valid from `alloc` (or `put`) to `release` (or `take`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Index in the memory's own table.
    pub index: u32,
    /// Distinguishes an index's successive uses.
    pub generation: u32,
}

/// For what a block is wanted, so that a driver can choose whose memory it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The association that receives it.
    pub association: AssociationId,
    /// The channel.
    pub channel: ChannelId,
    /// The channel's label, as given when it was opened.
    pub label: u16,
    /// Message number.
    pub message: u64,
    /// Bytes wanted.
    pub len: u32,
}

/// Message memory as the machines see it.
pub trait Memory {
    /// Room for an arriving message; `None` when there is none now (the peer will repeat).
    fn alloc(&mut self, arrival: &Arrival) -> Option<Block>;

    /// Writes authenticated bytes to their final place. `at + bytes.len()` is within the block.
    fn place(&mut self, block: Block, at: u32, bytes: &[u8]);

    /// Copies bytes of a block out for sending. `at + out.len()` is within the block.
    fn copy_out(&self, block: Block, at: u32, out: &mut [u8]);

    /// Gives a block back.
    fn release(&mut self, block: Block);

    /// Length of a block in bytes.
    fn len(&self, block: Block) -> u32;

    /// The bytes of a block: what a machine itself must read (control traffic), or what a driver
    /// sends from where it is.
    fn bytes(&self, block: Block) -> &[u8];

    /// Stores a message that a machine itself put together, part behind part; `None` when there is
    /// no room now.
    fn put_parts(&mut self, parts: &[&[u8]]) -> Option<Block>;

    /// Stores a message that a machine itself wrote; `None` when there is no room now.
    fn put(&mut self, bytes: &[u8]) -> Option<Block> {
        self.put_parts(&[bytes])
    }
}

/// Message memory on the heap, with a limit.
///
/// The buffers of a few long messages are kept when they are released: the next ones need neither
/// fresh pages nor zeroes. An arriving message may so begin with bytes of an earlier one; it is
/// told only once each of its own was placed.
///
/// Invariants: `used + kept ≤ limit`, where `used` counts block lengths plus [`BLOCK_COST`] each
/// and `kept` the bytes that `spare` holds; `spare` has at most `SPARES_MAX` buffers.
#[derive(Debug)]
pub struct HeapMemory {
    slots: Vec<Slot>,
    free: Vec<u32>,
    spare: Vec<Vec<u8>>,
    kept: u64,
    limit: u64,
    used: u64,
    used_max: u64,
}

/// What a block costs beside its bytes.
pub const BLOCK_COST: u64 = 64;
/// Shorter buffers are not worth keeping: the heap is as quick.
const SPARE_MIN: usize = 32 * 1024;
/// Buffers kept.
const SPARES_MAX: usize = 16;

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    bytes: Option<Vec<u8>>,
}

impl HeapMemory {
    /// Memory for at most `limit` bytes of messages.
    pub const fn new(limit: ByteSize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            kept: 0,
            limit: limit.as_bytes(),
            used: 0,
            used_max: 0,
        }
    }

    /// Bytes in use, [`BLOCK_COST`] per block included.
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// The most that was ever in use.
    pub const fn used_max(&self) -> u64 {
        self.used_max
    }

    /// Takes ownership of bytes; `None` (and the bytes dropped) beyond the limit.
    pub fn store(&mut self, bytes: Vec<u8>) -> Option<Block> {
        let cost = bytes.len() as u64 + BLOCK_COST;
        if self.used + cost > self.limit {
            return None;
        }
        self.used += cost;
        while self.used + self.kept > self.limit {
            let bytes = self.spare.remove(0);
            self.kept -= bytes.capacity() as u64;
        }
        self.used_max = self.used_max.max(self.used);
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.bytes = Some(bytes);
        Some(Block { index, generation: slot.generation })
    }

    /// Gives the bytes to the caller and the block back.
    pub fn take(&mut self, block: Block) -> Vec<u8> {
        let slot = self.slot_mut(block);
        slot.generation = slot.generation.wrapping_add(1);
        let bytes = slot.bytes.take().expect("a valid block has bytes");
        self.used -= bytes.len() as u64 + BLOCK_COST;
        self.free.push(block.index);
        bytes
    }

    /// A buffer of `len` bytes: a kept one, if it is not much longer, or a new one.
    fn buffer(&mut self, len: usize) -> Vec<u8> {
        let Some(mut bytes) = self.spare_buffer(len) else { return alloc::vec![0; len] };
        bytes.resize(len, 0);
        bytes
    }

    /// A kept buffer with room for `len` bytes and not much more.
    fn spare_buffer(&mut self, len: usize) -> Option<Vec<u8>> {
        let fits = |b: &Vec<u8>| (len..=len + len / 8).contains(&b.capacity());
        let index = self.spare.iter().rposition(fits)?;
        let bytes = self.spare.remove(index);
        self.kept -= bytes.capacity() as u64;
        Some(bytes)
    }

    fn keep(&mut self, bytes: Vec<u8>) {
        let size = bytes.capacity();
        if size < SPARE_MIN || self.used + self.kept + size as u64 > self.limit {
            return;
        }
        if self.spare.len() == SPARES_MAX {
            self.kept -= self.spare.remove(0).capacity() as u64;
        }
        self.kept += size as u64;
        self.spare.push(bytes);
    }

    fn slot(&self, block: Block) -> &Slot {
        let slot = &self.slots[block.index as usize];
        assert_eq!(slot.generation, block.generation, "block used after its release");
        slot
    }

    fn slot_mut(&mut self, block: Block) -> &mut Slot {
        let slot = &mut self.slots[block.index as usize];
        assert_eq!(slot.generation, block.generation, "block used after its release");
        slot
    }
}

impl Memory for HeapMemory {
    fn alloc(&mut self, arrival: &Arrival) -> Option<Block> {
        if self.used + u64::from(arrival.len) + BLOCK_COST > self.limit {
            return None;
        }
        let bytes = self.buffer(arrival.len as usize);
        self.store(bytes)
    }

    fn place(&mut self, block: Block, at: u32, bytes: &[u8]) {
        let at = at as usize;
        let target = self.slot_mut(block).bytes.as_mut().expect("a valid block has bytes");
        target[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn copy_out(&self, block: Block, at: u32, out: &mut [u8]) {
        let at = at as usize;
        out.copy_from_slice(&self.bytes(block)[at..at + out.len()]);
    }

    fn release(&mut self, block: Block) {
        let bytes = self.take(block);
        self.keep(bytes);
    }

    fn len(&self, block: Block) -> u32 {
        self.bytes(block).len() as u32
    }

    fn bytes(&self, block: Block) -> &[u8] {
        self.slot(block).bytes.as_deref().expect("a valid block has bytes")
    }

    fn put_parts(&mut self, parts: &[&[u8]]) -> Option<Block> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        if self.used + len as u64 + BLOCK_COST > self.limit {
            return None;
        }
        let mut bytes = self.spare_buffer(len).unwrap_or_else(|| Vec::with_capacity(len));
        bytes.clear();
        for part in parts {
            bytes.extend_from_slice(part);
        }
        self.store(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_released_room_returns() {
        let mut m = HeapMemory::new(ByteSize::from_bytes(300));
        let a = m.put(&[1; 100]).unwrap();
        assert!(m.put(&[2; 73]).is_none());
        let b = m.put(&[2; 72]).unwrap();
        assert_eq!(m.used(), 300);
        m.release(a);
        assert_eq!(m.bytes(b), &[2; 72]);
        assert_eq!((m.used(), m.used_max()), (136, 300));
        m.release(b);
        assert_eq!(m.used(), 0);
    }

    #[test]
    fn kept_buffers_stay_within_the_limit_and_serve_messages_of_their_size() {
        let mut m = HeapMemory::new(ByteSize::from_kib(100));
        let arrival = |len| Arrival {
            association: AssociationId(0),
            channel: ChannelId(0),
            label: 0,
            message: 0,
            len,
        };
        let a = m.alloc(&arrival(40_000)).unwrap();
        m.place(a, 0, &std::vec![7; 40_000]);
        m.release(a);
        assert_eq!((m.used, m.kept), (0, 40_000));
        let b = m.alloc(&arrival(20_000)).unwrap();
        assert_eq!(m.kept, 40_000, "much too long for it");
        m.release(b);
        let c = m.alloc(&arrival(39_000)).unwrap();
        assert_eq!((m.kept, m.len(c)), (0, 39_000));
        m.release(c);
        let last = m.put(&std::vec![1; 90_000]).unwrap();
        assert_eq!(m.kept, 0, "the limit is for both together");
        m.release(last);
        for _ in 0..SPARES_MAX + 3 {
            for block in [33_000, 34_000].map(|n| m.put(&std::vec![0; n]).unwrap()) {
                m.release(block);
            }
            assert!(m.used + m.kept <= m.limit && m.spare.len() <= SPARES_MAX);
            assert_eq!(m.kept, m.spare.iter().map(|b| b.capacity() as u64).sum());
        }
    }

    #[test]
    #[should_panic(expected = "block used after its release")]
    fn a_released_block_is_not_readable() {
        let mut m = HeapMemory::new(ByteSize::from_kib(1));
        let a = m.put(&[1]).unwrap();
        m.release(a);
        m.put(&[2]).unwrap();
        m.bytes(a);
    }
}
