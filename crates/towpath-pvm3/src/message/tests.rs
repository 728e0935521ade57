//! Numbers into messages and out again, as values, as bytes, and by machines of the other order.

use proptest::prelude::*;

use super::{Element, Encoding, Info, Message, Received};
use crate::code::Code;
use crate::strided::Strided;

/// Elements of memory, `stride` apart.
#[derive(Clone, Debug)]
struct Array {
    element: Element,
    bytes: Vec<u8>,
    count: usize,
    stride: usize,
}

impl Array {
    fn lent(&mut self) -> Strided<'_> {
        // SAFETY: `bytes` has room for `count` elements, `stride` apart.
        unsafe {
            Strided::new(self.bytes.as_mut_ptr(), self.count as i32, self.stride as i32).unwrap()
        }
    }

    fn empty(&self) -> Self {
        Self { bytes: vec![0xee; self.bytes.len()], ..self.clone() }
    }

    /// The bytes of the elements, without what stands between them.
    fn values(&self) -> Vec<u8> {
        let size = self.element.size();
        let at = |index: usize| &self.bytes[index * self.stride * size..][..size];
        (0..self.count).flat_map(at).copied().collect()
    }
}

/// Arrays whose longs have 32 bits, as PVM's default encoding can carry them.
fn arrays() -> impl Strategy<Value = Array> {
    let element = prop::sample::select(Element::ALL.to_vec());
    (element, 0..150_usize, 1..4_usize, any::<u64>()).prop_map(|(element, count, stride, seed)| {
        let size = element.size();
        let mut random = seed | 1;
        let mut bytes = vec![0; (count * stride).max(1) * size];
        for chunk in bytes.chunks_mut(8) {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let word = match element {
                Element::Long => i64::from(random as i32).to_ne_bytes(),
                Element::ULong => u64::from(random as u32).to_ne_bytes(),
                _ => random.to_ne_bytes(),
            };
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Array { element, bytes, count, stride }
    })
}

/// The message as it arrives elsewhere.
fn sent(message: &Message) -> Message {
    let bytes = message.with_parts(|parts| parts.concat());
    let format = message.encoding().format();
    let mut came = Message::received(format, Received::Shared(bytes.into()), Info::default());
    came.begin_unpacking();
    came
}

/// The same message as a machine of the other byte order would have written it.
fn swapped(message: &Message, arrays: &[Array]) -> Message {
    let mut bytes = message.bytes().to_vec();
    let mut at = 0;
    for array in arrays {
        let unit = array.element.coded_unit();
        let len = array.count * array.element.coded_size();
        if unit > 1 {
            bytes[at..at + len].chunks_mut(unit).for_each(<[u8]>::reverse);
        }
        at = (at + len).next_multiple_of(4);
    }
    let format = Encoding::Default { swapped: true }.format();
    let mut came = Message::received(format, Received::Shared(bytes.into()), Info::default());
    came.begin_unpacking();
    came
}

proptest! {
    #[test]
    fn what_is_packed_is_unpacked(
        mut arrays in prop::collection::vec(arrays(), 0..6),
        raw: bool,
    ) {
        let encoding = if raw { Encoding::Raw } else { Encoding::DEFAULT };
        let mut message = Message::new(encoding, vec![1, 2, 3]);
        message.begin_packing();
        for array in &mut arrays {
            message.pack(array.element, array.lent()).unwrap();
        }
        if !raw {
            prop_assert_eq!(message.len() % 4, 0);
        }
        for mut came in [Some(sent(&message)), (!raw).then(|| swapped(&message, &arrays))]
            .into_iter()
            .flatten()
        {
            for array in &arrays {
                let mut got = array.empty();
                came.unpack(array.element, got.lent()).unwrap();
                prop_assert_eq!(got.values(), array.values());
            }
            prop_assert_eq!(came.rest(), 0);
        }
    }

    /// Whatever a message holds and whatever is asked of it, it gives values or a code, and
    /// writes nothing beyond the elements that it has.
    #[test]
    fn any_bytes_give_values_or_a_code(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        format in prop::sample::select(
            vec![0x1000_0000_u32, 0x1000_0001, 0x40_8c41, 7, 0x4000_0001],
        ),
        asked in prop::collection::vec(arrays(), 1..6),
    ) {
        let len = bytes.len();
        let mut came = Message::received(format, Received::Shared(bytes.into()), Info::default());
        came.begin_unpacking();
        for array in asked {
            let mut got = array.empty();
            let outcome = came.unpack(array.element, got.lent());
            prop_assert!(matches!(outcome, Ok(()) | Err(Code::NoData | Code::BadMsg)));
            prop_assert!(came.rest() <= len);
            if outcome == Err(Code::BadMsg) {
                prop_assert!(got.bytes.iter().all(|&byte| byte == 0xee));
            }
        }
        let _ = came.unpack_message();
    }

    #[test]
    fn messages_are_nested(mut inner in arrays(), mut outer in arrays(), raw: bool) {
        let mut first = Message::new(Encoding::DEFAULT, Vec::new());
        first.begin_packing();
        first.pack(inner.element, inner.lent()).unwrap();
        first.info = Info { context: 1, tag: 2, wait: 3, checksum: 4, source: 5, destination: 6 };
        let mut second =
            Message::new(if raw { Encoding::Raw } else { Encoding::DEFAULT }, Vec::new());
        second.begin_packing();
        second.pack_message(&first).unwrap();
        second.pack(outer.element, outer.lent()).unwrap();
        let mut came = sent(&second);
        let mut out = came.unpack_message().unwrap();
        prop_assert_eq!((out.info, out.encoding()), (first.info, Encoding::DEFAULT));
        if first.len() == 0 {
            // PVM's empty fragment, which it does not take out again.
            prop_assert_eq!(came.unpack_int(), Ok(0));
        }
        let mut got = outer.empty();
        came.unpack(outer.element, got.lent()).unwrap();
        prop_assert_eq!(got.values(), outer.values());
        out.begin_unpacking();
        let mut got = inner.empty();
        out.unpack(inner.element, got.lent()).unwrap();
        prop_assert_eq!(got.values(), inner.values());
    }
}

fn packed(encoding: Encoding, values: &[i32]) -> Message {
    let mut message = Message::new(encoding, Vec::new());
    message.begin_packing();
    for &value in values {
        message.pack_int(value).unwrap();
    }
    message
}

/// Lengths as PVM 3.4.6 shows them by `pvm_bufinfo`.
#[test]
fn lengths_are_those_of_pvm() {
    let mut message = packed(Encoding::DEFAULT, &[5]);
    message.pack(Element::Short, of(&mut 3_i16.to_ne_bytes(), 1)).unwrap();
    message.pack(Element::Long, of(&mut 7_i64.to_ne_bytes(), 1)).unwrap();
    message.pack(Element::Byte, of(&mut *b"abcde".to_vec().leak(), 5)).unwrap();
    message.pack_text(b"hi").unwrap();
    assert_eq!(message.len(), 28);
    let mut outer = packed(Encoding::DEFAULT, &[]);
    outer.pack_message(&message).unwrap();
    assert_eq!(outer.len(), 64);
    let mut of_empty = packed(Encoding::DEFAULT, &[]);
    of_empty.pack_message(&packed(Encoding::DEFAULT, &[])).unwrap();
    assert_eq!(of_empty.len(), 36);
}

fn of(bytes: &mut [u8], count: i32) -> Strided<'_> {
    // SAFETY: as many elements are there.
    unsafe { Strided::new(bytes.as_mut_ptr(), count, 1) }.unwrap()
}

#[test]
fn the_end_of_a_message_leaves_the_rest_as_it_was() {
    for encoding in [Encoding::DEFAULT, Encoding::Raw] {
        let mut message = packed(encoding, &[1, 2, 3]);
        message.begin_unpacking();
        let mut got = [9_i32; 5];
        let place = got.as_mut_ptr().cast();
        // SAFETY: five ints.
        let to = unsafe { Strided::new(place, 5, 1) }.unwrap();
        assert_eq!(message.unpack(Element::Int, to), Err(Code::NoData));
        assert_eq!(got, [1, 2, 3, 9, 9]);
        assert_eq!(message.unpack_int(), Err(Code::NoData));
    }
}

#[test]
fn longs_that_do_not_fit_are_refused_by_the_default_encoding_only() {
    let mut long = 0x1_0000_0005_i64.to_ne_bytes();
    let mut negative = (-7_i64).to_ne_bytes();
    let mut message = packed(Encoding::DEFAULT, &[]);
    assert_eq!(message.pack(Element::Long, of(&mut long, 1)), Err(Code::Overflow));
    assert_eq!(message.pack(Element::ULong, of(&mut negative, 1)), Err(Code::Overflow));
    assert_eq!(message.pack(Element::Long, of(&mut negative, 1)), Ok(()));
    message.begin_unpacking();
    let mut got = [0; 8];
    message.unpack(Element::Long, of(&mut got, 1)).unwrap();
    assert_eq!(i64::from_ne_bytes(got), -7);
    let mut raw = packed(Encoding::Raw, &[]);
    assert_eq!(raw.pack(Element::Long, of(&mut long, 1)), Ok(()));
}

#[test]
fn what_is_lent_is_read_when_it_is_sent() {
    let mut values = [1_i32, 2];
    let mut message = Message::new(Encoding::InPlace, Vec::new());
    message.begin_packing();
    let base: *mut u8 = values.as_mut_ptr().cast();
    // SAFETY: two ints.
    let (both, apart) =
        unsafe { (Strided::new(base, 2, 1).unwrap(), Strided::new(base, 1, 2).unwrap()) };
    assert_eq!(message.pack(Element::Int, apart), Err(Code::NotImpl));
    assert_eq!(message.pack_text(b"text"), Err(Code::NotImpl));
    message.pack(Element::Int, both).unwrap();
    // SAFETY: the second int, as a program changes it.
    unsafe { base.add(4).copy_from(7_i32.to_ne_bytes().as_ptr(), 4) };
    let mut came = sent(&message);
    assert_eq!((came.unpack_int(), came.unpack_int()), (Ok(1), Ok(7)));
    message.begin_unpacking();
    assert_eq!(message.unpack_int(), Err(Code::BadMsg));
}

/// As in PVM, numbers go to the beginning of a default message that has been read, bytes to its
/// end; raw ones are appended.
#[test]
fn packing_after_unpacking() {
    for (encoding, first, then) in [(Encoding::DEFAULT, 4, 8), (Encoding::Raw, 12, 16)] {
        let mut message = packed(encoding, &[1, 2]);
        message.begin_unpacking();
        message.unpack_int().unwrap();
        message.begin_packing();
        message.pack_int(3).unwrap();
        assert_eq!(message.len(), first);
        message.pack(Element::Byte, Strided::bytes(b"abcd")).unwrap();
        assert_eq!(message.len(), then);
    }
    let mut message = packed(Encoding::DEFAULT, &[1, 2]);
    message.begin_unpacking();
    message.begin_packing();
    message.pack(Element::Byte, Strided::bytes(b"abcd")).unwrap();
    assert_eq!(message.len(), 12);
}

#[test]
fn another_machines_raw_message_gives_bytes_only() {
    let bytes = Received::Shared(vec![1, 2, 3, 4, 5].into());
    let mut came = Message::received(0x1234, bytes, Info::default());
    came.begin_unpacking();
    assert_eq!(came.encoding(), Encoding::Alien(0x1234));
    assert_eq!(came.unpack_int(), Err(Code::BadMsg));
    let mut got = [0; 2];
    came.unpack(Element::Byte, Strided::bytes_mut(&mut got)).unwrap();
    assert_eq!(got, [1, 2]);
    assert_eq!(came.pack_int(1), Err(Code::BadMsg));
}

/// Messages as machines of both byte orders write them. Unit tests run on a machine of each (`make
/// big-endian`): each writes its own bytes, and reads both.
#[test]
fn machines_of_both_byte_orders_read_each_other() {
    let big = [
        &[1, 2, 3, 4, 0xff, 0xff, 0xff, 0xfe][..], // ints 0x01020304 and −2
        &[0, 0, 0, 5],                             // a short
        &[0x40, 0x49, 0x0f, 0xdb],                 // a float, π
        &[0xbf, 0xf8, 0, 0, 0, 0, 0, 0],           // a double, −1.5
        &[0, 0, 0, 7],                             // a long
    ];
    let little = [
        &[4, 3, 2, 1, 0xfe, 0xff, 0xff, 0xff][..],
        &[5, 0, 0, 0],
        &[0xdb, 0x0f, 0x49, 0x40],
        &[0, 0, 0, 0, 0, 0, 0xf8, 0xbf],
        &[7, 0, 0, 0],
    ];
    let bytes = [b'x', 0, 0, 0];
    let (big, little) =
        ([&big.concat()[..], &bytes].concat(), [&little.concat()[..], &bytes].concat());
    let values: [(Element, Vec<u8>); 6] = [
        (Element::Int, [0x0102_0304, -2].map(i32::to_ne_bytes).concat()),
        (Element::Short, 5_i16.to_ne_bytes().to_vec()),
        (Element::Float, core::f32::consts::PI.to_ne_bytes().to_vec()),
        (Element::Double, (-1.5_f64).to_ne_bytes().to_vec()),
        (Element::Long, 7_i64.to_ne_bytes().to_vec()),
        (Element::Byte, b"x".to_vec()),
    ];
    let mut arrays = values.map(|(element, bytes)| {
        let count = bytes.len() / element.size();
        Array { element, bytes, count, stride: 1 }
    });
    let mut message = Message::new(Encoding::DEFAULT, Vec::new());
    message.begin_packing();
    for array in &mut arrays {
        message.pack(array.element, array.lent()).unwrap();
    }
    let ours =
        if cfg!(target_endian = "big") { (0x1000_0000, &big) } else { (0x1000_0001, &little) };
    assert_eq!((message.encoding().format(), message.bytes()), (ours.0, &ours.1[..]));
    for (format, wire) in [(0x1000_0000, &big), (0x1000_0001, &little)] {
        let mut came =
            Message::received(format, Received::Shared(wire.clone().into()), Info::default());
        came.begin_unpacking();
        for array in &arrays {
            let mut got = array.empty();
            came.unpack(array.element, got.lent()).unwrap();
            assert_eq!(got.values(), array.values(), "{:?} of format {format:#x}", array.element);
        }
    }
}

#[test]
fn bodies_are_joined_where_they_are_written_alike() {
    let mut message = packed(Encoding::Raw, &[1]);
    message.pack_body(&packed(Encoding::Raw, &[2, 3])).unwrap();
    assert_eq!(message.len(), 12);
    assert_eq!(message.pack_body(&packed(Encoding::DEFAULT, &[2])), Err(Code::Mismatch));
}

/// Lengths as in PVM 3.4.6.
#[test]
fn trace_messages_say_what_they_hold() {
    let mut message = Message::new(Encoding::asked(4).unwrap(), Vec::new());
    message.begin_trace();
    assert_eq!(message.len(), 36);
    message.pack_int(5).unwrap();
    assert_eq!(message.len(), 44);
    let mut shorts = [0; 6];
    message.pack(Element::Short, of(&mut shorts, 3)).unwrap();
    assert_eq!(message.len(), 64);
    message.pack_text(b"abc").unwrap();
    assert_eq!(message.len(), 76);
}

#[test]
fn impossible_lengths_of_nested_messages_are_refused() {
    for ints in [&[-1, 0, 0, 0, 0, 0, 0, 0][..], &[4, 0, 0, 0, 0, 0, 0, 0, 0], &[4; 8]] {
        let mut message = packed(Encoding::DEFAULT, ints);
        message.begin_unpacking();
        assert!(matches!(message.unpack_message(), Err(Code::BadMsg | Code::NoData)), "{ints:?}");
    }
    let mut message = packed(Encoding::DEFAULT, &[9, 0, 0, 0, 0, 0, 0, 0, i32::MAX]);
    message.begin_unpacking();
    assert_eq!(message.unpack_message().err(), Some(Code::NoData));
}
