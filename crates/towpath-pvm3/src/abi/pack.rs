//! Packing and unpacking.

use std::ffi::{
    c_char, c_double, c_float, c_int, c_long, c_short, c_uint, c_ulong, c_ushort, c_void,
};

use super::entry::{call, guarded, library, traced};
use super::text::bytes;
use crate::code::{Code, flat};
use crate::library::Data;
use crate::message::Element;
use crate::strided::Strided;
use crate::trace_names::{data, event_number, event_of};

/// What a trace tells of elements.
fn array(address: *const c_void, count: c_int, stride: c_int) -> Data {
    data![PDA: address, PC: count, PSD: stride]
}

macro_rules! packing {
    ($($pack:ident $unpack:ident $type:ty, $element:ident;)*) => { $(
        /// Packs elements.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $pack(
            from: *mut $type,
            count: c_int,
            stride: c_int,
        ) -> c_int {
            let event = const { event_of(stringify!($pack)) };
            traced(event, || array(from.cast(), count, stride), || {
                call(stringify!($pack), || {
                    // SAFETY: elements of the program.
                    let from = unsafe { Strided::new(from.cast(), count, stride) }?;
                    library().pack(Element::$element, from)
                })
            })
        }

        /// Unpacks elements.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $unpack(
            to: *mut $type,
            count: c_int,
            stride: c_int,
        ) -> c_int {
            let event = const { event_of(stringify!($unpack)) };
            traced(event, || array(to.cast(), count, stride), || {
                call(stringify!($unpack), || {
                    // SAFETY: places for elements of the program.
                    let to = unsafe { Strided::new(to.cast(), count, stride) }?;
                    library().unpack(Element::$element, to)
                })
            })
        }
    )* };
}

packing! {
    pvm_pkbyte pvm_upkbyte c_char, Byte;
    pvm_pkshort pvm_upkshort c_short, Short;
    pvm_pkushort pvm_upkushort c_ushort, UShort;
    pvm_pkint pvm_upkint c_int, Int;
    pvm_pkuint pvm_upkuint c_uint, UInt;
    pvm_pklong pvm_upklong c_long, Long;
    pvm_pkulong pvm_upkulong c_ulong, ULong;
    pvm_pkfloat pvm_upkfloat c_float, Float;
    pvm_pkdouble pvm_upkdouble c_double, Double;
    pvm_pkcplx pvm_upkcplx c_float, Cplx;
    pvm_pkdcplx pvm_upkdcplx c_double, Dcplx;
}

/// `pvm_pkstr`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_pkstr(text: *const c_char) -> c_int {
    traced(
        event_number!("pkstr"),
        || data![PDA: text.cast::<c_void>()],
        || {
            call("pvm_pkstr", || {
                if text.is_null() {
                    return Err(Code::BadParam);
                }
                // SAFETY: a C string of the program.
                library().pack_text(unsafe { bytes(text) })
            })
        },
    )
}

/// `pvm_upkstr`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_upkstr(place: *mut c_char) -> c_int {
    traced(
        event_number!("upkstr"),
        || data![PDA: place.cast::<c_void>().cast_const()],
        || {
            call("pvm_upkstr", || {
                // SAFETY: the program has room for the string that it expects.
                library().unpack_text(|len| unsafe { Strided::new(place.cast(), len as c_int, 1) })
            })
        },
    )
}

/// PVM's own: unpacks a string into memory from `malloc`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmupkstralloc(place: *mut *mut c_char) -> c_int {
    flat(guarded(|| {
        let mut made: *mut c_char = std::ptr::null_mut();
        let outcome = library().unpack_text(|len| {
            // SAFETY: asks for memory, and writes inside it.
            unsafe {
                made = libc::malloc(len.max(1)).cast();
                Strided::new(made.cast(), len as c_int, 1)
            }
        });
        if outcome.is_err() && !made.is_null() {
            // SAFETY: it is from `malloc`.
            unsafe { libc::free(made.cast()) };
            made = std::ptr::null_mut();
        }
        // SAFETY: a place of the program, or null.
        unsafe { super::text::put(place, made) };
        outcome
    }))
}
