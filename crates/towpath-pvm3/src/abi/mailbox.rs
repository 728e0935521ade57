//! Mailboxes.

use std::ffi::{c_char, c_int};

use super::entry::{Text, call, call_quietly, library, traced, traced_as};
use super::tables::{Given, MailboxInfo};
use super::text::{put, text};
use crate::code::Code;
use crate::trace_names::{data, event_number};

/// `pvm_putinfo`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_putinfo(name: *const c_char, id: c_int, flags: c_int) -> c_int {
    traced(
        event_number!("putinfo"),
        || data![CN: Text(name), CI: -1, CF: flags, CD: id],
        || {
            call_quietly("pvm_putinfo", &[Code::Denied, Code::Exists], || {
                // SAFETY: a C string of the program, or null.
                library().put_info(&unsafe { text(name) }, id, flags)
            })
        },
    )
}

/// `pvm_recvinfo`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_recvinfo(
    name: *const c_char,
    index: c_int,
    flags: c_int,
) -> c_int {
    traced_as(
        event_number!("getinfo"),
        || data![CN: Text(name), CI: index, CF: flags],
        |id: c_int| data![CC: id.min(0), CR: id.max(0)],
        || {
            call_quietly("pvm_recvinfo", &[Code::NotFound], || {
                // SAFETY: a C string of the program, or null.
                library().receive_info(&unsafe { text(name) }, index, flags)
            })
        },
    )
}

/// `pvm_delinfo`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_delinfo(
    name: *const c_char,
    index: c_int,
    flags: c_int,
) -> c_int {
    traced(
        event_number!("delinfo"),
        || data![CN: Text(name), CI: index, CF: flags],
        || {
            call_quietly("pvm_delinfo", &[Code::Denied, Code::NotFound], || {
                // SAFETY: a C string of the program, or null.
                library().delete_info(&unsafe { text(name) }, index)
            })
        },
    )
}

static MAILBOXES: Given<MailboxInfo> = Given::new();

/// `pvm_getmboxinfo`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_getmboxinfo(
    pattern: *const c_char,
    count: *mut c_int,
    list: *mut *const MailboxInfo,
) -> c_int {
    traced(
        event_number!("getmboxinfo"),
        || data![CN: Text(pattern)],
        || {
            call("pvm_getmboxinfo", || {
                // SAFETY: a C string of the program, or null.
                let (table, rows) =
                    MAILBOXES.mailboxes(&library().mailboxes(&unsafe { text(pattern) })?);
                // SAFETY: places of the program, or null.
                unsafe {
                    put(count, rows);
                    put(list, table);
                }
                Ok(0)
            })
        },
    )
}

/// `pvm_insert`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_insert(name: *const c_char, index: c_int, data: c_int) -> c_int {
    traced(
        event_number!("insert"),
        || data![CN: Text(name), CI: index, CD: data],
        || {
            call_quietly("pvm_insert", &[Code::Denied], || {
                // SAFETY: a C string of the program, or null.
                library().insert(&unsafe { text(name) }, index, data)
            })
        },
    )
}

/// `pvm_lookup`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_lookup(name: *const c_char, index: c_int, data: *mut c_int) -> c_int {
    traced(
        event_number!("lookup"),
        || data![CN: Text(name), CI: index],
        || {
            call_quietly("pvm_lookup", &[Code::NotFound], || {
                // SAFETY: a C string of the program, or null.
                let (found, value) = library().look_up(&unsafe { text(name) }, index)?;
                if let Some(value) = value {
                    // SAFETY: a place of the program, or null.
                    unsafe { put(data, value) };
                }
                Ok(found)
            })
        },
    )
}

/// `pvm_delete`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_delete(name: *const c_char, index: c_int) -> c_int {
    traced(
        event_number!("delete"),
        || data![CN: Text(name), CI: index],
        || {
            call_quietly("pvm_delete", &[Code::NotFound], || {
                // SAFETY: a C string of the program, or null.
                library().delete_info(&unsafe { text(name) }, index)
            })
        },
    )
}
