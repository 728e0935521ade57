//! The channels that every two hosts have for what tasks and daemons say to each other, and what
//! waits for them.
//!
//! Each purpose has one. What goes by one of them is in order; by several, in none. Long messages
//! of tasks have their own, so that short ones do not wait behind them: neither for a lost packet
//! nor for credit.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use towpath_proto::Block;
use towpath_proto::association::Opening;
use towpath_vm::data::Class;
use towpath_vm::message::{LABEL_DATA, LABEL_LOG, LABEL_OUTPUT, LABEL_SMALL, LABEL_TASK};
use towpath_wire::frame::Direction;
use towpath_wire::{ChannelId, Instant, TaskId};

use crate::delays::Delays;

/// What keeping a message costs beside its bytes.
const WAITING_COST: u64 = 64;

/// What a channel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The control log.
    Log,
    /// What daemons ask and tell each other.
    Control,
    /// Output of tasks.
    Output,
    /// Short messages of tasks, and their ends.
    Small,
    /// Long messages of tasks, and chains of hosts.
    Bulk,
}

impl Purpose {
    /// All of them, in the order in which what waits is handed to the transport.
    pub(crate) const ALL: [Self; 5] =
        [Self::Log, Self::Control, Self::Output, Self::Small, Self::Bulk];

    const fn label(self) -> u16 {
        match self {
            Self::Log => LABEL_LOG,
            Self::Control => LABEL_TASK,
            Self::Output => LABEL_OUTPUT,
            Self::Small => LABEL_SMALL,
            Self::Bulk => LABEL_DATA,
        }
    }

    /// The purpose of a label of ours.
    pub(crate) const fn of(label: u16) -> Option<Self> {
        Some(match label {
            LABEL_LOG => Self::Log,
            LABEL_TASK => Self::Control,
            LABEL_OUTPUT => Self::Output,
            LABEL_SMALL => Self::Small,
            LABEL_DATA => Self::Bulk,
            _ => return None,
        })
    }

    /// Carries tasks' messages.
    pub(crate) const fn is_data(self) -> bool {
        matches!(self, Self::Small | Self::Bulk)
    }

    /// Larger goes first; equals take turns, a packet each.
    const fn priority(self) -> u16 {
        match self {
            Self::Log => 300,
            Self::Control => 200,
            Self::Output | Self::Small | Self::Bulk => 100,
        }
    }

    /// What the host that called opens it with.
    pub(crate) const fn opening(self) -> Opening {
        Opening { priority: self.priority(), ..Opening::new(Direction::Both, self.label()) }
    }
}

impl From<Class> for Purpose {
    fn from(class: Class) -> Self {
        match class {
            Class::Small => Self::Small,
            Class::Bulk => Self::Bulk,
        }
    }
}

/// A message that waits for its peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Of our own.
    Bytes(Vec<u8>),
    /// A piece of a task's, already in message memory, with its length.
    Block(Block, u32),
    /// As that, of this task's: its end is not told before the piece is there.
    Of(TaskId, Block, u32),
}

impl Waiting {
    const fn cost(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64 + WAITING_COST,
            Self::Block(..) | Self::Of(..) => 0,
        }
    }

    /// The block of a piece.
    pub(crate) const fn block(&self) -> Option<(Block, u32)> {
        match self {
            Self::Bytes(_) => None,
            Self::Block(block, len) | Self::Of(_, block, len) => Some((*block, *len)),
        }
    }

    /// Whose piece it is, where that counts.
    pub(crate) const fn of(&self) -> Option<TaskId> {
        match self {
            Self::Of(task, ..) => Some(*task),
            _ => None,
        }
    }
}

/// What waits for a peer. Invariant: `bytes` is what our own messages among it cost.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queues: [VecDeque<Waiting>; Purpose::ALL.len()],
    bytes: u64,
}

impl Outbox {
    pub(crate) fn push(&mut self, purpose: Purpose, waiting: Waiting) {
        self.bytes += waiting.cost();
        self.queues[purpose as usize].push_back(waiting);
    }

    /// What our own messages cost.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn first(&self, purpose: Purpose) -> Option<&Waiting> {
        self.queues[purpose as usize].front()
    }

    /// The first of a purpose is the transport's now, or nobody's.
    pub(crate) fn pop(&mut self, purpose: Purpose) -> Option<Waiting> {
        let waiting = self.queues[purpose as usize].pop_front()?;
        self.bytes -= waiting.cost();
        Some(waiting)
    }

    /// Drops all that waits; the blocks of tasks' data among it.
    pub(crate) fn clear(&mut self) -> Vec<Block> {
        let all = core::mem::take(self);
        all.queues.iter().flatten().filter_map(Waiting::block).map(|(block, _)| block).collect()
    }

    /// All that waits, by purpose.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.queues.iter().flatten()
    }
}

/// The channels of one association. Invariant: `of` has an entry for each message of
/// [`Purpose::Bulk`] that the transport has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes {
    channels: [Option<ChannelId>; Purpose::ALL.len()],
    delays: [Delays; Purpose::ALL.len()],
    of: VecDeque<Option<TaskId>>,
}

impl Lanes {
    /// A channel stands. Where both sides opened one, the first that we knew of is kept.
    pub(crate) fn stands(&mut self, purpose: Purpose, channel: ChannelId) {
        self.channels[purpose as usize].get_or_insert(channel);
    }

    pub(crate) const fn channel(&self, purpose: Purpose) -> Option<ChannelId> {
        self.channels[purpose as usize]
    }

    /// What a channel is for, if it is one of these.
    pub(crate) fn purpose(&self, channel: ChannelId) -> Option<Purpose> {
        Purpose::ALL.into_iter().find(|p| self.channel(*p) == Some(channel))
    }

    /// How long messages of a purpose take.
    pub(crate) const fn delays(&self, purpose: Purpose) -> &Delays {
        &self.delays[purpose as usize]
    }

    /// The transport has the message of this number.
    pub(crate) fn sent(&mut self, purpose: Purpose, number: u64, now: Instant) {
        self.delays[purpose as usize].departs(number, now);
    }

    /// A message arrived. `trip`: the least round trip of its connection.
    pub(crate) fn settled(&mut self, purpose: Purpose, number: u64, now: Instant, trip: Duration) {
        self.delays[purpose as usize].settled(number, now, trip, true);
    }

    /// The transport has a message.
    pub(crate) fn departs(&mut self, purpose: Purpose, waiting: &Waiting) {
        if purpose == Purpose::Bulk {
            self.of.push_back(waiting.of());
        }
    }

    /// The oldest message of a purpose is there; whose piece it was, where that counts.
    pub(crate) fn arrived(&mut self, purpose: Purpose) -> Option<TaskId> {
        (purpose == Purpose::Bulk).then(|| self.of.pop_front().flatten()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_wire::HostId;

    fn task(n: u32) -> TaskId {
        HostId::new(1, 0).unwrap().task(n).unwrap()
    }

    const fn block(index: u32) -> Block {
        Block { index, generation: 0 }
    }

    #[test]
    fn the_log_goes_before_questions_and_those_before_what_tasks_say() {
        let order = [Purpose::Log, Purpose::Control, Purpose::Output];
        let priorities = order.map(|purpose| purpose.opening().priority);
        assert!(priorities.is_sorted_by(|a, b| a > b), "{priorities:?}");
        for purpose in [Purpose::Small, Purpose::Bulk] {
            assert_eq!(purpose.opening().priority, priorities[2], "equals take turns");
        }
        for purpose in Purpose::ALL {
            assert_eq!(purpose.opening().label, purpose.label());
        }
    }

    #[test]
    fn every_purpose_has_a_label_of_its_own() {
        for purpose in Purpose::ALL {
            assert_eq!(Purpose::of(purpose.label()), Some(purpose));
            assert_eq!(Purpose::ALL[purpose as usize], purpose);
        }
        assert_eq!(Purpose::of(6), None);
    }

    #[test]
    fn what_waits_is_in_order_for_each_purpose_and_only_our_own_is_counted() {
        let mut outbox = Outbox::default();
        outbox.push(Purpose::Bulk, Waiting::Of(task(1), block(1), 9));
        outbox.push(Purpose::Small, Waiting::Bytes([7; 36].to_vec()));
        outbox.push(Purpose::Small, Waiting::Block(block(2), 9));
        assert_eq!(outbox.bytes(), 100);
        assert_eq!(outbox.first(Purpose::Small), Some(&Waiting::Bytes([7; 36].to_vec())));
        outbox.pop(Purpose::Small);
        assert_eq!((outbox.bytes(), outbox.first(Purpose::Log)), (0, None));
        outbox.push(Purpose::Control, Waiting::Bytes([7; 6].to_vec()));
        assert_eq!(outbox.clear(), [block(2), block(1)]);
        assert_eq!((outbox.bytes(), outbox.iter().count()), (0, 0));
    }

    #[test]
    fn pieces_under_way_are_their_tasks_in_order() {
        let mut lanes = Lanes::default();
        lanes.stands(Purpose::Bulk, ChannelId(4));
        lanes.stands(Purpose::Bulk, ChannelId(5));
        assert_eq!(
            (lanes.channel(Purpose::Bulk), lanes.purpose(ChannelId(4))),
            (Some(ChannelId(4)), Some(Purpose::Bulk))
        );
        assert_eq!(lanes.purpose(ChannelId(5)), None);
        lanes.departs(Purpose::Small, &Waiting::Of(task(9), block(0), 1));
        lanes.departs(Purpose::Bulk, &Waiting::Block(block(1), 1));
        lanes.departs(Purpose::Bulk, &Waiting::Of(task(3), block(2), 1));
        assert_eq!(lanes.arrived(Purpose::Small), None);
        assert_eq!(lanes.arrived(Purpose::Bulk), None);
        assert_eq!(lanes.arrived(Purpose::Bulk), Some(task(3)));
        assert_eq!(lanes.arrived(Purpose::Bulk), None);
    }
}
