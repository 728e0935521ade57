//! What a stripe scheduler is, and what it may know.

use core::time::Duration;

use towpath_wire::PathId;

/// What a scheduler may know of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathView {
    /// Its number.
    pub id: PathId,
    /// Bytes that may still be sent now; 0 unless a whole datagram may.
    pub room: u64,
    /// It may carry: its link has a carrier, and it is proven and not silent.
    pub up: bool,
    /// Its link is the one that asks for something to send.
    pub asks: bool,
    /// Bytes under way.
    pub in_flight: u64,
    /// Bytes per second that it has delivered of late; 0 before that is known.
    pub rate: u64,
    /// The least round trip of late; zero before one is known.
    pub trip: Duration,
    /// The last round trip: how long it took to serve one packet, its queue in it.
    pub service: Duration,
    /// What its link is worth beside others.
    pub weight: u32,
}

impl PathView {
    /// It can take a packet now.
    pub const fn is_open(&self) -> bool {
        self.up && self.room > 0
    }

    /// Nanoseconds that `bytes` more take to arrive by it: what is under way goes first. Before its
    /// rate is known, half a round trip.
    pub fn arrival_ns(&self, bytes: u64) -> u64 {
        let queue = self.in_flight + bytes;
        let ahead = u128::from(queue) * 1_000_000_000 / u128::from(self.rate.max(1));
        let ahead = if self.rate == 0 { 0 } else { u64::try_from(ahead).unwrap_or(u64::MAX) };
        // What is under way leaves while it travels: only what the path does not hold by itself
        // waits.
        let held = self.trip.as_nanos() as u64;
        ahead.saturating_sub(held).saturating_add(held / 2)
    }
}

/// What waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Bytes of the next datagram, at most.
    pub bytes: u64,
    /// Bytes that wait, as far as they were counted: a little, or too much to be worth counting.
    pub backlog: u64,
}

/// Chooses a path for the next packet of data.
pub trait StripeScheduler: Send {
    /// Index into `paths`, or `None` to send nothing now: either none can take it, or it is worth
    /// waiting for one that cannot yet. Whatever was chosen is sent, or asked for again.
    fn pick(&mut self, next: &Next, paths: &[PathView]) -> Option<usize>;

    /// So many bytes went by a path.
    fn sent(&mut self, paths: &[PathView], path: PathId, bytes: u64) {
        let _ = (paths, path, bytes);
    }

    /// Each of the other paths is to carry a copy, too.
    fn copies(&self) -> bool {
        false
    }
}
