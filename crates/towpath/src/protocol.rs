//! What a client and its daemon tell each other over the daemon's Unix socket.
//!
//! ```text
//! 0..4 length n of the body (u32, little-endian, at most FRAME_MAX) | 4..4+n body (postcard)
//! ```
//! Before its first frame each side says which build it is, by a greeting whose form never changes
//! ([`towpath_wire::greeting`]). If the builds differ, nothing else is read: so the bodies need no
//! versions of their own. Tags are chosen by the client and mean nothing to the daemon.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
pub use towpath_node::explain::{
    Coded, DirectState, Exchange, Explanation, Network, TaskLoad, Way, WayState,
};
pub use towpath_node::{VoterSeen, VotersSeen};
pub use towpath_vm::RequestEvent as TaskEvent;
pub use towpath_vm::account::{Account, RouteState, Sent};
use towpath_vm::promises::Standing;
use towpath_vm::{Host, TaskInfo, TaskSpec};
pub use towpath_wire::greeting::PROTOCOL;
use towpath_wire::greeting::{GREETING_MAX, Greeting};
use towpath_wire::{HostId, TaskId};

/// Longest body accepted from either side, in bytes.
pub const FRAME_MAX: usize = 4 << 20;

/// Clients that a daemon tells what it measures again and again.
pub const OBSERVERS_MAX: usize = 8;
/// Clients that it tells so once, at the same time. One more takes the place of the first of them.
pub const ONCE_MAX: usize = 8;
/// Tasks or associations that are told of in one answer.
pub const LOADS_MAX: usize = 64;
/// Promises in one answer.
pub const PROMISES_PART: usize = 256;

/// Tags from here on are given by the daemon, to tasks that a client's tasks spawn.
pub const ADOPTED_TAGS: u64 = 1 << 63;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Who are you? Answered by [`Reply::Info`].
    Info,
    /// Which hosts are there? Answered by [`Reply::Hosts`].
    Hosts,
    /// Which tasks run on a host? Answered by [`Reply::Tasks`].
    Tasks {
        /// Comes back in the answer.
        tag: u64,
        /// The host.
        host: HostId,
    },
    /// Run a command; [`Reply::Task`]s follow, the last one `Ended`. If the client goes away
    /// before, the task is ended.
    Spawn {
        /// Comes back in every reply about it; not in use by another open spawn, below
        /// [`ADOPTED_TAGS`].
        tag: u64,
        /// The host.
        host: HostId,
        /// The command.
        spec: TaskSpec,
    },
    /// Send a signal to a spawned task.
    Kill {
        /// Of the spawn.
        tag: u64,
        /// Signal number.
        signal: i32,
    },
    /// Standard input for a spawned task. No more than its `input_window` may be under way;
    /// [`TaskEvent::InputTaken`] tells what arrived.
    Input {
        /// Of the spawn.
        tag: u64,
        /// Bytes.
        bytes: Vec<u8>,
        /// Nothing comes after them.
        end: bool,
    },
    /// Output was taken: as many bytes more may come.
    Credit {
        /// Of the spawn.
        tag: u64,
        /// Bytes.
        bytes: u32,
    },
    /// Issue a token for newcomers. Answered by [`Reply::Token`] or [`Reply::Failed`].
    Invite {
        /// Seconds that it is valid, at most [`TTL_MAX_S`](crate::token::TTL_MAX_S), or
        /// [`TTL_COUNTED_MAX_S`](crate::token::TTL_COUNTED_MAX_S).
        ttl_s: u64,
        /// How many hosts it admits; `None`: any number.
        uses: Option<u32>,
    },
    /// Which tokens are good? Answered by [`Reply::Tokens`] or [`Reply::Failed`].
    Tokens,
    /// Have a token admit nobody any more. Answered by [`Reply::Done`] or [`Reply::Failed`].
    Revoke {
        /// As in [`TokenInfo::id`].
        id: String,
    },
    /// Take a host out of the virtual machine. Answered by [`Reply::Done`] or [`Reply::Failed`].
    Delete {
        /// The host.
        host: HostId,
    },
    /// Have a host given nothing new from here on, or again. Answered by [`Reply::Done`] or
    /// [`Reply::Failed`].
    Drain {
        /// The host.
        host: HostId,
        /// Nothing new; else as before.
        on: bool,
    },
    /// How do those that keep the log stand? Only whoever leads can tell. Answered by
    /// [`Reply::Voters`].
    Voters,
    /// Which hosts were deleted and have not said that they end? Answered by [`Reply::Unheard`].
    Unheard,
    /// Which way do messages from a task of this host take? Answered by [`Reply::Explained`].
    Explain {
        /// Who sends.
        from: TaskId,
        /// Who receives.
        to: TaskId,
    },
    /// What have this host's tasks to do? Answered by [`Reply::Loads`].
    Loads {
        /// Only those behind this one.
        after: Option<TaskId>,
    },
    /// And its associations? Answered by [`Reply::Networks`].
    Networks {
        /// Only those with hosts behind this one.
        after: Option<HostId>,
    },
    /// Say what the network is: a topology's text, or nothing. Answered by [`Reply::Done`] or
    /// [`Reply::Failed`].
    SetNetwork {
        /// At most [`TOPOLOGY_MAX`](towpath_vm::promises::TOPOLOGY_MAX) bytes.
        topology: String,
    },
    /// What is the network, and what is promised there? Answered by [`Reply::Promises`] or
    /// [`Reply::Failed`].
    Promises {
        /// Only those behind this one: by the host that has it, and its number there.
        after: Option<(HostId, u64)>,
    },
    /// Tell what a daemon measures, all of it now, then what changed, every so often:
    /// [`Reply::Metrics`] follow, or [`Reply::Failed`].
    Observe {
        /// Whose; `None`: the one that is asked.
        host: Option<HostId>,
        /// Milliseconds between two rounds, brought within
        /// [`EVERY_MIN`](towpath_vm::metrics::subscription::EVERY_MIN) and
        /// [`EVERY_MAX`](towpath_vm::metrics::subscription::EVERY_MAX); `None`: one round.
        every_ms: Option<u32>,
    },
    /// Tell about hosts from now on: [`Reply::HostEvent`]s follow.
    Watch,
    /// Leave the virtual machine and end. Answered by [`Reply::Done`].
    Shutdown,
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Answer to [`Request::Info`].
    Info(Info),
    /// Answer to [`Request::Hosts`].
    Hosts(Vec<Host>),
    /// Answer to [`Request::Tasks`].
    Tasks {
        /// From the request.
        tag: u64,
        /// The host asked about.
        host: HostId,
        /// Its tasks, or why they are not known.
        tasks: Result<Vec<TaskInfo>, String>,
    },
    /// Answer to [`Request::Unheard`].
    Unheard(Vec<HostId>),
    /// News of a spawn.
    Task {
        /// From the request.
        tag: u64,
        /// What happened.
        event: TaskEvent,
    },
    /// A task of this client spawned a task: it is one of the client's own from now on, and
    /// [`Reply::Task`]s about it follow.
    Adopted {
        /// Tag of the task that spawned it.
        parent: u64,
        /// Its own tag.
        tag: u64,
        /// Where it runs.
        host: HostId,
        /// Its program.
        program: String,
    },
    /// Answer to [`Request::Invite`].
    Token(String),
    /// Answer to [`Request::Tokens`].
    Tokens(Vec<TokenInfo>),
    /// Answer to [`Request::Explain`].
    Explained {
        /// What the daemon knows of it.
        way: Explanation,
        /// What the sender says of it; none: it has no line for that task.
        account: Option<Account>,
    },
    /// Answer to [`Request::Loads`]: so many of them, in order.
    Loads {
        /// Of tasks that are part of the virtual machine.
        tasks: Vec<TaskLoad>,
        /// What those of them that share memory say of their direct routes.
        ways: Vec<(TaskId, Ways)>,
        /// There are others behind the last one.
        more: bool,
    },
    /// Answer to [`Request::Networks`]: so many of the associations with other hosts, in order.
    Networks {
        /// Each.
        networks: Vec<Network>,
        /// There are others behind the last one.
        more: bool,
    },
    /// Answer to [`Request::Promises`]: at most [`PROMISES_PART`] of them, in order.
    Promises {
        /// The topology; only with the first ones. `None`: there is none.
        topology: Option<String>,
        /// Each.
        promises: Vec<Standing>,
        /// There are others behind the last one.
        more: bool,
    },
    /// To a client that observes: the next [delta](towpath_vm::metrics::delta).
    Metrics(Vec<u8>),
    /// News of hosts, to a client that watches.
    HostEvent(HostEvent),
    /// Those that keep the log. Where nobody votes but the leader, there is only that one.
    Voters(VotersSeen),
    /// A request could not be carried out.
    Failed(String),
    /// Answer to [`Request::Delete`] and [`Request::Revoke`]: it is done. Answer to
    /// [`Request::Shutdown`]: nothing of the daemon is left but this reply.
    Done,
}

/// A task's direct routes, and what it has sent by which way since it enrolled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ways {
    /// Tasks of its host with which it shares memory.
    pub rings: u32,
    /// Tasks of other hosts to which it has a stream.
    pub streams: u32,
    /// Sent by shared memory.
    pub by_ring: Sent,
    /// Sent by streams.
    pub by_stream: Sent,
}

impl Ways {
    /// What the accounts of a task of `host` come to.
    pub fn of(host: HostId, accounts: &[Account]) -> Self {
        let mut ways = Self::default();
        for Account { peer, direct, by_ring, by_stream, .. } in accounts {
            ways.by_ring += *by_ring;
            ways.by_stream += *by_stream;
            match peer {
                Some(peer) if *direct == RouteState::Stands && peer.host() == host => {
                    ways.rings += 1;
                }
                Some(_) if *direct == RouteState::Stands => ways.streams += 1,
                _ => {}
            }
        }
        ways
    }
}

/// What a daemon says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// Version of the build.
    pub version: String,
    /// Name of the virtual machine.
    pub vm: String,
    /// Its host, once it joined.
    pub me: Option<HostId>,
    /// The leader, once it joined.
    pub leader: Option<HostId>,
    /// Hosts that may come to lead.
    pub voters: Vec<HostId>,
    /// The leader is lost: no host can join until it is back, or another one leads.
    pub frozen: bool,
    /// Hosts that leave everything that it asks unanswered at present. Nothing of them has ended.
    pub silent: Vec<HostId>,
    /// Process id of the daemon's engine.
    pub pid: u32,
    /// What is wrong with it, and a hint each.
    pub trouble: Vec<String>,
    /// Counters by name, see [`counters`](towpath_node::Node::counters).
    pub counters: Vec<(String, u64)>,
}

/// A token that is good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenInfo {
    /// How people call it.
    pub id: String,
    /// When it ends, in seconds since the Unix epoch by the founder's clock.
    pub expiry_unix_s: u64,
    /// Hosts that it has admitted.
    pub uses: u32,
    /// Hosts that it admits; `None`: any number.
    pub uses_max: Option<u32>,
}

impl TokenInfo {
    /// Whether it admits one more.
    pub fn admits(&self) -> bool {
        self.uses_max.is_none_or(|max| self.uses < max)
    }
}

/// News of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostEvent {
    /// One joined.
    Added(Host),
    /// One leaves everything unanswered: nothing new should be given to it. What runs there goes
    /// on, as far as anybody knows.
    Silent(HostId),
    /// It is heard again.
    Heard(HostId),
    /// One is to be given nothing new, or is to be again: it is to be taken out when what runs
    /// there has ended.
    Drains(HostId, bool),
    /// One was silent for too long.
    Lost(HostId),
    /// One left.
    Left(HostId),
    /// The leader is lost: no host can join until it is back.
    LeaderLost(HostId),
    /// It is back.
    LeaderBack(Host),
}

/// What this build says of itself.
pub const fn greeting() -> Greeting<'static> {
    Greeting { protocol: PROTOCOL, build: crate::BUILD }
}

/// The other side is of another build.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub struct OtherBuild {
    /// What it said of itself; `None`: it does not know how.
    pub theirs: Option<String>,
}

impl fmt::Display for OtherBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let theirs = self.theirs.as_deref().unwrap_or("one that does not say which it is");
        write!(f, "this program is {}, the other one is {theirs}", greeting())
    }
}

/// A body that does not decode, or is too long.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// It claims to be too long.
    #[error("frame of {len} bytes, limit {FRAME_MAX}")]
    TooLong {
        /// What it claims.
        len: usize,
    },
    /// It does not decode.
    #[error("frame does not decode: client and daemon are not of one build")]
    Malformed,
}

/// A frame's bytes.
pub fn encode<T: Serialize>(body: &T) -> Result<Vec<u8>, FrameError> {
    let mut frame = postcard::to_extend(body, vec![0; 4]).map_err(|_| FrameError::Malformed)?;
    let len = frame.len() - 4;
    if len > FRAME_MAX {
        return Err(FrameError::TooLong { len });
    }
    frame[..4].copy_from_slice(&(len as u32).to_le_bytes());
    Ok(frame)
}

/// Collects bytes and gives whole frames out. Holds at most one frame and what was read with it.
#[derive(Debug, Default)]
pub struct FrameReader {
    buf: Vec<u8>,
    used: usize,
}

impl FrameReader {
    /// Adds bytes that were read.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.used > 0 && (self.used == self.buf.len() || self.used > 64 * 1024) {
            self.buf.drain(..self.used);
            self.used = 0;
        }
        self.buf.extend_from_slice(bytes);
    }

    /// Takes the greeting out, which stands before any frame. False while more bytes are needed.
    pub fn greeted(&mut self) -> Result<bool, OtherBuild> {
        let rest = &self.buf[self.used..];
        let found = Greeting::parse(&rest[..rest.len().min(GREETING_MAX)]);
        let Some((theirs, len)) = found.map_err(|_| OtherBuild { theirs: None })? else {
            return Ok(false);
        };
        if theirs != greeting() {
            return Err(OtherBuild { theirs: Some(theirs.to_string()) });
        }
        self.used += len;
        Ok(true)
    }

    /// The next whole frame; `None` when more bytes are needed.
    #[expect(
        clippy::should_implement_trait,
        reason = "no `Iterator`: the caller chooses the type, and more may come after `None`"
    )]
    pub fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let rest = &self.buf[self.used..];
        let Some((len, body)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_le_bytes(*len) as usize;
        if len > FRAME_MAX {
            return Err(FrameError::TooLong { len });
        }
        let Some(body) = body.get(..len) else { return Ok(None) };
        let decoded = postcard::from_bytes(body).map_err(|_| FrameError::Malformed)?;
        self.used += 4 + len;
        Ok(Some(decoded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_come_back_however_they_are_cut(
            tags in proptest::collection::vec(any::<u64>(), 1..20),
            cut in 1..40usize,
        ) {
            let kill = |tag: &u64| Request::Kill { tag: *tag, signal: 9 };
            let requests: Vec<Request> = tags.iter().map(kill).collect();
            let bytes: Vec<u8> = requests.iter().flat_map(|r| encode(r).unwrap()).collect();
            let mut reader = FrameReader::default();
            let mut seen = vec![];
            for piece in bytes.chunks(cut) {
                reader.extend(piece);
                while let Some(request) = reader.next::<Request>().unwrap() {
                    seen.push(request);
                }
            }
            prop_assert_eq!(seen, requests);
        }

        #[test]
        fn any_bytes_give_frames_or_an_error(bytes: Vec<u8>) {
            let mut reader = FrameReader::default();
            reader.extend(&bytes);
            while let Ok(Some(_)) = reader.next::<Request>() {}
        }
    }

    #[test]
    fn a_frame_that_claims_too_much_is_an_error_at_once() {
        let mut reader = FrameReader::default();
        reader.extend(&u32::MAX.to_le_bytes());
        assert_eq!(reader.next::<Request>(), Err(FrameError::TooLong { len: u32::MAX as usize }));
    }
}
