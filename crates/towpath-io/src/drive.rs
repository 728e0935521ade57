//! Moves datagrams between one UDP link and one machine, a bounded number per turn.
//!
//! The engine and `towpath bench link` drive their machines through this; they differ only in
//! how they wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use towpath_proto::{Grant, Machine, Memory, PathChange, TxBatch};

use crate::clock::Clock;
use crate::udp::{LinkCounters, Notice, SendBatch, UdpLink};

/// Receive calls per turn: bounded work per wake-up.
const RECEIVES_PER_TURN: usize = 8;
/// Send calls per turn.
const SENDS_PER_TURN: usize = 16;
/// What every way takes: IPv6's minimum MTU (RFC 8200, section 5) less IPv6 and UDP headers.
const DATAGRAM_SAFE: u16 = 1280 - 48;

/// How a turn of sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There was nothing to send.
    Idle,
    /// Everything was sent.
    Sent,
    /// The turn was over first: come again after whoever else has something.
    More,
    /// The socket takes no more: come again when it is writable.
    Blocked,
}

/// A link with the trains that it did not take yet.
pub struct LinkDriver {
    link: UdpLink,
    batch: SendBatch,
    too_long: u64,
}

impl LinkDriver {
    /// A driver of `link`.
    pub fn new(link: UdpLink) -> Self {
        Self { link, batch: SendBatch::new(), too_long: 0 }
    }

    /// The link.
    pub const fn link(&self) -> &UdpLink {
        &self.link
    }

    /// The link's counters.
    pub const fn counters(&self) -> &LinkCounters {
        self.link.counters()
    }

    /// What a person may want to know, each kind once.
    pub fn notice(&mut self) -> Option<Notice> {
        self.link.notice()
    }

    /// Hands waiting datagrams to the machine, as many as fit into a turn. True when any came.
    pub fn receive<M: Machine>(
        &mut self,
        clock: &Clock,
        machine: &mut M,
        memory: &mut dyn Memory,
    ) -> io::Result<bool> {
        let before = self.link.counters().datagrams_received;
        for _ in 0..RECEIVES_PER_TURN {
            let mut now = None;
            let more = self.link.receive(|rx, data| {
                // Once per batch, and after the call that may have waited for it.
                let now = *now.get_or_insert_with(|| clock.now());
                machine.handle_datagram(now, rx, data, memory);
            })?;
            if !more {
                break;
            }
        }
        Ok(self.link.counters().datagrams_received > before)
    }

    /// Sends what the machine has to send, as much as fits into a turn.
    pub fn transmit<M: Machine>(
        &mut self,
        clock: &Clock,
        machine: &mut M,
        memory: &dyn Memory,
    ) -> Turn {
        for turn in 0..SENDS_PER_TURN {
            let full = self.fill(clock, machine, memory);
            if self.batch.is_empty() {
                return if turn == 0 { Turn::Idle } else { Turn::Sent };
            }
            let flushed = self.link.flush(&mut self.batch);
            self.tell_too_long(clock, machine);
            if !flushed {
                return Turn::Blocked;
            }
            if !full {
                return Turn::Sent;
            }
        }
        Turn::More
    }

    /// Fills the batch; true when the machine may have more.
    fn fill<M: Machine>(&mut self, clock: &Clock, machine: &mut M, memory: &dyn Memory) -> bool {
        let (grant, datagrams) = (Grant::free(self.link.id()), self.link.train_max());
        let now = clock.now();
        while let Some(buffer) = self.batch.buffer() {
            let mut out = TxBatch::new(buffer, memory, datagrams);
            match machine.poll_transmit(now, grant, &mut out) {
                Some(train) => self.batch.push(train),
                None => return false,
            }
        }
        true
    }

    /// The kernel knows that the way takes only shorter datagrams than we sent.
    fn tell_too_long<M: Machine>(&mut self, clock: &Clock, machine: &mut M) {
        let too_long = self.link.counters().too_long;
        if too_long != self.too_long {
            self.too_long = too_long;
            let change = PathChange::Datagram(DATAGRAM_SAFE);
            machine.handle_path(clock.now(), self.link.id(), change);
        }
    }
}

impl AsFd for LinkDriver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
