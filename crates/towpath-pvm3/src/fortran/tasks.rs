//! Tasks and options.

use std::ffi::{CString, c_char, c_int};

use super::shapes::{BAD_PARAM, by_name, by_value};
use super::strings::{name, write};
use crate::abi;

by_value! {
    pvmfmytid_() abi::pvm_mytid;
    pvmfparent_() abi::pvm_parent;
    pvmfexit_() abi::pvm_exit;
    pvmfkill_(tid) abi::pvm_kill;
    pvmfsendsig_(tid, signal) abi::pvm_sendsig;
    pvmfpstat_(tid) abi::pvm_pstat;
    pvmftidtohost_(tid) abi::pvm_tidtohost;
    pvmfgetopt_(what) abi::pvm_getopt;
    pvmfsetopt_(what, value) abi::pvm_setopt;
}

/// `pvmfsleep`: unlike the others it gives no result.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfsleep_(seconds: *const c_int) {
    // SAFETY: Fortran's arguments are references.
    unsafe { abi::pvmsleep(*seconds) };
}

by_name! {
    pvmfperror_() abi::pvm_perror;
}

/// `pvmfspawn`: `*` stands for any place.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfspawn_(
    program: *const c_char,
    flags: *const c_int,
    place: *const c_char,
    count: *const c_int,
    tids: *mut c_int,
    out: *mut c_int,
    program_len: usize,
    place_len: usize,
) {
    // SAFETY: Fortran's arguments are references, its strings as long as it says.
    unsafe {
        let place = name(place, place_len);
        *out = match (name(program, program_len), place) {
            (Some(program), Some(place)) => {
                let anywhere = place.as_bytes().first() == Some(&b'*');
                let place = if anywhere { c"" } else { place.as_c_str() };
                let args = std::ptr::null();
                abi::pvm_spawn(program.as_ptr(), args, *flags, place.as_ptr(), *count, tids)
            }
            _ => BAD_PARAM,
        };
    }
}

/// `pvmfcatchout`: to standard output, or not.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfcatchout_(on: *const c_int, out: *mut c_int) {
    unsafe extern "C" {
        static stdout: *mut libc::FILE;
    }
    // SAFETY: Fortran's arguments are references; the stream is the C library's.
    unsafe { *out = abi::pvm_catchout(if *on == 0 { std::ptr::null_mut() } else { stdout }) };
}

/// `pvmfsiblings`: how many there are, and one of them.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfsiblings_(count: *mut c_int, index: *const c_int, tid: *mut c_int) {
    let mut list = std::ptr::null();
    // SAFETY: Fortran's arguments are references; the list is as long as is said.
    unsafe {
        *count = abi::pvm_siblings(&raw mut list);
        if (0..*count).contains(&*index) {
            *tid = *list.add(*index as usize);
        }
    }
}

/// `pvmfstartpvmd`: the arguments are words.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfstartpvmd_(
    args: *const c_char,
    block: *const c_int,
    out: *mut c_int,
    len: usize,
) {
    // SAFETY: Fortran's arguments are references, a text comes with its length.
    unsafe {
        let text = name(args, len).unwrap_or_default();
        let words = text.as_bytes().split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
        // A word of a C string is one.
        let words: Vec<CString> = words.flat_map(CString::new).collect();
        let pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
        *out = abi::pvm_start_pvmd(pointers.len() as c_int, pointers.as_ptr(), *block);
    }
}

/// `pvmftasks`: one task a call.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmftasks_(
    which: *const c_int,
    count: *mut c_int,
    tid: *mut c_int,
    parent: *mut c_int,
    host: *mut c_int,
    flag: *mut c_int,
    program: *mut c_char,
    out: *mut c_int,
    program_len: usize,
) {
    // SAFETY: Fortran's arguments are references, its strings as long as it says.
    unsafe {
        let row = match super::tables::next_task(*which, count) {
            Ok(row) => row,
            Err(code) => return *out = code,
        };
        if let Some(row) = row {
            *tid = row.tid;
            *parent = row.parent;
            *host = row.host;
            *flag = 4;
            write(program, program_len, row.program.as_bytes());
            *out = 1;
        }
    }
}
