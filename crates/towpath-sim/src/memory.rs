//! Message memory of a simulated host: control messages are real, bulk messages are only a seed
//! and a length, so that a 64 KiB message costs nothing but its packets' headers.

use towpath_proto::{Arrival, Block, HeapMemory, Memory};
use towpath_wire::ByteSize;

use crate::hash::Hash;

/// Channels with this label or above carry virtual messages.
pub const VIRTUAL_LABEL: u16 = 0x8000;
/// Set in the index of a virtual block.
const VIRTUAL: u32 = 1 << 31;
/// A piece at least this long starts with (seed, offset).
const DESCRIPTOR: usize = 12;

#[derive(Clone, Debug, Default)]
struct Virtual {
    generation: u32,
    used: bool,
    len: u32,
    seed: Option<u64>,
    damaged: bool,
}

/// Real and virtual blocks with one limit for both.
#[derive(Debug)]
pub struct SimMemory {
    /// Real blocks.
    pub heap: HeapMemory,
    blocks: Vec<Virtual>,
    free: Vec<u32>,
    limit: u64,
    used: u64,
    used_max: u64,
    /// Bulk messages are real bytes too.
    real: bool,
}

/// The byte at `offset` of the message with `seed`.
pub fn pattern(seed: u64, offset: u32) -> u8 {
    let mut h = Hash::new(seed);
    h.word(u64::from(offset / 8));
    h.value().to_le_bytes()[(offset % 8) as usize]
}

fn pattern_bytes(seed: u64, offset: u32, out: &mut [u8]) {
    for (i, b) in out.iter_mut().enumerate() {
        *b = pattern(seed, offset + i as u32);
    }
}

impl SimMemory {
    /// Whoever held anything is gone.
    pub fn forget(&mut self) {
        let limit = ByteSize::from_bytes(self.limit);
        *self = Self { used_max: self.used_max, ..Self::new(limit, self.real) };
    }

    /// Memory for `limit` bytes of real and as many of virtual messages. With `real`, bulk
    /// messages are made of real bytes.
    pub fn new(limit: ByteSize, real: bool) -> Self {
        Self {
            heap: HeapMemory::new(limit),
            blocks: Vec::new(),
            free: Vec::new(),
            limit: limit.as_bytes(),
            used: 0,
            used_max: 0,
            real,
        }
    }

    /// The most that was ever in use, of both kinds.
    pub fn used_max(&self) -> u64 {
        self.used_max + self.heap.used_max()
    }

    /// What is in use, of both kinds.
    pub fn used(&self) -> u64 {
        self.used + self.heap.used()
    }

    /// A bulk message of `len` bytes made from `seed`.
    pub fn bulk(&mut self, seed: u64, len: u32) -> Option<Block> {
        if self.real {
            let mut bytes = vec![0; len as usize];
            pattern_bytes(seed, 0, &mut bytes);
            return self.heap.store(bytes);
        }
        let block = self.virtual_block(len)?;
        self.blocks[(block.index & !VIRTUAL) as usize].seed = Some(seed);
        Some(block)
    }

    /// True when `block` is exactly the bulk message made from `seed`.
    pub fn is_bulk(&self, block: Block, seed: u64, len: u32) -> bool {
        if block.index & VIRTUAL == 0 {
            let bytes = self.heap.bytes(block);
            return bytes.len() == len as usize
                && bytes.iter().enumerate().all(|(i, b)| *b == pattern(seed, i as u32));
        }
        let v = self.virt(block);
        v.len == len && !v.damaged && (v.seed == Some(seed) || (v.seed.is_none() && len < 12))
    }

    fn virtual_block(&mut self, len: u32) -> Option<Block> {
        let cost = u64::from(len) + towpath_proto::memory::BLOCK_COST;
        if self.used + cost > self.limit {
            return None;
        }
        self.used += cost;
        self.used_max = self.used_max.max(self.used);
        let index = self.free.pop().unwrap_or_else(|| {
            self.blocks.push(Virtual::default());
            self.blocks.len() as u32 - 1
        });
        let v = &mut self.blocks[index as usize];
        (v.used, v.len, v.seed, v.damaged) = (true, len, None, false);
        Some(Block { index: index | VIRTUAL, generation: v.generation })
    }

    fn virt(&self, block: Block) -> &Virtual {
        let v = &self.blocks[(block.index & !VIRTUAL) as usize];
        assert!(v.used && v.generation == block.generation, "block used after its release");
        v
    }
}

impl Memory for SimMemory {
    fn alloc(&mut self, arrival: &Arrival) -> Option<Block> {
        if arrival.label >= VIRTUAL_LABEL && !self.real {
            self.virtual_block(arrival.len)
        } else {
            self.heap.alloc(arrival)
        }
    }

    fn place(&mut self, block: Block, at: u32, bytes: &[u8]) {
        if block.index & VIRTUAL == 0 {
            return self.heap.place(block, at, bytes);
        }
        self.virt(block);
        let v = &mut self.blocks[(block.index & !VIRTUAL) as usize];
        let Some((seed, rest)) = bytes.split_first_chunk::<8>() else { return };
        let seed = u64::from_le_bytes(*seed);
        if let Some(offset) = rest.first_chunk::<4>() {
            let first = *v.seed.get_or_insert(seed);
            v.damaged |= first != seed || u32::from_le_bytes(*offset) != at;
        }
        v.damaged |= at + bytes.len() as u32 > v.len;
    }

    fn copy_out(&self, block: Block, at: u32, out: &mut [u8]) {
        if block.index & VIRTUAL == 0 {
            return self.heap.copy_out(block, at, out);
        }
        let v = self.virt(block);
        assert!(at + out.len() as u32 <= v.len, "a piece lies within its message");
        let seed = v.seed.unwrap_or(0);
        if out.len() < DESCRIPTOR {
            return pattern_bytes(seed, at, out);
        }
        out[..8].copy_from_slice(&seed.to_le_bytes());
        out[8..DESCRIPTOR].copy_from_slice(&at.to_le_bytes());
    }

    fn release(&mut self, block: Block) {
        if block.index & VIRTUAL == 0 {
            return self.heap.release(block);
        }
        self.virt(block);
        let index = block.index & !VIRTUAL;
        let v = &mut self.blocks[index as usize];
        v.generation = v.generation.wrapping_add(1);
        v.used = false;
        self.used -= u64::from(v.len) + towpath_proto::memory::BLOCK_COST;
        self.free.push(index);
    }

    fn len(&self, block: Block) -> u32 {
        if block.index & VIRTUAL == 0 { self.heap.len(block) } else { self.virt(block).len }
    }

    fn bytes(&self, block: Block) -> &[u8] {
        assert!(block.index & VIRTUAL == 0, "a virtual message has no bytes to read");
        self.heap.bytes(block)
    }

    fn put_parts(&mut self, parts: &[&[u8]]) -> Option<Block> {
        self.heap.put_parts(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(memory: &mut SimMemory, from: Block, cuts: &[(u32, u32)]) -> Block {
        let to = memory.virtual_block(memory.len(from)).unwrap();
        for (at, len) in cuts {
            let mut piece = vec![0; *len as usize];
            memory.copy_out(from, *at, &mut piece);
            memory.place(to, *at, &piece);
        }
        to
    }

    #[test]
    fn a_virtual_message_keeps_its_identity_in_any_cut() {
        let mut m = SimMemory::new(ByteSize::from_mib(1), false);
        let from = m.bulk(42, 1000).unwrap();
        let to = through(&mut m, from, &[(500, 500), (0, 300), (300, 200)]);
        assert!(m.is_bulk(to, 42, 1000));
        assert!(!m.is_bulk(to, 43, 1000));
    }

    #[test]
    fn a_piece_at_the_wrong_place_is_noticed() {
        let mut m = SimMemory::new(ByteSize::from_mib(1), false);
        let from = m.bulk(42, 1000).unwrap();
        let to = m.virtual_block(1000).unwrap();
        let mut piece = vec![0; 100];
        m.copy_out(from, 100, &mut piece);
        m.place(to, 200, &piece);
        assert!(!m.is_bulk(to, 42, 1000));
    }
}
