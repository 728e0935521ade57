//! Players that ask for titles over RTSP: one thread, one poll loop.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use towpath_io::Clock;
use towpath_media::rtsp::{
    Answer, ConnectionId, Described, Host, Item, Opened, Server, ServerCounters, ServerLimits, Way,
    item,
};
use towpath_media::send::Config;
use towpath_wire::Instant;

use super::outlet::{Interleaved, Outlet};
use super::service::{
    Kind, Pacing, PacingError, PacingOptions, StreamControl, StreamOptions, Ticket, numbering,
    random,
};
use super::source::{Repeat, Source};
use super::titles::{Library, Title, TitleError};

/// Bytes read from a connection at once, and kept of an unfinished request at most.
const READ: usize = 16 * 1024;
/// Requests of a connection in one turn; then the others come first.
const REQUESTS: usize = 32;
/// A connection without session that says nothing for so long is closed.
const IDLE: Duration = Duration::from_mins(1);
/// How long nobody is let in after somebody could not be.
const DEAF: Duration = Duration::from_millis(100);
const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How a library is offered.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// Where players connect.
    pub at: SocketAddr,
    /// How streams are sent.
    pub pacing: PacingOptions,
    /// Limits of sessions.
    pub limits: ServerLimits,
    /// Connections at once; more are closed as soon as they come.
    pub connections: usize,
    /// Titles start anew when they end.
    pub repeat: Repeat,
}

/// Why a library is not offered.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The directory.
    #[error("cannot open the library")]
    Library(#[source] io::Error),
    /// The port.
    #[error("cannot listen at {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The streams.
    #[error(transparent)]
    Pacing(#[from] PacingError),
    /// Later.
    #[error("cannot wait for players")]
    Wait(#[source] io::Error),
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Served {
    /// By the protocol.
    #[serde(flatten)]
    pub server: ServerCounters,
    /// Connections taken.
    pub connections: u64,
    /// Closed at once: too many.
    pub refused_connections: u64,
    /// Closed because they did not speak RTSP.
    pub garbled: u64,
    /// Sessions at the moment.
    pub sessions: u64,
}

struct Connection {
    stream: TcpStream,
    out: Interleaved,
    peer: IpAddr,
    input: Vec<u8>,
    heard: Instant,
    closing: bool,
    /// Requests are left that a turn did not come to.
    more: bool,
}

/// What sessions need of files, streams and connections.
struct Desk {
    library: Library,
    pacing: Pacing,
    repeat: Repeat,
    titles: HashMap<u64, Title>,
    outlets: HashMap<ConnectionId, Interleaved>,
}

/// A library on offer.
pub struct Serve {
    listener: TcpListener,
    desk: Desk,
    server: Server,
    clock: Clock,
    connections: HashMap<ConnectionId, Connection>,
    next: ConnectionId,
    connections_max: usize,
    /// Nobody is let in before.
    deaf_until: Instant,
    served: Served,
}

impl Serve {
    /// Opens the directory and the port.
    pub fn open(dir: &Path, options: &ServeOptions) -> Result<Self, ServeError> {
        let library = Library::open(dir).map_err(ServeError::Library)?;
        let listen = |e| ServeError::Listen(options.at, e);
        let listener = TcpListener::bind(options.at).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let pacing = Pacing::start(&options.pacing)?;
        let (titles, outlets) = (HashMap::new(), HashMap::new());
        Ok(Self {
            listener,
            desk: Desk { library, pacing, repeat: options.repeat, titles, outlets },
            server: Server::new(options.limits),
            clock: Clock::start(),
            connections: HashMap::new(),
            next: 1,
            connections_max: options.connections,
            deaf_until: Instant::ZERO,
            served: Served::default(),
        })
    }

    /// Where players connect.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Whether streams are sent before all else.
    pub const fn real_time(&self) -> &Result<(), String> {
        self.desk.pacing.real_time()
    }

    /// What was done so far.
    pub fn served(&self) -> Served {
        let sessions = self.server.sessions() as u64;
        Served { server: *self.server.counters(), sessions, ..self.served }
    }

    /// Serves until `stop` is set.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<Served, ServeError> {
        while !stop.load(Ordering::Relaxed) {
            self.turn()?;
        }
        Ok(self.served())
    }

    /// Waits for something to do, a moment at most, and does it.
    pub fn turn(&mut self) -> Result<(), ServeError> {
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        let came = self.wait(&ids).map_err(ServeError::Wait)?;
        let now = self.clock.now();
        if came[0] {
            self.accept(now);
        }
        for (id, _) in ids.iter().zip(&came[1..]).filter(|(_, came)| **came) {
            self.read(now, *id);
        }
        let more = self.connections.iter().filter(|(_, c)| c.more);
        for id in more.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.answer(now, id);
        }
        self.server.handle_timeout(now, &mut self.desk);
        let over = |c: &Connection| {
            let idle = now.since(c.heard) > IDLE + Duration::from_secs(5);
            c.out.is_broken() || idle || c.closing && !c.out.flush()
        };
        let gone: Vec<ConnectionId> =
            self.connections.iter().filter(|(_, c)| over(c)).map(|(id, _)| *id).collect();
        for id in gone {
            self.close(id);
        }
        Ok(())
    }

    fn wait(&self, ids: &[ConnectionId]) -> io::Result<Vec<bool>> {
        let ready = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let hears =
            if self.clock.now() < self.deaf_until { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::from_borrowed_fd(self.listener.as_fd(), hears)];
        fds.extend(ids.iter().map(|id| ready(self.connections[id].stream.as_fd())));
        let busy = self.connections.values().any(|c| c.more);
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds, Some(if busy { &none } else { &STEP })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
    }

    fn accept(&mut self, now: Instant) {
        // As many as come at once, within the limit.
        loop {
            let (stream, peer) = match self.listener.accept() {
                Ok(came) => came,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // Out of descriptors, say: whoever waits is reported again and again meanwhile.
                Err(_) => {
                    self.served.refused_connections += 1;
                    self.deaf_until = now + DEAF;
                    return;
                }
            };
            if self.connections.len() >= self.connections_max {
                self.served.refused_connections += 1;
                continue;
            }
            let copy = stream.set_nonblocking(true).and_then(|()| stream.try_clone());
            let Ok(copy) = copy else { continue };
            let _ = stream.set_nodelay(true);
            let (id, out) = (self.next, Interleaved::new(copy));
            self.next += 1;
            self.served.connections += 1;
            self.desk.outlets.insert(id, out.clone());
            let peer = peer.ip().to_canonical();
            let connection = Connection {
                stream,
                out,
                peer,
                input: Vec::new(),
                heard: now,
                closing: false,
                more: false,
            };
            self.connections.insert(id, connection);
        }
    }

    fn read(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let have = connection.input.len();
        connection.input.resize(have + READ, 0);
        let read = connection.stream.read(&mut connection.input[have..]);
        let n = match read {
            Ok(0) => return self.close(id),
            Ok(n) => n,
            Err(e) => {
                connection.input.truncate(have);
                let again =
                    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
                if !again {
                    self.close(id);
                }
                return;
            }
        };
        connection.input.truncate(have + n);
        connection.heard = now;
        self.answer(now, id);
    }

    /// Answers what a connection asked, a bounded number of requests.
    fn answer(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let mut at = 0;
        connection.more = true;
        for _ in 0..REQUESTS {
            match item(&connection.input[at..]) {
                Ok(Some((Item::Request(request), n))) => {
                    let from = (id, connection.peer);
                    let answer = self.server.handle(now, from, &request, &mut self.desk);
                    let Answer { bytes, close } = answer;
                    connection.closing |= close | !connection.out.send([&bytes, &[]]);
                    at += n;
                }
                // A player's report: it is there.
                Ok(Some((Item::Data { .. }, n))) => {
                    self.server.heard(now, id);
                    at += n;
                }
                Ok(None) => {
                    connection.more = false;
                    break;
                }
                Err(_) => {
                    self.served.garbled += 1;
                    return self.close(id);
                }
            }
        }
        connection.input.drain(..at);
        // The longest item: a datagram of a channel, 64 KiB.
        if connection.input.len() > 4 * READ + 8 {
            self.served.garbled += 1;
            self.close(id);
        }
    }

    fn close(&mut self, id: ConnectionId) {
        self.server.gone(id, &mut self.desk);
        self.desk.outlets.remove(&id);
        self.connections.remove(&id);
    }
}

impl Host for Desk {
    fn describe(&mut self, path: &str) -> Result<Described, u16> {
        let title = self.library.title(path).map_err(|e| status(&e))?;
        let endless = self.repeat == Repeat::Forever;
        Ok(Described { duration: title.duration.filter(|_| !endless) })
    }

    fn open(&mut self, path: &str, way: Way) -> Result<Opened, u16> {
        let title = self.library.title(path).map_err(|e| status(&e))?;
        let rtp = numbering().map_err(|_| 500u16)?;
        let (outlet, receiver) = match way {
            Way::Udp { peer, ports: (rtp_port, rtcp_port) } => {
                let to = SocketAddr::new(peer, rtp_port);
                (Outlet::Udp { to, rtp: Some(rtp) }, Some(SocketAddr::new(peer, rtcp_port)))
            }
            Way::Interleaved { connection, channel } => {
                let connection = self.outlets.get(&connection).ok_or(454u16)?.clone();
                (Outlet::Interleaved { connection, channel, rtp }, None)
            }
        };
        let file = title.file.try_clone().map_err(|_| 503u16)?;
        let source = Source::File { file, from: 0, repeat: self.repeat };
        let config = Config { format: title.format, ..Config::stored() };
        let options = StreamOptions { source, config, outlet, receiver, paused: true, deaf: false };
        let ticket = self.pacing.add(options).map_err(|_| 453u16)?;
        self.titles.insert(ticket.0, title);
        let [media, reports] = self.pacing.addresses();
        let ports = (media.port(), reports.port());
        Ok(Opened { stream: ticket.0, ssrc: rtp.ssrc(), sequence: rtp.sequence(), ports })
    }

    fn play(&mut self, stream: u64, from: Option<Duration>, speed_ppm: u32) -> Result<(), u16> {
        let title = self.titles.get(&stream).ok_or(454u16)?;
        let ticket = Ticket(stream);
        if self.pacing.status(ticket).is_none_or(|status| status.kind == Kind::Over) {
            return Err(455);
        }
        if let Some(from) = from {
            if title.duration.is_some_and(|length| from > length) {
                return Err(457);
            }
            let at = title.seek(from).map_err(|e| status(&e))?;
            self.pacing.control(ticket, StreamControl::Pause);
            self.pacing.control(ticket, StreamControl::Seek(at));
        }
        self.pacing.control(ticket, StreamControl::Speed(speed_ppm));
        self.pacing.control(ticket, StreamControl::Resume);
        Ok(())
    }

    fn pause(&mut self, stream: u64) {
        self.pacing.control(Ticket(stream), StreamControl::Pause);
    }

    fn close(&mut self, stream: u64) {
        self.titles.remove(&stream);
        self.pacing.control(Ticket(stream), StreamControl::Stop);
        self.pacing.forget_when_over(Ticket(stream));
    }

    fn draw(&mut self) -> [u8; 16] {
        let mut drawn = [0; 16];
        // Without random numbers no session is safe: the kernel has them, or this ends.
        random(&mut drawn).expect("the kernel gives random numbers");
        drawn
    }
}

const fn status(e: &TitleError) -> u16 {
    match e {
        TitleError::Name(_) => 403,
        TitleError::Open(_) | TitleError::NoFile => 404,
        TitleError::Format => 415,
        TitleError::Read(_) => 500,
    }
}
