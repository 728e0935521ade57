//! A client's side of the daemon's Unix socket.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use crate::protocol::{
    FrameError, FrameReader, Info, OtherBuild, Reply, Request, encode, greeting,
};
use crate::start::limits::want_of;

/// Why a daemon cannot be talked to.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon answers at the socket.
    #[error("no daemon answers at {path}: {why}\nhint: start one with `towpath up`")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the operating system says.
        why: io::Error,
    },
    /// Somebody else listens at the socket.
    #[error(
        "the daemon at {path} belongs to another user (user id {owner})\n\
         hint: set TOWPATH_HOME to a directory of yours"
    )]
    Owner {
        /// The socket.
        path: PathBuf,
        /// Who that is.
        owner: u32,
    },
    /// The daemon is of another build.
    #[error(
        "the daemon is of another build: {0}\n\
         hint: use the program that started it, or restart the daemons with this one: \
         `towpath down`, then `towpath up`"
    )]
    Build(#[from] OtherBuild),
    /// The daemon has gone away.
    #[error("the daemon has ended the connection")]
    Gone,
    /// It has done so before it said which build it is.
    #[error(
        "the daemon has ended the connection without a word\n\
         hint: it has just ended, or is of an earlier build: restart the daemons with \
         `towpath down`, then `towpath up`"
    )]
    Silent,
    /// Reading or writing failed.
    #[error("talking to the daemon: {0}")]
    Io(#[from] io::Error),
    /// The daemon and this program do not understand each other.
    #[error("{0}\nhint: restart the daemons with `towpath down` and `towpath up`")]
    Frame(#[from] FrameError),
    /// The daemon could not carry a request out.
    #[error("{0}")]
    Failed(String),
}

/// The half that sends.
#[derive(Debug)]
pub struct Sender {
    stream: UnixStream,
}

/// The half that receives.
#[derive(Debug)]
pub struct Receiver {
    stream: UnixStream,
    frames: FrameReader,
    /// The daemon has said which build it is.
    greeted: bool,
    buf: Vec<u8>,
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    /// The half that sends.
    pub sender: Sender,
    /// The half that receives.
    pub receiver: Receiver,
}

impl Sender {
    /// Sends a request. Waits while the daemon does not take it.
    pub fn send(&mut self, request: &Request) -> Result<(), ClientError> {
        self.send_bytes(&encode(request)?)
    }

    /// Sends frames that were encoded before, several in one go.
    pub fn send_bytes(&mut self, frames: &[u8]) -> Result<(), ClientError> {
        match self.stream.write_all(frames) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(ClientError::Gone),
            other => Ok(other?),
        }
    }

    /// Ends the connection in both directions: a waiting [`Receiver::next`] returns
    /// [`ClientError::Gone`].
    pub fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Receiver {
    /// The next reply that was read already.
    pub fn buffered(&mut self) -> Result<Option<Reply>, ClientError> {
        self.take()
    }

    /// The same, behind the daemon's greeting.
    fn take(&mut self) -> Result<Option<Reply>, ClientError> {
        if !self.greeted {
            self.greeted = self.frames.greeted()?;
        }
        Ok(if self.greeted { self.frames.next()? } else { None })
    }

    /// Nothing more comes.
    const fn over(&self) -> ClientError {
        if self.greeted { ClientError::Gone } else { ClientError::Silent }
    }

    /// Reads once: at once if the descriptor is readable.
    pub fn fill(&mut self) -> Result<(), ClientError> {
        self.stream.set_read_timeout(None)?;
        match self.stream.read(&mut self.buf) {
            Ok(0) => Err(self.over()),
            Ok(n) => {
                self.frames.extend(&self.buf[..n]);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Err(self.over()),
            Err(e) => Err(e.into()),
        }
    }

    /// The next reply, or `None` when none came within `timeout` (`None`: waits for ever).
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Reply>, ClientError> {
        loop {
            if let Some(reply) = self.take()? {
                return Ok(Some(reply));
            }
            self.stream.set_read_timeout(timeout)?;
            match self.stream.read(&mut self.buf) {
                Ok(0) => return Err(self.over()),
                Ok(n) => self.frames.extend(&self.buf[..n]),
                Err(e) => match e.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(None),
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::ConnectionReset => return Err(self.over()),
                    _ => return Err(e.into()),
                },
            }
        }
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Client {
    /// Connects to the daemon at a socket, which must be this user's.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let connect = || -> io::Result<_> {
            let stream = UnixStream::connect(path)?;
            let owner = socket_peercred(&stream)?.uid;
            Ok((stream.try_clone()?, stream, owner))
        };
        let (a, b, owner) =
            connect().map_err(|why| ClientError::Connect { path: path.to_path_buf(), why })?;
        if owner != geteuid() {
            return Err(ClientError::Owner { path: path.to_path_buf(), owner: owner.as_raw() });
        }
        let (frames, greeted, buf) = (FrameReader::default(), false, vec![0; 65_536]);
        let receiver = Receiver { stream: b, frames, greeted, buf };
        let mut sender = Sender { stream: a };
        let (bytes, len) = greeting().emit();
        // One that has turned us away already says why.
        match sender.send_bytes(&bytes[..len]) {
            Ok(()) | Err(ClientError::Gone) => Ok(Self { sender, receiver }),
            Err(e) => Err(e),
        }
    }

    /// Sends a request and waits for its answer, at most `timeout`.
    pub fn ask(&mut self, request: &Request, timeout: Duration) -> Result<Reply, ClientError> {
        match self.sender.send(request) {
            // What it said before tells why.
            Ok(()) | Err(ClientError::Gone) => {}
            Err(e) => return Err(e),
        }
        match self.receiver.next(Some(timeout))? {
            Some(Reply::Failed(text)) => Err(ClientError::Failed(text)),
            Some(reply) => Ok(reply),
            None => Err(ClientError::Failed(format!(
                "the daemon did not answer within {} s{}",
                timeout.as_secs(),
                self.why_silent()
            ))),
        }
    }

    /// Why it may be that nobody answers, as a hint.
    fn why_silent(&self) -> String {
        let peer = socket_peercred(&self.sender.stream).ok();
        let pid = peer.map(|peer| peer.pid.as_raw_nonzero().get().cast_unsigned());
        pid.and_then(want_of).unwrap_or_default()
    }

    /// Asks the daemon who it is.
    pub fn info(&mut self) -> Result<Info, ClientError> {
        match self.ask(&Request::Info, Duration::from_secs(5))? {
            Reply::Info(info) => Ok(info),
            _ => Err(FrameError::Malformed.into()),
        }
    }
}
