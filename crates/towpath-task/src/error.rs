//! What can go wrong, an enum per operation.

use std::io;
use std::path::PathBuf;

use towpath_vm::channel::Closed;
use towpath_vm::talk::Fault;
use towpath_wire::TaskId;

use crate::plain::ContentError;

/// The way to the daemon is closed: nothing works any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The daemon ended, or said that this task should.
    #[error("the daemon is gone: {0}")]
    Daemon(String),
    /// This process is a forked child of the one that enrolled.
    #[error("this process was forked from the task\nhint: enrol anew to become a task")]
    Forked,
}

/// Why a process cannot become a task.
#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    /// No daemon answers.
    #[error("no daemon answers at {path}: {why}\nhint: start one with `towpath up`")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the operating system says.
        why: io::Error,
    },
    /// There is no daemon of this virtual machine on this machine.
    #[error("no daemon runs in {0}\nhint: start one with `towpath up`")]
    NoDaemon(PathBuf),
    /// Neither `TOWPATH_HOME` nor `HOME` is set.
    #[error("neither TOWPATH_HOME nor HOME is set\nhint: set TOWPATH_HOME to a directory of yours")]
    NoHome,
    /// A variable that a daemon sets does not hold what it should.
    #[error("environment variable {0} is damaged")]
    Environment(&'static str),
    /// The daemon does not want it.
    #[error("the daemon refused: {0}")]
    Refused(String),
    /// The operating system refused something.
    #[error("{what}: {why}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it says.
        why: io::Error,
    },
    /// The daemon went away before it answered.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The receiver has ended.
    #[error("task {0} has ended")]
    NoTask(TaskId),
    /// Too many receivers.
    #[error("{count} receivers, limit {limit}")]
    Receivers {
        /// How many.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A task that leaves could not get rid of what it had sent.
    #[error("{pieces} pieces of messages are lost: their receivers took nothing for {seconds} s")]
    Undelivered {
        /// How many.
        pieces: usize,
        /// How long it waited since something was last taken.
        seconds: u64,
    },
    /// Messages that came in while this one waited do not fit. Nothing of it was sent: once some
    /// were received, it can be sent again.
    #[error(transparent)]
    Full(#[from] Full),
    /// No way to the daemon.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// The memory for messages that nobody has received yet is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{bytes} bytes of messages wait to be received, limit {limit}\n\
     hint: receive them, or raise TOWPATH_UNEXPECTED_MAX"
)]
pub struct Full {
    /// Bytes that wait.
    pub bytes: u64,
    /// The limit.
    pub limit: u64,
}

/// Why nothing was received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecvError {
    /// What is wanted is not there, and no more can be taken in.
    #[error(transparent)]
    Full(#[from] Full),
    /// The message holds something else than was asked for; it stays.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The message is longer than the room given; it stays.
    #[error("message of {len} bytes, room for {room}")]
    TooLong {
        /// Its length.
        len: usize,
        /// The room.
        room: usize,
    },
    /// No way to the daemon.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Why a question was not answered as hoped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The virtual machine says no.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The answer is to another question.
    #[error("the daemon answered another question than was asked")]
    Unexpected,
    /// The question does not fit into a frame.
    #[error("question of {len} bytes, limit {limit}")]
    TooLong {
        /// Its length.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// Messages that came in while it waited do not fit.
    #[error(transparent)]
    Full(#[from] Full),
    /// No way to the daemon.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Why there is no channel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The specification contradicts itself, a limit is reached, or there is no such task.
    #[error("no channel: {0}")]
    Refused(#[from] Fault),
    /// Asking failed.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// No way to the daemon.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// What went wrong with a channel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The other task closed it or ended, or the connection to its host is over.
    #[error("the channel is over: {}", over(*.0))]
    Closed(Closed),
    /// This task has no such channel (any more).
    #[error("this task has no such channel")]
    NotOpen,
    /// The message is too long for the channel.
    #[error("message of {len} bytes, limit {limit} (the channel's room and a frame's length)")]
    TooLong {
        /// Its length.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// The message that came is longer than the room given; it stays.
    #[error("message of {len} bytes, room for {room}")]
    NoRoom {
        /// Its length.
        len: usize,
        /// The room.
        room: usize,
    },
    /// A deadline for a message on a channel that keeps none.
    #[error("a message with a deadline, but the channel is not timely")]
    NotTimely,
    /// The deadline was over before the message could be sent.
    #[error("the deadline was over before there was room for the message")]
    TooLate,
    /// Messages that came in while it waited do not fit.
    #[error(transparent)]
    Full(#[from] Full),
    /// No way to the daemon.
    #[error(transparent)]
    Lost(#[from] Lost),
}

const fn over(why: Closed) -> &'static str {
    match why {
        Closed::ByPeer => "the other task closed it, or has ended",
        Closed::Cut => "the connection to the other task's host was lost\nhint: open another",
    }
}

impl From<RecvError> for ChannelError {
    fn from(e: RecvError) -> Self {
        match e {
            RecvError::Full(full) => Self::Full(full),
            RecvError::Lost(lost) => Self::Lost(lost),
            RecvError::TooLong { .. } | RecvError::Content(_) => unreachable!("{WAITS_ONLY}"),
        }
    }
}

/// What a wait that receives nothing does not say.
const WAITS_ONLY: &str = "only a receive says so";

impl From<RecvError> for SendError {
    fn from(e: RecvError) -> Self {
        match e {
            RecvError::Full(full) => Self::Full(full),
            RecvError::Lost(lost) => Self::Lost(lost),
            RecvError::TooLong { .. } | RecvError::Content(_) => unreachable!("{WAITS_ONLY}"),
        }
    }
}
