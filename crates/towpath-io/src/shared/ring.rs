//! One direction of a pair: records from one producer to one consumer.
//!
//! A record is a cache line. Its first word bears the record's number and is written last, so a
//! consumer that finds the number it expects finds the whole record, in one line, and a producer
//! that dies in between has sent nothing. Short payloads that do not fit stand in a byte ring
//! beside, freed with their record. The consumer says how far it is in a word of its own pages,
//! now and then; the producer looks there only when it has no room.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::error::Corrupt;
use super::layout::{
    ArenaShape, BYTE_ARRAY, BYTES, LINE, SLOT_ARRAY, SLOTS, TAKEN, TINY_MAX, WANTING,
};
use super::memory::{AtomicU64, Memory, fence};
use super::record::{Body, Head, Record, TINY_AT, is_narrow, number, tiny, untiny, words};

/// Records after which the consumer says how far it is.
const TELL_RECORDS: u64 = SLOTS as u64 / 4;
/// Bytes of payload after which it does.
const TELL_BYTES: usize = BYTES / 4;

fn slot(count: u64) -> usize {
    SLOT_ARRAY + (count % SLOTS as u64) as usize * LINE
}

/// The number that record `count` (from 0) bears; never what stood there a lap before.
fn number_of(count: u64) -> u32 {
    (count as u32).wrapping_add(1)
}

/// The sending end. Invariants: `taken` ≤ `sent` ≤ `taken` + `SLOTS`;
/// `freed` ≤ `used` ≤ `freed` + `BYTES`.
#[derive(Debug)]
pub(super) struct Producer {
    own: Arc<Memory>,
    peer: Arc<Memory>,
    /// Records published.
    sent: u64,
    /// Records that the consumer took, as far as is known.
    taken: u64,
    /// Bytes ever used of the byte ring, with what was skipped at its end.
    used: u64,
    /// Bytes that are free again.
    freed: u64,
    /// `used` after each record of the ring.
    used_after: [u64; SLOTS],
}

impl Producer {
    /// `own` is writable and has no other producer.
    pub(super) fn new(own: Arc<Memory>, peer: Arc<Memory>) -> Self {
        let used_after = [0; SLOTS];
        Self { own, peer, sent: 0, taken: 0, used: 0, freed: 0, used_after }
    }

    /// Sees how far the consumer is.
    fn look(&mut self) -> Result<(), Corrupt> {
        // SYNC POINT: pairs with the store in `Consumer::tell`: the consumer has read what is
        // overwritten from here on.
        let taken = self.peer.word(TAKEN).load(Acquire);
        let (least, most) = (self.taken, self.sent);
        if !(least..=most).contains(&taken) {
            return Err(Corrupt::Taken { taken, least, most });
        }
        if let Some(last) = taken.checked_sub(1).filter(|_| taken > least) {
            self.freed = self.used_after[(last % SLOTS as u64) as usize];
        }
        self.taken = taken;
        Ok(())
    }

    fn slot_free(&self) -> bool {
        self.sent - self.taken < SLOTS as u64
    }

    /// Where `len` bytes can stand in one piece, counted as `used` is.
    fn place(&self, len: usize) -> Option<u64> {
        let (len, room) = (len as u64, BYTES as u64);
        let fits_before_end = self.used % room + len <= room;
        let at = if fits_before_end { self.used } else { self.used.next_multiple_of(room) };
        (at + len - self.freed <= room).then_some(at)
    }

    /// Whether a record with any short payload of `len` bytes has room.
    pub(super) fn has_room(&mut self, len: usize) -> Result<bool, Corrupt> {
        if self.slot_free() && self.place(len).is_some() {
            return Ok(true);
        }
        self.look()?;
        Ok(self.slot_free() && self.place(len).is_some())
    }

    /// Sends a whole message that fits into its record, as most are; false: it did not go, and
    /// [`Producer::push`] finds out why.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as `Outbound::push_tiny`")]
    pub(super) fn push_tiny(&mut self, head: &Head, payload: &[u8]) -> bool {
        let len = payload.len();
        let is_whole = head.offset == 0 && head.total == len as u64;
        let goes = len <= TINY_MAX && is_whole && is_narrow(head.tag) && self.slot_free();
        if goes {
            let [first, tags, numbers, ..] = words(head, Body::Tiny { len }, number_of(self.sent));
            let line = self.own.line(slot(self.sent));
            for (i, word) in tiny(payload).enumerate() {
                line.word(TINY_AT + i).store(word, Relaxed);
            }
            self.publish([first, tags, numbers]);
        }
        goes
    }

    /// Sends a short message; false when there is no room.
    pub(super) fn push(&mut self, head: &Head, payload: &[u8]) -> Result<bool, Corrupt> {
        if self.has_slot()? && self.push_tiny(head, payload) {
            return Ok(true);
        }
        let len = payload.len();
        if !self.has_room(len)? {
            return Ok(false);
        }
        let count = self.place(len).expect("there is room");
        let at = (count % BYTES as u64) as usize;
        // SAFETY: this is the only producer of the ring, and nothing in this process reads its
        // own half's byte ring.
        unsafe { self.own.write(BYTE_ARRAY + at, payload) };
        self.used = (count + len as u64).next_multiple_of(LINE as u64);
        self.publish(words(head, Body::Short { at, len }, number_of(self.sent)));
        Ok(true)
    }

    /// Sends what needs a record only; false when there is no room.
    #[inline]
    pub(super) fn push_body(&mut self, head: &Head, body: Body) -> Result<bool, Corrupt> {
        let room = self.has_slot()?;
        if room {
            self.publish(words(head, body, number_of(self.sent)));
        }
        Ok(room)
    }

    /// Whether a record has room that needs no bytes beside it.
    #[inline]
    fn has_slot(&mut self) -> Result<bool, Corrupt> {
        if !self.slot_free() {
            self.look()?;
        }
        Ok(self.slot_free())
    }

    /// Writes the next record from its words, the first one last. What the line held behind them
    /// stays there.
    #[inline]
    fn publish<const N: usize>(&mut self, words: [u64; N]) {
        let line = self.own.line(slot(self.sent));
        for (i, word) in words.iter().enumerate().skip(1) {
            line.word(i).store(*word, Relaxed);
        }
        // SYNC POINT: pairs with the load in `Consumer::arrival`: whoever sees the number sees the
        // record, and its payload.
        line.word(0).store(words[0], Release);
        self.used_after[(self.sent % SLOTS as u64) as usize] = self.used;
        self.sent += 1;
    }

    /// The records that the consumer did not take, and what of their payload is in the ring;
    /// `shape` is the own arena.
    pub(super) fn untaken(
        &mut self,
        shape: ArenaShape,
        mut each: impl FnMut(&Record, Vec<u8>),
    ) -> Result<(), Corrupt> {
        self.look()?;
        for count in self.taken..self.sent {
            let line = self.own.line(slot(count));
            let word = |i: usize| line.word(i).load(Relaxed);
            let record = Record::read(std::array::from_fn(word), shape)?;
            let payload = match record.body() {
                Body::Tiny { len } => {
                    let mut payload = vec![0; len];
                    untiny(|i| word(TINY_AT + i), &mut payload);
                    payload
                }
                Body::Short { at, len } => {
                    let mut payload = vec![0; len];
                    self.own.read(BYTE_ARRAY + at, &mut payload);
                    payload
                }
                Body::Block { .. } => Vec::new(),
            };
            each(&record, payload);
        }
        Ok(())
    }

    /// Says whether this task waits for room or blocks of this pair.
    pub(super) fn want(&self, wanting: bool) {
        let word = self.own.word(WANTING);
        if word.load(Relaxed) != u64::from(wanting) {
            // The fence of `OwnCard::sleep` comes before any sleep.
            word.store(wanting.into(), Release);
        }
    }
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct Consumer {
    own: Arc<Memory>,
    peer: Arc<Memory>,
    /// The sender's arena.
    shape: ArenaShape,
    /// Records taken.
    taken: u64,
    /// Of these, how many the producer was told of.
    told: u64,
    /// Short bytes taken since then.
    bytes: usize,
    /// The next record, copied and checked.
    next: Option<Record>,
}

impl Consumer {
    /// `own` is writable and has no other consumer.
    pub(super) fn new(own: Arc<Memory>, peer: Arc<Memory>, shape: ArenaShape) -> Self {
        Self { own, peer, shape, taken: 0, told: 0, bytes: 0, next: None }
    }

    /// Whether a record waits.
    #[inline]
    pub(super) fn ready(&self) -> bool {
        self.next.is_some() || self.arrival(self.peer.word(slot(self.taken))).is_some()
    }

    /// The first word of the next record, once it is there.
    #[inline]
    fn arrival(&self, first: &AtomicU64) -> Option<u64> {
        // SYNC POINT: pairs with the store in `Producer::publish`.
        let first = first.load(Acquire);
        (number(first) == number_of(self.taken)).then_some(first)
    }

    /// The next record. It is copied once, but for a tiny payload; what the producer does to it
    /// later is not seen.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Option<&Record>, Corrupt> {
        if self.next.is_none() {
            let line = self.peer.line(slot(self.taken));
            let Some(first) = self.arrival(line.word(0)) else { return Ok(None) };
            let word = |i: usize| line.word(i).load(Relaxed);
            let words = [first, word(1), word(2), word(3), word(4), word(5), word(6)];
            self.next = Some(Record::read(words, self.shape)?);
        }
        Ok(self.next.as_ref())
    }

    /// Takes the next record if it carries a whole tiny message, as most do, for which `to` has
    /// room, and `fits` says so of its header; the header. `None`: [`Consumer::peek`] finds out
    /// what there is instead.
    #[inline]
    pub(super) fn take_tiny(
        &mut self,
        to: &mut [u8],
        fits: impl FnOnce(&Head) -> bool,
    ) -> Option<Head> {
        if self.next.is_some() {
            return None;
        }
        let line = self.peer.line(slot(self.taken));
        let word = |i: usize| line.word(i).load(Relaxed);
        let head = Record::tiny(self.arrival(line.word(0))?, word)?;
        let to = to.get_mut(..head.total as usize)?;
        if !fits(&head) {
            return None;
        }
        untiny(|i| word(TINY_AT + i), to);
        self.taken += 1;
        Some(head)
    }

    /// Whether the producer is to be told how far this end is.
    #[inline]
    pub(super) fn should_tell(&self) -> bool {
        self.taken - self.told >= TELL_RECORDS || self.bytes >= TELL_BYTES
    }

    /// What `peek` last showed.
    #[inline]
    pub(super) fn next(&self) -> Option<&Record> {
        self.next.as_ref()
    }

    /// Whether the producer does not know how far this end is.
    #[inline]
    pub(super) fn has_untold(&self) -> bool {
        self.told != self.taken
    }

    /// Takes the next record's payload, which is in the ring. `peek` has shown it, and `to` is as
    /// long as it. True when the producer should be told.
    #[inline]
    pub(super) fn take_short(&mut self, to: &mut [u8]) -> bool {
        let next = self.next.as_ref().expect("`peek` showed a record");
        assert_eq!(next.len(), to.len(), "a buffer of the payload's length");
        match next.body() {
            Body::Tiny { .. } => {
                let line = self.peer.line(slot(self.taken));
                untiny(|i| line.word(TINY_AT + i).load(Relaxed), to);
            }
            Body::Short { at, len } => {
                self.peer.read(BYTE_ARRAY + at, to);
                self.bytes += len.next_multiple_of(LINE);
            }
            Body::Block { .. } => panic!("the next record is a block"),
        }
        self.advance()
    }

    /// Takes the next record, whatever it is. True when the producer should be told.
    #[inline]
    pub(super) fn advance(&mut self) -> bool {
        self.next = None;
        self.taken += 1;
        self.should_tell()
    }

    /// Tells the producer how far this end is. True when the producer waits for it.
    pub(super) fn tell(&mut self) -> bool {
        (self.told, self.bytes) = (self.taken, 0);
        // SYNC POINT: pairs with the load in `Producer::look`.
        self.own.word(TAKEN).store(self.taken, Release);
        is_wanting(&self.peer)
    }
}

/// Whether the writer of this half waits for what was given to it before this call: it says so,
/// fences and looks; we gave, fence and look whether it says so.
pub(super) fn is_wanting(peer: &Memory) -> bool {
    fence(SeqCst);
    peer.word(WANTING).load(Relaxed) != 0
}
