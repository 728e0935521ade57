//! Sending, receiving, matching, handlers, contexts, notices.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::entry::{call, library, show};
use super::text::{ints, put};
use crate::code::{Code, Outcome};
use crate::library::{Handler, MatchFunction, Wait};
use crate::message::Element;

/// `pvm_send`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_send(to: c_int, tag: c_int) -> c_int {
    call("pvm_send", || library().send(to, tag))
}

/// `pvm_mcast`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_mcast(to: *const c_int, count: c_int, tag: c_int) -> c_int {
    call("pvm_mcast", || {
        // SAFETY: as many ints of the program.
        let list = unsafe { ints(to, count.max(0)) }?;
        library().multicast((count >= 0).then_some(list), tag)
    })
}

/// Bytes of an array of `count` elements. PVM sends and receives nothing of an array of less than
/// none, but does send and receive.
fn array_len(count: c_int, data_type: c_int) -> Result<usize, Code> {
    let size = Element::of_data_type(data_type)?.size();
    usize::try_from(count).unwrap_or(0).checked_mul(size).ok_or(Code::BadParam)
}

/// `pvm_psend`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_psend(
    to: c_int,
    tag: c_int,
    from: *const u8,
    count: c_int,
    data_type: c_int,
) -> c_int {
    call("pvm_psend", || {
        let len = array_len(count, data_type)?;
        if from.is_null() && len > 0 {
            return Err(Code::BadParam);
        }
        // SAFETY: an array of the program; nothing is read when it has no elements.
        let bytes = if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(from, len) } };
        library().send_array(to, tag, bytes)
    })
}

/// `pvm_precv`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_precv(
    source: c_int,
    tag: c_int,
    place: *mut u8,
    count: c_int,
    data_type: c_int,
    from: *mut c_int,
    with_tag: *mut c_int,
    len: *mut c_int,
) -> c_int {
    let code = call("pvm_precv", || {
        let room = array_len(count, data_type)?;
        if place.is_null() && room > 0 {
            return Err(Code::BadParam);
        }
        let into: &mut [u8] = if room == 0 {
            &mut []
        } else {
            // SAFETY: an array of the program.
            unsafe { std::slice::from_raw_parts_mut(place, room) }
        };
        let got = library().receive_array(source, tag, into)?;
        // SAFETY: places of the program, or null.
        unsafe {
            put(from, got.0);
            put(with_tag, got.1);
            put(len, got.2);
        }
        Ok(0)
    });
    show();
    code
}

fn receive(name: &str, step: impl FnOnce() -> Outcome) -> c_int {
    let id = call(name, step);
    show();
    id
}

/// `pvm_recv`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_recv(source: c_int, tag: c_int) -> c_int {
    receive("pvm_recv", || library().receive(source, tag, Wait::Forever))
}

/// `pvm_nrecv`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_nrecv(source: c_int, tag: c_int) -> c_int {
    receive("pvm_nrecv", || library().receive(source, tag, Wait::No))
}

/// `pvm_trecv`; no time: for ever.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_trecv(
    source: c_int,
    tag: c_int,
    time: *const libc::timeval,
) -> c_int {
    receive("pvm_trecv", || {
        // SAFETY: a struct of the program, or null.
        let wait = match unsafe { time.as_ref() } {
            None => Wait::Forever,
            Some(time) => {
                let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
                let micros = Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0));
                match Instant::now().checked_add(seconds.saturating_add(micros)) {
                    Some(_) if (seconds + micros).is_zero() => Wait::No,
                    Some(until) => Wait::Until(until),
                    None => Wait::Forever,
                }
            }
        };
        library().receive(source, tag, wait)
    })
}

/// `pvm_probe`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_probe(source: c_int, tag: c_int) -> c_int {
    receive("pvm_probe", || library().probe(source, tag))
}

/// PVM's own match function, which programs get from `pvm_recvf` and may call.
extern "C" fn default_match(id: c_int, source: c_int, tag: c_int) -> c_int {
    library().match_plainly(id, source, tag)
}

/// `pvm_recvf`.
#[unsafe(no_mangle)]
extern "C" fn pvm_recvf(new: Option<MatchFunction>) -> MatchFunction {
    let own: MatchFunction = default_match;
    let new = new.filter(|new| !std::ptr::fn_addr_eq(*new, own));
    library().set_match(new).unwrap_or(own)
}

/// `pvm_addmhf`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_addmhf(
    source: c_int,
    tag: c_int,
    context: c_int,
    handler: Option<Handler>,
) -> c_int {
    call("pvm_addmhf", || {
        library().add_handler(source, tag, context, handler.ok_or(Code::BadParam)?)
    })
}

/// `pvm_delmhf`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_delmhf(number: c_int) -> c_int {
    call("pvm_delmhf", || library().delete_handler(number))
}

/// `pvm_notify`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_notify(
    what: c_int,
    tag: c_int,
    count: c_int,
    about: *const c_int,
) -> c_int {
    call("pvm_notify", || {
        // A count of hosts that are to join says nothing about the list.
        let list = if about.is_null() { 0 } else { count.max(0) };
        let list = if matches!(what & 0xff, 3 | 4) { 0 } else { list };
        if about.is_null() && count > 0 && !matches!(what & 0xff, 3 | 4) {
            return Err(Code::BadParam);
        }
        // SAFETY: as many ints of the program.
        library().notify(what, tag, count, unsafe { ints(about, list) }?)
    })
}

/// `pvm_getcontext`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_getcontext() -> c_int {
    call("pvm_getcontext", || Ok(library().context()))
}

/// `pvm_setcontext`. Contexts may be negative: they are no codes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_setcontext(context: c_int) -> c_int {
    let before = call("pvm_setcontext", || Ok(library().set_context(context)));
    show();
    before
}

/// `pvm_newcontext`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_newcontext() -> c_int {
    call("pvm_newcontext", || library().new_context())
}

/// `pvm_freecontext`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_freecontext(context: c_int) -> c_int {
    call("pvm_freecontext", || library().free_context(context))
}
