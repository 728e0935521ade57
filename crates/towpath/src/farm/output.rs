//! Output per item, in bounded memory.
//!
//! An item's output stays whole until its result is final: it is written then, or dropped. Up to
//! [`Limits::item_bytes`] of each output, and [`Limits::total_bytes`] of all, are in memory; what
//! is beyond goes to one unlinked temporary file, whose space is given back as it is read.
//! Worst case in memory: the total limit and one message of output (at most 4 MiB).

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};
use towpath_vm::Stream;

/// Output credit of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) window: u32,
    /// Taken, and not yet given back.
    pub(super) owed: u32,
}

/// Bytes read back at a time.
const PIECE: usize = 64 * 1024;

/// How much stays in memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of each output of an item.
    pub item_bytes: usize,
    /// Of everything.
    pub total_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { item_bytes: 64 * 1024, total_bytes: 64 * 1024 * 1024 }
    }
}

/// Output cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot keep output in a temporary file under {}: {os}\n\
     hint: free space there, or set TMPDIR to a directory with more",
    std::env::temp_dir().display()
)]
pub struct SpillError {
    os: io::Error,
}

impl From<io::Error> for SpillError {
    fn from(os: io::Error) -> Self {
        Self { os }
    }
}

/// One output: segments in the spill file, and then what is in memory.
#[derive(Debug, Default)]
struct Captured {
    segments: Vec<Segment>,
    tail: Vec<u8>,
    len: u64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    at: u64,
    len: u32,
}

/// What an item wrote. Give it back with [`Store::release`].
#[derive(Debug, Default)]
pub struct Capture {
    out: Captured,
    err: Captured,
}

impl Capture {
    fn stream(&self, stream: Stream) -> &Captured {
        match stream {
            Stream::Out => &self.out,
            Stream::Err => &self.err,
        }
    }

    /// Bytes of an output.
    pub fn len(&self, stream: Stream) -> u64 {
        self.stream(stream).len
    }
}

/// Output of all items that is not yet written. Invariant: `memory` is the sum of all tails.
#[derive(Debug, Default)]
pub struct Store {
    limits: Limits,
    open: HashMap<u64, Capture>,
    memory: usize,
    spill: Option<Spill>,
}

impl Store {
    /// An empty store.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds output of an attempt.
    pub fn append(&mut self, tag: u64, stream: Stream, bytes: Vec<u8>) -> Result<(), SpillError> {
        let capture = self.open.entry(tag).or_default();
        let captured = match stream {
            Stream::Out => &mut capture.out,
            Stream::Err => &mut capture.err,
        };
        self.memory += bytes.len();
        captured.len += bytes.len() as u64;
        if captured.tail.is_empty() {
            captured.tail = bytes;
        } else {
            captured.tail.extend_from_slice(&bytes);
        }
        if captured.tail.len() > self.limits.item_bytes || self.memory > self.limits.total_bytes {
            let spill = match &mut self.spill {
                Some(spill) => spill,
                None => self.spill.insert(Spill::new()?),
            };
            captured.segments.push(spill.write(&captured.tail)?);
            self.memory -= captured.tail.len();
            captured.tail = vec![];
        }
        Ok(())
    }

    /// What an attempt wrote; nothing more may be appended to it.
    pub fn take(&mut self, tag: u64) -> Capture {
        self.open.remove(&tag).unwrap_or_default()
    }

    /// Drops what an attempt wrote.
    pub fn discard(&mut self, tag: u64) {
        let capture = self.take(tag);
        self.release(capture);
    }

    /// The output is written or not wanted.
    pub fn release(&mut self, capture: Capture) {
        for captured in [capture.out, capture.err] {
            self.memory -= captured.tail.len();
            if let Some(spill) = &mut self.spill {
                captured.segments.into_iter().for_each(|s| spill.release(s));
            }
        }
    }

    /// Passes an output on, piece by piece.
    pub fn read(
        &self,
        capture: &Capture,
        stream: Stream,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let captured = capture.stream(stream);
        if let Some(spill) = &self.spill {
            let mut piece = vec![];
            for segment in &captured.segments {
                spill.read(*segment, &mut piece, take)?;
            }
        }
        if captured.tail.is_empty() { Ok(()) } else { take(&captured.tail) }
    }

    /// Bytes in memory.
    pub const fn memory_bytes(&self) -> usize {
        self.memory
    }
}

/// The temporary file. It only grows at its end; released segments leave holes.
#[derive(Debug)]
struct Spill {
    file: File,
    end: u64,
    live: u64,
}

impl Spill {
    fn new() -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile()?, end: 0, live: 0 })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<Segment> {
        self.file.write_all_at(bytes, self.end)?;
        let segment = Segment { at: self.end, len: bytes.len() as u32 };
        self.end += bytes.len() as u64;
        self.live += bytes.len() as u64;
        Ok(segment)
    }

    fn read(
        &self,
        segment: Segment,
        piece: &mut Vec<u8>,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut at, end) = (segment.at, segment.at + u64::from(segment.len));
        while at < end {
            piece.resize(PIECE.min((end - at) as usize), 0);
            self.file.read_exact_at(piece, at)?;
            take(piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Gives the space back, as far as the file system can.
    fn release(&mut self, segment: Segment) {
        self.live -= u64::from(segment.len);
        if self.live == 0 && self.file.set_len(0).is_ok() {
            self.end = 0;
        } else {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&self.file, flags, segment.at, segment.len.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: Limits = Limits { item_bytes: 8, total_bytes: 20 };

    fn content(store: &Store, capture: &Capture, stream: Stream) -> Vec<u8> {
        let mut out = vec![];
        let mut take = |piece: &[u8]| {
            out.extend_from_slice(piece);
            Ok(())
        };
        store.read(capture, stream, &mut take).unwrap();
        out
    }

    #[test]
    fn the_outputs_of_an_item_are_apart() {
        let mut store = Store::default();
        store.append(1, Stream::Out, b"a".to_vec()).unwrap();
        store.append(1, Stream::Err, b"x".to_vec()).unwrap();
        store.append(1, Stream::Out, b"b".to_vec()).unwrap();
        let capture = store.take(1);
        assert_eq!(content(&store, &capture, Stream::Out), b"ab");
        assert_eq!(content(&store, &capture, Stream::Err), b"x");
        assert!(store.spill.is_none());
        store.release(capture);
        assert_eq!(store.memory_bytes(), 0);
    }

    #[test]
    fn space_in_the_file_is_used_again_once_all_is_released() {
        let mut store = Store::new(SMALL);
        for round in 0..3 {
            store.append(round, Stream::Out, vec![b'x'; 100]).unwrap();
            assert_eq!(store.spill.as_ref().unwrap().end, 100);
            store.discard(round);
            assert_eq!(store.spill.as_ref().unwrap().end, 0);
        }
    }

    #[test]
    fn an_error_of_the_taker_is_passed_on() {
        let mut store = Store::new(SMALL);
        store.append(0, Stream::Out, vec![b'x'; 100]).unwrap();
        let capture = store.take(0);
        let mut broken = |_: &[u8]| Err(io::ErrorKind::BrokenPipe.into());
        let err = store.read(&capture, Stream::Out, &mut broken).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::BrokenPipe);
    }

    proptest! {
        #[test]
        fn what_was_written_comes_back_and_memory_is_bounded(
            writes in proptest::collection::vec(
                (
                    0u64..5,
                    any::<bool>(),
                    proptest::collection::vec(any::<u8>(), 1..30),
                    any::<bool>(),
                ),
                0..100,
            ),
        ) {
            let mut store = Store::new(SMALL);
            let mut model: HashMap<(u64, bool), Vec<u8>> = HashMap::new();
            for (tag, err, bytes, end) in writes {
                let stream = if err { Stream::Err } else { Stream::Out };
                model.entry((tag, err)).or_default().extend_from_slice(&bytes);
                store.append(tag, stream, bytes).unwrap();
                prop_assert!(store.memory_bytes() <= SMALL.total_bytes);
                if end {
                    let capture = store.take(tag);
                    for (stream, err) in [(Stream::Out, false), (Stream::Err, true)] {
                        let expected = model.remove(&(tag, err)).unwrap_or_default();
                        prop_assert_eq!(capture.len(stream), expected.len() as u64);
                        prop_assert_eq!(content(&store, &capture, stream), expected);
                    }
                    store.release(capture);
                }
            }
            (0..5).for_each(|tag| store.discard(tag));
            prop_assert_eq!(store.memory_bytes(), 0);
            prop_assert!(store.spill.is_none_or(|s| s.live == 0));
        }
    }
}
