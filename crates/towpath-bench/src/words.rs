//! Words in memory that processes share: nothing but atomics, for measurements of what such memory
//! can do at all.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Words that several processes may load and store, each at any time.
///
/// Invariant: `start` is page-aligned and maps `len` words of a file that can never become
/// shorter, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Words {
    start: NonNull<AtomicU32>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and holds only atomics.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// `len` words (at least one), all 0, with the file by which another process opens them.
    pub(crate) fn create(len: usize) -> io::Result<(Self, OwnedFd)> {
        let file = rustix::fs::memfd_create(
            c"towpath-words",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        ftruncate(&file, (len * size_of::<AtomicU32>()) as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::open(&file)?, file))
    }

    /// The words of a file made by [`Words::create`]; an error where it is another.
    pub(crate) fn open(file: &impl AsFd) -> io::Result<Self> {
        let bad = || io::Error::new(io::ErrorKind::InvalidInput, "not a file of shared words");
        let sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        let bytes = usize::try_from(fstat(file)?.st_size).map_err(|_| bad())?;
        let len = bytes / size_of::<AtomicU32>();
        if !sealed || len == 0 || isize::try_from(bytes).is_err() {
            return Err(bad());
        }
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses a place where nothing is mapped; the file has so many bytes
        // and is sealed against having fewer.
        let at = unsafe { mmap(ptr::null_mut(), bytes, access, flags, file, 0)? };
        let start = NonNull::new(at.cast()).ok_or_else(bad)?;
        Ok(Self { start, len })
    }
}

impl Deref for Words {
    type Target = [AtomicU32];

    fn deref(&self) -> &[AtomicU32] {
        // SAFETY: so many words are mapped and aligned while `self` lives; any bytes are valid
        // words, and atomics may change under a shared reference.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let bytes = self.len * size_of::<AtomicU32>();
        // SAFETY: mapped by `open` with this length, and no reference outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_one_stores_the_other_loads() {
        let (a, file) = Words::create(100).unwrap();
        let b = Words::open(&file).unwrap();
        assert_eq!((a.len(), b.len()), (100, 100));
        a[99].store(7, Ordering::Release);
        assert_eq!((b[99].load(Ordering::Acquire), b[0].load(Ordering::Acquire)), (7, 0));
    }

    #[test]
    fn a_file_that_could_become_shorter_is_refused() {
        let file = rustix::fs::memfd_create(c"test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4096).unwrap();
        assert!(Words::open(&file).is_err());
        assert!(Words::create(0).is_err());
    }
}
