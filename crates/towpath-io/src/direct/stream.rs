//! A session over its socket.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::epoll;
use towpath_wire::TaskId;
use towpath_wire::talk::Header;

use super::handshake::Agreed;
use super::incoming::Piece;
use super::record::BadRecord;
use super::session::{Push, Session};
use super::socket;

/// Why a stream has ended. Said only after everything that came before was given out, except for
/// [`End::Bad`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both sides closed it and have taken everything.
    Closed,
    /// The peer ended or left; all that it wrote has come.
    Left,
    /// What came ends within a record.
    Cut,
    /// The kernel gave it up.
    Reset(io::ErrorKind),
    /// The peer (or somebody in its place) sent what cannot be.
    Bad(BadRecord),
}

/// Bytes after which the kernel's figure of a way's rate is believed.
const RATE_KNOWN_BYTES: u64 = 1 << 20;

/// What passed through a stream, and what it cost. Monotonic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// System calls that sent, or tried to.
    pub send_calls: u64,
    /// System calls that received, or found nothing.
    pub receive_calls: u64,
    /// Bytes that the kernel took.
    pub bytes_sent: u64,
    /// Bytes that arrived.
    pub bytes_received: u64,
    /// Pieces taken for sending.
    pub pieces_sent: u64,
    /// Pieces that arrived and were taken.
    pub pieces_received: u64,
    /// Pieces refused because the peer left too much untaken.
    pub full: u64,
}

/// The direct route to a task of another host. Nothing here waits.
pub struct Stream {
    session: Session,
    /// None once it has ended.
    socket: Option<OwnedFd>,
    /// The kernel may have something, or room: cleared when it says that it has not.
    readable: bool,
    writable: bool,
    /// Nothing more will come behind what the kernel has: it is read until it says so.
    last: bool,
    /// Writing failed; what has come is still read.
    broken: Option<io::ErrorKind>,
    end: Option<End>,
    counters: Counters,
}

impl Stream {
    pub(super) fn new(agreed: Agreed, socket: OwnedFd) -> Self {
        Self {
            session: Session::new(agreed),
            socket: Some(socket),
            readable: true,
            writable: true,
            last: false,
            broken: None,
            end: None,
            counters: Counters::default(),
        }
    }

    /// The other task.
    pub const fn peer(&self) -> TaskId {
        self.session.peer()
    }

    /// Adds the socket to an epoll, edge-triggered; call [`Self::woken`] when it says `token`.
    /// It leaves by itself when the stream ends.
    pub fn register(&self, epoll: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let data = epoll::EventData::new_u64(token);
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        Ok(epoll::add(epoll, socket, data, flags)?)
    }

    /// The socket once more, for a process that outlives this one: as long as somebody holds it,
    /// the kernel sends what was written. `None` when there are no descriptors left.
    pub fn share(&self) -> Option<OwnedFd> {
        self.socket.as_ref().and_then(|socket| socket.try_clone().ok())
    }

    /// The kernel may have something or room again: said by an epoll, or tried without.
    pub const fn woken(&mut self) {
        (self.readable, self.writable) = (true, true);
    }

    /// [`Self::woken`], and an epoll says that nothing more will come.
    pub const fn ending(&mut self) {
        self.last = true;
        self.woken();
    }

    /// A piece for the peer: the bytes of all `parts`, at most
    /// [`PIECE_MAX`](towpath_wire::talk::PIECE_MAX). They may be reused as soon as this returns.
    /// [`Self::flush`] sends it.
    pub fn push(&mut self, header: &Header, parts: &[&[u8]]) -> Push {
        if !self.is_open() {
            return Push::Closed;
        }
        let pushed = self.session.push(header, parts);
        match pushed {
            Push::Taken => self.counters.pieces_sent += 1,
            Push::Full => self.counters.full += 1,
            Push::Closed => {}
        }
        pushed
    }

    /// Whether [`Self::push`] would take a piece of any length now.
    pub fn has_room(&self) -> bool {
        self.is_open() && self.session.has_room()
    }

    /// Whether [`Self::push`] would take all pieces of `len` bytes now.
    pub fn has_room_for(&self, len: usize) -> bool {
        self.is_open() && self.session.has_room_for(len)
    }

    /// How many bytes a second the way takes, as the kernel has seen it. `None`: that is not known,
    /// or nobody has sent as fast as it goes for long enough to know: the kernel begins slowly.
    pub fn rate(&self) -> Option<u64> {
        let seen = socket::delivery(self.socket.as_ref()?)?;
        let is_known = seen.bytes_per_s > 0 && !seen.at_least && seen.bytes >= RATE_KNOWN_BYTES;
        is_known.then_some(seen.bytes_per_s)
    }

    /// Pieces can be sent: it has not ended, and nobody closes it.
    pub fn is_open(&self) -> bool {
        self.end.is_none() && self.broken.is_none() && !self.session.is_closing()
    }

    /// Gives the kernel what it takes of all that was pushed, and tells the peer what it must
    /// know.
    pub fn flush(&mut self) {
        self.session.seal();
        while self.writable
            && let Some(socket) = &self.socket
        {
            let pending = self.session.pending();
            if pending.is_empty() {
                break;
            }
            self.counters.send_calls += 1;
            match socket::write(socket, pending) {
                Ok(Some(n)) => {
                    self.counters.bytes_sent += n as u64;
                    self.session.wrote(n);
                }
                Ok(None) => self.writable = false,
                Err(e) => {
                    self.broken = Some(e.kind());
                    (self.readable, self.writable, self.last) = (true, false, true);
                }
            }
        }
        if self.session.is_done() {
            self.finish(End::Closed);
        }
    }

    /// The kernel has everything that was pushed: it goes on by itself.
    pub fn is_written(&self) -> bool {
        self.session.pending().is_empty()
    }

    /// The next piece from the peer; the same one until [`Self::take`]. Reads the socket when
    /// none is here: that may make room for sending even where no piece has come
    /// ([`Self::progress`]).
    pub fn head(&mut self) -> Option<Piece<'_>> {
        if self.find() { self.session.head() } else { None }
    }

    fn find(&mut self) -> bool {
        loop {
            match self.session.advance() {
                Ok(true) => return true,
                Ok(false) => {}
                Err(bad) => self.finish(End::Bad(bad)),
            }
            if self.session.owes() || self.session.is_done() {
                self.flush();
            }
            if !self.readable || self.end.is_some() {
                return false;
            }
            self.read();
        }
    }

    fn read(&mut self) {
        let Some(socket) = &self.socket else { return };
        self.counters.receive_calls += 1;
        let space = self.session.space();
        let room = space.len();
        match socket::read(socket, space) {
            Ok(Some(0)) => {
                let cut = if self.session.is_between() { End::Left } else { End::Cut };
                self.finish(self.broken.map_or(cut, End::Reset));
            }
            Ok(Some(n)) => {
                self.counters.bytes_received += n as u64;
                self.session.filled(n);
                // It gave all it had (epoll(7), "edge-triggered"). An end is said once, with or
                // after the last bytes.
                self.readable = n == room || self.last;
            }
            Ok(None) => self.readable = false,
            Err(e) => self.finish(End::Reset(e.kind())),
        }
    }

    /// The piece at the head belongs to the caller now; it will not come again.
    pub fn take(&mut self) {
        self.session.take();
        self.counters.pieces_received += 1;
        if self.session.owes() {
            self.flush();
        }
    }

    /// Bytes that the kernel took and gave so far: as long as it is the same, nothing has changed.
    pub const fn progress(&self) -> u64 {
        self.counters.bytes_sent + self.counters.bytes_received
    }

    /// True when the kernel has nothing for this stream and the stream nothing for the kernel,
    /// until an epoll says otherwise: the caller may sleep.
    pub fn quiet(&self) -> bool {
        let read = !self.readable || self.session.head().is_some();
        let written = !self.writable || self.is_written();
        self.end.is_some() || (read && written)
    }

    /// No more pieces from here, nor, when it has heard, from the peer. The stream goes on until
    /// it has [`ended`](Self::ended).
    pub fn close(&mut self) {
        self.session.close();
        self.flush();
    }

    /// Why it has ended, if it has.
    pub const fn ended(&self) -> Option<&End> {
        self.end.as_ref()
    }

    fn finish(&mut self, end: End) {
        self.end.get_or_insert(end);
        // Closing tells the peer, whatever the reason, and whoever else holds the socket.
        if let Some(socket) = self.socket.take() {
            let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
        }
    }

    /// Gives out the pieces that the peer is not known to have taken, in order, so that they can
    /// take another route; it drops those it has. Ends the stream if it has not ended.
    pub fn untaken(&mut self, give: &mut dyn FnMut(&Header, &[u8])) {
        self.finish(End::Closed);
        self.session.untaken(give);
    }

    /// The peer's kernel has everything that was pushed: this process may end.
    ///
    /// Closing a socket is not enough. If the peer writes to it afterwards, the kernel answers
    /// with a reset and throws away what it had not yet sent.
    pub fn drained(&self) -> bool {
        let Some(socket) = &self.socket else { return true };
        self.is_written() && socket::unacknowledged(socket).is_ok_and(|n| n == 0)
    }

    /// What passed so far.
    pub const fn counters(&self) -> Counters {
        self.counters
    }
}
