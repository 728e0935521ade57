//! Values instead of bytes.

use std::ffi::{c_int, c_void};

use towpath_task::plain::{Complex32, Complex64, Plain, TypeCode};
use towpath_task::{Received, RecvError};

use crate::code::Failure;
use crate::given::{self, CEnvelope, CWanted, Out, put, timeout, wanted};
use crate::handle::{Done, Handle, Inner, with};
use crate::receive::{CReceived, yes};

/// Runs a function for the type of an element's number in the header.
macro_rules! by_element {
    ($number:expr, $call:ident($($arg:expr),*)) => {
        match $number {
            1 => $call::<i8>($($arg),*),
            2 => $call::<u8>($($arg),*),
            3 => $call::<i16>($($arg),*),
            4 => $call::<u16>($($arg),*),
            5 => $call::<i32>($($arg),*),
            6 => $call::<u32>($($arg),*),
            7 => $call::<i64>($($arg),*),
            8 => $call::<u64>($($arg),*),
            9 => $call::<f32>($($arg),*),
            10 => $call::<f64>($($arg),*),
            11 => $call::<Complex32>($($arg),*),
            12 => $call::<Complex64>($($arg),*),
            number => Err(Failure::argument(format!("element {number}: there are 1 to 12"))),
        }
    };
}

/// The code of an element's number; 0: none.
pub(crate) fn code(number: u32) -> Result<Option<TypeCode>, Failure> {
    if number == 0 {
        return Ok(None);
    }
    let code = TypeCode::of_element(number);
    let none = || Failure::argument(format!("element {number}: there are 1 to 12"));
    Ok(Some(code.ok_or_else(none)?))
}

/// # Safety
/// `values` is as the header demands.
unsafe fn send<T: Plain>(
    inner: &mut Inner,
    (to, tag): (u64, i64),
    values: *const c_void,
    count: usize,
) -> Result<Done, Failure> {
    // SAFETY: the caller's promise.
    let values = unsafe { given::slice::<T>(values.cast(), count, "the values") }?;
    inner.task.send_slice(given::task_id(to)?, tag, values)?;
    Ok(Done::Yes)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_send_values(
    handle: Option<&Handle>,
    to: u64,
    tag: i64,
    element: u32,
    values: *const c_void,
    count: usize,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for so many values, aligned.
        unsafe { by_element!(element, send(inner, (to, tag), values, count)) }
    })
}

/// # Safety
/// `values` is as the header demands.
unsafe fn receive<T: Plain>(
    inner: &mut Inner,
    what: Option<&CWanted>,
    (values, room): (*mut c_void, usize),
    timeout_ns: i64,
) -> Result<Option<Received>, Failure> {
    let what = wanted(what)?;
    // SAFETY: the caller's promise, for the checks; nothing is read.
    unsafe { given::room::<T>(values.cast(), room, "the values") }?;
    let to: &mut [T] = if room == 0 {
        &mut []
    } else {
        // SAFETY: checked; memory that comes from C holds some values, whichever, and all are some.
        unsafe { std::slice::from_raw_parts_mut(values.cast(), room) }
    };
    let got = match timeout(timeout_ns) {
        None => Some(inner.task.recv_slice_into(&what, to)?),
        Some(time) => inner.task.recv_slice_into_timeout(&what, to, time)?,
    };
    Ok(got)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_recv_values(
    handle: Option<&Handle>,
    what: Option<&CWanted>,
    element: u32,
    values: *mut c_void,
    room: usize,
    timeout_ns: i64,
    about: Out<'_, CReceived>,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for room of so many values, aligned.
        let got = unsafe { by_element!(element, receive(inner, what, (values, room), timeout_ns)) };
        let Some(received) = got? else { return Ok(Done::No) };
        put(about, received.into());
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_try_send(
    handle: Option<&Handle>,
    to: u64,
    envelope: Option<&CEnvelope>,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for so many bytes.
        let bytes = unsafe { given::bytes(bytes, len) }?;
        let sent = inner.task.try_send(given::task_id(to)?, given::envelope(envelope), bytes)?;
        Ok(yes(sent))
    })
}

/// Whether a message's values have their bytes the other way round; an error where it has none of
/// this code.
pub(crate) fn check(code: TypeCode, received: &Received) -> Result<bool, RecvError> {
    code.check(received.format, received.len).map_err(RecvError::from)
}
