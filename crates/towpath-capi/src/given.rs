//! What C hands in, checked: nothing here believes a pointer to be anything but what the header
//! demands of it (null, or valid for what it points to).

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use towpath_task::{Envelope, HostId, TaskId, Wanted};

use crate::code::Failure;

/// `towpath_envelope` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CEnvelope {
    tag: i64,
    context: u32,
    format: u32,
}

/// `towpath_part` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CPart {
    bytes: *const c_void,
    len: usize,
}

impl CPart {
    /// Bytes for C to read, as long as they live.
    pub(crate) const fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.as_ptr().cast(), len: bytes.len() }
    }
}

/// `towpath_wanted` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CWanted {
    source: u64,
    tag: i64,
    any_tag: u32,
    context: u32,
}

/// A place for a result; null where the caller does not want it.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

pub(crate) fn put<T>(out: Out<'_, T>, value: T) {
    if let Some(out) = out {
        out.write(value);
    }
}

/// A place that must be there.
pub(crate) fn needed<'a, T>(
    out: Out<'a, T>,
    what: &str,
) -> Result<&'a mut MaybeUninit<T>, Failure> {
    out.ok_or_else(|| Failure::argument(format!("{what} is null")))
}

pub(crate) fn task_id(raw: u64) -> Result<TaskId, Failure> {
    TaskId::try_from(raw).map_err(|e| Failure::argument(e.to_string()))
}

pub(crate) fn host_id(raw: u64) -> Result<HostId, Failure> {
    HostId::try_from(raw).map_err(|e| Failure::argument(e.to_string()))
}

/// Nanoseconds; negative: for ever.
pub(crate) fn timeout(ns: i64) -> Option<Duration> {
    u64::try_from(ns).ok().map(Duration::from_nanos)
}

/// `len` things at `start`.
///
/// # Safety
/// `start` is null or valid for `len` things that nobody changes while the result lives.
pub(crate) unsafe fn slice<'a, T>(
    start: *const T,
    len: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if start.is_null() || !start.is_aligned() {
        return Err(Failure::argument(format!("{what} is null or not aligned")));
    }
    if len.checked_mul(size_of::<T>()).is_none_or(|n| n > isize::MAX.unsigned_abs()) {
        return Err(Failure::argument(format!("{what}: {len} are too many")));
    }
    // SAFETY: not null, aligned and not too long; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(start, len) })
}

/// Room for `len` things at `start`.
///
/// # Safety
/// `start` is null or valid for `len` things that nobody else uses while the result lives.
pub(crate) unsafe fn room<'a, T>(
    start: *mut T,
    len: usize,
    what: &str,
) -> Result<&'a mut [MaybeUninit<T>], Failure> {
    // SAFETY: the caller's promise, for the checks alone; nothing is read.
    unsafe { slice(start.cast::<MaybeUninit<T>>(), len, what) }?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: checked above; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), len) })
}

/// Bytes that C gave as a `void *`.
///
/// # Safety
/// As for [`slice`].
pub(crate) unsafe fn bytes<'a>(start: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: the caller's promise.
    unsafe { slice(start.cast(), len, "the message's memory") }
}

/// Memory of C's that is to be filled.
///
/// # Safety
/// As for [`room`], and it holds some bytes already.
pub(crate) unsafe fn bytes_mut<'a>(
    start: *mut c_void,
    len: usize,
) -> Result<&'a mut [u8], Failure> {
    // SAFETY: the caller's promise.
    let room = unsafe { room(start.cast::<u8>(), len, "the message's memory") }?;
    // SAFETY: the caller's promise: it holds bytes.
    Ok(unsafe { &mut *(std::ptr::from_mut(room) as *mut [u8]) })
}

/// Bytes of a C string.
///
/// # Safety
/// `text` is null or a string that ends with a zero byte and that nobody changes.
pub(crate) unsafe fn c_bytes<'a>(text: *const c_char, what: &str) -> Result<&'a [u8], Failure> {
    if text.is_null() {
        return Err(Failure::argument(format!("{what} is null")));
    }
    // SAFETY: not null; the rest is the caller's promise.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// A C string in UTF-8.
///
/// # Safety
/// As for [`c_bytes`].
pub(crate) unsafe fn name<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { c_bytes(text, what) }?;
    std::str::from_utf8(bytes).map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// A path.
///
/// # Safety
/// As for [`c_bytes`].
pub(crate) unsafe fn path<'a>(text: *const c_char) -> Result<&'a std::path::Path, Failure> {
    // SAFETY: the caller's promise.
    Ok(OsStr::from_bytes(unsafe { c_bytes(text, "the path") }?).as_ref())
}

/// Longest list of strings that is read.
const STRINGS_MAX: usize = 65_536;

/// A list of C strings that ends with a null pointer; null: none.
///
/// # Safety
/// `list` is null or such a list, unchanged meanwhile.
pub(crate) unsafe fn strings(
    list: *const *const c_char,
    what: &str,
) -> Result<Vec<Vec<u8>>, Failure> {
    let mut all = Vec::new();
    if list.is_null() {
        return Ok(all);
    }
    for n in 0..STRINGS_MAX {
        // SAFETY: the list goes on until its null pointer, which was not met yet.
        let text = unsafe { *list.add(n) };
        if text.is_null() {
            return Ok(all);
        }
        // SAFETY: not null, and a string as the caller promises.
        all.push(unsafe { c_bytes(text, what) }?.to_vec());
    }
    Err(Failure::argument(format!("{what}: more than {STRINGS_MAX} strings")))
}

/// The pieces of a message.
///
/// # Safety
/// `parts` is null or valid for `count` pieces, each valid for its bytes.
pub(crate) unsafe fn parts<'a>(
    parts: *const CPart,
    count: usize,
) -> Result<Vec<&'a [u8]>, Failure> {
    // SAFETY: the caller's promise.
    let parts = unsafe { slice(parts, count, "the parts") }?;
    // SAFETY: the caller's promise for each of them.
    parts.iter().map(|p| unsafe { bytes(p.bytes, p.len) }).collect()
}

pub(crate) fn envelope(given: Option<&CEnvelope>) -> Envelope {
    given.map_or(Envelope::default(), |e| Envelope {
        tag: e.tag,
        context: e.context,
        format: e.format,
    })
}

/// Null: any message of context 0.
pub(crate) fn wanted(given: Option<&CWanted>) -> Result<Wanted, Failure> {
    let Some(w) = given else { return Ok(Wanted { source: None, tag: None, context: 0 }) };
    let source = if w.source == 0 { None } else { Some(task_id(w.source)?) };
    let tag = (w.any_tag == 0).then_some(w.tag);
    Ok(Wanted { source, tag, context: w.context })
}

/// Copies a text into a field of `N` bytes, cut where it is too long, with a zero byte.
pub(crate) fn field<const N: usize>(text: &str) -> [c_char; N] {
    let mut end = text.len().min(N - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut field = [0; N];
    for (to, from) in field.iter_mut().zip(&text.as_bytes()[..end]) {
        *to = from.cast_signed() as c_char;
    }
    field
}
