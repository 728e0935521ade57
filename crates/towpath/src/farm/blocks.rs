//! Standard input in blocks of whole lines, each of which is the input of a command (`--pipe`).
//!
//! The input is kept in a temporary file, since a block is read again where a host is lost. What is
//! under way to a command is bounded by its window.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::daemons::Daemons;
use super::input::{InputError, Items};
use super::output::SpillError;
use super::run::FarmError;
use crate::protocol::Request;

/// Bytes that may be under way to a command.
pub(super) const WINDOW: u32 = 128 * 1024;
/// Bytes of one piece of a block.
const PIECE: u64 = 32 * 1024;
/// Longest line.
const LINE_MAX: usize = 1 << 30;

/// Blocks of lines. Invariant: `ends` ascends.
#[derive(Clone, Debug)]
pub struct Blocks {
    file: Arc<File>,
    ends: Vec<u64>,
}

impl Blocks {
    /// Reads `source` to its end. A block is as many whole lines as fit into `size` bytes, but at
    /// least one; the last line may lack its line feed.
    pub fn read(source: &mut dyn Read, name: &str, size: usize) -> Result<Self, BlocksError> {
        let file = tempfile::tempfile().map_err(SpillError::from)?;
        let mut out = BufWriter::new(&file);
        let (mut ends, mut end, mut rest) = (vec![], 0, vec![]);
        let mut piece = vec![0; size.clamp(1, 1 << 20)];
        loop {
            let n = match source.read(&mut piece) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other.map_err(|os| InputError::Read { name: name.to_string(), os })?,
            };
            rest.extend_from_slice(&piece[..n]);
            let mut taken = 0;
            while let Some(len) = block(&rest[taken..], size, n == 0) {
                let lines = &rest[taken..taken + len];
                out.write_all(lines).map_err(SpillError::from)?;
                end += len as u64;
                ends.push(end);
                taken += len;
            }
            rest.drain(..taken);
            if rest.len() > LINE_MAX {
                return Err(InputError::TooMany.into());
            }
            if n == 0 {
                out.flush().map_err(SpillError::from)?;
                drop(out);
                return Ok(Self { file: Arc::new(file), ends });
            }
        }
    }

    /// As many empty items as there are blocks.
    pub fn items(&self) -> Result<Items, InputError> {
        let mut items = Items::default();
        self.ends.iter().try_for_each(|_| items.push(b""))?;
        Ok(items)
    }

    fn range(&self, index: u32) -> (u64, u64) {
        let index = index as usize;
        (index.checked_sub(1).map_or(0, |before| self.ends[before]), self.ends[index])
    }
}

/// Length of the block that a text begins with; `None`: more has to be read.
fn block(text: &[u8], size: usize, is_all: bool) -> Option<usize> {
    if text.is_empty() || text.len() < size && !is_all {
        return None;
    }
    let within = &text[..text.len().min(size)];
    if is_all && within.len() == text.len() {
        return Some(text.len());
    }
    if let Some(at) = within.iter().rposition(|b| *b == b'\n') {
        return Some(at + 1);
    }
    // A line that is longer than a block.
    let rest = text[within.len()..].iter().position(|b| *b == b'\n');
    rest.map(|at| within.len() + at + 1).or_else(|| is_all.then_some(text.len()))
}

/// The input cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BlocksError {
    /// It cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// It cannot be kept.
    #[error(transparent)]
    Spill(#[from] SpillError),
}

/// A block on its way to a command.
#[derive(Debug)]
struct Feed {
    at: u64,
    end: u64,
    room: u32,
    is_ended: bool,
}

/// Blocks on their way.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    blocks: Option<Blocks>,
    open: HashMap<u64, Feed>,
}

/// Bytes for a command, and whether they are the last.
type Fed = (Vec<u8>, bool);

impl Feeds {
    pub(super) fn new(blocks: Option<Blocks>) -> Self {
        Self { blocks, open: HashMap::new() }
    }

    /// What a command may have under way.
    pub(super) const fn window(&self) -> u32 {
        if self.blocks.is_some() { WINDOW } else { 0 }
    }

    /// The command of an attempt at an item runs.
    pub(super) fn started(&mut self, tag: u64, item: u32) {
        if let Some(blocks) = &self.blocks {
            let (at, end) = blocks.range(item);
            self.open.insert(tag, Feed { at, end, room: WINDOW, is_ended: false });
        }
    }

    /// It took some.
    pub(super) fn taken(&mut self, tag: u64, bytes: u32) {
        if let Some(feed) = self.open.get_mut(&tag) {
            feed.room = feed.room.saturating_add(bytes).min(WINDOW);
        }
    }

    /// It ended.
    pub(super) fn ended(&mut self, tag: u64) {
        self.open.remove(&tag);
    }

    /// Hands it what it may have now.
    pub(super) fn feed(&mut self, tag: u64, to: &mut Daemons<'_>) -> Result<(), FarmError> {
        while let Some((bytes, end)) = self.next(tag)? {
            // A piece is short: it can always be encoded.
            let _ = to.push(&Request::Input { tag, bytes, end });
        }
        if to.is_full() {
            to.flush()?;
        }
        Ok(())
    }

    /// What may go to it now.
    fn next(&mut self, tag: u64) -> Result<Option<Fed>, SpillError> {
        let Some((feed, blocks)) = self.open.get_mut(&tag).zip(self.blocks.as_ref()) else {
            return Ok(None);
        };
        let len = (feed.end - feed.at).min(feed.room.into()).min(PIECE);
        if feed.is_ended || len == 0 && feed.at < feed.end {
            return Ok(None);
        }
        let mut bytes = vec![0; len as usize];
        blocks.file.read_exact_at(&mut bytes, feed.at)?;
        feed.at += len;
        feed.room -= len as u32;
        feed.is_ended = feed.at == feed.end;
        Ok(Some((bytes, feed.is_ended)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(text: &[u8], size: usize) -> Vec<Vec<u8>> {
        let blocks = Blocks::read(&mut &*text, "test", size).unwrap();
        assert_eq!(blocks.items().unwrap().len() as usize, blocks.ends.len());
        let read = |index| {
            let (at, end) = blocks.range(index);
            let mut bytes = vec![0; (end - at) as usize];
            blocks.file.read_exact_at(&mut bytes, at).unwrap();
            bytes
        };
        (0..blocks.ends.len() as u32).map(read).collect()
    }

    #[test]
    fn a_block_is_whole_lines() {
        assert_eq!(blocks(b"1\n22\n333\n", 5), [&b"1\n22\n"[..], b"333\n"]);
        assert_eq!(blocks(b"a long line\nb\nc", 4), [&b"a long line\n"[..], b"b\nc"]);
        assert_eq!(blocks(b"no end", 3), [b"no end"]);
        assert!(blocks(b"", 3).is_empty());
    }

    #[test]
    fn no_more_goes_than_may_be_under_way_and_the_last_piece_says_so() {
        let text = vec![b'x'; 3 * WINDOW as usize + 7];
        let blocks = Blocks::read(&mut &text[..], "test", 1 << 20).unwrap();
        let mut feeds = Feeds::new(Some(blocks));
        feeds.started(5, 0);
        let (mut got, mut unread, mut over) = (0, 0, false);
        while !over {
            while let Some((bytes, last)) = feeds.next(5).unwrap() {
                got += bytes.len();
                unread += bytes.len() as u32;
                over = last;
            }
            assert!(unread <= WINDOW);
            feeds.taken(5, unread);
            unread = 0;
        }
        assert_eq!(got, text.len());
        assert!(feeds.next(5).unwrap().is_none() && feeds.next(6).unwrap().is_none());
        feeds.started(7, 0);
        feeds.ended(7);
        assert!(feeds.next(7).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn blocks_make_the_input(text in "[ab\n]{0,60}", size in 1usize..20) {
            let all = blocks(text.as_bytes(), size);
            prop_assert_eq!(all.concat(), text.as_bytes());
            for (index, block) in all.iter().enumerate() {
                let last = index + 1 == all.len();
                prop_assert!(last || block.ends_with(b"\n"));
                let lines = block.split_inclusive(|b| *b == b'\n').count();
                prop_assert!(block.len() <= size || lines == 1, "{:?}", block);
            }
        }
    }
}
