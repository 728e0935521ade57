//! Posted receives.

use std::any::Any;
use std::marker::PhantomData;

use towpath_vm::endpoint::{POSTED_MAX, Parcel};
use towpath_vm::matching::{Pattern, Waiting};

use super::table::{Operation, Outcome, StartedError, What};
use crate::error::RecvError;
use crate::message::{Far, Received, about, bytes};
use crate::plain::{self, Plain};
use crate::task::Task;

/// Memory that a posted receive fills when its message has come: a `Vec` of values, or [`Bytes`].
pub trait Room: Any + Send {
    /// Takes a message's bytes, unless they do not fit; called with one message after another until
    /// it has taken one.
    fn fill(&mut self, about: &Received, bytes: &[u8]) -> Result<(), RecvError>;
}

/// As many values as it has, or fewer: it is cut to those that came.
impl<T: Plain> Room for Vec<T> {
    fn fill(&mut self, about: &Received, bytes: &[u8]) -> Result<(), RecvError> {
        let (count, order) = plain::check::<T>(about.format, bytes.len())?;
        if count > self.len() {
            return Err(RecvError::TooLong { len: bytes.len(), room: self.len() * T::SIZE });
        }
        self.truncate(count);
        T::read(bytes, order, self);
        Ok(())
    }
}

/// Room for bytes of whatever format; it is cut to those that came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Room for Bytes {
    fn fill(&mut self, _: &Received, bytes: &[u8]) -> Result<(), RecvError> {
        let Self(room) = self;
        if bytes.len() > room.len() {
            return Err(RecvError::TooLong { len: bytes.len(), room: room.len() });
        }
        room.truncate(bytes.len());
        room.copy_from_slice(bytes);
        Ok(())
    }
}

/// A receive that was posted. Dropped, it is taken back, and its message left to others.
#[derive(Debug)]
#[must_use = "dropped, it is taken back"]
pub struct PendingReceive<R> {
    operation: Operation,
    room: PhantomData<fn() -> R>,
}

impl<R> AsRef<Operation> for PendingReceive<R> {
    fn as_ref(&self) -> &Operation {
        &self.operation
    }
}

/// What became of a receive that was to be taken back.
#[derive(Debug, PartialEq)]
pub enum Cancelled<R> {
    /// Nothing had come: here is its room.
    Back(R),
    /// Its message was there already.
    Came(R, Received),
}

impl Task {
    /// Posts a receive: the earliest message that fits goes to it, also one that waits already, and
    /// into `room` as soon as it is whole. At most [`POSTED_MAX`] may be posted; the earlier goes
    /// before the later where both fit. `what` is a [`Wanted`](crate::Wanted), or a [`Pattern`] of
    /// bits of context and tag.
    pub fn start_recv<R: Room>(
        &mut self,
        what: impl Into<Pattern>,
        room: R,
    ) -> Result<PendingReceive<R>, StartedError> {
        self.check()?;
        self.sweep_started();
        // What rings hold came before.
        self.take_in()?;
        let pattern = what.into();
        let receive =
            What::Receive { room: Box::new(room), number: None, source: pattern.source() };
        let operation = self.started.insert(receive, None);
        let life = self.started.of(&operation)?.token.clone();
        match self.endpoint.post_receive(pattern, operation.slot, life) {
            Ok(posted) => {
                if let What::Receive { number, .. } = &mut self.started.of(&operation)?.what {
                    *number = posted;
                }
            }
            Err(full) => {
                self.started.remove(operation.slot);
                return Err(full.into());
            }
        }
        self.waits.attention = true;
        self.advance();
        self.flush()?;
        Ok(PendingReceive { operation, room: PhantomData })
    }

    /// Waits until a posted receive is over; its room, cut to what came, and what is known of that.
    #[allow(clippy::needless_pass_by_value, reason = "nobody can ask for it afterwards")]
    pub fn finish_recv<R: Room>(
        &mut self,
        pending: PendingReceive<R>,
    ) -> Result<(R, Received), StartedError> {
        self.wait_started(&pending, None)?;
        let (room, outcome) = self.end_receive(&pending)?;
        match outcome {
            Some(received) => Ok((room, received?)),
            None => unreachable!("a wait without end ends when the operation is over"),
        }
    }

    /// Takes a posted receive back, unless its message has come.
    #[allow(clippy::needless_pass_by_value, reason = "nobody can ask for it afterwards")]
    pub fn cancel_recv<R: Room>(
        &mut self,
        pending: PendingReceive<R>,
    ) -> Result<Cancelled<R>, StartedError> {
        self.started.of(&pending.operation)?;
        // Its message may be here, and not taken in yet.
        self.take_in()?;
        self.flush()?;
        let slot = self.started.of(&pending.operation)?;
        if let (What::Receive { number: Some(number), .. }, None) = (&slot.what, &slot.over) {
            self.endpoint.cancel(*number);
        }
        let (room, outcome) = self.end_receive(&pending)?;
        Ok(match outcome {
            Some(received) => Cancelled::Came(room, received?),
            None => Cancelled::Back(room),
        })
    }

    fn end_receive<R: Room>(
        &mut self,
        pending: &PendingReceive<R>,
    ) -> Result<(R, Option<Result<Received, RecvError>>), StartedError> {
        self.started.of(&pending.operation)?;
        let slot = self.started.remove(pending.operation.slot).ok_or(StartedError::Foreign)?;
        let What::Receive { room, .. } = slot.what else { return Err(StartedError::Foreign) };
        let room: Box<dyn Any> = room;
        let room = room.downcast::<R>().map_err(|_| StartedError::Foreign)?;
        let outcome = slot.over.map(|(_, outcome)| match outcome {
            Outcome::Received(received) => received,
            Outcome::Sent(_) => unreachable!("a receive receives"),
        });
        Ok((*room, outcome))
    }

    /// Forgets what was dropped, when there is much.
    pub(super) fn sweep_started(&mut self) {
        if self.started.wants_sweep() || self.endpoint.posted() >= POSTED_MAX {
            // No message is left to one of them.
            self.fill_rooms();
            for number in self.started.sweep() {
                self.endpoint.cancel(number);
            }
        }
    }

    /// Fills the rooms of receives whose messages have come.
    pub(super) fn fill_rooms(&mut self) {
        while let Some((slot, waiting)) = self.endpoint.claimed() {
            self.fill_room(slot, waiting);
        }
    }

    fn fill_room(&mut self, at: u32, waiting: Waiting<Parcel<Far>>) {
        let received = about(&waiting);
        let slot = self.started.slot(at).filter(|slot| !slot.is_dropped());
        let filled = slot.and_then(|slot| match &mut slot.what {
            What::Receive { room, .. } => {
                Some(room.fill(&received, bytes(&waiting.payload.body)).map(|()| received))
            }
            What::Send { .. } => None,
        });
        match filled {
            Some(Ok(received)) => {
                self.started.end(at, Outcome::Received(Ok(received)));
                self.endpoint.reuse(waiting.payload.body);
            }
            // Others may have it.
            other => {
                match other {
                    Some(failed) => self.started.end(at, Outcome::Received(failed)),
                    None => drop(self.started.remove(at)),
                }
                self.endpoint.post(waiting.key, waiting.bytes, waiting.payload);
            }
        }
    }
}
