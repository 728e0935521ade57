//! Options, roles, exported variables, and what PVM's own tools use.

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::atomic::Ordering::Relaxed;

use super::entry::{Text, call, guarded, library, show, speaker, traced, traced_as};
use super::text::{bytes, put, text};
use crate::code::{Code, flat};
use crate::complaint::complain;
use crate::data::{pvmautoerr, pvmctrc, pvmdebmask, pvmtrc};
use crate::library::{HOSTER, MASK, TASKER, TRACER, parse_int, registration};
use crate::trace_names::{data, event_number};

const AUTO_ERROR: c_int = 3;

/// `pvm_getopt`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_getopt(what: c_int) -> c_int {
    traced_as(
        event_number!("getopt"),
        || data![OPT: what],
        |value| data![OPV: value],
        || {
            call("pvm_getopt", || match what {
                AUTO_ERROR => Ok(pvmautoerr.load(Relaxed)),
                _ => library().option(what),
            })
        },
    )
}

/// `pvm_setopt`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_setopt(what: c_int, value: c_int) -> c_int {
    traced_as(
        event_number!("setopt"),
        || data![OPT: what, OPV: value],
        |before| data![OPV: before],
        || {
            let before = call("pvm_setopt", || match what {
                AUTO_ERROR => Ok(pvmautoerr.swap(value, Relaxed)),
                _ => library().set_option(what, value),
            });
            show_options();
            before
        },
    )
}

/// Brings the variables of options up to date.
fn show_options() {
    let options = library().options();
    pvmdebmask.store(options.debug, Relaxed);
    pvmtrc.set(options.own);
    pvmctrc.set(options.child);
    show();
}

/// `pvm_gettmask`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_gettmask(who: c_int, place: *mut [u8; MASK]) -> c_int {
    call("pvm_gettmask", || {
        let mask = library().trace_mask(who)?;
        // SAFETY: a mask of the program, or null.
        unsafe { put(place, mask) };
        Ok(0)
    })
}

/// `pvm_settmask`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_settmask(who: c_int, mask: *const [u8; MASK]) -> c_int {
    let code = call("pvm_settmask", || {
        // SAFETY: a mask of the program, or null.
        let mask = unsafe { mask.as_ref() }.ok_or(Code::BadParam)?;
        library().set_trace_mask(who, *mask)
    });
    show_options();
    code
}

/// `pvm_version`.
#[unsafe(no_mangle)]
extern "C" fn pvm_version() -> *const c_char {
    c"3.4.6".as_ptr()
}

/// `pvm_reg_hoster`.
#[unsafe(no_mangle)]
extern "C" fn pvm_reg_hoster() -> c_int {
    traced(event_number!("reg_hoster"), Vec::new, || {
        call("pvm_reg_hoster", || library().toggle_role(HOSTER, &[], true))
    })
}

/// `pvm_reg_tasker`.
#[unsafe(no_mangle)]
extern "C" fn pvm_reg_tasker() -> c_int {
    traced(event_number!("reg_tasker"), Vec::new, || {
        call("pvm_reg_tasker", || library().toggle_role(TASKER, &[], true))
    })
}

/// `pvm_reg_tracer`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_reg_tracer(
    trace_context: c_int,
    trace_tag: c_int,
    output_context: c_int,
    output_tag: c_int,
    mask: *const c_char,
    buffer: c_int,
    options: c_int,
) -> c_int {
    let given = || {
        let mask = Text(mask);
        data![
            TRC: trace_context, TRT: trace_tag, TRX: output_context, TRO: output_tag,
            TRM: mask, TRB: buffer, TRL: options
        ]
    };
    traced(event_number!("reg_tracer"), given, || {
        call("pvm_reg_tracer", || {
            let tags = [trace_context, trace_tag, output_context, output_tag];
            // SAFETY: a C string of the program, or null.
            let ints = registration(tags, unsafe { bytes(mask) }, buffer, options);
            library().toggle_role(TRACER, &ints, false)
        })
    })
}

/// Sets a variable of the environment.
fn set_variable(name: &CStr, value: &[u8]) {
    let Ok(value) = CString::new(value) else { return };
    // SAFETY: two C strings. That other threads read the environment meanwhile is as in PVM.
    unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
}

fn variable(name: &CStr) -> Option<Vec<u8>> {
    // SAFETY: a C string; the answer is copied at once.
    let found = unsafe { libc::getenv(name.as_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: a C string of the environment.
    Some(unsafe { CStr::from_ptr(found) }.to_bytes().to_vec())
}

const EXPORT: &CStr = c"PVM_EXPORT";

/// `pvm_export`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_export(name: *const c_char) -> c_int {
    // SAFETY: a C string of the program, or null.
    let name = unsafe { bytes(name) };
    let names = variable(EXPORT).unwrap_or_default();
    if name.is_empty() || names.split(|&byte| byte == b':').any(|one| one == name) {
        return 0;
    }
    let separator: &[u8] = if names.is_empty() { b"" } else { b":" };
    set_variable(EXPORT, &[&names, separator, name].concat());
    0
}

/// `pvm_unexport`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_unexport(name: *const c_char) -> c_int {
    // SAFETY: a C string of the program, or null.
    let name = unsafe { bytes(name) };
    if let Some(names) = variable(EXPORT)
        && !name.is_empty()
    {
        let rest: Vec<&[u8]> =
            names.split(|&byte| byte == b':').filter(|&one| one != name).collect();
        set_variable(EXPORT, &rest.join(&b':'));
    }
    0
}

/// PVM's own: `NAME=value`, which the environment refers to from then on.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmputenv(assignment: *mut c_char) -> c_int {
    // SAFETY: a C string that the program leaves to the environment.
    unsafe { libc::putenv(assignment) }
}

/// PVM's own: a number in C's notation.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmstrtoi(digits: *const c_char) -> c_int {
    // SAFETY: a C string of the program, or null.
    parse_int(&unsafe { text(digits) })
}

/// PVM's own: the time.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmgetclock(place: *mut libc::timeval) -> c_int {
    // SAFETY: a place of the program.
    unsafe { libc::gettimeofday(place, std::ptr::null_mut()) }
}

/// PVM's own: sleeps for seconds.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvmsleep(seconds: c_int) -> c_int {
    let seconds = std::ffi::c_uint::try_from(seconds).unwrap_or(0);
    // SAFETY: no memory is involved.
    unsafe { libc::sleep(seconds) }.cast_signed()
}

/// PVM's own: is no task any more.
#[unsafe(no_mangle)]
extern "C" fn pvmendtask() -> c_int {
    let code = flat(guarded(|| library().exit()));
    show();
    code
}

/// PVM's own: the command that reaches other hosts.
#[unsafe(no_mangle)]
extern "C" fn pvmgetrsh() -> *const c_char {
    // SAFETY: a C string; the answer stays in the environment.
    let set = unsafe { libc::getenv(c"PVM_RSH".as_ptr()) };
    if set.is_null() { c"/usr/bin/ssh".as_ptr() } else { set }
}

/// PVM's own: the directory for temporary files.
#[unsafe(no_mangle)]
extern "C" fn pvmgettmp() -> *const c_char {
    // SAFETY: a C string; the answer stays in the environment.
    let set = unsafe { libc::getenv(c"PVM_TMP".as_ptr()) };
    if set.is_null() { c"/tmp".as_ptr() } else { set }
}

/// PVM's own: the name of a control message's tag; here numbers, as there are none.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmnametag(tag: c_int, known: *mut c_int) -> *const c_char {
    static NAME: std::sync::Mutex<[u8; 16]> = std::sync::Mutex::new([0; 16]);
    // SAFETY: a place of the program, or null.
    unsafe { put(known, 0) };
    let mut name = NAME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let digits = tag.to_string();
    *name = [0; 16];
    name[..digits.len()].copy_from_slice(digits.as_bytes());
    // The buffer is static; as in PVM the next call writes over it.
    name.as_ptr().cast()
}

/// PVM's own: shows the message handlers.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmdisplaymhfinfo(who: *const c_char, what: *const c_char, tid: c_int) {
    // SAFETY: C strings of the program, or null.
    let (who, what) = unsafe { (text(who), text(what)) };
    let mut shown = format!("\n{who} t{tid:x}: Display Message Handler Information: {what}\n");
    for (number, source, tag, context) in library().handlers() {
        let line = format!("handler {number}: src t{source:x} ctx {context} tag {tag}\n");
        shown.push_str(&line);
    }
    let Ok(shown) = CString::new(shown) else { return };
    // SAFETY: writes a C string to the program's standard output, in order with its own.
    unsafe {
        libc::printf(c"%s".as_ptr(), shown.as_ptr());
        libc::fflush(std::ptr::null_mut());
    }
}

/// PVM's own: ends all tasks but the caller and those that are to be spared, and mailboxes.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmreset(me: c_int, kill: c_int, class: *const c_char, index: c_int) -> c_int {
    // SAFETY: a C string of the program, or null.
    let class = unsafe { text(class) };
    let _ = guarded(|| library().reset(me, kill != 0, &class, index));
    0
}

/// PVM's own: becomes a task.
#[unsafe(no_mangle)]
extern "C" fn pvmbeatask() -> c_int {
    let outcome = guarded(|| library().my_tid().map(|_| 0));
    show();
    flat(outcome)
}

/// PVM's own: a line on standard error, with who says it.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvmlogerror(line: *const c_char) -> c_int {
    // SAFETY: a C string of the program, or null.
    let line = unsafe { text(line) };
    complain(format_args!("{}: {line}", speaker()));
    0
}

/// PVM's own: the signature of this machine's data formats.
#[unsafe(no_mangle)]
extern "C" fn pvmgetdsig() -> c_int {
    crate::message::DSIG
}

/// PVM's own: what its allocator has given out. Here that is the C library's.
#[unsafe(no_mangle)]
extern "C" fn i_dump(_details: c_int) {}
