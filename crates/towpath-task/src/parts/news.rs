//! What happened beside messages.

use std::collections::VecDeque;

use towpath_vm::Stream;
use towpath_vm::talk::WatchEvent;
use towpath_wire::TaskId;

/// Something that happened. Events come in order with messages: a task's end after its last
/// message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What a watch was for.
    Notice {
        /// From [`crate::Task::watch`].
        watch: u64,
        /// What happened.
        event: WatchEvent,
    },
    /// Output of a task that this task spawned, while [`crate::Task::catch_output`] is on.
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

/// What happened beside messages.
#[derive(Default)]
pub(crate) struct News {
    /// What the program was not told yet.
    pub(crate) events: VecDeque<Event>,
    /// Events, answers and what came on channels, so far.
    pub(crate) count: u64,
}
