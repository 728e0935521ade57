//! `pvm_packf` and `pvm_unpackf`.
//!
//! ```text
//! format  = { text | item }
//! item    = "%" [ "+" ]                                 (only at the beginning: new send buffer)
//!         | "%" [ count | "*" ] [ "." ( stride | "*" ) ] { "h" | "l" | "u" } type
//! type    = "c" byte | "d" int | "f" float | "x" complex | "s" string
//! ```
//! Text between items means nothing. Without count and stride, `pvm_packf` takes the value itself.

use super::session::Library;
use crate::code::{Code, Outcome};
use crate::message::Element;
use crate::strided::Strided;

/// The arguments of a call with a variable number of them, taken one after another.
///
/// # Safety
/// Each call must ask for what the program passed there, as its format says.
pub(crate) trait Arguments {
    /// An int, or what is passed as one.
    unsafe fn int(&mut self) -> i32;
    /// A long.
    unsafe fn long(&mut self) -> i64;
    /// A double, or what is passed as one.
    unsafe fn double(&mut self) -> f64;
    /// A pointer.
    unsafe fn pointer(&mut self) -> *mut u8;
}

/// An item of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    count: Amount,
    stride: Amount,
    /// Neither count nor stride is given: the argument is the value.
    by_value: bool,
    element: Option<Element>,
}

/// A count or a stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    Is(i32),
    /// An argument of the call.
    Argument,
}

/// The items of a format.
struct Items<'a> {
    rest: &'a [u8],
}

impl Items<'_> {
    fn amount(&mut self) -> Option<Amount> {
        match self.rest {
            [b'*', rest @ ..] => {
                self.rest = rest;
                Some(Amount::Argument)
            }
            [b'0'..=b'9', ..] => {
                let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (number, rest) = self.rest.split_at(digits);
                self.rest = rest;
                let add = |sum: i32, digit: &u8| {
                    sum.saturating_mul(10).saturating_add(i32::from(digit - b'0'))
                };
                Some(Amount::Is(number.iter().fold(0, add)))
            }
            _ => None,
        }
    }

    fn element(&mut self) -> Result<Option<Element>, Code> {
        let (mut short, mut long, mut unsigned) = (false, false, false);
        loop {
            let Some((letter, rest)) = self.rest.split_first() else { return Err(Code::BadParam) };
            self.rest = rest;
            let element = match letter {
                b'h' => {
                    short = true;
                    continue;
                }
                b'l' => {
                    long = true;
                    continue;
                }
                b'u' => {
                    unsigned = true;
                    continue;
                }
                b'c' => Element::Byte,
                b'd' if long && unsigned => Element::ULong,
                b'd' if long => Element::Long,
                b'd' if short && unsigned => Element::UShort,
                b'd' if short => Element::Short,
                b'd' if unsigned => Element::UInt,
                b'd' => Element::Int,
                b'f' if long => Element::Double,
                b'f' => Element::Float,
                b'x' if long => Element::Dcplx,
                b'x' => Element::Cplx,
                b's' => return Ok(None),
                _ => return Err(Code::BadParam),
            };
            return Ok(Some(element));
        }
    }
}

impl Iterator for Items<'_> {
    type Item = Result<Item, Code>;

    fn next(&mut self) -> Option<Self::Item> {
        let percent = self.rest.iter().position(|&byte| byte == b'%')?;
        self.rest = &self.rest[percent + 1..];
        let count = self.amount();
        let mut by_value = count.is_none();
        let mut stride = None;
        if let [b'.', rest @ ..] = self.rest {
            self.rest = rest;
            by_value = false;
            stride = self.amount();
        }
        let one = Amount::Is(1);
        Some(self.element().map(|element| Item {
            count: count.unwrap_or(one),
            stride: stride.unwrap_or(one),
            by_value,
            element,
        }))
    }
}

impl Library {
    /// `pvm_packf`.
    ///
    /// # Safety
    /// `arguments` are what `format` says.
    pub(crate) unsafe fn pack_format(
        &self,
        format: &[u8],
        arguments: &mut impl Arguments,
    ) -> Outcome {
        let mut rest = format;
        if let [b'%', b'+', after @ ..] = format {
            rest = after;
            // SAFETY: the format says that an int comes first.
            self.init_send(unsafe { arguments.int() })?;
        }
        if self.send_buffer() == 0 {
            return Err(Code::NoBuf);
        }
        for item in (Items { rest }) {
            // SAFETY: passed on.
            unsafe { self.pack_item(item?, arguments) }?;
        }
        Ok(0)
    }

    /// `pvm_unpackf`.
    ///
    /// # Safety
    /// `arguments` are what `format` says.
    pub(crate) unsafe fn unpack_format(
        &self,
        format: &[u8],
        arguments: &mut impl Arguments,
    ) -> Outcome {
        if self.receive_buffer() == 0 {
            return Err(Code::NoBuf);
        }
        for item in (Items { rest: format }) {
            let item = item?;
            // SAFETY: passed on; the program's pointer is to as many elements as it says.
            unsafe {
                let (count, stride) = amounts(item, arguments);
                let to = arguments.pointer();
                match item.element {
                    Some(element) => self.unpack(element, Strided::new(to, count, stride)?)?,
                    None => self.unpack_text(|len| Strided::new(to, len as i32, 1))?,
                };
            }
        }
        Ok(0)
    }

    /// # Safety
    /// `arguments` are what the item says.
    unsafe fn pack_item(&self, item: Item, arguments: &mut impl Arguments) -> Outcome {
        // SAFETY: passed on.
        let (count, stride) = unsafe { amounts(item, arguments) };
        let Some(element) = item.element else {
            // SAFETY: the format says that a string comes.
            let text = unsafe { arguments.pointer() };
            if text.is_null() {
                return Err(Code::BadParam);
            }
            // SAFETY: a C string, by the format.
            return self.pack_text(unsafe { std::ffi::CStr::from_ptr(text.cast()) }.to_bytes());
        };
        let complex = matches!(element, Element::Cplx | Element::Dcplx);
        if !item.by_value || complex {
            // SAFETY: the program's pointer is to as many elements as it says.
            let from = unsafe { Strided::new(arguments.pointer(), count, stride) }?;
            return self.pack(element, from);
        }
        // SAFETY: C passes small types as int and floats as double.
        let mut value: [u8; 8] = unsafe {
            let mut wide = [0; 8];
            match element {
                Element::Long | Element::ULong => arguments.long().to_ne_bytes(),
                Element::Double => arguments.double().to_ne_bytes(),
                Element::Float => {
                    let float = arguments.double() as f32;
                    wide[..4].copy_from_slice(&float.to_ne_bytes());
                    wide
                }
                Element::Short | Element::UShort => {
                    let short = arguments.int() as i16;
                    wide[..2].copy_from_slice(&short.to_ne_bytes());
                    wide
                }
                Element::Byte => {
                    wide[0] = arguments.int() as u8;
                    wide
                }
                _ => {
                    wide[..4].copy_from_slice(&arguments.int().to_ne_bytes());
                    wide
                }
            }
        };
        // SAFETY: one element, in `value`.
        let from = unsafe { Strided::new(value.as_mut_ptr(), 1, 1) }?;
        if self.with(|session| session.buffers.sending().map(|message| message.encoding()))?
            == crate::message::Encoding::InPlace
        {
            // The value is gone when the message is sent.
            return Err(Code::NotImpl);
        }
        self.pack(element, from)
    }
}

/// Count and stride of an item.
///
/// # Safety
/// `arguments` are what the item says.
unsafe fn amounts(item: Item, arguments: &mut impl Arguments) -> (i32, i32) {
    let mut amount = |amount| match amount {
        Amount::Is(number) => number,
        // SAFETY: the format says that an int comes.
        Amount::Argument => unsafe { arguments.int() },
    };
    (amount(item.count), amount(item.stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(format: &str) -> Vec<Result<Item, Code>> {
        Items { rest: format.as_bytes() }.collect()
    }

    #[test]
    fn formats_are_taken_apart() {
        let one = Amount::Is(1);
        let item = |count, stride, by_value, element| Ok(Item { count, stride, by_value, element });
        assert_eq!(
            items("int %d, %3hud %*.2lf%s %.*x"),
            [
                item(one, one, true, Some(Element::Int)),
                item(Amount::Is(3), one, false, Some(Element::UShort)),
                item(Amount::Argument, Amount::Is(2), false, Some(Element::Double)),
                item(one, one, true, None),
                item(one, Amount::Argument, false, Some(Element::Cplx)),
            ]
        );
        assert_eq!(items("%q"), [Err(Code::BadParam)]);
        assert_eq!(items("%"), [Err(Code::BadParam)]);
        assert_eq!(items("%5"), [Err(Code::BadParam)]);
        assert_eq!(items("no items"), []);
    }
}
