//! Sending: plain, in parts, to many, from a loan.

use std::ffi::{c_int, c_void};

use towpath_task::{Loan, Route, TaskId};

use crate::code::{Code, Failure};
use crate::given::{self, CEnvelope, CPart, Out, needed};
use crate::handle::{Done, Handle, with};

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_send(
    handle: Option<&Handle>,
    to: u64,
    tag: i64,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for so many bytes.
        let bytes = unsafe { given::bytes(bytes, len) }?;
        inner.task.send(given::task_id(to)?, tag, bytes)?;
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_send_parts(
    handle: Option<&Handle>,
    to: u64,
    envelope: Option<&CEnvelope>,
    parts: *const CPart,
    count: usize,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for so many parts, each with its bytes.
        let parts = unsafe { given::parts(parts, count) }?;
        inner.task.send_parts(given::task_id(to)?, given::envelope(envelope), &parts)?;
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_multicast(
    handle: Option<&Handle>,
    to: *const u64,
    to_count: usize,
    envelope: Option<&CEnvelope>,
    parts: *const CPart,
    count: usize,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for so many ids and parts.
        let (to, parts) =
            unsafe { (given::slice(to, to_count, "the receivers")?, given::parts(parts, count)?) };
        let to = to.iter().map(|raw| given::task_id(*raw));
        let to = to.collect::<Result<Vec<TaskId>, _>>()?;
        inner.task.multicast(&to, given::envelope(envelope), &parts)?;
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_loan_new(
    handle: Option<&Handle>,
    len: usize,
    out: Out<'_, *mut Loan>,
) -> c_int {
    with(handle, |inner| {
        let out = needed(out, "the place for the loan")?;
        out.write(std::ptr::null_mut());
        if isize::try_from(len).is_err() {
            return Err(Failure::argument(format!("a loan of {len} bytes")));
        }
        out.write(Box::into_raw(Box::new(inner.task.loan(len)?)));
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_loan_bytes(loan: Option<&mut Loan>) -> *mut c_void {
    loan.map_or(std::ptr::null_mut(), |loan| loan.as_mut_ptr().cast())
}

#[unsafe(no_mangle)]
extern "C" fn towpath_loan_len(loan: Option<&Loan>) -> usize {
    loan.map_or(0, |loan| loan.len())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_send_loan(
    handle: Option<&Handle>,
    to: u64,
    envelope: Option<&CEnvelope>,
    loan: *mut Loan,
) -> c_int {
    if loan.is_null() {
        return Code::Argument as c_int;
    }
    // SAFETY: the header says that it comes from `towpath_loan_new` and is gone with this call.
    let loan = unsafe { Box::from_raw(loan) };
    with(handle, |inner| {
        inner.task.send_loan(given::task_id(to)?, given::envelope(envelope), *loan)?;
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_loan_free(loan: *mut Loan) {
    if !loan.is_null() {
        // SAFETY: the header says that it comes from `towpath_loan_new` and is not used any more.
        drop(unsafe { Box::from_raw(loan) });
    }
}

#[unsafe(no_mangle)]
extern "C" fn towpath_route(handle: Option<&Handle>, to: u64) -> c_int {
    let mut way = 0;
    let code = with(handle, |inner| {
        way = match inner.task.route(given::task_id(to)?) {
            Route::Own => 0,
            Route::Daemon => 1,
            Route::Ring => 2,
            Route::Stream => 3,
        };
        Ok(Done::Yes)
    });
    if code == Code::Ok as c_int { way } else { code }
}

#[unsafe(no_mangle)]
extern "C" fn towpath_allow_direct(handle: Option<&Handle>, on: c_int) -> c_int {
    with(handle, |inner| {
        inner.task.allow_direct(on != 0);
        Ok(Done::Yes)
    })
}
