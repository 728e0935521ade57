//! Trace messages (`PvmDataTrace`): values with their types, between two marks.
//!
//! ```text
//! −9 | event | name (length, bytes) | seconds | microseconds | values … | −10
//! value: type | value       row: type + 0x80 | count | values
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

use super::body::Message;
use super::element::Element;
use super::storage::Storage;
use crate::code::Code;
use crate::strided::Strided;
use crate::trace_names::{USER_DEFINED, event_name};

const BEGIN: i32 = -9;
const END: i32 = -10;
const ROW: i32 = 0x80;

impl Message {
    /// Writes what stands in front of the values. The message is a fresh trace message.
    pub(crate) fn begin_trace(&mut self) {
        let name = event_name(USER_DEFINED).to_bytes_with_nul();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, micros) = (now.as_secs() as i32, now.subsec_micros() as i32);
        self.begin_packing();
        let tail = self.tail(false);
        for value in [BEGIN, USER_DEFINED as i32, name.len() as i32] {
            tail.append(&value.to_ne_bytes());
        }
        tail.append(name);
        tail.pad();
        for value in [seconds, micros] {
            tail.append(&value.to_ne_bytes());
        }
    }

    /// Writes what stands behind the values.
    pub(crate) fn end_trace(&mut self) -> Result<(), Code> {
        self.check_room(4)?;
        self.tail(false).append(&END.to_ne_bytes());
        Ok(())
    }
}

const fn type_of(element: Element) -> i32 {
    match element {
        Element::Byte => 1,
        Element::Cplx => 2,
        Element::Dcplx => 3,
        Element::Double => 4,
        Element::Float => 5,
        // PVM packs unsigned ints and shorts by the functions of signed ones.
        Element::Int | Element::UInt => 6,
        Element::Long => 8,
        Element::ULong => 9,
        Element::Short | Element::UShort => 10,
    }
}

/// Writes the type, and the count of a row, in front of values. A negative int of no count is a
/// mark of the program's own, in PVM.
pub(super) fn annotate(tail: &mut Storage, element: Element, from: Strided<'_>) {
    let type_of = type_of(element);
    match from.count() {
        0 => {}
        1 => tail.append(&type_of.to_ne_bytes()),
        count => {
            tail.append(&(type_of | ROW).to_ne_bytes());
            tail.append(&(count as i32).to_ne_bytes());
        }
    }
}
