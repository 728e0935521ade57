//! What daemons tell each other, on three channels between each pair of hosts.
//!
//! ```text
//! 0..2 kind (u16) | body (postcard)
//! ```
//! An unknown kind is skipped, so that a newer daemon can say more to an older one. Bodies are
//! decoded with the bytes' own length as the bound on everything they claim.

use alloc::vec::Vec;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use towpath_wire::{HostId, TaskId};

use crate::log::{Entry, Snapshot};
use crate::task::{Stream, TaskExit, TaskInfo, TaskSpec};

/// Label of the channel for the control log.
pub const LABEL_LOG: u16 = 1;
/// Label of the channel for tasks.
pub const LABEL_TASK: u16 = 2;
/// Label of the channel for output, which may be long and must not hold the others up.
pub const LABEL_OUTPUT: u16 = 3;
/// Labels from here on belong to the node's owner.
pub const LABEL_OWNER: u16 = 0x100;

/// What one daemon tells another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// To a host that joined: who it is, and the state so far.
    Welcome(Welcome),
    /// The next entry of the control log.
    Entry(Entry),
    /// Run this.
    Spawn(Spawn),
    /// It runs.
    Started(Started),
    /// It wrote this.
    Output(Output),
    /// It ended.
    Exited(Exited),
    /// Send it this signal.
    Kill(Kill),
    /// So many more bytes of output may come.
    Credit(Credit),
    /// Which tasks run on your host?
    List(List),
    /// These.
    Tasks(TaskList),
    /// This is for its standard input.
    Input(Input),
    /// It took so many bytes of that.
    InputTaken(Credit),
    /// To the leader: somebody here waits for news of hosts (or nobody does any more).
    Watch(Watch),
}

/// Body of [`Message::Welcome`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The newcomer's id.
    pub you: HostId,
    /// Control state, the newcomer included.
    pub snapshot: Snapshot,
}

/// Body of [`Message::Spawn`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    /// The requester's number for it.
    pub request: u64,
    /// What to run.
    pub spec: TaskSpec,
}

/// Body of [`Message::Started`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The requester's number for it.
    pub request: u64,
    /// The task.
    pub task: TaskId,
    /// Its process.
    pub pid: u32,
}

/// Body of [`Message::Output`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The requester's number for it.
    pub request: u64,
    /// Which output.
    pub stream: Stream,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Body of [`Message::Exited`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    /// The requester's number for it.
    pub request: u64,
    /// How it ended.
    pub exit: TaskExit,
    /// Bytes of output sent in all: the end counts once they have arrived.
    pub output_bytes: u64,
}

/// Body of [`Message::Kill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kill {
    /// The requester's number for it.
    pub request: u64,
    /// Signal number.
    pub signal: i32,
}

/// Body of [`Message::Credit`] and [`Message::InputTaken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// The requester's number for it.
    pub request: u64,
    /// Bytes.
    pub bytes: u32,
}

/// Body of [`Message::Input`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// The requester's number for it.
    pub request: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Nothing comes after them.
    pub end: bool,
}

/// Body of [`Message::List`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// The requester's number for the question.
    pub request: u64,
}

/// Body of [`Message::Tasks`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskList {
    /// The requester's number for the question.
    pub request: u64,
    /// The tasks.
    pub tasks: Vec<TaskInfo>,
}

/// Body of [`Message::Watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Somebody waits.
    pub on: bool,
}

/// Why a message was not understood.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum MessageError {
    /// Shorter than its kind.
    #[error("message of {0} bytes has no kind")]
    Short(usize),
    /// A kind of a later version: to be skipped.
    #[error("message kind {0} is not known")]
    Unknown(u16),
    /// The body does not decode.
    #[error("body of message kind {0} does not decode")]
    Malformed(u16),
}

macro_rules! kinds {
    ($($kind:literal $variant:ident),* $(,)?) => {
        impl Message {
            /// The message's bytes.
            pub fn encode(&self) -> Vec<u8> {
                match self {
                    $(Self::$variant(body) => encode($kind, body),)*
                }
            }

            /// Takes bytes from a peer apart.
            pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
                let Some((kind, body)) = bytes.split_first_chunk::<2>() else {
                    return Err(MessageError::Short(bytes.len()));
                };
                match u16::from_le_bytes(*kind) {
                    $($kind => decode($kind, body).map(Self::$variant),)*
                    kind => Err(MessageError::Unknown(kind)),
                }
            }
        }
    };
}

kinds! {
    1 Welcome, 2 Entry, 16 Spawn, 17 Started, 18 Output, 19 Exited, 20 Kill, 21 Credit, 22 List,
    23 Tasks, 24 Watch, 25 Input, 26 InputTaken,
}

fn encode<T: Serialize>(kind: u16, body: &T) -> Vec<u8> {
    let out = kind.to_le_bytes().to_vec();
    postcard::to_extend(body, out).expect("a vector takes any body")
}

fn decode<T: DeserializeOwned>(kind: u16, body: &[u8]) -> Result<T, MessageError> {
    match postcard::take_from_bytes(body) {
        Ok((body, [])) => Ok(body),
        _ => Err(MessageError::Malformed(kind)),
    }
}

impl Message {
    /// The channel that carries it.
    pub const fn label(&self) -> u16 {
        match self {
            Self::Welcome(_) | Self::Entry(_) => LABEL_LOG,
            Self::Output(_) => LABEL_OUTPUT,
            _ => LABEL_TASK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Ending;
    use proptest::prelude::*;
    use std::vec;

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_without_a_panic(kind in 0..40u16, body: Vec<u8>) {
            let mut bytes = kind.to_le_bytes().to_vec();
            bytes.extend(body);
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
        }
    }

    #[test]
    fn messages_come_back() {
        let spec =
            TaskSpec { program: b"gzip".to_vec(), args: vec![vec![0xff]], ..Default::default() };
        let exit = TaskExit { ending: Ending::Exited(3), wall_us: 7 };
        for message in [
            Message::Spawn(Spawn { request: 1, spec }),
            Message::Output(Output { request: 1, stream: Stream::Err, bytes: vec![1, 2] }),
            Message::Exited(Exited { request: u64::MAX, exit, output_bytes: 2 }),
            Message::Kill(Kill { request: 1, signal: -1 }),
            Message::Input(Input { request: 1, bytes: vec![7], end: true }),
            Message::InputTaken(Credit { request: 1, bytes: 1 }),
            Message::Watch(Watch { on: true }),
        ] {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn a_claimed_length_beyond_the_bytes_allocates_nothing_and_fails() {
        // Output with 2^60 bytes claimed.
        let bytes = [18, 0, 1, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
        assert_eq!(Message::decode(&bytes), Err(MessageError::Malformed(18)));
        assert_eq!(Message::decode(&[99, 0]), Err(MessageError::Unknown(99)));
        assert_eq!(Message::decode(&[1]), Err(MessageError::Short(1)));
    }
}
