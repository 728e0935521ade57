//! One record of a ring, as words in a line and as what they mean.

use towpath_wire::TaskId;
use towpath_wire::talk::Header;

use super::error::Corrupt;
use super::layout::{ArenaShape, BYTES, LINE, SHORT_MAX, TINY_MAX};

/// Words of a record.
pub(super) const WORDS: usize = LINE / 8;

/// A message's header without its ends, which are those of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Chosen by the program; what receivers select by.
    pub tag: i32,
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

/// Where a record's payload is. Invariant of what [`Record::read`] returns: it lies where such
/// payloads lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// In the record itself.
    Tiny { len: usize, words: [u64; TINY_MAX / 8] },
    /// In the bytes beside the records.
    Short { at: usize, len: usize },
    /// In a block of the sender's arena.
    Block { page: usize, len: usize, ticket: u16, filling: bool },
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) head: Head,
    pub(super) body: Body,
}

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

impl Record {
    /// Its words; `number` makes the first one valid.
    #[inline]
    pub(super) fn words(&self, number: u32) -> [u64; WORDS] {
        let Head { tag, context, seq, format, total, offset } = self.head;
        let label = [pair(tag.cast_unsigned(), context), pair(seq, format)];
        let first = |kind: u64, small: u16| pair(number, 0) | kind << 32 | u64::from(small) << 48;
        match self.body {
            Body::Tiny { len, words: w } => {
                [first(TINY, len as u16), label[0], label[1], w[0], w[1], w[2], w[3], w[4]]
            }
            Body::Short { at, len } => {
                let place = pair(at as u32, len as u32);
                [first(SHORT, 0), label[0], label[1], total, offset, place, 0, 0]
            }
            Body::Block { page, len, ticket, filling } => {
                let first = first(if filling { FILLING } else { BLOCK }, ticket);
                [first, label[0], label[1], total, offset, page as u64, len as u64, 0]
            }
        }
    }

    /// Takes the copied words of a record apart and checks every value of them. `shape` is the
    /// sender's arena.
    #[inline]
    pub(super) fn read(words: &[u64; WORDS], shape: ArenaShape) -> Result<Self, Corrupt> {
        let [first, label_0, label_1, rest @ ..] = *words;
        let [total, offset, place, len, _] = rest;
        let (kind, small) = (first >> 32 & 0xff, (first >> 48) as u16);
        let (total, offset, len, body) = match kind {
            TINY => {
                let len = usize::from(small);
                if len > TINY_MAX {
                    return Err(Corrupt::Place { what: "line", at: 0, len: len as u64 });
                }
                (len as u64, 0, len as u64, Body::Tiny { len, words: rest })
            }
            SHORT => {
                let (at, len) = (low(place) as usize, high(place) as usize);
                if len > SHORT_MAX || at > BYTES - len {
                    let (at, len) = (at as u64, len as u64);
                    return Err(Corrupt::Place { what: "ring", at, len });
                }
                (total, offset, len as u64, Body::Short { at, len })
            }
            BLOCK | FILLING => {
                let outside = Corrupt::Place { what: "arena", at: place, len };
                let (page, bytes) = shape.block(place, len).ok_or(outside)?;
                let filling = kind == FILLING;
                (total, offset, len, Body::Block { page, len: bytes, ticket: small, filling })
            }
            kind => return Err(Corrupt::Kind { kind: kind as u8 }),
        };
        if offset.checked_add(len).is_none_or(|end| end > total) {
            return Err(Corrupt::Piece { len, offset, total });
        }
        let (tag, context) = (low(label_0).cast_signed(), high(label_0));
        let (seq, format) = (low(label_1), high(label_1));
        Ok(Self { head: Head { tag, context, seq, format, total, offset }, body })
    }

    /// Bytes of payload.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self.body {
            Body::Tiny { len, .. } | Body::Short { len, .. } | Body::Block { len, .. } => len,
        }
    }
}

/// A payload's words; bytes beyond its end are zero.
#[inline]
pub(super) fn tiny(payload: &[u8]) -> [u64; TINY_MAX / 8] {
    let mut bytes = [0; TINY_MAX];
    bytes[..payload.len()].copy_from_slice(payload);
    let mut words = [0; TINY_MAX / 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    words
}

/// The first bytes of such words.
#[inline]
pub(super) fn untiny(words: &[u64; TINY_MAX / 8], to: &mut [u8]) {
    let mut bytes = [0; TINY_MAX];
    for (word, bytes) in words.iter().zip(bytes.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    to.copy_from_slice(&bytes[..to.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(total: u64, offset: u64) -> Head {
        Head { tag: -7, context: 1 << 31, seq: u32::MAX, format: 9, total, offset }
    }

    fn shape() -> ArenaShape {
        ArenaShape::holding(1 << 20)
    }

    #[test]
    fn a_record_comes_back_from_its_words() {
        let payload: Vec<u8> = (0..TINY_MAX as u8).collect();
        let bodies = [
            Body::Tiny { len: TINY_MAX, words: tiny(&payload) },
            Body::Short { at: BYTES - SHORT_MAX, len: SHORT_MAX },
            Body::Block { page: 255, len: 4096, ticket: 1023, filling: false },
            Body::Block { page: 0, len: 1 << 20, ticket: 0, filling: true },
        ];
        for body in bodies {
            let mut record = Record { head: head(0, 0), body };
            record.head.total = record.len() as u64;
            let words = record.words(77);
            assert_eq!(number(words[0]), 77);
            assert_eq!(Record::read(&words, shape()), Ok(record));
        }
        let Body::Tiny { words, .. } = bodies[0] else { unreachable!("the first is tiny") };
        let mut back = [0; 33];
        untiny(&words, &mut back);
        assert_eq!(back, payload[..33]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let read = |body, total, offset| {
            let record = Record { head: head(total, offset), body };
            Record::read(&record.words(1), shape()).expect_err("refused")
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
        let tiny = Body::Tiny { len: 41, words: [0; 5] };
        assert_eq!(read(tiny, 41, 0), Corrupt::Place { what: "line", at: 0, len: 41 });
        let words = [5 << 32, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Record::read(&words, shape()), Err(Corrupt::Kind { kind: 5 }));
    }

    proptest! {
        #[test]
        fn any_words_are_read_or_refused(words in any::<[u64; WORDS]>(), kind in 0_u64..6) {
            let mut words = words;
            words[0] = words[0] & !(0xff << 32) | kind << 32;
            if let Ok(record) = Record::read(&words, shape()) {
                let len = record.len();
                prop_assert!(record.head.offset + len as u64 <= record.head.total);
                match record.body {
                    Body::Tiny { .. } => prop_assert!(len <= TINY_MAX),
                    Body::Short { at, .. } => prop_assert!(at + len <= BYTES),
                    Body::Block { page, .. } => prop_assert!(page * 4096 + len <= 1 << 20),
                }
            }
        }
    }
}
