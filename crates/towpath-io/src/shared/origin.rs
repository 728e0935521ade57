//! Is this still the process that opened everything, or a forked child of it?

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Length of the smallest mapping, in bytes.
const LEN: usize = 4096;

/// A mark that the kernel wipes in every child, however it was made (Linux 4.14). A child has none
/// of the shared mappings either: it must forget what it inherited of this module, and begin anew.
#[derive(Debug)]
pub struct Origin(NonNull<AtomicU32>);

// SAFETY: the mark is atomic and belongs to the process, not to a thread.
unsafe impl Send for Origin {}
// SAFETY: as above.
unsafe impl Sync for Origin {}

impl Origin {
    /// Marks this process.
    ///
    /// # Errors
    /// Whatever the kernel says, as where there is no memory.
    pub fn mark() -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses a place where nothing is mapped.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), LEN, access, flags)? };
        let origin = Self(NonNull::new(at.cast()).expect("a mapping is not at null"));
        // SAFETY: concerns only what a forked child sees of a mapping that is ours.
        unsafe { madvise(at, LEN, Advice::LinuxWipeOnFork)? };
        origin.word().store(1, Ordering::Relaxed);
        Ok(origin)
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: mapped as long as `self` lives, page-aligned, and only reached atomically.
        unsafe { self.0.as_ref() }
    }

    /// Whether this is the process that was marked. One load.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.word().load(Ordering::Relaxed) != 0
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // SAFETY: mapped by `mark` with this length; no reference outlives `self`.
        let unmapped = unsafe { munmap(self.0.as_ptr().cast(), LEN) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}
