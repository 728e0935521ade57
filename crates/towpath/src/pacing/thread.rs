//! The thread: waits for an instant, sends what is due, hears what it is told.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use towpath_io::udp::PlainSocket;
use towpath_io::{Clock, realtime};
use towpath_media::rtp::{RTP_HEADER, Report, Sent, goodbye, reports, sender_report};
use towpath_media::send::{DATAGRAM, Due, Feedback, Sender as Stream, StreamId, Streams, Tick};
use towpath_wire::Instant;

use super::outlet::{FRAME, Outlet};
use super::service::{Command, Kind, Priority, Status, StreamControl, Table, Ticket};
use super::source::{Ask, Told};

/// The thread's real-time priority: above what is not urgent, below what the kernel needs.
const FIFO: i32 = 50;
/// Datagrams of one turn; then the thread looks at everything else, and is seen to sleep.
const TURN: usize = 1024;
/// Datagrams per system call.
const BATCH: usize = 64;
/// How often statuses are written.
const STATUS: Duration = Duration::from_millis(100);
/// How often a source reports (RFC 3550 §6.2 has 5 s at least, players expect no less often).
const REPORT: Duration = Duration::from_secs(5);
/// Reports that are listened to between two statuses; more are dropped.
const HEARD_MAX: u32 = 2000;
/// So long the thread runs without a pause at most; the kernel would end the process after two
/// seconds of it.
const RUN_MAX: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_micros(200);
/// Between the zeros of NTP and Unix, in seconds.
const NTP_UNIX: u64 = 2_208_988_800;
/// What a source calls itself.
const NAME: &str = "towpath";

/// What the thread begins with.
pub(super) struct Start {
    pub(super) commands: Receiver<Command>,
    pub(super) wake: Arc<OwnedFd>,
    pub(super) asks: Sender<Ask>,
    pub(super) sockets: [PlainSocket; 2],
    pub(super) table: Table,
    pub(super) priority: Priority,
}

struct Entry {
    ticket: Ticket,
    outlet: Outlet,
    receiver: Option<SocketAddr>,
    deaf: bool,
    /// Bytes were asked for and have not come.
    asked: bool,
    dropped: u64,
    late: Duration,
    feedback: [u64; 3],
    loss: Option<(u8, i32)>,
    reported: Instant,
    error: Option<Arc<super::source::SourceError>>,
}

/// A batch of datagrams on their way out.
struct Batch {
    bytes: Vec<[u8; FRAME]>,
    to: Vec<(StreamId, SocketAddr, usize)>,
}

struct Thread {
    clock: Clock,
    streams: Streams,
    entries: HashMap<StreamId, Entry>,
    by_ticket: HashMap<u64, StreamId>,
    asks: Sender<Ask>,
    sockets: [PlainSocket; 2],
    table: Table,
    batch: Batch,
    tick: Tick,
    /// Datagrams since the last status, and when that was.
    sent: u64,
    status_at: Instant,
    heard: u32,
    /// When it last had nothing to do.
    idle: Instant,
}

/// Runs until it is told to end.
pub(super) fn run(start: Start, told: &Sender<Result<(), String>>) {
    let real_time = match start.priority {
        Priority::RealTime => realtime::first_in_first_out(FIFO).map_err(|e| e.to_string()),
        Priority::Ordinary => Err("not asked for".into()),
    };
    realtime::exact_timers();
    let _ = told.send(real_time);
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let Ok(timer) = timerfd_create(TimerfdClockId::Monotonic, flags) else { return };
    let mut thread = Thread {
        clock: Clock::start(),
        streams: Streams::new(),
        entries: HashMap::new(),
        by_ticket: HashMap::new(),
        asks: start.asks,
        sockets: start.sockets,
        table: start.table,
        batch: Batch { bytes: vec![[0; FRAME]; BATCH], to: Vec::with_capacity(BATCH) },
        tick: Tick::EXACT,
        sent: 0,
        status_at: Instant::ZERO,
        heard: 0,
        idle: Instant::ZERO,
    };
    loop {
        while let Ok(command) = start.commands.try_recv() {
            if !thread.command(command) {
                return;
            }
        }
        thread.send();
        thread.housekeeping();
        if !thread.sleep(&timer, &start.wake) {
            return;
        }
    }
}

impl Thread {
    /// False: it is over.
    fn command(&mut self, command: Command) -> bool {
        let now = self.clock.now();
        match command {
            Command::End => return false,
            Command::Add(ticket, sender, outlet, receiver, deaf) => {
                let id = self.streams.add(*sender);
                let entry = Entry {
                    ticket,
                    outlet,
                    receiver,
                    deaf,
                    asked: false,
                    dropped: 0,
                    late: Duration::ZERO,
                    feedback: [0; 3],
                    loss: None,
                    reported: Instant::ZERO,
                    error: None,
                };
                self.entries.insert(id, entry);
                self.by_ticket.insert(ticket.0, id);
                self.ask(id);
            }
            Command::Control(ticket, control) => {
                if let Some(&id) = self.by_ticket.get(&ticket.0) {
                    self.control(now, id, control);
                }
            }
            Command::Forget(ticket) => {
                let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
                table.remove(&ticket.0);
            }
            Command::Source(told) => self.told(told),
        }
        true
    }

    fn control(&mut self, now: Instant, id: StreamId, control: StreamControl) {
        let change = |stream: &mut Stream| match control {
            StreamControl::Pause => stream.pause(now),
            StreamControl::Resume => stream.resume(now),
            StreamControl::Speed(ppm) => stream.set_speed(now, ppm),
            StreamControl::Feedback(feedback) => stream.feedback(now, feedback),
            StreamControl::Seek(_) | StreamControl::Stop => {}
        };
        let _ = self.streams.with(id, change);
        if control == StreamControl::Stop {
            self.end(id);
        }
    }

    fn told(&mut self, told: Told) {
        let ticket = match &told {
            Told::Block(id, _) | Told::Splice(id) | Told::Sought(id) | Told::End(id, _) => id,
        };
        let Some(&id) = self.by_ticket.get(ticket) else { return };
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match told {
            Told::Block(_, bytes) => {
                entry.asked = false;
                let _ = self.streams.with(id, |stream| stream.push(&bytes));
            }
            Told::Splice(_) => drop(self.streams.with(id, Stream::splice)),
            Told::Sought(_) => {
                entry.asked = false;
                let _ = self.streams.with(id, |stream| {
                    stream.flush();
                    stream.splice();
                });
            }
            Told::End(_, error) => {
                entry.asked = true;
                entry.error = error;
                let _ = self.streams.with(id, Stream::finish);
            }
        }
        self.ask(id);
    }

    /// Asks for bytes where there is room.
    fn ask(&mut self, id: StreamId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let room = self.streams.get(id).map_or(0, Stream::room);
        if room > 0 && !entry.asked {
            entry.asked = true;
            let _ = self.asks.send(Ask::Fill(entry.ticket.0, room));
        }
    }

    /// Sends what is due, a bounded turn of it.
    fn send(&mut self) {
        let mut turns = 0;
        while turns < TURN {
            let now = self.clock.now();
            let before = turns;
            while self.batch.to.len() < BATCH && turns < TURN {
                let place = self.batch.to.len();
                let frame = &mut self.batch.bytes[place];
                let out = &mut frame[FRAME - DATAGRAM..];
                let Some((id, due)) = self.streams.poll_transmit(now, out) else { break };
                turns += 1;
                self.enter(now, id, due);
            }
            self.flush();
            if turns == before {
                break;
            }
        }
        self.sent += turns as u64;
    }

    /// Puts what stands before the packets into the frame, and it on its way.
    fn enter(&mut self, now: Instant, id: StreamId, due: Due) {
        let place = self.batch.to.len();
        let frame = &mut self.batch.bytes[place];
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.late = entry.late.max(now.since(due.at));
        let from = FRAME - DATAGRAM;
        let end = from + due.len;
        match &mut entry.outlet {
            Outlet::Udp { to, rtp: None } => {
                frame.copy_within(from..end, 0);
                self.batch.to.push((id, *to, due.len));
            }
            Outlet::Udp { to, rtp: Some(rtp) } => {
                let header = rtp.next(due.at, due.len).emit();
                frame[4..from].copy_from_slice(&header);
                frame.copy_within(4..end, 0);
                self.batch.to.push((id, *to, end - 4));
            }
            Outlet::Interleaved { connection, channel, rtp } => {
                let header = rtp.next(due.at, due.len).emit();
                let len = (RTP_HEADER + due.len) as u16;
                frame[..2].copy_from_slice(&[b'$', *channel]);
                frame[2..4].copy_from_slice(&len.to_be_bytes());
                frame[4..from].copy_from_slice(&header);
                let sent = connection.send([&frame[..end], &[]]);
                entry.dropped += u64::from(!sent);
            }
        }
        self.ask(id);
    }

    fn flush(&mut self) {
        let Self { batch, sockets, entries, .. } = self;
        if batch.to.is_empty() {
            return;
        }
        let datagrams = batch.to.iter().zip(&batch.bytes);
        let datagrams = datagrams.map(|((_, to, len), bytes)| (*to, &bytes[..*len]));
        let flushed = sockets[0].send(datagrams);
        // Which of them it was is not told: the last ones are most likely.
        let lost = flushed.refused + flushed.blocked;
        for (id, ..) in batch.to.iter().rev().take(lost) {
            if let Some(entry) = entries.get_mut(id) {
                entry.dropped += 1;
            }
        }
        batch.to.clear();
    }

    /// What is done ten times a second.
    fn housekeeping(&mut self) {
        let now = self.clock.now();
        let since = now.since(self.status_at);
        if since < STATUS {
            return;
        }
        let per_s = u128::from(self.sent) * 1_000_000_000 / since.as_nanos().max(1);
        self.tick = Tick::for_load(per_s as u64);
        (self.status_at, self.sent, self.heard) = (now, 0, 0);
        self.report(now);
        let mut over = Vec::new();
        {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            for (id, entry) in &mut self.entries {
                let Some(stream) = self.streams.get(*id) else { continue };
                let Some(row) = table.get_mut(&entry.ticket.0) else { continue };
                *row = Status {
                    dropped: entry.dropped,
                    late_us_max: entry.late.as_micros() as u64,
                    feedback: entry.feedback,
                    loss: entry.loss,
                    error: entry.error.clone(),
                    ..status_of(stream)
                };
                entry.late = Duration::ZERO;
                if row.standing == towpath_media::send::Standing::Finished
                    || row.standing == towpath_media::send::Standing::Clockless
                {
                    over.push(*id);
                }
            }
        }
        for id in over {
            self.end(id);
        }
    }

    /// A stream is over.
    fn end(&mut self, id: StreamId) {
        self.streams.remove(id);
        let Some(mut entry) = self.entries.remove(&id) else { return };
        let now = self.clock.now();
        if let Some(mut packet) = own_report(&self.clock, now, &mut entry) {
            // Players know by it that there is no more.
            let ssrc = entry.outlet.numbering().map_or(0, |rtp| rtp.ssrc());
            goodbye(&mut packet, ssrc);
            send_report(&self.sockets[1], &entry, &packet);
        }
        self.by_ticket.remove(&entry.ticket.0);
        let _ = self.asks.send(Ask::Close(entry.ticket.0));
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = table.get_mut(&entry.ticket.0) {
            row.kind = Kind::Over;
        }
    }

    /// Sources tell of themselves.
    fn report(&mut self, now: Instant) {
        let Self { entries, sockets, clock, .. } = self;
        for entry in entries.values_mut() {
            let due = entry.reported == Instant::ZERO || now.since(entry.reported) >= REPORT;
            if due && let Some(packet) = own_report(clock, now, entry) {
                entry.reported = now;
                send_report(&sockets[1], entry, &packet);
            }
        }
    }

    /// Reports of receivers. From whom they are is all that is known of them: an address that a
    /// stream goes to, or that its owner named; what is from elsewhere is dropped.
    fn hear(&mut self, which: usize) {
        let mut heard = Vec::new();
        let mut budget = HEARD_MAX.saturating_sub(self.heard);
        while let Ok(more) = self.sockets[which].receive(|arrived, bytes| {
            if budget > 0 && !arrived.cut {
                budget -= 1;
                heard.push((arrived.remote, bytes.to_vec()));
            }
        }) {
            if !more || budget == 0 {
                break;
            }
        }
        self.heard += heard.len() as u32;
        for (from, bytes) in heard {
            let of = |entry: &Entry| match &entry.outlet {
                Outlet::Udp { to, .. } => *to == from || entry.receiver == Some(from),
                Outlet::Interleaved { .. } => false,
            };
            let mine = self.entries.iter().find(|(_, entry)| of(entry)).map(|(id, _)| *id);
            if let Some(id) = mine {
                self.take(id, &bytes);
            }
        }
    }

    /// A report on a stream, from its receiver.
    fn take(&mut self, id: StreamId, bytes: &[u8]) {
        let now = self.clock.now();
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let mut asked: Option<Feedback> = None;
        let ours = entry.outlet.numbering().map(|rtp| rtp.ssrc());
        let _ = reports(bytes, |report| match report {
            Report::Feedback { feedback, .. } => {
                entry.feedback[feedback as usize] += 1;
                asked = (!entry.deaf).then_some(feedback);
            }
            Report::Block(block) if Some(block.ssrc) == ours => {
                entry.loss = Some((block.fraction_lost, block.lost));
            }
            _ => {}
        });
        if let Some(feedback) = asked {
            let _ = self.streams.with(id, |stream| stream.feedback(now, feedback));
        }
    }

    /// Waits for the next instant, a report, or a word of the owner. False: it cannot.
    fn sleep(&mut self, timer: &OwnedFd, wake: &Arc<OwnedFd>) -> bool {
        let now = self.clock.now();
        let status = self.status_at + STATUS;
        if now.since(self.idle) > RUN_MAX {
            std::thread::sleep(PAUSE);
            self.idle = self.clock.now();
        }
        let due = self.streams.poll_timeout().map_or(status, |due| self.tick.wake(due).min(status));
        if due > now {
            let left = due.since(now);
            // Relative to a reading of the same clock a moment ago, so absolute at last.
            let at = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let nanos = at.tv_nsec + i64::from(left.subsec_nanos());
            let at = Timespec {
                tv_sec: at.tv_sec + left.as_secs().cast_signed() + nanos / 1_000_000_000,
                tv_nsec: nanos % 1_000_000_000,
            };
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            let setting = Itimerspec { it_interval: none, it_value: at };
            if timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &setting).is_err() {
                return false;
            }
        }
        let ready = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let [media, reports] = &self.sockets;
        // Whoever says more than is heard must not keep the thread awake.
        let heed = if self.heard < HEARD_MAX { PollFlags::IN } else { PollFlags::empty() };
        let heard = |fd| PollFd::from_borrowed_fd(fd, heed);
        let mut fds = [
            ready(timer.as_fd()),
            ready(wake.as_fd()),
            heard(media.as_fd()),
            heard(reports.as_fd()),
        ];
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let waited = poll(&mut fds, if due > now { None } else { Some(&none) });
        if due > now {
            self.idle = self.clock.now();
        }
        match waited {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
        let came = fds.map(|fd| !fd.revents().is_empty());
        let mut word = [0; 8];
        if came[0] {
            let _ = rustix::io::read(timer, &mut word);
        }
        if came[1] {
            let _ = rustix::io::read(&**wake, &mut word);
        }
        for which in [0, 1] {
            if came[2 + which] && self.heard < HEARD_MAX {
                self.hear(which);
            }
        }
        true
    }
}

/// What a stream itself tells.
pub(super) fn status_of(stream: &Stream) -> Status {
    Status {
        kind: Kind::Live,
        standing: stream.standing(),
        counters: stream.counters(),
        dropped: 0,
        gap_ppm: stream.gap_ppm(),
        late_us_max: 0,
        feedback: [0; 3],
        loss: None,
        error: None,
    }
}

/// What a source tells of itself, if it sent something by RTP.
fn own_report(clock: &Clock, now: Instant, entry: &mut Entry) -> Option<Vec<u8>> {
    let rtp = entry.outlet.numbering().filter(|rtp| rtp.sent().0 > 0)?;
    let (packets, octets) = rtp.sent();
    let wall = u128::from(clock.unix_us_at_zero()) * 1000 + u128::from(now.as_nanos());
    let seconds = (wall / 1_000_000_000) as u64 + NTP_UNIX;
    let fraction = ((wall % 1_000_000_000) << 32) / 1_000_000_000;
    let ntp = seconds << 32 | fraction as u64;
    let sent = Sent { ssrc: rtp.ssrc(), ntp, timestamp: rtp.timestamp(now), packets, octets };
    let mut packet = Vec::new();
    sender_report(&mut packet, &sent, NAME);
    Some(packet)
}

/// To whom a stream goes.
fn send_report(socket: &PlainSocket, entry: &Entry, packet: &[u8]) {
    match &entry.outlet {
        Outlet::Udp { to, .. } => {
            let next = SocketAddr::new(to.ip(), to.port().saturating_add(1));
            let to = entry.receiver.unwrap_or(next);
            let _ = socket.send([(to, packet)].into_iter());
        }
        Outlet::Interleaved { connection, channel, .. } => {
            let len = (packet.len() as u16).to_be_bytes();
            let front = [b'$', channel.wrapping_add(1), len[0], len[1]];
            let _ = connection.send([&front, packet]);
        }
    }
}
