//! The receiving side: a socket, a receiver, and where what it gets goes.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use towpath_io::udp::{BindError, PlainSocket};
use towpath_io::{Clock, realtime};
use towpath_media::receive::{Arrivals, Playout, PlayoutConfig, ReceiveConfig, Receiver};
use towpath_media::rtp::{Header, Report, receiver_report, reports};
use towpath_media::send::DATAGRAM;
use towpath_wire::Instant;

use super::service::{PacingError, random};

/// How often a receiver reports (RFC 3550 §6.2).
const REPORT: Duration = Duration::from_secs(5);
/// Longest sleep: marks and silence are looked at so often.
const STEP: Duration = Duration::from_millis(100);
/// The receiving thread's real-time priority: below that of the thread that sends.
const FIFO: i32 = 40;
/// How soon a writer that was busy is asked again.
const WRITER: Duration = Duration::from_millis(5);
/// Bytes handed to it at once.
const BLOCK: usize = 32 * DATAGRAM;
const NAME: &str = "towpath";

/// Why nothing is received any more.
#[derive(Debug, thiserror::Error)]
pub enum ReceptionError {
    /// The socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The socket, later.
    #[error("cannot receive")]
    Receive(#[source] io::Error),
    /// Where it goes.
    #[error("cannot write what was received")]
    Write(#[source] io::Error),
    /// Random numbers.
    #[error(transparent)]
    Random(#[from] PacingError),
}

/// Where what is received goes.
pub enum Received {
    /// To a writer, as fast as it takes it.
    Written(Box<Receiver>),
    /// On to an address, in the rhythm of the sender's clock.
    Sent(Box<Playout>, SocketAddr),
    /// Nowhere: when it came is looked at.
    Judged(Box<Arrivals>),
}

impl Received {
    /// To a writer.
    pub fn written(config: ReceiveConfig) -> Self {
        Self::Written(Box::new(Receiver::new(config)))
    }

    /// To an address.
    pub fn sent(config: PlayoutConfig, to: SocketAddr) -> Self {
        Self::Sent(Box::new(Playout::new(config)), to)
    }
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its owner wanted it to.
    Asked,
    /// Nothing came for as long as was to be waited.
    Silent,
}

/// Receives a stream.
pub struct Reception {
    socket: PlainSocket,
    reports: Option<PlainSocket>,
    clock: Clock,
    what: Received,
    /// On its way to the writer, which has not taken what came before.
    block: Option<Vec<u8>>,
    ssrc: u32,
    /// Whom datagrams come from: the first one's sender, and nobody else.
    peer: Option<SocketAddr>,
    is_rtp: bool,
    heard: Instant,
    reported: Instant,
    /// Datagrams of others.
    strangers: u64,
}

impl Reception {
    /// Listens at an address, or joins its group.
    pub fn listen(
        at: SocketAddr,
        interface: Ipv4Addr,
        source: Option<Ipv4Addr>,
        what: Received,
    ) -> Result<Self, ReceptionError> {
        let socket = PlainSocket::listen(at, interface, source)?;
        // RTCP's port, where it can be had: without it nothing is reported, and all else goes on.
        let next = SocketAddr::new(at.ip(), at.port().wrapping_add(1));
        let reports = PlainSocket::listen(next, interface, source).ok();
        let mut drawn = [0; 4];
        random(&mut drawn)?;
        let (clock, ssrc) = (Clock::start(), u32::from_be_bytes(drawn));
        let zero = Instant::ZERO;
        Ok(Self {
            socket,
            reports,
            clock,
            what,
            block: None,
            ssrc,
            peer: None,
            is_rtp: false,
            heard: zero,
            reported: zero,
            strangers: 0,
        })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What it holds.
    pub const fn what(&self) -> &Received {
        &self.what
    }

    /// Datagrams that came from others than the stream's sender.
    pub const fn strangers(&self) -> u64 {
        self.strangers
    }

    /// Whom the stream comes from.
    pub const fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Receives until `stop` says so, asked ten times a second, or nothing has come for
    /// `patience` after something did (and, before, for `first`). What is to be written is written
    /// to `out` by a thread of its own: a writer that waits holds nothing up but the ring.
    pub fn run(
        &mut self,
        times: (Duration, Duration),
        wake: Option<BorrowedFd<'_>>,
        out: &mut (dyn Write + Send),
        stop: impl FnMut(&Self) -> bool,
    ) -> Result<Ended, ReceptionError> {
        let (blocks, filled) = sync_channel::<Vec<u8>>(1);
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                filled.iter().try_for_each(|block| out.write_all(&block))?;
                out.flush()
            });
            // As long as it sleeps between datagrams, and no longer.
            let _ = realtime::first_in_first_out(FIFO);
            let ended = self.until(times, wake, &blocks, stop);
            realtime::ordinary();
            drop(blocks);
            let written = writer.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
            written.map_err(ReceptionError::Write)?;
            ended
        })
    }

    fn until(
        &mut self,
        (first, patience): (Duration, Duration),
        wake: Option<BorrowedFd<'_>>,
        blocks: &SyncSender<Vec<u8>>,
        mut stop: impl FnMut(&Self) -> bool,
    ) -> Result<Ended, ReceptionError> {
        let mut asked = Instant::ZERO;
        loop {
            let now = self.clock.now();
            if !self.deliver(now, blocks) {
                return Ok(Ended::Asked);
            }
            if now.since(asked) >= STEP {
                asked = now;
                if stop(self) {
                    self.end(blocks);
                    return Ok(Ended::Asked);
                }
            }
            let silent = now.since(self.heard);
            if silent > if self.peer.is_some() { patience } else { first } {
                self.end(blocks);
                return Ok(Ended::Silent);
            }
            let room = self.has_room(now);
            self.wait(now, room, wake)?;
            if room {
                self.receive()?;
            }
            self.report();
        }
    }

    /// Whether the ring takes another batch: else what comes waits in the kernel.
    fn has_room(&mut self, now: Instant) -> bool {
        let Received::Written(receiver) = &mut self.what else { return true };
        let room = receiver.room() >= 32 * DATAGRAM || receiver.level() < 32 * DATAGRAM;
        if !room {
            receiver.press(now);
            self.heard = now;
        }
        room
    }

    /// What waits goes out at once: nobody waits for its time any more.
    fn end(&mut self, blocks: &SyncSender<Vec<u8>>) {
        let now = self.clock.now();
        match &mut self.what {
            Received::Written(receiver) => {
                receiver.finish();
                let mut out = vec![0; BLOCK];
                let mut next = self.block.take();
                loop {
                    let Some(block) = next.take() else {
                        let n = receiver.take(now, &mut out);
                        if n == 0 {
                            return;
                        }
                        next = Some(out[..n].to_vec());
                        continue;
                    };
                    if blocks.send(block).is_err() {
                        return;
                    }
                }
            }
            Received::Sent(playout, to) => {
                playout.finish(now);
                let mut out = [0; DATAGRAM];
                let mut due = now;
                while let Some(next) = playout.poll_timeout() {
                    due = due.max(next);
                    std::thread::sleep(due.since(self.clock.now()));
                    while let Some(sent) = playout.poll_transmit(due, &mut out) {
                        let _ = self.socket.send([(*to, &out[..sent.len])].into_iter());
                    }
                }
            }
            Received::Judged(_) => {}
        }
    }

    /// Hands on what is due. False: the writer takes nothing any more.
    fn deliver(&mut self, now: Instant, blocks: &SyncSender<Vec<u8>>) -> bool {
        match &mut self.what {
            Received::Written(receiver) => {
                receiver.handle_timeout(now);
                loop {
                    let block = self.block.take().unwrap_or_else(|| {
                        let mut block = vec![0; BLOCK.min(receiver.level())];
                        let n = receiver.take(now, &mut block);
                        block.truncate(n);
                        block
                    });
                    if block.is_empty() {
                        return true;
                    }
                    match blocks.try_send(block) {
                        Ok(()) => {}
                        Err(TrySendError::Full(block)) => {
                            self.block = Some(block);
                            return true;
                        }
                        Err(TrySendError::Disconnected(_)) => return false,
                    }
                }
            }
            Received::Sent(playout, to) => {
                playout.handle_timeout(now);
                let mut out = [0; DATAGRAM];
                while let Some(due) = playout.poll_transmit(now, &mut out) {
                    let _ = self.socket.send([(*to, &out[..due.len])].into_iter());
                }
                true
            }
            Received::Judged(_) => true,
        }
    }

    fn wait(
        &self,
        now: Instant,
        room: bool,
        wake: Option<BorrowedFd<'_>>,
    ) -> Result<(), ReceptionError> {
        let due = match &self.what {
            Received::Written(receiver) => receiver.poll_timeout(),
            Received::Sent(playout, _) => playout.poll_timeout(),
            Received::Judged(_) => None,
        };
        // The writer does not say when it took something.
        let longest = if self.block.is_some() { WRITER } else { STEP };
        let left = due.map_or(longest, |due| due.since(now)).min(longest);
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.as_nanos() as i64 };
        let ready = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds = Vec::with_capacity(3);
        // What is not read now must not wake us again and again.
        if room {
            fds.push(ready(self.socket.as_fd()));
            fds.extend(self.reports.iter().map(|socket| ready(socket.as_fd())));
        }
        fds.extend(wake.map(ready));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(ReceptionError::Receive(e.into())),
        }
    }

    fn receive(&mut self) -> Result<(), ReceptionError> {
        let Self { socket, what, peer, clock, heard, strangers, is_rtp, .. } = self;
        let now = clock.now();
        // One batch: then what is due goes out first.
        let received = socket.receive(|arrived, bytes| {
            let payload = match bytes.first() {
                Some(0x47) => bytes,
                _ => Header::parse(bytes).map_or(&[][..], |(_, payload)| payload),
            };
            // Only who sends packets of a stream is its sender, or goes on being it.
            if payload.first() != Some(&0x47) {
                *strangers += 1;
                return;
            }
            if *peer.get_or_insert(arrived.remote) != arrived.remote {
                // A sender that starts again does so from another port.
                if now.since(*heard) < Duration::from_secs(1) {
                    *strangers += 1;
                    return;
                }
                *peer = Some(arrived.remote);
            }
            *heard = now;
            *is_rtp |= bytes.first() != Some(&0x47);
            match what {
                Received::Written(receiver) => receiver.handle_datagram(now, bytes),
                Received::Sent(playout, _) => playout.handle_datagram(now, bytes),
                Received::Judged(arrivals) => {
                    arrivals.take(arrived.came_ns.cast_signed(), payload);
                }
            }
        });
        received.map_err(ReceptionError::Receive)?;
        let mut sent = None;
        if let Some(socket) = &mut self.reports {
            let _ = socket.receive(|arrived, bytes| {
                if self.peer.is_some_and(|peer| peer.ip() == arrived.remote.ip()) {
                    let _ = reports(bytes, |report| {
                        if let Report::Sender(told) = report {
                            sent = Some((arrived.remote, told));
                        }
                    });
                }
            });
        }
        if let Some((_, told)) = sent
            && let Some(receiver) = receiver(&mut self.what)
        {
            receiver.reported(now, &told);
        }
        Ok(())
    }

    /// Asks the sender for less or more, and reports.
    fn report(&mut self) {
        let now = self.clock.now();
        let Some(peer) = self.peer else { return };
        let due = self.is_rtp && now.since(self.reported) >= REPORT;
        let Some(receiver) = receiver(&mut self.what) else { return };
        receiver.look(now);
        let ask = receiver.poll_feedback();
        if ask.is_none() && !due {
            return;
        }
        let block = if self.is_rtp { receiver.block(now) } else { None };
        let mut packet = Vec::new();
        receiver_report(&mut packet, self.ssrc, block.as_ref(), NAME);
        if let Some(ask) = ask {
            towpath_media::rtp::feedback(&mut packet, self.ssrc, ask);
        }
        self.reported = now;
        // Feedback goes where datagrams come from, so that it needs no second port.
        let _ = self.socket.send([(peer, &packet[..])].into_iter());
    }
}

fn receiver(what: &mut Received) -> Option<&mut Receiver> {
    match what {
        Received::Written(receiver) => Some(receiver),
        Received::Sent(playout, _) => Some(playout.receiver_mut()),
        Received::Judged(_) => None,
    }
}
