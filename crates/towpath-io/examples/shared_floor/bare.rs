//! The floors: words in shared memory, spun on or slept on.

use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::thread::futex;

/// Two lines, one for each direction: a count, and eight bytes beside it.
pub(crate) struct Bare {
    mine: &'static [AtomicU64; 8],
    theirs: &'static [AtomicU64; 8],
    sent: u64,
    received: u64,
}

impl Bare {
    /// Both sides give both lines, `which` says whose is whose.
    pub(crate) fn new(file: &OwnedFd, which: usize) -> Self {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free place; the file is a page long.
        let base = unsafe { mmap(ptr::null_mut(), 4096, access, MapFlags::SHARED, file, 0) };
        let lines: *mut [AtomicU64; 8] = base.expect("maps").cast();
        let line = |i: usize| {
            // SAFETY: in the page, aligned, and never unmapped; all access is atomic.
            unsafe { &*lines.add(4 * i) }
        };
        Self { mine: line(which), theirs: line(1 - which), sent: 0, received: 0 }
    }

    pub(crate) fn set(&mut self) {
        self.sent += 1;
        self.mine[1].store(self.sent, Ordering::Relaxed);
        self.mine[0].store(self.sent, Ordering::Release);
    }

    pub(crate) fn spin(&mut self) {
        self.received += 1;
        while self.theirs[0].load(Ordering::Acquire) != self.received {
            std::hint::spin_loop();
        }
        assert_eq!(self.theirs[1].load(Ordering::Relaxed), self.received);
    }

    pub(crate) fn wake(&mut self) {
        self.set();
        futex::wake(low(self.mine), futex::Flags::empty(), 1).expect("wakes");
    }

    pub(crate) fn sleep(&mut self) {
        self.received += 1;
        while self.theirs[0].load(Ordering::Acquire) != self.received {
            let before = (self.received - 1) as u32;
            let _ = futex::wait(low(self.theirs), futex::Flags::empty(), before, None);
        }
    }
}

/// The low half of the count, for the kernel.
fn low(line: &'static [AtomicU64; 8]) -> &'static AtomicU32 {
    // SAFETY: four of the eight bytes (little-endian) of a word that is only reached atomically;
    // the kernel compares them, nobody here loads them.
    unsafe { &*ptr::from_ref(&line[0]).cast::<AtomicU32>() }
}
