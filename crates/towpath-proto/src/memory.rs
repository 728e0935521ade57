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
/// Buffers are kept when they are released: the next messages need neither the heap nor zeroes,
/// nor fresh pages. Short ones have a list for each of a few sizes; of long ones a few are kept. An
/// arriving message may so begin with bytes of an earlier one; it is told only once each of its own
/// was placed.
///
/// Invariants: `used + kept ≤ limit`, where `used` counts block lengths plus [`BLOCK_COST`] each
/// and `kept` the bytes of buffers that no block has; those of short ones among them, which `idle`
/// counts, are at most `IDLE_MAX`; `spare` has at most `SPARES_MAX` buffers. Buffers of short
/// blocks are at most a quarter longer than these, and all of them together by `over`: at most a
/// 64th of the limit, and a fifth of `IDLE_MAX`. Those in `short[class]` have that size.
#[derive(Debug)]
pub struct HeapMemory {
    slots: Vec<Slot>,
    free: Vec<u32>,
    short: [Vec<Vec<u8>>; CLASSES],
    spare: Vec<Vec<u8>>,
    kept: u64,
    idle: u64,
    over: u64,
    limit: u64,
    used: u64,
    used_max: u64,
}

/// What a block costs beside its bytes.
pub const BLOCK_COST: u64 = 64;
/// Buffers up to here are short: there are four sizes to each doubling from the least one on.
const SHORT_MIN: usize = 64;
const SHORT_MAX: usize = 32 * 1024;
/// Sizes of short buffers.
const CLASSES: usize = class_of(SHORT_MAX) + 1;
/// Bytes of short buffers that wait for a block.
const IDLE_MAX: u64 = 4 << 20;
/// Long buffers kept.
const SPARES_MAX: usize = 16;
/// Of a buffer that is as long as its block.
const OWN: u8 = u8::MAX;

/// The least size that `len` bytes fit into.
const fn class_of(len: usize) -> usize {
    if len <= SHORT_MIN {
        return 0;
    }
    let octave = (len - 1).ilog2();
    let quarter = ((len - 1) >> (octave - 2)) & 3;
    (octave - SHORT_MIN.ilog2()) as usize * 4 + quarter + 1
}

const fn bytes_of(class: usize) -> usize {
    (4 + class % 4) << (SHORT_MIN.ilog2() as usize - 2 + class / 4)
}

/// A place of the table. While a block has it, the first `len` bytes are the block's.
#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    len: u32,
    class: u8,
    bytes: Vec<u8>,
}

impl HeapMemory {
    /// Memory for at most `limit` bytes of messages.
    pub const fn new(limit: ByteSize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            short: [const { Vec::new() }; CLASSES],
            spare: Vec::new(),
            kept: 0,
            idle: 0,
            over: 0,
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
        self.charge(bytes.len())?;
        let len = bytes.len();
        Some(self.seat(bytes, len, OWN))
    }

    /// Gives the bytes to the caller and the block back.
    pub fn take(&mut self, block: Block) -> Vec<u8> {
        let (mut bytes, len, _) = self.unseat(block);
        bytes.truncate(len);
        bytes
    }

    /// Counts a block of `len` bytes; `None`: that would be beyond the limit.
    fn charge(&mut self, len: usize) -> Option<()> {
        let used = self.used + len as u64 + BLOCK_COST;
        if used > self.limit {
            return None;
        }
        self.used = used;
        self.used_max = self.used_max.max(used);
        Some(())
    }

    /// A block of `len` bytes, which are whatever they are.
    fn block(&mut self, len: usize) -> Option<Block> {
        self.charge(len)?;
        if len > SHORT_MAX {
            let bytes = self.spare_buffer(len).unwrap_or_else(|| alloc::vec![0; len]);
            return Some(self.seat(bytes, len, OWN));
        }
        let class = class_of(len);
        let size = bytes_of(class);
        let over = (size - len) as u64;
        let bytes = match self.short[class].pop() {
            Some(bytes) => {
                self.kept -= size as u64;
                self.idle -= size as u64;
                bytes
            }
            None if self.over + over <= self.limit / 64 => alloc::vec![0; size],
            None => return Some(self.seat(alloc::vec![0; len], len, OWN)),
        };
        self.over += over;
        Some(self.seat(bytes, len, class as u8))
    }

    /// Puts a buffer whose block is counted into a place.
    fn seat(&mut self, bytes: Vec<u8>, len: usize, class: u8) -> Block {
        while self.used + self.kept > self.limit {
            self.drop_kept();
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        (slot.len, slot.class, slot.bytes) = (len as u32, class, bytes);
        Block { index, generation: slot.generation }
    }

    /// Takes the buffer of a block, how long that was, and its size out of their place.
    fn unseat(&mut self, block: Block) -> (Vec<u8>, usize, u8) {
        let slot = self.slot_mut(block);
        slot.generation = slot.generation.wrapping_add(1);
        let (len, class) = (slot.len as usize, slot.class);
        let bytes = core::mem::take(&mut slot.bytes);
        if class != OWN {
            self.over -= (bytes.len() - len) as u64;
        }
        self.used -= len as u64 + BLOCK_COST;
        self.free.push(block.index);
        (bytes, len, class)
    }

    /// Drops the oldest long buffer, or else one of the longest.
    #[cold]
    fn drop_kept(&mut self) {
        if !self.spare.is_empty() {
            self.kept -= self.spare.remove(0).capacity() as u64;
        } else if let Some(bytes) = self.short.iter_mut().rev().find_map(Vec::pop) {
            self.kept -= bytes.len() as u64;
            self.idle -= bytes.len() as u64;
        }
    }

    /// A kept buffer with room for `len` bytes and not much more, as long as that.
    fn spare_buffer(&mut self, len: usize) -> Option<Vec<u8>> {
        let fits = |b: &Vec<u8>| (len..=len + len / 8).contains(&b.capacity());
        let index = self.spare.iter().rposition(fits)?;
        let mut bytes = self.spare.remove(index);
        self.kept -= bytes.capacity() as u64;
        bytes.resize(len, 0);
        Some(bytes)
    }

    fn keep_long(&mut self, bytes: Vec<u8>) {
        let size = bytes.capacity();
        if size <= SHORT_MAX || self.used + self.kept + size as u64 > self.limit {
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
        self.block(arrival.len as usize)
    }

    fn place(&mut self, block: Block, at: u32, bytes: &[u8]) {
        let slot = self.slot_mut(block);
        let at = at as usize;
        slot.bytes[..slot.len as usize][at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn copy_out(&self, block: Block, at: u32, out: &mut [u8]) {
        let at = at as usize;
        out.copy_from_slice(&self.bytes(block)[at..at + out.len()]);
    }

    fn release(&mut self, block: Block) {
        let (bytes, _, class) = self.unseat(block);
        if class == OWN {
            return self.keep_long(bytes);
        }
        let size = bytes.len() as u64;
        if self.idle + size <= IDLE_MAX && self.used + self.kept + size <= self.limit {
            self.kept += size;
            self.idle += size;
            self.short[usize::from(class)].push(bytes);
        }
    }

    fn len(&self, block: Block) -> u32 {
        self.slot(block).len
    }

    fn bytes(&self, block: Block) -> &[u8] {
        let slot = self.slot(block);
        &slot.bytes[..slot.len as usize]
    }

    fn put_parts(&mut self, parts: &[&[u8]]) -> Option<Block> {
        let len = parts.iter().map(|p| p.len()).sum();
        let block = self.block(len)?;
        let mut rest = &mut self.slots[block.index as usize].bytes[..len];
        for part in parts {
            let (head, tail) = rest.split_at_mut(part.len());
            head.copy_from_slice(part);
            rest = tail;
        }
        Some(block)
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
        assert_eq!((m.kept, m.len(c)), (20_480, 39_000));
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
    fn a_size_is_at_most_a_quarter_longer_than_what_goes_into_it() {
        assert_eq!((bytes_of(0), bytes_of(CLASSES - 1)), (SHORT_MIN, SHORT_MAX));
        for len in 1..=SHORT_MAX {
            let class = class_of(len);
            let size = bytes_of(class);
            assert!(len <= size && size <= SHORT_MIN.max(len + len / 4), "{len} in {size}");
            assert!(class == 0 || bytes_of(class - 1) < len, "{len}: the least");
        }
    }

    #[test]
    fn short_buffers_are_for_the_next_of_their_size() {
        let mut m = HeapMemory::new(ByteSize::from_kib(64));
        let a = m.put(&[1; 100]).unwrap();
        let b = m.put(&[2; 200]).unwrap();
        assert_eq!((m.len(a), m.over), (100, 12 + 24));
        let at = m.bytes(a).as_ptr();
        m.release(a);
        m.release(b);
        assert_eq!((m.used, m.kept, m.idle, m.over), (0, 112 + 224, 112 + 224, 0));
        let c = m.put_parts(&[&[3; 50], &[4; 60]]).unwrap();
        assert_eq!((m.bytes(c).as_ptr(), m.kept, m.over), (at, 224, 2), "the same buffer");
        assert_eq!(m.bytes(c), [[3; 50].as_slice(), &[4; 60]].concat());
        assert_eq!(m.take(c).len(), 110);
        assert_eq!((m.kept, m.over, m.slots.len()), (224, 0, 2), "that one is the caller's");
        // What is used goes before what is kept, and what is over is bounded.
        let all = m.put(&std::vec![0; 64 * 1024 - 64]).unwrap();
        assert_eq!((m.kept, m.idle, m.used), (0, 0, 64 * 1024));
        m.release(all);
        let blocks: Vec<_> = core::iter::from_fn(|| m.put(&[0; 129])).collect();
        assert_eq!(blocks.len(), 64 * 1024 / (129 + 64));
        assert!(m.over <= m.limit / 64 && m.over + 31 > m.limit / 64);
        for block in blocks {
            m.release(block);
        }
        assert_eq!((m.used, m.over), (0, 0));
        assert!(m.kept <= m.limit && m.short[class_of(129)].len() as u64 == m.idle / 160);
    }

    #[test]
    fn only_so_many_short_buffers_wait_for_a_block() {
        let mut m = HeapMemory::new(ByteSize::from_mib(512));
        let len = SHORT_MAX;
        let blocks: Vec<_> = (0..200).map(|_| m.put(&std::vec![0; len]).unwrap()).collect();
        for block in blocks {
            m.release(block);
        }
        assert_eq!((m.idle, m.kept, m.used), (IDLE_MAX, IDLE_MAX, 0));
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
