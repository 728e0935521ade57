//! The handle of a task, its enrolment and its end.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::IoSlice;
use std::path::Path;

use rustix::event::PollFlags;
use rustix::process::getpid;
use towpath_io::shared::{Bell, Home, Interest, Origin, Waiter};
use towpath_vm::endpoint::Endpoint;
use towpath_vm::talk::{Claim, Enrol, TALK_VERSION, ToDaemon, ToTask, Welcome, decode, encode};
use towpath_wire::talk::FrameKind;
use towpath_wire::{HostId, TaskId};

use crate::error::{EnrolError, Lost, SendError};
use crate::link::{Got, Link};
use crate::message::Far;
use crate::parts::channels::Channels;
use crate::parts::directs::Counts;
use crate::parts::directs::Directs;
use crate::parts::ends::Ends;
use crate::parts::news::News;
use crate::parts::questions::Questions;
use crate::parts::routes::Routes;
use crate::parts::sending::Sending;
use crate::parts::yields::Yields;
use crate::place;
use crate::rings::Rings;
use crate::started::Started;
use crate::streams::LEAVE_PATIENCE;

/// A task may be handed to another thread; what it gave out may be dropped in any, at any time. C
/// programs and bindings of other languages do both.
const _: () = {
    const fn may_be_handed_on<T: Send>() {}
    const fn may_be_dropped_anywhere<T: Send + Sync>() {}
    may_be_handed_on::<Task>();
    may_be_dropped_anywhere::<crate::Message>();
    may_be_dropped_anywhere::<crate::Pending>();
    may_be_dropped_anywhere::<towpath_vm::collective::Output>();
};

/// Key of the socket among what is waited for.
pub(crate) const SOCKET: u64 = 1;
/// Bytes of messages that nobody has received yet, unless `TOWPATH_UNEXPECTED_MAX` says
/// otherwise.
const UNEXPECTED_MAX: u64 = 1 << 30;

/// A task: this process' part in the virtual machine.
///
/// Everything happens inside its calls: there is no thread. A call that waits takes in what
/// comes meanwhile. After a `fork`, the child's calls all fail with [`Lost::Forked`]; it may
/// enrol anew. It must not look at messages that its parent received, nor drop them: they stand in
/// pages that it has not.
///
/// ```no_run
/// use towpath_task::{Task, Wanted};
/// let mut task = Task::enrol()?;
/// let own = task.id();
/// task.send(own, 7, b"to myself")?;
/// let message = task.recv(&Wanted { source: None, tag: Some(7), context: 0 })?;
/// assert_eq!(message.bytes(), b"to myself");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Task {
    pub(crate) link: Link,
    pub(crate) welcome: Welcome,
    pub(crate) endpoint: Endpoint<Far>,
    /// Most bytes of private memory for messages that nobody has received yet.
    pub(crate) held_max: u64,
    pub(crate) news: News,
    pub(crate) channels: Channels,
    pub(crate) questions: Questions,
    /// The number of the next call to another task.
    pub(crate) next_call: i32,
    /// Set once: why nothing works any more.
    pub(crate) lost: Option<Lost>,
    /// Its own segment; none: everything goes by the daemons.
    pub(crate) home: Option<Home>,
    pub(crate) rings: Rings,
    pub(crate) directs: Directs,
    pub(crate) routes: Routes,
    pub(crate) sending: Sending,
    pub(crate) started: Started,
    pub(crate) waits: Waits,
    pub(crate) counts: Counts,
    origin: Origin,
    /// Of tasks that teams depend on.
    pub(crate) ends: Ends,
}

/// How a task waits. Invariant: `armed` implies `attention`.
pub(crate) struct Waits {
    /// Whom the next message is expected from.
    pub(crate) awaited: Option<TaskId>,
    /// Sleeps until the bell rings or a descriptor has something.
    pub(crate) waiter: Option<Waiter>,
    /// Looks since the kernel was asked what descriptors have.
    pub(crate) looks: u32,
    /// The card says that this task sleeps, for a program that waits on its own
    /// ([`Task::arm`]).
    pub(crate) armed: bool,
    /// A receive has something to do before it looks for its message ([`Task::attends`]): so that
    /// it costs one question to find out that there is nothing, as there mostly is.
    pub(crate) attention: bool,
    pub(crate) yields: Yields,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("id", &self.welcome.you).finish_non_exhaustive()
    }
}

/// A number that nobody can guess, for the tables that senders' tags go into.
fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The segment and the bell that come with a welcome; none: everything goes by the daemons.
fn segment(link: &mut Link, welcome: &Welcome) -> Option<(Home, Waiter)> {
    if welcome.segment_bytes == 0 {
        return None;
    }
    let (segment, bell) = (link.descriptor()?, link.descriptor()?);
    let home = Home::open(segment).ok()?;
    if let Some(max) = place::number("TOWPATH_ARENA_MAX") {
        home.arena().set_limit(usize::try_from(max).unwrap_or(usize::MAX));
    }
    let waiter = Waiter::new(Bell::from(bell)).ok()?;
    let read = Interest { readable: true, writable: false };
    waiter.watch(&*link, SOCKET, read).ok()?;
    Some((home, waiter))
}

impl Task {
    /// Becomes a task: the one that a daemon started this process as, else a new one at the
    /// daemon of `TOWPATH_VM` on this machine.
    pub fn enrol() -> Result<Self, EnrolError> {
        let claim = place::claim()?;
        Self::enrol_at(&place::socket()?, claim)
    }

    /// Becomes a task at the daemon with this socket for tasks.
    pub fn enrol_at(socket: &Path, claim: Option<Claim>) -> Result<Self, EnrolError> {
        let why = |why| EnrolError::System { what: "marking the process", why };
        let origin = Origin::mark().map_err(why)?;
        let connect = Link::connect(socket);
        let mut link =
            connect.map_err(|why| EnrolError::Connect { path: socket.to_path_buf(), why })?;
        let pid = getpid().as_raw_nonzero().get().cast_unsigned();
        let command = std::env::args_os().next().unwrap_or_default();
        let command = command.to_string_lossy().into_owned();
        let enrol = ToDaemon::Enrol(Enrol { version: TALK_VERSION, claim, pid, command });
        link.queue(&encode(&enrol, Vec::new()));
        let first = link.take_queued();
        let mut done = 0;
        while done < first.len() {
            // One that closes at once may have said why.
            let Ok(n) = link.write(&[IoSlice::new(&first)], done) else { break };
            done += n;
        }
        let welcome = loop {
            if let Some((FrameKind::Control, body)) = link.next_frame()? {
                match decode(link.body(body)) {
                    Ok(ToTask::Welcome(welcome)) => break welcome,
                    Ok(ToTask::Refused(why)) => return Err(EnrolError::Refused(why)),
                    _ => return Err(Lost::Daemon("it speaks another language".into()).into()),
                }
            }
            if link.read()? == Got::Nothing {
                link.wait(PollFlags::IN, None)?;
            }
        };
        let (home, waiter) = segment(&mut link, &welcome).unzip();
        let mut endpoint = Endpoint::new(seed());
        for host in &welcome.ask_first {
            endpoint.ask_first(*host, true);
        }
        Ok(Self {
            link,
            welcome,
            endpoint,
            held_max: place::number("TOWPATH_UNEXPECTED_MAX").unwrap_or(UNEXPECTED_MAX),
            news: News::default(),
            channels: Channels::default(),
            questions: Questions::default(),
            next_call: 0,
            lost: None,
            home,
            rings: Rings::default(),
            directs: Directs::default(),
            routes: Routes::default(),
            sending: Sending::default(),
            started: Started::default(),
            waits: Waits {
                awaited: None,
                waiter,
                looks: 0,
                armed: false,
                attention: false,
                yields: Yields::default(),
            },
            counts: Counts::default(),
            origin,
            ends: Ends::default(),
        })
    }

    /// Who this task is.
    pub const fn id(&self) -> TaskId {
        self.welcome.you
    }

    /// The host that it runs on.
    pub const fn host(&self) -> HostId {
        self.welcome.you.host()
    }

    /// The task that spawned it.
    pub const fn parent(&self) -> Option<TaskId> {
        self.welcome.parent
    }

    /// All that were spawned with it, itself included; empty when no task spawned it.
    pub fn siblings(&self) -> &[TaskId] {
        &self.welcome.siblings
    }

    /// The context that its spawner chose for it to begin with.
    pub const fn context(&self) -> u32 {
        self.welcome.context
    }

    /// Its place among the tasks of one `towpath run -n` (`TOWPATH_RANK`).
    pub fn rank() -> Option<u32> {
        place::number("TOWPATH_RANK").and_then(|n| u32::try_from(n).ok())
    }

    /// The name of its `towpath run`, which no other has (`TOWPATH_JOB`): for groups and mailboxes,
    /// whose names are known in the whole virtual machine.
    pub fn job() -> Option<String> {
        std::env::var("TOWPATH_JOB").ok().filter(|job| !job.is_empty())
    }

    /// How many tasks its `towpath run -n` started (`TOWPATH_SIZE`).
    pub fn size() -> Option<u32> {
        place::number("TOWPATH_SIZE").and_then(|n| u32::try_from(n).ok())
    }

    /// Leaves the virtual machine; the process goes on. What was sent before is delivered: by
    /// streams that broke, too, unless a receiver takes nothing for 10 s
    /// ([`SendError::Undelivered`]). What comes meanwhile is taken in without a limit.
    pub fn leave(mut self) -> Result<(), SendError> {
        self.check()?;
        let settled = self.settle_streams(LEAVE_PATIENCE);
        self.say(&ToDaemon::Leave)?;
        settled
    }

    /// An error when this process is not the one that enrolled: it must not touch shared pages.
    #[inline]
    pub(crate) fn check_origin(&mut self) -> Result<(), Lost> {
        if self.origin.is_here() { Ok(()) } else { Err(self.why_lost()) }
    }

    /// An error when this process is not the one that enrolled, or the daemon is gone.
    #[inline]
    pub(crate) fn check(&mut self) -> Result<(), Lost> {
        if self.works() { Ok(()) } else { Err(self.why_lost()) }
    }

    /// Whether [`Task::check`] finds nothing.
    #[inline]
    pub(crate) fn works(&self) -> bool {
        self.origin.is_here() && self.lost.is_none()
    }

    #[cold]
    #[inline(never)]
    fn why_lost(&mut self) -> Lost {
        self.lose(Lost::Forked)
    }

    /// Queues a control frame.
    pub(crate) fn queue(&mut self, say: &ToDaemon) {
        self.link.queue(&encode(say, Vec::new()));
    }

    /// Sends a control frame.
    pub(crate) fn say(&mut self, say: &ToDaemon) -> Result<(), Lost> {
        self.queue(say);
        self.flush()
    }

    /// Writes the queued control frames.
    pub(crate) fn flush(&mut self) -> Result<(), Lost> {
        self.queue_untold();
        while self.link.has_queued() {
            let frames = self.link.take_queued();
            self.write_whole(&[IoSlice::new(&frames)], frames.len())?;
            self.link.recycle(frames);
        }
        Ok(())
    }

    /// Writes `len` bytes in all; while the socket does not take them, takes in what comes.
    pub(crate) fn write_whole(&mut self, slices: &[IoSlice<'_>], len: usize) -> Result<(), Lost> {
        let mut done = 0;
        loop {
            done += self.link.write(slices, done).map_err(|lost| self.lose(lost))?;
            if done >= len {
                return Ok(());
            }
            self.take_in()?;
            let read = if self.full().is_none() { PollFlags::IN } else { PollFlags::empty() };
            self.link.wait(read | PollFlags::OUT, None).map_err(|lost| self.lose(lost))?;
        }
    }

    /// Remembers that nothing works any more.
    pub(crate) fn lose(&mut self, lost: Lost) -> Lost {
        self.lost.get_or_insert(lost).clone()
    }
}

impl Drop for Task {
    /// What was sent is delivered, as [`Task::leave`] says, as far as that is possible without the
    /// daemon.
    fn drop(&mut self) {
        if !self.origin.is_here() {
            // A forked child does not have its parent's shared pages: what would give blocks
            // back there is left alone.
            std::mem::forget(std::mem::replace(&mut self.endpoint, Endpoint::new(0)));
            std::mem::forget(std::mem::take(&mut self.rings));
            std::mem::forget(self.home.take());
            return;
        }
        if !self.link.is_ours() {
            // The program has closed all descriptors: what has these numbers now is not ours to
            // close.
            self.link.leak();
            std::mem::forget(self.waits.waiter.take());
            std::mem::forget(std::mem::take(&mut self.rings));
            std::mem::forget(std::mem::take(&mut self.routes));
            return;
        }
        if self.check().is_ok() {
            let _ = self.settle_streams(LEAVE_PATIENCE);
        }
    }
}
