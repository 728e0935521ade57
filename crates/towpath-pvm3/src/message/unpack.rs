//! Numbers out of a message.

use super::body::Message;
use super::element::Element;
use super::encoding::Encoding;
use crate::code::Code;
use crate::strided::Strided;

/// Elements that are converted at a time, on the stack.
const AT_ONCE: usize = 64;

impl Message {
    /// Takes elements out. At the end of the message what there is was written and the rest of
    /// the program's memory is as it was: [`Code::NoData`].
    pub(crate) fn unpack(&mut self, element: Element, to: Strided<'_>) -> Result<(), Code> {
        match self.encoding {
            Encoding::Default { swapped } | Encoding::Trace { swapped } => {
                self.unpack_coded(element, to, swapped)
            }
            Encoding::Raw => self.unpack_raw(element.size(), to),
            Encoding::Alien(_) if element == Element::Byte => self.unpack_raw(1, to),
            Encoding::InPlace | Encoding::Alien(_) => Err(Code::BadMsg),
        }
    }

    /// Takes one int out.
    pub(crate) fn unpack_int(&mut self) -> Result<i32, Code> {
        let mut bytes = [0; 4];
        // SAFETY: four bytes are one int.
        let to = unsafe { Strided::new(bytes.as_mut_ptr(), 1, 1) }?;
        self.unpack(Element::Int, to)?;
        Ok(i32::from_ne_bytes(bytes))
    }

    /// The int that a message of numbers begins with, which may be the send buffer.
    pub(crate) fn first_int(&self) -> Option<i32> {
        let bytes = self.with_parts(|parts| parts.first()?.first_chunk::<4>().copied())?;
        Some(i32::from_ne_bytes(bytes))
    }

    /// Takes one string out, without its end.
    pub(crate) fn unpack_text(&mut self) -> Result<Vec<u8>, Code> {
        let len = self.unpack_text_len()?.filter(|&len| len <= self.rest()).ok_or(Code::NoData)?;
        let mut text = vec![0; len];
        self.unpack(Element::Byte, Strided::bytes_mut(&mut text))?;
        text.truncate(text.iter().position(|&byte| byte == 0).unwrap_or(len));
        Ok(text)
    }

    /// How many bytes the string that comes next has, its end included; `None`: the message
    /// says something impossible, and PVM takes nothing.
    pub(crate) fn unpack_text_len(&mut self) -> Result<Option<usize>, Code> {
        Ok(usize::try_from(self.unpack_int()?).ok())
    }

    /// Bytes not taken out yet.
    pub(crate) fn rest(&self) -> usize {
        self.len() - self.at
    }

    fn take(&mut self, len: usize) -> (usize, usize) {
        let from = self.at;
        self.at = (from + len).min(self.len());
        (from, self.at)
    }

    fn unpack_raw(&mut self, size: usize, to: Strided<'_>) -> Result<(), Code> {
        let wanted = to.count() * size;
        let (from, end) = self.take(wanted);
        to.scatter(size, 0, &self.bytes()[from..end]);
        if end - from < wanted { Err(Code::NoData) } else { Ok(()) }
    }

    fn unpack_coded(
        &mut self,
        element: Element,
        to: Strided<'_>,
        swapped: bool,
    ) -> Result<(), Code> {
        if element == Element::Byte {
            self.unpack_raw(1, to)?;
            self.at = self.at.next_multiple_of(4).min(self.len());
            return Ok(());
        }
        let wanted = to.count() * element.coded_size();
        let (from, end) = self.take(wanted);
        // A number that is there in part is not taken, but it is gone.
        let whole = (end - from) / element.coded_unit() * element.coded_unit();
        let bytes = &self.bytes()[from..from + whole];
        if !swapped && element.coded_size() == element.size() {
            to.scatter(element.size(), 0, bytes);
        } else {
            convert(element, to, swapped, bytes);
        }
        if whole < wanted {
            self.at = self.len();
            return Err(Code::NoData);
        }
        Ok(())
    }
}

/// Writes coded numbers in the order and size of this machine.
fn convert(element: Element, to: Strided<'_>, swapped: bool, coded: &[u8]) {
    let mut native = [0; AT_ONCE * 16];
    let (unit, size) = (element.coded_unit(), element.size());
    for (chunk, coded) in coded.chunks(AT_ONCE * element.coded_size()).enumerate() {
        let mut filled = 0;
        for number in coded.chunks_exact(unit) {
            let mut turned = [0; 8];
            turned[..unit].copy_from_slice(number);
            if swapped {
                turned[..unit].reverse();
            }
            let int = i32::from_ne_bytes([turned[0], turned[1], turned[2], turned[3]]);
            match element {
                Element::Short | Element::UShort => {
                    native[filled..filled + 2].copy_from_slice(&(int as i16).to_ne_bytes());
                    filled += 2;
                }
                Element::Long => {
                    native[filled..filled + 8].copy_from_slice(&i64::from(int).to_ne_bytes());
                    filled += 8;
                }
                Element::ULong => {
                    let value = u64::from(int.cast_unsigned());
                    native[filled..filled + 8].copy_from_slice(&value.to_ne_bytes());
                    filled += 8;
                }
                _ => {
                    native[filled..filled + unit].copy_from_slice(&turned[..unit]);
                    filled += unit;
                }
            }
        }
        to.scatter(size, chunk * AT_ONCE, &native[..filled]);
    }
}
