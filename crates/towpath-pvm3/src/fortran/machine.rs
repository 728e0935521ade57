//! Hosts and mailboxes.

use std::ffi::{c_char, c_int};

use super::shapes::{BAD_PARAM, by_name, by_value};
use super::strings::{name, write};
use crate::abi;
use crate::code::Code;
use crate::library::flags_of;

by_value! {
    pvmfhalt_() abi::pvm_halt;
}

by_name! {
    pvmfmstat_() abi::pvm_mstat;
    pvmfarchcode_() abi::pvm_archcode;
    pvmfaddhost_() add_host;
    pvmfdelhost_() delete_host;
}

type Each = unsafe extern "C" fn(*const *const c_char, c_int, *mut c_int) -> c_int;

/// One host: its own code, when it has one.
unsafe fn one_host(host: *const c_char, each: Each) -> c_int {
    let mut code = 0;
    // SAFETY: a list of one C string, and a place for its code.
    let outcome = unsafe { each(&raw const host, 1, &raw mut code) };
    if outcome < 0 || code >= 0 { outcome } else { code }
}

unsafe fn add_host(host: *const c_char) -> c_int {
    // SAFETY: a C string, made by `by_name`.
    unsafe { one_host(host, abi::pvm_addhosts) }
}

unsafe fn delete_host(host: *const c_char) -> c_int {
    // SAFETY: a C string, made by `by_name`.
    unsafe { one_host(host, abi::pvm_delhosts) }
}

/// `pvmfconfig`: one host a call.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfconfig_(
    hosts: *mut c_int,
    formats: *mut c_int,
    tid: *mut c_int,
    host: *mut c_char,
    arch: *mut c_char,
    speed: *mut c_int,
    out: *mut c_int,
    host_len: usize,
    arch_len: usize,
) {
    // SAFETY: Fortran's arguments are references, its strings as long as it says.
    unsafe {
        let (row, count, kinds) = match super::tables::next_host(hosts) {
            Ok(next) => next,
            Err(code) => return *out = code,
        };
        if let Some(row) = row {
            *hosts = count;
            *formats = kinds;
            *tid = row.tid;
            write(host, host_len, row.name.as_bytes());
            write(arch, arch_len, row.arch.as_bytes());
            *speed = row.speed;
            *out = 1;
        }
    }
}

/// `pvmfhostsync`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfhostsync_(
    host: *const c_int,
    seconds: *mut c_int,
    micros: *mut c_int,
    ahead_seconds: *mut c_int,
    ahead_micros: *mut c_int,
    out: *mut c_int,
) {
    let mut clock = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut ahead = clock;
    // SAFETY: Fortran's arguments are references.
    unsafe {
        *out = abi::pvm_hostsync(*host, &raw mut clock, &raw mut ahead);
        *seconds = clock.tv_sec as c_int;
        *micros = clock.tv_usec as c_int;
        *ahead_seconds = ahead.tv_sec as c_int;
        *ahead_micros = ahead.tv_usec as c_int;
    }
}

/// `pvmfgetmboxinfo`: one mailbox a call.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmfgetmboxinfo_(
    pattern: *const c_char,
    mailbox: *mut c_char,
    classes: *mut c_int,
    entries: *mut c_int,
    indices: *mut c_int,
    owners: *mut c_int,
    flags: *mut c_int,
    out: *mut c_int,
    pattern_len: usize,
    mailbox_len: usize,
) {
    // SAFETY: Fortran's arguments are references, its strings as long as it says, its arrays as
    // long as the program made them for the entries that it expects.
    unsafe {
        let Some(pattern) = name(pattern, pattern_len) else { return *out = BAD_PARAM };
        let row = match super::tables::next_mailbox(&pattern.to_string_lossy(), classes) {
            Ok(Some(row)) => row,
            Ok(None) => return *out = Code::NotFound.number(),
            Err(code) => return *out = code,
        };
        write(mailbox, mailbox_len, row.0.as_bytes());
        *entries = row.1.len() as c_int;
        for (at, (index, owner, rules)) in row.1.iter().enumerate() {
            *indices.add(at) = *index;
            *owners.add(at) = *owner;
            *flags.add(at) = flags_of(*rules);
        }
        *out = 0;
    }
}
