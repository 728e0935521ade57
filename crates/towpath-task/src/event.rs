//! What happens beside messages.

use towpath_vm::Stream;
use towpath_vm::talk::{ToDaemon, WatchEvent, encode};
use towpath_wire::TaskId;

use crate::message::Envelope;
use crate::task::Task;

/// Something that happened. Events come in order with messages: a task's end after its last
/// message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What a watch was for.
    Notice {
        /// From [`Task::watch`].
        watch: u64,
        /// What happened.
        event: WatchEvent,
    },
    /// Output of a task that this task spawned, while [`Task::catch_output`] is on.
    Output {
        /// Whose.
        task: TaskId,
        /// Which.
        stream: Stream,
        /// The bytes; none: it has ended.
        bytes: Vec<u8>,
    },
    /// The daemon ends, or its host was lost: so should this task.
    End(String),
}

/// A message made of an event, for this task itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// Who is to be seen as its sender.
    pub src: TaskId,
    /// Tag, context and format.
    pub envelope: Envelope,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Makes messages of events.
pub type Translate = Box<dyn FnMut(&Event) -> Option<Local> + Send>;

impl Task {
    /// What happened next, if anything did; does not wait ([`Task::wait`] does).
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.output_taken(&event);
        Some(event)
    }

    /// From now on, `translate` is asked about each event as it comes in, in order with messages.
    /// What it makes of one is put among this task's waiting messages, and the event is gone;
    /// an event that it makes nothing of goes to [`Task::next_event`].
    pub fn events_as_messages(&mut self, translate: Option<Translate>) {
        self.translate = translate;
    }

    /// More output may come as far as this was some.
    pub(crate) fn output_taken(&mut self, event: &Event) {
        if let Event::Output { bytes, .. } = event {
            let credit = ToDaemon::OutputCredit(bytes.len() as u32);
            self.link.queue(&encode(&credit, Vec::new()));
        }
    }
}
