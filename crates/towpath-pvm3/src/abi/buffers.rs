//! Message buffers.

use std::ffi::c_int;

use super::entry::{call, guarded, library, traced, traced_as};
use super::text::put;
use crate::code::{Code, flat};
use crate::library::{Data, Minfo};
use crate::message::Info;
use crate::trace_names::{data, event_number};

/// `pvm_mkbuf`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_mkbuf(encoding: c_int) -> c_int {
    traced_as(
        event_number!("mkbuf"),
        || data![ME: encoding],
        |id| data![MB: id],
        || call("pvm_mkbuf", || library().make_buffer(encoding)),
    )
}

/// `pvm_initsend`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_initsend(encoding: c_int) -> c_int {
    traced_as(
        event_number!("initsend"),
        || data![ME: encoding],
        |id| data![MSB: id],
        || call("pvm_initsend", || library().init_send(encoding)),
    )
}

/// `pvm_freebuf`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_freebuf(id: c_int) -> c_int {
    traced(
        event_number!("freebuf"),
        || data![MB: id],
        || call("pvm_freebuf", || library().free_buffer(id)),
    )
}

/// `pvm_setsbuf`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_setsbuf(id: c_int) -> c_int {
    traced_as(
        event_number!("setsbuf"),
        || data![MB: id],
        |before| data![MSB: before],
        || call("pvm_setsbuf", || library().set_send_buffer(id)),
    )
}

/// `pvm_setrbuf`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_setrbuf(id: c_int) -> c_int {
    traced_as(
        event_number!("setrbuf"),
        || data![MB: id],
        |before| data![MRB: before],
        || call("pvm_setrbuf", || library().set_receive_buffer(id)),
    )
}

/// `pvm_getsbuf`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_getsbuf() -> c_int {
    traced_as(
        event_number!("getsbuf"),
        Vec::new,
        |id| data![MSB: id],
        || call("pvm_getsbuf", || Ok(library().send_buffer())),
    )
}

/// `pvm_getrbuf`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_getrbuf() -> c_int {
    traced_as(
        event_number!("getrbuf"),
        Vec::new,
        |id| data![MRB: id],
        || call("pvm_getrbuf", || Ok(library().receive_buffer())),
    )
}

/// `pvm_bufinfo`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_bufinfo(
    id: c_int,
    len: *mut c_int,
    tag: *mut c_int,
    source: *mut c_int,
) -> c_int {
    traced_as(
        event_number!("bufinfo"),
        || data![MB: id],
        |code| info_told(id, code),
        || {
            call("pvm_bufinfo", || {
                let (length, _, info) = library().buffer_info(id)?;
                // SAFETY: places of the program, or null.
                unsafe {
                    put(len, length);
                    put(tag, info.tag);
                    put(source, info.source);
                }
                Ok(0)
            })
        },
    )
}

/// What a trace tells of a buffer's message.
fn info_told(id: c_int, code: c_int) -> Data {
    let (len, tag, source) = library()
        .buffer_info(id)
        .map_or((-1, -1, -1), |(len, _, info)| (len, info.tag, info.source));
    data![CC: code, INB: len, IMC: tag, IST: source]
}

/// `pvm_getminfo`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_getminfo(id: c_int, place: *mut Minfo) -> c_int {
    traced(
        event_number!("getminfo"),
        || data![MB: id],
        || {
            call("pvm_getminfo", || {
                let (len, encoding, info) = library().buffer_info(id)?;
                let Info { context, tag, wait, checksum, source, destination } = info;
                let shown =
                    Minfo { len, context, tag, wait, encoding, checksum, source, destination };
                // SAFETY: a place of the program, or null.
                unsafe { put(place, shown) };
                Ok(0)
            })
        },
    )
}

/// `pvm_setminfo`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_setminfo(id: c_int, place: *const Minfo) -> c_int {
    traced(
        event_number!("setminfo"),
        || data![MB: id],
        || {
            call("pvm_setminfo", || {
                library().buffer_info(id)?;
                // SAFETY: a struct of the program, or null.
                let shown = unsafe { place.as_ref() }.ok_or(Code::BadParam)?;
                let Minfo { context, tag, wait, checksum, source, destination, .. } = *shown;
                library()
                    .set_buffer_info(id, Info { context, tag, wait, checksum, source, destination })
            })
        },
    )
}

/// `pvm_pkmesg`. PVM does not report its failures, nor those of the next two.
#[unsafe(no_mangle)]
extern "C" fn pvm_pkmesg(id: c_int) -> c_int {
    flat(guarded(|| library().pack_message(id)))
}

/// `pvm_pkmesgbody`.
#[unsafe(no_mangle)]
extern "C" fn pvm_pkmesgbody(id: c_int) -> c_int {
    flat(guarded(|| library().pack_body(id)))
}

/// `pvm_upkmesg`.
#[unsafe(no_mangle)]
extern "C" fn pvm_upkmesg() -> c_int {
    flat(guarded(|| library().unpack_message()))
}
