//! Calls and replies: a task asks another for something and gets what belongs to the question.
//!
//! A request goes in a context of its own, with the service as its tag; its first eight bytes are
//! the number by which its reply is known, which comes in the same context with the number as its
//! tag. Services have tags below 0 there, so that the two do not meet.

use std::time::Duration;

use towpath_vm::matching::Wanted;
use towpath_wire::TaskId;
use towpath_wire::talk::CONTEXT_OWN;

use crate::error::{AskError, Full, Lost, RecvError, SendError};
use crate::message::{Envelope, Message};
use crate::plain::{ContentError, Plain, Values};
use crate::receive::Deadline;
use crate::task::Task;

/// The first of those that no team has.
const CALLS: u32 = CONTEXT_OWN;
/// Bytes before a request's own.
const FRONT: usize = 8;

/// Why a call was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// Who was asked has ended, or ended before it answered.
    #[error("task {0} has ended before it answered")]
    Ended(TaskId),
    /// The answer is not of the type that was asked for.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The question could not be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// No answer can be received.
    #[error(transparent)]
    Recv(#[from] RecvError),
    /// Nobody says whether the other task lives.
    #[error(transparent)]
    Ask(#[from] AskError),
}

impl From<Lost> for CallError {
    fn from(lost: Lost) -> Self {
        Self::Recv(lost.into())
    }
}

impl From<Full> for CallError {
    fn from(full: Full) -> Self {
        Self::Recv(full.into())
    }
}

/// A question that was asked; [`Task::finish_call`] waits for its answer. Dropped, the answer stays
/// among what waits to be received, and nobody gets it.
#[derive(Debug)]
#[must_use = "the answer is got by finish_call"]
pub struct PendingCall {
    to: TaskId,
    number: i32,
}

/// A question of another task, to be answered by [`Task::reply`].
#[derive(Debug)]
pub struct Call {
    message: Message,
    number: i32,
}

impl Call {
    /// Who asks.
    pub const fn caller(&self) -> TaskId {
        self.message.src()
    }

    /// Which service it wants.
    pub const fn service(&self) -> i32 {
        !self.message.tag() as i32
    }

    /// The bytes of the question.
    pub fn bytes(&self) -> &[u8] {
        &self.message.bytes()[FRONT..]
    }

    /// The values of the question.
    pub fn values<T: Plain>(&self) -> Result<Vec<T>, ContentError> {
        let bytes = self.bytes();
        let (count, order) = crate::plain::check::<T>(self.message.format(), bytes.len())?;
        let mut values = vec![T::ZERO; count];
        T::read(bytes, order, &mut values);
        Ok(values)
    }
}

impl Task {
    /// Asks another task for something: sends values to its service (0 or more), and waits for the
    /// values that it replies with.
    ///
    /// ```no_run
    /// # let mut task = towpath_task::Task::enrol()?;
    /// # let server = task.id();
    /// const PRICE: i32 = 1;
    /// let prices = task.call::<f64, f64>(server, PRICE, &[90.0, 100.0, 0.25])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call<Q: Plain, A: Plain>(
        &mut self,
        to: TaskId,
        service: i32,
        question: &[Q],
    ) -> Result<Values<A>, CallError> {
        let pending = self.start_call(to, service, question)?;
        self.finish_call(pending)
    }

    /// Asks without waiting for the answer: several may be on their way, to one task or to many.
    /// Panics where `service` is less than 0.
    pub fn start_call<Q: Plain>(
        &mut self,
        to: TaskId,
        service: i32,
        question: &[Q],
    ) -> Result<PendingCall, CallError> {
        assert!(service >= 0, "service {service}: there are only those from 0 on");
        let number = self.next_call;
        self.next_call = number.checked_add(1).unwrap_or(0);
        let envelope =
            Envelope { tag: (!service).into(), context: CALLS, format: Q::CODE.format() };
        let front = i64::from(number).to_le_bytes();
        let sent = self.send_parts(to, envelope, &[&front, &Q::bytes(question)]);
        match sent {
            Err(SendError::NoTask(task)) => Err(CallError::Ended(task)),
            other => Ok(other.map(|()| PendingCall { to, number })?),
        }
    }

    /// Waits for the answer to a question.
    #[allow(clippy::needless_pass_by_value, reason = "an answer is got once")]
    pub fn finish_call<A: Plain>(&mut self, pending: PendingCall) -> Result<Values<A>, CallError> {
        let PendingCall { to, number } = pending;
        let wanted = Wanted::any().from(to).tag(number).context(CALLS);
        let over = if to == self.id() { None } else { Some(self.watch_member(to)?) };
        self.waits.awaited = Some(to);
        let came = self.wait_for(Deadline::NEVER, &mut |task| {
            if let Some(waiting) = task.endpoint.take(&wanted) {
                return Some(Some(Message::new(waiting)));
            }
            let has_ended =
                over.as_ref().is_some_and(|o| o.load(std::sync::atomic::Ordering::Relaxed));
            (has_ended || task.endpoint.has_ended(to)).then_some(None)
        })?;
        match came.expect("a wait without end ends with something") {
            Some(message) => Ok(message.to_values()?),
            None => Err(CallError::Ended(to)),
        }
    }

    /// The next question that another task asks this one; `service`: of this service alone.
    /// `None`: none came within `timeout` (none: however long it takes). One that makes no sense is
    /// dropped.
    pub fn next_question(
        &mut self,
        service: Option<i32>,
        timeout: Option<Duration>,
    ) -> Result<Option<Call>, RecvError> {
        let deadline = Deadline::after(timeout);
        self.waits.awaited = None;
        self.wait_for(deadline, &mut |task| {
            loop {
                let mut waiting = task.endpoint.store().iter_context(CALLS);
                let (ticket, _) = waiting.find(|(_, waiting)| {
                    // Those of other numbers are none's.
                    let asked = i32::try_from(!waiting.key.tag).ok().filter(|asked| *asked >= 0);
                    asked.is_some_and(|asked| service.is_none_or(|service| service == asked))
                })?;
                drop(waiting);
                let message = Message::new(task.endpoint.take_ticket(ticket)?);
                let front = message.bytes().first_chunk::<FRONT>();
                let number = front.and_then(|f| i32::try_from(i64::from_le_bytes(*f)).ok());
                if let Some(number) = number.filter(|number| *number >= 0) {
                    return Some(Call { message, number });
                }
            }
        })
    }

    /// Answers a question. That its caller has ended is no error: nobody waits for it.
    #[allow(clippy::needless_pass_by_value, reason = "a question is answered once")]
    pub fn reply<A: Plain>(&mut self, call: Call, answer: &[A]) -> Result<(), SendError> {
        let envelope =
            Envelope { tag: call.number.into(), context: CALLS, format: A::CODE.format() };
        match self.send_with(call.caller(), envelope, &A::bytes(answer)) {
            Err(SendError::NoTask(_)) => Ok(()),
            other => other,
        }
    }
}
