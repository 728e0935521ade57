//! Little-endian cursors over borrowed bytes: the one way in and out of wire formats.

use thiserror::Error;

/// Why bytes from outside were not what they claimed to be.
///
/// A peer's fault: it becomes a counter and an event, never a panic.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ParseError {
    /// The bytes end before the structure does.
    #[error("truncated: {need} bytes needed, {have} there")]
    Truncated {
        /// Bytes that the structure needs from here on.
        need: usize,
        /// Bytes that are left.
        have: usize,
    },
    /// A field holds a value that this wire version does not know.
    #[error("{field} has value {value}, which this version does not know")]
    Unknown {
        /// Field name as in the byte map.
        field: &'static str,
        /// What stood there.
        value: u64,
    },
    /// A field holds a value beyond its limit.
    #[error("{field} is {value}, limit {limit}")]
    Limit {
        /// Field name as in the byte map.
        field: &'static str,
        /// What stood there.
        value: u64,
        /// The largest value allowed.
        limit: u64,
    },
}

/// Reads little-endian fields from the front of a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader over all of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// True when everything was read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `n` bytes, borrowed.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], ParseError> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(ParseError::Truncated { need: n, have: self.rest.len() }),
        }
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, ParseError> {
        self.array::<1>().map(|[b]| b)
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> Result<u16, ParseError> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> Result<u32, ParseError> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> Result<u64, ParseError> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Writes little-endian fields to the front of a slice that the caller owns.
///
/// Whoever writes has checked the room beforehand (each emitted type tells its length), so
/// running out is our own bug and asserts.
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut [u8],
    used: usize,
}

impl<'a> Writer<'a> {
    /// A writer that starts at the front of `buf`.
    pub const fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, used: 0 }
    }

    /// Bytes written so far.
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Room left.
    pub const fn room(&self) -> usize {
        self.buf.len() - self.used
    }

    /// Takes the next `n` bytes for the caller to fill.
    pub fn reserve(&mut self, n: usize) -> &mut [u8] {
        assert!(n <= self.room(), "emit checked its room: {n} bytes wanted, {} left", self.room());
        let at = self.used;
        self.used += n;
        &mut self.buf[at..at + n]
    }

    /// Appends bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends one byte.
    pub fn u8(&mut self, v: u8) {
        self.put(&[v]);
    }

    /// Appends two bytes.
    pub fn u16(&mut self, v: u16) {
        self.put(&v.to_le_bytes());
    }

    /// Appends four bytes.
    pub fn u32(&mut self, v: u32) {
        self.put(&v.to_le_bytes());
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, v: u64) {
        self.put(&v.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_in_order_and_the_end_is_an_error() {
        let mut buf = [0; 15];
        let mut w = Writer::new(&mut buf);
        w.u8(1);
        w.u16(0x0203);
        w.u32(0x0405_0607);
        w.u64(0x0809_0a0b_0c0d_0e0f);
        assert_eq!(w.room(), 0);
        let mut r = Reader::new(&buf);
        assert_eq!(r.u8(), Ok(1));
        assert_eq!(r.u16(), Ok(0x0203));
        assert_eq!(r.u32(), Ok(0x0405_0607));
        assert_eq!(r.u64(), Ok(0x0809_0a0b_0c0d_0e0f));
        assert_eq!(r.u16(), Err(ParseError::Truncated { need: 2, have: 0 }));
    }
}
