//! Numbers into a message.

use super::body::Message;
use super::element::Element;
use super::encoding::Encoding;
use super::trace;
use crate::code::Code;
use crate::strided::Strided;

impl Message {
    /// Appends elements. What stands in front of one that does not fit stays, as in PVM.
    pub(crate) fn pack(&mut self, element: Element, from: Strided<'_>) -> Result<(), Code> {
        let longest = element.size().max(element.coded_size());
        self.check_room(from.count().saturating_mul(longest).saturating_add(16))?;
        match self.encoding {
            Encoding::Default { swapped: false } => self.pack_coded(element, from),
            Encoding::Trace { swapped: false } => {
                trace::annotate(self.tail(false), element, from);
                self.pack_coded(element, from)
            }
            Encoding::Raw => {
                let tail = self.tail(true);
                from.gather(element.size(), |part| tail.append(part));
                Ok(())
            }
            Encoding::InPlace => {
                let base = from.contiguous().ok_or(Code::NotImpl)?;
                self.lend(base, from.count() * element.size());
                Ok(())
            }
            // Written by another machine: what is appended could not be told from the rest.
            Encoding::Default { .. } | Encoding::Trace { .. } | Encoding::Alien(_) => {
                Err(Code::BadMsg)
            }
        }
    }

    /// Appends a C string with its length. A trace message gets the characters alone.
    pub(crate) fn pack_text(&mut self, text: &[u8]) -> Result<(), Code> {
        match self.encoding {
            Encoding::InPlace => return Err(Code::NotImpl),
            Encoding::Trace { .. } => return self.pack(Element::Byte, Strided::bytes(text)),
            _ => self.check_room(text.len().saturating_add(16))?,
        }
        self.pack_int(text.len() as i32 + 1)?;
        let coded = self.encoding.is_coded();
        let tail = self.tail(true);
        tail.append(text);
        tail.append(&[0]);
        if coded {
            tail.pad();
        }
        Ok(())
    }

    /// Appends one int.
    pub(crate) fn pack_int(&mut self, value: i32) -> Result<(), Code> {
        if self.encoding == Encoding::InPlace {
            return Err(Code::NotImpl);
        }
        let mut bytes = value.to_ne_bytes();
        // SAFETY: the four bytes of one int, which outlives the call.
        let from = unsafe { Strided::new(bytes.as_mut_ptr(), 1, 1) }?;
        self.pack(Element::Int, from)
    }

    pub(super) fn pack_coded(&mut self, element: Element, from: Strided<'_>) -> Result<(), Code> {
        let tail = self.tail(element == Element::Byte);
        match element {
            Element::Byte => {
                from.gather(1, |part| tail.append(part));
                tail.pad();
            }
            Element::Short | Element::UShort => {
                for index in 0..from.count() {
                    let value = i32::from(i16::from_ne_bytes(from.read(index)));
                    tail.append(&value.to_ne_bytes());
                }
            }
            Element::Long => {
                for index in 0..from.count() {
                    let value = i64::from_ne_bytes(from.read(index));
                    let value = i32::try_from(value).map_err(|_| Code::Overflow)?;
                    tail.append(&value.to_ne_bytes());
                }
            }
            Element::ULong => {
                for index in 0..from.count() {
                    let value = u64::from_ne_bytes(from.read(index));
                    let value = u32::try_from(value).map_err(|_| Code::Overflow)?;
                    tail.append(&value.to_ne_bytes());
                }
            }
            _ => from.gather(element.size(), |part| tail.append(part)),
        }
        Ok(())
    }
}
