//! What the measuring process and its members tell each other: one JSON object a line, over a Unix
//! socket.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::line::Line;
use super::counts::Sent;
use super::exchange::Step;

/// Longest line in bytes: two times of 5000 barriers.
const LINE_MAX: u64 = 1 << 20;
/// Nobody works longer than this without saying anything: the longest measurement and then some.
const PATIENCE: Duration = Duration::from_mins(2);

/// What a member is to do next.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Do {
    /// Run on this processor from now on.
    Pin(usize),
    /// Become a task at the daemon with this socket. [`Said::Tasks`].
    Enrol(PathBuf),
    /// Be the far end of a pipe. [`Said::Ready`], and at its end [`Said::Did`].
    Echo { way: Way, len: usize },
    /// Be the far end of a pipe by which messages come one after another.
    /// [`Said::Ready`], and at its end [`Said::Did`].
    Drain { way: Way, len: usize },
    /// Be in the middle of a chain: open the way to the right, wait for who comes from the left,
    /// pass messages on in turn. [`Said::Ready`], and at its end [`Said::Did`].
    Relay { left: Way, right: Way, len: usize },
    /// Meet the others, so many times. [`Said::Ready`], then at [`Do::Go`] begin; [`Said::Times`].
    Barrier { kind: Meeting, count: u32 },
    /// Exchange steps with these tasks, so many times. [`Said::Ready`], then at [`Do::Go`] begin;
    /// [`Said::Exchanged`].
    Exchange { tasks: Vec<u64>, direct: bool, steps: Vec<Step>, count: u32 },
    /// Receive messages of `len` bytes by this way, so many, and tell when each was there.
    /// [`Said::Ready`]; [`Said::Times`].
    Receive { way: Way, len: usize, count: u32 },
    /// Everyone is ready.
    Go,
}

/// What a member says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// Its ids as tasks, raw: the one without direct routes, the one with.
    Tasks([u64; 2]),
    /// It is ready; a port where it receives, where there is one.
    Ready(u16),
    /// It is done: how often it slept.
    Did { sleeps: u64 },
    /// Times in nanoseconds of the monotonic clock: when it came and when it left, in turn, or
    /// when each message was there.
    Times(Vec<u64>),
    /// Such times, and what it sent in one exchange.
    Exchanged(Vec<u64>, Sent),
    /// It could not.
    Failed(String),
}

/// What a pipe is made of. Whoever serves a path or port makes it; the other end connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Way {
    /// A word per direction in shared memory (`/proc/PID/fd/N`), looked at over and over.
    Spin(PathBuf),
    /// The same with a futex.
    Futex(PathBuf),
    /// A Unix stream, blocking: listen at this path.
    Unix(PathBuf),
    /// A Unix stream, blocking: connect to this path.
    UnixTo(PathBuf),
    /// Datagrams, blocking, at any port of this address, to whoever sends first.
    Udp(IpAddr),
    /// Datagrams to this address.
    UdpTo(SocketAddr),
    /// A TCP stream, blocking: listen at any port of this address.
    Tcp(IpAddr),
    /// Messages with this task; by the direct route where that is allowed.
    Task { peer: u64, direct: bool },
    /// The same as arrays of numbers, by the direct route.
    Arrays { peer: u64 },
    /// Loans to and from this task, by the direct route.
    Loan { peer: u64 },
}

/// What a barrier is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Meeting {
    /// A counter in shared memory (`/proc/PID/fd/N`), looked at over and over.
    Spin { words: PathBuf, members: u32 },
    /// The same with a futex.
    Futex { words: PathBuf, members: u32 },
    /// A team of these tasks.
    Team { tasks: Vec<u64>, direct: bool },
    /// The group of this name.
    Group { name: String, members: u32 },
}

/// The conversation over a connection.
pub(super) fn over(stream: UnixStream) -> anyhow::Result<Line<UnixStream>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(Line::new(stream, LINE_MAX))
}
