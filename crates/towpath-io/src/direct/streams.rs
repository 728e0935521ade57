//! A task's streams, by peer: a bounded number; only one that nobody uses makes room for another.

use std::collections::BTreeMap;
use std::time::Duration;

use towpath_wire::{Instant, TaskId};

use super::stream::Stream;

/// Streams of one task that are not being closed, at most.
pub const STREAMS_MAX: usize = 64;
/// A stream by which nothing came or went for so long may be closed for another.
pub const IDLE_TIME: Duration = Duration::from_secs(5);

struct Used {
    stream: Box<Stream>,
    /// How far it was when somebody looked last, and since when it is there at least.
    progress: u64,
    since: Instant,
    closing: bool,
}

/// Streams by peer. Those being closed stay until they have ended.
#[derive(Default)]
pub struct Streams {
    streams: BTreeMap<TaskId, Used>,
}

impl Streams {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The stream to a peer.
    pub fn get(&mut self, peer: TaskId) -> Option<&mut Stream> {
        self.streams.get_mut(&peer).map(|used| &mut *used.stream)
    }

    /// Adds a stream ([`Self::make_room`] comes first). One to the same peer that was there is
    /// given back.
    pub fn insert(&mut self, stream: Box<Stream>, now: Instant) -> Option<Box<Stream>> {
        let (peer, progress) = (stream.peer(), stream.progress());
        let used = Used { progress, since: now, closing: false, stream };
        self.streams.insert(peer, used).map(|old| old.stream)
    }

    /// Whether there may be one more, where `coming` are being set up already. If there are
    /// [`STREAMS_MAX`], the one that has been idle for the longest time is closed, if that is
    /// [`IDLE_TIME`] or more. Whether one is in use is seen here only: who asks often enough gets
    /// to know of every one that is not.
    pub fn make_room(&mut self, coming: usize, now: Instant) -> bool {
        let open = || self.streams.values().filter(|used| !used.closing).count();
        if open() + coming < STREAMS_MAX {
            return true;
        }
        let mut open: Vec<&mut Used> =
            self.streams.values_mut().filter(|used| !used.closing).collect();
        for used in &mut open {
            let progress = used.stream.progress();
            if used.progress != progress {
                (used.progress, used.since) = (progress, now);
            }
        }
        let idle = open.into_iter().filter(|used| used.since + IDLE_TIME <= now);
        let Some(longest) = idle.min_by_key(|used| used.since) else { return false };
        longest.closing = true;
        longest.stream.close();
        true
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
