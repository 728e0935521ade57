//! What every exported function does first and last.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32};

use super::text::{bytes, ints, texts};
use crate::code::{self, Code, Outcome};
use crate::complaint::complain;
use crate::data::{pvm_errno, pvmautoerr, pvmmyctx, pvmmytid};
use crate::library::{Data, Inside, Library, Moment, Traced, Value, now};
use crate::trace_names::data;
use crate::vm::connect;

/// Longest row of which a trace event tells.
const TOLD_MAX: c_int = 4096;

/// The task that this process is, or can become.
static LIBRARY: Library = Library::new(connect);
/// The context that `pvmmyctx` showed last: a program that set the variable shows another.
static SHOWN: AtomicI32 = AtomicI32::new(0);
/// The program has asked for the descriptor.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// The task that this process is.
pub(crate) fn library() -> &'static Library {
    static FORK: Once = Once::new();
    FORK.call_once(|| {
        // SAFETY: registers a function of ours; when there is no memory for it, a child of a
        // fork finds the connection closed to it.
        unsafe { libc::pthread_atfork(Some(before_fork), None, Some(forked)) };
    });
    &LIBRARY
}

extern "C" fn before_fork() {
    LIBRARY.before_fork();
}

extern "C" fn forked() {
    LIBRARY.forked();
    pvmmytid.store(-1, Relaxed);
}

/// Tells the task's tracer, if it has one, of a call: `given` when it begins, and when it has ended
/// the code. Calls inside of calls are not told of.
pub(crate) fn traced(
    event: usize,
    given: impl FnOnce() -> Data,
    call: impl FnOnce() -> c_int,
) -> c_int {
    traced_as(event, given, |code| data![CC: code], call)
}

/// As [`traced`]; `came` is told when the call has ended.
pub(super) fn traced_as<R: Copy>(
    event: usize,
    given: impl FnOnce() -> Data,
    came: impl FnOnce(R) -> Data,
    call: impl FnOnce() -> R,
) -> R {
    match LIBRARY.traced() {
        Traced::No => call(),
        was => told(event, was, given, came, call),
    }
}

#[cold]
fn told<R: Copy>(
    event: usize,
    was: Traced,
    given: impl FnOnce() -> Data,
    came: impl FnOnce(R) -> Data,
    call: impl FnOnce() -> R,
) -> R {
    let library = library();
    let Some(_inside) = Inside::enter() else { return call() };
    let (mut began, given) = (now(), given());
    if was == Traced::Yes {
        library.trace(event, Moment::Entry, began, &given);
    }
    let code = call();
    if library.traced() == Traced::Yes {
        if was != Traced::Yes {
            // The call itself brought the task into the virtual machine.
            began = now();
            library.trace(event, Moment::Entry, began, &given);
        }
        library.trace(event, Moment::Exit, began, &came(code));
    }
    code
}

/// A string of the program, as traces tell it.
pub(crate) struct Text(pub(crate) *const c_char);

impl From<Text> for Value {
    fn from(text: Text) -> Self {
        // SAFETY: made of C strings of the program only, which are there during its call.
        Self::Text(unsafe { bytes(text.0) }.to_vec())
    }
}

/// As many ints of the program.
pub(super) struct Ints(pub(super) *const c_int, pub(super) c_int);

impl From<Ints> for Value {
    fn from(Ints(list, count): Ints) -> Self {
        // SAFETY: made of lists of the program only, which are there during its call.
        Self::Ints(unsafe { ints(list, count.clamp(0, TOLD_MAX)) }.unwrap_or_default().to_vec())
    }
}

/// As many strings of the program.
pub(super) struct Texts(pub(super) *const *const c_char, pub(super) c_int);

impl From<Texts> for Value {
    fn from(Texts(list, count): Texts) -> Self {
        // SAFETY: made of lists of the program only, which are there during its call.
        let texts = unsafe { texts(list, count.clamp(0, TOLD_MAX)) }.unwrap_or_default();
        Self::Texts(texts.into_iter().map(String::into_bytes).collect())
    }
}

/// A call: gives what the program sees. A failure is reported as `PvmAutoErr` says.
pub(crate) fn call(name: &str, step: impl FnOnce() -> Outcome) -> c_int {
    call_quietly(name, &[], step)
}

/// A call of which some failures are no mistakes: they are not reported.
pub(crate) fn call_quietly(name: &str, expected: &[Code], step: impl FnOnce() -> Outcome) -> c_int {
    match guarded(step) {
        Ok(value) => value,
        Err(code) if expected.contains(&code) => {
            pvm_errno.store(code.number(), Relaxed);
            code.number()
        }
        Err(code) => report(name, code.number()),
    }
}

/// A call of which some codes are answers: nothing has failed, and `pvm_errno` stays as it is.
pub(super) fn call_for_answer(
    name: &str,
    answers: &[Code],
    step: impl FnOnce() -> Outcome,
) -> c_int {
    let answered = |code| if answers.contains(&code) { Ok(code.number()) } else { Err(code) };
    call(name, || step().or_else(answered))
}

/// Runs a step of which a panic must not get out.
pub(crate) fn guarded(step: impl FnOnce() -> Outcome) -> Outcome {
    let library = library();
    // Before anything that takes memory, which what is interrupted here may be taking, too.
    if library.is_amid() {
        return Err(Code::NotImpl);
    }
    let whole = || {
        let context = pvmmyctx.load(Relaxed);
        if context != SHOWN.load(Relaxed) {
            library.set_context(context);
            SHOWN.store(context, Relaxed);
        }
        let outcome = step();
        library.handle();
        if WATCHED.load(Relaxed) {
            library.arm();
        }
        outcome
    };
    // What is thrown on purpose is a code.
    let thrown = |what: Box<dyn Any + Send>| what.downcast_ref().copied().unwrap_or(Code::SysErr);
    catch_unwind(AssertUnwindSafe(whole)).unwrap_or_else(|what| Err(thrown(what)))
}

/// The program has the descriptor from now on, and may wait for it between calls.
pub(super) fn watch() {
    WATCHED.store(true, Relaxed);
}

/// Brings the variables up to date, after calls that may change them.
pub(crate) fn show() {
    // In the middle of a step there is nothing to show.
    let Ok((tid, context)) = library().shown() else { return };
    pvmmytid.store(tid, Relaxed);
    pvmmyctx.store(context, Relaxed);
    SHOWN.store(context, Relaxed);
}

/// PVM's `lpvmerr`.
pub(crate) fn report(name: &str, number: c_int) -> c_int {
    pvm_errno.store(number, Relaxed);
    let mode = pvmautoerr.load(Relaxed);
    if mode == 0 {
        return number;
    }
    print_error(format_args!("{name}()"), number);
    if mode == 3 {
        std::process::abort();
    }
    if mode == 2 {
        pvmautoerr.store(1, Relaxed);
        let _ = guarded(|| library().exit());
        // SAFETY: ends the process as C programs do, which flushes their output.
        unsafe { libc::exit(number) };
    }
    number
}

/// Who speaks, as PVM writes it.
pub(crate) struct Speaker(i32);

pub(crate) fn speaker() -> Speaker {
    Speaker(library().tid_now())
}

impl fmt::Display for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            -1 => write!(f, "libpvm [pid{}]", std::process::id()),
            tid => write!(f, "libpvm [t{tid:x}]"),
        }
    }
}

fn print_error(what: fmt::Arguments<'_>, number: c_int) {
    let text = code::text(number).to_string_lossy();
    complain(format_args!("{}: {what}: {text}\n", speaker()));
}

/// `pvm_perror`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvm_perror(what: *const c_char) -> c_int {
    let what = if what.is_null() {
        "(null)".into()
    } else {
        // SAFETY: a C string of the program.
        unsafe { CStr::from_ptr(what) }.to_string_lossy()
    };
    print_error(format_args!("{what}"), pvm_errno.load(Relaxed));
    0
}

/// `pvm_strerror`.
#[unsafe(no_mangle)]
extern "C" fn pvm_strerror() -> *const c_char {
    code::text(pvm_errno.load(Relaxed)).as_ptr()
}

/// PVM's own: reports a failure.
#[unsafe(no_mangle)]
unsafe extern "C" fn lpvmerr(name: *const c_char, number: c_int) -> c_int {
    // SAFETY: a C string of the program.
    let name = unsafe { super::text::text(name) };
    report(&name, number)
}
