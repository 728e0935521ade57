//! Watches and events.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use towpath_task::{Ending, Event, Stream, Subject, WatchEvent};

use crate::given::{self, Out, needed, put};
use crate::handle::{Done, Handle, Inner, with};

/// `towpath_event` of the header.
#[repr(C)]
pub(crate) struct CEvent {
    kind: u32,
    ending: u32,
    watch: u64,
    task: u64,
    host: u64,
    value: i32,
    reserved: u32,
    bytes: *const c_void,
    len: usize,
}

/// Kinds of events, as in the header.
mod kind {
    pub(super) const TASK_ENDED: u32 = 1;
    pub(super) const HOST_GONE: u32 = 2;
    pub(super) const HOST_ADDED: u32 = 3;
    pub(super) const OUTPUT: u32 = 4;
    pub(super) const END: u32 = 5;
}

/// How a task ended, as in the header.
mod ended {
    pub(super) const UNKNOWN: u32 = 0;
    pub(super) const EXITED: u32 = 1;
    pub(super) const SIGNALLED: u32 = 2;
    pub(super) const TIMED_OUT: u32 = 3;
    pub(super) const NOT_STARTED: u32 = 4;
    pub(super) const HOST_LOST: u32 = 5;
}

const fn ending(ending: Option<&Ending>) -> (u32, i32) {
    match ending {
        None => (ended::UNKNOWN, 0),
        Some(Ending::Exited(status)) => (ended::EXITED, *status),
        Some(Ending::Signalled(signal)) => (ended::SIGNALLED, *signal),
        Some(Ending::TimedOut) => (ended::TIMED_OUT, 0),
        Some(Ending::NotStarted { errno, .. }) => (ended::NOT_STARTED, *errno),
        Some(Ending::HostLost | Ending::Unsure) => (ended::HOST_LOST, 0),
        Some(Ending::Refused(_)) => (ended::NOT_STARTED, 0),
    }
}

/// Writes an event for C; what it points to stays in the handle.
fn describe(inner: &mut Inner) -> CEvent {
    let mut c = CEvent {
        kind: 0,
        ending: 0,
        watch: 0,
        task: 0,
        host: 0,
        value: 0,
        reserved: 0,
        bytes: ptr::null(),
        len: 0,
    };
    let mut text = "";
    match &inner.event {
        Some(Event::Notice { watch, event }) => {
            c.watch = *watch;
            match event {
                WatchEvent::TaskEnded { task, ending: how } => {
                    c.kind = kind::TASK_ENDED;
                    c.task = task.to_raw();
                    c.host = task.host().to_raw();
                    (c.ending, c.value) = ending(how.as_ref());
                }
                WatchEvent::HostGone { host, lost } => {
                    c.kind = kind::HOST_GONE;
                    c.host = host.to_raw();
                    c.value = (*lost).into();
                }
                WatchEvent::HostAdded(host) => {
                    c.kind = kind::HOST_ADDED;
                    c.host = host.id.to_raw();
                    text = &host.name;
                }
            }
        }
        Some(Event::Output { task, stream, bytes }) => {
            c.kind = kind::OUTPUT;
            c.task = task.to_raw();
            c.host = task.host().to_raw();
            c.value = match stream {
                Stream::Out => 1,
                Stream::Err => 2,
            };
            (c.bytes, c.len) = (bytes.as_ptr().cast(), bytes.len());
        }
        Some(Event::End(why)) => {
            c.kind = kind::END;
            text = why;
        }
        None => {}
    }
    if !text.is_empty() {
        inner.event_text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        (c.bytes, c.len) = (inner.event_text.as_ptr().cast(), inner.event_text.as_bytes().len());
    }
    c
}

#[unsafe(no_mangle)]
extern "C" fn towpath_next_event(handle: Option<&Handle>, out: Out<'_, CEvent>) -> c_int {
    with(handle, |inner| {
        let out = needed(out, "the place for the event")?;
        inner.event = inner.task.next_event();
        out.write(describe(inner));
        Ok(if inner.event.is_some() { Done::Yes } else { Done::No })
    })
}

fn watch(
    handle: Option<&Handle>,
    subject: Result<Subject, crate::code::Failure>,
    out: Out<'_, u64>,
) -> c_int {
    with(handle, |inner| {
        put(out, inner.task.watch(subject?)?);
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_watch_task(handle: Option<&Handle>, task: u64, out: Out<'_, u64>) -> c_int {
    watch(handle, given::task_id(task).map(Subject::Task), out)
}

#[unsafe(no_mangle)]
extern "C" fn towpath_watch_host(handle: Option<&Handle>, host: u64, out: Out<'_, u64>) -> c_int {
    watch(handle, given::host_id(host).map(Subject::Host), out)
}

#[unsafe(no_mangle)]
extern "C" fn towpath_watch_new_hosts(handle: Option<&Handle>, out: Out<'_, u64>) -> c_int {
    watch(handle, Ok(Subject::NewHosts), out)
}

#[unsafe(no_mangle)]
extern "C" fn towpath_unwatch(handle: Option<&Handle>, watch: u64) -> c_int {
    with(handle, |inner| {
        inner.task.unwatch(watch)?;
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_catch_output(handle: Option<&Handle>, on: c_int) -> c_int {
    with(handle, |inner| {
        inner.task.catch_output(on != 0)?;
        Ok(Done::Yes)
    })
}

/// The header's text of an ending.
#[unsafe(no_mangle)]
extern "C" fn towpath_ending_text(ending: u32) -> *const c_char {
    let text = match ending {
        ended::EXITED => c"exited",
        ended::SIGNALLED => c"ended by a signal",
        ended::TIMED_OUT => c"ran longer than it may",
        ended::NOT_STARTED => c"could not be started",
        ended::HOST_LOST => c"its host was lost",
        _ => c"ended, nobody knows how",
    };
    text.as_ptr()
}
