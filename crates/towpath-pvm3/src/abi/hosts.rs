//! Hosts.

use std::cell::Cell;
use std::ffi::{c_char, c_int};

use super::entry::{Ints, Text, Texts, call, call_for_answer, library, traced, traced_as};
use super::tables::{Given, HostInfo};
use super::text::{put, text, texts};
use crate::code::Code;
use crate::tid;
use crate::trace_names::{data, event_number};

static HOSTS: Given<HostInfo> = Given::new();

/// `pvm_config`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_config(
    hosts: *mut c_int,
    formats: *mut c_int,
    list: *mut *const HostInfo,
) -> c_int {
    let seen = Cell::new((0, 0));
    let came = |code| data![NH: seen.get().0, NA: seen.get().1, CC: code];
    traced_as(event_number!("config"), Vec::new, came, || {
        call("pvm_config", || {
            let rows = library().config()?;
            let mut dsigs: Vec<i32> = rows.iter().map(|row| row.dsig).collect();
            dsigs.sort_unstable();
            dsigs.dedup();
            let (table, count) = HOSTS.hosts(&rows);
            seen.set((count, dsigs.len() as c_int));
            // SAFETY: places of the program, or null.
            unsafe {
                put(hosts, count);
                put(formats, dsigs.len() as c_int);
                put(list, table);
            }
            Ok(0)
        })
    })
}

/// For each name a code, or what it got; gives how many got something.
unsafe fn each(
    names: *const *const c_char,
    count: c_int,
    codes: *mut c_int,
    step: impl FnOnce(&[String]) -> Result<Vec<i32>, Code>,
) -> Result<i32, Code> {
    // SAFETY: as many strings of the program.
    let outcomes = step(&unsafe { texts(names, count) }?)?;
    if !codes.is_null() {
        // SAFETY: as many places of the program.
        unsafe { codes.copy_from_nonoverlapping(outcomes.as_ptr(), outcomes.len()) };
    }
    Ok(outcomes.iter().filter(|&&code| code >= 0).count() as i32)
}

/// `pvm_addhosts`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_addhosts(
    names: *const *const c_char,
    count: c_int,
    codes: *mut c_int,
) -> c_int {
    traced(
        event_number!("addhosts"),
        || data![HNL: Texts(names, count)],
        || {
            call("pvm_addhosts", || {
                // SAFETY: names and places of the program.
                unsafe { each(names, count, codes, |names| library().add_hosts(names)) }
            })
        },
    )
}

/// `pvm_delhosts`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_delhosts(
    names: *const *const c_char,
    count: c_int,
    codes: *mut c_int,
) -> c_int {
    traced(
        event_number!("delhosts"),
        || data![HNL: Texts(names, count)],
        || {
            call("pvm_delhosts", || {
                // SAFETY: names and places of the program.
                unsafe { each(names, count, codes, |names| library().delete_hosts(names)) }
            })
        },
    )
}

/// `pvm_mstat`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_mstat(name: *const c_char) -> c_int {
    traced_as(
        event_number!("mstat"),
        || data![HN: Text(name)],
        |status| data![HS: status],
        || {
            call_for_answer("pvm_mstat", &[Code::NoHost, Code::HostFail], || {
                // SAFETY: a C string of the program, or null.
                let name = unsafe { text(name) };
                if name.is_empty() { Err(Code::BadParam) } else { library().host_status(&name) }
            })
        },
    )
}

/// `pvm_archcode`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_archcode(arch: *const c_char) -> c_int {
    traced_as(
        event_number!("archcode"),
        || data![AN: Text(arch)],
        |code| data![AC: code],
        || {
            call("pvm_archcode", || {
                if arch.is_null() {
                    return Err(Code::BadParam);
                }
                // SAFETY: a C string of the program.
                library().arch_code(&unsafe { text(arch) })
            })
        },
    )
}

/// `pvm_tidtohost`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_tidtohost(tid: c_int) -> c_int {
    tid::host_of(tid)
}

/// `pvm_hostsync`. PVM reports its failures by another name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_hostsync(
    host: c_int,
    clock: *mut libc::timeval,
    ahead: *mut libc::timeval,
) -> c_int {
    call("pvm_host_sync", || {
        let (micros, difference) = library().host_clock(host)?;
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        let there = libc::timeval { tv_sec: seconds.cast_signed(), tv_usec: rest.cast_signed() };
        let delta = libc::timeval {
            tv_sec: difference.div_euclid(1_000_000),
            tv_usec: difference.rem_euclid(1_000_000),
        };
        // SAFETY: places of the program, or null.
        unsafe {
            put(clock, there);
            put(ahead, delta);
        }
        Ok(0)
    })
}

/// `pvm_halt`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_halt() -> c_int {
    traced(event_number!("halt"), Vec::new, || call("pvm_halt", || library().halt()))
}

/// `pvm_start_pvmd`. Whether to wait for the hosts of a host file makes no difference: it does.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_start_pvmd(
    count: c_int,
    args: *const *const c_char,
    block: c_int,
) -> c_int {
    traced(
        event_number!("start_pvmd"),
        || data![BF: block, AS: Texts(args, count)],
        || {
            call("pvm_start_pvmd", || {
                // SAFETY: as many strings of the program.
                let args = if count > 0 { unsafe { texts(args, count) }? } else { Vec::new() };
                library().start_daemon(&args)
            })
        },
    )
}

/// `pvm_tickle`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_tickle(
    count: c_int,
    numbers: *const c_int,
    answered: *mut c_int,
    _answers: *mut c_int,
) -> c_int {
    traced_as(
        event_number!("tickle"),
        || data![TA: Ints(numbers, count)],
        |code| data![CC: code, TR: Vec::new()],
        || {
            call("pvm_tickle", || {
                let answers = library().tickle(count)?;
                // SAFETY: a place of the program, or null.
                unsafe { put(answered, answers) };
                Ok(0)
            })
        },
    )
}

static MANAGED: Given<HostInfo> = Given::new();

/// `pvm_reg_rm`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvm_reg_rm(host: *mut *const HostInfo) -> c_int {
    traced(event_number!("reg_rm"), Vec::new, || {
        call("pvm_reg_rm", || {
            let (before, row) = library().become_manager()?;
            let (table, _) = MANAGED.hosts(&[row]);
            // SAFETY: a place of the program, or null.
            unsafe { put(host, table) };
            Ok(before)
        })
    })
}
