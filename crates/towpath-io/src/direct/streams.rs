//! A task's streams, by peer: a bounded number, the least recently used closed first.

use std::collections::BTreeMap;

use towpath_wire::TaskId;

use super::stream::Stream;

/// Streams of one task that are not being closed, at most.
pub const STREAMS_MAX: usize = 64;

struct Used {
    stream: Box<Stream>,
    at: u64,
    closing: bool,
}

/// Streams by peer. Those being closed stay until they have ended.
#[derive(Default)]
pub struct Streams {
    streams: BTreeMap<TaskId, Used>,
    clock: u64,
}

impl Streams {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The stream to a peer, to send on: it counts as used now.
    pub fn to(&mut self, peer: TaskId) -> Option<&mut Stream> {
        let used = self.streams.get_mut(&peer)?;
        self.clock += 1;
        used.at = self.clock;
        Some(&mut used.stream)
    }

    /// The stream to a peer.
    pub fn get(&mut self, peer: TaskId) -> Option<&mut Stream> {
        self.streams.get_mut(&peer).map(|used| &mut *used.stream)
    }

    /// Adds a stream. Where there are more than [`STREAMS_MAX`], the one not used for the longest
    /// time is closed; whoever it led to, so that no more is sent on it. A stream to the same peer
    /// that was there is given back.
    pub fn insert(&mut self, stream: Box<Stream>) -> (Option<TaskId>, Option<Box<Stream>>) {
        self.clock += 1;
        let used = Used { at: self.clock, closing: false, stream };
        let old = self.streams.insert(used.stream.peer(), used).map(|old| old.stream);
        (self.make_room(), old)
    }

    fn make_room(&mut self) -> Option<TaskId> {
        let open = || self.streams.iter().filter(|(_, used)| !used.closing);
        if open().count() <= STREAMS_MAX {
            return None;
        }
        let (&peer, _) = open().min_by_key(|(_, used)| used.at)?;
        let used = self.streams.get_mut(&peer)?;
        used.closing = true;
        used.stream.close();
        Some(peer)
    }

    /// Takes a stream out.
    pub fn remove(&mut self, peer: TaskId) -> Option<Box<Stream>> {
        self.streams.remove(&peer).map(|used| used.stream)
    }

    /// All of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.streams.values_mut().map(|used| &mut *used.stream)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }
}
