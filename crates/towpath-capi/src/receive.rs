//! Receiving, looking, waiting.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::time::Duration;

use towpath_task::{Arrived, Choice, Message, Received, RecvError};

use crate::code::{Code, Failure};
use crate::given::{self, CWanted, Out, needed, put, timeout, wanted};
use crate::handle::{Done, Handle, Outcome, with};

/// `towpath_received` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CReceived {
    source: u64,
    tag: i64,
    context: u32,
    format: u32,
    len: usize,
}

impl From<Received> for CReceived {
    fn from(r: Received) -> Self {
        let Received { src, tag, context, format, len } = r;
        Self { source: src.to_raw(), tag, context, format, len }
    }
}

/// `towpath_choose` of the header.
type Choose = unsafe extern "C" fn(*mut c_void, *const CReceived, *const c_void) -> i64;

fn hand(message: Option<Message>, out: Out<'_, *mut Message>) -> Outcome {
    let out = needed(out, "the place for the message")?;
    let Some(message) = message else {
        out.write(std::ptr::null_mut());
        return Ok(Done::No);
    };
    out.write(Box::into_raw(Box::new(message)));
    Ok(Done::Yes)
}

pub(crate) const fn yes(is: bool) -> Done {
    if is { Done::Yes } else { Done::No }
}

#[unsafe(no_mangle)]
extern "C" fn towpath_recv(
    handle: Option<&Handle>,
    what: Option<&CWanted>,
    timeout_ns: i64,
    out: Out<'_, *mut Message>,
) -> c_int {
    with(handle, |inner| {
        if out.is_none() {
            return Err(Failure::argument("the place for the message is null"));
        }
        let what = wanted(what)?;
        let got = match timeout(timeout_ns) {
            None => Some(inner.task.recv(&what)?),
            Some(Duration::ZERO) => inner.task.try_recv(&what)?,
            Some(time) => inner.task.recv_timeout(&what, time)?,
        };
        hand(got, out)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_recv_into(
    handle: Option<&Handle>,
    what: Option<&CWanted>,
    bytes: *mut c_void,
    room: usize,
    timeout_ns: i64,
    about: Out<'_, CReceived>,
) -> c_int {
    with(handle, |inner| {
        let what = wanted(what)?;
        // SAFETY: the header asks for room of so many bytes; memory that comes from C holds some
        // bytes, whichever.
        let to = unsafe { given::bytes_mut(bytes, room) }?;
        let got = match timeout(timeout_ns) {
            None => inner.task.recv_into(&what, to).map(Some),
            Some(time) => inner.task.recv_into_timeout(&what, to, time),
        };
        match got {
            Ok(Some(got)) => put(about, got.into()),
            Ok(None) => return Ok(Done::No),
            Err(RecvError::TooLong { len, room }) => {
                if let Some(found) = inner.task.probe(&what)? {
                    put(about, found.into());
                }
                return Err(RecvError::TooLong { len, room }.into());
            }
            Err(e) => return Err(e.into()),
        }
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_probe(
    handle: Option<&Handle>,
    what: Option<&CWanted>,
    about: Out<'_, CReceived>,
) -> c_int {
    with(handle, |inner| {
        let found = inner.task.probe(&wanted(what)?)?;
        if let Some(found) = found {
            put(about, found.into());
        }
        Ok(yes(found.is_some()))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_recv_by(
    handle: Option<&Handle>,
    timeout_ns: i64,
    choose: Option<Choose>,
    data: *mut c_void,
    out: Out<'_, *mut Message>,
) -> c_int {
    with(handle, |inner| {
        let choose = choose.ok_or_else(|| Failure::argument("the function is null"))?;
        if out.is_none() {
            return Err(Failure::argument("the place for the message is null"));
        }
        let mut ask = |waiting: &Arrived<'_>| {
            let about = CReceived::from(waiting.about);
            let bytes = waiting.bytes.as_ptr().cast();
            // SAFETY: the header demands a function that does not unwind; what it is given lives
            // as long as the call.
            match unsafe { choose(data, &raw const about, bytes) } {
                i64::MAX => Choice::Take,
                rank => u32::try_from(rank).map_or(Choice::Skip, Choice::Rank),
            }
        };
        hand(inner.task.recv_by(timeout(timeout_ns), &mut ask)?, out)
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_poll(handle: Option<&Handle>) -> c_int {
    with(handle, |inner| Ok(yes(inner.task.poll()?)))
}

#[unsafe(no_mangle)]
extern "C" fn towpath_wait(handle: Option<&Handle>, timeout_ns: i64) -> c_int {
    with(handle, |inner| Ok(yes(inner.task.wait(timeout(timeout_ns))?)))
}

#[unsafe(no_mangle)]
extern "C" fn towpath_arm(handle: Option<&Handle>) -> c_int {
    with(handle, |inner| Ok(yes(inner.task.arm()?)))
}

#[unsafe(no_mangle)]
extern "C" fn towpath_descriptor(handle: Option<&Handle>) -> c_int {
    let mut fd = 0;
    let code = with(handle, |inner| {
        fd = inner.task.descriptor().as_raw_fd();
        Ok(Done::Yes)
    });
    if code == Code::Ok as c_int { fd } else { code }
}

#[unsafe(no_mangle)]
extern "C" fn towpath_message_about(message: Option<&Message>, out: Out<'_, CReceived>) {
    if let Some(message) = message {
        put(out, message.about().into());
    }
}

#[unsafe(no_mangle)]
extern "C" fn towpath_message_bytes(message: Option<&Message>) -> *const c_void {
    message.map_or(std::ptr::null(), |message| message.bytes().as_ptr().cast())
}

#[unsafe(no_mangle)]
extern "C" fn towpath_message_len(message: Option<&Message>) -> usize {
    message.map_or(0, Message::len)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_message_free(message: *mut Message) {
    if !message.is_null() {
        // SAFETY: the header says that it comes from a receive and is not used any more.
        drop(unsafe { Box::from_raw(message) });
    }
}
