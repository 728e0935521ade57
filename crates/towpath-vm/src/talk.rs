//! What a task and its daemon say to each other, in control frames ([`towpath_wire::talk`]).
//!
//! A task first says [`ToDaemon::Enrol`] and is answered [`ToTask::Welcome`] or
//! [`ToTask::Refused`]; nothing else comes before. Questions carry a number of the task's choice
//! and are answered in any order, each exactly once.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use towpath_wire::{HostId, TaskId};

use crate::channel::{ChannelSpec, ChannelStatus, Closed};
use crate::host::Host;
use crate::task::{Ending, Stream, TaskInfo, cut};

/// Version of this vocabulary; both sides must say the same.
pub const TALK_VERSION: u32 = 5;
/// What a task may send to another through the daemons before it asked for credit, in charged
/// bytes: a piece costs its payload and [`towpath_wire::talk::PIECE_CHARGE`]. Nothing, while the
/// other's host wants to be asked first ([`ToTask::AskFirst`]).
pub const CREDIT_FIRST: u64 = 16 << 10;
/// Longest name of a group or mailbox, in bytes.
pub const NAME_MAX: usize = 256;
/// Longest content of a mailbox entry, in bytes.
pub const MAIL_MAX: usize = 512 << 10;
/// Most tasks spawned by one question.
pub const SPAWN_MAX: u32 = 4096;
/// Most questions of one task that wait for their answers.
pub const QUESTIONS_MAX: usize = 4096;
/// Most watches of one task.
pub const WATCHES_MAX: usize = 65_536;

/// From a task to its daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToDaemon {
    /// The first thing said.
    Enrol(Enrol),
    /// This task wants to send `peer` more than it may. Answered once, by [`ToTask::Credit`] or
    /// [`ToTask::Gone`]; not to be repeated before. From the first time on, what may be sent
    /// without asking may not be any more.
    Blocked {
        /// The receiver.
        peer: TaskId,
        /// Charged bytes that the rest of the message costs as one piece.
        need: u64,
    },
    /// Set up the direct route to a task. Answered by [`ToTask::Ring`], [`ToTask::Stream`] or
    /// [`ToTask::NoDirect`].
    Direct {
        /// The task.
        peer: TaskId,
    },
    /// The direct route to `peer` was closed by this task, to make room. The peer is told
    /// [`ToTask::NoDirect`]; either may ask for it again.
    CloseDirect {
        /// The task.
        peer: TaskId,
    },
    /// The ring of [`ToTask::Ring`] cannot be used: the descriptors did not come, or could not be
    /// mapped. The peer is told [`ToTask::RingFailed`], and neither gets a ring to the other again.
    RingFailed {
        /// The task.
        peer: TaskId,
    },
    /// This task listens for a stream from `peer`, as [`ToTask::Stream`] asked it to.
    Listening {
        /// The task that connects.
        peer: TaskId,
        /// The port, on this host's address.
        port: u16,
    },
    /// A question.
    Ask {
        /// Comes back in the answer.
        number: u64,
        /// What is asked.
        question: Question,
    },
    /// Tell of an end or of hosts from now on, by [`ToTask::Notice`].
    Watch {
        /// Comes back in each notice; not in use by another watch of this task.
        watch: u64,
        /// What to watch.
        subject: Subject,
    },
    /// Stop telling.
    Unwatch {
        /// From [`ToDaemon::Watch`].
        watch: u64,
    },
    /// Output of the tasks that this task spawns from now on comes to it as
    /// [`ToTask::Output`] (`true`), or goes where this task's own goes.
    CatchOutput(bool),
    /// So many more bytes of caught output may come.
    OutputCredit(u32),
    /// Open a channel. Answered by [`ToTask::ChannelOpen`].
    OpenChannel {
        /// Its number at this task, even, and not that of another channel it has.
        number: u32,
        /// To whom.
        to: TaskId,
        /// What it is to be.
        spec: ChannelSpec,
    },
    /// Messages that came on a channel were received: as many more may come.
    ChannelTaken {
        /// The channel.
        number: u32,
        /// How many messages, the oldest first.
        messages: u32,
    },
    /// This task is done with a channel. Everything sent on it is delivered.
    CloseChannel {
        /// The channel.
        number: u32,
    },
    /// This task leaves the virtual machine; its process goes on. Everything sent before is
    /// delivered.
    Leave,
    /// A stream stands; its socket comes with this frame. The daemon holds it until the stream is
    /// over, so that the kernel sends what the task has written even when the task is killed.
    Hold,
}

/// Body of [`ToDaemon::Enrol`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrol {
    /// [`TALK_VERSION`].
    pub version: u32,
    /// What a task started by a daemon finds in its environment. A claim that was already used
    /// (after a fork) is as none: the process becomes a new task.
    pub claim: Option<Claim>,
    /// The process.
    pub pid: u32,
    /// Its program, for people.
    pub command: String,
}

/// Proof of having been started as a task (`TOWPATH_TASK`, `TOWPATH_COOKIE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Who.
    pub task: TaskId,
    /// The secret given with it.
    pub cookie: u64,
}

/// What to watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// The end of a task (also when it has ended already, or is not known).
    Task(TaskId),
    /// The loss or departure of a host (also when it is already gone).
    Host(HostId),
    /// Hosts that join.
    NewHosts,
}

/// What a task asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Which hosts are there? [`Answer::Hosts`].
    Hosts,
    /// Which tasks run on a host, or everywhere? [`Answer::Tasks`].
    Tasks(Option<HostId>),
    /// Does this task run? [`Answer::Tasks`] of one, or [`Fault::NoTask`].
    Task(TaskId),
    /// Start tasks. [`Answer::Spawned`].
    Spawn(SpawnTasks),
    /// Send a signal to a task. [`Answer::Done`].
    Signal {
        /// The task.
        task: TaskId,
        /// Signal number.
        signal: i32,
    },
    /// Groups and mailboxes. [`Answer::Registry`].
    Registry(RegistryOp),
    /// Delete hosts from the virtual machine. [`Answer::Each`], one per host.
    DeleteHosts(Vec<HostId>),
    /// Wall clock of a host, in microseconds since 1970. [`Answer::Clock`].
    Clock(HostId),
    /// End the whole virtual machine. [`Answer::Done`] comes first.
    Halt,
    /// How does a channel of this task stand? [`Answer::Channel`].
    Channel(u32),
}

/// Where to start tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// Where the load is least, fewest tasks per processor, of those that the asker's host has
    /// started anywhere and those that it runs itself; what others started it does not know.
    #[default]
    Any,
    /// On one host.
    Host(HostId),
    /// On the host with this name.
    Name(String),
    /// On hosts of this architecture (as in `Host::arch`: `x86_64-linux`), by load.
    Arch(String),
    /// Anywhere but on this host.
    Not(HostId),
}

/// Tasks to start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnTasks {
    /// Program: a path, or a name looked up on the host.
    pub program: Vec<u8>,
    /// Arguments after the program's name.
    pub args: Vec<Vec<u8>>,
    /// Variables added to the daemon's environment.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Working directory; empty: the daemon's.
    pub cwd: Vec<u8>,
    /// Where.
    pub place: Place,
    /// How many, 1 to [`SPAWN_MAX`].
    pub count: u32,
    /// Context that the children begin with.
    pub context: u32,
    /// They are nobody's children.
    pub orphan: bool,
    /// Nothing may take their place before they are over ([`crate::TaskSpec::unique`]).
    pub unique: bool,
}

/// Groups and mailboxes, kept by the leader in one order. `C`: what stands for the content of a
/// mailbox entry, the bytes themselves wherever tasks and hosts speak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistryOp<C = Vec<u8>> {
    /// Join a group, made by its first member. [`RegistryAnswer::Instance`], the lowest free one.
    Join(String),
    /// Leave a group. [`RegistryAnswer::Done`].
    Leave(String),
    /// Who is in a group? [`RegistryAnswer::Members`].
    Members(String),
    /// Wait until `count` members have asked the same; 0: as many as there are members.
    /// [`RegistryAnswer::Done`] to all of them at once.
    Barrier {
        /// The group; the asker must be in it.
        group: String,
        /// How many.
        count: u32,
    },
    /// Wait until the group has `count` members, then freeze it: the list stays as it is and is
    /// the same for everyone, and so is its context. [`RegistryAnswer::Members`].
    Freeze {
        /// The group.
        group: String,
        /// How many.
        count: u32,
    },
    /// Which groups are there? [`RegistryAnswer::Groups`].
    Groups,
    /// Put an entry into a mailbox. [`RegistryAnswer::Index`].
    Put {
        /// The mailbox.
        name: String,
        /// Place in it; `None`: the first. With [`MailRules::many`] the first free one from there.
        index: Option<u32>,
        /// Rules.
        rules: MailRules,
        /// Meaning of the content, as in a message header.
        format: u32,
        /// At most [`MAIL_MAX`] bytes.
        content: C,
    },
    /// Read an entry. [`RegistryAnswer::Mail`].
    Get {
        /// The mailbox.
        name: String,
        /// Place in it; `None`: the first there is from `from` on.
        index: Option<u32>,
        /// Where to begin the search.
        from: u32,
        /// Take it out.
        delete: bool,
        /// Wait until there is one.
        wait: bool,
    },
    /// Delete an entry. [`RegistryAnswer::Done`].
    Delete {
        /// The mailbox.
        name: String,
        /// Place in it.
        index: u32,
    },
    /// Which entries are there? [`RegistryAnswer::Mailboxes`].
    Mailboxes {
        /// Of mailboxes whose names match: `*` stands for any text.
        pattern: String,
    },
}

/// Rules of a mailbox entry (PVM's flags).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailRules {
    /// It outlives its owner.
    pub persistent: bool,
    /// The mailbox may have several entries.
    pub many: bool,
    /// Others may overwrite and delete it.
    pub overwritable: bool,
}

/// From a daemon to its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToTask {
    /// Enrolled. With descriptors: the task's own segment (writable), its bell (eventfd).
    Welcome(Welcome),
    /// Not enrolled; the connection ends.
    Refused(String),
    /// This task may have sent `limit` charged bytes to `peer` through the daemons in all.
    Credit {
        /// The receiver.
        peer: TaskId,
        /// Charged bytes since the first message.
        limit: u64,
    },
    /// The direct route to a task of this host. With descriptors: own half of the pair
    /// (writable), the peer's half (read-only), the peer's segment (read-only), its bell.
    Ring {
        /// The peer.
        peer: TaskId,
    },
    /// The direct route to a task of another host: a stream to open, by this key.
    Stream(StreamOffer),
    /// There is no direct route to this task (any more); use the daemons.
    NoDirect {
        /// The peer.
        peer: TaskId,
    },
    /// The peer does not read the ring to it: send what it has not taken by the daemons.
    RingFailed {
        /// The peer.
        peer: TaskId,
    },
    /// A peer that this task exchanged data with or has a direct route to has ended, or the
    /// connection to its host broke: take in what it still has in its ring, nothing more comes.
    /// Told once, after the peer's last data; what is known about the pair is to be forgotten.
    Gone {
        /// The peer.
        peer: TaskId,
    },
    /// The answer to a question.
    Answer {
        /// From the question.
        number: u64,
        /// The answer.
        answer: Result<Answer, Fault>,
    },
    /// The first tasks of a long [`Answer::Tasks`]; more of them follow.
    Part {
        /// From the question.
        number: u64,
        /// Tasks.
        tasks: Vec<TaskInfo>,
    },
    /// What a watch was for.
    Notice {
        /// From [`ToDaemon::Watch`].
        watch: u64,
        /// What happened.
        event: WatchEvent,
    },
    /// Caught output of a task that this task spawned.
    Output {
        /// Whose.
        task: TaskId,
        /// Which.
        stream: Stream,
        /// The bytes; none: it has ended.
        bytes: Vec<u8>,
    },
    /// The daemon ends, or this host was lost to the virtual machine: so should the task.
    End(String),
    /// Before anything is sent to a task of this host through the daemons for the first time, ask
    /// for it by [`ToDaemon::Blocked`]; or not any more.
    AskFirst {
        /// The host.
        host: HostId,
        /// Whether to ask.
        on: bool,
    },
    /// The channel that this task asked for stands, or there is none and why.
    ChannelOpen {
        /// The channel.
        number: u32,
        /// Why not.
        outcome: Result<(), Fault>,
    },
    /// Another task has opened a channel to this one.
    ChannelOffered {
        /// Its number at this task, odd.
        number: u32,
        /// By whom.
        from: TaskId,
        /// What it is.
        spec: ChannelSpec,
    },
    /// What was sent on a channel is settled: its room is free again.
    ChannelSent {
        /// The channel.
        number: u32,
        /// Bytes of room.
        bytes: u64,
    },
    /// A channel is over; nothing comes on it any more.
    ChannelClosed {
        /// The channel.
        number: u32,
        /// Why.
        why: Closed,
    },
    /// The daemon has copied so many more lent pieces, in the order in which they were sent.
    Taken {
        /// How many.
        count: u32,
    },
}

/// Body of [`ToTask::Welcome`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Who the task is.
    pub you: TaskId,
    /// Who spawned it.
    pub parent: Option<TaskId>,
    /// All that were accepted with it when a task spawned it, itself included and in order, even
    /// if one could not be started; else empty.
    pub siblings: Vec<TaskId>,
    /// Context to begin with.
    pub context: u32,
    /// Bytes that its segment has.
    pub segment_bytes: u64,
    /// Hosts of which [`ToTask::AskFirst`] is true.
    pub ask_first: Vec<HostId>,
}

/// Body of [`ToTask::Stream`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamOffer {
    /// The peer.
    pub peer: TaskId,
    /// Listen and tell the address (`None`), or connect to this one.
    pub address: Option<core::net::SocketAddr>,
    /// What proves the two to each other: both have it, and nobody else.
    pub key: [u8; 32],
}

/// What happened to the subject of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchEvent {
    /// The task ended; every message that it sent to this task by the daemons came before.
    TaskEnded {
        /// The task.
        task: TaskId,
        /// How, where it is known.
        ending: Option<Ending>,
    },
    /// The host is gone.
    HostGone {
        /// The host.
        host: HostId,
        /// It was lost, not deleted.
        lost: bool,
    },
    /// A host joined.
    HostAdded(Host),
}

/// Answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It is done.
    Done,
    /// Every host.
    Hosts(Vec<Host>),
    /// Tasks.
    Tasks(Vec<TaskInfo>),
    /// One result per task asked for, in order.
    Spawned(Vec<Result<TaskId, Fault>>),
    /// One result per item.
    Each(Vec<Result<(), Fault>>),
    /// About groups and mailboxes.
    Registry(RegistryAnswer),
    /// A host's wall clock, in microseconds since 1970.
    Clock(u64),
    /// A channel.
    Channel(Box<ChannelStatus>),
}

impl<C> RegistryOp<C> {
    /// The same with something else for the content, where it has one.
    pub fn with_content<D, E>(
        self,
        put: impl FnOnce(C) -> Result<D, E>,
    ) -> Result<RegistryOp<D>, E> {
        Ok(match self {
            Self::Join(name) => RegistryOp::Join(name),
            Self::Leave(name) => RegistryOp::Leave(name),
            Self::Members(name) => RegistryOp::Members(name),
            Self::Barrier { group, count } => RegistryOp::Barrier { group, count },
            Self::Freeze { group, count } => RegistryOp::Freeze { group, count },
            Self::Groups => RegistryOp::Groups,
            Self::Put { name, index, rules, format, content } => {
                RegistryOp::Put { name, index, rules, format, content: put(content)? }
            }
            Self::Get { name, index, from, delete, wait } => {
                RegistryOp::Get { name, index, from, delete, wait }
            }
            Self::Delete { name, index } => RegistryOp::Delete { name, index },
            Self::Mailboxes { pattern } => RegistryOp::Mailboxes { pattern },
        })
    }
}

/// Answers about groups and mailboxes; `C` as in [`RegistryOp`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistryAnswer<C = Vec<u8>> {
    /// It is done.
    Done,
    /// The asker's instance number in the group.
    Instance(u32),
    /// Members by instance number (there may be holes), and how often the group has changed.
    Members {
        /// By instance number.
        members: Vec<Option<TaskId>>,
        /// Changes since it was made.
        version: u64,
        /// For messages among the members of a frozen group: used by nothing else; 0 where the
        /// group is not frozen.
        context: u32,
    },
    /// Names of groups with their sizes.
    Groups(Vec<(String, u32)>),
    /// Place of an entry.
    Index(u32),
    /// An entry.
    Mail {
        /// Its place.
        index: u32,
        /// Who put it; `None` once that has ended.
        owner: Option<TaskId>,
        /// Its rules.
        rules: MailRules,
        /// As put.
        format: u32,
        /// As put.
        content: C,
    },
    /// Mailboxes with their entries.
    Mailboxes(Vec<Mailbox>),
}

impl<C> RegistryAnswer<C> {
    /// The same with something else for the content, where it has one.
    pub fn with_content<D, E>(
        self,
        put: impl FnOnce(C) -> Result<D, E>,
    ) -> Result<RegistryAnswer<D>, E> {
        Ok(match self {
            Self::Done => RegistryAnswer::Done,
            Self::Instance(instance) => RegistryAnswer::Instance(instance),
            Self::Members { members, version, context } => {
                RegistryAnswer::Members { members, version, context }
            }
            Self::Groups(groups) => RegistryAnswer::Groups(groups),
            Self::Index(index) => RegistryAnswer::Index(index),
            Self::Mail { index, owner, rules, format, content } => {
                RegistryAnswer::Mail { index, owner, rules, format, content: put(content)? }
            }
            Self::Mailboxes(boxes) => RegistryAnswer::Mailboxes(boxes),
        })
    }
}

/// A mailbox as listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailbox {
    /// Its name.
    pub name: String,
    /// Place, owner and rules of each entry.
    pub entries: Vec<(u32, Option<TaskId>, MailRules)>,
}

/// Why something asked for was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Fault {
    /// This host is not (or no longer) part of a virtual machine.
    #[error("this host is not part of a virtual machine")]
    NotJoined,
    /// No such host, or none that fits.
    #[error("no such host")]
    NoHost,
    /// No such task.
    #[error("no such task")]
    NoTask,
    /// The program could not be started.
    #[error("could not be started: {text}")]
    NotStarted {
        /// Error number of the operating system.
        errno: i32,
        /// What it says.
        text: String,
    },
    /// The host was lost before it answered.
    #[error("host lost")]
    HostLost,
    /// Groups, mailboxes and hosts cannot change: the leader is out of contact, or who was asked
    /// does not lead. Who leads, and where; without it: too few of those that keep the log are in
    /// contact.
    #[error("{}", frozen(.0.as_deref()))]
    Frozen(Option<String>),
    /// No such group.
    #[error("no such group")]
    NoGroup,
    /// The task is already in the group.
    #[error("already in the group")]
    InGroup,
    /// The task is not in the group.
    #[error("not in the group")]
    NotInGroup,
    /// The group is frozen.
    #[error("the group is frozen")]
    GroupFrozen,
    /// No such mailbox entry.
    #[error("not found")]
    NotFound,
    /// There is an entry that may not be overwritten.
    #[error("exists")]
    Exists,
    /// It belongs to somebody else.
    #[error("denied")]
    Denied,
    /// A member ended while others waited for it in a barrier or for the group to fill.
    #[error("a member of the group ended")]
    Broken,
    /// A limit was reached.
    #[error("{what}: limit {limit}")]
    Limit {
        /// Of what.
        what: String,
        /// The limit.
        limit: u64,
    },
    /// A question that makes no sense.
    #[error("bad question: {0}")]
    Bad(String),
    /// What was to be reserved does not fit.
    #[error("not reserved: {0}")]
    NotReserved(String),
}

/// What those are told who ask for what only the log can decide, where too few of those that keep
/// it are in contact.
pub const NOTHING_DECIDED: &str = "nothing can be decided now: most of the hosts that keep the log \
     are out of contact (`towpath status` names them)";

fn frozen(leader: Option<&str>) -> String {
    let without = |at| {
        alloc::format!(
            "nothing changes without the leader, {at} (`towpath status` says what is missing)"
        )
    };
    leader.map_or_else(|| NOTHING_DECIDED.into(), without)
}

impl Fault {
    /// Shortens what it says to [`crate::task::TEXT_MAX`] bytes.
    pub fn cut(&mut self) {
        match self {
            Self::NotStarted { text, .. } | Self::Bad(text) | Self::NotReserved(text) => cut(text),
            Self::Limit { what, .. } => cut(what),
            Self::Frozen(Some(leader)) => cut(leader),
            _ => {}
        }
    }
}

/// Shortens all texts of an answer that another host gave.
pub fn cut_answer(answer: &mut Result<Answer, Fault>) {
    match answer {
        Ok(Answer::Spawned(results)) => {
            results.iter_mut().filter_map(|r| r.as_mut().err()).for_each(Fault::cut);
        }
        Ok(Answer::Each(results)) => {
            results.iter_mut().filter_map(|r| r.as_mut().err()).for_each(Fault::cut);
        }
        Ok(Answer::Tasks(tasks)) => tasks.iter_mut().for_each(TaskInfo::cut),
        Ok(_) => {}
        Err(fault) => fault.cut(),
    }
}

/// The body of a control frame does not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("control frame of {0} bytes does not decode")]
pub struct TalkError(pub usize);

/// A control frame's body, appended to `out`.
pub fn encode<T: Serialize>(say: &T, out: Vec<u8>) -> Vec<u8> {
    postcard::to_extend(say, out).expect("a vector takes any body")
}

/// How long a control frame's body is.
pub fn encoded_len<T: Serialize>(say: &T) -> usize {
    postcard::serialize_with_flavor(say, postcard::ser_flavors::Size::default())
        .expect("nothing is written")
}

/// Takes a control frame's body apart.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, TalkError> {
    match postcard::take_from_bytes(body) {
        Ok((say, [])) => Ok(say),
        _ => Err(TalkError(body.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn a_fault_says_what_is_missing_in_so_many_bytes() {
        let lost = Fault::Frozen(Some("one at 10.0.0.1".into()));
        let said = alloc::string::ToString::to_string(&lost);
        assert!(
            said.starts_with("nothing changes without the leader, one at 10.0.0.1 ("),
            "{said}"
        );
        assert_eq!(alloc::string::ToString::to_string(&Fault::Frozen(None)), NOTHING_DECIDED);
        let long = || "x".repeat(crate::task::TEXT_MAX + 1);
        let errno = 2;
        for mut fault in [
            Fault::Frozen(Some(long())),
            Fault::Bad(long()),
            Fault::NotReserved(long()),
            Fault::NotStarted { errno, text: long() },
            Fault::Limit { what: long(), limit: 1 },
        ] {
            fault.cut();
            let (Fault::Frozen(Some(text))
            | Fault::Bad(text)
            | Fault::NotReserved(text)
            | Fault::NotStarted { text, .. }
            | Fault::Limit { what: text, .. }) = fault
            else {
                panic!("another one")
            };
            assert!(text.len() <= crate::task::TEXT_MAX, "{text}");
        }
    }

    #[test]
    fn what_is_said_comes_back() {
        let task = HostId::new(2, 1).unwrap().task(7).unwrap();
        let ask = ToDaemon::Ask { number: 4, question: Question::Signal { task, signal: 15 } };
        assert_eq!(decode(&encode(&ask, vec![])), Ok(ask));
        let fault = Fault::Limit { what: "tasks".into(), limit: 9 };
        let answer = ToTask::Answer { number: 4, answer: Err(fault) };
        assert_eq!(encoded_len(&answer), encode(&answer, vec![]).len());
        assert_eq!(decode(&encode(&answer, vec![])), Ok(answer));
    }

    proptest! {
        #[test]
        fn any_bytes_give_something_or_an_error(bytes: Vec<u8>) {
            let _ = decode::<ToDaemon>(&bytes);
            let _ = decode::<ToTask>(&bytes);
        }
    }
}
