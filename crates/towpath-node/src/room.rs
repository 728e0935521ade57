//! Message memory that is kept back for what daemons tell each other: whatever tasks do not take,
//! and however many peers send it, the control log, questions and output still get in.
//!
//! A driver has one message memory for all ([`HeapMemory`] of 512 MiB in the daemon). What comes
//! for tasks is put off, as if there were no memory, once what tasks have of it reaches
//! [`TASK_BYTES_MAX`]; its peer repeats it.
//!
//! [`HeapMemory`]: towpath_proto::HeapMemory

use alloc::collections::BTreeMap;

use towpath_proto::memory::BLOCK_COST;
use towpath_proto::{Arrival, Block, Memory};
use towpath_vm::message::{LABEL_LOG, LABEL_OUTPUT};

/// Bytes of message memory that what comes for tasks fills at most, with all that tasks have of it
/// already: 64 MiB less than a daemon has.
pub const TASK_BYTES_MAX: u64 = 448 << 20;

/// Messages for tasks, and for a node's owner, that have begun to arrive and are not told yet.
/// Invariant: `bytes` sums `blocks`, each by its index with what it costs.
#[derive(Debug)]
pub(crate) struct Arriving {
    blocks: BTreeMap<u32, u64>,
    bytes: u64,
    /// [`TASK_BYTES_MAX`], but for tests.
    pub(crate) max: u64,
    /// Pieces that were put off.
    pub(crate) put_off: u64,
}

impl Default for Arriving {
    fn default() -> Self {
        Self { blocks: BTreeMap::new(), bytes: 0, max: TASK_BYTES_MAX, put_off: 0 }
    }
}

impl Arriving {
    /// `memory` for the transport, where tasks hold `held` bytes of what came before.
    pub(crate) fn over<'a>(&'a mut self, held: u64, memory: &'a mut dyn Memory) -> Room<'a> {
        Room { arriving: self, held, memory }
    }

    /// A message was told, or what there was of it is gone.
    pub(crate) fn over_with(&mut self, block: Block) {
        self.bytes -= self.blocks.remove(&block.index).unwrap_or(0);
    }

    /// Bytes that have begun to arrive.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Message memory as the transport sees it.
pub(crate) struct Room<'a> {
    arriving: &'a mut Arriving,
    held: u64,
    memory: &'a mut dyn Memory,
}

impl Memory for Room<'_> {
    fn alloc(&mut self, arrival: &Arrival) -> Option<Block> {
        if (LABEL_LOG..=LABEL_OUTPUT).contains(&arrival.label) {
            return self.memory.alloc(arrival);
        }
        let cost = u64::from(arrival.len) + BLOCK_COST;
        if self.held + self.arriving.bytes + cost > self.arriving.max {
            self.arriving.put_off += 1;
            return None;
        }
        let block = self.memory.alloc(arrival)?;
        self.arriving.blocks.insert(block.index, cost);
        self.arriving.bytes += cost;
        Some(block)
    }

    fn place(&mut self, block: Block, at: u32, bytes: &[u8]) {
        self.memory.place(block, at, bytes);
    }

    fn copy_out(&self, block: Block, at: u32, out: &mut [u8]) {
        self.memory.copy_out(block, at, out);
    }

    fn release(&mut self, block: Block) {
        self.arriving.over_with(block);
        self.memory.release(block);
    }

    fn len(&self, block: Block) -> u32 {
        self.memory.len(block)
    }

    fn bytes(&self, block: Block) -> &[u8] {
        self.memory.bytes(block)
    }

    fn put_parts(&mut self, parts: &[&[u8]]) -> Option<Block> {
        self.memory.put_parts(parts)
    }
}
