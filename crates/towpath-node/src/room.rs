//! Message memory that is kept back for what daemons tell each other: whatever tasks do not take,
//! and however many peers send it, the control log, questions and output still get in.
//!
//! A driver has one message memory for all ([`HeapMemory`] of 512 MiB in the daemon). What comes
//! for tasks is put off, as if there were no memory, once what tasks have of it reaches
//! [`TASK_BYTES_MAX`]; its peer repeats it. What comes for daemons has a share for each association
//! beside that.
//!
//! [`HeapMemory`]: towpath_proto::HeapMemory

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use towpath_proto::memory::BLOCK_COST;
use towpath_proto::{Arrival, AssociationId, Block, Memory};
use towpath_vm::message::{LABEL_LOG, LABEL_OUTPUT};

/// Bytes of message memory that what comes for tasks fills at most, with all that tasks have of it
/// already: 64 MiB less than a daemon has.
pub const TASK_BYTES_MAX: u64 = 448 << 20;

/// Bytes that messages of daemons which have begun to arrive on one association have apart from
/// that: two of the longest. What is beyond counts as if it were for tasks, so that a peer that
/// never ends its messages keeps nobody out.
const CONTROL_BYTES_MAX: u64 = 2 << 20;

/// What a block costs, and of which association's share; `None`: of what tasks may have.
#[derive(Clone, Copy, Debug)]
struct Charge {
    cost: u64,
    of: Option<AssociationId>,
}

/// What blocks are charged, by their place in the memory's table: of the first places without a
/// search and without the heap. A memory uses low places again first.
#[derive(Debug, Default)]
struct Charges {
    low: Vec<Option<Charge>>,
    high: BTreeMap<u32, Charge>,
}

/// Places that are found without a search.
const LOW: u32 = 1 << 18;

impl Charges {
    fn insert(&mut self, index: u32, charge: Charge) {
        if index >= LOW {
            self.high.insert(index, charge);
            return;
        }
        let index = index as usize;
        if index >= self.low.len() {
            self.low.resize(index + 1, None);
        }
        self.low[index] = Some(charge);
    }

    fn remove(&mut self, index: u32) -> Option<Charge> {
        if index >= LOW {
            return self.high.remove(&index);
        }
        self.low.get_mut(index as usize)?.take()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.low.iter().flatten().count() + self.high.len()
    }
}

/// Messages that have begun to arrive and are not told yet. Invariants: `bytes` sums what `blocks`
/// charge to tasks, `control` what they charge to each association, in order, none of them zero.
#[derive(Debug)]
pub(crate) struct Arriving {
    blocks: Charges,
    bytes: u64,
    control: Vec<(AssociationId, u64)>,
    /// [`TASK_BYTES_MAX`], but for tests.
    pub(crate) max: u64,
    /// Pieces that were put off.
    pub(crate) put_off: u64,
}

impl Default for Arriving {
    fn default() -> Self {
        let (blocks, control) = (Charges::default(), Vec::new());
        Self { blocks, bytes: 0, control, max: TASK_BYTES_MAX, put_off: 0 }
    }
}

impl Arriving {
    /// `memory` for the transport, where tasks hold `held` bytes of what came before.
    pub(crate) fn over<'a>(&'a mut self, held: u64, memory: &'a mut dyn Memory) -> Room<'a> {
        Room { arriving: self, held, memory }
    }

    /// A message was told, or what there was of it is gone.
    pub(crate) fn over_with(&mut self, block: Block) {
        let Some(Charge { cost, of }) = self.blocks.remove(block.index) else { return };
        let Some(id) = of else {
            self.bytes -= cost;
            return;
        };
        if let Ok(at) = self.control_of(id) {
            self.control[at].1 -= cost;
            if self.control[at].1 == 0 {
                self.control.remove(at);
            }
        }
    }

    /// Where the share of an association stands, or would stand.
    fn control_of(&self, id: AssociationId) -> Result<usize, usize> {
        self.control.binary_search_by_key(&id, |(id, _)| *id)
    }

    fn take(&mut self, block: Block, charge: Charge) {
        self.blocks.insert(block.index, charge);
        let Charge { cost, of } = charge;
        match of.map(|id| (id, self.control_of(id))) {
            None => self.bytes += cost,
            Some((_, Ok(at))) => self.control[at].1 += cost,
            Some((id, Err(at))) => self.control.insert(at, (id, cost)),
        }
    }

    /// The share that a message is charged to; `None`: there is no room.
    fn share(&self, held: u64, arrival: &Arrival) -> Option<Charge> {
        let (cost, id) = (u64::from(arrival.len) + BLOCK_COST, arrival.association);
        if (LABEL_LOG..=LABEL_OUTPUT).contains(&arrival.label) {
            let held = self.control_of(id).map_or(0, |at| self.control[at].1);
            if held + cost <= CONTROL_BYTES_MAX {
                return Some(Charge { cost, of: Some(id) });
            }
        }
        (held + self.bytes + cost <= self.max).then_some(Charge { cost, of: None })
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
        let Some(charge) = self.arriving.share(self.held, arrival) else {
            self.arriving.put_off += 1;
            return None;
        };
        let block = self.memory.alloc(arrival)?;
        self.arriving.take(block, charge);
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

#[cfg(test)]
mod tests {
    use towpath_proto::HeapMemory;
    use towpath_wire::{ByteSize, ChannelId};

    use super::*;

    #[test]
    fn messages_of_daemons_that_never_end_have_a_share_and_then_what_tasks_have() {
        let mut memory = HeapMemory::new(ByteSize::from_mib(64));
        let mut arriving = Arriving { max: 3 << 20, ..Arriving::default() };
        let arrival = |of: u32, label| Arrival {
            association: AssociationId(of),
            channel: ChannelId(0),
            label,
            message: 0,
            len: 1_000_000,
        };
        let mut blocks = alloc::vec::Vec::new();
        let mut takes = |arriving: &mut Arriving, of, label| {
            let block = arriving.over(0, &mut memory).alloc(&arrival(of, label));
            blocks.extend(block);
            block.is_some()
        };
        // Two apart, three of what tasks may have, and no more: not of its tasks either.
        let taken = (0..9).filter(|_| takes(&mut arriving, 1, LABEL_LOG)).count();
        assert_eq!((taken, arriving.put_off), (5, 4));
        assert!(!takes(&mut arriving, 1, LABEL_OUTPUT + 1));
        // A label that daemons do not have is nobody's.
        assert!(!takes(&mut arriving, 2, 0));
        // Others are heard.
        assert!(takes(&mut arriving, 2, LABEL_OUTPUT) && takes(&mut arriving, 3, LABEL_LOG));
        for block in blocks {
            arriving.over(0, &mut memory).release(block);
        }
        assert_eq!((arriving.bytes(), arriving.blocks.len(), arriving.control.len()), (0, 0, 0));
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn charges_are_found_wherever_a_block_stands() {
        let mut charges = Charges::default();
        let places = [0, 7, LOW - 1, LOW, LOW + 1, u32::MAX];
        for (n, place) in places.into_iter().enumerate() {
            charges.insert(place, Charge { cost: n as u64 + 1, of: None });
        }
        assert_eq!((charges.len(), charges.low.len(), charges.high.len()), (6, LOW as usize, 3));
        let removed = places.map(|place| charges.remove(place).map(|charge| charge.cost));
        assert_eq!(removed, [1, 2, 3, 4, 5, 6].map(Some));
        assert!(places.map(|place| charges.remove(place)).iter().all(Option::is_none));
        assert!(charges.remove(LOW / 2).is_none());
    }

    #[test]
    fn room_is_the_memory_beneath_and_what_is_held_fills_what_tasks_may_have() {
        let mut memory = HeapMemory::new(ByteSize::from_mib(4));
        let mut arriving = Arriving { max: 1000 + BLOCK_COST, ..Arriving::default() };
        let (association, channel) = (AssociationId(1), ChannelId(0));
        let label = LABEL_OUTPUT + 1;
        let arrival = Arrival { association, channel, label, message: 0, len: 6 };
        assert!(arriving.over(995, &mut memory).alloc(&arrival).is_none());
        let mut room = arriving.over(994, &mut memory);
        let block = room.alloc(&arrival).expect("there is room");
        room.place(block, 0, b"abcdef");
        let mut out = [0; 3];
        room.copy_out(block, 2, &mut out);
        assert_eq!((&out, room.len(block), room.bytes(block)), (b"cde", 6, &b"abcdef"[..]));
        let parts = room.put_parts(&[b"ab", b"c"]).expect("there is room");
        assert_eq!(room.bytes(parts), b"abc");
        room.release(parts);
        assert_eq!(arriving.bytes(), 6 + BLOCK_COST);
        arriving.over(0, &mut memory).release(block);
        assert_eq!((arriving.bytes(), arriving.put_off, memory.used()), (0, 1, 0));
    }
}
