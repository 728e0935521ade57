//! Opaque handles. Each has one user at a time, and no panic leaves it.

use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use towpath_task::{Event, Task};

use crate::code::{Code, Failure};

/// `towpath_task` of the header.
pub(crate) struct Handle {
    /// Somebody is inside.
    busy: AtomicBool,
    inner: UnsafeCell<Inner>,
}

/// What a task's handle holds.
pub(crate) struct Inner {
    pub(crate) task: Task,
    /// Why the last call failed.
    why: CString,
    /// Keeps what `towpath_next_event` pointed to.
    pub(crate) event: Option<Event>,
    /// Keeps a text that `towpath_next_event` pointed to.
    pub(crate) event_text: CString,
    /// A call panicked: nobody knows what state the task is in.
    broken: bool,
}

/// What a call says in the end: nothing there in time, or done.
pub(crate) enum Done {
    Yes,
    No,
}

pub(crate) type Outcome = Result<Done, Failure>;

fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

impl Handle {
    pub(crate) fn new(task: Task) -> Box<Self> {
        let inner = Inner {
            task,
            why: CString::default(),
            event: None,
            event_text: CString::default(),
            broken: false,
        };
        Box::new(Self { busy: AtomicBool::new(false), inner: UnsafeCell::new(inner) })
    }

    pub(crate) fn into_task(self: Box<Self>) -> Option<Task> {
        let inner = self.inner.into_inner();
        // A task that a panic went through is only dropped, and that with care.
        if inner.broken {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(inner)));
            return None;
        }
        Some(inner.task)
    }
}

/// Runs `call` in a task's handle.
pub(crate) fn with(handle: Option<&Handle>, call: impl FnOnce(&mut Inner) -> Outcome) -> c_int {
    let Some(handle) = handle else { return Code::Argument as c_int };
    if handle.busy.swap(true, Ordering::Acquire) {
        return Code::Busy as c_int;
    }
    // SAFETY: `busy` was false and is ours now, so that no other reference exists until it is
    // given back below.
    let inner = unsafe { &mut *handle.inner.get() };
    let code = inner.run(call);
    handle.busy.store(false, Ordering::Release);
    code as c_int
}

/// Runs `call` with a task and something else of C's.
///
/// # Safety
/// `other` is null or a thing that nobody else uses.
pub(crate) unsafe fn both<T>(
    handle: Option<&Handle>,
    other: *mut T,
    what: &str,
    call: impl FnOnce(&mut Inner, &mut T) -> Outcome,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: null, or from a function that makes such things, as the header demands.
        let other = unsafe { other.as_mut() };
        call(inner, other.ok_or_else(|| Failure::argument(format!("the {what} is null")))?)
    })
}

impl Inner {
    fn run(&mut self, call: impl FnOnce(&mut Self) -> Outcome) -> Code {
        if self.broken {
            return Code::Panic;
        }
        let failure = match catch_unwind(AssertUnwindSafe(|| call(self))) {
            Ok(Ok(Done::Yes)) => return Code::Ok,
            Ok(Ok(Done::No)) => return Code::None,
            Ok(Err(failure)) => failure,
            Err(_) => {
                self.broken = true;
                Failure { code: Code::Panic, why: "a fault of the library itself".into() }
            }
        };
        self.why = c_text(&failure.why);
        failure.code
    }
}

/// Runs `call`, which needs no task; a panic is an error like others.
pub(crate) fn alone(call: impl FnOnce() -> Outcome) -> Result<Done, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        Err(Failure { code: Code::Panic, why: "a fault of the library itself".into() })
    })
}

/// The text of a code, by number.
#[unsafe(no_mangle)]
extern "C" fn towpath_strerror(code: c_int) -> *const c_char {
    Code::of(code).map_or(c"no such code", Code::text).as_ptr()
}

/// Why the last call on this handle failed; empty when none did.
#[unsafe(no_mangle)]
extern "C" fn towpath_error(handle: Option<&Handle>) -> *const c_char {
    let Some(handle) = handle else { return c"no handle".as_ptr() };
    if handle.busy.swap(true, Ordering::Acquire) {
        return Code::Busy.text().as_ptr();
    }
    // SAFETY: as in `with`. The text lives until the next call that fails, as the header says.
    let why: *const CStr = unsafe { (*handle.inner.get()).why.as_c_str() };
    handle.busy.store(false, Ordering::Release);
    why.cast()
}
