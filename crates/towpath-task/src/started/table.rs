//! What is started, and what came of it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use towpath_vm::endpoint::POSTED_MAX;
use towpath_vm::matching::{Number, PostedFull};
use towpath_wire::TaskId;
use towpath_wire::talk::Header;

use super::receive::Room;
use crate::error::{Lost, RecvError, SendError};
use crate::message::{Envelope, Received};

/// Sends of one task that may be started and not asked for.
pub const SENDS_MAX: usize = 4096;
/// Bytes of sends that are started and have not left yet.
pub const QUEUED_MAX: usize = 64 << 20;
/// Operations among which dropped ones are looked for.
const SWEEP_MIN: usize = 64;

/// What can go wrong with what was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartedError {
    /// As many receives are posted as may be.
    #[error(transparent)]
    Posted(#[from] PostedFull),
    /// As many sends are started as may be.
    #[error("{limit} sends are started and not finished, the most there may be")]
    Sends {
        /// How many may be.
        limit: usize,
    },
    /// What waits to leave is too much.
    #[error("{bytes} bytes would wait to leave, limit {limit}")]
    Queued {
        /// With this message.
        bytes: usize,
        /// The most that may wait.
        limit: usize,
    },
    /// It is none of this task's.
    #[error("the operation was started by another task")]
    Foreign,
    /// The message could not be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The message could not be received. If it does not fit the room, it is put behind those that
    /// wait to be received.
    #[error(transparent)]
    Recv(#[from] RecvError),
}

impl From<Lost> for StartedError {
    fn from(lost: Lost) -> Self {
        Self::Recv(lost.into())
    }
}

/// Names what was started. A receive that is dropped is taken back, and its message left to others;
/// a send that is dropped goes on.
#[derive(Debug)]
pub struct Operation {
    pub(super) slot: u32,
    token: Arc<()>,
}

/// What came of an operation.
#[derive(Debug)]
pub(super) enum Outcome {
    Received(Result<Received, RecvError>),
    Sent(Result<(), SendError>),
}

pub(super) enum What {
    Receive {
        room: Box<dyn Room>,
        /// Its number while its message has not come.
        number: Option<Number>,
        source: Option<TaskId>,
    },
    Send {
        to: TaskId,
        envelope: Envelope,
        /// Where it stands, once something of it is out.
        header: Option<Header>,
        bytes: Vec<u8>,
    },
}

pub(super) struct Slot {
    /// Alive as long as the operation's name.
    pub(super) token: Weak<()>,
    pub(super) what: What,
    /// The place among all that are over, and what came of it.
    pub(super) over: Option<(u64, Outcome)>,
}

impl Slot {
    /// Nobody can ask for it.
    pub(super) fn is_dropped(&self) -> bool {
        self.token.strong_count() == 0
    }
}

/// All that a task has started. Invariants: each number in `queues` is a send that is not over, and
/// no queue is empty; `queued` is the bytes of those; `sends` ≤ [`SENDS_MAX`].
#[derive(Default)]
pub(crate) struct Started {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// How many are over so far.
    over: u64,
    /// Sends that have not left, by receiver.
    queues: HashMap<TaskId, VecDeque<u32>>,
    queued: usize,
    sends: usize,
    /// How many there are when dropped ones are looked for.
    sweep_at: usize,
    /// Receivers whose rings have no room for the first of their queue.
    pub(crate) no_room: Vec<TaskId>,
}

impl Started {
    pub(crate) fn has_queued(&self) -> bool {
        !self.queues.is_empty()
    }

    pub(crate) fn has_queue(&self, to: TaskId) -> bool {
        self.queues.contains_key(&to)
    }

    pub(super) fn receivers(&self) -> Vec<TaskId> {
        self.queues.keys().copied().collect()
    }

    /// Whether it is time to look for dropped operations.
    pub(super) fn wants_sweep(&self) -> bool {
        self.slots.len() - self.free.len() >= self.sweep_at.max(SWEEP_MIN)
    }

    /// Forgets dropped operations; the numbers of receives among them that wait still.
    pub(super) fn sweep(&mut self) -> Vec<Number> {
        let mut numbers = Vec::new();
        for at in 0..self.slots.len() as u32 {
            let Some(slot) = self.slot(at).filter(|slot| slot.is_dropped()) else { continue };
            match (&slot.what, &slot.over) {
                (What::Receive { number: Some(number), .. }, None) => numbers.push(*number),
                // Its message is claimed, or it has yet to leave.
                (_, None) => continue,
                _ => {}
            }
            self.remove(at);
        }
        self.sweep_at = 2 * (self.slots.len() - self.free.len());
        numbers
    }

    pub(super) fn insert(&mut self, what: What, over: Option<Outcome>) -> Operation {
        let token = Arc::new(());
        self.sends += usize::from(matches!(what, What::Send { .. }));
        let over = over.map(|outcome| {
            self.over += 1;
            (self.over, outcome)
        });
        let slot = Some(Slot { token: Arc::downgrade(&token), what, over });
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[at as usize] = slot;
        Operation { slot: at, token }
    }

    pub(super) fn sends_room(&self) -> Result<(), StartedError> {
        if self.sends < SENDS_MAX { Ok(()) } else { Err(StartedError::Sends { limit: SENDS_MAX }) }
    }

    pub(super) fn slot(&mut self, at: u32) -> Option<&mut Slot> {
        self.slots.get_mut(at as usize)?.as_mut()
    }

    /// The slot of an operation, if it is one of these.
    pub(super) fn of(&mut self, operation: &Operation) -> Result<&mut Slot, StartedError> {
        let slot = self.slot(operation.slot);
        let slot = slot.filter(|slot| slot.token.as_ptr() == Arc::as_ptr(&operation.token));
        slot.ok_or(StartedError::Foreign)
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<Slot> {
        let slot = self.slots.get_mut(at as usize)?.take()?;
        self.free.push(at);
        self.sends -= usize::from(matches!(slot.what, What::Send { .. }));
        Some(slot)
    }

    /// An operation is over; who has dropped it does not ask.
    pub(super) fn end(&mut self, at: u32, outcome: Outcome) {
        self.over += 1;
        let over = self.over;
        let Some(slot) = self.slot(at) else { return };
        slot.over = Some((over, outcome));
        if slot.is_dropped() {
            self.remove(at);
        }
    }

    /// Puts a send behind others to the same task.
    pub(super) fn queue(&mut self, at: u32) {
        if let Some(Slot { what: What::Send { to, bytes, .. }, .. }) = self.slot(at) {
            let (to, len) = (*to, bytes.len());
            self.queued += len;
            self.queues.entry(to).or_default().push_back(at);
        }
    }

    pub(super) fn queue_room(&self, len: usize) -> Result<(), StartedError> {
        let (bytes, limit) = (self.queued.saturating_add(len), QUEUED_MAX);
        if bytes > limit { Err(StartedError::Queued { bytes, limit }) } else { Ok(()) }
    }

    /// The next send to a task.
    pub(super) fn first(&self, to: TaskId) -> Option<u32> {
        self.queues.get(&to)?.front().copied()
    }

    /// A send leaves its queue.
    pub(super) fn unqueue(&mut self, to: TaskId, at: u32) {
        let len = match self.slot(at) {
            Some(Slot { what: What::Send { bytes, .. }, .. }) => std::mem::take(bytes).len(),
            _ => 0,
        };
        let Some(queue) = self.queues.get_mut(&to) else { return };
        queue.retain(|other| *other != at);
        self.queued -= len;
        if queue.is_empty() {
            self.queues.remove(&to);
        }
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize) {
        (self.slots.len() - self.free.len(), self.queued)
    }
}

const _: () = assert!(POSTED_MAX + SENDS_MAX < u32::MAX as usize);
