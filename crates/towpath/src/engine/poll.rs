//! Thin wrappers over `epoll` and `eventfd`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};

/// Watches descriptors, each under a key.
#[derive(Debug)]
pub(super) struct Poll {
    fd: OwnedFd,
}

/// Room for what one wait brings; reused.
pub(super) struct Events(Vec<epoll::Event>);

impl Events {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(256))
    }

    /// What became ready in the last wait.
    pub(super) fn get(&self, index: usize) -> Option<Ready> {
        let event = self.0.get(index)?;
        let flags = event.flags;
        let writable = flags.contains(epoll::EventFlags::OUT);
        Some(Ready { key: event.data.u64(), writable })
    }
}

/// A descriptor that became ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) key: u64,
    pub(super) writable: bool,
}

/// What to report of a descriptor, beside that its other end is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interest {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl Interest {
    pub(super) const NOTHING: Self = Self { read: false, write: false };
    pub(super) const READ: Self = Self { read: true, write: false };

    fn flags(self) -> epoll::EventFlags {
        let read = if self.read { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        let write = if self.write { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
        read | write
    }
}

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { fd })
    }

    pub(super) fn add(&self, fd: impl AsFd, key: u64) -> io::Result<()> {
        self.add_with(fd, key, Interest::READ)
    }

    /// Reports only that `fd` is over: closed at both ends, or given up.
    pub(super) fn add_for_end(&self, fd: impl AsFd, key: u64) -> io::Result<()> {
        self.add_with(fd, key, Interest::NOTHING)
    }

    /// Reports `interest` of `fd`, and that it is over.
    pub(super) fn add_with(&self, fd: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, epoll::EventData::new_u64(key), interest.flags())?)
    }

    /// Whether to report that `fd` can be written, too.
    pub(super) fn set_writable(&self, fd: impl AsFd, key: u64, on: bool) -> io::Result<()> {
        self.set_interest(fd, key, Interest { read: true, write: on })
    }

    /// What to report of `fd` from now on.
    pub(super) fn set_interest(
        &self,
        fd: impl AsFd,
        key: u64,
        interest: Interest,
    ) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, fd, epoll::EventData::new_u64(key), interest.flags())?)
    }

    pub(super) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.fd, fd)?)
    }

    /// Waits until something is ready or `timeout` is over.
    ///
    /// `epoll_wait` knows whole milliseconds only, and rounds up: see [`Poll::doze`].
    pub(super) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(timespec);
        events.0.clear();
        match epoll::wait(&self.fd, spare_capacity(&mut events.0), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// The same for those who cannot wait a millisecond too long; [`Poll::wait`] then says what is
    /// ready.
    pub(super) fn doze(&self, timeout: Duration) -> io::Result<()> {
        let timeout = timespec(timeout);
        match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: time.subsec_nanos().into() }
}

/// Wakes a thread that waits in a [`Poll`].
#[derive(Clone, Debug)]
pub(super) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub(super) fn wake(&self) {
        // Full only when the thread has been woken already.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Takes the wake-up back, once the thread is up.
    pub(super) fn reset(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
