//! Message buffers and their numbers.
//!
//! Numbers are given out as PVM gives them: the one that became free last comes first, and more
//! are made eight, thirteen, twenty-one ... at a time; programs have been seen to rely on small
//! ones. A message that waits to be received has a number too, because a match function is told
//! it (`pvm_recvf`).

use crate::code::Code;
use crate::message::{Encoding, Message};

/// Numbers that exist after the first and the second growth.
const FIRST: (usize, usize) = (8, 13);
/// Memory of freed messages that is kept for new ones: vectors, and bytes of each.
const KEPT: usize = 16;
const KEPT_BYTES: usize = 1 << 20;

/// A slot of the table. Invariant: `waiting` only with a message.
#[derive(Debug)]
struct Slot {
    message: Option<Message>,
    /// Next free number, where there is no message.
    next_free: i32,
    /// Neighbours among the waiting messages, where it is one (0: none).
    waiting: Option<(i32, i32)>,
}

/// The buffers of a task.
#[derive(Debug)]
pub(crate) struct Buffers {
    slots: Vec<Slot>,
    free: i32,
    next_size: usize,
    /// The send and the receive buffer; 0: none. Invariant: different, or both 0.
    send: i32,
    receive: i32,
    /// First and last waiting message.
    first: i32,
    last: i32,
    storage: Vec<Vec<u8>>,
}

impl Buffers {
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: 0,
            next_size: FIRST.0,
            send: 0,
            receive: 0,
            first: 0,
            last: 0,
            storage: Vec::new(),
        }
    }

    /// An empty message to be packed.
    pub(crate) fn make(&mut self, encoding: Encoding, source: i32) -> i32 {
        let storage = self.storage.pop().unwrap_or_default();
        let mut message = Message::new(encoding, storage);
        message.info.source = source;
        if let Encoding::Trace { .. } = encoding {
            message.begin_trace();
        }
        self.insert(message)
    }

    /// A message gets a number.
    pub(crate) fn insert(&mut self, message: Message) -> i32 {
        if self.free == 0 {
            self.grow();
        }
        let id = self.free;
        let slot = &mut self.slots[id as usize];
        self.free = slot.next_free;
        slot.message = Some(message);
        id
    }

    fn grow(&mut self) {
        let had = self.slots.len();
        let size = self.next_size;
        self.next_size = if had == 0 { FIRST.1 } else { size + had };
        for id in had as i32..size as i32 {
            self.slots.push(Slot { message: None, next_free: self.free, waiting: None });
            self.free = id;
        }
    }

    /// The message with this number; numbers below 1 and unknown ones are told apart.
    pub(crate) fn get(&self, id: i32) -> Result<&Message, Code> {
        let index = usize::try_from(id).ok().filter(|&index| index > 0).ok_or(Code::BadParam)?;
        self.slots.get(index).and_then(|slot| slot.message.as_ref()).ok_or(Code::NoSuchBuf)
    }

    /// The message with this number.
    pub(crate) fn get_mut(&mut self, id: i32) -> Result<&mut Message, Code> {
        self.get(id)?;
        self.slots[id as usize].message.as_mut().ok_or(Code::NoSuchBuf)
    }

    /// Takes a message away.
    pub(crate) fn remove(&mut self, id: i32) -> Result<Message, Code> {
        self.get(id)?;
        if self.is_waiting(id) {
            self.unlink(id);
        }
        if self.send == id {
            self.send = 0;
        }
        if self.receive == id {
            self.receive = 0;
        }
        let slot = &mut self.slots[id as usize];
        slot.next_free = std::mem::replace(&mut self.free, id);
        slot.message.take().ok_or(Code::NoSuchBuf)
    }

    /// `pvm_freebuf`: 0 is no buffer, and freeing it no mistake.
    pub(crate) fn free(&mut self, id: i32) -> Result<(), Code> {
        if id == 0 {
            return Ok(());
        }
        let storage = self.remove(id)?.into_storage();
        if let Some(storage) = storage
            && storage.capacity() <= KEPT_BYTES
            && self.storage.len() < KEPT
        {
            self.storage.push(storage);
        }
        Ok(())
    }

    /// Number of the send buffer, 0 for none.
    pub(crate) const fn send(&self) -> i32 {
        self.send
    }

    /// Number of the receive buffer, 0 for none.
    pub(crate) const fn receive(&self) -> i32 {
        self.receive
    }

    /// Makes a message the send buffer, which was another; 0: there shall be none.
    pub(crate) fn set_send(&mut self, id: i32) -> Result<i32, Code> {
        if id != 0 {
            self.get_mut(id)?.begin_packing();
            if self.receive == id {
                self.receive = 0;
            }
        }
        Ok(std::mem::replace(&mut self.send, id))
    }

    /// Makes a message the receive buffer, which was another; 0: there shall be none.
    pub(crate) fn set_receive(&mut self, id: i32) -> Result<i32, Code> {
        if id != 0 {
            self.get_mut(id)?.begin_unpacking();
            if self.send == id {
                self.send = 0;
            }
        }
        Ok(std::mem::replace(&mut self.receive, id))
    }

    /// All messages move into memory of this process' own.
    pub(crate) fn keep(&mut self) {
        self.slots.iter_mut().filter_map(|slot| slot.message.as_mut()).for_each(Message::keep);
    }

    /// The send buffer.
    pub(crate) fn sending(&mut self) -> Result<&mut Message, Code> {
        let slot = self.slots.get_mut(self.send as usize).ok_or(Code::NoBuf)?;
        slot.message.as_mut().ok_or(Code::NoBuf)
    }

    /// The receive buffer.
    pub(crate) fn receiving(&mut self) -> Result<&mut Message, Code> {
        let slot = self.slots.get_mut(self.receive as usize).ok_or(Code::NoBuf)?;
        slot.message.as_mut().ok_or(Code::NoBuf)
    }

    /// With the send buffer and another message.
    pub(crate) fn with_both(
        &mut self,
        id: i32,
        step: impl FnOnce(&mut Message, &Message) -> Result<(), Code>,
    ) -> Result<(), Code> {
        if id == self.send {
            return Err(Code::BadParam);
        }
        let slot = self.slots.get_mut(self.send as usize).ok_or(Code::NoBuf)?;
        let mut sending = slot.message.take().ok_or(Code::NoBuf)?;
        let outcome = self.get(id).and_then(|other| step(&mut sending, other));
        self.slots[self.send as usize].message = Some(sending);
        outcome
    }

    /// A message joins those that wait to be received, behind them.
    pub(crate) fn wait(&mut self, message: Message) -> i32 {
        let id = self.insert(message);
        let before = std::mem::replace(&mut self.last, id);
        self.slots[id as usize].waiting = Some((before, 0));
        if before == 0 {
            self.first = id;
        } else if let Some(link) = &mut self.slots[before as usize].waiting {
            link.1 = id;
        }
        id
    }

    /// The waiting message that came first, or first after `id`; 0: there is none.
    pub(crate) fn next_waiting(&self, id: i32) -> i32 {
        if id == 0 {
            return self.first;
        }
        self.slots.get(id as usize).and_then(|slot| slot.waiting).map_or(0, |link| link.1)
    }

    /// The message waits to be received.
    pub(crate) fn is_waiting(&self, id: i32) -> bool {
        self.slots.get(id as usize).is_some_and(|slot| slot.waiting.is_some())
    }

    fn unlink(&mut self, id: i32) {
        let Some((before, after)) = self.slots[id as usize].waiting.take() else { return };
        match before {
            0 => self.first = after,
            _ => self.slots[before as usize].waiting.as_mut().expect("a link").1 = after,
        }
        match after {
            0 => self.last = before,
            _ => self.slots[after as usize].waiting.as_mut().expect("a link").0 = before,
        }
    }

    /// A message waits no longer, and will be read from its beginning. `false`: it did not wait.
    pub(crate) fn take_waiting(&mut self, id: i32) -> Result<bool, Code> {
        let waited = self.is_waiting(id);
        if waited {
            self.unlink(id);
            self.get_mut(id)?.rewind();
        }
        Ok(waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RAW: Encoding = Encoding::Raw;

    #[test]
    fn numbers_come_as_pvm_gives_them() {
        let mut buffers = Buffers::new();
        let first: Vec<i32> = (0..8).map(|_| buffers.make(RAW, 0)).collect();
        assert_eq!(first, [7, 6, 5, 4, 3, 2, 1, 12]);
        buffers.free(5).unwrap();
        buffers.free(7).unwrap();
        assert_eq!([buffers.make(RAW, 0), buffers.make(RAW, 0)], [7, 5]);
        let more: Vec<i32> = (0..5).map(|_| buffers.make(RAW, 0)).collect();
        assert_eq!(more, [11, 10, 9, 8, 20]);
    }

    #[test]
    fn wrong_numbers_are_told_apart() {
        let mut buffers = Buffers::new();
        assert_eq!(buffers.free(0), Ok(()));
        assert_eq!(buffers.free(-1), Err(Code::BadParam));
        assert_eq!(buffers.free(3), Err(Code::NoSuchBuf));
        assert_eq!(buffers.get(0).err(), Some(Code::BadParam));
        assert_eq!(buffers.set_send(9), Err(Code::NoSuchBuf));
        assert_eq!(buffers.set_receive(-9), Err(Code::BadParam));
        assert_eq!(buffers.sending().err(), Some(Code::NoBuf));
    }

    #[test]
    fn a_buffer_is_never_send_and_receive_buffer() {
        let mut buffers = Buffers::new();
        let id = buffers.make(RAW, 0);
        assert_eq!(buffers.set_send(id), Ok(0));
        assert_eq!(buffers.set_receive(id), Ok(0));
        assert_eq!((buffers.send(), buffers.receive()), (0, id));
        assert_eq!(buffers.set_send(id), Ok(0));
        assert_eq!((buffers.send(), buffers.receive()), (id, 0));
        buffers.free(id).unwrap();
        assert_eq!(buffers.send(), 0);
    }

    proptest! {
        /// The list of waiting messages against a vector.
        #[test]
        fn waiting_messages_keep_their_order(steps in prop::collection::vec(0..40_usize, 1..80)) {
            let mut buffers = Buffers::new();
            let mut order = Vec::new();
            for step in steps {
                if step < 15 || order.is_empty() {
                    order.push(buffers.wait(Message::new(RAW, Vec::new())));
                } else {
                    let id = order.remove(step % order.len());
                    if step % 2 == 0 {
                        buffers.free(id).unwrap();
                    } else {
                        prop_assert_eq!(buffers.take_waiting(id), Ok(true));
                        prop_assert_eq!(buffers.take_waiting(id), Ok(false));
                    }
                    prop_assert!(!buffers.is_waiting(id));
                }
                let (mut at, mut seen) = (0, Vec::new());
                loop {
                    at = buffers.next_waiting(at);
                    if at == 0 { break }
                    seen.push(at);
                }
                prop_assert_eq!(&seen, &order);
            }
        }
    }
}
