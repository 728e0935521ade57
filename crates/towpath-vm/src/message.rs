//! What daemons tell each other, on four channels between each pair of hosts.
//!
//! ```text
//! 0..2 kind (u16) | body (postcard)
//! ```
//! An unknown kind is skipped, so that a newer daemon can say more to an older one. Bodies are
//! decoded with the bytes' own length as the bound on everything they claim.

use alloc::vec::Vec;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use towpath_wire::bytes::ParseError;
use towpath_wire::{HostId, TaskId};

use crate::channel::ChannelSpec;
use crate::log::{Entry, Snapshot};
use crate::promises::{Again, Granted, Holds, Promise, Release};
use crate::registry::{Kept, Serial};
use crate::talk::{Answer, Fault, Question, SpawnTasks};
use crate::task::{Ending, Stream, TaskExit, TaskInfo, TaskSpec};

/// Label of the channel for the control log.
pub const LABEL_LOG: u16 = 1;
/// Label of the channel for tasks.
pub const LABEL_TASK: u16 = 2;
/// Label of the channel for output, which may be long and must not hold the others up.
pub const LABEL_OUTPUT: u16 = 3;
/// Label of the channel for tasks' long messages ([`crate::data`]).
pub const LABEL_DATA: u16 = 4;
/// Label of the channel for tasks' short messages, and for what must not overtake them.
pub const LABEL_SMALL: u16 = 5;
/// Labels from here on belong to the node's owner.
pub const LABEL_OWNER: u16 = 0x100;

/// Label of the channels that are tasks' own ([`crate::channel`]).
pub const LABEL_CHANNEL: u16 = 6;
/// What one daemon tells another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// To a host that joined: who it is, and the state so far.
    Welcome(Welcome),
    /// The next entries of the control log.
    Entries(Entries),
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
    /// It has this number; it is about to run, or waits for a slot.
    Accepted(Accepted),
    /// These were accepted for one question.
    Siblings(Siblings),
    /// A task of your job wants to spawn.
    SpawnFor(SpawnFor),
    /// A task asks.
    Asked(Asked),
    /// The answer to a task.
    Answered(Answered),
    /// The same answer to several tasks.
    AnsweredAll(AnsweredAll),
    /// A task may send more to another.
    TaskCredit(TaskCredit),
    /// A task wants to.
    Blocked(Blocked),
    /// Whoever sends to a task of ours for the first time is to ask first, or not any more.
    AskFirst(Watch),
    /// To the leader: we lost the connection to a host.
    Unreachable(Unreachable),
    /// Tell us of this task's end.
    WatchTask(WatchTask),
    /// A task that we exchanged data with, or watch, has ended; nothing from it comes after this.
    TaskEnded(TaskEnded),
    /// A task of ours, which was told that yours is gone, takes nothing of it any more.
    Parted(Parted),
    /// To the leader: a task that asked about groups or mailboxes has ended.
    TaskOver(TaskOver),
    /// A task wants a stream to another.
    StreamAsk(StreamAsk),
    /// Where it is listened for; or that there will be none.
    StreamAt(StreamAt),
    /// Output for the task that catches it.
    Caught(Caught),
    /// So many more bytes of caught output may come.
    CaughtCredit(CaughtCredit),
    /// The virtual machine ends.
    Halt(Halt),
    /// Pieces of ours may come to you by way of other hosts.
    Relay(Relay),
    /// They may.
    RelayReady(Relay),
    /// These pieces of yours are here.
    Relayed(Numbers),
    /// These pieces of yours did not get past this host.
    Unrelayed(Numbers),
    /// To the leader, as the first thing of a new connection: what we know.
    Report(Report),
    /// From the leader, in answer to that: what there is, and that we go on as who we are.
    Resumed(Resumed),
    /// To the leader: the connection to a host stands, again or still.
    Reached(Unreachable),
    /// Whose a channel is that was opened on this connection.
    ChannelAsk(ChannelAsk),
    /// The task has it; or it has not, or not any more.
    ChannelAnswer(ChannelAnswer),
    /// A channel that was opened on this connection will be nobody's.
    ChannelWithdrawn(ChannelWithdrawn),
    /// From the leader: keep the log with it.
    Keep(Keep),
    /// From one that keeps the log to another.
    Consensus(Consensus),
    /// From the leader: can you reach this host? [`Message::Reached`] or [`Message::Unheard`] is
    /// the answer.
    Reach(Unreachable),
    /// From the leader to another one that keeps the log, or back: the content of a mailbox entry.
    Content(Content),
    /// The same: what is needed, lacked, stored of them.
    Contents(Contents),
    /// To the leader, which asked: that host is silent here, too.
    Unheard(Unreachable),
    /// A host that has unique tasks asks the leader whether it is a member.
    Confirm(Confirm),
    /// It was when it asked: that is decided.
    Confirmed(Confirm),
    /// To the leader: we need this of the network.
    Promise(Promise),
    /// From the leader: what came of it.
    Promised(Promised),
    /// To the leader: we have this, which you do not know of.
    Again(Again),
    /// To the leader: we need it no longer.
    Release(Release),
    /// To the leader, before anything of these: what we have.
    Holds(Holds),
    /// From the leader: say that again.
    SayHolds(SayHolds),
    /// To another one that votes: most of those that do have started again, and this host takes no
    /// part in the log for a while. How far what it has goes.
    Outnumbered(Outnumbered),
    /// To the others that keep the log: this host, which does, too, is about to end, or ends now.
    Ends(Ends),
    /// From the leader: those that keep the log can decide without you.
    MayEnd(MayEnd),
}

/// Body of [`Message::Ends`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// It decides nothing any more; else it waits to hear from the leader that it may end.
    pub now: bool,
}

/// Body of [`Message::MayEnd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MayEnd {}

/// Body of [`Message::SayHolds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SayHolds {
    /// Not before so many milliseconds have passed.
    pub after_ms: u32,
}

/// Body of [`Message::Promised`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promised {
    /// [`Promise::number`].
    pub number: u64,
    /// What is promised, or why nothing is.
    pub outcome: Result<Granted, Fault>,
}

/// Body of [`Message::Outnumbered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outnumbered {
    /// The term of whoever led last, as far as it is decided.
    pub term: u64,
    /// Which life of the log.
    pub life: u64,
    /// The term and the index of the last entry.
    pub last: (u64, u64),
}

/// Body of [`Message::Keep`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// Which life of the log.
    pub generation: u64,
    /// Who the host is in it.
    pub replica: u64,
    /// The VM key, which whoever may come to lead holds.
    pub vm_key: [u8; 32],
    /// How many are to vote at most.
    pub voters: u8,
}

impl core::fmt::Debug for Keep {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { generation, replica, voters, .. } = self;
        write!(f, "Keep {{ generation: {generation}, replica: {replica}, voters: {voters} }}")
    }
}

/// Body of [`Message::Consensus`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consensus {
    /// What [`crate::consensus::Message`] encodes.
    pub bytes: Vec<u8>,
}

/// Body of [`Message::ChannelAsk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelAsk {
    /// The channel of the connection that this message comes on.
    pub channel: u32,
    /// The task that opens it.
    pub from: TaskId,
    /// The task that it leads to.
    pub to: TaskId,
    /// What it is to be.
    pub spec: ChannelSpec,
}

/// Body of [`Message::ChannelAnswer`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelAnswer {
    /// The channel.
    pub channel: u32,
    /// Why the task has it not.
    pub outcome: Result<(), Fault>,
}

/// Body of [`Message::ChannelWithdrawn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelWithdrawn {
    /// The channel.
    pub channel: u32,
}

/// Body of [`Message::Welcome`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The newcomer's id.
    pub you: HostId,
    /// Control state, the newcomer included.
    pub snapshot: Snapshot,
}

/// Body of [`Message::Entries`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entries {
    /// In order, without gaps.
    pub entries: Vec<Entry>,
}

/// Body of [`Message::Spawn`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    /// The requester's number for it.
    pub request: u64,
    /// What to run.
    pub spec: TaskSpec,
    /// Whose child it is, when a task asked.
    pub family: Option<Family>,
}

/// What a task that another one spawned begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    /// Number of the question that it came of, by the requester.
    pub number: u64,
    /// Its parent, unless it is nobody's child.
    pub parent: Option<TaskId>,
    /// Its context.
    pub context: u32,
    /// It belongs to a job, and ends with the requester.
    pub job: bool,
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
    /// More of them follow.
    pub more: bool,
}

/// Body of [`Message::Watch`] and [`Message::AskFirst`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Somebody waits; or: ask first.
    pub on: bool,
}

/// Body of [`Message::Accepted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The requester's number for it.
    pub request: u64,
    /// The task that it will be.
    pub task: TaskId,
    /// Tasks on the sender's host now, whoever asked for them.
    pub load: u32,
}

/// Body of [`Message::Siblings`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Siblings {
    /// [`Family::number`].
    pub number: u64,
    /// The tasks, in the order asked for.
    pub tasks: Vec<TaskId>,
}

/// Body of [`Message::SpawnFor`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnFor {
    /// Number of the request that the asking task came of.
    pub request: u64,
    /// Who asks.
    pub asker: TaskId,
    /// Its number for the question.
    pub number: u64,
    /// It catches their output.
    pub catch: bool,
    /// What to start.
    pub spawn: SpawnTasks,
}

/// Body of [`Message::Asked`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Who asks.
    pub asker: TaskId,
    /// Its number for the question.
    pub number: u64,
    /// Which question of the task it is, where it may have to be asked again.
    pub serial: Serial,
    /// What.
    pub question: Question,
}

/// Body of [`Message::Answered`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// Who asked.
    pub asker: TaskId,
    /// Its number for the question.
    pub number: u64,
    /// The answer.
    pub answer: Result<Answer, Fault>,
    /// It is the first part of a long list; the rest follows.
    pub more: bool,
}

/// Body of [`Message::AnsweredAll`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredAll {
    /// Who asked, each with its number for the question.
    pub askers: Vec<(TaskId, u64)>,
    /// The answer.
    pub answer: Result<Answer, Fault>,
}

/// Body of [`Message::TaskCredit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCredit {
    /// Who receives.
    pub receiver: TaskId,
    /// Who may send.
    pub sender: TaskId,
    /// Charged bytes in all.
    pub limit: u64,
}

/// Body of [`Message::Blocked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// Who wants to send.
    pub sender: TaskId,
    /// To whom.
    pub receiver: TaskId,
    /// Charged bytes that it has sent so far.
    pub sent: u64,
    /// Charged bytes that the rest of its message costs as one piece.
    pub need: u64,
}

/// Body of [`Message::Confirm`] and [`Message::Confirmed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirm {
    /// The asking host's number for it.
    pub number: u64,
}

/// Body of [`Message::Report`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Term of the last entry applied.
    pub term: u64,
    /// Its index.
    pub index: u64,
    /// Tasks that the leader knows of because they asked about groups or mailboxes.
    pub registered: Vec<TaskId>,
    /// The state as of that entry, where it is later than what the leader said it has.
    pub snapshot: Option<Snapshot>,
}

/// Body of [`Message::Resumed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// The leader's state, where the reporter's is another.
    pub snapshot: Option<Snapshot>,
}

/// Body of [`Message::Unreachable`], [`Message::Reached`], [`Message::Reach`] and
/// [`Message::Unheard`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreachable {
    /// The host.
    pub host: HostId,
}

/// Body of [`Message::Content`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// What.
    pub kept: Kept,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Body of [`Message::Contents`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// What is said of them.
    pub of: Said,
    /// Which: [`Contents::MAX`] at most.
    pub which: Vec<Kept>,
}

impl Contents {
    /// Most that one message names: more than can be kept.
    pub const MAX: usize = 1 << 15;
}

/// What those that keep the log together say of contents of mailbox entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// From the leader: these are needed, and no others.
    Needed,
    /// To the leader, which said that: these of them are not here.
    Lacking,
    /// To the leader: these are here now.
    Stored,
    /// From the leader: nobody needs these any more.
    Over,
    /// From the leader: say these to it.
    Asked,
}

/// Body of [`Message::WatchTask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchTask {
    /// The task.
    pub task: TaskId,
}

/// Body of [`Message::TaskEnded`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnded {
    /// The task.
    pub task: TaskId,
    /// How, where it is known.
    pub ending: Option<Ending>,
}

/// Body of [`Message::Parted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parted {
    /// The task of the host that says it.
    pub task: TaskId,
    /// The task of the host that hears it.
    pub peer: TaskId,
}

/// Body of [`Message::TaskOver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOver {
    /// The task.
    pub task: TaskId,
}

/// Body of [`Message::StreamAsk`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamAsk {
    /// Who connects.
    pub from: TaskId,
    /// Who listens.
    pub to: TaskId,
    /// What proves the two to each other.
    pub key: [u8; 32],
}

impl core::fmt::Debug for StreamAsk {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "StreamAsk {{ from: {}, to: {} }}", self.from, self.to)
    }
}

/// Body of [`Message::StreamAt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamAt {
    /// Who connects.
    pub from: TaskId,
    /// Who listens.
    pub to: TaskId,
    /// The port; `None`: it does not.
    pub port: Option<u16>,
}

/// Body of [`Message::Caught`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caught {
    /// Who catches it.
    pub by: TaskId,
    /// Whose output.
    pub task: TaskId,
    /// Which.
    pub stream: Stream,
    /// The bytes; none: it has ended.
    pub bytes: Vec<u8>,
}

/// Body of [`Message::CaughtCredit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaughtCredit {
    /// Who catches it.
    pub by: TaskId,
    /// Bytes.
    pub bytes: u32,
}

/// Body of [`Message::Halt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {}

/// Body of [`Message::Relay`] and [`Message::RelayReady`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// Number of the first piece that belongs to this association; earlier ones are of one that
    /// is over.
    pub first: u64,
}

/// Ranges of [`Numbers`] in one message at most.
pub const RANGES_MAX: usize = 4096;

/// Body of [`Message::Relayed`] and [`Message::Unrelayed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// Ranges of numbers of pieces, first and last.
    pub ranges: Vec<(u64, u64)>,
}

impl Numbers {
    /// These numbers.
    pub fn of(mut numbers: Vec<u64>) -> Self {
        numbers.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some((_, last)) if number <= last.saturating_add(1) => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        Self { ranges }
    }

    /// Whether they are as [`Numbers::of`] makes them, in one message: a few ranges, each behind
    /// the one before. Of others there might be no end.
    pub fn is_plain(&self) -> bool {
        self.ranges.len() <= RANGES_MAX
            && self.ranges.iter().all(|(first, last)| first <= last)
            && self.ranges.is_sorted_by(|(_, last), (first, _)| last < first)
    }
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
    /// The body says what must be known, and is not.
    #[error("message kind {0}: {1}")]
    Refused(u16, ParseError),
}

macro_rules! kinds {
    ($name:ident: $($kind:literal $variant:ident),* $(,)?) => {
        impl $name {
            /// As bytes: the kind, then the body.
            pub fn encode(&self) -> alloc::vec::Vec<u8> {
                self.encode_into(alloc::vec::Vec::new())
            }

            /// As bytes, in a buffer that is to be used again; what was in it is gone.
            pub fn encode_into(&self, room: alloc::vec::Vec<u8>) -> alloc::vec::Vec<u8> {
                match self {
                    $(Self::$variant(body) => $crate::message::encode($kind, body, room),)*
                }
            }

            /// Takes bytes from a peer apart.
            pub fn decode(bytes: &[u8]) -> Result<Self, $crate::message::MessageError> {
                let Some((kind, body)) = bytes.split_first_chunk::<2>() else {
                    return Err($crate::message::MessageError::Short(bytes.len()));
                };
                let kind = u16::from_le_bytes(*kind);
                let message = match kind {
                    $($kind => $crate::message::decode($kind, body).map(Self::$variant),)*
                    kind => Err($crate::message::MessageError::Unknown(kind)),
                }?;
                match message.check() {
                    Ok(()) => Ok(message),
                    Err(why) => Err($crate::message::MessageError::Refused(kind, why)),
                }
            }
        }
    };
}
pub(crate) use kinds;

kinds! {
    Message:
    1 Welcome, 2 Entries, 16 Spawn, 17 Started, 18 Output, 19 Exited, 20 Kill, 21 Credit, 22 List,
    23 Tasks, 24 Watch, 25 Input, 26 InputTaken, 32 Accepted, 33 Siblings, 34 SpawnFor, 35 Asked,
    36 Answered, 37 TaskCredit, 38 WatchTask, 39 TaskEnded, 40 TaskOver, 41 StreamAsk, 42 StreamAt,
    43 Caught, 44 CaughtCredit, 45 Halt, 46 Blocked, 47 Unreachable,
    48 AnsweredAll, 49 Relay, 50 RelayReady, 51 Relayed, 52 Unrelayed,
    54 AskFirst, 55 Report, 56 Resumed, 57 Reached, 58 ChannelAsk, 59 ChannelAnswer,
    60 ChannelWithdrawn, 61 Parted, 62 Keep, 63 Consensus, 64 Reach,
    65 Promise, 66 Promised, 67 Again, 68 Release, 69 Holds, 70 SayHolds, 71 Outnumbered,
    72 Ends, 73 MayEnd, 74 Unheard, 75 Content, 76 Contents,
    77 Confirm, 78 Confirmed,
}

pub(crate) fn encode<T: Serialize>(kind: u16, body: &T, mut out: Vec<u8>) -> Vec<u8> {
    out.clear();
    out.extend_from_slice(&kind.to_le_bytes());
    postcard::to_extend(body, out).expect("a vector takes any body")
}

pub(crate) fn decode<T: DeserializeOwned>(kind: u16, body: &[u8]) -> Result<T, MessageError> {
    match postcard::take_from_bytes(body) {
        Ok((body, [])) => Ok(body),
        _ => Err(MessageError::Malformed(kind)),
    }
}

impl Message {
    /// Whether all that must be known of it is.
    pub fn check(&self) -> Result<(), ParseError> {
        match self {
            Self::Welcome(Welcome { snapshot, .. })
            | Self::Report(Report { snapshot: Some(snapshot), .. })
            | Self::Resumed(Resumed { snapshot: Some(snapshot) }) => snapshot.check(),
            Self::Entries(Entries { entries }) => {
                entries.iter().try_for_each(|entry| entry.change.check())
            }
            _ => Ok(()),
        }
    }

    /// The channel that carries it.
    pub const fn label(&self) -> u16 {
        match self {
            Self::Welcome(_)
            | Self::Entries(_)
            | Self::AskFirst(_)
            | Self::Resumed(_)
            | Self::Keep(_)
            | Self::Outnumbered(_)
            | Self::MayEnd(_)
            | Self::Consensus(_) => LABEL_LOG,
            Self::Output(_) | Self::Caught(_) | Self::Content(_) | Self::Contents(_) => {
                LABEL_OUTPUT
            }
            Self::TaskEnded(_) => LABEL_SMALL,
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
        fn any_bytes_decode_or_fail_without_a_panic(kind in 0..79u16, body: Vec<u8>) {
            let mut bytes = kind.to_le_bytes().to_vec();
            bytes.extend(body);
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
        }
    }

    #[test]
    fn numbers_are_told_as_ranges() {
        let numbers = Numbers::of(vec![7, 3, 4, 5, 9, 4, u64::MAX]);
        assert_eq!(numbers.ranges, [(3, 5), (7, 7), (9, 9), (u64::MAX, u64::MAX)]);
        assert!(numbers.is_plain() && Numbers::of(vec![]).is_plain());
        for ranges in [vec![(3, 5), (5, 9)], vec![(7, 7), (3, 5)], vec![(5, 3)]] {
            assert!(!Numbers { ranges }.is_plain());
        }
        let many = |n| Numbers::of((0..n).map(|n| 2 * n).collect());
        assert!(many(RANGES_MAX as u64).is_plain() && !many(RANGES_MAX as u64 + 1).is_plain());
    }

    #[test]
    fn messages_come_back() {
        let spec =
            TaskSpec { program: b"gzip".to_vec(), args: vec![vec![0xff]], ..Default::default() };
        let exit = TaskExit { ending: Ending::Exited(3), wall_us: 7 };
        for message in [
            Message::Spawn(Spawn { request: 1, spec, family: None }),
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
