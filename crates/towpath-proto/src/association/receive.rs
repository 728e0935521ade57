//! The receiving half of a channel: pieces become messages, in order, within the credit given.

use alloc::collections::VecDeque;

use towpath_wire::frame::{self, MESSAGE_CHARGE};

use crate::memory::{Arrival, Block, Memory};
use crate::range_set::RangeSet;

#[derive(Debug)]
struct Incoming {
    block: Block,
    len: u32,
    got: RangeSet,
    done: bool,
}

/// Why a piece was not taken. The packet is then not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The driver has no memory now, or the message is in too many parts.
    NoRoom,
    /// The peer sent beyond its credit, or contradicts itself.
    Fault,
}

/// Invariants: `charged ≤ limit`; `limit - released ≤ window`; message `next + i` is
/// `messages[i]`.
#[derive(Debug)]
pub(super) struct ReceiveHalf {
    messages: VecDeque<Option<Incoming>>,
    /// Number of the next message to deliver.
    next: u64,
    window: u64,
    /// Credit given since the channel opened.
    limit: u64,
    /// Credit used by messages of which a piece was seen.
    charged: u64,
    /// Credit of messages that their owner has finished with.
    released: u64,
    /// How many messages the peer will have sent, once it said so.
    last: Option<u64>,
}

impl ReceiveHalf {
    pub(super) fn new(window: u32) -> Self {
        let window = u64::from(window);
        Self {
            messages: VecDeque::new(),
            next: 0,
            window,
            limit: window,
            charged: 0,
            released: 0,
            last: None,
        }
    }

    /// Takes a piece in. Pieces of messages already delivered are accepted and ignored.
    pub(super) fn accept(
        &mut self,
        piece: &frame::Piece<'_>,
        arrival: &Arrival,
        memory: &mut dyn Memory,
    ) -> Result<(), Refused> {
        let Some(ahead) = piece.message.checked_sub(self.next) else { return Ok(()) };
        if ahead > self.window / MESSAGE_CHARGE || self.last.is_some_and(|n| piece.message >= n) {
            return Err(Refused::Fault);
        }
        let index = ahead as usize;
        if self.messages.get(index).is_none_or(Option::is_none) {
            self.start(index, arrival, memory)?;
        }
        let Some(Some(m)) = self.messages.get_mut(index) else { return Err(Refused::Fault) };
        if m.len != piece.message_len {
            return Err(Refused::Fault);
        }
        let end = piece.offset + piece.bytes.len() as u32;
        if m.done || (m.got.covers(piece.offset, end) && m.len > 0) {
            return Ok(());
        }
        if !m.got.insert(piece.offset, end) {
            return Err(Refused::NoRoom);
        }
        memory.place(m.block, piece.offset, piece.bytes);
        m.done = m.got.covers(0, m.len);
        Ok(())
    }

    fn start(
        &mut self,
        index: usize,
        arrival: &Arrival,
        memory: &mut dyn Memory,
    ) -> Result<(), Refused> {
        let charge = u64::from(arrival.len) + MESSAGE_CHARGE;
        if self.charged + charge > self.limit {
            return Err(Refused::Fault);
        }
        let block = memory.alloc(arrival).ok_or(Refused::NoRoom)?;
        self.charged += charge;
        if self.messages.len() <= index {
            self.messages.resize_with(index + 1, || None);
        }
        self.messages[index] =
            Some(Incoming { block, len: arrival.len, got: RangeSet::default(), done: false });
        Ok(())
    }

    /// The next message in order, if it is complete: number, block, length.
    pub(super) fn pop_ready(&mut self) -> Option<(u64, Block, u32)> {
        match self.messages.front() {
            Some(Some(m)) if m.done => {
                let m = self.messages.pop_front()??;
                self.next += 1;
                Some((self.next - 1, m.block, m.len))
            }
            _ => None,
        }
    }

    /// The owner is done with a message of `len` bytes. True when new credit is worth telling.
    pub(super) fn release(&mut self, len: u32) -> bool {
        self.released += u64::from(len) + MESSAGE_CHARGE;
        // Nothing is under way: whatever waits may need all of it.
        self.released == self.charged || self.released + self.window - self.limit >= self.window / 4
    }

    /// Raises the limit to what was released; returns it.
    pub(super) fn renew(&mut self) -> u64 {
        self.limit = self.released + self.window;
        self.limit
    }

    /// The peer will have sent `messages` in all. A peer that sent more already is at fault.
    pub(super) fn set_last(&mut self, messages: u64) -> Result<(), Refused> {
        if messages < self.next + self.messages.len() as u64 {
            return Err(Refused::Fault);
        }
        self.last.get_or_insert(messages);
        Ok(())
    }

    /// True once every message up to the announced last one was delivered.
    pub(super) fn ended(&self) -> bool {
        self.last.is_some_and(|n| self.next >= n)
    }

    /// Every block still held, for release when the association ends.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Block> + '_ {
        self.messages.drain(..).flatten().map(|m| m.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::AssociationId;
    use crate::memory::HeapMemory;
    use std::vec;
    use std::vec::Vec;
    use towpath_wire::{ByteSize, ChannelId};

    fn piece(message: u64, len: u32, offset: u32, bytes: &[u8]) -> (frame::Piece<'_>, Arrival) {
        let channel = ChannelId(2);
        let piece = frame::Piece { channel, message, message_len: len, offset, bytes };
        let association = AssociationId(0);
        (piece, Arrival { association, channel, label: 0, message, len })
    }

    fn offer(
        h: &mut ReceiveHalf,
        m: &mut HeapMemory,
        message: u64,
        len: u32,
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), Refused> {
        let (p, a) = piece(message, len, offset, bytes);
        h.accept(&p, &a, m)
    }

    #[test]
    fn pieces_in_any_order_come_out_as_messages_in_order() {
        let mut memory = HeapMemory::new(ByteSize::from_kib(64));
        let mut h = ReceiveHalf::new(10_000);
        offer(&mut h, &mut memory, 1, 3, 0, b"xyz").unwrap();
        assert_eq!(h.pop_ready(), None);
        offer(&mut h, &mut memory, 0, 4, 2, b"cd").unwrap();
        offer(&mut h, &mut memory, 0, 4, 0, b"abc").unwrap();
        let mut seen: Vec<Vec<u8>> = vec![];
        while let Some((_, block, _)) = h.pop_ready() {
            seen.push(memory.take(block));
        }
        assert_eq!(seen, [b"abcd".to_vec(), b"xyz".to_vec()]);
        assert_eq!(offer(&mut h, &mut memory, 0, 4, 0, b"late"), Ok(()));
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn more_than_the_credit_is_a_fault_and_costs_no_memory() {
        let mut memory = HeapMemory::new(ByteSize::from_mib(1));
        let mut h = ReceiveHalf::new(1000);
        offer(&mut h, &mut memory, 0, 800, 0, b"a").unwrap();
        let used = memory.used();
        assert_eq!(offer(&mut h, &mut memory, 1, 100, 0, b"b"), Err(Refused::Fault));
        assert_eq!(offer(&mut h, &mut memory, u64::MAX, 1, 0, b"b"), Err(Refused::Fault));
        assert_eq!(offer(&mut h, &mut memory, 0, 801, 0, b"b"), Err(Refused::Fault));
        assert_eq!(memory.used(), used);
    }

    #[test]
    fn credit_returns_only_when_the_owner_is_done() {
        let mut memory = HeapMemory::new(ByteSize::from_mib(1));
        let mut h = ReceiveHalf::new(1000);
        offer(&mut h, &mut memory, 0, 800, 0, &[0; 800]).unwrap();
        h.pop_ready().unwrap();
        assert_eq!(offer(&mut h, &mut memory, 1, 800, 0, b"b"), Err(Refused::Fault));
        assert!(h.release(800));
        assert_eq!(h.renew(), 1864);
        offer(&mut h, &mut memory, 1, 800, 0, b"b").unwrap();
    }

    #[test]
    fn no_memory_is_not_a_fault_and_a_later_try_succeeds() {
        let mut memory = HeapMemory::new(ByteSize::from_bytes(100));
        let block = memory.put(&[0; 20]).unwrap();
        let mut h = ReceiveHalf::new(1000);
        assert_eq!(offer(&mut h, &mut memory, 0, 30, 0, b"b"), Err(Refused::NoRoom));
        memory.release(block);
        assert_eq!(offer(&mut h, &mut memory, 0, 30, 0, b"b"), Ok(()));
    }

    #[test]
    fn the_end_holds_only_after_the_last_message() {
        let mut memory = HeapMemory::new(ByteSize::from_kib(1));
        let mut h = ReceiveHalf::new(1000);
        h.set_last(1).unwrap();
        assert!(!h.ended());
        offer(&mut h, &mut memory, 0, 1, 0, b"a").unwrap();
        assert_eq!(offer(&mut h, &mut memory, 1, 1, 0, b"a"), Err(Refused::Fault));
        h.pop_ready().unwrap();
        assert!(h.ended());
    }
}
