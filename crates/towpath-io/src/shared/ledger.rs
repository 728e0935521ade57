//! What a task says of its direct routes, for people who ask its daemon: one line for each.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::layout::{LEDGER, LEDGER_LINES};
use super::memory::Memory;
use super::record::WORDS;

/// A task's own ledger; it alone writes it. What its lines and their words mean is the caller's
/// affair.
#[derive(Debug)]
pub struct Ledger {
    memory: Arc<Memory>,
}

impl Ledger {
    pub(super) fn new(memory: Arc<Memory>) -> Self {
        Self { memory }
    }

    #[inline]
    fn at(line: u16) -> usize {
        assert!(usize::from(line) < LEDGER_LINES, "line {line} of {LEDGER_LINES}");
        LEDGER + usize::from(line) * WORDS * size_of::<u64>()
    }

    /// A line's words.
    pub fn get(&self, line: u16) -> [u64; WORDS] {
        let line = self.memory.line(Self::at(line));
        std::array::from_fn(|word| line.word(word).load(Relaxed))
    }

    /// Writes a word of a line.
    pub fn set(&self, line: u16, word: usize, value: u64) {
        self.memory.line(Self::at(line)).word(word).store(value, Relaxed);
    }

    /// Counts something: 1 in `word` of a line, and `len` in the one behind it.
    #[inline]
    pub fn count(&self, line: u16, word: usize, len: usize) {
        let line = self.memory.line(Self::at(line));
        for (word, more) in [(word, 1), (word + 1, len as u64)] {
            let word = line.word(word);
            // Nobody else writes it.
            word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
        }
    }
}

/// The lines of the ledger in a task's segment, each word as it happens to be.
///
/// # Errors
/// Whatever the kernel says.
pub fn read_ledger(segment: impl AsFd) -> io::Result<Vec<[u64; WORDS]>> {
    let segment: OwnedFd = segment.as_fd().try_clone_to_owned()?;
    let mut bytes = [0; LEDGER_LINES * WORDS * size_of::<u64>()];
    File::from(segment).read_exact_at(&mut bytes, LEDGER as u64)?;
    let words: Vec<u64> =
        bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Ok(words.as_chunks().0.to_vec())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Home, Segment};
    use super::*;

    #[test]
    fn the_daemon_reads_what_the_task_counts() {
        let Segment { owner, peers } = Segment::task(1).unwrap();
        let home = Home::open(owner).unwrap();
        let last = LEDGER_LINES as u16 - 1;
        for (line, len) in [(0, 5), (last, 7), (last, 9)] {
            home.ledger().count(line, 2, len);
        }
        home.ledger().set(last, 0, u64::MAX);
        let told = read_ledger(&peers).unwrap();
        assert_eq!(told.len(), LEDGER_LINES);
        assert_eq!(told[0], [0, 0, 1, 5, 0, 0, 0, 0]);
        assert_eq!(told[LEDGER_LINES - 1], [u64::MAX, 0, 2, 16, 0, 0, 0, 0]);
        assert_eq!(told[LEDGER_LINES - 1], home.ledger().get(last));
        assert!(told[1..LEDGER_LINES - 1].iter().all(|line| *line == [0; WORDS]));
        // Its arena begins behind it.
        let mut block = home.arena().alloc(1 << 16).unwrap();
        block.bytes_mut().fill(0xff);
        assert_eq!(read_ledger(&peers).unwrap(), told);
    }
}
