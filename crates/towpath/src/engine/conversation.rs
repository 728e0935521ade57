//! One task's connection: frames out of its socket, frames into it.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::Pid;
use towpath_io::shared::{Bell, Lender};
use towpath_node::Delivery;
use towpath_proto::{Block, HeapMemory, Memory};
use towpath_vm::talk::{ToTask, encode};
use towpath_wire::TaskId;
use towpath_wire::talk::{
    ChannelFront, FRAME_BODY_MAX, FRAME_HEAD_LEN, FrameHead, FrameKind, HEADER_LEN, Lent,
};

use super::poll::{Interest, Poll};

/// Room for what is read from a task in one turn, in bytes: a longest frame and more behind it.
pub(super) const ROOM: usize = FRAME_HEAD_LEN + FRAME_BODY_MAX + (256 << 10);
/// Bytes of control frames that wait for a task at most. A task that lets so much gather does
/// not read any more.
const CONTROL_MAX: usize = 16 << 20;
/// Frames written with one call at most.
const GATHER: usize = 32;
/// Descriptors sent with one frame at most.
const DESCRIPTORS_MAX: usize = 4;
/// Descriptors that a task has handed in and that are not looked at yet, at most.
const HANDED_MAX: usize = 64;

/// Descriptors that go with a frame.
pub(super) type Descriptors = Vec<Rc<dyn AsFd>>;

/// What a task has for its direct routes.
pub(super) struct Place {
    /// Its segment, as its neighbours may have it.
    pub(super) segment: Rc<OwnedFd>,
    pub(super) bell: Rc<Bell>,
    /// The segment mapped, from the first piece on that the task lends.
    lender: OnceCell<Lender>,
}

impl Place {
    pub(super) const fn new(segment: Rc<OwnedFd>, bell: Rc<Bell>) -> Self {
        Self { segment, bell, lender: OnceCell::new() }
    }

    fn lender(&self) -> Result<&Lender, String> {
        if let Some(lender) = self.lender.get() {
            return Ok(lender);
        }
        let why = |e: &dyn Display| format!("its shared memory cannot be mapped: {e}");
        let segment = self.segment.try_clone().map_err(|e| why(&e))?;
        let lender = Lender::open(segment).map_err(|e| why(&e))?;
        Ok(self.lender.get_or_init(|| lender))
    }
}

/// Something that waits to be written.
enum Out {
    Control { frame: Vec<u8>, descriptors: Descriptors },
    Data { front: [u8; FRAME_HEAD_LEN + HEADER_LEN], delivery: Delivery },
    OnChannel { front: [u8; FRAME_HEAD_LEN + ChannelFront::LEN], block: Block, len: u32 },
}

/// What the node lent for writing.
pub(super) enum Written {
    /// A piece of a message.
    Piece(Delivery),
    /// A message on a channel.
    OnChannel(Block),
}

impl Out {
    fn len(&self) -> usize {
        match self {
            Self::Control { frame, .. } => frame.len(),
            Self::Data { front, delivery } => front.len() + delivery.len as usize,
            Self::OnChannel { front, len, .. } => front.len() + *len as usize,
        }
    }

    /// What goes back to the node.
    fn lent(self) -> Option<Written> {
        match self {
            Self::Control { .. } => None,
            Self::Data { delivery, .. } => Some(Written::Piece(delivery)),
            Self::OnChannel { block, .. } => Some(Written::OnChannel(block)),
        }
    }
}

/// How far a reading came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nothing more is there now.
    Dry,
    /// There may be more.
    More,
    /// It has ended.
    Over,
}

/// A connection. Invariants: `written` < length of the first of `out`; `control` counts the
/// control bytes in `out`; `rest` is the beginning of a frame, or frames that nobody could take.
pub(super) struct Conversation {
    stream: UnixStream,
    /// The process at the other end.
    pub(super) pid: Pid,
    /// Becomes readable when it ends.
    process: OwnedFd,
    /// Who it is, once it has enrolled.
    pub(super) task: Option<TaskId>,
    /// Set with its welcome, unless there are no descriptors or no memory left.
    pub(super) place: Option<Place>,
    /// It asked to enrol, and is not to be read until it is welcome.
    pub(super) enrolling: bool,
    /// Its process has ended, or it has closed its socket: what it sent is read to its end.
    pub(super) ending: bool,
    /// It is not read for the moment.
    pub(super) paused: bool,
    /// It waits for its turn to be written to.
    pub(super) dirty: bool,
    /// What is reported of it.
    watched: Interest,
    /// Descriptors that came and were not asked about yet.
    pub(super) handed: VecDeque<OwnedFd>,
    /// Keys of the sockets held for it.
    pub(super) held: Vec<u64>,
    /// Lent pieces that were taken since the task was told so.
    pub(super) taken: u32,
    rest: Vec<u8>,
    out: VecDeque<Out>,
    written: usize,
    control: usize,
}

impl Conversation {
    /// One that is watched for what comes from it.
    pub(super) fn new(stream: UnixStream, pid: Pid, process: OwnedFd) -> Self {
        Self {
            stream,
            pid,
            process,
            task: None,
            place: None,
            enrolling: false,
            ending: false,
            paused: false,
            dirty: false,
            watched: Interest::READ,
            handed: VecDeque::new(),
            held: Vec::new(),
            taken: 0,
            rest: Vec::new(),
            out: VecDeque::new(),
            written: 0,
            control: 0,
        }
    }

    /// Has `poll`, which it was added to under `key`, report this of it from now on. Of nothing,
    /// not even its end is reported: that would be said again and again until somebody reads.
    pub(super) fn watch(&mut self, poll: &Poll, key: u64, interest: Interest) {
        let done = match (self.watched, interest) {
            (before, now) if before == now => return,
            (_, Interest::NOTHING) => poll.remove(&self.stream),
            (Interest::NOTHING, _) => poll.add_with(&self.stream, key, interest),
            _ => poll.set_interest(&self.stream, key, interest),
        };
        if done.is_ok() {
            self.watched = interest;
        }
    }

    /// The process at the other end.
    pub(super) fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// The header and the payload of a piece that the task lends.
    pub(super) fn lent<'a>(
        &'a self,
        body: &'a [u8],
    ) -> Result<(&'a [u8; HEADER_LEN], &'a [u8]), String> {
        let split = body.split_first_chunk::<HEADER_LEN>();
        let split = split.and_then(|(header, rest)| Some((header, rest.try_into().ok()?)));
        let Some((header, lent)) = split else {
            return Err(format!("lent frame of {} bytes", body.len()));
        };
        let Lent { page, len } = Lent::parse(lent).map_err(|e| e.to_string())?;
        let lender = self.place.as_ref().ok_or("it has no shared memory to lend")?.lender()?;
        let payload = lender.bytes(page, len);
        let beyond = || format!("it lent {len} bytes from page {page} on, beyond its arena");
        Ok((header, payload.ok_or_else(beyond)?))
    }

    /// Puts what was left and, unless that is a whole frame, what is there into `buf`, which has
    /// [`ROOM`]; how much that is.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> (usize, Reading) {
        let had = self.rest.len();
        buf[..had].copy_from_slice(&self.rest);
        self.rest.clear();
        if had >= FRAME_HEAD_LEN + FRAME_BODY_MAX {
            // What is left for want of memory must not grow until nothing more can be read: that
            // would look like the end.
            return (had, Reading::More);
        }
        match self.receive(&mut buf[had..]) {
            Ok(0) => (had, Reading::Over),
            Ok(n) => (had + n, Reading::More),
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock => (had, Reading::Dry),
                io::ErrorKind::Interrupted => (had, Reading::More),
                _ => (had, Reading::Over),
            },
        }
    }

    /// Bytes, and descriptors with them.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDED_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(into)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = recvmsg(&self.stream, &mut into, &mut ancillary, flags)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(handed) = message {
                // More than are asked about are closed at once.
                let room = HANDED_MAX.saturating_sub(self.handed.len());
                self.handed.extend(handed.take(room));
            }
        }
        Ok(got.bytes)
    }

    /// Keeps what could not be taken yet for the next [`Conversation::read`].
    pub(super) fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() && self.rest.capacity() > 64 << 10 {
            self.rest = Vec::new();
        }
        self.rest.extend_from_slice(rest);
    }

    /// Queues a control frame; false where what is said is longer than a frame, which another host
    /// may have brought about.
    pub(super) fn say(&mut self, say: &ToTask, descriptors: Descriptors) -> bool {
        debug_assert!(descriptors.len() <= DESCRIPTORS_MAX);
        let Some(frame) = control_frame(say) else { return false };
        self.control += frame.len();
        self.out.push_back(Out::Control { frame, descriptors });
        true
    }

    /// Queues a piece of a message.
    pub(super) fn deliver(&mut self, delivery: Delivery) {
        let mut front = [0; FRAME_HEAD_LEN + HEADER_LEN];
        let len = HEADER_LEN + delivery.len as usize;
        let head = FrameHead { kind: FrameKind::Data, len };
        front[..FRAME_HEAD_LEN].copy_from_slice(&head.emit());
        front[FRAME_HEAD_LEN..].copy_from_slice(&delivery.header.emit());
        self.out.push_back(Out::Data { front, delivery });
    }

    /// Queues a message on a channel.
    pub(super) fn on_channel(&mut self, number: u32, block: Block, len: u32) {
        let mut front = [0; FRAME_HEAD_LEN + ChannelFront::LEN];
        let head = FrameHead { kind: FrameKind::Channel, len: ChannelFront::LEN + len as usize };
        front[..FRAME_HEAD_LEN].copy_from_slice(&head.emit());
        let left = Some(Duration::ZERO);
        front[FRAME_HEAD_LEN..].copy_from_slice(&ChannelFront { number, left }.emit());
        self.out.push_back(Out::OnChannel { front, block, len });
    }

    /// True when something waits to be written.
    pub(super) fn has_out(&self) -> bool {
        !self.out.is_empty()
    }

    /// True when so much control waits that the task cannot be reading any more.
    pub(super) const fn is_stuck(&self) -> bool {
        self.control > CONTROL_MAX
    }

    /// Writes what waits, as far as the socket takes it. Pieces that were written are given to
    /// `done`. True when everything is out; `Err` when nobody reads any more.
    pub(super) fn write(
        &mut self,
        memory: &HeapMemory,
        done: &mut Vec<Written>,
    ) -> Result<bool, Errno> {
        while !self.out.is_empty() {
            match self.write_some(memory) {
                Ok(n) => self.wrote(n, done),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn write_some(&self, memory: &HeapMemory) -> Result<usize, Errno> {
        let mut slices = [IoSlice::new(&[]); 2 * GATHER];
        let mut n = 0;
        let mut skip = self.written;
        let mut descriptors: &[Rc<dyn AsFd>] = &[];
        for (i, out) in self.out.iter().take(GATHER).enumerate() {
            let (front, payload): (&[u8], &[u8]) = match out {
                Out::Control { frame, descriptors: own } => {
                    // Descriptors go with the first byte of their frame, at the front of a call.
                    if !own.is_empty() && i > 0 {
                        break;
                    }
                    if self.written == 0 {
                        descriptors = own;
                    }
                    (frame, &[])
                }
                Out::Data { front, delivery } => {
                    let Delivery { block, at, len, .. } = *delivery;
                    (front, &memory.bytes(block)[at as usize..][..len as usize])
                }
                Out::OnChannel { front, block, .. } => (front, memory.bytes(*block)),
            };
            for bytes in [front, payload] {
                let from = skip.min(bytes.len());
                skip -= from;
                if from < bytes.len() {
                    slices[n] = IoSlice::new(&bytes[from..]);
                    n += 1;
                }
            }
            if !descriptors.is_empty() {
                break;
            }
        }
        let fds: Vec<BorrowedFd<'_>> = descriptors.iter().map(|d| d.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        }
        sendmsg(&self.stream, &slices[..n], &mut ancillary, SendFlags::NOSIGNAL)
    }

    fn wrote(&mut self, n: usize, done: &mut Vec<Written>) {
        self.written += n;
        while let Some(out) = self.out.front() {
            if self.written < out.len() {
                break;
            }
            self.written -= out.len();
            if let Out::Control { frame, .. } = out {
                self.control -= frame.len();
            }
            done.extend(self.out.pop_front().and_then(Out::lent));
        }
    }

    /// Everything that waits to be written is dropped; its pieces are given to `done`.
    pub(super) fn drop_out(&mut self, done: &mut Vec<Written>) {
        done.extend(self.out.drain(..).filter_map(Out::lent));
        (self.written, self.control) = (0, 0);
    }
}

fn control_frame(say: &ToTask) -> Option<Vec<u8>> {
    let mut frame = encode(say, vec![0; FRAME_HEAD_LEN]);
    let len = frame.len() - FRAME_HEAD_LEN;
    if len > FRAME_BODY_MAX {
        return None;
    }
    let head = FrameHead { kind: FrameKind::Control, len };
    frame[..FRAME_HEAD_LEN].copy_from_slice(&head.emit());
    Some(frame)
}

/// Tells a process that it cannot be a task, as far as it can be told anything, and closes its
/// connection.
pub(super) fn turn_away(mut stream: UnixStream, why: &str) {
    if let Some(frame) = control_frame(&ToTask::Refused(why.into())) {
        let _ = stream.write(&frame);
    }
}

impl AsFd for Conversation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::{PidfdFlags, getpid, pidfd_open};

    use super::super::poll::Events;
    use super::*;

    #[test]
    fn what_does_not_fit_into_a_frame_is_not_said() {
        let of = |len| ToTask::End("x".repeat(len));
        assert!(control_frame(&of(1000)).is_some());
        assert!(control_frame(&of(2 << 20)).is_none());
    }

    #[test]
    fn the_end_of_a_task_that_is_not_watched_wakes_nobody_until_it_is() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let process = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let mut c = Conversation::new(ours, getpid(), process);
        let poll = Poll::new().unwrap();
        let mut events = Events::new();
        let mut ready = |poll: &Poll| {
            poll.wait(&mut events, Some(Duration::ZERO)).unwrap();
            events.get(0).map(|ready| ready.key)
        };
        poll.add(&c, 7).unwrap();
        c.watch(&poll, 7, Interest::NOTHING);
        drop(theirs);
        assert_eq!(ready(&poll), None, "a wait would end at once, for ever");
        c.watch(&poll, 7, Interest::NOTHING);
        c.watch(&poll, 7, Interest::READ);
        assert_eq!(ready(&poll), Some(7));
        c.watch(&poll, 7, Interest { read: false, write: true });
        assert_eq!(ready(&poll), Some(7), "writing says that it is over");
    }

    #[test]
    fn a_task_whose_frames_nobody_can_take_for_long_is_not_taken_for_gone() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let process = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let mut c = Conversation::new(ours, getpid(), process);
        let mut buf = vec![0; ROOM];
        let (bytes, mut kept) = (vec![0; 64 << 10], 0);
        for _ in 0..2 * ROOM / (64 << 10) {
            // As much as the socket takes.
            let _ = theirs.write(&bytes);
            let (len, reading) = c.read(&mut buf);
            assert_ne!(reading, Reading::Over, "after {len} bytes");
            c.keep(&buf[..len]);
            kept = len;
        }
        assert!(kept >= FRAME_HEAD_LEN + FRAME_BODY_MAX, "a longest frame can be whole: {kept}");
    }
}
