//! Trains on their way to one system call.

use std::net::{Ipv4Addr, SocketAddr};

use towpath_proto::machine::INSETS_MAX;
use towpath_proto::{Inset, Memory, Transmit, TxBatch};
use towpath_wire::{Instant, LinkId};

/// Trains per system call at most.
pub const TRAINS: usize = 8;
/// Bytes of one train at most: what the kernel cuts in one go, with room for its headers.
pub const TRAIN_BYTES: usize = 60 * 1024;

/// Up to [`TRAINS`] trains, each in a buffer of its own, in the order in which they go out.
///
/// Invariant: `sent ≤ filled ≤ TRAINS`; trains from `sent` to `filled` wait, the first of them
/// without its front `gone` bytes; the last of them, where it `is_held`, does not go out yet.
pub struct SendBatch {
    buf: Vec<u8>,
    trains: [Transmit; TRAINS],
    /// What of each train is still in message memory.
    insets: [Vec<Inset>; TRAINS],
    filled: usize,
    sent: usize,
    gone: usize,
    is_held: bool,
}

impl Default for SendBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl SendBatch {
    /// An empty batch.
    pub fn new() -> Self {
        let remote = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let none = Transmit {
            link: LinkId(0),
            remote,
            segment: 1,
            len: 0,
            tos: 0,
            not_before: Instant::ZERO,
        };
        // Touched now, so that a burst later does not make the process grow.
        let buf = vec![0xff; TRAINS * TRAIN_BYTES];
        let insets = std::array::from_fn(|_| Vec::with_capacity(INSETS_MAX));
        Self { buf, trains: [none; TRAINS], insets, filled: 0, sent: 0, gone: 0, is_held: false }
    }

    /// True when no train waits that may go out.
    pub const fn is_empty(&self) -> bool {
        self.sent == self.ready()
    }

    /// Trains up to here may go out.
    const fn ready(&self) -> usize {
        self.filled - self.is_held as usize
    }

    /// Holds the train that was pushed last: it is as if it were not there until
    /// [`SendBatch::release`], and nothing can be pushed behind it. What it has in `memory` is
    /// copied: the memory may change.
    pub fn hold(&mut self, memory: &dyn Memory) {
        assert!(self.filled > self.sent, "a train was pushed");
        self.settle(Some(memory));
        self.is_held = true;
    }

    /// What was held may go out.
    pub const fn release(&mut self) {
        self.is_held = false;
    }

    /// The buffer of the next train; `None` when there are as many as go out at once.
    pub fn buffer(&mut self) -> Option<&mut [u8]> {
        self.next().map(|(buffer, _)| buffer)
    }

    /// The next train, to be written by a machine, unless one is held; what it leaves in `memory`
    /// is taken from there by [`UdpLink::flush_from`](super::UdpLink::flush_from).
    pub fn train<'a>(
        &'a mut self,
        memory: &'a dyn Memory,
        datagrams_max: usize,
    ) -> Option<TxBatch<'a>> {
        let (buffer, insets) = self.next()?;
        Some(TxBatch::gathering(buffer, memory, datagrams_max, insets))
    }

    fn next(&mut self) -> Option<(&mut [u8], &mut Vec<Inset>)> {
        if self.is_held {
            return None;
        }
        if self.is_empty() {
            (self.sent, self.filled) = (0, 0);
        }
        let buffer = self.buf.chunks_exact_mut(TRAIN_BYTES).nth(self.filled)?;
        let insets = &mut self.insets[self.filled];
        insets.clear();
        Some((buffer, insets))
    }

    /// Copies what is still in message memory: the memory may change now.
    pub(super) fn settle(&mut self, memory: Option<&dyn Memory>) {
        let waiting = self.sent..self.filled;
        let trains = self.buf.chunks_exact_mut(TRAIN_BYTES).zip(&mut self.insets);
        for (part, insets) in trains.take(waiting.end).skip(waiting.start) {
            for Inset { at, len, block, from } in insets.drain(..) {
                let memory = memory.expect("insets come with their memory");
                memory.copy_out(block, from, &mut part[at..at + len]);
            }
        }
    }

    /// Adds the train that was written to [`SendBatch::buffer`] or [`SendBatch::train`].
    pub fn push(&mut self, train: Transmit) {
        assert!(self.filled < TRAINS && !self.is_held, "asked first for a buffer");
        assert!(train.len <= TRAIN_BYTES && train.segment > 0, "a train lies within its buffer");
        self.trains[self.filled] = train;
        self.filled += 1;
    }

    /// The trains that wait, with their bytes and what of these is elsewhere.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&Transmit, &[u8], &[Inset])> {
        let trains = self.trains[..self.ready()].iter().zip(self.buf.chunks_exact(TRAIN_BYTES));
        let trains = trains.zip(&self.insets);
        trains.enumerate().skip(self.sent).map(|(i, ((train, part), insets))| {
            let gone = if i == self.sent { self.gone } else { 0 };
            (train, &part[gone..train.len], &insets[..])
        })
    }

    /// The train that waits, if it is the only one and all of it is here.
    pub(super) fn alone(&self) -> Option<(&Transmit, &[u8])> {
        let mut waiting = self.waiting();
        let (train, bytes, insets) = waiting.next()?;
        (insets.is_empty() && waiting.next().is_none()).then_some((train, bytes))
    }

    /// The first `count` trains that waited are gone.
    pub(super) fn trains_gone(&mut self, count: usize) {
        self.gone = 0;
        self.sent += count;
        assert!(self.sent <= self.filled, "only what waited can go");
    }

    /// `bytes` of the first train that waited are gone: whole datagrams.
    pub(super) fn bytes_gone(&mut self, bytes: usize) {
        self.gone += bytes;
        if self.gone >= self.trains[self.sent].len {
            self.trains_gone(1);
        }
    }
}
