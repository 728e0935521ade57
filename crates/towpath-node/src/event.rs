//! What a node tells its owner.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use towpath_proto::association::End;
use towpath_proto::{AssociationEvent, AssociationId, Block, Refusal};
use towpath_vm::talk::NOTHING_DECIDED;
use towpath_vm::talk::ToTask;
use towpath_vm::{Action, Host, RequestEvent, RequestId, TaskInfo};
use towpath_wire::bytes::ParseError;
use towpath_wire::{ChannelId, HostId, LinkId, TaskId, VersionRange};

use crate::data::Delivery;
use crate::egress::Reservation;
use crate::invitations::InviteError;

/// Why joining failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinFailure {
    /// Nobody answered for so long; or somebody to whom the leader's key means nothing, who does
    /// not answer strangers.
    #[error("no answer within {} s", .0.as_secs_f32())]
    NoAnswer(Duration),
    /// The host there holds another VM key.
    #[error("the key of the token is not the key of the virtual machine there")]
    WrongKey,
    /// The host there speaks other wire versions.
    #[error("it speaks wire versions {0}")]
    Version(VersionRange),
    /// The host there said no.
    #[error("it refuses: {}", .0.text)]
    Refused(Refusal),
    /// None of the hosts that may lead, as the token says, lets this one in.
    #[error("none of the {hosts} hosts that the token names takes this one in; {failure}")]
    NoneOf {
        /// How many.
        hosts: usize,
        /// What the last one says, or the last that said anything.
        failure: Box<JoinFailure>,
    },
}

/// Why a request could not even be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// This host has not joined (yet).
    #[error("this host is not part of a virtual machine yet")]
    NotJoined,
    /// No such host.
    #[error("no host {0} in the host table")]
    UnknownHost(HostId),
    /// It is lost.
    #[error("host {0} is lost")]
    HostLost(HostId),
    /// Too many requests.
    #[error("{limit} requests are open, the limit")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The command does not fit into a message.
    #[error("command of {len} bytes, limit {limit}")]
    TooLong {
        /// Its length.
        len: usize,
        /// The limit.
        limit: usize,
    },
}

/// What an owner is told whose change may be decided elsewhere, or never.
pub(crate) const UNDECIDED: &str = "whether this is decided is not known here: this host has lost \
     the lead meanwhile (`towpath status` says who leads, or who is missing)";

/// Why the host table is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeleteError {
    /// Only the leader changes the host table.
    #[error("only the daemon that leads the virtual machine can delete hosts")]
    NotLeader,
    /// It led, and is in contact with too few to decide anything.
    #[error("{NOTHING_DECIDED}")]
    NothingDecided,
    /// This host does not lead any more: what becomes of it, is not known here.
    #[error("{UNDECIDED}")]
    Undecided,
    /// So many changes wait for the log already.
    #[error("{0} changes wait to be decided, the limit: try again")]
    Full(u64),
    /// Without its leader a virtual machine could not change any more.
    #[error("host {0} leads the virtual machine")]
    Leader(HostId),
    /// It keeps the log, and another one that does is going, or lost: both would be too many.
    #[error(
        "host {0} keeps the log, and another host that does is silent, just leaving, or lost: \
         delete that one first (`towpath status`), or try again"
    )]
    Voter(HostId),
    /// No such host.
    #[error("no host {0} in the host table")]
    Unknown(HostId),
}

/// What a node tells its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// This host is part of the virtual machine, as `me`; `again` after it had been lost.
    Joined {
        /// Who it is.
        me: HostId,
        /// It was part before.
        again: bool,
    },
    /// Joining failed for good.
    JoinFailed(JoinFailure),
    /// A host joined.
    HostAdded(Host),
    /// A host was declared lost.
    HostLost(HostId),
    /// A host left.
    HostLeft(HostId),
    /// Whether the network is what the owner said under this number.
    Network {
        /// Which.
        number: u64,
        /// Or why not.
        outcome: Result<(), String>,
    },
    /// What came of a change of the host table that the owner asked for under this number.
    TableChanged {
        /// Which.
        number: u64,
        /// Or why not.
        outcome: Result<(), DeleteError>,
    },
    /// A host is given nothing new from here on, or is again.
    HostDrains(HostId, bool),
    /// A host that is up leaves everything unanswered: nothing new is given to it. Nothing ends.
    HostSilent(HostId),
    /// It is heard again.
    HostHeard(HostId),
    /// The association to a host ended by itself; what that means for the host follows.
    ContactOver {
        /// The host.
        host: HostId,
        /// Which rule ended it, and after how long.
        end: End,
    },
    /// A host says something that must not be passed over and is not known here: the connection to
    /// it ends. `None`: one that is none of ours (yet).
    Unread {
        /// The host.
        host: Option<HostId>,
        /// What.
        why: ParseError,
    },
    /// The leader is out of contact: nobody can join or be declared lost until it is back.
    LeaderLost(HostId),
    /// This host led, and can have nothing decided: others may have elected another one.
    LeadLost {
        /// It.
        me: HostId,
    },
    /// The leader is back, under this id, and this host is who it was.
    LeaderBack(HostId),
    /// A host that kept the log starts again, where others may lead by now: it tries so many hosts
    /// until the one that leads takes it in.
    Returning {
        /// How many.
        hosts: usize,
    },
    /// All that voted start again, and none of them has more than this host, which leads from here
    /// on with what it kept.
    Begins,
    /// The leader is there and does not take this host back. Nothing ends because of that: this
    /// host goes on trying.
    LeaderRefuses {
        /// The leader.
        leader: HostId,
        /// What it says.
        why: String,
    },
    /// A host closed this one's connections one after another because newer ones with the same key
    /// took their place: another daemon runs with this host's key.
    Copied {
        /// Who said so.
        host: HostId,
    },
    /// A host is there, and another daemon with its key asked to be let in from that address: it
    /// was not.
    Twice {
        /// Which host.
        host: HostId,
        /// Where the other one is.
        remote: SocketAddr,
    },
    /// The log says that this host was deleted from the table.
    Deleted,
    /// What came of a token that this host was to issue or to revoke, by its nonce; in the order in
    /// which that was asked for.
    TokenDecided {
        /// Which.
        nonce: [u8; 16],
        /// It is issued or revoked, or why not.
        outcome: Result<(), InviteError>,
    },
    /// A host that may know the secrets of these many tokens was deleted: they admit nobody any
    /// more. The leader says so.
    TokensRevoked {
        /// Which host.
        host: HostId,
        /// How many.
        tokens: usize,
    },
    /// Something to do with a process.
    Action(Action),
    /// News of a request of ours.
    Request {
        /// Which.
        id: RequestId,
        /// What.
        event: RequestEvent,
    },
    /// A task spawned a task: the request for it.
    Adopted {
        /// The request that the spawning task came of, where that is part of a client's job: this
        /// one is, too. `None`: nobody waits for it.
        parent: Option<RequestId>,
        /// The new request. News of it follow.
        id: RequestId,
        /// Where it runs.
        host: HostId,
        /// Its program.
        program: Vec<u8>,
    },
    /// Something to say to a task that enrolled here.
    ToTask {
        /// The task.
        task: TaskId,
        /// What.
        say: ToTask,
    },
    /// A piece of a message for a task that enrolled here. It is to be given back with
    /// [`crate::Node::task_written`].
    Deliver(Delivery),
    /// A message on a channel of a task's own. Its block is to be given back with
    /// [`crate::Node::channel_written`].
    OnChannel {
        /// The task.
        task: TaskId,
        /// The channel, by its number there.
        number: u32,
        /// Its bytes.
        block: Block,
        /// Its length in bytes.
        len: u32,
    },
    /// A channel is to be reserved at its link's egress: [`crate::Node::reserved`] says how that
    /// went.
    Reserve(Reservation),
    /// A reservation ends.
    Release {
        /// At which link's egress.
        link: LinkId,
        /// Whose.
        of: (AssociationId, ChannelId),
    },
    /// Two tasks of this host are to get a direct route.
    Direct {
        /// The one that asked.
        a: TaskId,
        /// The other one.
        b: TaskId,
    },
    /// A task does not keep the rules: its connection is to be closed.
    CutOff {
        /// The task.
        task: TaskId,
        /// What it did.
        why: String,
    },
    /// The virtual machine ends, and this daemon with it.
    Halt,
    /// Answer to [`crate::Node::list`].
    Tasks {
        /// Which question.
        query: u64,
        /// Whose tasks.
        host: HostId,
        /// The tasks; `Err` when the host could not be asked.
        tasks: Result<Vec<TaskInfo>, String>,
    },
    /// Something happened on a channel of the owner's own.
    Channel {
        /// The peer.
        host: HostId,
        /// The association, for calls about the channel.
        association: AssociationId,
        /// What.
        event: AssociationEvent,
    },
}

/// What whoever started a host's engine says where that ends without a word of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWords {
    /// To be said in the handshake, with the host's key.
    pub hello: Vec<u8>,
    /// To whom: where, and under which key.
    pub to: Vec<(SocketAddr, [u8; 32])>,
}

/// Those that keep the log, as the one that leads sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VotersSeen {
    /// Counts leaders.
    pub term: u64,
    /// Entries that are decided.
    pub entries: u64,
    /// Each of them; none where this host does not lead.
    pub voters: Vec<VoterSeen>,
    /// Pairs of hosts that cannot reach each other, of which it was told.
    pub apart: Vec<(HostId, HostId)>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterSeen {
    /// Which host.
    pub host: HostId,
    /// It votes; else it is sent the log only.
    pub votes: bool,
    /// It was heard within the last three beats.
    pub heard: bool,
    /// Entries that it has not acknowledged yet.
    pub behind: u64,
}
