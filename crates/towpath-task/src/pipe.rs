//! A bounded pipe of arrays between two tasks: a stage of a pipeline and the next one.

use std::marker::PhantomData;

use towpath_vm::matching::Wanted;
use towpath_wire::TaskId;
use towpath_wire::talk::{CONTEXT_OWN, CONTEXTS_KEPT, Tag};

use crate::error::{RecvError, SendError};
use crate::message::Envelope;
use crate::plain::{Plain, Values};
use crate::receive::Deadline;
use crate::task::Task;

/// What goes wrong in a pipe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipeError {
    /// The other end is gone.
    #[error("task {0} at the other end of the pipe has ended")]
    Ended(TaskId),
    /// It cannot be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// Nothing can be received.
    #[error(transparent)]
    Recv(#[from] RecvError),
    /// Nobody says whether the other end lives.
    #[error(transparent)]
    Ask(#[from] crate::error::AskError),
}

/// A pipe's end that arrays are put into. At most `depth` of them are on their way: whoever puts
/// in another waits until the other end has taken one, so that a slow stage holds the ones before
/// it up instead of filling its host's memory.
///
/// ```no_run
/// use towpath_task::{Job, PipeIn, PipeOut};
/// let mut job = Job::enrol()?;
/// let (rank, size) = (job.rank(), job.size());
/// // Three stages: make, double, add up.
/// let mut before = (rank > 0).then(|| PipeOut::<f64>::new(job.member(rank - 1), 1));
/// let mut after = (rank + 1 < size).then(|| PipeIn::<f64>::new(job.member(rank + 1), 1, 4));
/// let task = &mut job.task;
/// if let (None, Some(out)) = (&before, &mut after) {
///     for strip in 0..100 {
///         out.put(task, &[f64::from(strip); 64])?;
///     }
/// }
/// if let Some(input) = &mut before {
///     while let Some(mut strip) = input.take(task)? {
///         strip.iter_mut().for_each(|x| *x *= 2.0);
///         if let Some(out) = &mut after {
///             out.put(task, &strip)?;
///         }
///     }
/// }
/// if let Some(out) = after {
///     out.close(task)?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PipeIn<T> {
    to: TaskId,
    tag: Tag,
    depth: u32,
    /// On their way.
    out: u32,
    values: PhantomData<fn(T)>,
}

/// A pipe's end that arrays come out of.
#[derive(Debug)]
pub struct PipeOut<T> {
    from: TaskId,
    tag: Tag,
    is_over: bool,
    values: PhantomData<fn() -> T>,
}

/// The context of pipes and of what says that something was taken out of one.
const PIPES: u32 = CONTEXT_OWN + 1;
const TAKEN: u32 = CONTEXT_OWN + 2;
const _: () = assert!(TAKEN < CONTEXT_OWN + CONTEXTS_KEPT);
/// The format of a pipe's end.
const END: u32 = 0;

impl<T: Plain> PipeIn<T> {
    /// A pipe to a task, told apart by its tag from others between the two; at least one array may
    /// be on its way. The other end needs the same tag ([`PipeOut::new`]).
    pub const fn new(to: TaskId, tag: Tag, depth: u32) -> Self {
        let depth = if depth == 0 { 1 } else { depth };
        Self { to, tag, depth, out: 0, values: PhantomData }
    }

    /// Puts an array in; waits while as many as may be are on their way.
    pub fn put(&mut self, task: &mut Task, values: &[T]) -> Result<(), PipeError> {
        let taken = Wanted::any().from(self.to).tag(self.tag).context(TAKEN);
        loop {
            while task.endpoint.take(&taken).is_some() {
                // One more than went out is of an earlier pipe with this tag.
                self.out = self.out.saturating_sub(1);
            }
            if self.out < self.depth {
                break;
            }
            wait(task, self.to, &taken)?;
        }
        let envelope = Envelope { tag: self.tag, context: PIPES, format: T::CODE.format() };
        self.out += 1;
        sent(task.send_with(self.to, envelope, &T::bytes(values)))
    }

    /// Says that nothing more comes.
    pub fn close(self, task: &mut Task) -> Result<(), PipeError> {
        let envelope = Envelope { tag: self.tag, context: PIPES, format: END };
        sent(task.send_with(self.to, envelope, &[]))
    }
}

impl<T: Plain> PipeOut<T> {
    /// The end of a pipe from a task with this tag.
    pub const fn new(from: TaskId, tag: Tag) -> Self {
        Self { from, tag, is_over: false, values: PhantomData }
    }

    /// Takes the next array out; waits for it. `None`: the pipe was closed.
    pub fn take(&mut self, task: &mut Task) -> Result<Option<Values<T>>, PipeError> {
        if self.is_over {
            return Ok(None);
        }
        let wanted = Wanted::any().from(self.from).tag(self.tag).context(PIPES);
        wait(task, self.from, &wanted)?;
        let Some(message) = task.recv_at_hand(&wanted)? else {
            return Err(PipeError::Ended(self.from));
        };
        if message.format() == END {
            self.is_over = true;
            return Ok(None);
        }
        let values = message.to_values::<T>().map_err(RecvError::from)?;
        let envelope = Envelope { tag: self.tag, context: TAKEN, format: 0 };
        match task.send_with(self.from, envelope, &[]) {
            // It has put everything in, and left.
            Err(SendError::NoTask(_)) => {}
            other => other?,
        }
        Ok(Some(values))
    }
}

fn sent(sent: Result<(), SendError>) -> Result<(), PipeError> {
    match sent {
        Err(SendError::NoTask(task)) => Err(PipeError::Ended(task)),
        other => Ok(other?),
    }
}

/// Waits until something that fits is there, or the task that it comes from is gone.
fn wait(task: &mut Task, from: TaskId, wanted: &Wanted) -> Result<(), PipeError> {
    if task.endpoint.probe(wanted).is_some() {
        return Ok(());
    }
    let over = if from == task.id() { None } else { Some(task.watch_member(from)?) };
    task.waits.awaited = Some(from);
    let there = task.wait_for(Deadline::NEVER, &mut |task| {
        if task.endpoint.probe(wanted).is_some() {
            return Some(true);
        }
        let has_ended = over.as_ref().is_some_and(|o| o.load(std::sync::atomic::Ordering::Relaxed));
        (has_ended || task.endpoint.has_ended(from)).then_some(false)
    })?;
    if there == Some(true) { Ok(()) } else { Err(PipeError::Ended(from)) }
}
