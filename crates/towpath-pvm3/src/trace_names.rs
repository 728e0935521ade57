//! Numbers of PVM's trace events and of the data in them: part of its interface. The tables are
//! those of consoles and daemons, too.

use std::ffi::CStr;

pub(crate) use towpath_pvm::trace::{DATA, DATUM, EVENT, EVENTS, USER_DEFINED};

/// Name of an event.
pub(crate) fn event_name(event: usize) -> &'static CStr {
    EVENT[event]
}

const fn is_equal(one: &CStr, other: &[u8]) -> bool {
    let one = one.to_bytes();
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Number of an event, for constants: a name that is none does not compile there.
pub(crate) const fn event(name: &str) -> usize {
    number_of(name.as_bytes())
}

/// Number of the event of a call, by the name that begins with `pvm_`; for constants.
pub(crate) const fn event_of(call: &str) -> usize {
    number_of(call.as_bytes().split_at(4).1)
}

const fn number_of(name: &[u8]) -> usize {
    let mut number = 0;
    while !is_equal(EVENT[number], name) {
        number += 1;
    }
    number
}

/// Number of a kind of data, for constants.
pub(crate) const fn datum(name: &str) -> i32 {
    let mut number = 0;
    while !is_equal(DATUM[number].0, name.as_bytes()) {
        number += 1;
    }
    number as i32
}

/// Number of a trace event by its name.
macro_rules! event_number {
    ($name:literal) => {
        const { $crate::trace_names::event($name) }
    };
}

/// What a trace event tells, by the names of kinds of data.
macro_rules! data {
    ($($kind:ident: $value:expr),*) => {
        vec![$((
            const { $crate::trace_names::datum(stringify!($kind)) },
            $crate::library::Value::from($value),
        )),*]
    };
}

pub(crate) use {data, event_number};
