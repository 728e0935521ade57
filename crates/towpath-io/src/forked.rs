//! Whether this process is a forked child of the one that made something.

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of the page; the kernel rounds it up to its own.
const LEN: usize = 4096;

/// A page that a fork wipes. Looking at it costs a load, where asking for the process' id would
/// cost a system call.
#[derive(Debug)]
pub struct ForkMark {
    page: NonNull<c_void>,
}

// SAFETY: the page belongs to the mark alone, and is only read after its making.
unsafe impl Send for ForkMark {}
// SAFETY: as above; the one word in it is read atomically.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    /// Marks this process.
    ///
    /// # Errors
    /// Whatever the kernel says, as where there is no memory.
    pub fn new() -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let page = unsafe { mmap_anonymous(ptr::null_mut(), LEN, access, MapFlags::PRIVATE) }?;
        let mark = Self { page: NonNull::new(page).ok_or(io::ErrorKind::OutOfMemory)? };
        // SAFETY: the range is the mapping just made, which nobody else knows.
        unsafe { madvise(page, LEN, Advice::LinuxWipeOnFork) }?;
        mark.word().store(1, Ordering::Relaxed);
        Ok(mark)
    }

    /// True in a forked child of the process that made the mark.
    #[inline]
    pub fn is_child(&self) -> bool {
        self.word().load(Ordering::Relaxed) == 0
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the mapping is as long as the mark lives, aligned to a page, and only accessed
        // through this word.
        unsafe { self.page.cast().as_ref() }
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        // SAFETY: the mapping is this mark's own; no reference into it outlives `self`.
        let _ = unsafe { munmap(self.page.as_ptr(), LEN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_made_it_is_no_child() {
        let mark = ForkMark::new().unwrap();
        assert!(!mark.is_child());
    }
}
