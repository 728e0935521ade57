//! Buffers, packing, sending, receiving.

use std::ffi::{c_char, c_int};

use super::shapes::{BAD_PARAM, by_name, by_value};
use crate::abi;
use crate::library::Handler;

by_value! {
    pvmfmkbuf_(encoding) abi::pvm_mkbuf;
    pvmfinitsend_(encoding) abi::pvm_initsend;
    pvmffreebuf_(buffer) abi::pvm_freebuf;
    pvmfsetsbuf_(buffer) abi::pvm_setsbuf;
    pvmfsetrbuf_(buffer) abi::pvm_setrbuf;
    pvmfgetsbuf_() abi::pvm_getsbuf;
    pvmfgetrbuf_() abi::pvm_getrbuf;
    pvmfsend_(tid, tag) abi::pvm_send;
    pvmfrecv_(tid, tag) abi::pvm_recv;
    pvmfnrecv_(tid, tag) abi::pvm_nrecv;
    pvmfprobe_(tid, tag) abi::pvm_probe;
    pvmfdelmhf_(handler) abi::pvm_delmhf;
    pvmfgetcontext_() abi::pvm_getcontext;
    pvmfsetcontext_(context) abi::pvm_setcontext;
    pvmfnewcontext_() abi::pvm_newcontext;
    pvmffreecontext_(context) abi::pvm_freecontext;
}

by_name! {
    pvmfputinfo_(buffer, flags) abi::pvm_putinfo;
    pvmfrecvinfo_(index, flags) abi::pvm_recvinfo;
    pvmfdelinfo_(index, flags) abi::pvm_delinfo;
}

/// `pvmfbufinfo`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfbufinfo_(
    buffer: *const c_int,
    len: *mut c_int,
    tag: *mut c_int,
    tid: *mut c_int,
    out: *mut c_int,
) {
    // SAFETY: Fortran's arguments are references.
    unsafe { *out = abi::pvm_bufinfo(*buffer, len, tag, tid) };
}

/// `pvmfmcast`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfmcast_(
    count: *const c_int,
    tids: *const c_int,
    tag: *const c_int,
    out: *mut c_int,
) {
    // SAFETY: Fortran's arguments are references.
    unsafe { *out = abi::pvm_mcast(tids, *count, *tag) };
}

/// `pvmftrecv`: the time in seconds and microseconds; negative seconds: for ever.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmftrecv_(
    tid: *const c_int,
    tag: *const c_int,
    seconds: *const c_int,
    micros: *const c_int,
    out: *mut c_int,
) {
    // SAFETY: Fortran's arguments are references.
    unsafe {
        let time = libc::timeval { tv_sec: i64::from(*seconds), tv_usec: i64::from(*micros) };
        let time = if *seconds < 0 { std::ptr::null() } else { &raw const time };
        *out = abi::pvm_trecv(*tid, *tag, time);
    }
}

/// `pvmfpsend`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfpsend_(
    tid: *const c_int,
    tag: *const c_int,
    from: *const u8,
    count: *const c_int,
    data_type: *const c_int,
    out: *mut c_int,
) {
    // SAFETY: Fortran's arguments are references.
    unsafe { *out = abi::pvm_psend(*tid, *tag, from, *count, *data_type) };
}

/// `pvmfprecv`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfprecv_(
    tid: *const c_int,
    tag: *const c_int,
    place: *mut u8,
    count: *const c_int,
    data_type: *const c_int,
    from: *mut c_int,
    with_tag: *mut c_int,
    len: *mut c_int,
    out: *mut c_int,
) {
    // SAFETY: Fortran's arguments are references.
    unsafe {
        *out = abi::pvm_precv(*tid, *tag, place, *count, *data_type, from, with_tag, len);
    }
}

/// `pvmfaddmhf`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfaddmhf_(
    tid: *const c_int,
    tag: *const c_int,
    context: *const c_int,
    handler: Option<Handler>,
    out: *mut c_int,
) {
    // SAFETY: Fortran's arguments are references.
    unsafe { *out = abi::pvm_addmhf(*tid, *tag, *context, handler) };
}

/// `pvmfnotify`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfnotify_(
    what: *const c_int,
    tag: *const c_int,
    count: *const c_int,
    tids: *const c_int,
    out: *mut c_int,
) {
    // SAFETY: Fortran's arguments are references.
    unsafe { *out = abi::pvm_notify(*what, *tag, *count, tids) };
}

/// `pvmfpack`. A string is packed as bytes, without its length; the length that gfortran passes
/// with one is not looked at.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfpack_(
    what: *const c_int,
    from: *mut c_char,
    count: *const c_int,
    stride: *const c_int,
    out: *mut c_int,
) {
    // SAFETY: Fortran's arguments are references.
    unsafe {
        let (count, stride) = (*count, *stride);
        *out = match *what {
            0 | 1 => abi::pvm_pkbyte(from, count, stride),
            2 => abi::pvm_pkshort(from.cast(), count, stride),
            3 => abi::pvm_pkint(from.cast(), count, stride),
            4 => abi::pvm_pkfloat(from.cast(), count, stride),
            5 => abi::pvm_pkcplx(from.cast(), count, stride),
            6 => abi::pvm_pkdouble(from.cast(), count, stride),
            7 => abi::pvm_pkdcplx(from.cast(), count, stride),
            8 => abi::pvm_pklong(from.cast(), count, stride),
            _ => BAD_PARAM,
        };
    }
}

/// `pvmfunpack`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfunpack_(
    what: *const c_int,
    to: *mut c_char,
    count: *const c_int,
    stride: *const c_int,
    out: *mut c_int,
) {
    // SAFETY: Fortran's arguments are references.
    unsafe {
        let (count, stride) = (*count, *stride);
        *out = match *what {
            0 | 1 => abi::pvm_upkbyte(to, count, stride),
            2 => abi::pvm_upkshort(to.cast(), count, stride),
            3 => abi::pvm_upkint(to.cast(), count, stride),
            4 => abi::pvm_upkfloat(to.cast(), count, stride),
            5 => abi::pvm_upkcplx(to.cast(), count, stride),
            6 => abi::pvm_upkdouble(to.cast(), count, stride),
            7 => abi::pvm_upkdcplx(to.cast(), count, stride),
            8 => abi::pvm_upklong(to.cast(), count, stride),
            _ => BAD_PARAM,
        };
    }
}
