//! C strings of the program.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};

use crate::code::Code;

/// The bytes of a string; null counts as empty.
///
/// # Safety
/// Null, or a C string that stays during the call.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// A string as a name; null counts as empty.
///
/// # Safety
/// Null, or a C string that stays during the call.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Cow<'a, str> {
    // SAFETY: the caller's promise.
    String::from_utf8_lossy(unsafe { bytes(text) })
}

/// `count` strings.
///
/// # Safety
/// As many strings are at `list`.
pub(crate) unsafe fn texts(list: *const *const c_char, count: i32) -> Result<Vec<String>, Code> {
    let count = usize::try_from(count).map_err(|_| Code::BadParam)?;
    if list.is_null() || count == 0 {
        return Err(Code::BadParam);
    }
    // SAFETY: the caller's promise.
    let list = unsafe { std::slice::from_raw_parts(list, count) };
    // SAFETY: the caller's promise.
    Ok(list.iter().map(|&one| unsafe { text(one) }.into_owned()).collect())
}

/// `count` ints; none when there is no list.
///
/// # Safety
/// As many ints are at `list`, unless it is null.
pub(crate) unsafe fn ints<'a>(list: *const i32, count: i32) -> Result<&'a [i32], Code> {
    let count = usize::try_from(count).map_err(|_| Code::BadParam)?;
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Code::BadParam);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(list, count) })
}

/// Writes through a pointer that may be null.
///
/// # Safety
/// Null, or a place for a `T`.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}
