//! The receiving half of a channel: pieces become messages, within the credit given.

use alloc::collections::VecDeque;
use core::time::Duration;

use towpath_wire::Instant;
use towpath_wire::frame::{self, MESSAGE_CHARGE, Reliability};

use crate::memory::{Arrival, Block, Memory};
use crate::range_set::RangeSet;

#[derive(Debug)]
struct Incoming {
    block: Block,
    len: u32,
    got: RangeSet,
    done: bool,
}

/// Where the message of a number stands.
#[derive(Debug)]
enum Slot {
    /// No piece of it was seen.
    Unseen,
    /// Some or all of it is here.
    Here(Incoming),
    /// Delivered, or skipped.
    Over,
}

/// What the documentation of the crate states for the bookkeeping of 64 bytes of credit.
const _: () = assert!(size_of::<Slot>() <= 48);

/// Why a piece was not taken. The packet is then not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The driver has no memory now, or the message is in too many parts.
    NoRoom,
    /// The peer sent beyond its credit, or contradicts itself.
    Fault,
}

/// When to tell the peer of new credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// Once there is more of it.
    Later,
    /// With whatever goes out next.
    Along,
    Now,
}

/// What a piece was good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It, or all of it, was here before.
    Known,
    /// Its message was delivered or skipped before.
    Stale,
    /// It was placed.
    New,
}

/// Invariants: `released ≤ charged ≤ limit`; `limit - released ≤ window`; message `next + i` is
/// `messages[i]`; the first of them is not over; there are at most `window / 64 + 1`.
#[derive(Debug)]
pub(super) struct ReceiveHalf {
    class: Reliability,
    messages: VecDeque<Slot>,
    /// Number of the first message that is neither delivered nor skipped.
    next: u64,
    window: u64,
    /// Credit given since the channel opened.
    limit: u64,
    /// Credit used by messages of which a piece was seen, or that were skipped.
    charged: u64,
    /// Credit of messages that their owner has finished with, or that were skipped.
    released: u64,
    /// How many messages the peer will have sent, once it said so.
    last: Option<u64>,
    /// Where order does not matter: place of a message just completed.
    complete: Option<usize>,
    /// When the limit was last told, once it was.
    told: Option<Instant>,
}

impl ReceiveHalf {
    pub(super) const fn new(window: u64, class: Reliability) -> Self {
        Self {
            class,
            messages: VecDeque::new(),
            next: 0,
            window,
            limit: window,
            charged: 0,
            released: 0,
            last: None,
            complete: None,
            told: None,
        }
    }

    /// The place of a message in `messages`, which is made to reach so far; `None` when it is over.
    fn place(&mut self, message: u64) -> Result<Option<usize>, Refused> {
        let Some(ahead) = message.checked_sub(self.next) else { return Ok(None) };
        if ahead > self.window / MESSAGE_CHARGE || self.last.is_some_and(|n| message >= n) {
            return Err(Refused::Fault);
        }
        let index = ahead as usize;
        match self.messages.get(index) {
            Some(Slot::Over) => return Ok(None),
            Some(_) => {}
            None => self.messages.resize_with(index + 1, || Slot::Unseen),
        }
        Ok(Some(index))
    }

    /// Takes a piece in. What it completes leaves through [`ReceiveHalf::pop_ready`], before the
    /// next piece.
    pub(super) fn accept(
        &mut self,
        piece: &frame::Piece<'_>,
        arrival: &Arrival,
        memory: &mut dyn Memory,
    ) -> Result<Taken, Refused> {
        let Some(index) = self.place(piece.message)? else { return Ok(Taken::Stale) };
        if matches!(self.messages[index], Slot::Unseen) {
            self.start(index, arrival, memory)?;
        }
        let Slot::Here(m) = &mut self.messages[index] else { return Err(Refused::Fault) };
        if m.len != piece.message_len {
            return Err(Refused::Fault);
        }
        let len = piece.bytes.len() as u32;
        let end = piece.offset + len;
        if m.done || (m.len > 0 && m.got.covers(piece.offset, end)) {
            return Ok(Taken::Known);
        }
        if len < m.len && !m.got.insert(piece.offset, end) {
            return Err(Refused::NoRoom);
        }
        memory.place(m.block, piece.offset, piece.bytes);
        m.done = len == m.len || m.got.covers(0, m.len);
        if m.done && self.class != Reliability::ReliableOrdered {
            self.complete = Some(index);
        }
        Ok(Taken::New)
    }

    fn start(
        &mut self,
        index: usize,
        arrival: &Arrival,
        memory: &mut dyn Memory,
    ) -> Result<(), Refused> {
        let charge = u64::from(arrival.len) + MESSAGE_CHARGE;
        if charge > self.limit - self.charged {
            return Err(Refused::Fault);
        }
        let block = memory.alloc(arrival).ok_or(Refused::NoRoom)?;
        self.charged += charge;
        let (len, got, done) = (arrival.len, RangeSet::default(), false);
        self.messages[index] = Slot::Here(Incoming { block, len, got, done });
        Ok(())
    }

    /// The peer gave a message up that it had charged `charge`: what is here of it is dropped, and
    /// its credit returns. True when it was not over before.
    pub(super) fn skip(
        &mut self,
        message: u64,
        charge: u64,
        memory: &mut dyn Memory,
    ) -> Result<bool, Refused> {
        if !matches!(self.class, Reliability::Timely | Reliability::Unreliable) {
            return Err(Refused::Fault);
        }
        let Some(index) = self.place(message)? else { return Ok(false) };
        match &self.messages[index] {
            Slot::Here(m) if charge == u64::from(m.len) + MESSAGE_CHARGE => memory.release(m.block),
            Slot::Unseen if charge <= self.limit - self.charged => self.charged += charge,
            _ => return Err(Refused::Fault),
        }
        self.released += charge;
        self.messages[index] = Slot::Over;
        self.advance();
        Ok(true)
    }

    /// Forgets messages that are over and have none before them that is not.
    fn advance(&mut self) {
        while let Some(Slot::Over) = self.messages.front() {
            self.messages.pop_front();
            self.next += 1;
        }
    }

    /// True when [`ReceiveHalf::pop_ready`] has a message.
    pub(super) fn is_ready(&self) -> bool {
        match self.class {
            Reliability::ReliableOrdered => {
                matches!(self.messages.front(), Some(Slot::Here(m)) if m.done)
            }
            _ => self.complete.is_some(),
        }
    }

    /// A complete message whose turn it is: number, block, length. In order on an ordered channel,
    /// at once on the others.
    pub(super) fn pop_ready(&mut self) -> Option<(u64, Block, u32)> {
        let index =
            if self.class == Reliability::ReliableOrdered { 0 } else { self.complete.take()? };
        let Some(Slot::Here(m)) = self.messages.get(index) else { return None };
        if !m.done {
            return None;
        }
        let ready = (self.next + index as u64, m.block, m.len);
        self.messages[index] = Slot::Over;
        self.advance();
        Some(ready)
    }

    /// The owner is done with a message of `len` bytes.
    pub(super) fn release(&mut self, len: u32) {
        self.released += u64::from(len) + MESSAGE_CHARGE;
    }

    /// Whether there is new credit that is worth telling.
    pub(super) fn renewal(&self) -> Renewal {
        let fresh = self.released + self.window - self.limit;
        if fresh >= self.window / 4 {
            Renewal::Now
        } else if fresh == 0 || self.released != self.charged {
            Renewal::Later
        } else if fresh < self.window / 256 && self.class == Reliability::ReliableOrdered {
            // A short message came, and perhaps its answer goes soon.
            Renewal::Along
        } else {
            // Nothing is under way: whatever waits may need all of it.
            Renewal::Now
        }
    }

    /// Raises the limit to what was released; returns it.
    pub(super) fn renew(&mut self, now: Instant) -> u64 {
        self.told = Some(now);
        self.limit = self.released + self.window;
        self.limit
    }

    /// Bytes that the window would grow by if its limit were told now: as many as it has where it
    /// holds the peer up. A quarter of it was used and given back within half of `trip`, the least
    /// round trip; so less than two round trips' worth fits in, and one is always on its way.
    pub(super) fn wants(&self, now: Instant, trip: Duration) -> u64 {
        let fresh = self.released + self.window - self.limit;
        let soon = self.told.is_some_and(|told| now.since(told) < trip / 2);
        if soon && fresh >= self.window / 4 { self.window } else { 0 }
    }

    /// The window has so many bytes more from now on.
    pub(super) const fn grow(&mut self, bytes: u64) {
        self.window += bytes;
    }

    /// Credit that may be out at once, in bytes.
    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    /// The peer will have sent `messages` in all. A peer that sent more already is at fault.
    pub(super) fn set_last(&mut self, messages: u64) -> Result<(), Refused> {
        if messages < self.next + self.messages.len() as u64 {
            return Err(Refused::Fault);
        }
        self.last.get_or_insert(messages);
        Ok(())
    }

    /// True once every message up to the announced last one was delivered or skipped.
    pub(super) fn ended(&self) -> bool {
        self.last.is_some_and(|n| self.next >= n)
    }

    /// A message of so many bytes, its charge among them, came and was taken.
    #[cfg(test)]
    pub(super) const fn take_for_test(&mut self, bytes: u32) {
        self.charged += bytes as u64;
        self.released += bytes as u64;
    }

    /// Credit used since the channel opened, and returned.
    #[cfg(test)]
    pub(super) const fn used(&self) -> (u64, u64) {
        (self.charged, self.released)
    }

    /// Every block still held, for release when the association ends.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Block> + '_ {
        let held = |slot| if let Slot::Here(m) = slot { Some(m.block) } else { None };
        self.messages.drain(..).filter_map(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::AssociationId;
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
        h.accept(&p, &a, m).map(|_| ())
    }

    fn half(window: u64) -> ReceiveHalf {
        ReceiveHalf::new(window, Reliability::ReliableOrdered)
    }

    #[test]
    fn pieces_in_any_order_come_out_as_messages_in_order() {
        let mut memory = HeapMemory::new(ByteSize::from_kib(64));
        let mut h = half(10_000);
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
    fn a_window_wants_to_grow_while_a_quarter_of_it_is_used_within_half_a_round_trip() {
        let ms = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let trip = Duration::from_millis(20);
        let mut h = half(4000);
        h.released = 1000;
        assert_eq!(h.wants(ms(1), trip), 0, "nothing was told yet");
        h.renew(ms(1));
        h.released = 1999;
        assert_eq!(h.wants(ms(2), trip), 0, "less than a quarter");
        h.released = 2000;
        assert_eq!(h.wants(ms(10), trip), 4000);
        assert_eq!(h.wants(ms(11), trip), 0, "that is not what holds the peer up");
        assert_eq!(h.wants(ms(2), Duration::ZERO), 0, "no round trip is known");
        h.grow(4000);
        assert_eq!((h.window(), h.renew(ms(10))), (8000, 10_000));
    }

    #[test]
    fn credit_of_a_short_message_waits_for_an_answer_only_where_order_is_kept() {
        let after = |class, len: u32| {
            let mut memory = HeapMemory::new(ByteSize::from_mib(2));
            let mut h = ReceiveHalf::new(1 << 20, class);
            offer(&mut h, &mut memory, 0, len, 0, &vec![1; len as usize]).unwrap();
            let before = h.renewal();
            h.pop_ready().expect("it is whole");
            h.release(len);
            (before, h.renewal())
        };
        let ordered = |len| after(Reliability::ReliableOrdered, len);
        assert_eq!(ordered(10), (Renewal::Later, Renewal::Along), "nothing new before");
        assert_eq!(ordered(5000), (Renewal::Later, Renewal::Now), "whoever waits may need it");
        assert_eq!(ordered(300_000), (Renewal::Later, Renewal::Now));
        assert_eq!(after(Reliability::Timely, 10), (Renewal::Later, Renewal::Now));
    }

    #[test]
    fn more_than_the_credit_is_a_fault_and_costs_no_memory() {
        let mut memory = HeapMemory::new(ByteSize::from_mib(1));
        let mut h = half(1000);
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
        let mut h = half(1000);
        offer(&mut h, &mut memory, 0, 800, 0, &[0; 800]).unwrap();
        h.pop_ready().unwrap();
        assert_eq!(offer(&mut h, &mut memory, 1, 800, 0, b"b"), Err(Refused::Fault));
        assert_eq!(h.renewal(), Renewal::Later);
        h.release(800);
        assert_ne!(h.renewal(), Renewal::Later);
        assert_eq!(h.renew(Instant::ZERO), 1864);
        offer(&mut h, &mut memory, 1, 800, 0, b"b").unwrap();
    }

    #[test]
    fn no_memory_is_not_a_fault_and_a_later_try_succeeds() {
        let mut memory = HeapMemory::new(ByteSize::from_bytes(100));
        let block = memory.put(&[0; 20]).unwrap();
        let mut h = half(1000);
        assert_eq!(offer(&mut h, &mut memory, 0, 30, 0, b"b"), Err(Refused::NoRoom));
        memory.release(block);
        assert_eq!(offer(&mut h, &mut memory, 0, 30, 0, b"b"), Ok(()));
    }

    #[test]
    fn the_end_holds_only_after_the_last_message() {
        let mut memory = HeapMemory::new(ByteSize::from_kib(1));
        let mut h = half(1000);
        h.set_last(1).unwrap();
        assert!(!h.ended());
        offer(&mut h, &mut memory, 0, 1, 0, b"a").unwrap();
        assert_eq!(offer(&mut h, &mut memory, 1, 1, 0, b"a"), Err(Refused::Fault));
        h.pop_ready().unwrap();
        assert!(h.ended());
    }

    #[test]
    fn without_order_each_message_leaves_when_it_is_complete() {
        let mut memory = HeapMemory::new(ByteSize::from_kib(64));
        let mut h = ReceiveHalf::new(10_000, Reliability::ReliableUnordered);
        offer(&mut h, &mut memory, 0, 4, 0, b"ab").unwrap();
        offer(&mut h, &mut memory, 2, 3, 0, b"xyz").unwrap();
        assert_eq!(h.pop_ready().map(|r| r.0), Some(2));
        assert_eq!(h.pop_ready(), None);
        let (p, a) = piece(2, 3, 0, b"xyz");
        assert_eq!(h.accept(&p, &a, &mut memory), Ok(Taken::Stale));
        offer(&mut h, &mut memory, 0, 4, 2, b"cd").unwrap();
        assert_eq!(h.pop_ready().map(|r| r.0), Some(0));
        assert_eq!(h.next, 1, "message 1 was not seen");
        assert_eq!(
            h.skip(1, 65, &mut memory),
            Err(Refused::Fault),
            "a reliable one is not skipped"
        );
    }

    #[test]
    fn what_is_skipped_gives_its_memory_and_its_credit_back_seen_or_not() {
        let mut memory = HeapMemory::new(ByteSize::from_kib(64));
        let mut h = ReceiveHalf::new(1000, Reliability::Timely);
        offer(&mut h, &mut memory, 1, 300, 0, b"ab").unwrap();
        // In part; never seen; never sent; and each told twice.
        for (message, charge) in [(1, 364), (0, 164), (2, 0), (1, 364), (0, 164), (2, 0)] {
            h.skip(message, charge, &mut memory).unwrap();
        }
        assert_eq!((memory.used(), h.next), (0, 3));
        assert_eq!((h.charged, h.released), (528, 528));
        assert_ne!(h.renewal(), Renewal::Later);
        let (p, a) = piece(1, 300, 0, b"ab");
        assert_eq!(h.accept(&p, &a, &mut memory), Ok(Taken::Stale), "late pieces are dropped");
        assert_eq!(h.skip(3, 473, &mut memory), Err(Refused::Fault), "beyond the credit");
        assert_eq!(h.skip(3, 472, &mut memory), Ok(true));
    }

    #[test]
    fn a_skip_that_contradicts_what_was_seen_or_said_is_a_fault() {
        let mut memory = HeapMemory::new(ByteSize::from_kib(64));
        let mut h = ReceiveHalf::new(1000, Reliability::Unreliable);
        offer(&mut h, &mut memory, 0, 300, 0, b"ab").unwrap();
        assert_eq!(h.skip(0, 363, &mut memory), Err(Refused::Fault));
        assert_eq!(h.skip(0, 0, &mut memory), Err(Refused::Fault));
        assert_eq!(h.skip(17, 0, &mut memory), Err(Refused::Fault), "more numbers than credit");
        h.set_last(1).unwrap();
        assert_eq!(h.skip(1, 64, &mut memory), Err(Refused::Fault), "beyond the end");
        assert!(!h.ended());
        assert_eq!(h.skip(0, 364, &mut memory), Ok(true));
        assert!(h.ended());
    }
}
