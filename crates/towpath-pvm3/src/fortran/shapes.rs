//! Shapes that most subroutines have.

use std::ffi::c_int;

use crate::code::Code;

/// What a subroutine gives when a string is too long for a name.
pub(super) const BAD_PARAM: c_int = Code::BadParam.number();

/// Subroutines that take ints and give the result of a C call.
///
/// `name_(in ...; out)` calls `$call` with the ints and writes what it gives to `out`.
macro_rules! by_value {
    ($($name:ident($($arg:ident),*) $call:path;)*) => { $(
        /// The C call of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: *const std::ffi::c_int,)* out: *mut std::ffi::c_int) {
            // SAFETY: Fortran's arguments are references.
            unsafe { *out = $call($(*$arg),*) };
        }
    )* };
}

/// Subroutines that take a name, then ints, and give the result of a C call.
macro_rules! by_name {
    ($($name:ident($($arg:ident),*) $call:path;)*) => { $(
        /// The C call of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            text: *const std::ffi::c_char,
            $($arg: *const std::ffi::c_int,)*
            out: *mut std::ffi::c_int,
            len: usize,
        ) {
            // SAFETY: Fortran's arguments are references, its strings as long as it says.
            unsafe {
                *out = match crate::fortran::strings::name(text, len) {
                    Some(text) => $call(text.as_ptr(), $(*$arg),*),
                    None => crate::fortran::shapes::BAD_PARAM,
                };
            }
        }
    )* };
}

pub(super) use {by_name, by_value};
