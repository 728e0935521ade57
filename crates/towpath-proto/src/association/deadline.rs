//! Messages that are worth nothing after a time.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use towpath_wire::{ChannelId, Instant};

use super::core::{Association, AssociationEvent};
use super::send::{SendError, SendHalf, Settled};
use crate::memory::Block;

/// Deadlines kept before those of settled messages are looked for.
const DEADLINES_MIN: usize = 64;

/// Deadlines of all channels, the earliest on top; those of messages settled meanwhile among them.
/// Invariant: at most twice as many as messages waited at the last look, plus [`DEADLINES_MIN`].
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    heap: BinaryHeap<Reverse<(Instant, ChannelId, u64)>>,
    /// Length from which on settled ones are thrown out.
    full: usize,
}

impl Deadlines {
    fn push(&mut self, at: Instant, channel: ChannelId, number: u64) {
        self.heap.push(Reverse((at, channel, number)));
    }

    /// The earliest.
    fn first(&self) -> Option<Instant> {
        self.heap.peek().map(|d| d.0.0)
    }

    /// The message whose deadline is the earliest, if that is not after `until`.
    fn pop_until(&mut self, until: Instant) -> Option<(ChannelId, u64)> {
        let Reverse((at, channel, number)) = *self.heap.peek()?;
        (at <= until).then(|| {
            self.heap.pop();
            (channel, number)
        })
    }

    /// Forgets settled messages at the top, and everywhere once they may be the larger part.
    fn prune(&mut self, waits: impl Fn(ChannelId, u64) -> bool) {
        while let Some(Reverse((_, channel, number))) = self.heap.peek().copied()
            && !waits(channel, number)
        {
            self.heap.pop();
        }
        if self.heap.len() >= self.full.max(DEADLINES_MIN) {
            self.heap.retain(|Reverse((_, channel, number))| waits(*channel, *number));
            self.full = 2 * self.heap.len() + DEADLINES_MIN;
        }
    }
}

impl Association {
    /// Queues a message on a timely channel that is to arrive by `deadline`, on our clock. What is
    /// lost of it is repaired for as long as the repair can still be in time; after that the
    /// message is given up ([`AssociationEvent::Abandoned`]), unless all of it is under way.
    pub fn send_by(
        &mut self,
        channel: ChannelId,
        block: Block,
        len: u32,
        deadline: Instant,
    ) -> Result<u64, SendError> {
        let number = self.queue(channel, block, len, deadline)?;
        if deadline != Instant::NEVER {
            self.deadlines.push(deadline, channel, number);
            self.prune_deadlines();
        }
        Ok(number)
    }

    /// When the first message must be given up: half a round trip before its deadline.
    pub(super) fn deadline_at(&self) -> Option<Instant> {
        self.deadlines.first().map(|at| at - self.rtt() / 2)
    }

    /// True when a message must be given up before anything else is sent.
    pub(super) fn deadline_passed(&self, now: Instant) -> bool {
        self.deadline_at().is_some_and(|at| at <= now)
    }

    /// A repair sent at `now` is a message's last chance if its deadline is not after this: by the
    /// time that we could know it lost, there would be no time for another.
    pub(super) fn last_chance(&self, now: Instant) -> Instant {
        // Most associations have no message with a deadline, and are asked with each packet.
        self.deadlines.first().map_or(Instant::ZERO, |_| now + self.rtt() * 3 / 2)
    }

    /// Closes messages whose time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        let until = now + self.rtt() / 2;
        while let Some((channel, number)) = self.deadlines.pop_until(until) {
            self.channels.with(channel, |c| c.send.as_mut().map(|s| s.expire(number)));
            self.tell_settled(channel);
        }
    }

    /// Forgets the deadlines of messages that were settled before.
    pub(super) fn prune_deadlines(&mut self) {
        let Self { deadlines, channels, .. } = self;
        let half = |channel| channels.get(channel).and_then(|c| c.send.as_ref());
        deadlines.prune(|c, n| half(c).is_some_and(|s: &SendHalf| s.awaits_deadline(n)));
    }

    /// Tells the owner which messages of a channel are settled, and lets the channel close if those
    /// were the last.
    pub(super) fn tell_settled(&mut self, channel: ChannelId) {
        let (events, stats) = (&mut self.events, &mut self.stats);
        self.channels.with(channel, |c| {
            let Some(send) = &mut c.send else { return };
            while let Some(settled) = send.pop_settled() {
                events.push_back(match settled {
                    Settled::Sent { number, block, len, late } => {
                        stats.messages_sent += 1;
                        c.stats.messages_sent += 1;
                        c.stats.bytes_sent += u64::from(len);
                        c.stats.late += u64::from(late);
                        AssociationEvent::Sent { channel, number, block }
                    }
                    Settled::Abandoned { number, block } => {
                        c.stats.abandoned += 1;
                        AssociationEvent::Abandoned { channel, number, block }
                    }
                });
            }
            c.due.close |= c.may_close() && !c.close_acked;
        });
    }
}
