//! What the owner of streams asks for and is told.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use serde::Serialize;
use towpath_io::udp::{BindError, Multicast, PlainSocket};
use towpath_media::rtp::Numbering;
use towpath_media::send::{Config, Feedback, SendCounters, Sender as StreamSender, Standing};

use super::outlet::Outlet;
use super::source::{self, Ask, Source, SourceError, Told};
use super::thread;

/// Whether the thread goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Real-time priority where the system allows it.
    #[default]
    RealTime,
    /// That of any other.
    Ordinary,
}

/// How streams are sent.
#[derive(Clone, Copy, Debug)]
pub struct PacingOptions {
    /// The address datagrams leave from (port 0: the kernel chooses one).
    pub from: SocketAddr,
    /// How those to groups go.
    pub multicast: Multicast,
    /// Whether the thread goes first.
    pub priority: Priority,
    /// Most streams at once; more are refused.
    pub streams_max: usize,
}

/// Why streams cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum PacingError {
    /// A socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A thread, a timer, an option.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        #[source]
        why: io::Error,
    },
    /// More streams than the limit.
    #[error("{0} streams are sent, the limit")]
    Full(usize),
}

/// A stream that is to be sent.
#[derive(Debug)]
pub struct StreamOptions {
    /// Its bytes.
    pub source: Source,
    /// When they leave.
    pub config: Config,
    /// Where to.
    pub outlet: Outlet,
    /// Who may send reports and feedback; nobody else is listened to.
    pub receiver: Option<SocketAddr>,
    /// Sent once all of it is on its way, or held at first.
    pub paused: bool,
    /// Feedback is counted and not followed.
    pub deaf: bool,
}

/// Names a stream of a [`Pacing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

/// What can be done to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamControl {
    /// Hold it.
    Pause,
    /// Go on.
    Resume,
    /// Go on from another byte of its file.
    Seek(u64),
    /// So many millionths of its own speed.
    Speed(u32),
    /// What its receiver asks for.
    Feedback(Feedback),
    /// End it.
    Stop,
}

/// Whether it is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Being sent.
    Live,
    /// Over.
    Over,
}

/// How a stream does.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Whether it is still there.
    pub kind: Kind,
    /// Where it stands.
    pub standing: Standing,
    /// What was counted.
    pub counters: SendCounters,
    /// Datagrams that the kernel or a slow player did not take.
    pub dropped: u64,
    /// Gaps between sends in millionths of the stream's own, as feedback has it.
    pub gap_ppm: u64,
    /// Latest that a datagram left after it was due, since the last status, µs.
    pub late_us_max: u64,
    /// SLOWDOWN, SPEEDUP and NORMAL that its receiver sent.
    pub feedback: [u64; 3],
    /// Of the last report of its receiver: loss since the one before in 256ths, and in all.
    pub loss: Option<(u8, i32)>,
    /// Its source failed.
    #[serde(skip)]
    pub error: Option<Arc<SourceError>>,
}

/// What the thread is told.
pub(super) enum Command {
    Add(Ticket, Box<StreamSender>, Outlet, Option<SocketAddr>, bool),
    Control(Ticket, StreamControl),
    Source(Told),
    /// After everything that was asked for before.
    Forget(Ticket),
    End,
}

pub(super) type Table = Arc<Mutex<HashMap<u64, Status>>>;

/// What wakes the thread.
#[derive(Clone)]
pub(super) struct Mailbox {
    pub(super) commands: Sender<Command>,
    pub(super) wake: Arc<OwnedFd>,
}

impl Mailbox {
    pub(super) fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        }
    }
}

/// A thread that sends streams.
///
/// One thread paces all of them; another reads their files. Dropped, both end.
pub struct Pacing {
    mailbox: Mailbox,
    asks: Option<Sender<Ask>>,
    table: Table,
    next: AtomicU64,
    streams_max: usize,
    addresses: [SocketAddr; 2],
    real_time: Result<(), String>,
    threads: Vec<JoinHandle<()>>,
}

impl Pacing {
    /// Starts the threads.
    pub fn start(options: &PacingOptions) -> Result<Self, PacingError> {
        let system = |what| move |why: io::Error| PacingError::System { what, why };
        let (media, reports) = sockets(options.from)?;
        for socket in [&media, &reports] {
            let set = socket.set_multicast(options.multicast);
            set.map_err(system("set how datagrams to groups go"))?;
        }
        let address = |s: &PlainSocket| s.local_addr().map_err(system("read an address"));
        let addresses = [address(&media)?, address(&reports)?];
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let wake = Arc::new(wake.map_err(|e| system("make a wake-up")(e.into()))?);
        let (commands, receiver) = channel();
        let mailbox = Mailbox { commands, wake };
        let (asks, asked) = channel();
        let table = Table::default();
        let thread = thread::Start {
            commands: receiver,
            wake: mailbox.wake.clone(),
            asks: asks.clone(),
            sockets: [media, reports],
            table: table.clone(),
            priority: options.priority,
        };
        let (told, real_time) = channel();
        let pacing = spawn("pacing", move || thread::run(thread, &told))?;
        let back = mailbox.clone();
        let tell = move |told| back.send(Command::Source(told));
        let reading = spawn("reading", move || source::run(&asked, &tell))?;
        let real_time = hear(&real_time);
        Ok(Self {
            mailbox,
            asks: Some(asks),
            table,
            next: AtomicU64::new(1),
            streams_max: options.streams_max,
            addresses,
            real_time,
            threads: vec![pacing, reading],
        })
    }

    /// Whether the thread goes before all others; else why not, and what that costs.
    pub const fn real_time(&self) -> &Result<(), String> {
        &self.real_time
    }

    /// The addresses that datagrams and RTCP reports leave from.
    pub const fn addresses(&self) -> [SocketAddr; 2] {
        self.addresses
    }

    /// Sends a stream.
    pub fn add(&self, options: StreamOptions) -> Result<Ticket, PacingError> {
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        let mut sender = StreamSender::new(options.config);
        if options.paused {
            sender.pause(towpath_wire::Instant::ZERO);
        }
        let status = thread::status_of(&sender);
        {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            let live = table.values().filter(|status| status.kind == Kind::Live).count();
            if live >= self.streams_max {
                return Err(PacingError::Full(self.streams_max));
            }
            table.insert(ticket.0, status);
        }
        let asks = self.asks.as_ref().expect("it is there until the end");
        let _ = asks.send(Ask::Open(ticket.0, options.source));
        let sender = Box::new(sender);
        self.mailbox.send(Command::Add(
            ticket,
            sender,
            options.outlet,
            options.receiver,
            options.deaf,
        ));
        Ok(ticket)
    }

    /// Does something to a stream; nothing where it is over.
    pub fn control(&self, ticket: Ticket, control: StreamControl) {
        if let StreamControl::Seek(at) = control {
            let asks = self.asks.as_ref().expect("it is there until the end");
            let _ = asks.send(Ask::Seek(ticket.0, at));
        } else {
            self.mailbox.send(Command::Control(ticket, control));
        }
    }

    /// How a stream does, as of the last tenth of a second.
    pub fn status(&self, ticket: Ticket) -> Option<Status> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).get(&ticket.0).cloned()
    }

    /// Forgets a stream that is over.
    pub fn forget(&self, ticket: Ticket) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.get(&ticket.0).is_some_and(|status| status.kind == Kind::Over) {
            table.remove(&ticket.0);
        }
    }

    /// Forgets a stream as soon as it is over.
    pub fn forget_when_over(&self, ticket: Ticket) {
        self.mailbox.send(Command::Forget(ticket));
    }

    /// Waits until a stream is over, or `step` has passed.
    pub fn wait(&self, ticket: Ticket, step: Duration) -> bool {
        std::thread::sleep(step);
        self.status(ticket).is_none_or(|status| status.kind == Kind::Over)
    }
}

impl Drop for Pacing {
    fn drop(&mut self) {
        self.mailbox.send(Command::End);
        self.asks = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn spawn(
    name: &'static str,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, PacingError> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(body);
    spawned.map_err(|why| PacingError::System { what: "start a thread", why })
}

fn hear(told: &Receiver<Result<(), String>>) -> Result<(), String> {
    told.recv().unwrap_or_else(|_| Err("the thread ended".into()))
}

/// Two sockets, for datagrams and reports: the reports' port is the next one, as RFC 3550 §11 has
/// it, where the kernel chooses and has such a pair.
fn sockets(from: SocketAddr) -> Result<(PlainSocket, PlainSocket), PacingError> {
    const TRIES: usize = 20;
    let mut pair = None;
    for _ in 0..TRIES {
        let media = PlainSocket::bind(from)?;
        let Ok(addr) = media.local_addr() else { continue };
        let next = SocketAddr::new(addr.ip(), addr.port().wrapping_add(1));
        let even = addr.port() % 2 == 0 || from.port() != 0;
        if even
            && next.port() != 0
            && let Ok(reports) = PlainSocket::bind(next)
        {
            return Ok((media, reports));
        }
        pair = Some(media);
    }
    let media = pair.map_or_else(|| PlainSocket::bind(from), Ok)?;
    Ok((media, PlainSocket::bind(SocketAddr::new(from.ip(), 0))?))
}

/// RTP's numbers, drawn from the kernel.
pub(super) fn numbering() -> Result<Numbering, PacingError> {
    let (mut ssrc, mut offset, mut sequence) = ([0; 4], [0; 4], [0; 2]);
    for drawn in [&mut ssrc[..], &mut offset, &mut sequence] {
        random(drawn)?;
    }
    let (ssrc, offset) = (u32::from_be_bytes(ssrc), u32::from_be_bytes(offset));
    Ok(Numbering::new(ssrc, u16::from_be_bytes(sequence), offset))
}

/// Bytes that nobody guesses.
pub(super) fn random(bytes: &mut [u8]) -> Result<(), PacingError> {
    let flags = rustix::rand::GetRandomFlags::empty();
    match rustix::rand::getrandom(&mut *bytes, flags) {
        Ok(_) => Ok(()),
        Err(e) => Err(PacingError::System { what: "draw random numbers", why: e.into() }),
    }
}

impl Outlet {
    /// To an address, as packets of a transport stream.
    pub const fn udp(to: SocketAddr) -> Self {
        Self::Udp { to, rtp: None }
    }

    /// To an address, by RTP with numbers drawn now.
    pub fn rtp(to: SocketAddr) -> Result<Self, PacingError> {
        Ok(Self::Udp { to, rtp: Some(numbering()?) })
    }
}
