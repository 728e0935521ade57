//! Fortran's strings: of fixed length, filled with blanks.

use std::ffi::{CString, c_char};

/// Longest name, in bytes.
const NAME_MAX: usize = 1023;

/// A string without the blanks at its end; `None`: too long, or no string of C.
///
/// # Safety
/// `len` bytes are at `text`.
pub(super) unsafe fn name(text: *const c_char, len: usize) -> Option<CString> {
    if text.is_null() {
        return Some(CString::default());
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    // C programs and careful Fortran ones end strings themselves.
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let used = bytes.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    if used > NAME_MAX { None } else { CString::new(&bytes[..used]).ok() }
}

/// Writes a string, cut or filled with blanks.
///
/// # Safety
/// Null, or `len` places are at `to`.
pub(super) unsafe fn write(to: *mut c_char, len: usize, text: &[u8]) {
    if to.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), len) };
    let used = text.len().min(len);
    to[..used].copy_from_slice(&text[..used]);
    to[used..].fill(b' ');
}

/// PVM's own: a Fortran string into memory for a C string. 1: it does not fit.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftocstr(
    to: *mut c_char,
    room: std::ffi::c_int,
    from: *const c_char,
    len: std::ffi::c_int,
) -> std::ffi::c_int {
    let (Ok(room), Ok(len)) = (usize::try_from(room), usize::try_from(len)) else { return 1 };
    // SAFETY: as long as the program says.
    let text = unsafe { name(from, len) };
    match text {
        Some(text) if text.as_bytes_with_nul().len() <= room => {
            let bytes = text.as_bytes_with_nul();
            // SAFETY: there is room.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
            0
        }
        _ => 1,
    }
}

/// PVM's own: a C string into a Fortran string. 1: it was cut.
#[unsafe(no_mangle)]
unsafe extern "C" fn ctofstr(
    to: *mut c_char,
    len: std::ffi::c_int,
    from: *const c_char,
) -> std::ffi::c_int {
    let Ok(len) = usize::try_from(len) else { return 1 };
    // SAFETY: a C string, and places, of the program.
    unsafe {
        let text = std::ffi::CStr::from_ptr(from).to_bytes();
        write(to, len, text);
        std::ffi::c_int::from(text.len() > len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_at_the_end_are_no_part_of_a_name() {
        let of = |text: &str| {
            // SAFETY: `text` is as long as it is.
            let name = unsafe { name(text.as_ptr().cast(), text.len()) };
            name.map(|name| name.into_string().unwrap())
        };
        assert_eq!(of("group2  ").as_deref(), Some("group2"));
        assert_eq!(of(" a b").as_deref(), Some(" a b"));
        assert_eq!(of("   ").as_deref(), Some(""));
        assert_eq!(of("ab\0cd").as_deref(), Some("ab"));
        assert_eq!(of(&"x".repeat(1024)), None);
    }

    #[test]
    fn strings_are_cut_or_filled() {
        let mut place = [b'#'; 6];
        // SAFETY: six places.
        unsafe { write(place.as_mut_ptr().cast(), 6, b"abc") };
        assert_eq!(&place, b"abc   ");
        // SAFETY: four places.
        unsafe { write(place.as_mut_ptr().cast(), 4, b"vwxyz") };
        assert_eq!(&place, b"vwxy  ");
    }
}
