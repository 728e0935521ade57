//! What wakes a task: an `eventfd` that neighbours write and its owner's `epoll` watches.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};

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
    pub fn ring(&self) {
        let one = 1_u64.to_ne_bytes();
        // A count at its end takes no more: only somebody's mistake brings it there. Reading
        // sets it to zero.
        if write(&self.0, &one) == Err(Errno::AGAIN) {
            let _ = read(&self.0, &mut [0; 8]);
            let _ = write(&self.0, &one);
        }
    }
}

impl From<OwnedFd> for Bell {
    /// A bell that came from elsewhere; the descriptor is an `eventfd` that does not block.
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
