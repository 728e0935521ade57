//! Groups. PVM has these in a library of their own, `libgpvm3`, which reports their failures
//! less: only reduce, gather and scatter do.

use std::ffi::{c_char, c_int};
use std::sync::atomic::Ordering::Relaxed;

use super::entry::{Text, call, guarded, library, traced, traced_as};
use super::tables::Given;
use super::text::{put, text};
use crate::code::{Code, Outcome, flat};
use crate::data::pvm_errno;
use crate::library::{Function, Operator, built_in, size_of};
use crate::strided::Strided;
use crate::trace_names::{data, event_number};

fn quiet(step: impl FnOnce() -> Outcome) -> c_int {
    let outcome = guarded(step);
    if let Err(code) = outcome {
        pvm_errno.store(code.number(), Relaxed);
    }
    flat(outcome)
}

/// `pvm_joingroup`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_joingroup(group: *const c_char) -> c_int {
    traced(
        event_number!("joingroup"),
        || data![GN: Text(group)],
        || {
            // SAFETY: a C string of the program, or null.
            quiet(|| library().join_group(&unsafe { text(group) }))
        },
    )
}

/// `pvm_lvgroup`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_lvgroup(group: *const c_char) -> c_int {
    traced(
        event_number!("lvgroup"),
        || data![GN: Text(group)],
        || {
            // SAFETY: a C string of the program, or null.
            quiet(|| library().leave_group(&unsafe { text(group) }))
        },
    )
}

/// `pvm_getinst`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_getinst(group: *const c_char, tid: c_int) -> c_int {
    traced_as(
        event_number!("getinst"),
        || data![GN: Text(group), GT: tid],
        |instance| data![GI: instance],
        || {
            // SAFETY: a C string of the program, or null.
            quiet(|| library().instance(&unsafe { text(group) }, tid))
        },
    )
}

/// `pvm_gettid`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_gettid(group: *const c_char, instance: c_int) -> c_int {
    traced_as(
        event_number!("gettid"),
        || data![GN: Text(group), GI: instance],
        |tid| data![GT: tid],
        || {
            // SAFETY: a C string of the program, or null.
            quiet(|| library().member(&unsafe { text(group) }, instance))
        },
    )
}

/// `pvm_gsize`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_gsize(group: *const c_char) -> c_int {
    traced_as(
        event_number!("gsize"),
        || data![GN: Text(group)],
        |size| data![GS: size],
        || {
            // SAFETY: a C string of the program, or null.
            quiet(|| library().group_size(&unsafe { text(group) }))
        },
    )
}

/// `pvm_barrier`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_barrier(group: *const c_char, count: c_int) -> c_int {
    traced(
        event_number!("barrier"),
        || data![GN: Text(group), GBC: count],
        || {
            // SAFETY: a C string of the program, or null.
            quiet(|| library().barrier(&unsafe { text(group) }, count))
        },
    )
}

/// `pvm_freezegroup`. As in PVM, `pvm_errno` stays as it is when it fails.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_freezegroup(group: *const c_char, size: c_int) -> c_int {
    // SAFETY: a C string of the program, or null.
    flat(guarded(|| library().freeze_group(&unsafe { text(group) }, size)))
}

/// `pvm_bcast`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_bcast(group: *const c_char, tag: c_int) -> c_int {
    traced_as(
        event_number!("bcast"),
        || data![GN: Text(group), MC: tag],
        |code| {
            // SAFETY: a C string of the program, or null.
            let others = library().others(&unsafe { text(group) });
            data![CC: code, MDL: others]
        },
        || {
            // SAFETY: a C string of the program, or null.
            quiet(|| library().broadcast(&unsafe { text(group) }, tag))
        },
    )
}

/// `pvm_grphostinfo`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_grphostinfo(
    group: *const c_char,
    host: c_int,
    coordinator: *mut c_int,
    members: *mut c_int,
    hosts: *mut c_int,
) -> c_int {
    quiet(|| {
        // SAFETY: a C string of the program, or null.
        let found = library().group_on_host(&unsafe { text(group) }, host)?;
        // SAFETY: places of the program, or null.
        unsafe {
            put(coordinator, found.0);
            put(members, found.1);
            put(hosts, found.2);
        }
        Ok(0)
    })
}

static COORDINATORS: Given<c_int> = Given::new();
static COUNTS: Given<c_int> = Given::new();

/// `pvm_grpvhostinfo`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_grpvhostinfo(
    group: *const c_char,
    coordinators: *mut *const c_int,
    members: *mut *const c_int,
    hosts: *mut c_int,
) -> c_int {
    quiet(|| {
        // SAFETY: a C string of the program, or null.
        let rows = library().group_hosts(&unsafe { text(group) })?;
        let (low, count) = COORDINATORS.list(rows.iter().map(|row| row.0).collect());
        let (counts, _) = COUNTS.list(rows.iter().map(|row| row.1).collect());
        // SAFETY: places of the program, or null.
        unsafe {
            put(coordinators, low);
            put(members, counts);
            put(hosts, count);
        }
        Ok(0)
    })
}

/// `pvm_gsdump`: there is no group server that could say what it knows.
#[unsafe(no_mangle)]
extern "C" fn pvm_gsdump() {}

/// PVM's own: the group server's task.
#[unsafe(no_mangle)]
extern "C" fn gs_getgstid() -> c_int {
    Code::SysErr.number()
}

/// Bytes of `count` elements.
fn len_of(count: c_int, data_type: c_int) -> Result<usize, Code> {
    let size = size_of(data_type)? as usize;
    let count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(Code::BadParam)?;
    count.checked_mul(size).ok_or(Code::BadParam)
}

/// `pvm_reduce`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_reduce(
    operator: Option<Operator>,
    data: *mut u8,
    count: c_int,
    data_type: c_int,
    tag: c_int,
    group: *const c_char,
    root: c_int,
) -> c_int {
    traced(
        event_number!("reduce"),
        || data![GN: Text(group), MC: tag],
        || {
            call("pvm_reduce", || {
                if data.is_null() || count <= 0 {
                    return Err(Code::BadParam);
                }
                let len = len_of(count, data_type)?;
                // SAFETY: an array of the program.
                let data = unsafe { std::slice::from_raw_parts_mut(data, len) };
                let operator = operator.ok_or(Code::BadParam)?;
                // SAFETY: a C string of the program, or null.
                library().reduce(operator, data, data_type, tag, &unsafe { text(group) }, root)
            })
        },
    )
}

/// An array of the program that only the root has: `count` elements of each instance.
fn places(
    base: *mut u8,
    count: c_int,
    len: usize,
) -> Option<impl Fn(usize) -> Result<Strided<'static>, Code>> {
    (!base.is_null()).then_some(move |instance: usize| {
        // SAFETY: the root's array has room for the values of every member.
        unsafe { Strided::new(base.add(instance * len), count, 1) }
    })
}

/// `pvm_gather`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_gather(
    result: *mut u8,
    data: *mut u8,
    count: c_int,
    data_type: c_int,
    tag: c_int,
    group: *const c_char,
    root: c_int,
) -> c_int {
    traced(
        event_number!("gather"),
        || data![GN: Text(group), MC: tag],
        || {
            call("pvm_gather", || {
                if data.is_null() || count <= 0 {
                    return Err(Code::BadParam);
                }
                let place = places(result, count, len_of(count, data_type)?);
                // SAFETY: an array of the program. PVM's interface lets nobody change it.
                let values = unsafe { Strided::new(data, count, 1) }?;
                // SAFETY: a C string of the program, or null.
                library().gather(place, values, data_type, tag, &unsafe { text(group) }, root)
            })
        },
    )
}

/// `pvm_scatter`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_scatter(
    result: *mut u8,
    data: *mut u8,
    count: c_int,
    data_type: c_int,
    tag: c_int,
    group: *const c_char,
    root: c_int,
) -> c_int {
    traced(
        event_number!("scatter"),
        || data![GN: Text(group), MC: tag],
        || {
            call("pvm_scatter", || {
                if result.is_null() || count <= 0 {
                    return Err(Code::BadParam);
                }
                let place = places(data, count, len_of(count, data_type)?);
                // SAFETY: an array of the program, which may be a part of the root's.
                let mine = unsafe { Strided::new(result, count, 1) }?;
                // SAFETY: a C string of the program, or null.
                library().scatter(mine, place, data_type, tag, &unsafe { text(group) }, root)
            })
        },
    )
}

/// Combines two arrays, the first of which takes the result.
///
/// # Safety
/// PVM's signature: two arrays of as many elements of this type, and a place for the code.
unsafe fn combine(
    function: Function,
    data_type: *mut c_int,
    (data, more): (*mut u8, *mut u8),
    count: *mut c_int,
    code: *mut c_int,
) {
    let outcome = guarded(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let len = match *count {
                1.. => len_of(*count, *data_type)?,
                _ => return size_of(*data_type).map(|_| 0),
            };
            let data = std::slice::from_raw_parts_mut(data, len);
            let more = std::slice::from_raw_parts(more, len);
            built_in(function, *data_type, data, more).map(|()| 0)
        }
    });
    // SAFETY: a place of the program.
    unsafe { put(code, flat(outcome)) };
}

macro_rules! operators {
    ($($name:ident $function:ident;)*) => { $(
        /// One of PVM's reduce functions.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)] // PVM's name.
        pub(crate) unsafe extern "C" fn $name(
            data_type: *mut c_int,
            data: *mut u8,
            more: *mut u8,
            count: *mut c_int,
            code: *mut c_int,
        ) {
            // SAFETY: PVM's signature.
            unsafe { combine(Function::$function, data_type, (data, more), count, code) };
        }
    )* };
}

operators! {
    PvmMax Max;
    PvmMin Min;
    PvmSum Sum;
    PvmProduct Product;
}
