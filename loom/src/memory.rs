//! Shared pages as loom's atomics.

pub(super) use loom::sync::atomic::{AtomicU64, fence};

use std::cell::Cell;
use std::panic::resume_unwind;

use loom::cell::UnsafeCell;

/// Pages of one writer; who maps them read-only holds the same value. Words and payload are kept
/// apart: nothing reaches the same place in both ways.
#[derive(Debug)]
pub(super) struct Memory {
    words: Vec<AtomicU64>,
    /// Eight bytes each. Loom ends a run in which a read and a write are not ordered.
    payload: Vec<UnsafeCell<[u8; 8]>>,
    /// Accesses until whoever makes them dies.
    life: Cell<usize>,
}

impl Memory {
    pub(super) fn new(len: usize) -> Self {
        let words = (0..len.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        let payload = (0..len.div_ceil(8)).map(|_| UnsafeCell::new([0; 8])).collect();
        Self { words, payload, life: Cell::new(usize::MAX) }
    }

    /// Pages whose writer dies by a panic instead of its `accesses`-th access from now on.
    pub(super) fn kill_after(&self, accesses: usize) {
        self.life.set(accesses);
    }

    fn live(&self) {
        match self.life.get().checked_sub(1) {
            Some(left) => self.life.set(left),
            // As a panic, but silent.
            None => resume_unwind(Box::new("killed")),
        }
    }

    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "a word at {at} is aligned");
        self.live();
        &self.words[at / 8]
    }

    pub(super) fn line(&self, at: usize) -> Line<'_> {
        Line { memory: self, at }
    }

    pub(super) fn read(&self, at: usize, to: &mut [u8]) {
        for (cell, bytes) in self.payload[at / 8..].iter().zip(to.chunks_mut(8)) {
            // SAFETY: loom's threads take turns; it reports what would have been a race.
            cell.with(|word| bytes.copy_from_slice(unsafe { &(&*word)[..bytes.len()] }));
        }
    }

    /// # Safety
    /// Nothing else reads or writes the range meanwhile; this is what loom checks.
    pub(super) unsafe fn write(&self, at: usize, from: &[u8]) {
        for (cell, bytes) in self.payload[at / 8..].iter().zip(from.chunks(8)) {
            self.live();
            // SAFETY: as in `read`.
            cell.with_mut(|word| unsafe { (&mut *word)[..bytes.len()].copy_from_slice(bytes) });
        }
    }

    /// # Safety
    /// As for `write`, which it is in the model.
    pub(super) unsafe fn write_past(&self, at: usize, from: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe { self.write(at, from) }
    }

    /// # Safety
    /// Not part of the model.
    pub(super) unsafe fn bytes(&self, _: usize, _: usize) -> &[u8] {
        unreachable!("payloads are copied in the model")
    }

    /// # Safety
    /// Not part of the model.
    #[expect(clippy::mut_from_ref, reason = "as the real one")]
    pub(super) unsafe fn bytes_mut(&self, _: usize, _: usize) -> &mut [u8] {
        unreachable!("payloads are copied in the model")
    }
}

/// The words of a line, each an access of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    memory: &'a Memory,
    at: usize,
}

impl<'a> Line<'a> {
    pub(super) fn word(self, i: usize) -> &'a AtomicU64 {
        self.memory.word(self.at + 8 * i)
    }
}
