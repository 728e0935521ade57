//! Trace events as they are written: which call began or ended, when, with what.
//!
//! ```text
//! first of its kind   −5 | event | name | (kind, type, value) … | −6
//! others              −7 | event | value … | −8
//! several at once     −1 | of either … | −2
//! event: its number | 0x4000 where a call begins, 0x8000 where it has ended
//! value: int | long (4 bytes) | text (length, bytes) | row (count, values; type + 0x80)
//! ```
//! In front of an event's own values stand the time (seconds, microseconds) and the task. All is
//! written as `PvmDataDefault` is.

use std::ffi::c_void;
use std::time::Duration;

use crate::trace_names::{EVENT, datum};

const DESCRIBED: (i32, i32) = (-5, -6);
const PLAIN: (i32, i32) = (-7, -8);
const BUFFER: (i32, i32) = (-1, -2);

const INT: i32 = 6;
const LONG: i32 = 8;
const TEXT: i32 = 12;
const ROW: i32 = 0x80;

/// What an event tells of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It begins.
    Entry = 0x4000,
    /// It has ended.
    Exit = 0x8000,
    /// It is no call.
    Alone = 0,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Int(i32),
    /// An address: its low half is written, as Debian's PVM does.
    Address(usize),
    Text(Vec<u8>),
    Ints(Vec<i32>),
    Texts(Vec<Vec<u8>>),
}

impl From<i32> for Value {
    fn from(int: i32) -> Self {
        Self::Int(int)
    }
}

impl From<*const c_void> for Value {
    fn from(address: *const c_void) -> Self {
        Self::Address(address.addr())
    }
}

impl From<Vec<i32>> for Value {
    fn from(ints: Vec<i32>) -> Self {
        Self::Ints(ints)
    }
}

impl From<&[u8]> for Value {
    fn from(text: &[u8]) -> Self {
        Self::Text(text.to_vec())
    }
}

/// Values with their kinds (`trace_names::DATUM`).
pub(crate) type Data = Vec<(i32, Value)>;

/// An event.
#[derive(Clone, Debug)]
pub(super) struct Event<'a> {
    pub(super) number: usize,
    pub(super) moment: Moment,
    /// Since 1970.
    pub(super) time: Duration,
    pub(super) tid: i32,
    pub(super) data: &'a [(i32, Value)],
}

impl Event<'_> {
    /// Writes it; `described`: with what its readers have to know, once for each kind.
    pub(super) fn write(&self, described: bool, out: &mut Vec<u8>) {
        let (begin, end) = if described { DESCRIBED } else { PLAIN };
        put_int(out, begin);
        put_int(out, self.number as i32 | self.moment as i32);
        if described {
            put_text(out, EVENT[self.number].to_bytes());
        }
        let head = [
            (const { datum("TS") }, Value::Int(self.time.as_secs() as i32)),
            (const { datum("TU") }, Value::Int(self.time.subsec_micros() as i32)),
            (const { datum("TID") }, Value::Int(self.tid)),
        ];
        for (kind, value) in head.iter().chain(self.data) {
            if described {
                put_int(out, *kind);
                put_int(out, value.type_of());
            }
            value.write(out);
        }
        put_int(out, end);
    }
}

/// Begins a buffer of several events.
pub(super) fn begin_buffer(out: &mut Vec<u8>) {
    put_int(out, BUFFER.0);
}

/// Ends it.
pub(super) fn end_buffer(out: &mut Vec<u8>) {
    put_int(out, BUFFER.1);
}

impl Value {
    const fn type_of(&self) -> i32 {
        match self {
            Self::Int(_) => INT,
            Self::Address(_) => LONG,
            Self::Text(_) => TEXT,
            Self::Ints(_) => INT | ROW,
            Self::Texts(_) => TEXT | ROW,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Int(int) => put_int(out, *int),
            Self::Address(address) => put_int(out, *address as i32),
            Self::Text(text) => put_text(out, text),
            Self::Ints(ints) => {
                put_int(out, ints.len() as i32);
                for &int in ints {
                    put_int(out, int);
                }
            }
            Self::Texts(texts) => {
                put_int(out, texts.len() as i32);
                for text in texts {
                    put_text(out, text);
                }
            }
        }
    }
}

fn put_int(out: &mut Vec<u8>, int: i32) {
    out.extend_from_slice(&int.to_ne_bytes());
}

/// A C string, its end included, filled up to whole ints.
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_int(out, text.len() as i32 + 1);
    out.extend_from_slice(text);
    out.resize((out.len() + 1).next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_names::event;

    fn ints(bytes: &[u8]) -> Vec<i32> {
        bytes.chunks_exact(4).map(|int| i32::from_ne_bytes(int.try_into().unwrap())).collect()
    }

    #[test]
    fn an_event_is_described_once() {
        let data = vec![
            (const { datum("MDL") }, Value::Ints(vec![8, 9])),
            (const { datum("PDA") }, Value::Address(0x1_0000_0007)),
            (const { datum("SE") }, Value::Text(b"slav".to_vec())),
            (const { datum("AS") }, Value::Texts(vec![b"".to_vec()])),
        ];
        let time = Duration::from_micros(3_000_004);
        let number = const { event("mcast") };
        let event = Event { number, moment: Moment::Entry, time, tid: 5, data: &data };
        let slave = [5, i32::from_ne_bytes(*b"slav"), 0];
        let mut out = Vec::new();
        event.write(false, &mut out);
        let values = [3, 4, 5, 2, 8, 9, 7, slave[0], slave[1], slave[2], 1, 1, 0];
        let expected = [&[-7, 0x4017][..], &values, &[-8]].concat();
        assert_eq!(ints(&out), expected);
        out.clear();
        event.write(true, &mut out);
        let mcast = [6, i32::from_ne_bytes(*b"mcas"), i32::from_ne_bytes(*b"t\0\0\0")];
        let expected = [
            &[-5, 0x4017][..],
            &mcast,
            &[106, 6, 3, 107, 6, 4, 88, 6, 5, 51, 0x86, 2, 8, 9, 71, 8, 7, 82, 12],
            &slave,
            &[2, 0x8c, 1, 1, 0, -6],
        ];
        assert_eq!(ints(&out), expected.concat());
    }

    #[test]
    fn numbers_of_data_are_pvms() {
        assert_eq!((const { datum("TS") }, const { datum("TID") }), (106, 88));
    }
}
