//! Channels of a task's own.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use towpath_task::{Channel, ChannelSpec, ChannelStatus, Class, Code as Parity, Reserve, Until};

use crate::code::{Code, Failure};
use crate::given::{self, Out, needed, put, task_id, timeout};
use crate::handle::{Done, Handle, Inner, with};

/// `towpath_channel_spec` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CSpec {
    class: u32,
    priority: u32,
    window: u32,
    reserve_bytes: u32,
    deadline_ns: i64,
    reserve_every_ns: i64,
    reserve_within_ns: i64,
    reserve_burst: u32,
    reserve_until: u32,
}

/// `towpath_channel_status` of the header.
#[repr(C)]
pub(crate) struct CStatus {
    peer: u64,
    sent: u64,
    bytes_sent: u64,
    abandoned: u64,
    late: u64,
    repaired: u64,
    received: u64,
    bytes_received: u64,
    waiting: u64,
    rtt_ns: i64,
    promised_ns: i64,
    took_p50_ns: i64,
    took_p99_ns: i64,
    took_most_ns: i64,
}

/// Classes by number, as in the header.
const CLASSES: [Class; 4] = [Class::Ordered, Class::Unordered, Class::Timely, Class::Once];

/// Until when a reservation counts, by number, as in the header.
const UNTIL: [Until; 2] = [Until::Left, Until::Arrived];

/// Nanoseconds; none: for ever.
fn nanos(time: Option<Duration>) -> i64 {
    time.map_or(-1, |t| i64::try_from(t.as_nanos()).unwrap_or(i64::MAX))
}

impl CSpec {
    fn spec(&self) -> Result<ChannelSpec, Failure> {
        // TOWPATH_CODED and TOWPATH_CODED_ADAPTIVE of the header are added to the class.
        let [class, packets, parities, adaptive] = self.class.to_le_bytes();
        let class = CLASSES.get(usize::from(class)).copied().ok_or_else(|| {
            Failure::argument(format!("class {class}, from 0 to {}", CLASSES.len() - 1))
        })?;
        if adaptive > 1 {
            return Err(Failure::argument(format!("class {:#x} says nothing", self.class)));
        }
        let code = (packets, parities, adaptive) != (0, 0, 0);
        let code = code.then_some(Parity { packets, parities, adaptive: adaptive == 1 });
        let priority = u8::try_from(self.priority).unwrap_or(u8::MAX);
        let deadline = timeout(self.deadline_ns);
        let reserve = (self.reserve_bytes > 0).then(|| self.reserve()).transpose()?;
        Ok(ChannelSpec { class, priority, deadline, window: self.window, reserve, code })
    }

    fn reserve(&self) -> Result<Reserve, Failure> {
        // What is below nothing is nothing, which is refused.
        let time = |ns: i64| Duration::from_nanos(u64::try_from(ns).unwrap_or(0));
        let until = UNTIL.get(self.reserve_until as usize).copied().ok_or_else(|| Failure {
            code: Code::Argument,
            why: format!(
                "{} is none of TOWPATH_LEFT (0) and TOWPATH_ARRIVED (1)",
                self.reserve_until
            ),
        })?;
        Ok(Reserve {
            until,
            bytes: self.reserve_bytes,
            every: time(self.reserve_every_ns),
            burst: self.reserve_burst,
            within: time(self.reserve_within_ns),
        })
    }
}

impl From<ChannelSpec> for CSpec {
    fn from(spec: ChannelSpec) -> Self {
        let class = CLASSES.iter().position(|class| *class == spec.class).unwrap_or(0) as u8;
        Self {
            class: u32::from_le_bytes(spec.code.map_or([class, 0, 0, 0], |code| {
                [class, code.packets, code.parities, code.adaptive.into()]
            })),
            priority: spec.priority.into(),
            window: spec.window,
            reserve_bytes: spec.reserve.map_or(0, |r| r.bytes),
            deadline_ns: nanos(spec.deadline),
            reserve_every_ns: spec.reserve.map_or(0, |r| nanos(Some(r.every))),
            reserve_within_ns: spec.reserve.map_or(0, |r| nanos(Some(r.within))),
            reserve_burst: spec.reserve.map_or(0, |r| r.burst),
            reserve_until: spec.reserve.map_or(0, |r| r.until as u32),
        }
    }
}

impl From<ChannelStatus> for CStatus {
    fn from(status: ChannelStatus) -> Self {
        Self {
            peer: status.peer.to_raw(),
            sent: status.sent,
            bytes_sent: status.bytes_sent,
            abandoned: status.abandoned,
            late: status.late,
            repaired: status.repaired,
            received: status.received,
            bytes_received: status.bytes_received,
            waiting: status.waiting,
            rtt_ns: nanos(status.rtt),
            promised_ns: nanos(status.promised),
            took_p50_ns: nanos(status.took.map(|t| t.p50)),
            took_p99_ns: nanos(status.took.map(|t| t.p99)),
            took_most_ns: nanos(status.took.map(|t| t.most)),
        }
    }
}

fn named(inner: &Inner, number: u32) -> Result<Channel, Failure> {
    inner.task.channel(number).ok_or_else(|| Failure {
        code: Code::NotFound,
        why: format!("this task has no channel {number}"),
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_channel_usual(out: Out<'_, CSpec>) {
    put(out, ChannelSpec::default().into());
}

#[unsafe(no_mangle)]
extern "C" fn towpath_open_channel(
    handle: Option<&Handle>,
    to: u64,
    spec: Option<&CSpec>,
    timeout_ns: i64,
    channel: Out<'_, u32>,
) -> c_int {
    with(handle, |inner| {
        let out = needed(channel, "the place for the channel")?;
        let spec = spec.map_or_else(|| Ok(ChannelSpec::default()), CSpec::spec)?;
        let to = task_id(to)?;
        let opened = match timeout(timeout_ns) {
            None => Some(inner.task.open_channel(to, &spec)?),
            Some(time) => inner.task.open_channel_within(to, &spec, time)?,
        };
        let Some(opened) = opened else { return Ok(Done::No) };
        out.write(opened.number());
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_accept_channel(
    handle: Option<&Handle>,
    timeout_ns: i64,
    channel: Out<'_, u32>,
    from: Out<'_, u64>,
    spec: Out<'_, CSpec>,
) -> c_int {
    with(handle, |inner| {
        let out = needed(channel, "the place for the channel")?;
        let Some((channel, said)) = inner.task.accept_channel(timeout(timeout_ns))? else {
            return Ok(Done::No);
        };
        out.write(channel.number());
        put(from, channel.peer().to_raw());
        put(spec, said.into());
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_send_on(
    handle: Option<&Handle>,
    channel: u32,
    bytes: *const c_void,
    len: usize,
    within_ns: i64,
) -> c_int {
    with(handle, |inner| {
        let channel = named(inner, channel)?;
        // SAFETY: the header asks for so many bytes.
        let bytes = unsafe { given::bytes(bytes, len) }?;
        match timeout(within_ns) {
            None => inner.task.send_on(channel, bytes)?,
            Some(left) => inner.task.send_on_within(channel, bytes, left)?,
        }
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_try_send_on(
    handle: Option<&Handle>,
    channel: u32,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    with(handle, |inner| {
        let channel = named(inner, channel)?;
        // SAFETY: the header asks for so many bytes.
        let bytes = unsafe { given::bytes(bytes, len) }?;
        Ok(if inner.task.try_send_on(channel, bytes)? { Done::Yes } else { Done::No })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_recv_on(
    handle: Option<&Handle>,
    channel: u32,
    bytes: *mut c_void,
    room: usize,
    timeout_ns: i64,
    len: Out<'_, usize>,
) -> c_int {
    with(handle, |inner| {
        let channel = named(inner, channel)?;
        // SAFETY: the header asks for room of so many bytes; memory that comes from C holds some
        // bytes, whichever.
        let to = unsafe { given::bytes_mut(bytes, room) }?;
        match inner.task.recv_on_into(channel, to, timeout(timeout_ns)) {
            Ok(Some(got)) => put(len, got),
            Ok(None) => return Ok(Done::No),
            Err(e) => {
                if let towpath_task::ChannelError::NoRoom { len: found, .. } = e {
                    put(len, found);
                }
                return Err(e.into());
            }
        }
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_channel_look(
    handle: Option<&Handle>,
    channel: u32,
    out: Out<'_, CStatus>,
) -> c_int {
    with(handle, |inner| {
        let channel = named(inner, channel)?;
        put(out, inner.task.channel_status(channel)?.into());
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn towpath_close_channel(handle: Option<&Handle>, channel: u32) -> c_int {
    with(handle, |inner| {
        let channel = named(inner, channel)?;
        inner.task.close_channel(channel)?;
        Ok(Done::Yes)
    })
}
