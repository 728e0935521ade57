//! Messages in messages: `pvm_pkmesg`, `pvm_pkmesgbody`, `pvm_upkmesg`.
//!
//! ```text
//! len | context | tag | wait id | encoding | checksum | source | destination   (8 ints)
//! then, unless there is no body: its length (int) and its bytes
//! ```

use super::body::{Info, Message, Received};
use super::element::Element;
use super::encoding::Encoding;
use crate::code::Code;
use crate::strided::Strided;

impl Message {
    /// Packs `inner` with what stands beside it.
    pub(crate) fn pack_message(&mut self, inner: &Self) -> Result<(), Code> {
        if self.encoding == Encoding::InPlace {
            return Err(Code::NotImpl);
        }
        let (len, info) = (inner.len() as i32, inner.info);
        let encoding = inner.encoding.format().cast_signed();
        for value in [len, info.context, info.tag, info.wait, encoding, info.checksum] {
            self.pack_int(value)?;
        }
        self.pack_int(info.source)?;
        self.pack_int(info.destination)?;
        if inner.len() > 0 || inner.has_empty_fragment() {
            self.pack_int(len)?;
            let mut body = Vec::with_capacity(inner.len());
            inner.with_parts(|parts| parts.iter().for_each(|part| body.extend_from_slice(part)));
            self.pack(Element::Byte, Strided::bytes(&body))?;
        }
        Ok(())
    }

    /// Appends the body of `inner`, which must be written the same way.
    pub(crate) fn pack_body(&mut self, inner: &Self) -> Result<(), Code> {
        if self.encoding != inner.encoding {
            return Err(Code::Mismatch);
        }
        self.check_room(inner.len())?;
        if self.encoding == Encoding::InPlace {
            self.lend_from(inner);
        } else {
            self.tail(true).append(inner.bytes());
        }
        Ok(())
    }

    /// Takes a message out.
    pub(crate) fn unpack_message(&mut self) -> Result<Self, Code> {
        let mut len = self.unpack_int()?;
        let (context, tag) = (self.unpack_int()?, self.unpack_int()?);
        let (wait, encoding) = (self.unpack_int()?, self.unpack_int()?);
        let (checksum, source) = (self.unpack_int()?, self.unpack_int()?);
        let destination = self.unpack_int()?;
        let info = Info { context, tag, wait, checksum, source, destination };
        if len < 0 {
            return Err(Code::BadMsg);
        }
        let mut body = Vec::new();
        while len > 0 {
            let piece = self.unpack_int()?;
            let bytes = usize::try_from(piece).map_err(|_| Code::BadMsg)?;
            if bytes > self.rest() {
                return Err(Code::NoData);
            }
            let from = body.len();
            body.resize(from + bytes, 0);
            self.unpack(Element::Byte, Strided::bytes_mut(&mut body[from..]))?;
            len = if bytes == 0 { return Err(Code::BadMsg) } else { len - piece };
        }
        Ok(Self::received(encoding.cast_unsigned(), Received::Shared(body.into()), info))
    }
}
