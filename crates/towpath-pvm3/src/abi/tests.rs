//! The exported functions, called as programs call them, in a machine of this process.

use std::ffi::{CStr, CString, c_char, c_int, c_long};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::entry::library;
use crate::code::Code;
use crate::data::{pvm_errno, pvmautoerr, pvmdebmask, pvmmyctx, pvmmytid, pvmtrc};
use crate::library::{Handler, MatchFunction, Trace};
use crate::message::DSIG;
use crate::vm::fake::World;

#[rustfmt::skip]
unsafe extern "C" {
    fn pvm_mytid() -> c_int;
    fn pvm_parent() -> c_int;
    fn pvm_exit() -> c_int;
    fn pvm_kill(tid: c_int) -> c_int;
    fn pvm_sendsig(tid: c_int, signal: c_int) -> c_int;
    fn pvm_pstat(tid: c_int) -> c_int;
    fn pvm_getopt(what: c_int) -> c_int;
    fn pvm_setopt(what: c_int, value: c_int) -> c_int;
    fn pvm_version() -> *const c_char;
    fn pvm_reg_hoster() -> c_int;
    fn pvm_reg_tasker() -> c_int;
    fn pvm_export(name: *const c_char) -> c_int;
    fn pvm_unexport(name: *const c_char) -> c_int;
    fn pvm_tidtohost(tid: c_int) -> c_int;
    fn pvm_halt() -> c_int;
    fn pvm_mkbuf(encoding: c_int) -> c_int;
    fn pvm_initsend(encoding: c_int) -> c_int;
    fn pvm_freebuf(id: c_int) -> c_int;
    fn pvm_setsbuf(id: c_int) -> c_int;
    fn pvm_setrbuf(id: c_int) -> c_int;
    fn pvm_getsbuf() -> c_int;
    fn pvm_getrbuf() -> c_int;
    fn pvm_pkmesg(id: c_int) -> c_int;
    fn pvm_pkmesgbody(id: c_int) -> c_int;
    fn pvm_upkmesg() -> c_int;
    fn pvm_pkint(ints: *mut c_int, count: c_int, step: c_int) -> c_int;
    fn pvm_upkint(ints: *mut c_int, count: c_int, step: c_int) -> c_int;
    fn pvm_pklong(longs: *mut c_long, count: c_int, step: c_int) -> c_int;
    fn pvm_send(to: c_int, tag: c_int) -> c_int;
    fn pvm_psend(to: c_int, tag: c_int, from: *mut u8, count: c_int, kind: c_int) -> c_int;
    fn pvm_recv(source: c_int, tag: c_int) -> c_int;
    fn pvm_nrecv(source: c_int, tag: c_int) -> c_int;
    fn pvm_probe(source: c_int, tag: c_int) -> c_int;
    fn pvm_recvf(new: Option<MatchFunction>) -> MatchFunction;
    fn pvm_addmhf(source: c_int, tag: c_int, context: c_int, handler: Option<Handler>) -> c_int;
    fn pvm_delmhf(number: c_int) -> c_int;
    fn pvm_getcontext() -> c_int;
    fn pvm_setcontext(context: c_int) -> c_int;
    fn pvm_newcontext() -> c_int;
    fn pvm_freecontext(context: c_int) -> c_int;
    fn pvm_joingroup(group: *const c_char) -> c_int;
    fn pvm_getinst(group: *const c_char, tid: c_int) -> c_int;
    fn pvm_strerror() -> *const c_char;
    fn pvm_perror(what: *const c_char) -> c_int;
    fn pvmsleep(seconds: c_int) -> c_int;
    fn pvmbeatask() -> c_int;
    fn pvmendtask() -> c_int;
    fn pvmgetrsh() -> *const c_char;
    fn pvmgettmp() -> *const c_char;
    fn pvmgetdsig() -> c_int;
    fn gs_getgstid() -> c_int;
}

/// `call!(f(args))`: as a program calls it.
macro_rules! call {
    ($($call:tt)*) => {
        // SAFETY: places and strings of the test, which outlive the call.
        unsafe { $($call)* }
    };
}

const BAD_PARAM: c_int = -2;

/// The library of this process, for one test at a time.
struct Alone {
    world: World,
    _alone: MutexGuard<'static, ()>,
}

fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::default();
    world.enter();
    // What fails here is not said.
    pvmautoerr.store(0, Relaxed);
    Alone { world, _alone: alone }
}

impl Drop for Alone {
    fn drop(&mut self) {
        call!(pvm_exit());
        call!(pvm_setcontext_outside(0));
        pvmautoerr.store(1, Relaxed);
        pvm_errno.store(0, Relaxed);
    }
}

/// Goes into a context without becoming a task.
unsafe fn pvm_setcontext_outside(context: c_int) {
    library().set_context(context);
    super::entry::show();
}

fn text(text: *const c_char) -> String {
    // SAFETY: a C string of the library.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

#[test]
fn a_process_is_a_task_from_its_first_call_on() {
    let alone = alone();
    assert_eq!(pvmmytid.load(Relaxed), -1);
    assert_eq!(super::entry::speaker().to_string(), format!("libpvm [pid{}]", std::process::id()));
    let me = call!(pvm_mytid());
    assert_eq!((me & 0x3ffc_0000, pvmmytid.load(Relaxed)), (1 << 18, me));
    assert_eq!(super::entry::speaker().to_string(), format!("libpvm [t{me:x}]"));
    // Answers are no failures: the number of the last one stays.
    pvm_errno.store(-77, Relaxed);
    assert_eq!(call!(pvm_parent()), Code::NoParent.number());
    assert_eq!((call!(pvm_pstat(me)), call!(pvm_pstat(me + 1))), (0, Code::NoTask.number()));
    assert_eq!(pvm_errno.load(Relaxed), -77);
    assert_eq!((call!(pvm_pstat(0)), pvm_errno.load(Relaxed)), (BAD_PARAM, BAD_PARAM));
    assert_eq!(call!(text(pvm_strerror())), "Bad parameter".to_owned());
    assert_eq!((call!(pvm_sendsig(me, 10)), call!(pvm_kill(me))), (0, 0));
    assert_eq!(alone.world.signals(), [(me, 10), (me, 15)]);
    assert_eq!((call!(pvm_kill(0)), call!(pvm_sendsig(0, 1))), (BAD_PARAM, BAD_PARAM));
    assert_eq!(call!(pvm_tidtohost(me)), 1 << 18);
    assert_eq!((call!(pvm_halt()), call!(pvm_exit())), (0, 0));
    assert_eq!(pvmmytid.load(Relaxed), -1);
    assert_eq!((call!(pvmbeatask()), pvmmytid.load(Relaxed) > 0), (0, true));
    assert_eq!((call!(pvmendtask()), pvmmytid.load(Relaxed)), (0, -1));
}

#[test]
fn options_are_shown_in_the_librarys_variables() {
    let _alone = alone();
    pvmautoerr.store(1, Relaxed);
    assert_eq!((call!(pvm_getopt(3)), call!(pvm_setopt(3, 0))), (1, 1));
    assert_eq!((call!(pvm_getopt(3)), pvmautoerr.load(Relaxed)), (0, 0));
    assert_eq!(call!(pvm_getopt(2)), 0);
    assert_eq!((call!(pvm_setopt(2, 9)), call!(pvm_getopt(2))), (0, 9));
    assert_eq!(pvmdebmask.load(Relaxed), 9);
    assert_eq!(call!(pvm_setopt(16, 4000)), 0);
    // SAFETY: a struct that only tests with `alone` touch.
    let shown = unsafe { (&raw const pvmtrc).cast::<Trace>().read() };
    assert_eq!(shown.buffer, 4000);
    assert_eq!((call!(pvm_setopt(99, 1)), call!(pvm_getopt(99))), (BAD_PARAM, BAD_PARAM));
    assert_eq!((call!(pvm_setopt(2, 0)), call!(pvm_setopt(16, 0))), (9, 4000));
    assert_eq!(call!(text(pvm_version())), "3.4.6");
    assert_eq!((call!(pvmgetdsig()), call!(gs_getgstid())), (DSIG, Code::SysErr.number()));
    assert_eq!(call!(pvmsleep(-1)), 0);
}

#[test]
fn roles_are_taken_and_left() {
    let _alone = alone();
    let role = |name: &str| library().mailboxes(name).unwrap().len();
    for (take, name) in [
        (pvm_reg_hoster as unsafe extern "C" fn() -> c_int, "###_PVM_HOSTER_###"),
        (pvm_reg_tasker, "###_PVM_TASKER_###"),
    ] {
        assert_eq!((role(name), call!(take())), (0, 0));
        assert_eq!((role(name), call!(take())), (1, 0));
        assert_eq!(role(name), 0);
    }
}

#[test]
fn buffers_have_numbers() {
    let _alone = alone();
    let first = call!(pvm_initsend(0));
    assert!(first > 0);
    assert_eq!((call!(pvm_getsbuf()), call!(pvm_getrbuf())), (first, 0));
    let second = call!(pvm_mkbuf(0));
    assert!(second > 0 && second != first);
    assert_eq!((call!(pvm_setsbuf(second)), call!(pvm_getsbuf())), (first, second));
    let mut ints = [7, 8, 9];
    assert_eq!(call!(pvm_pkint(ints.as_mut_ptr(), 2, 2)), 0);
    assert_eq!(call!(pvm_setsbuf(first)), second);
    assert_eq!((call!(pvm_pkmesg(second)), call!(pvm_pkmesgbody(second))), (0, 0));
    let no_buffer = Code::NoSuchBuf.number();
    assert_eq!((call!(pvm_pkmesg(99)), call!(pvm_pkmesgbody(99))), (no_buffer, no_buffer));
    assert_eq!((call!(pvm_setrbuf(first)), call!(pvm_getrbuf())), (0, first));
    let nested = call!(pvm_upkmesg());
    assert!(nested > 0 && nested != first && nested != second);
    assert_eq!(call!(pvm_setrbuf(nested)), first);
    let mut came = [0; 2];
    assert_eq!(call!(pvm_upkint(came.as_mut_ptr(), 2, 1)), 0);
    assert_eq!(came, [7, 9]);
    assert_eq!(call!(pvm_upkint(came.as_mut_ptr(), 1, 1)), Code::NoData.number());
    let mut large = [c_long::MAX];
    call!(pvm_initsend(0));
    assert_eq!(call!(pvm_pklong(large.as_mut_ptr(), 1, 1)), Code::Overflow.number());
    for id in [first, second, nested] {
        call!(pvm_freebuf(id));
        assert_eq!(call!(pvm_freebuf(id)), no_buffer);
    }
    assert_eq!(call!(pvm_freebuf(0)), 0);
}

unsafe extern "C" fn any(_: c_int, _: c_int, _: c_int) -> c_int {
    1
}

unsafe extern "C" fn noted(id: c_int) -> c_int {
    id
}

#[test]
fn messages_go_and_come() {
    let _alone = alone();
    let me = call!(pvm_mytid());
    call!(pvm_initsend(0));
    assert_eq!((call!(pvm_send(me, 5)), call!(pvm_send(0, 5))), (0, BAD_PARAM));
    assert_eq!((call!(pvm_probe(-1, 6)), call!(pvm_nrecv(-1, 6))), (0, 0));
    let probed = call!(pvm_probe(me, 5));
    assert!(probed > 0);
    let own = call!(pvm_recvf(None));
    assert_eq!((call!(own(probed, me, 5)), call!(own(probed, me, 6))), (1, 0));
    assert_eq!(call!(own(99, me, 5)), Code::NoSuchBuf.number());
    assert_eq!(call!(pvm_recv(me, 5)), probed);
    assert!(std::ptr::fn_addr_eq(call!(pvm_recvf(Some(any))), own));
    call!(pvm_send(me, 8));
    assert!(call!(pvm_recv(me, 99)) > 0, "the function takes any");
    // To set PVM's own is to set none.
    assert!(std::ptr::fn_addr_eq(call!(pvm_recvf(Some(own))), any as MatchFunction));
    call!(pvm_send(me, 8));
    assert_eq!(call!(pvm_nrecv(me, 99)), 0);
    assert!(call!(pvm_nrecv(me, 8)) > 0);
    assert_eq!(call!(pvm_addmhf(-1, 77, -1, Some(noted))), 9);
    assert_eq!(call!(pvm_addmhf(-1, 77, -1, None)), Code::Exists.number());
    assert_eq!((call!(pvm_delmhf(9)), call!(pvm_delmhf(9))), (0, Code::NotFound.number()));
    let (mut out, mut into) = ([1_u8, 2, 3, 4, 5, 6, 7, 8], [0_u8; 8]);
    let (mut from, mut tag, mut len) = (0, 0, 0);
    // Two ints: PVM_INT is 3.
    assert_eq!(call!(pvm_psend(me, 3, out.as_mut_ptr(), 2, 3)), 0);
    let (places, values) = ((&raw mut from, &raw mut tag, &raw mut len), into.as_mut_ptr());
    assert_eq!(call!(super::pvm_precv(me, 3, values, 2, 3, places.0, places.1, places.2)), 0);
    assert_eq!((into, from, tag, len), (out, me, 3, 8));
    assert_eq!(call!(pvm_psend(me, 3, null_mut(), -1, 3)), 0);
    assert_eq!(
        call!(super::pvm_precv(me, 3, null_mut(), 0, 3, null_mut(), null_mut(), places.2)),
        0
    );
    assert_eq!(len, 0);
    assert_eq!(call!(pvm_psend(me, 3, out.as_mut_ptr(), 1, 99)), BAD_PARAM);
}

#[test]
fn contexts_are_shown_and_a_program_may_set_the_variable() {
    let _alone = alone();
    assert_eq!((call!(pvm_getcontext()), pvmmyctx.load(Relaxed)), (0, 0));
    assert_eq!((call!(pvm_setcontext(-5)), pvmmyctx.load(Relaxed)), (0, -5));
    assert_eq!(call!(pvm_getcontext()), -5);
    pvmmyctx.store(7, Relaxed);
    assert_eq!(call!(pvm_mytid()), pvmmytid.load(Relaxed));
    assert_eq!((library().context(), pvmmyctx.load(Relaxed)), (7, 7));
    let new = call!(pvm_newcontext());
    assert_eq!((new, call!(pvm_freecontext(new))), (0x4_0001, 0));
    assert_eq!(call!(pvm_freecontext(new)), Code::NotFound.number());
    assert_eq!((call!(pvm_setcontext(0)), pvmmyctx.load(Relaxed)), (7, 0));
}

#[test]
fn group_calls_fail_in_silence_with_the_number_kept() {
    let _alone = alone();
    assert_eq!((call!(pvm_joingroup(null())), pvm_errno.load(Relaxed)), (-17, -17));
    assert_eq!(call!(pvm_joingroup(c"g".as_ptr())), 0);
    let me = call!(pvm_mytid());
    assert_eq!(call!(pvm_getinst(c"g".as_ptr(), me)), 0);
    let in_group = call!(pvm_getinst(c"g".as_ptr(), 5));
    assert_eq!((in_group, pvm_errno.load(Relaxed)), (Code::NotInGroup.number(), in_group));
}

#[test]
fn names_are_exported_once_and_taken_back() {
    // The environment belongs to all threads.
    if what_to_do().is_none() {
        let output = apart("names_are_exported_once_and_taken_back", "export");
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let export = || std::env::var("PVM_EXPORT").unwrap_or_default();
    let name = |name: &str| CString::new(name).unwrap();
    for (given, names) in [("A", "A"), ("B", "A:B"), ("A", "A:B"), ("", "A:B"), ("AB", "A:B:AB")] {
        assert_eq!((call!(pvm_export(name(given).as_ptr())), export()), (0, names.into()));
    }
    for (given, names) in [("B", "A:AB"), ("Z", "A:AB"), ("", "A:AB"), ("A", "AB"), ("AB", "")] {
        assert_eq!((call!(pvm_unexport(name(given).as_ptr())), export()), (0, names.into()));
    }
    assert_eq!(call!(text(pvmgetrsh())), std::env::var("PVM_RSH").unwrap_or("/usr/bin/ssh".into()));
    assert_eq!(call!(text(pvmgettmp())), std::env::var("PVM_TMP").unwrap_or("/tmp".into()));
}

/// Runs the test `name` of this module in a process of its own, in which `what` is to be done.
fn apart(name: &str, what: &str) -> Output {
    let mut own = Command::new(std::env::current_exe().unwrap());
    own.args(["--exact", "--nocapture", &format!("abi::tests::{name}")]).env("APART", what);
    own.output().unwrap()
}

/// What is to be done here, where this is such a process.
fn what_to_do() -> Option<String> {
    std::env::var("APART").ok()
}

#[test]
fn failures_are_told_as_the_program_wants() {
    if let Some(mode) = what_to_do() {
        World::default().enter();
        call!(pvm_mytid());
        call!(pvm_setopt(3, mode.parse().unwrap()));
        assert_eq!(call!(pvm_kill(0)), BAD_PARAM);
        call!(pvm_perror(c"this".as_ptr()));
        call!(pvm_perror(null()));
        call!(pvm_exit());
        call!(pvm_perror(c"outside".as_ptr()));
        return;
    }
    let own = "failures_are_told_as_the_program_wants";
    let said = |output: &Output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.lines().filter(|line| line.starts_with("libpvm")).collect::<Vec<_>>().join("\n")
    };
    let silent = apart(own, "0");
    let told = said(&silent);
    let lines: Vec<&str> = told.lines().collect();
    let tail = ["libpvm [t40001]: this: Bad parameter", "libpvm [t40001]: (null): Bad parameter"];
    assert_eq!((lines.len(), &lines[..2]), (3, &tail[..]), "{told}");
    assert!(lines[2].starts_with("libpvm [pid") && lines[2].ends_with("]: outside: Bad parameter"));
    assert!(silent.status.success());
    let spoken = apart(own, "1");
    let told = said(&spoken);
    let first = "libpvm [t40001]: pvm_sendsig(): Bad parameter\n\
                 libpvm [t40001]: pvm_kill(): Bad parameter\n";
    assert!(told.starts_with(first) && told.lines().count() == 5, "{told}");
    assert!(spoken.status.success());
    let left = apart(own, "2");
    assert_eq!(said(&left), first.lines().next().unwrap());
    assert_eq!(left.status.code(), Some(254), "the code, as an exit status");
    let aborted = apart(own, "3");
    assert_eq!(said(&aborted), first.lines().next().unwrap());
    assert_eq!(aborted.status.signal(), Some(6));
}

#[test]
fn long_words_are_written_whole() {
    let long: String = (0..3000_u32).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
    if what_to_do().is_some() {
        for len in [0, 1, 1023, 1024, 1025, 3000] {
            crate::complaint::complain(format_args!("<{}|{}>\n", &long[..len], len));
        }
        return;
    }
    let output = apart("long_words_are_written_whole", "say");
    let said = String::from_utf8(output.stderr).unwrap();
    let expected: Vec<String> =
        [0, 1, 1023, 1024, 1025, 3000].map(|len| format!("<{}|{len}>", &long[..len])).into();
    let said: Vec<&str> = said.lines().filter(|line| line.starts_with('<')).collect();
    assert_eq!(said, expected);
}

#[test]
fn a_forked_process_is_no_task() {
    let _alone = alone();
    let me = call!(pvm_mytid());
    // SAFETY: the child leaves at once, by numbers that were there before.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_none = pvmmytid.load(Relaxed) == -1;
        // SAFETY: ends the child without anything of this test's.
        unsafe { libc::_exit(i32::from(is_none)) };
    }
    let mut status = 0;
    // SAFETY: a child of ours, and a place.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(libc::WEXITSTATUS(status), 1);
    assert_eq!((pvmmytid.load(Relaxed), call!(pvm_mytid())), (me, me));
}
