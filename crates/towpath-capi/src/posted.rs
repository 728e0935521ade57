//! Receives that are posted, and sends that are started.

use std::ffi::{c_int, c_void};

use towpath_task::plain::TypeCode;
use towpath_task::started::{Cancelled, Operation, Room};
use towpath_task::{Pattern, PendingReceive, PendingSend, Received, RecvError};

use crate::code::{Code, Failure};
use crate::given::{self, CEnvelope, Out, needed, put, timeout};
use crate::handle::{Done, Handle, with};
use crate::receive::CReceived;
use crate::value;

/// `towpath_pattern` of the header.
#[repr(C)]
pub(crate) struct CPattern {
    source: u64,
    bits: u64,
    mask: u64,
    context: u32,
    context_mask: u32,
}

/// Memory of C's that a message is to go into.
pub(crate) struct Memory {
    start: *mut u8,
    len: usize,
    code: Option<TypeCode>,
}

// SAFETY: the header says that the memory is the library's while it has this.
unsafe impl Send for Memory {}

impl Room for Memory {
    fn fill(&mut self, about: &Received, bytes: &[u8]) -> Result<(), RecvError> {
        let turned = match self.code {
            Some(code) => value::check(code, about)?,
            None => false,
        };
        if bytes.len() > self.len {
            return Err(RecvError::TooLong { len: bytes.len(), room: self.len });
        }
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: not null and this long, as was checked when it was posted; the rest is what the
        // header demands.
        let to = unsafe { std::slice::from_raw_parts_mut(self.start, bytes.len()) };
        to.copy_from_slice(bytes);
        if let Some(code) = self.code.filter(|_| turned) {
            to.chunks_exact_mut(code.number_bytes()).for_each(<[u8]>::reverse);
        }
        Ok(())
    }
}

type Posted = PendingReceive<Memory>;

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_post(
    handle: Option<&Handle>,
    pattern: Option<&CPattern>,
    element: u32,
    room: *mut c_void,
    len: usize,
    out: Out<'_, *mut Posted>,
) -> c_int {
    with(handle, |inner| {
        let out = needed(out, "the place for what is posted")?;
        out.write(std::ptr::null_mut());
        let pattern = pattern.ok_or_else(|| Failure::argument("the pattern is null"))?;
        let source = if pattern.source == 0 { None } else { Some(given::task_id(pattern.source)?) };
        let pattern = Pattern::masked(source, pattern.bits, pattern.mask)
            .contexts(pattern.context, pattern.context_mask);
        // SAFETY: the header asks for room of so many bytes; only the checks are done here.
        unsafe { given::room(room.cast::<u8>(), len, "the message's memory") }?;
        let memory = Memory { start: room.cast(), len, code: value::code(element)? };
        let posted = inner.task.start_recv(pattern, memory)?;
        out.write(Box::into_raw(Box::new(posted)));
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_finish_posted(
    handle: Option<&Handle>,
    posted: Option<&mut *mut Posted>,
    timeout_ns: i64,
    about: Out<'_, CReceived>,
) -> c_int {
    with(handle, |inner| {
        let place = posted.ok_or_else(|| Failure::argument("what is posted is null"))?;
        // SAFETY: null, or from `towpath_post`, as the header demands.
        let posted = unsafe { place.as_ref() };
        let posted = posted.ok_or_else(|| Failure::argument("what is posted is null"))?;
        if !inner.task.wait_started(posted, timeout(timeout_ns))? {
            return Ok(Done::No);
        }
        // SAFETY: not null, and gone with this call.
        let posted = unsafe { Box::from_raw(std::mem::replace(place, std::ptr::null_mut())) };
        let (_, received) = inner.task.finish_recv(*posted)?;
        put(about, received.into());
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_wait_posted(
    handle: Option<&Handle>,
    posted: *const *const Posted,
    count: usize,
    timeout_ns: i64,
    which: Out<'_, usize>,
) -> c_int {
    with(handle, |inner| {
        // SAFETY: the header asks for so many of them.
        let posted = unsafe { given::slice(posted, count, "what is posted") }?;
        // SAFETY: null, or from `towpath_post`, as the header demands.
        let each = posted.iter().map(|posted| unsafe { posted.as_ref() });
        let each: Option<Vec<&Operation>> = each.map(|posted| posted.map(AsRef::as_ref)).collect();
        let each = each.ok_or_else(|| Failure::argument("what is posted is null"))?;
        let Some(first) = inner.task.wait_any(&each, timeout(timeout_ns))? else {
            return Ok(Done::No);
        };
        put(which, first);
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_cancel_posted(
    handle: Option<&Handle>,
    posted: *mut Posted,
    about: Out<'_, CReceived>,
) -> c_int {
    if posted.is_null() {
        return Code::Argument as c_int;
    }
    // SAFETY: the header says that it comes from `towpath_post` and is gone with this call.
    let posted = unsafe { Box::from_raw(posted) };
    with(handle, |inner| match inner.task.cancel_recv(*posted)? {
        Cancelled::Back(_) => Ok(Done::Yes),
        Cancelled::Came(_, received) => {
            put(about, received.into());
            Ok(Done::No)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_start_send(
    handle: Option<&Handle>,
    to: u64,
    envelope: Option<&CEnvelope>,
    bytes: *const c_void,
    len: usize,
    out: Out<'_, *mut PendingSend>,
) -> c_int {
    with(handle, |inner| {
        let out = needed(out, "the place for the send")?;
        out.write(std::ptr::null_mut());
        // SAFETY: the header asks for so many bytes.
        let bytes = unsafe { given::bytes(bytes, len) }?;
        let (to, envelope) = (given::task_id(to)?, given::envelope(envelope));
        let sending = inner.task.start_send_bytes(to, envelope, bytes)?;
        out.write(Box::into_raw(Box::new(sending)));
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_finish_send(
    handle: Option<&Handle>,
    sending: Option<&mut *mut PendingSend>,
    timeout_ns: i64,
) -> c_int {
    with(handle, |inner| {
        let place = sending.ok_or_else(|| Failure::argument("the send is null"))?;
        // SAFETY: null, or from `towpath_start_send`, as the header demands.
        let sending = unsafe { place.as_ref() };
        let sending = sending.ok_or_else(|| Failure::argument("the send is null"))?;
        if !inner.task.wait_started(sending, timeout(timeout_ns))? {
            return Ok(Done::No);
        }
        // SAFETY: not null, and gone with this call.
        let sending = unsafe { Box::from_raw(std::mem::replace(place, std::ptr::null_mut())) };
        inner.task.finish_send(*sending)?;
        Ok(Done::Yes)
    })
}
