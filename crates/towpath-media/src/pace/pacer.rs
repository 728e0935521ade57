//! What all pacers share: groups in, datagrams out.

use thiserror::Error;

use super::{Counter, Head};

/// How a pacer decides: when a group may start and how fast it is sent.
pub trait Policy {
    /// Units per tick in which this policy counts time.
    fn units(&self) -> u128;
    /// A group of `bytes` comes up; its reference is `reference` ticks after the first one.
    fn begin(&mut self, head: &mut Head, reference: u64, bytes: u64);
    /// The next `bytes` of the group are sent.
    fn send(&mut self, head: &mut Head, bytes: u64);
}

/// What a pacer wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The next group: call [`Pace::feed`] or [`Pace::end`].
    Feed,
    /// Nothing until this tick.
    Wait(u64),
    /// Send so many bytes at this tick, which has come.
    Send {
        /// How many.
        bytes: u64,
        /// When they were due to be sent.
        at: u64,
    },
    /// Everything is sent.
    Done,
}

/// A group was fed before the one before it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a group was fed while {left} bytes of the one before it are not sent yet")]
pub struct Busy {
    /// Bytes left.
    pub left: u64,
}

/// A pacer of any policy.
pub trait Pace {
    /// The next group: a clock reference (27 MHz, wrapping) and the bytes from it to the next one.
    fn feed(&mut self, reference: u64, bytes: u64) -> Result<(), Busy>;
    /// There is no further group.
    fn end(&mut self);
    /// What to do at tick `now`. Late calls are harmless: what was missed is told at once, with the
    /// ticks it was meant for, and nothing later moves.
    fn poll(&mut self, now: u64) -> Action;
}

/// A pacer: cuts groups into datagrams that never span two groups, and tells each one's instant:
/// when its last byte would be sent if bytes flowed evenly. So what is sent never runs ahead of the
/// even flow that was planned, and equals it at every reference.
#[derive(Clone, Debug)]
pub struct Pacer<P> {
    policy: P,
    head: Head,
    counter: Counter,
    datagram: u64,
    /// Bytes of the group not yet in a datagram.
    left: u64,
    pending: Option<(u64, u64)>,
    ended: bool,
}

impl<P: Policy> Pacer<P> {
    /// Datagrams of at most `datagram` bytes (at least 1).
    pub fn new(policy: P, datagram: u32) -> Self {
        let head = Head::new(policy.units());
        let datagram = u64::from(datagram.max(1));
        let counter = Counter::default();
        Self { policy, head, counter, datagram, left: 0, pending: None, ended: false }
    }

    /// Jumps of the clock references met so far.
    pub const fn jumps(&self) -> u64 {
        self.counter.jumps()
    }

    /// The policy, with what it counts.
    pub const fn policy(&self) -> &P {
        &self.policy
    }
}

impl<P: Policy> Pace for Pacer<P> {
    fn feed(&mut self, reference: u64, bytes: u64) -> Result<(), Busy> {
        let left = self.left + self.pending.map_or(0, |(bytes, _)| bytes);
        if left > 0 {
            return Err(Busy { left });
        }
        let ticks = self.counter.ticks(reference);
        self.policy.begin(&mut self.head, ticks, bytes);
        self.left = bytes;
        Ok(())
    }

    fn end(&mut self) {
        self.ended = true;
    }

    fn poll(&mut self, now: u64) -> Action {
        if self.pending.is_none() && self.left > 0 {
            let bytes = self.left.min(self.datagram);
            self.policy.send(&mut self.head, bytes);
            self.left -= bytes;
            self.pending = Some((bytes, self.head.tick()));
        }
        match self.pending {
            None if self.ended => Action::Done,
            None => Action::Feed,
            Some((_, at)) if at > now => Action::Wait(at),
            Some((bytes, at)) => {
                self.pending = None;
                Action::Send { bytes, at }
            }
        }
    }
}
