//! The engine's clients: what they asked for, what waits to be written to them.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use towpath_vm::RequestId;
use towpath_vm::metrics::Subscription;

use crate::protocol::{FrameReader, Reply, Request, encode, greeting};

/// Bytes that wait for a client at most. Output is bounded by credit long before; a client that
/// lets so much gather is not reading any more.
const WAITING_MAX: usize = 64 << 20;
/// Requests taken from one client before the others have their turn.
pub(super) const REQUESTS_PER_TURN: usize = 256;

/// Why a client's connection ends.
#[derive(Debug)]
pub(super) enum Hangup {
    Gone,
    OtherBuild(String),
    Malformed(String),
    Stuck,
}

/// One connection.
pub(super) struct ClientConn {
    stream: UnixStream,
    frames: FrameReader,
    /// It has said that it is of this build.
    greeted: bool,
    /// It says nothing more: what it asked before is done still.
    pub(super) is_gone: bool,
    /// It is watched for its end only, while it waits for answers.
    pub(super) is_mute: bool,
    /// Requests that were read wait for the next turn.
    pub(super) behind: bool,
    /// It came when all places were taken, to one that is kept for short questions.
    pub(super) is_extra: bool,
    /// Encoded replies, oldest first; `written` bytes of the first have gone out.
    waiting: VecDeque<Vec<u8>>,
    written: usize,
    backlog: usize,
    /// It wants to be told when the socket takes more.
    pub(super) wants_write: bool,
    pub(super) watches: bool,
    /// What it is told of what is measured, if it asked.
    pub(super) subscription: Option<Subscription>,
    /// Another host tells it what that measures, or is asked to.
    pub(super) reads_others: bool,
    pub(super) spawns: HashMap<u64, RequestId>,
}

impl ClientConn {
    /// One that is told which build this is.
    pub(super) fn new(stream: UnixStream, is_extra: bool) -> Self {
        let (bytes, len) = greeting().emit();
        Self {
            stream,
            frames: FrameReader::default(),
            greeted: false,
            is_gone: false,
            is_mute: false,
            behind: false,
            is_extra,
            waiting: [bytes[..len].to_vec()].into(),
            written: 0,
            backlog: len,
            wants_write: false,
            watches: false,
            subscription: None,
            reads_others: false,
            spawns: HashMap::new(),
        }
    }

    /// Reads what is there, unless requests that were read wait; bytes. Ends at 256 KiB a turn.
    pub(super) fn fill(&mut self, buf: &mut [u8]) -> u64 {
        let mut bytes = 0;
        for _ in 0..if self.behind || self.is_gone { 0 } else { 4 } {
            match self.stream.read(buf) {
                Ok(n) if n > 0 => {
                    self.frames.extend(&buf[..n]);
                    bytes += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    self.is_gone = true;
                    break;
                }
            }
        }
        bytes
    }

    pub(super) fn next_request(&mut self) -> Result<Option<Request>, Hangup> {
        if !self.greeted {
            self.greeted = self.frames.greeted().map_err(|e| Hangup::OtherBuild(e.to_string()))?;
            if !self.greeted {
                return Ok(None);
            }
        }
        self.frames.next().map_err(|e| Hangup::Malformed(e.to_string()))
    }

    /// Queues a reply.
    pub(super) fn reply(&mut self, reply: &Reply) {
        let frame = encode(reply).or_else(|e| {
            let why = format!("the answer does not fit into what a client is told at once: {e}");
            encode(&match reply {
                Reply::Tasks { tag, host, .. } => {
                    Reply::Tasks { tag: *tag, host: *host, tasks: Err(why) }
                }
                _ => Reply::Failed(why),
            })
        });
        let frame = frame.expect("a sentence fits into a frame");
        self.backlog += frame.len();
        self.waiting.push_back(frame);
    }

    /// Writes what waits, as far as the socket takes it.
    pub(super) fn flush(&mut self) -> Result<(), Hangup> {
        while !self.waiting.is_empty() {
            let mut slices = [IoSlice::new(&[]); 16];
            for (i, (slice, frame)) in slices.iter_mut().zip(&self.waiting).enumerate() {
                *slice = IoSlice::new(if i == 0 { &frame[self.written..] } else { frame });
            }
            match self.stream.write_vectored(&slices) {
                Ok(n) => self.wrote(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Hangup::Gone),
            }
        }
        if self.backlog > WAITING_MAX { Err(Hangup::Stuck) } else { Ok(()) }
    }

    fn wrote(&mut self, n: usize) {
        self.backlog -= n;
        self.written += n;
        while let Some(frame) = self.waiting.front() {
            if self.written < frame.len() {
                break;
            }
            self.written -= frame.len();
            self.waiting.pop_front();
        }
    }

    /// Bytes not written yet.
    pub(super) const fn backlog(&self) -> usize {
        self.backlog
    }

    /// Whether it may still hear: it has closed its sending half only.
    pub(super) fn hears(&self) -> bool {
        let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let looked = poll(&mut fds, Some(&zero));
        looked.is_ok() && !fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// It has no tasks, and is told nothing that it did not ask for.
    pub(super) fn only_asks(&self) -> bool {
        let told = self.watches || self.subscription.is_some() || self.reads_others;
        self.spawns.is_empty() && !told
    }

    /// Nothing of it is under way.
    pub(super) fn is_idle(&self) -> bool {
        !self.behind && self.backlog == 0 && self.only_asks()
    }

    /// Turns it away with the reason, as far as it can be told.
    pub(super) fn turn_away(mut self, why: &str) {
        self.reply(&Reply::Failed(why.into()));
        let _ = self.flush();
    }

    /// Writes everything, however long it takes (at most two seconds).
    pub(super) fn finish(&mut self) {
        let _ = self.stream.set_nonblocking(false);
        let _ = self.stream.set_write_timeout(Some(std::time::Duration::from_secs(2)));
        let _ = self.flush();
    }
}

impl AsFd for ClientConn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::FRAME_MAX;
    use towpath_wire::HostId;

    #[test]
    fn an_answer_that_is_too_long_is_told_as_such() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut client = ClientConn::new(ours, false);
        client.flush().unwrap();
        let mut buf = [0; 4096];
        let greeting = theirs.read(&mut buf).unwrap();
        let mut frames = FrameReader::default();
        frames.extend(&buf[..greeting]);
        assert!(frames.greeted().unwrap());
        let host = HostId::new(1, 1).unwrap();
        let long = "x".repeat(FRAME_MAX);
        client.reply(&Reply::Tasks { tag: 7, host, tasks: Err(long.clone()) });
        client.reply(&Reply::Failed(long));
        client.flush().unwrap();
        let len = theirs.read(&mut buf).unwrap();
        frames.extend(&buf[..len]);
        let mut next = || frames.next::<Reply>().unwrap().unwrap();
        let is_limit = |why: &str| why.contains(&format!("limit {FRAME_MAX}"));
        assert!(matches!(next(), Reply::Tasks { tag: 7, tasks: Err(why), .. } if is_limit(&why)));
        assert!(matches!(next(), Reply::Failed(why) if is_limit(&why)));
    }
}
