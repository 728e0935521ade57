//! What a node tells its owner.

use alloc::string::String;
use alloc::vec::Vec;

use towpath_proto::association::End;
use towpath_proto::{AssociationEvent, AssociationId, Refusal};
use towpath_vm::{Action, Host, RequestEvent, RequestId, TaskInfo};
use towpath_wire::{HostId, VersionRange};

/// Why joining failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinFailure {
    /// Nobody answered.
    #[error("no answer")]
    NoAnswer,
    /// The host there holds another VM key.
    #[error("the key of the token is not the key of the virtual machine there")]
    WrongKey,
    /// The host there speaks other wire versions.
    #[error("it speaks wire versions {0}")]
    Version(VersionRange),
    /// The host there said no.
    #[error("it refuses: {}", .0.text)]
    Refused(Refusal),
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

/// Why a host cannot be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeleteError {
    /// Only the leader changes the host table.
    #[error("only the daemon that founded the virtual machine can delete hosts")]
    NotLeader,
    /// Without its leader a virtual machine could not change any more.
    #[error("host {0} leads the virtual machine")]
    Leader(HostId),
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
    /// The association to a host ended by itself; what that means for the host follows.
    ContactOver {
        /// The host.
        host: HostId,
        /// Which rule ended it, and after how long.
        end: End,
    },
    /// The leader is lost: nobody can join or be declared lost until it is back.
    LeaderLost(HostId),
    /// The leader has this host deleted from the table.
    Deleted,
    /// Something to do with a process.
    Action(Action),
    /// News of a request of ours.
    Request {
        /// Which.
        id: RequestId,
        /// What.
        event: RequestEvent,
    },
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
