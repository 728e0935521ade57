//! Tasks' connections: who enrols, what passes between them and the node, how they end.
//!
//! A task ends with its process: the one that enrolled, not one that started it. Then what it
//! had sent is read to its end first. A task that closes its socket while its process lives has
//! left.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::rc::Rc;

use rustix::net::sockopt::{set_socket_send_buffer_size, socket_peercred};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use towpath_io::shared::{Bell, Segment};
use towpath_node::Delivery;
use towpath_proto::Block;
use towpath_task::place::SOCKET_BUFFER;
use towpath_vm::data::Multicast;
use towpath_vm::talk::{ToDaemon, ToTask, Welcome, decode};
use towpath_wire::talk::{
    ChannelFront, FRAME_BODY_MAX, FRAME_HEAD_LEN, FrameHead, FrameKind, HEADER_LEN,
};
use towpath_wire::{HostId, Instant, TaskId};

use super::conversation::{Conversation, Descriptors, Place, ROOM, Reading, Written, turn_away};
use super::core::Engine;
use super::doors::Knock;
use super::poll::Interest;
use super::turn::Served;

/// Control frames taken of one task in a turn. What answers them is in the way of nobody yet.
const SAID_PER_TURN: usize = 256;
/// Connections at once.
const CONNECTIONS_MAX: usize = 8192;
/// Bytes of each task's arena; pages cost memory once they are used.
const ARENA: usize = 256 << 20;
/// So many pieces that were taken from a task's shared memory are told it at once, though nothing
/// else is: half of what it may have lent before it waits.
const TOLD_TOGETHER: u32 = 4;
/// Keys of connections in `epoll` begin here; the one after each is its process'.
pub(super) const KEY_TASKS: u64 = 1 << 32;

/// Where tasks enrol.
pub struct TaskSocket {
    /// The socket.
    pub listener: UnixListener,
    /// Its path, for tasks that are started here.
    pub path: PathBuf,
}

/// All connections. Invariant: `by_task` has an entry for each that has enrolled.
pub(super) struct Conversations {
    pub(super) listener: UnixListener,
    all: BTreeMap<u64, Conversation>,
    by_task: HashMap<TaskId, u64>,
    next: u64,
    /// Those that have something to write and were not written to since.
    dirty: Vec<u64>,
    /// Those that could not hand in what they sent, and what they wait for.
    paused: Vec<(u64, Lacks)>,
    /// Where one of them is read into.
    buf: Vec<u8>,
    done: Vec<Written>,
    cut_off: u64,
}

/// What there is too little of for what a task sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    /// Memory for data on its way to other hosts.
    Memory,
    /// Room in what waits for this host, which does not take it.
    Room(HostId),
}

/// What became of a frame.
enum Taken {
    Yes,
    /// Nobody can take it now.
    Later(Lacks),
    /// The task is at fault.
    Broken(String),
}

impl Conversations {
    pub(super) fn new(listener: UnixListener) -> Self {
        Self {
            listener,
            all: BTreeMap::new(),
            by_task: HashMap::new(),
            next: KEY_TASKS,
            dirty: Vec::new(),
            paused: Vec::new(),
            buf: vec![0; ROOM],
            done: Vec::new(),
            cut_off: 0,
        }
    }

    /// Connections, and how many were cut off so far.
    pub(super) fn counted(&self) -> (u64, u64) {
        (self.all.len() as u64, self.cut_off)
    }

    pub(super) fn of(&mut self, task: TaskId) -> Option<(u64, &mut Conversation)> {
        let key = *self.by_task.get(&task)?;
        Some((key, self.all.get_mut(&key)?))
    }

    /// The next socket that a task has handed in, and the keys of those held for it.
    pub(super) fn handed(&mut self, key: u64) -> Option<(OwnedFd, &mut Vec<u64>)> {
        let c = self.all.get_mut(&key)?;
        Some((c.handed.pop_front()?, &mut c.held))
    }

    pub(super) fn forget_held(&mut self, key: u64, held: u64) {
        if let Some(c) = self.all.get_mut(&key) {
            c.held.retain(|k| *k != held);
        }
    }

    /// Something was queued for `key`.
    fn touch(&mut self, key: u64) {
        if let Some(c) = self.all.get_mut(&key).filter(|c| !c.dirty) {
            c.dirty = true;
            self.dirty.push(key);
        }
    }
}

impl Engine {
    /// Takes in processes that want to be tasks.
    pub(super) fn accept_tasks(&mut self) {
        loop {
            let (stream, admitted) = match self.doors.accept(&self.conversations.listener) {
                Knock::Nobody => break,
                Knock::Shut => return self.shut_doors(),
                Knock::Room(stream) => {
                    let admitted = self.admit_task(&stream);
                    (stream, admitted)
                }
                Knock::NoRoom(stream, why) => (stream, Err(why)),
            };
            match admitted {
                Ok((pid, process)) => {
                    let key = self.conversations.next;
                    self.conversations.next += 2;
                    self.conversations.all.insert(key, Conversation::new(stream, pid, process));
                }
                Err(why) => {
                    tracing::warn!("task turned away: {why}");
                    turn_away(stream, &why.to_string());
                }
            }
            self.doors.refill();
        }
    }

    /// Watches the connection that comes next and its process, if it may come in.
    fn admit_task(&self, stream: &UnixStream) -> io::Result<(Pid, OwnedFd)> {
        let peer = socket_peercred(stream)?;
        if peer.uid != rustix::process::geteuid() {
            return Err(io::Error::other("not this user's"));
        }
        if self.conversations.all.len() >= CONNECTIONS_MAX {
            return Err(io::Error::other(format!("{CONNECTIONS_MAX} are connected, the limit")));
        }
        stream.set_nonblocking(true)?;
        // A refusal costs time only.
        let _ = set_socket_send_buffer_size(stream, SOCKET_BUFFER);
        let process = pidfd_open(peer.pid, PidfdFlags::empty())?;
        let key = self.conversations.next;
        self.poll.add(stream, key)?;
        self.poll.add(&process, key + 1)?;
        Ok((peer.pid, process))
    }

    /// A connection, or the process at its other end, has something.
    pub(super) fn serve_task(&mut self, key: u64, writable: bool) -> Served {
        let (key, ended) = (key & !1, key & 1 == 1);
        let Some(c) = self.conversations.all.get_mut(&key) else { return Served::default() };
        if ended && !c.ending {
            c.ending = true;
            let _ = self.poll.remove(c.process());
        }
        if writable {
            self.conversations.touch(key);
        }
        self.read_task(key)
    }

    /// Reads what a task sent: once, or, when it ends, to the end; in either case no more than it
    /// may say in a turn.
    fn read_task(&mut self, key: u64) -> Served {
        let mut buf = std::mem::take(&mut self.conversations.buf);
        let mut served = Served::default();
        while let Some(c) = self.conversations.all.get_mut(&key) {
            if c.paused || c.enrolling && !c.ending {
                break;
            }
            let (len, reading) = c.read(&mut buf);
            served.bytes += len as u64;
            match self.take_frames(key, &buf[..len]) {
                Ok((taken, more)) => {
                    self.tell_taken(key);
                    let Some(c) = self.conversations.all.get_mut(&key) else { break };
                    c.keep(&buf[taken..len]);
                    served.more = more;
                    if more {
                        break;
                    }
                    let over = reading == Reading::Over || c.ending && reading == Reading::Dry;
                    if over && !c.paused {
                        self.task_is_over(key);
                        break;
                    }
                    if !c.ending {
                        break;
                    }
                }
                Err(why) => {
                    self.cut_off(key, &why);
                    break;
                }
            }
        }
        self.conversations.buf = buf;
        served
    }

    /// Hands whole frames on; how many bytes those were, and whether others wait for the next turn.
    fn take_frames(&mut self, key: u64, bytes: &[u8]) -> Result<(usize, bool), String> {
        let (mut at, mut said) = (0, 0);
        while let Some(front) = bytes[at..].first_chunk::<FRAME_HEAD_LEN>() {
            let head = FrameHead::parse(front).map_err(|e| e.to_string())?;
            let end = at + FRAME_HEAD_LEN + head.len;
            let Some(body) = bytes.get(at + FRAME_HEAD_LEN..end) else { break };
            // Answers wait until this turn is carried out: only then they count.
            if head.kind == FrameKind::Control {
                if said == SAID_PER_TURN {
                    return Ok((at, true));
                }
                said += 1;
            }
            match self.frame(key, head.kind, body) {
                Taken::Yes => at = end,
                Taken::Later(lacks) => {
                    self.pause(key, lacks);
                    break;
                }
                Taken::Broken(why) => return Err(why),
            }
            if self.conversations.all.get(&key).is_none_or(|c| c.enrolling) {
                break;
            }
        }
        Ok((at, false))
    }

    fn frame(&mut self, key: u64, kind: FrameKind, body: &[u8]) -> Taken {
        let now = self.clock.now();
        let task = self.conversations.all.get(&key).and_then(|c| c.task);
        match (kind, task) {
            (FrameKind::Control, _) => match decode::<ToDaemon>(body) {
                Ok(say) => self.task_says(now, key, task, say),
                Err(e) => Taken::Broken(e.to_string()),
            },
            (_, None) => Taken::Broken("data before it enrolled".into()),
            (FrameKind::Data, Some(task)) => {
                let Some((header, payload)) = body.split_first_chunk::<HEADER_LEN>() else {
                    return Taken::Broken(format!("data frame of {} bytes", body.len()));
                };
                let taken = self.node.task_data(now, task, header, payload, &mut self.memory);
                if taken { Taken::Yes } else { Taken::Later(Lacks::Memory) }
            }
            (FrameKind::Lent, Some(task)) => {
                let Some(c) = self.conversations.all.get_mut(&key) else { return Taken::Yes };
                let (header, payload) = match c.lent(body) {
                    Ok(piece) => piece,
                    Err(why) => return Taken::Broken(why),
                };
                let taken = self.node.task_data(now, task, header, payload, &mut self.memory);
                c.taken += u32::from(taken);
                if taken { Taken::Yes } else { Taken::Later(Lacks::Memory) }
            }
            (FrameKind::Channel, Some(task)) => {
                let (front, payload) = match ChannelFront::split(body) {
                    Ok(message) => message,
                    Err(e) => return Taken::Broken(format!("channel frame: {e}")),
                };
                let taken = self.node.task_channel(now, task, front, payload, &mut self.memory);
                if taken { Taken::Yes } else { Taken::Later(Lacks::Memory) }
            }
            (FrameKind::Multicast, Some(task)) => {
                let Multicast { receivers, header, payload } = match Multicast::parse(body) {
                    Ok(multicast) => multicast,
                    Err(e) => return Taken::Broken(format!("multicast frame: {e}")),
                };
                let (node, memory) = (&mut self.node, &mut self.memory);
                let taken = node.task_multicast(now, task, &receivers, header, payload, memory);
                if taken { Taken::Yes } else { Taken::Later(Lacks::Memory) }
            }
        }
    }

    /// Has a task told that so many pieces that it lent were taken, so that it may use the blocks
    /// again. It would be woken by that alone: fewer wait until something else is written to it.
    fn tell_taken(&mut self, key: u64) {
        let Some(c) = self.conversations.all.get(&key) else { return };
        if c.taken >= TOLD_TOGETHER && !c.ending {
            self.conversations.touch(key);
        }
    }

    fn task_says(&mut self, now: Instant, key: u64, task: Option<TaskId>, say: ToDaemon) -> Taken {
        match (say, task) {
            (ToDaemon::Enrol(enrol), None) => {
                match self.node.task_enrol(now, &enrol, &mut self.memory) {
                    Ok(task) => {
                        self.conversations.by_task.insert(task, key);
                        if let Some(c) = self.conversations.all.get_mut(&key) {
                            c.task = Some(task);
                            // Until it is welcome.
                            c.enrolling = true;
                            c.watch(&self.poll, key, Interest::NOTHING);
                        }
                        Taken::Yes
                    }
                    Err(why) => {
                        tracing::warn!("enrolment of process {} refused: {why}", enrol.pid);
                        if let Some(c) = self.conversations.all.get_mut(&key) {
                            c.say(&ToTask::Refused(why), Vec::new());
                            c.enrolling = true;
                        }
                        self.conversations.touch(key);
                        Taken::Yes
                    }
                }
            }
            (ToDaemon::Hold, Some(_)) => {
                self.hold(key);
                Taken::Yes
            }
            (ToDaemon::Enrol(_), Some(_)) => Taken::Broken("enrolled twice".into()),
            (_, None) => Taken::Broken("spoke before it enrolled".into()),
            (say, Some(task)) => {
                let crowded = self.node.task_says(now, task, say, &mut self.memory);
                crowded.map_or(Taken::Yes, |host| Taken::Later(Lacks::Room(host)))
            }
        }
    }

    /// The node says something to a task.
    pub(super) fn tell_task(&mut self, task: TaskId, say: ToTask) {
        match say {
            ToTask::Welcome(welcome) => self.welcome(task, welcome),
            say => self.tell(task, &say, Vec::new()),
        }
    }

    /// Says something to a task, with descriptors.
    pub(super) fn tell(&mut self, task: TaskId, say: &ToTask, descriptors: Descriptors) {
        let Some((key, c)) = self.conversations.of(task) else { return };
        let said = c.say(say, descriptors);
        let stuck = c.is_stuck();
        self.conversations.touch(key);
        if !said {
            let why = format!("what it is to be told has more than {FRAME_BODY_MAX} bytes");
            self.cut_off(key, &why);
        } else if stuck {
            self.cut_off(key, "it does not read what it is told");
        }
    }

    /// A task is enrolled: it gets its segment and its bell, and is read again.
    fn welcome(&mut self, task: TaskId, mut welcome: Welcome) {
        let made = Segment::task(ARENA).and_then(|segment| Ok((segment, Bell::new()?)));
        let Some((key, c)) = self.conversations.of(task) else { return };
        c.enrolling = false;
        c.watch(&self.poll, key, Interest::READ);
        let mut descriptors: Descriptors = Vec::new();
        match made {
            Ok((Segment { owner, peers }, bell)) => {
                let bell = Rc::new(bell);
                welcome.segment_bytes = ARENA as u64;
                descriptors.push(Rc::new(owner));
                descriptors.push(Rc::clone(&bell) as Rc<dyn AsFd>);
                c.place = Some(Place::new(Rc::new(peers), bell));
            }
            Err(e) => tracing::warn!("task {task} gets no shared memory: {e}"),
        }
        self.tell(task, &ToTask::Welcome(welcome), descriptors);
    }

    /// Makes a ring between two tasks of this host.
    pub(super) fn direct(&mut self, a: TaskId, b: TaskId) {
        let made = Segment::half().and_then(|half| Ok((half, Segment::half()?)));
        let mut place = |task| {
            let (_, c) = self.conversations.of(task)?;
            let place = c.place.as_ref()?;
            Some((Rc::clone(&place.segment), Rc::clone(&place.bell)))
        };
        let (of_a, of_b) = (place(a), place(b));
        let (Ok((half_a, half_b)), Some(of_a), Some(of_b)) = (made, of_a, of_b) else {
            let (now, failed) = (self.clock.now(), ToDaemon::RingFailed { peer: b });
            self.node.task_says(now, a, failed, &mut self.memory);
            return self.tell(a, &ToTask::NoDirect { peer: b }, Vec::new());
        };
        let (peers_a, peers_b) = (Rc::new(half_a.peers), Rc::new(half_b.peers));
        let to_a: Descriptors = vec![Rc::new(half_a.owner), peers_b, of_b.0, of_b.1];
        let to_b: Descriptors = vec![Rc::new(half_b.owner), peers_a, of_a.0, of_a.1];
        self.tell(a, &ToTask::Ring { peer: b }, to_a);
        self.tell(b, &ToTask::Ring { peer: a }, to_b);
    }

    /// A piece of a message for a task.
    pub(super) fn deliver(&mut self, delivery: Delivery) {
        if let Some((key, c)) = self.conversations.of(delivery.header.dst) {
            c.deliver(delivery);
            self.conversations.touch(key);
        } else {
            self.node.task_written(self.clock.now(), &delivery, &mut self.memory);
        }
    }

    /// A message on a task's channel.
    pub(super) fn on_channel(&mut self, task: TaskId, number: u32, block: Block, len: u32) {
        if let Some((key, c)) = self.conversations.of(task) {
            c.on_channel(number, block, len);
            self.conversations.touch(key);
        } else {
            self.node.channel_written(block, &mut self.memory);
        }
    }

    /// What was written to a task's connection, or will not be, goes back to the node.
    fn give_back(&mut self, done: &mut Vec<Written>) {
        let now = self.clock.now();
        for written in done.drain(..) {
            match written {
                Written::Piece(piece) => self.node.task_written(now, &piece, &mut self.memory),
                Written::OnChannel(block) => self.node.channel_written(block, &mut self.memory),
            }
        }
    }

    /// Writes to every task for which something waits.
    pub(super) fn flush_tasks(&mut self) {
        let dirty = std::mem::take(&mut self.conversations.dirty);
        let mut done = std::mem::take(&mut self.conversations.done);
        for key in dirty {
            let Some(c) = self.conversations.all.get_mut(&key) else { continue };
            c.dirty = false;
            let taken = std::mem::take(&mut c.taken);
            if taken > 0 && !c.ending {
                c.say(&ToTask::Taken { count: taken }, Vec::new());
            }
            match c.write(&self.memory, &mut done) {
                Ok(true) if c.enrolling && c.task.is_none() => self.forget(key, &mut done),
                Ok(all) => {
                    let read = !c.paused && !c.enrolling;
                    c.watch(&self.poll, key, Interest { read, write: !all });
                }
                // What it sent is still to be read; then its end is seen.
                Err(_) => {
                    c.drop_out(&mut done);
                    let read = !c.paused && !c.enrolling;
                    c.watch(&self.poll, key, Interest { read, write: false });
                }
            }
        }
        self.give_back(&mut done);
        self.conversations.done = done;
    }

    /// Tasks that had to wait for memory or room go on, when there is some.
    pub(super) fn resume_tasks(&mut self) {
        if self.conversations.paused.is_empty() {
            return;
        }
        let node = &self.node;
        let goes_on = |(_, lacks): &mut (u64, Lacks)| match lacks {
            Lacks::Memory => node.task_budget_left(),
            Lacks::Room(host) => node.has_room(*host),
        };
        let paused = &mut self.conversations.paused;
        for (key, _) in paused.extract_if(.., goes_on).collect::<Vec<_>>() {
            if let Some(c) = self.conversations.all.get_mut(&key) {
                c.paused = false;
                let write = c.has_out();
                c.watch(&self.poll, key, Interest { read: true, write });
                if self.read_task(key).more {
                    self.is_ready(key, false);
                }
            }
        }
    }

    fn pause(&mut self, key: u64, lacks: Lacks) {
        if let Some(c) = self.conversations.all.get_mut(&key) {
            c.paused = true;
            let write = c.has_out();
            c.watch(&self.poll, key, Interest { read: false, write });
            self.conversations.paused.push((key, lacks));
        }
    }

    /// A task's connection is closed because of what it does.
    pub(super) fn cut_off(&mut self, key: u64, why: &str) {
        let task = self.conversations.all.get(&key).and_then(|c| c.task);
        let who = task.map_or_else(|| "process".into(), |task| format!("task {task}"));
        tracing::warn!("{who} cut off: {why}");
        self.conversations.cut_off += 1;
        let mut done = Vec::new();
        if let Some(c) = self.conversations.all.get_mut(&key) {
            // As far as it reads.
            c.say(&ToTask::End(format!("cut off: {why}")), Vec::new());
            let _ = c.write(&self.memory, &mut done);
        }
        self.give_back(&mut done);
        self.task_is_over(key);
    }

    /// [`Engine::cut_off`] by name.
    pub(super) fn cut_off_task(&mut self, task: TaskId, why: &str) {
        if let Some((key, _)) = self.conversations.of(task) {
            self.cut_off(key, why);
        }
    }

    fn task_is_over(&mut self, key: u64) {
        let mut done = Vec::new();
        let task = self.conversations.all.get(&key).and_then(|c| c.task);
        self.forget(key, &mut done);
        self.give_back(&mut done);
        if let Some(task) = task {
            self.node.task_left(self.clock.now(), task, &mut self.memory);
        }
    }

    fn forget(&mut self, key: u64, done: &mut Vec<Written>) {
        let Some(mut c) = self.conversations.all.remove(&key) else { return };
        c.drop_out(done);
        self.bury_held(&c.held);
        if let Some(task) = c.task {
            self.conversations.by_task.remove(&task);
        }
    }

    /// Sends a signal to a process that enrolled by itself.
    pub(super) fn signal_process(&self, pid: u32, signal: i32) {
        let is = |c: &&Conversation| c.pid.as_raw_nonzero().get().cast_unsigned() == pid;
        let found = self.conversations.all.values().find(is);
        if let (Some(c), Some(signal)) = (found, Signal::from_named_raw(signal)) {
            let _ = pidfd_send_signal(c.process(), signal);
        }
    }
}
