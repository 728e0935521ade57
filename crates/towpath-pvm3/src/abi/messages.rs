//! Sending, receiving, matching, handlers, contexts, notices.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use super::entry::{Ints, call, library, show, traced, traced_as};
use super::text::{ints, put};
use crate::code::{Code, Outcome};
use crate::library::{Data, Handler, MatchFunction, Wait};
use crate::message::{Element, Info};
use crate::trace_names::{data, event_number};

/// Length of the send buffer's message.
fn sending() -> c_int {
    library().buffer_info(library().send_buffer()).map_or(0, |(len, ..)| len)
}

/// What a trace tells of a message that came, by its buffer; 0: none did.
fn message_told(id: c_int) -> Data {
    let none = Info { tag: -1, source: -1, context: library().context(), ..Info::default() };
    let (len, _, info) = library().buffer_info(id).unwrap_or((-1, 0, none));
    data![MB: id, MNB: len, MC: info.tag, MCX: info.context, SRC: info.source]
}

/// `pvm_send`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_send(to: c_int, tag: c_int) -> c_int {
    traced(
        event_number!("send"),
        || data![MNB: sending(), DST: to, MC: tag, MCX: library().context()],
        || call("pvm_send", || library().send(to, tag)),
    )
}

/// `pvm_mcast`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_mcast(to: *const c_int, count: c_int, tag: c_int) -> c_int {
    traced(
        event_number!("mcast"),
        || data![MNB: sending(), MC: tag, MCX: library().context(), MDL: Ints(to, count)],
        || {
            call("pvm_mcast", || {
                // SAFETY: as many ints of the program.
                let list = unsafe { ints(to, count.max(0)) }?;
                library().multicast((count >= 0).then_some(list), tag)
            })
        },
    )
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
    let given = || {
        let address = from.cast::<c_void>();
        let context = library().context();
        data![DST: to, MC: tag, MCX: context, PDA: address, PC: count, PDT: data_type]
    };
    traced(event_number!("psend"), given, || {
        call("pvm_psend", || {
            let len = array_len(count, data_type)?;
            if from.is_null() && len > 0 {
                return Err(Code::BadParam);
            }
            let bytes = if len == 0 {
                &[]
            } else {
                // SAFETY: an array of the program.
                unsafe { std::slice::from_raw_parts(from, len) }
            };
            library().send_array(to, tag, bytes)
        })
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
    let given = || {
        let address = place.cast::<c_void>().cast_const();
        let context = library().context();
        data![RST: source, RMC: tag, RCX: context, PDA: address, PC: count, PDT: data_type]
    };
    let seen = Cell::new((-1, -1, -1));
    let came = |code| {
        let ((source, tag, len), context) = (seen.get(), library().context());
        data![CC: code, MNB: len, MC: tag, MCX: context, SRC: source]
    };
    traced_as(event_number!("precv"), given, came, || {
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
            seen.set(got);
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
    })
}

fn receive(name: &str, step: impl FnOnce() -> Outcome) -> c_int {
    let id = call(name, step);
    show();
    id
}

/// `pvm_recv`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_recv(source: c_int, tag: c_int) -> c_int {
    traced_as(
        event_number!("recv"),
        || data![RST: source, RMC: tag, RCX: library().context()],
        message_told,
        || receive("pvm_recv", || library().receive(source, tag, Wait::Forever)),
    )
}

/// `pvm_nrecv`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_nrecv(source: c_int, tag: c_int) -> c_int {
    traced_as(
        event_number!("nrecv"),
        || data![RST: source, RMC: tag, RCX: library().context()],
        message_told,
        || receive("pvm_nrecv", || library().receive(source, tag, Wait::No)),
    )
}

/// `pvm_trecv`; no time: for ever.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_trecv(
    source: c_int,
    tag: c_int,
    time: *const libc::timeval,
) -> c_int {
    let given = || {
        // SAFETY: a struct of the program, or null.
        let given = unsafe { time.as_ref() };
        let (seconds, micros) = given.map_or((-1, -1), |time| (time.tv_sec, time.tv_usec));
        let (seconds, micros, context) = (seconds as i32, micros as i32, library().context());
        data![RST: source, RMC: tag, RCX: context, MTS: seconds, MTU: micros]
    };
    traced_as(event_number!("trecv"), given, message_told, || {
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
    })
}

/// `pvm_probe`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_probe(source: c_int, tag: c_int) -> c_int {
    traced(
        event_number!("probe"),
        || data![RST: source, RMC: tag, RCX: library().context()],
        || receive("pvm_probe", || library().probe(source, tag)),
    )
}

/// PVM's own match function, which programs get from `pvm_recvf` and may call.
extern "C" fn default_match(id: c_int, source: c_int, tag: c_int) -> c_int {
    library().match_plainly(id, source, tag)
}

/// `pvm_recvf`.
#[unsafe(no_mangle)]
extern "C" fn pvm_recvf(new: Option<MatchFunction>) -> MatchFunction {
    traced_as(
        event_number!("recvf"),
        Vec::new,
        |_| Vec::new(),
        || {
            let own: MatchFunction = default_match;
            let new = new.filter(|new| !std::ptr::fn_addr_eq(*new, own));
            library().set_match(new).unwrap_or(own)
        },
    )
}

/// The handler of messages that nobody is called for: PVM takes a null pointer, too (and ends with
/// the first message).
unsafe extern "C" fn drop_message(_: c_int) -> c_int {
    0
}

/// `pvm_addmhf`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_addmhf(
    source: c_int,
    tag: c_int,
    context: c_int,
    handler: Option<Handler>,
) -> c_int {
    traced_as(
        event_number!("addmhf"),
        || data![RST: source, RMC: tag, RCX: context],
        |number| data![MHI: number],
        || {
            call("pvm_addmhf", || {
                library().add_handler(source, tag, context, handler.unwrap_or(drop_message))
            })
        },
    )
}

/// `pvm_delmhf`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_delmhf(number: c_int) -> c_int {
    traced(
        event_number!("delmhf"),
        || data![MHI: number],
        || call("pvm_delmhf", || library().delete_handler(number)),
    )
}

/// `pvm_notify`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_notify(
    what: c_int,
    tag: c_int,
    count: c_int,
    about: *const c_int,
) -> c_int {
    traced(
        event_number!("notify"),
        || data![NE: what, NMC: tag, NTL: Ints(about, count)],
        || {
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
        },
    )
}

/// `pvm_getcontext`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_getcontext() -> c_int {
    traced_as(
        event_number!("getcontext"),
        Vec::new,
        |context| data![CXC: context],
        || {
            let context = call("pvm_getcontext", || Ok(library().context_of_task()));
            show();
            context
        },
    )
}

/// `pvm_setcontext`. Contexts may be negative: they are no codes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_setcontext(context: c_int) -> c_int {
    traced(
        event_number!("setcontext"),
        || data![CXS: context],
        || {
            let before = call("pvm_setcontext", || Ok(library().set_context_of_task(context)));
            show();
            before
        },
    )
}

/// `pvm_newcontext`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_newcontext() -> c_int {
    traced_as(
        event_number!("newcontext"),
        Vec::new,
        |context| data![CXN: context],
        || call("pvm_newcontext", || library().new_context()),
    )
}

/// `pvm_freecontext`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pvm_freecontext(context: c_int) -> c_int {
    traced(
        event_number!("freecontext"),
        || data![CXF: context],
        || call("pvm_freecontext", || library().free_context(context)),
    )
}
