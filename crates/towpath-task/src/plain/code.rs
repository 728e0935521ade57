//! What a message's format field says of what is in it.
//!
//! ```text
//! 0..5 element (1 to 12, in the order of `Element`; 31: a record) | 5..7 zero
//! 7 the sender's machine has the most significant byte first
//! 8..24 of a record: a hash of its fields | 24..32 0xd7
//! ```
//! Whoever sends bytes chooses formats freely; one that looks like this is believed.

use std::fmt;

use towpath_vm::collective::Element;

use super::Plain;

const MARK: u32 = 0xd7 << 24;
const MARK_BITS: u32 = 0xff << 24;
const BIG: u32 = 1 << 7;
const RECORD: u32 = 31;

/// Elements by their number, from 1: as `enum towpath_element` of towpath.h has them.
const ELEMENTS: [(Element, &str); 12] = [
    (Element::I8, "i8"),
    (Element::U8, "u8"),
    (Element::I16, "i16"),
    (Element::U16, "u16"),
    (Element::I32, "i32"),
    (Element::U32, "u32"),
    (Element::I64, "i64"),
    (Element::U64, "u64"),
    (Element::F32, "f32"),
    (Element::F64, "f64"),
    (Element::C32, "complex of f32"),
    (Element::C64, "complex of f64"),
];

/// Of which type the values of a message are. Arrays count as what they are made of; a record is
/// known by the types of its fields.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeCode(u32);

/// In which order a machine has the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The least significant first.
    Little,
    /// The most significant first.
    Big,
}

impl Order {
    /// This machine's.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };
}

impl TypeCode {
    /// The type's.
    pub const fn of<T: Plain>() -> Self {
        T::CODE
    }

    pub(crate) const fn element(element: Element) -> Self {
        Self(element as u32 + 1)
    }

    /// The code of numbers of a kind of `towpath.h`, from 1.
    #[doc(hidden)]
    pub fn of_element(number: u32) -> Option<Self> {
        ELEMENTS.get((number as usize).wrapping_sub(1)).map(|(element, _)| Self::element(*element))
    }

    /// The element of numbers.
    #[doc(hidden)]
    pub fn as_element(self) -> Option<Element> {
        ELEMENTS.get((self.0 as usize).wrapping_sub(1)).map(|(element, _)| *element)
    }

    /// Whether a message of numbers of this code, with this format and length, has their bytes in
    /// another order than this machine; an error where it does not hold whole ones.
    #[doc(hidden)]
    pub fn check(self, format: u32, len: usize) -> Result<bool, ContentError> {
        let size = self.as_element().map_or(1, Element::bytes);
        match Self::parse(format) {
            None => Err(ContentError::Bytes { wanted: self, format }),
            Some((got, _)) if got != self => Err(ContentError::Type { wanted: self, got }),
            Some(_) if !len.is_multiple_of(size) => {
                Err(ContentError::Ragged { len, size, wanted: self })
            }
            Some((_, order)) => Ok(order != Order::NATIVE),
        }
    }

    /// Bytes of each number: of each part of a complex one.
    #[doc(hidden)]
    pub fn number_bytes(self) -> usize {
        match self.as_element() {
            Some(Element::C32) => 4,
            Some(Element::C64) => 8,
            element => element.map_or(1, Element::bytes),
        }
    }

    /// The code of a structure with these fields, each with its bytes ([`record!`](crate::record)).
    pub const fn record(fields: &[(Self, usize)]) -> Self {
        // FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), folded to 16 bits.
        let (mut hash, mut at) = (0x811c_9dc5_u32, 0);
        while at < fields.len() {
            let (Self(code), size) = fields[at];
            hash = (hash ^ code).wrapping_mul(0x0100_0193);
            hash = (hash ^ size as u32).wrapping_mul(0x0100_0193);
            at += 1;
        }
        Self(RECORD | (hash ^ hash >> 16) << 16 >> 8)
    }

    /// A number for it of one byte, for members of a team to compare.
    pub(crate) const fn kind(self) -> u8 {
        let (number, record) = (self.0 & RECORD, self.0 >> 8);
        if number == RECORD { 0x80 | (record ^ record >> 7) as u8 } else { number as u8 }
    }

    /// The format field of a message of such values from this machine.
    pub const fn format(self) -> u32 {
        self.format_in(Order::NATIVE)
    }

    pub(crate) const fn format_in(self, order: Order) -> u32 {
        let big = if matches!(order, Order::Big) { BIG } else { 0 };
        self.0 | MARK | big
    }

    /// Takes a format field apart; `None`: its message holds bytes, of which nothing is said.
    pub const fn parse(format: u32) -> Option<(Self, Order)> {
        if format & MARK_BITS != MARK {
            return None;
        }
        let order = if format & BIG == 0 { Order::Little } else { Order::Big };
        Some((Self(format & !(MARK_BITS | BIG)), order))
    }
}

impl fmt::Display for TypeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, record) = (self.0 & RECORD, self.0 >> 8);
        match ELEMENTS.get((number as usize).wrapping_sub(1)) {
            Some((_, name)) => f.write_str(name),
            None if number == RECORD => write!(f, "record {record:#06x}"),
            None => write!(f, "unknown type {number}"),
        }
    }
}

impl fmt::Debug for TypeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a message cannot be read as values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// Its values are of another type.
    #[error("the message holds values of type {got}, not {wanted}")]
    Type {
        /// What was asked for.
        wanted: TypeCode,
        /// What it holds.
        got: TypeCode,
    },
    /// It was sent as bytes.
    #[error(
        "the message holds bytes of format {format}, not values of type {wanted}\n\
         hint: send them with send_slice, or receive them as bytes"
    )]
    Bytes {
        /// What was asked for.
        wanted: TypeCode,
        /// Its format.
        format: u32,
    },
    /// Its length is not one of whole values.
    #[error("the message has {len} bytes, no whole number of values of {size} ({wanted})")]
    Ragged {
        /// Its bytes.
        len: usize,
        /// Bytes of one value.
        size: usize,
        /// What was asked for.
        wanted: TypeCode,
    },
    /// It has another number of values than were asked for.
    #[error("the message has {got} values of type {wanted}, not {expected}")]
    Count {
        /// How many it has.
        got: usize,
        /// How many were asked for.
        expected: usize,
        /// Their type.
        wanted: TypeCode,
    },
}

/// The number of values of type `T`, and the order of their bytes, in a message with this format
/// and length.
pub(crate) fn check<T: Plain>(format: u32, len: usize) -> Result<(usize, Order), ContentError> {
    const { assert!(T::SIZE > 0, "a value without bytes cannot be counted") };
    let wanted = T::CODE;
    match TypeCode::parse(format) {
        None => Err(ContentError::Bytes { wanted, format }),
        Some((got, _)) if got != wanted => Err(ContentError::Type { wanted, got }),
        Some(_) if !len.is_multiple_of(T::SIZE) => {
            Err(ContentError::Ragged { len, size: T::SIZE, wanted })
        }
        Some((_, order)) => Ok((len / T::SIZE, order)),
    }
}
