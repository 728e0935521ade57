//! One record of a ring, as words in a line and as what they mean.

use towpath_wire::TaskId;
use towpath_wire::talk::{Header, Tag};

use super::error::Corrupt;
use super::layout::{ArenaShape, BYTES, LINE, SHORT_MAX, TINY_MAX};

/// Words of a record.
pub(super) const WORDS: usize = LINE / 8;

/// A message's header without its ends, which are those of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Chosen by the program; what receivers select by.
    pub tag: Tag,
    /// Separates what must not meet.
    pub context: u32,
    /// Number of the message of its pair.
    pub seq: u32,
    /// Says how the payload is to be read.
    pub format: u32,
    /// Bytes of the whole message.
    pub total: u64,
    /// Where in the message this piece begins; `offset` + length of the piece ≤ `total`.
    pub offset: u64,
}

impl Head {
    /// With the pair's ends.
    pub fn between(self, src: TaskId, dst: TaskId) -> Header {
        let Self { tag, context, seq, format, total, offset } = self;
        Header { src, dst, tag, context, seq, format, total, offset }
    }
}

impl From<&Header> for Head {
    fn from(header: &Header) -> Self {
        let Header { tag, context, seq, format, total, offset, .. } = *header;
        Self { tag, context, seq, format, total, offset }
    }
}

/// Where a record's payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// In the record itself.
    Tiny { len: usize },
    /// In the bytes beside the records.
    Short { at: usize, len: usize },
    /// In a block of the sender's arena.
    Block { page: usize, len: usize, ticket: u16, filling: bool },
}

/// A record's words but a tiny payload's, copied and checked. Invariant: its payload lies where
/// such payloads lie, and in its message. It stays words: what is needed of it is read from them,
/// which costs less than to take it apart and to pass the parts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record([u64; USED]);

/// Words of a record that are used where its payload is elsewhere.
pub(super) const USED: usize = WORDS - 1;

const TINY: u64 = 1;
const SHORT: u64 = 2;
const BLOCK: u64 = 3;
const FILLING: u64 = 4;

/// Two 32-bit values in a word.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// The number in a record's first word.
#[inline]
pub(super) fn number(first: u64) -> u32 {
    low(first)
}

/// Whether a tag is the same number in 32 bits: such tags are half as long in a record, and others
/// stand in no tiny one.
#[inline]
pub(super) const fn is_narrow(tag: Tag) -> bool {
    tag == tag as i32 as Tag
}

/// The words of a record; `number` makes the first one valid. A tiny payload's ([`tiny`]) take the
/// place of those from [`TINY_AT`] on.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as `Outbound::push_tiny`")]
pub(super) fn words(head: &Head, body: Body, number: u32) -> [u64; USED] {
    let Head { tag, context, seq, format, total, offset } = *head;
    let (lower, upper) = (low(tag.cast_unsigned()), high(tag.cast_unsigned()));
    let label = [pair(lower, context), pair(seq, format)];
    let first = |kind: u64, small: u16| pair(number, 0) | kind << 32 | u64::from(small) << 48;
    match body {
        Body::Tiny { len } => [first(TINY, len as u16), label[0], label[1], 0, 0, 0, 0],
        Body::Short { at, len } => {
            let place = pair(at as u32, len as u32);
            [first(SHORT, 0), label[0], label[1], total, offset, place, pair(0, upper)]
        }
        Body::Block { page, len, ticket, filling } => {
            let first = first(if filling { FILLING } else { BLOCK }, ticket);
            [first, label[0], label[1], total, offset, pair(page as u32, upper), len as u64]
        }
    }
}

impl Record {
    /// Checks every value of the copied words of a record. `shape` is the sender's arena.
    #[inline]
    pub(super) fn read(words: [u64; USED], shape: ArenaShape) -> Result<Self, Corrupt> {
        let record = Self(words);
        let [_, _, _, total, offset, place, block_len] = words;
        if record.kind() == TINY && usize::from(record.small()) <= TINY_MAX {
            return Ok(record);
        }
        let len = match record.kind() {
            TINY => {
                let len = u64::from(record.small());
                return Err(Corrupt::Place { what: "line", at: 0, len });
            }
            SHORT => {
                let (at, len) = (u64::from(low(place)), u64::from(high(place)));
                if len > SHORT_MAX as u64 || at > BYTES as u64 - len {
                    return Err(Corrupt::Place { what: "ring", at, len });
                }
                len
            }
            BLOCK | FILLING if shape.block(low(place).into(), block_len).is_some() => block_len,
            BLOCK | FILLING => {
                let at = low(place).into();
                return Err(Corrupt::Place { what: "arena", at, len: block_len });
            }
            kind => return Err(Corrupt::Kind { kind: kind as u8 }),
        };
        if offset.checked_add(len).is_none_or(|end| end > total) {
            return Err(Corrupt::Piece { len, offset, total });
        }
        Ok(record)
    }

    #[inline]
    fn kind(&self) -> u64 {
        self.0[0] >> 32 & 0xff
    }

    /// A tiny payload's length, or a block's ticket.
    #[inline]
    fn small(&self) -> u16 {
        (self.0[0] >> 48) as u16
    }

    /// Its header alone, once the first word is there and says that a whole tiny message follows;
    /// `None`: [`Record::read`] finds out what it is.
    #[inline]
    pub(super) fn tiny(first: u64, word: impl Fn(usize) -> u64) -> Option<Head> {
        let record = Self([first, word(1), word(2), 0, 0, 0, 0]);
        let is_tiny = record.kind() == TINY && usize::from(record.small()) <= TINY_MAX;
        is_tiny.then(|| record.head())
    }

    #[inline]
    pub(super) fn head(&self) -> Head {
        let [_, label_0, label_1, total, offset, ..] = self.0;
        let is_tiny = self.kind() == TINY;
        let (total, offset) = if is_tiny { (self.small().into(), 0) } else { (total, offset) };
        let tag = match self.kind() {
            TINY => low(label_0).cast_signed().into(),
            SHORT => pair(low(label_0), high(self.0[6])).cast_signed(),
            _ => pair(low(label_0), high(self.0[5])).cast_signed(),
        };
        let context = high(label_0);
        let (seq, format) = (low(label_1), high(label_1));
        Head { tag, context, seq, format, total, offset }
    }

    #[inline]
    pub(super) fn body(&self) -> Body {
        let [_, _, _, _, _, place, len] = self.0;
        match self.kind() {
            TINY => Body::Tiny { len: self.small().into() },
            SHORT => Body::Short { at: low(place) as usize, len: high(place) as usize },
            kind => {
                let (page, len, ticket) = (low(place) as usize, len as usize, self.small());
                Body::Block { page, len, ticket, filling: kind == FILLING }
            }
        }
    }

    /// Whether its payload is in a block.
    #[inline]
    pub(super) fn is_block(&self) -> bool {
        self.kind() > SHORT
    }

    /// Bytes of payload.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self.body() {
            Body::Tiny { len } | Body::Short { len, .. } | Body::Block { len, .. } => len,
        }
    }
}

/// Where a tiny payload begins among a record's words.
pub(super) const TINY_AT: usize = WORDS - TINY_MAX / 8;

/// The words of a tiny payload; the last one is filled up with zeros.
#[inline]
pub(super) fn tiny(payload: &[u8]) -> impl Iterator<Item = u64> {
    let (whole, rest) = payload.as_chunks();
    let last = (!rest.is_empty()).then(|| {
        let mut bytes = [0; 8];
        bytes[..rest.len()].copy_from_slice(rest);
        bytes
    });
    whole.iter().copied().chain(last).map(u64::from_le_bytes)
}

/// The first bytes of such words, `word` by number.
#[inline]
pub(super) fn untiny(word: impl Fn(usize) -> u64, to: &mut [u8]) {
    let (whole, rest) = to.as_chunks_mut();
    for (i, bytes) in whole.iter_mut().enumerate() {
        *bytes = word(i).to_le_bytes();
    }
    if !rest.is_empty() {
        rest.copy_from_slice(&word(whole.len()).to_le_bytes()[..rest.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(total: u64, offset: u64) -> Head {
        Head { tag: -7, context: 1 << 31, seq: u32::MAX, format: 9, total, offset }
    }

    #[test]
    fn a_tag_of_64_bits_comes_back_from_all_but_tiny_records() {
        for tag in [i64::MIN, i64::MAX, 1 << 32, -1 << 31, -1, 0, i64::from(i32::MAX) + 1] {
            let bodies = [
                Body::Short { at: 0, len: 8 },
                Body::Block { page: 255, len: 8, ticket: 1, filling: false },
                Body::Tiny { len: 8 },
            ];
            for body in bodies {
                if body == (Body::Tiny { len: 8 }) && !is_narrow(tag) {
                    continue;
                }
                let head = Head { tag, ..head(8, 0) };
                let record = Record::read(words(&head, body, 1), shape()).expect("read");
                assert_eq!((record.head(), record.body()), (head, body));
            }
        }
        let narrow = [i64::from(i32::MIN), i32::MAX.into(), 0, -1];
        let wide = [i64::from(i32::MIN) - 1, i64::from(i32::MAX) + 1, 1 << 32, i64::MIN];
        assert!(narrow.into_iter().all(is_narrow) && !wide.into_iter().any(is_narrow));
    }

    fn shape() -> ArenaShape {
        ArenaShape::holding(1 << 20)
    }

    #[test]
    fn a_record_comes_back_from_its_words() {
        let payload: Vec<u8> = (0..TINY_MAX as u8).collect();
        let bodies = [
            Body::Tiny { len: TINY_MAX },
            Body::Short { at: BYTES - SHORT_MAX, len: SHORT_MAX },
            Body::Block { page: 255, len: 4096, ticket: 1023, filling: false },
            Body::Block { page: 0, len: 1 << 20, ticket: 0, filling: true },
        ];
        for body in bodies {
            let len = match body {
                Body::Tiny { len } | Body::Short { len, .. } | Body::Block { len, .. } => len,
            };
            let head = head(len as u64, 0);
            let words = words(&head, body, 77);
            assert_eq!(number(words[0]), 77);
            let record = Record::read(words, shape()).expect("read");
            assert_eq!((record.head(), record.body(), record.len()), (head, body, len));
            assert_eq!(record.is_block(), matches!(body, Body::Block { .. }));
        }
        for len in 0..=TINY_MAX {
            let words: Vec<u64> = tiny(&payload[..len]).collect();
            let mut back = vec![0xff; len];
            untiny(|i| words[i], &mut back);
            assert_eq!(back, payload[..len]);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let read = |body, total, offset| {
            Record::read(words(&head(total, offset), body, 1), shape()).expect_err("refused")
        };
        let short = |at, len| Body::Short { at, len };
        assert_eq!(
            read(short(BYTES - 7, 8), 8, 0),
            Corrupt::Place { what: "ring", at: BYTES as u64 - 7, len: 8 }
        );
        assert_eq!(
            read(short(0, SHORT_MAX + 1), 1 << 20, 0),
            Corrupt::Place { what: "ring", at: 0, len: SHORT_MAX as u64 + 1 }
        );
        let block = |page, len| Body::Block { page, len, ticket: 0, filling: false };
        assert_eq!(
            read(block(255, 4097), 4097, 0),
            Corrupt::Place { what: "arena", at: 255, len: 4097 }
        );
        assert_eq!(read(short(0, 8), 7, 0), Corrupt::Piece { len: 8, offset: 0, total: 7 });
        assert_eq!(
            read(short(0, 8), u64::MAX, u64::MAX),
            Corrupt::Piece { len: 8, offset: u64::MAX, total: u64::MAX }
        );
        let tiny = Body::Tiny { len: 41 };
        assert_eq!(read(tiny, 41, 0), Corrupt::Place { what: "line", at: 0, len: 41 });
        let words = [5 << 32, 0, 0, 0, 0, 0, 0];
        assert_eq!(Record::read(words, shape()), Err(Corrupt::Kind { kind: 5 }));
    }

    proptest! {
        #[test]
        fn any_words_are_read_or_refused(words in any::<[u64; USED]>(), kind in 0_u64..6) {
            let mut words = words;
            words[0] = words[0] & !(0xff << 32) | kind << 32;
            if let Ok(record) = Record::read(words, shape()) {
                let (len, head) = (record.len(), record.head());
                prop_assert!(head.offset + len as u64 <= head.total);
                match record.body() {
                    Body::Tiny { .. } => prop_assert!(len <= TINY_MAX),
                    Body::Short { at, .. } => prop_assert!(at + len <= BYTES),
                    Body::Block { page, .. } => prop_assert!(page * 4096 + len <= 1 << 20),
                }
            }
        }
    }
}
