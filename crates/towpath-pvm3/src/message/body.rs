//! A message: its bytes and what stands beside them.

use std::sync::Arc;

use towpath_task::{Loan, Sealed};

use super::encoding::Encoding;
use super::storage::Storage;
use crate::code::Code;

/// Longest message, in bytes: lengths are C ints.
pub(crate) const LENGTH_MAX: usize = i32::MAX as usize;

/// What `pvm_getminfo` shows besides length and encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) context: i32,
    pub(crate) tag: i32,
    pub(crate) wait: i32,
    pub(crate) checksum: i32,
    pub(crate) source: i32,
    pub(crate) destination: i32,
}

/// The bytes of a message that came.
#[derive(Debug)]
pub(crate) enum Received {
    /// Of this process.
    Shared(Arc<[u8]>),
    /// From another task, wherever it lies.
    Task(towpath_task::Message),
}

impl Received {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Task(message) => message.bytes(),
        }
    }
}

/// A piece of a program's memory that is read when the message is sent.
#[derive(Clone, Copy, Debug)]
struct Lent {
    base: *const u8,
    len: usize,
}

// SAFETY: the pointer is only followed inside a call of the program, which promised that the
// memory stays until the message is sent; from which thread does not matter to memory.
unsafe impl Send for Lent {}

#[derive(Debug)]
enum Body {
    Built(Storage),
    Lent(Vec<Lent>),
    Received(Received),
}

/// What a buffer is being used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Neither was begun.
    Fresh,
    /// It is or was the send buffer. `restart`: it had been read before; in PVM the next number
    /// (not byte) then goes to the beginning of a message with XDR's layout.
    Packing { restart: bool },
    /// It is or was the receive buffer.
    Unpacking,
}

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    body: Body,
    mode: Mode,
    pub(super) encoding: Encoding,
    /// Where unpacking goes on. Invariant: at most the body's length.
    pub(super) at: usize,
    pub(crate) info: Info,
}

impl Message {
    /// An empty one to be packed. `storage` is used for its bytes.
    pub(crate) fn new(encoding: Encoding, mut storage: Vec<u8>) -> Self {
        storage.clear();
        let body = match encoding {
            Encoding::InPlace => Body::Lent(Vec::new()),
            _ => Body::Built(Storage::Own(storage)),
        };
        Self { body, mode: Mode::Fresh, encoding, at: 0, info: Info::default() }
    }

    /// One that came.
    pub(crate) fn received(format: u32, bytes: Received, info: Info) -> Self {
        let (body, encoding) = (Body::Received(bytes), Encoding::of_format(format));
        Self { body, mode: Mode::Fresh, encoding, at: 0, info }
    }

    /// How its numbers are written.
    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        match &self.body {
            Body::Built(built) => built.len(),
            Body::Lent(pieces) => pieces.iter().map(|piece| piece.len).sum(),
            Body::Received(bytes) => bytes.bytes().len(),
        }
    }

    /// Becomes the send buffer.
    pub(crate) fn begin_packing(&mut self) {
        if !matches!(self.mode, Mode::Packing { .. }) && self.encoding != Encoding::InPlace {
            let restart = self.encoding.is_coded() && self.len() > 0;
            self.mode = Mode::Packing { restart };
        }
    }

    /// Becomes the receive buffer: reading begins at the first byte, unless it had begun.
    pub(crate) fn begin_unpacking(&mut self) {
        if self.mode != Mode::Unpacking {
            self.mode = Mode::Unpacking;
            self.at = 0;
        }
    }

    /// Reading begins anew when it next becomes the receive buffer.
    pub(crate) fn rewind(&mut self) {
        self.mode = Mode::Fresh;
    }

    /// It was the send buffer and is empty: PVM has an empty fragment there, which
    /// `pvm_pkmesg` shows.
    pub(super) fn has_empty_fragment(&self) -> bool {
        self.mode != Mode::Fresh && self.len() == 0 && self.encoding != Encoding::InPlace
    }

    /// The bytes that numbers are appended to. `bytes`: a row of bytes is.
    pub(super) fn tail(&mut self, bytes: bool) -> &mut Storage {
        if let Body::Received(received) = &self.body {
            self.body = Body::Built(Storage::Own(received.bytes().to_vec()));
        }
        let restart = self.mode == Mode::Packing { restart: true };
        if restart {
            self.mode = Mode::Packing { restart: false };
        }
        match &mut self.body {
            Body::Built(built) => {
                if restart && !bytes {
                    built.clear();
                }
                built
            }
            _ => unreachable!("what is lent has no tail"),
        }
    }

    /// How long a loan should be for `more` bytes to be appended there; `None`: none is needed.
    pub(crate) fn wants_loan(&self, more: usize) -> Option<usize> {
        if let Body::Built(built) = &self.body { built.wants(more) } else { None }
    }

    /// From now on it is built in a loan, which is as long as [`Message::wants_loan`] has said.
    pub(crate) fn move_to(&mut self, loan: Loan) {
        if let Body::Built(built) = &mut self.body {
            built.move_to(loan);
        }
    }

    /// To be sent where it is, if it was built in a loan.
    pub(crate) fn seal(&mut self) -> Option<&Sealed> {
        if let Body::Built(built) = &mut self.body { built.seal() } else { None }
    }

    /// Its bytes move into memory of this process' own, which a forked child has too.
    pub(crate) fn keep(&mut self) {
        match &mut self.body {
            Body::Built(built) => drop(built.own()),
            Body::Received(received) => *received = Received::Shared(received.bytes().into()),
            Body::Lent(_) => {}
        }
    }

    /// There is room for `more` bytes.
    pub(super) fn check_room(&self, more: usize) -> Result<(), Code> {
        match self.len().checked_add(more) {
            Some(len) if len <= LENGTH_MAX => Ok(()),
            _ => Err(Code::NoMem),
        }
    }

    /// Takes note of memory to be read when the message is sent.
    pub(super) fn lend(&mut self, base: *const u8, len: usize) {
        match &mut self.body {
            Body::Lent(pieces) if len > 0 => pieces.push(Lent { base, len }),
            Body::Lent(_) => {}
            _ => unreachable!("only an in-place message borrows"),
        }
    }

    /// Takes over what another in-place message borrows.
    pub(super) fn lend_from(&mut self, other: &Self) {
        if let (Body::Lent(pieces), Body::Lent(more)) = (&mut self.body, &other.body) {
            pieces.extend_from_slice(more);
        }
    }

    /// The bytes of a message that has them: not of an in-place one.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Built(built) => built.bytes(),
            Body::Received(bytes) => bytes.bytes(),
            Body::Lent(_) => &[],
        }
    }

    /// The bytes as they are to be sent, in pieces.
    pub(crate) fn with_parts<R>(&self, send: impl FnOnce(&[&[u8]]) -> R) -> R {
        let Body::Lent(pieces) = &self.body else { return send(&[self.bytes()]) };
        // SAFETY: the program promised, by packing in place, that this memory stays as it is
        // until the message is sent, which happens within its call.
        let part = |piece: &Lent| unsafe { std::slice::from_raw_parts(piece.base, piece.len) };
        match pieces.as_slice() {
            [one] => send(&[part(one)]),
            many => send(&many.iter().map(part).collect::<Vec<_>>()),
        }
    }

    /// The memory, for another message.
    pub(crate) fn into_storage(self) -> Option<Vec<u8>> {
        match self.body {
            Body::Built(Storage::Own(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Element;
    use crate::strided::Strided;

    fn packed(encoding: Encoding, bytes: &[u8]) -> Message {
        let mut message = Message::new(encoding, vec![7; 3]);
        message.begin_packing();
        message.pack(Element::Byte, Strided::bytes(bytes)).unwrap();
        message
    }

    #[test]
    fn long_messages_are_built_where_others_can_read_them() {
        let mut message = packed(Encoding::Raw, &[1; 100]);
        assert_eq!((message.wants_loan(10), message.wants_loan(4096)), (None, Some(8192)));
        message.move_to(Loan::own(8192));
        assert_eq!((message.bytes(), message.wants_loan(4096)), (&[1; 100][..], None));
        assert_eq!(message.wants_loan(8093), Some(16_384), "a loan that is too short");
        message.pack(Element::Byte, Strided::bytes(&[2; 4])).unwrap();
        let sealed = message.seal().expect("it is in a loan").to_vec();
        assert_eq!(sealed, [&[1; 100][..], &[2; 4]].concat());
        message.keep();
        assert!(message.seal().is_none(), "it is in memory of this process");
        assert_eq!(message.bytes(), sealed);
        assert_eq!(message.into_storage(), Some(sealed));
        // What came from elsewhere or is lent needs none.
        let came = Message::received(
            Encoding::Raw.format(),
            Received::Shared([1].into()),
            Info::default(),
        );
        assert_eq!((came.wants_loan(9999), came.into_storage()), (None, None));
    }

    #[test]
    fn lent_memory_is_read_when_it_is_sent() {
        let (mut first, second) = (*b"abc", *b"defg");
        let mut message = Message::new(Encoding::InPlace, Vec::new());
        assert!(!message.has_empty_fragment());
        message.begin_packing();
        assert!(!message.has_empty_fragment(), "nothing is lent, which shows as nothing");
        message.pack(Element::Byte, Strided::bytes(&first)).unwrap();
        message.pack(Element::Byte, Strided::bytes(&[])).unwrap();
        let mut other = Message::new(Encoding::InPlace, Vec::new());
        other.pack(Element::Byte, Strided::bytes(&second)).unwrap();
        message.pack_body(&other).unwrap();
        first[0] = b'A';
        std::hint::black_box(&first);
        let parts =
            message.with_parts(|parts| parts.iter().map(|one| one.len()).collect::<Vec<_>>());
        assert_eq!((parts, message.len(), message.bytes()), (vec![3, 4], 7, &b""[..]));
        assert_eq!(message.pack_text(b"x"), Err(Code::NotImpl));
        assert_eq!(message.pack_int(1), Err(Code::NotImpl));
    }

    #[test]
    fn only_what_was_a_buffer_and_is_empty_has_an_empty_fragment() {
        let mut message = Message::new(Encoding::DEFAULT, Vec::new());
        assert!(!message.has_empty_fragment(), "nobody used it");
        message.begin_packing();
        assert!(message.has_empty_fragment());
        message.pack_int(5).unwrap();
        assert!(!message.has_empty_fragment());
        let mut outer = Message::new(Encoding::DEFAULT, Vec::new());
        outer.begin_packing();
        outer.pack_message(&Message::new(Encoding::DEFAULT, Vec::new())).unwrap();
        assert_eq!(outer.len(), 32, "no length of a body");
        let mut empty = Message::new(Encoding::DEFAULT, Vec::new());
        empty.begin_packing();
        outer.pack_message(&empty).unwrap();
        assert_eq!(outer.len(), 32 + 36);
    }

    #[test]
    fn a_number_packed_into_what_was_read_begins_anew() {
        let read = |encoding: Encoding| {
            let mut message = packed(encoding, &[1, 2, 3, 4]);
            message.begin_unpacking();
            assert!(message.unpack_text_len().is_ok());
            message.begin_packing();
            message
        };
        let mut message = read(Encoding::DEFAULT);
        message.pack_int(9).unwrap();
        message.pack_int(8).unwrap();
        let ints = [9_i32, 8].map(i32::to_ne_bytes).concat();
        assert_eq!(message.bytes(), ints);
        // Bytes go behind what there is, and so do numbers as they are in memory.
        let mut message = read(Encoding::DEFAULT);
        message.pack(Element::Byte, Strided::bytes(&[5])).unwrap();
        assert_eq!(message.bytes(), [1, 2, 3, 4, 5, 0, 0, 0]);
        let mut message = read(Encoding::Raw);
        message.pack_int(9).unwrap();
        assert_eq!(message.len(), 8);
        // One that was empty has nothing to begin anew.
        let mut message = Message::new(Encoding::DEFAULT, Vec::new());
        message.begin_unpacking();
        message.begin_packing();
        message.pack(Element::Byte, Strided::bytes(&[1])).unwrap();
        message.pack_int(2).unwrap();
        assert_eq!(message.len(), 8);
    }

    #[test]
    fn a_message_has_a_greatest_length() {
        let message = packed(Encoding::Raw, &[1; 10]);
        assert_eq!(message.check_room(LENGTH_MAX - 10), Ok(()));
        assert_eq!(message.check_room(LENGTH_MAX - 9), Err(Code::NoMem));
        assert_eq!(message.check_room(usize::MAX), Err(Code::NoMem));
    }
}
