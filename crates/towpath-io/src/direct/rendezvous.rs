//! Setting up streams: listening, connecting, and keys proved on both sides, nothing waiting.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use towpath_wire::{Instant, TaskId};

use super::handshake::{
    ANSWER_LEN, Agreed, Awaited, CONFIRM_LEN, Dialling, HELLO_LEN, answer, is_expected,
};
use super::keys::Offer;
use super::socket;
use super::stream::Stream;
use crate::shared::aside;

/// Streams being set up at once, at most; as many strangers may be connected.
pub const SETTING_UP_MAX: usize = 64;
/// A stream stands after this time, or it is given up.
pub const SET_UP_TIME: Duration = Duration::from_secs(10);
/// Who connects must say who it is within this time.
pub const HELLO_TIME: Duration = Duration::from_secs(5);

/// Connections that claim to be one peer and have not proved it, at most.
const ANSWERS_MAX: usize = 4;
/// Hellos that one offer answers in all: each costs as much as a handshake does.
const HEARD_MAX: usize = 16;

/// Why a stream could not be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetUpError {
    /// It took too long.
    #[error("the direct route did not stand within {} s", SET_UP_TIME.as_secs())]
    Time,
    /// The operating system says no.
    #[error("the direct route: {0}")]
    Refused(io::ErrorKind),
    /// Whoever answered does not have the key.
    #[error("the direct route: the other side does not prove its key")]
    Unproven,
    /// Too many at once.
    #[error("{SETTING_UP_MAX} direct routes are being set up, which is the limit")]
    Full,
}

impl From<io::Error> for SetUpError {
    fn from(e: io::Error) -> Self {
        Self::Refused(e.kind())
    }
}

/// What became of an offer.
pub enum Outcome {
    /// The stream stands.
    Open(Box<Stream>),
    /// It does not, and will not without a new offer.
    Failed {
        /// The other task.
        peer: TaskId,
        /// Why.
        why: SetUpError,
    },
}

impl Outcome {
    fn open(&self) -> Option<TaskId> {
        match self {
            Self::Open(stream) => Some(stream.peer()),
            Self::Failed { .. } => None,
        }
    }
}

/// An offer that somebody will connect for.
struct Expected {
    offer: Offer,
    until: Instant,
    /// Hellos that were answered.
    heard: usize,
}

/// Bytes of a message of fixed length, as they arrive.
struct Arriving<const N: usize> {
    bytes: [u8; N],
    have: usize,
}

impl<const N: usize> Arriving<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], have: 0 }
    }

    /// All of it; `None`: not yet.
    fn read(&mut self, socket: &OwnedFd) -> Result<Option<&[u8; N]>, SetUpError> {
        while self.have < N {
            match socket::read(socket, &mut self.bytes[self.have..])? {
                None => return Ok(None),
                Some(0) => return Err(SetUpError::Refused(io::ErrorKind::UnexpectedEof)),
                Some(n) => self.have += n,
            }
        }
        Ok(Some(&self.bytes))
    }
}

/// Somebody who connected: a stranger until its hello has come.
struct Stranger {
    socket: OwnedFd,
    until: Instant,
    hello: Arriving<HELLO_LEN>,
}

/// One side of a handshake under way with the task of an offer.
struct Shake {
    socket: OwnedFd,
    offer: Offer,
    until: Instant,
    stage: Stage,
}

enum Stage {
    /// Connecting: the hello goes out as soon as the connection stands.
    Dial { dialling: Box<Dialling>, is_out: bool, answer: Arriving<ANSWER_LEN> },
    /// The answer is out. None after a wrong confirmation.
    Confirm { awaited: Option<Box<Awaited>>, confirm: Arriving<CONFIRM_LEN> },
}

impl Shake {
    fn is_answering(&self, peer: TaskId) -> bool {
        self.offer.peer == peer && matches!(self.stage, Stage::Confirm { .. })
    }

    fn step(&mut self, epoll: &OwnedFd) -> Result<Option<Agreed>, SetUpError> {
        match &mut self.stage {
            Stage::Dial { dialling, is_out, answer } => {
                if !*is_out {
                    if !write_all(&self.socket, &dialling.hello)? {
                        return Ok(None);
                    }
                    let data = epoll::EventData::new_u64(0);
                    epoll::modify(epoll, &self.socket, data, epoll::EventFlags::IN)
                        .map_err(io::Error::from)?;
                    *is_out = true;
                }
                let Some(answer) = answer.read(&self.socket)? else { return Ok(None) };
                let (bytes, agreed) =
                    dialling.confirm(&self.offer, answer).ok_or(SetUpError::Unproven)?;
                if !write_all(&self.socket, &bytes)? {
                    return Err(SetUpError::Refused(io::ErrorKind::WouldBlock));
                }
                Ok(Some(agreed))
            }
            Stage::Confirm { awaited, confirm } => {
                let Some(confirm) = confirm.read(&self.socket)? else { return Ok(None) };
                let agreed = awaited.take().and_then(|awaited| awaited.confirmed(confirm));
                agreed.map(Some).ok_or(SetUpError::Unproven)
            }
        }
    }
}

/// All of a handshake's message at once: a fresh connection has room for it. False when it does
/// not stand yet.
fn write_all(socket: &OwnedFd, bytes: &[u8]) -> Result<bool, SetUpError> {
    match socket::write(socket, bytes)? {
        None => Ok(false),
        Some(n) if n == bytes.len() => Ok(true),
        Some(_) => Err(SetUpError::Refused(io::ErrorKind::WriteZero)),
    }
}

/// All streams that a task is setting up. One descriptor stands for all their sockets.
pub struct Rendezvous {
    epoll: OwnedFd,
    listener: Option<OwnedFd>,
    expected: Vec<Expected>,
    strangers: VecDeque<Stranger>,
    shakes: Vec<Shake>,
    outcomes: VecDeque<Outcome>,
    /// Connections dropped because they did not prove who they were.
    dropped: u64,
    /// New connections have short segments.
    short: bool,
}

impl Rendezvous {
    /// With nothing under way.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: aside(epoll::create(epoll::CreateFlags::CLOEXEC)?),
            listener: None,
            expected: Vec::new(),
            strangers: VecDeque::new(),
            shakes: Vec::new(),
            outcomes: VecDeque::new(),
            dropped: 0,
            short: false,
        })
    }

    /// From now on connections have segments so short that every way takes them: where one was
    /// silent, long packets may vanish.
    pub fn shorten(&mut self) {
        self.short = true;
        if let Some(listener) = &self.listener {
            // The next one is; this one lives for seconds.
            let _ = socket::shorten(listener);
        }
    }

    /// Readable when [`Self::advance`] has something to do; level-triggered.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn watch(&self, socket: &OwnedFd, what: epoll::EventFlags) -> Result<(), SetUpError> {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&self.epoll, socket, data, what).map_err(|e| io::Error::from(e).into())
    }

    /// Streams that are being set up, but for one with `peer`.
    pub fn under_way(&self, peer: TaskId) -> usize {
        // Whoever is answered is expected still.
        let dialled = self.shakes.iter().filter(|s| !s.is_answering(s.offer.peer));
        let peers = dialled.map(|s| s.offer.peer).chain(self.expected.iter().map(|e| e.offer.peer));
        peers.filter(|other| *other != peer).count()
    }

    fn has_room(&self, peer: TaskId) -> Result<(), SetUpError> {
        if self.under_way(peer) >= SETTING_UP_MAX { Err(SetUpError::Full) } else { Ok(()) }
    }

    /// Waits for the peer to connect; the port to tell it, of every address of this host. An
    /// older offer for the same peer is forgotten.
    pub fn listen(&mut self, offer: Offer, now: Instant) -> Result<u16, SetUpError> {
        self.forget(offer.peer);
        self.has_room(offer.peer)?;
        if self.listener.is_none() {
            let listener = socket::listen()?;
            if self.short {
                socket::shorten(&listener)?;
            }
            self.watch(&listener, epoll::EventFlags::IN)?;
            self.listener = Some(listener);
        }
        let port = self.listener.as_ref().map(socket::port).transpose()?.unwrap_or(0);
        self.expected.push(Expected { offer, until: now + SET_UP_TIME, heard: 0 });
        Ok(port)
    }

    /// Connects to the peer, which listens. An older offer for the same peer is forgotten.
    pub fn dial(
        &mut self,
        offer: Offer,
        address: SocketAddr,
        now: Instant,
    ) -> Result<(), SetUpError> {
        self.forget(offer.peer);
        self.has_room(offer.peer)?;
        let socket = socket::connect(address, self.short)?;
        self.watch(&socket, epoll::EventFlags::OUT)?;
        let dialling = Box::new(Dialling::new(&offer));
        let stage = Stage::Dial { dialling, is_out: false, answer: Arriving::new() };
        self.shakes.push(Shake { socket, offer, until: now + SET_UP_TIME, stage });
        Ok(())
    }

    /// Whether `peer` may hold a stream to stand already, and have sent something on it.
    pub fn is_proving(&self, peer: TaskId) -> bool {
        self.shakes.iter().any(|shake| shake.is_answering(peer))
            || self.outcomes.iter().any(|outcome| outcome.open() == Some(peer))
    }

    /// Drops what is under way with `peer`, without an outcome.
    pub fn forget(&mut self, peer: TaskId) {
        self.expected.retain(|e| e.offer.peer != peer);
        self.shakes.retain(|s| s.offer.peer != peer);
        self.settle();
    }

    /// Stops listening when nobody is expected.
    fn settle(&mut self) {
        if self.expected.is_empty() {
            self.listener = None;
            self.strangers.clear();
        }
    }

    /// When [`Self::advance`] must be called although the descriptor is not readable.
    pub fn deadline(&self) -> Option<Instant> {
        let expected = self.expected.iter().map(|e| e.until);
        let strangers = self.strangers.iter().map(|s| s.until);
        expected.chain(strangers).chain(self.shakes.iter().map(|s| s.until)).min()
    }

    /// Connections dropped so far because they did not prove in time who they were.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Goes on with everything; what has come of it. Call until `None`.
    pub fn advance(&mut self, now: Instant) -> Option<Outcome> {
        if self.outcomes.is_empty() {
            self.accept(now);
            self.hear_strangers(now);
            self.shake(now);
            self.expire(now);
            self.settle();
        }
        self.outcomes.pop_front()
    }

    fn fail(&mut self, peer: TaskId, why: SetUpError) {
        self.outcomes.push_back(Outcome::Failed { peer, why });
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..SETTING_UP_MAX {
            let Some(listener) = &self.listener else { return };
            // Where descriptors run out, say, offers run into their time.
            let Ok(Some(socket)) = socket::accept(listener) else { return };
            if self.strangers.len() == SETTING_UP_MAX {
                self.strangers.pop_front();
                self.dropped += 1;
            }
            if self.watch(&socket, epoll::EventFlags::IN).is_ok() {
                let until = now + HELLO_TIME;
                self.strangers.push_back(Stranger { socket, until, hello: Arriving::new() });
            }
        }
    }

    fn hear_strangers(&mut self, now: Instant) {
        for _ in 0..self.strangers.len() {
            let Some(mut stranger) = self.strangers.pop_front() else { return };
            match stranger.hello.read(&stranger.socket) {
                Ok(None) if now < stranger.until => self.strangers.push_back(stranger),
                Ok(None) | Err(_) => self.dropped += 1,
                Ok(Some(hello)) => {
                    let hello = *hello;
                    self.greet(stranger.socket, &hello);
                }
            }
        }
    }

    /// Answers a hello that an offer waits for.
    fn greet(&mut self, socket: OwnedFd, hello: &[u8; HELLO_LEN]) {
        let Some(at) = self.expected.iter().position(|e| is_expected(&e.offer, hello)) else {
            self.dropped += 1;
            return;
        };
        let Expected { offer, until, heard } = &mut self.expected[at];
        let peer = offer.peer;
        let under_way = self.shakes.iter().filter(|s| s.is_answering(peer)).count();
        let answered = if under_way < ANSWERS_MAX && *heard < HEARD_MAX {
            *heard += 1;
            answer(offer, hello)
        } else {
            None
        };
        let Some((bytes, awaited)) = answered else {
            self.dropped += 1;
            return;
        };
        let stage = Stage::Confirm { awaited: Some(Box::new(awaited)), confirm: Arriving::new() };
        // A played-back hello must not use up the offer: it stays expected until confirmed.
        let shake = Shake { socket, offer: offer.clone(), until: *until, stage };
        if write_all(&shake.socket, &bytes) == Ok(true) {
            self.shakes.push(shake);
        } else {
            self.dropped += 1;
        }
    }

    fn shake(&mut self, now: Instant) {
        let mut at = 0;
        while at < self.shakes.len() {
            let shake = &mut self.shakes[at];
            let (peer, answering) = (shake.offer.peer, shake.is_answering(shake.offer.peer));
            match shake.step(&self.epoll) {
                Ok(None) if now < shake.until => at += 1,
                Ok(Some(agreed)) => {
                    let Shake { socket, .. } = self.shakes.swap_remove(at);
                    // Out of the set-up's epoll; the stream's owner has its own.
                    let _ = epoll::delete(&self.epoll, &socket);
                    self.expected.retain(|e| e.offer.peer != peer);
                    let stream = Stream::new(agreed, socket);
                    self.outcomes.push_back(Outcome::Open(Box::new(stream)));
                }
                failed => {
                    self.shakes.swap_remove(at);
                    if answering {
                        // The offer itself is still there, until its time is over.
                        self.dropped += 1;
                    } else {
                        self.fail(peer, failed.err().unwrap_or(SetUpError::Time));
                    }
                }
            }
        }
        // What else was under way with those that now have a stream.
        let open: Vec<TaskId> = self.outcomes.iter().filter_map(Outcome::open).collect();
        self.shakes.retain(|s| !open.contains(&s.offer.peer));
    }

    fn expire(&mut self, now: Instant) {
        while let Some(at) = self.expected.iter().position(|e| e.until <= now) {
            let peer = self.expected.swap_remove(at).offer.peer;
            self.fail(peer, SetUpError::Time);
        }
    }
}
