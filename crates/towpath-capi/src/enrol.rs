//! Enrolment, who one is, and the end.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use towpath_task::{Claim, Task, TaskId};

use crate::code::{Code, Failure};
use crate::given::{self, Out, needed, put};
use crate::handle::{Done, Handle, alone, with};

#[unsafe(no_mangle)]
extern "C" fn towpath_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn towpath_abi() -> u32 {
    0
}

fn finish(
    made: impl FnOnce() -> Result<Task, Failure>,
    out: Out<'_, *mut Handle>,
    why: &mut [MaybeUninit<c_char>],
) -> c_int {
    let mut text = String::new();
    let made = alone(|| {
        let out = needed(out, "the place for the task")?;
        out.write(std::ptr::null_mut());
        out.write(Box::into_raw(Handle::new(made()?)));
        Ok(Done::Yes)
    });
    let code = match made {
        Ok(_) => Code::Ok,
        Err(failure) => {
            text = failure.why;
            failure.code
        }
    };
    if let Some(last) = why.len().checked_sub(1) {
        let mut end = text.len().min(last);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        for (to, from) in why.iter_mut().zip(text.as_bytes()[..end].iter().chain(&[0])) {
            to.write(from.cast_signed() as c_char);
        }
    }
    code as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_enrol(
    out: Out<'_, *mut Handle>,
    why: *mut c_char,
    why_room: usize,
) -> c_int {
    // SAFETY: the header asks for room of so many bytes, or null.
    let why = unsafe { given::room(why, if why.is_null() { 0 } else { why_room }, "why") };
    finish(|| Ok(Task::enrol()?), out, why.unwrap_or_default())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_enrol_at(
    socket: *const c_char,
    claimed: u64,
    cookie: u64,
    out: Out<'_, *mut Handle>,
    why: *mut c_char,
    why_room: usize,
) -> c_int {
    // SAFETY: as above.
    let why = unsafe { given::room(why, if why.is_null() { 0 } else { why_room }, "why") };
    let enrol = || {
        // SAFETY: the header asks for a string.
        let socket = unsafe { given::path(socket) }?;
        let claim = match claimed {
            0 => None,
            raw => Some(Claim { task: given::task_id(raw)?, cookie }),
        };
        Ok(Task::enrol_at(socket, claim)?)
    };
    finish(enrol, out, why.unwrap_or_default())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_leave(handle: *mut Handle) -> c_int {
    if handle.is_null() {
        return Code::Ok as c_int;
    }
    // SAFETY: the header says that it comes from an enrolment and is not used any more.
    let handle = unsafe { Box::from_raw(handle) };
    let left = alone(|| {
        let Some(task) = handle.into_task() else {
            return Err(Failure { code: Code::Panic, why: String::new() });
        };
        task.leave()?;
        Ok(Done::Yes)
    });
    left.map_or_else(|failure| failure.code, |_| Code::Ok) as c_int
}

/// Looks something up in a task; 0 when there is none.
fn look<T: Default>(handle: Option<&Handle>, at: impl FnOnce(&Task) -> T) -> T {
    let mut found = T::default();
    with(handle, |inner| {
        found = at(&inner.task);
        Ok(Done::Yes)
    });
    found
}

#[unsafe(no_mangle)]
extern "C" fn towpath_self(handle: Option<&Handle>) -> u64 {
    look(handle, |task| task.id().to_raw())
}

#[unsafe(no_mangle)]
extern "C" fn towpath_parent(handle: Option<&Handle>) -> u64 {
    look(handle, |task| task.parent().map_or(0, TaskId::to_raw))
}

#[unsafe(no_mangle)]
extern "C" fn towpath_host_of(task: u64) -> u64 {
    TaskId::try_from(task).map_or(0, |task| task.host().to_raw())
}

#[unsafe(no_mangle)]
extern "C" fn towpath_context(handle: Option<&Handle>) -> u32 {
    look(handle, Task::context)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_siblings(
    handle: Option<&Handle>,
    out: *mut u64,
    room: usize,
    count: Out<'_, usize>,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for room of so many ids.
        let out = unsafe { given::room(out, room, "the ids") }?;
        let siblings = inner.task.siblings();
        for (to, id) in out.iter_mut().zip(siblings) {
            to.write(id.to_raw());
        }
        put(count, siblings.len());
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_counter(
    handle: Option<&Handle>,
    name: *const c_char,
    value: Out<'_, u64>,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for a string.
        let name = unsafe { given::name(name, "the counter") }?;
        let counters = inner.task.counters();
        let Some((_, found)) = counters.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = counters.iter().map(|(name, _)| *name).collect();
            let why = format!("no counter {name:?}: there are {}", known.join(", "));
            return Err(Failure { code: Code::NotFound, why });
        };
        put(value, *found);
        Ok(Done::Yes)
    })
}

fn number(found: Option<u32>, out: Out<'_, u32>) -> c_int {
    let Some(found) = found else { return Code::None as c_int };
    put(out, found);
    Code::Ok as c_int
}

#[unsafe(no_mangle)]
extern "C" fn towpath_rank(out: Out<'_, u32>) -> c_int {
    number(Task::rank(), out)
}

#[unsafe(no_mangle)]
extern "C" fn towpath_size(out: Out<'_, u32>) -> c_int {
    number(Task::size(), out)
}
