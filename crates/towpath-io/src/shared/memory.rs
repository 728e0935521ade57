//! Mapped pages, and the only way to their bytes: through offsets that are checked at each use.

use std::ptr::{self, NonNull};
use std::slice;

pub(super) use std::sync::atomic::{AtomicU64, fence};

use rustix::fd::BorrowedFd;
use rustix::io;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::layout::LINE;
use super::past;
use super::record::WORDS;

/// A shared mapping of a sealed memory file. Invariant: `base` is page-aligned and points to
/// `len` mapped bytes for as long as this lives; the file can never become shorter.
#[derive(Debug)]
pub(super) struct Memory {
    base: NonNull<u8>,
    len: usize,
    writable: bool,
}

// SAFETY: a mapping belongs to the process, not to a thread; what is not atomic is reached
// through `unsafe` functions only, whose callers promise that nothing else touches it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps the first `len` bytes of a file. The caller has seen that the file is at least as
    /// long and sealed against shrinking.
    pub(super) fn map(file: BorrowedFd<'_>, len: usize, writable: bool) -> io::Result<Self> {
        assert!(len > 0 && isize::try_from(len).is_ok(), "a mapping has a length: {len}");
        let write = if writable { ProtFlags::WRITE } else { ProtFlags::empty() };
        let (access, flags) = (ProtFlags::READ | write, MapFlags::SHARED);
        // SAFETY: the kernel chooses a place where nothing is mapped.
        let at = unsafe { mmap(ptr::null_mut(), len, access, flags, file, 0)? };
        let base = NonNull::new(at.cast()).expect("a mapping is not at null");
        let memory = Self { base, len, writable };
        // SAFETY: concerns only what a forked child sees of a mapping that is ours.
        unsafe { madvise(at, len, Advice::LinuxDontFork)? };
        Ok(memory)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The start of a range that lies in the mapping.
    #[inline]
    fn at(&self, at: usize, len: usize) -> *mut u8 {
        if at > self.len || len > self.len - at {
            outside(at, len, self.len);
        }
        // SAFETY: `at` is at most `len`, so the result is within the mapping or at its end.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// A word. Only loads may be done on pages that are mapped read-only.
    #[inline]
    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        if !at.is_multiple_of(8) {
            misplaced(at);
        }
        let word = self.at(at, 8).cast();
        // SAFETY: in the mapping and aligned (checked; the base is a page's), alive as long as
        // `self`. Words are never reached in another way in this process. Loads of 8 bytes are
        // plain ones on the machines we run on, which read-only pages allow (`core::sync::atomic`,
        // "Atomic accesses to read-only memory").
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// The words of a line, checked at once. Only loads may be done on pages that are mapped
    /// read-only.
    #[inline]
    pub(super) fn line(&self, at: usize) -> Line<'_> {
        if !at.is_multiple_of(LINE) {
            misplaced(at);
        }
        let line: *mut [AtomicU64; WORDS] = self.at(at, LINE).cast();
        // SAFETY: in the mapping and aligned (checked; the base is a page's), alive as long as
        // `self`; what is said of words at `word` holds for each of these.
        Line(unsafe { &*line })
    }

    /// Copies bytes out. What the writer changes meanwhile comes out as it happens to be.
    #[inline]
    pub(super) fn read(&self, at: usize, to: &mut [u8]) {
        let from = self.at(at, to.len());
        // SAFETY: the range lies in the mapping; `to` is borrowed mutably, so it is no part of it.
        // Whoever writes there is another process, or has released what it wrote by an atomic
        // store that the caller has seen: no race inside this process.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) }
    }

    /// Copies bytes in.
    ///
    /// # Safety
    /// Nothing else in this process reads or writes the range meanwhile.
    #[inline]
    pub(super) unsafe fn write(&self, at: usize, from: &[u8]) {
        assert!(self.writable, "only the owner writes");
        let to = self.at(at, from.len());
        // SAFETY: the range lies in the mapping, which is writable; nobody else touches it (the
        // caller's promise), so it does not overlap `from` either.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }

    /// [`Memory::write`] past the caches, for a reader on another processor: writing to lines that
    /// are in its caches costs more than memory does.
    ///
    /// # Safety
    /// As for [`Memory::write`].
    pub(super) unsafe fn write_past(&self, at: usize, from: &[u8]) {
        assert!(self.writable, "only the owner writes");
        let to = self.at(at, from.len());
        // SAFETY: as in `write`.
        unsafe { past::copy(from, to) }
    }

    /// Bytes in place.
    ///
    /// # Safety
    /// Nothing writes the range while the result lives.
    pub(super) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        let from = self.at(at, len);
        // SAFETY: the range lies in the mapping and stays as it is (the caller's promise).
        unsafe { slice::from_raw_parts(from, len) }
    }

    /// Bytes in place, to be changed.
    ///
    /// # Safety
    /// Nothing else reads or writes the range while the result lives.
    #[expect(clippy::mut_from_ref, reason = "the caller holds the range, not the whole mapping")]
    pub(super) unsafe fn bytes_mut(&self, at: usize, len: usize) -> &mut [u8] {
        assert!(self.writable, "only the owner writes");
        let from = self.at(at, len);
        // SAFETY: the range lies in the mapping, is writable and the caller's alone.
        unsafe { slice::from_raw_parts_mut(from, len) }
    }
}

/// The words of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a>(&'a [AtomicU64; WORDS]);

impl<'a> Line<'a> {
    /// Word `i`, counted from 0.
    #[inline]
    pub(super) fn word(self, i: usize) -> &'a AtomicU64 {
        &self.0[i]
    }
}

/// Values, not references: words are reached too often to put each place into memory for a panic.
#[cold]
#[inline(never)]
fn outside(at: usize, len: usize, all: usize) -> ! {
    panic!("{len} bytes at {at} lie in a mapping of {all}");
}

#[cold]
#[inline(never)]
fn misplaced(at: usize) -> ! {
    panic!("what begins at {at} is not aligned");
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and no reference outlives `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}
