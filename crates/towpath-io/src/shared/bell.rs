//! What wakes a task: an `eventfd` that neighbours write and its owner's `epoll` watches.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, fcntl_dupfd_cloexec, read, write};
use rustix::process::{Resource, getrlimit};

/// A task's bell. Its owner never reads it: each ring is an edge that `epoll` reports once.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A new one.
    ///
    /// # Errors
    /// Whatever the kernel says, as where there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes its owner.
    ///
    /// # Errors
    /// Whatever the kernel says: somebody closed the descriptor under us.
    pub fn ring(&self) -> io::Result<()> {
        let one = 1_u64.to_ne_bytes();
        match write(&self.0, &one) {
            // A count at its end takes no more: only somebody's mistake brings it there. Reading
            // sets it to zero.
            Err(Errno::AGAIN) => {
                let _ = read(&self.0, &mut [0; 8]);
                write(&self.0, &one)?;
            }
            rung => drop(rung?),
        }
        Ok(())
    }
}

impl From<OwnedFd> for Bell {
    /// A bell that came from elsewhere; the descriptor is an `eventfd` that does not block.
    fn from(fd: OwnedFd) -> Self {
        Self(aside(fd))
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How many numbers from the end of the table on are ours.
const TOP: u64 = 1024;
/// Descriptors numbered below this are a program's own.
const BOTTOM: u64 = 64;

/// The same descriptor with a number near the end of the table (`RLIMIT_NOFILE`), away from those
/// that programs close in a loop or expect to get next; as it was where there is no such number.
pub fn aside(fd: OwnedFd) -> OwnedFd {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20).min(1 << 20);
    let from = limit.saturating_sub(TOP).max(limit / 2).max(BOTTOM);
    let high = i32::try_from(from).ok().and_then(|from| fcntl_dupfd_cloexec(&fd, from).ok());
    high.unwrap_or(fd)
}
