//! Tasks.

use std::cell::Cell;
use std::ffi::{c_char, c_int};

use super::entry::{Ints, Text, call, call_for_answer, library, show, traced, traced_as, watch};
use super::tables::{Given, TaskInfo};
use super::text::{bytes, put};
use crate::code::Code;
use crate::library::Sink;
use crate::trace_names::{data, event_number};

/// Most arguments of a spawned program.
const ARGS_MAX: usize = 1 << 16;

/// `pvm_mytid`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_mytid() -> c_int {
    traced_as(
        event_number!("mytid"),
        Vec::new,
        |tid| data![MT: tid],
        || {
            let tid = call("pvm_mytid", || library().my_tid());
            show();
            tid
        },
    )
}

/// `pvm_parent`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_parent() -> c_int {
    traced_as(
        event_number!("parent"),
        Vec::new,
        |tid| data![PT: tid],
        || {
            let tid = call_for_answer("pvm_parent", &[Code::NoParent, Code::ParentNotSet], || {
                library().parent()
            });
            show();
            tid
        },
    )
}

/// `pvm_exit`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_exit() -> c_int {
    traced(event_number!("exit"), Vec::new, || {
        let code = call("pvm_exit", || {
            // SAFETY: flushes what the program has written so far.
            unsafe { libc::fflush(std::ptr::null_mut()) };
            library().exit()
        });
        show();
        code
    })
}

/// Strings up to a null.
///
/// # Safety
/// Null, or such a list.
unsafe fn list<'a>(list: *const *const c_char) -> Vec<&'a [u8]> {
    let mut all = Vec::new();
    if list.is_null() {
        return all;
    }
    while all.len() < ARGS_MAX {
        // SAFETY: the list goes on until a null.
        let one = unsafe { *list.add(all.len()) };
        if one.is_null() {
            break;
        }
        // SAFETY: a C string of the list.
        all.push(unsafe { bytes(one) });
    }
    all
}

/// `pvm_spawn`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_spawn(
    program: *const c_char,
    args: *const *const c_char,
    flags: c_int,
    place: *const c_char,
    count: c_int,
    tids: *mut c_int,
) -> c_int {
    let given = || data![SE: Text(program), SW: Text(place), SF: flags, SC: count];
    let came = |made: c_int| data![CC: made, STL: Ints(tids, made.max(0))];
    traced_as(event_number!("spawn"), given, came, || {
        call("pvm_spawn", || {
            if program.is_null() {
                return Err(Code::BadParam);
            }
            // SAFETY: strings of the program, or null.
            let (program, args, place) = unsafe { (bytes(program), list(args), bytes(place)) };
            let made = library().spawn(program, &args, flags, place, count)?;
            if !tids.is_null() {
                // SAFETY: as many places of the program.
                unsafe { tids.copy_from_nonoverlapping(made.as_ptr(), made.len()) };
            }
            Ok(made.iter().filter(|&&tid| tid > 0).count() as c_int)
        })
    })
}

/// `pvm_kill`. PVM reports a failure twice.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_kill(tid: c_int) -> c_int {
    traced(
        event_number!("kill"),
        || data![TT: tid],
        || {
            call("pvm_kill", || {
                let code = call("pvm_sendsig", || library().kill(tid));
                if code < 0 {
                    Err(Code::from_number(code).unwrap_or(Code::SysErr))
                } else {
                    Ok(code)
                }
            })
        },
    )
}

/// `pvm_sendsig`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_sendsig(tid: c_int, signal: c_int) -> c_int {
    traced(
        event_number!("sendsig"),
        || data![TT: tid, SN: signal],
        || call("pvm_sendsig", || library().signal(tid, signal)),
    )
}

/// `pvm_pstat`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_pstat(tid: c_int) -> c_int {
    traced_as(
        event_number!("pstat"),
        || data![TT: tid],
        |status| data![TST: status],
        || call_for_answer("pvm_pstat", &[Code::NoTask], || library().task_status(tid)),
    )
}

static TASKS: Given<TaskInfo> = Given::new();

/// `pvm_tasks`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_tasks(
    which: c_int,
    count: *mut c_int,
    list: *mut *const TaskInfo,
) -> c_int {
    let seen = Cell::new(0);
    let came = |code| data![CC: code, TNT: seen.get()];
    traced_as(
        event_number!("tasks"),
        || data![TW: which],
        came,
        || {
            call("pvm_tasks", || {
                let (table, rows) = TASKS.tasks(&library().tasks(which)?);
                seen.set(rows);
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

static SIBLINGS: Given<c_int> = Given::new();

/// `pvm_siblings`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_siblings(list: *mut *const c_int) -> c_int {
    let came = |_| data![SIB: library().siblings().unwrap_or_default()];
    traced_as(event_number!("siblings"), Vec::new, came, || {
        call("pvm_siblings", || {
            let (table, count) = SIBLINGS.list(library().siblings()?);
            // SAFETY: a place of the program, or null.
            unsafe { put(list, table) };
            Ok(count)
        })
    })
}

static DESCRIPTORS: Given<c_int> = Given::new();

/// `pvm_getfds`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_getfds(list: *mut *const c_int) -> c_int {
    let came = |code| data![CC: code, FDS: library().descriptor().into_iter().collect::<Vec<_>>()];
    traced_as(event_number!("getfds"), Vec::new, came, || {
        call("pvm_getfds", || {
            let (table, count) = DESCRIPTORS.list(vec![library().descriptor()?]);
            watch();
            // SAFETY: a place of the program, or null.
            unsafe { put(list, table) };
            Ok(count)
        })
    })
}

static SPARED: Given<c_int> = Given::new();

/// `pvm_getnoresets`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_getnoresets(list: *mut *const c_int, count: *mut c_int) -> c_int {
    call("pvm_getnoresets", || {
        let (table, rows) = SPARED.list(library().no_resets()?);
        // SAFETY: places of the program, or null.
        unsafe {
            put(list, table);
            put(count, rows);
        }
        Ok(0)
    })
}

/// A C stream.
struct Stream(*mut libc::FILE);

// SAFETY: C streams may be used from any thread; the program keeps it open while it catches.
unsafe impl Send for Stream {}

impl Stream {
    fn write(&mut self, bytes: &[u8]) {
        // SAFETY: the program's stream; that it cannot be written to is the program's affair.
        unsafe {
            libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), self.0);
            libc::fflush(self.0);
        }
    }
}

/// `pvm_catchout`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_catchout(stream: *mut libc::FILE) -> c_int {
    call("pvm_catchout", || {
        let mut to = Stream(stream);
        let sink: Sink = Box::new(move |line| to.write(line));
        library().catch_output((!stream.is_null()).then_some(sink))
    })
}
