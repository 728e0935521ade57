//! A receiver: a buffer that fills as bytes arrive and empties as groups are due.

use thiserror::Error;

use crate::trace::Trace;

/// What went wrong at a receiver; groups count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// A group was due and not there.
    #[error("group {group} starved at tick {tick}: {missing} bytes are missing")]
    Starved {
        /// Which group.
        group: usize,
        /// When it was due.
        tick: u64,
        /// Bytes of it not there.
        missing: u64,
    },
    /// Bytes arrived that the buffer could not hold.
    #[error("the buffer overflowed at tick {tick}: {bytes} bytes, it holds {buffer}")]
    Overflow {
        /// When.
        tick: u64,
        /// What it would have had to hold.
        bytes: u64,
        /// What it holds.
        buffer: u64,
    },
}

/// Plays a trace: group `i` leaves the buffer `times[i]` ticks after play-out starts. What arrives
/// at the tick at which a group is due arrives before it leaves: that counts as in time, and must
/// fit.
#[derive(Clone, Copy, Debug)]
pub struct Player<'a> {
    trace: &'a Trace,
    buffer: u64,
    starts: u64,
    arrived: u64,
    next: usize,
    most: u64,
}

impl<'a> Player<'a> {
    /// A buffer in bytes; play-out starts at tick `starts`.
    pub const fn new(trace: &'a Trace, buffer: u64, starts: u64) -> Self {
        Self { trace, buffer, starts, arrived: 0, next: 0, most: 0 }
    }

    /// The tick at which the next group leaves; `None` after the last.
    pub fn next_due(&self) -> Option<u64> {
        Some(self.starts + self.trace.times().get(self.next)?)
    }

    /// The next group leaves.
    pub fn consume(&mut self) -> Result<(), Fault> {
        let tick = self.next_due().unwrap_or(u64::MAX);
        let group = self.next + 1;
        let needed = self.trace.sums().get(group).copied().unwrap_or(0);
        self.next = group.min(self.trace.groups());
        match needed.checked_sub(self.arrived) {
            None | Some(0) => Ok(()),
            Some(missing) => Err(Fault::Starved { group, tick, missing }),
        }
    }

    /// Bytes arrive at `tick`.
    pub fn arrive(&mut self, tick: u64, bytes: u64) -> Result<(), Fault> {
        self.arrived += bytes;
        let held = self.arrived - self.trace.sums()[self.next].min(self.arrived);
        self.most = self.most.max(held);
        if held > self.buffer {
            return Err(Fault::Overflow { tick, bytes: held, buffer: self.buffer });
        }
        Ok(())
    }

    /// The most bytes it held so far.
    pub const fn most(&self) -> u64 {
        self.most
    }
}
