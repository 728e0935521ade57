//! Channels that a task has, and what waits on them.

use std::collections::{BTreeMap, VecDeque};

use towpath_vm::channel::{ChannelSpec, Closed};
use towpath_vm::talk::{Fault, ToDaemon, ToTask};
use towpath_wire::TaskId;

use crate::error::ChannelError;

/// A channel of this task's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Channel {
    pub(crate) number: u32,
    pub(crate) peer: TaskId,
}

impl Channel {
    /// The task at the other end.
    pub const fn peer(self) -> TaskId {
        self.peer
    }

    /// Its number at this task.
    pub const fn number(self) -> u32 {
        self.number
    }
}

/// Whether messages may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Opening,
    Open,
    Refused(Fault),
    Over(Closed),
}

/// One channel. `room` is what may still be sent, as [`ChannelSpec::cost`] counts it; `untold` are
/// messages that the program has received and the daemon has not heard of.
pub(crate) struct Held {
    pub(crate) peer: TaskId,
    pub(crate) spec: ChannelSpec,
    pub(crate) state: State,
    pub(crate) room: u64,
    arrived: VecDeque<Vec<u8>>,
    untold: u32,
    untold_cost: u64,
}

impl Held {
    pub(crate) fn new(peer: TaskId, spec: ChannelSpec, state: State) -> Self {
        let room = spec.window.into();
        let arrived = VecDeque::new();
        Self { peer, spec, state, room, arrived, untold: 0, untold_cost: 0 }
    }
}

/// All of them. Invariant: `untold` names each that has something untold, once.
#[derive(Default)]
pub(crate) struct Channels {
    pub(crate) all: BTreeMap<u32, Held>,
    /// Offered, and not accepted yet.
    pub(crate) offers: VecDeque<u32>,
    pub(crate) next: u32,
    pub(crate) untold: Vec<u32>,
}

impl Channels {
    /// What the daemon says of them.
    pub(crate) fn heard(&mut self, say: ToTask) {
        match say {
            ToTask::ChannelOpen { number, outcome } => {
                if let Some(held) = self.all.get_mut(&number) {
                    held.state = outcome.map_or_else(State::Refused, |()| State::Open);
                }
            }
            ToTask::ChannelOffered { number, from, spec } => {
                self.all.insert(number, Held::new(from, spec, State::Open));
                self.offers.push_back(number);
            }
            ToTask::ChannelSent { number, bytes } => {
                if let Some(held) = self.all.get_mut(&number) {
                    held.room += bytes;
                }
            }
            ToTask::ChannelClosed { number, why } => {
                if let Some(held) = self.all.get_mut(&number) {
                    held.state = State::Over(why);
                    // Offered, and over before anybody accepted it or anything came: nobody has to
                    // know of it.
                    if held.arrived.is_empty() && self.offers.contains(&number) {
                        self.offers.retain(|offer| *offer != number);
                        self.all.remove(&number);
                    }
                }
            }
            _ => {}
        }
    }

    /// A message came. One on a channel that this task has closed is dropped.
    pub(crate) fn arrived(&mut self, number: u32, bytes: &[u8]) {
        if let Some(held) = self.all.get_mut(&number) {
            held.arrived.push_back(bytes.to_vec());
        }
    }

    /// Messages of a channel that were received and that the daemon has not heard of.
    pub(crate) fn next_untold(&mut self) -> Option<ToDaemon> {
        let number = self.untold.pop()?;
        let held = self.all.get_mut(&number)?;
        held.untold_cost = 0;
        let messages = std::mem::take(&mut held.untold);
        Some(ToDaemon::ChannelTaken { number, messages })
    }

    pub(crate) fn get(&self, channel: Channel) -> Result<&Held, ChannelError> {
        self.all.get(&channel.number).ok_or(ChannelError::NotOpen)
    }

    /// The oldest message, if it has no more than `room` bytes; `Err`: there will be none. With it,
    /// whether the daemon is to be told at once.
    pub(crate) fn take(
        &mut self,
        number: u32,
        room: usize,
    ) -> Result<Option<(Vec<u8>, bool)>, ChannelError> {
        let held = self.all.get_mut(&number).ok_or(ChannelError::NotOpen)?;
        let Some(bytes) = held.arrived.pop_front() else {
            return match held.state {
                State::Over(why) => Err(ChannelError::Closed(why)),
                _ => Ok(None),
            };
        };
        let len = bytes.len();
        if len > room {
            held.arrived.push_front(bytes);
            return Err(ChannelError::NoRoom { len, room });
        }
        if held.untold == 0 {
            self.untold.push(number);
        }
        held.untold += 1;
        held.untold_cost += held.spec.cost(bytes.len() as u32);
        Ok(Some((bytes, held.untold_cost >= u64::from(held.spec.window / 4))))
    }
}
