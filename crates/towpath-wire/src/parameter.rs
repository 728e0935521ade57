//! Parameters: what a structure carries beside its fixed fields, in this build or a later one.
//!
//! ```text
//! 0 kind | 1 length n | 2..2+n value          one after the other, to the end of their room
//! ```
//! **The rule of kinds.** A kind is a byte: the type of a [frame](crate::frame), a parameter of a
//! hello or of an OPEN, a field of an entry of the host table. Where its highest bit is set it is
//! *skippable*: whoever does not know it passes over it by its length, and where it passes the
//! whole on, it passes this on, too, as it came. Where the bit is clear it is *critical*: whoever
//! does not know it refuses the whole by [`ParseError::Unknown`], which names the field and the
//! kind. So a later build decides with each new kind whether an earlier one may do without.
//!
//! A value longer than its reader knows is read as far as that goes; a shorter one is refused. Of
//! several of one kind the last counts.

use crate::bytes::{ParseError, Reader, Writer};

/// The bit that makes a kind skippable.
pub const SKIPPABLE: u8 = 0x80;
/// Bytes of a parameter before its value.
pub const PARAMETER_HEADER: usize = 2;

/// Whether a kind that is not known is passed over, else it refuses the whole.
pub const fn is_skippable(kind: u8) -> bool {
    kind & SKIPPABLE != 0
}

/// What becomes of a kind of `field` that the reader does not know.
pub fn unknown(field: &'static str, kind: u8) -> Result<(), ParseError> {
    if is_skippable(kind) {
        return Ok(());
    }
    Err(ParseError::Unknown { field, value: kind.into() })
}

/// Walks through parameters; stops after the first that is cut.
#[derive(Clone, Debug)]
pub struct Parameters<'a> {
    reader: Reader<'a>,
}

impl<'a> Parameters<'a> {
    /// All that stand in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new(bytes) }
    }

    fn parse(&mut self) -> Result<(u8, Reader<'a>), ParseError> {
        let (kind, len) = (self.reader.u8()?, self.reader.u8()?);
        Ok((kind, Reader::new(self.reader.take(len.into())?)))
    }
}

impl<'a> Iterator for Parameters<'a> {
    /// Its kind and its value.
    type Item = Result<(u8, Reader<'a>), ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let parameter = self.parse();
        if parameter.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(parameter)
    }
}

/// Writes one; its value has at most 255 bytes.
pub fn emit_parameter(w: &mut Writer<'_>, kind: u8, value: &[u8]) {
    let len = u8::try_from(value.len()).expect("a parameter's value has at most 255 bytes");
    w.put(&[kind, len]);
    w.put(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn parameters_come_back_and_a_cut_one_ends_the_walk(
            all in proptest::collection::vec(
                (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..=255)), 0..6),
            cut: proptest::sample::Index,
        ) {
            let len = all.iter().map(|(_, v)| PARAMETER_HEADER + v.len()).sum();
            let mut bytes = vec![0; len];
            let mut w = Writer::new(&mut bytes);
            for (kind, value) in &all {
                emit_parameter(&mut w, *kind, value);
            }
            prop_assert_eq!(w.room(), 0);
            let read = |bytes| {
                let one = |p: Result<(u8, Reader<'_>), _>| p.map(|(k, v)| (k, v.rest().to_vec()));
                Parameters::new(bytes).map(one).collect::<Vec<_>>()
            };
            let expected: Vec<_> = all.iter().cloned().map(Ok).collect();
            prop_assert_eq!(read(&bytes), expected);
            // Each one before the cut, then at most one error, and nothing after it.
            let short = read(&bytes[..cut.index(len + 1)]);
            let whole = short.iter().take_while(|p| p.is_ok()).count();
            prop_assert!(short.len() - whole <= 1);
            prop_assert!(short[..whole].iter().zip(&all).all(|(s, a)| s.as_ref() == Ok(a)));
        }
    }

    #[test]
    fn the_highest_bit_says_whether_a_kind_may_be_passed_over() {
        for kind in 0..=255 {
            let refused = Err(ParseError::Unknown { field: "it", value: kind.into() });
            assert_eq!(unknown("it", kind), if kind < 128 { refused } else { Ok(()) });
        }
    }
}
