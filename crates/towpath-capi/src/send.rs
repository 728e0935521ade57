//! Sending: plain, in parts, to many, from a loan.

use std::ffi::{c_int, c_void};

use towpath_task::TaskId;

use crate::given::{self, CEnvelope, CPart};
use crate::handle::{Done, Handle, with};

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_send(
    handle: Option<&Handle>,
    to: u64,
    tag: i32,
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
