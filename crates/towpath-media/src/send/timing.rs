//! When the datagrams of a group are due.

use alloc::boxed::Box;
use core::fmt;

use super::groups::Group;
use super::sender::DATAGRAM;
use crate::pace::{Action, Pace};
use crate::read::CLOCK_HZ;

/// By what rule instants are given.
pub enum Timing {
    /// Interpolated between clock references.
    Interpolated,
    /// By a pacer whose datagrams are of [`DATAGRAM`] bytes.
    Paced {
        /// The pacer.
        pacer: Box<dyn Pace + Send>,
        /// Ticks per second in which it counts.
        ticks_per_second: u64,
    },
}

impl fmt::Debug for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interpolated => "Interpolated",
            Self::Paced { .. } => "Paced",
        })
    }
}

/// A datagram, its time counted from the start of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) bytes: usize,
    /// 27 MHz.
    pub(super) ticks: u64,
    /// Its first packet tells a reference.
    pub(super) clock: bool,
}

/// Cuts groups into datagrams.
///
/// Invariant: `sent ≤ group.bytes`.
#[derive(Debug)]
pub(super) struct Cut {
    timing: Timing,
    group: Group,
    sent: u64,
    /// Ticks of all groups before this one.
    from: u64,
}

impl Cut {
    pub(super) const fn new(timing: Timing) -> Self {
        let group = Group { bytes: 0, span: 0, clock: false };
        Self { timing, group, sent: 0, from: 0 }
    }

    /// Nothing of a group is left.
    pub(super) const fn is_empty(&self) -> bool {
        self.sent == self.group.bytes
    }

    /// The next group.
    pub(super) fn begin(&mut self, group: Group) {
        assert!(self.is_empty(), "the group before is sent");
        self.from += self.group.span;
        (self.group, self.sent) = (group, 0);
        if let Timing::Paced { pacer, .. } = &mut self.timing {
            let reference = self.from % crate::pace::PCR_WRAP;
            pacer.feed(reference, group.bytes).expect("the group before is sent");
        }
    }

    /// The next datagram of the group.
    pub(super) fn next(&mut self) -> Option<Planned> {
        let left = self.group.bytes - self.sent;
        if left == 0 {
            return None;
        }
        let clock = self.group.clock && self.sent == 0;
        let (bytes, ticks) = match &mut self.timing {
            Timing::Interpolated => {
                let (span, sent) = (u128::from(self.group.span), u128::from(self.sent));
                let into = (span * sent / u128::from(self.group.bytes)) as u64;
                (left.min(DATAGRAM as u64), self.from + into)
            }
            Timing::Paced { pacer, ticks_per_second } => {
                let Action::Send { bytes, at } = pacer.poll(u64::MAX) else {
                    unreachable!("a group that is not sent has a next datagram")
                };
                let at = u128::from(at) * u128::from(CLOCK_HZ) / u128::from(*ticks_per_second);
                (bytes, u64::try_from(at).unwrap_or(u64::MAX >> 1))
            }
        };
        self.sent += bytes;
        Some(Planned { bytes: bytes as usize, ticks, clock })
    }

    /// What is left of the group is not sent.
    pub(super) fn skip(&mut self) {
        if let Timing::Paced { pacer, .. } = &mut self.timing {
            while let Action::Send { .. } = pacer.poll(u64::MAX) {}
        }
        self.group.span = 0;
        self.sent = self.group.bytes;
    }
}
