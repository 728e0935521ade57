//! The daemon's side of tasks' sockets, played by a test: it says what the test wants, when the
//! test wants it.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use towpath_io::shared::{Bell, Lender, PairFds, Segment};
use towpath_vm::talk::{ToDaemon, ToTask, Welcome, decode, encode};
use towpath_wire::talk::{
    ChannelFront, FRAME_HEAD_LEN, FrameHead, FrameKind, HEADER_LEN, Header, Lent,
};
use towpath_wire::{HostId, TaskId};

/// Bytes of each task's arena.
const ARENA: usize = 16 << 20;
/// What takes longer than this has gone wrong, also on a busy machine.
pub(crate) const LONG: Duration = Duration::from_mins(1);

/// A listening socket.
pub(crate) struct Stage {
    dir: tempfile::TempDir,
    listener: UnixListener,
    sides: u16,
}

/// The daemon's side of one task.
pub(crate) struct Side {
    pub(crate) id: TaskId,
    stream: UnixStream,
    /// Read, and not yet heard.
    read: Vec<u8>,
    segment: Segment,
    pub(crate) bell: OwnedFd,
    /// Pieces that the task has lent and was not told of.
    pub(crate) lent: u32,
}

/// What a task said.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    Control(ToDaemon),
    Data(Header, Vec<u8>),
    Multicast(Vec<u8>),
    OnChannel(ChannelFront, Vec<u8>),
}

impl Stage {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("tp").tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("task.sock")).unwrap();
        Self { dir, listener, sides: 0 }
    }

    /// Where tasks enrol.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("task.sock")
    }

    /// Refuses the next task that enrols.
    #[cfg(test)]
    pub(crate) fn refuse(&mut self, why: &str) {
        let (mut stream, _) = self.listener.accept().unwrap();
        let body = encode(&ToTask::Refused(why.into()), Vec::new());
        let head = FrameHead { kind: FrameKind::Control, len: body.len() }.emit();
        std::io::Write::write_all(&mut stream, &[&head[..], &body].concat()).unwrap();
    }

    /// Takes in the next task that enrols, on host `slot`; without a segment where `shared` is
    /// false.
    pub(crate) fn accept(&mut self, slot: u16, shared: bool) -> Side {
        self.accept_child(slot, shared, None)
    }

    /// The same of a task that another one has spawned.
    pub(crate) fn accept_child(&mut self, slot: u16, shared: bool, parent: Option<TaskId>) -> Side {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        self.sides += 1;
        let host = HostId::new(slot, 1).unwrap();
        let id = host.task(self.sides.into()).unwrap();
        let bell = Bell::new().unwrap().as_fd().try_clone_to_owned().unwrap();
        let segment = Segment::task(ARENA).unwrap();
        let mut side = Side { id, stream, read: Vec::new(), segment, bell, lent: 0 };
        let Heard::Control(ToDaemon::Enrol(_)) = side.hear() else { panic!("no enrolment") };
        let segment_bytes = if shared { ARENA as u64 } else { 0 };
        let siblings = if parent.is_some() { vec![id] } else { Vec::new() };
        let ask_first = Vec::new();
        let welcome = Welcome { you: id, parent, siblings, context: 0, segment_bytes, ask_first };
        let (home, bell) = (copy(&side.segment.owner), copy(&side.bell));
        let fds = if shared { vec![home, bell] } else { Vec::new() };
        side.say_with(&ToTask::Welcome(welcome), &fds);
        side
    }
}

fn copy(fd: &OwnedFd) -> OwnedFd {
    fd.try_clone().unwrap()
}

impl Side {
    pub(crate) fn say(&mut self, say: &ToTask) {
        self.say_with(say, &[]);
    }

    fn say_with(&mut self, say: &ToTask, fds: &[OwnedFd]) {
        let body = encode(say, Vec::new());
        self.write(FrameKind::Control, &[&body], fds);
    }

    /// A piece of a message by the daemons.
    pub(crate) fn piece(&mut self, header: &Header, payload: &[u8]) {
        self.write(FrameKind::Data, &[&header.emit(), payload], &[]);
    }

    /// A message on a channel.
    pub(crate) fn on_channel(&mut self, number: u32, message: &[u8]) {
        let front = ChannelFront { number, left: None }.emit();
        self.write(FrameKind::Channel, &[&front, message], &[]);
    }

    fn write(&mut self, kind: FrameKind, parts: &[&[u8]], fds: &[OwnedFd]) {
        let body = parts.concat();
        let mut frame = FrameHead { kind, len: body.len() }.emit().to_vec();
        frame.extend_from_slice(&body);
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        }
        let mut done = 0;
        while done < frame.len() {
            let slices = [IoSlice::new(&frame[done..])];
            done += sendmsg(&self.stream, &slices, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
            ancillary.clear();
        }
    }

    /// The next that the task says; waits for it.
    pub(crate) fn hear(&mut self) -> Heard {
        self.next(SILENT_NOT).expect("the task says something")
    }

    /// The next that the task has said already.
    pub(crate) fn heard(&mut self) -> Option<Heard> {
        self.next(SILENT)
    }

    fn next(&mut self, may_be_silent: bool) -> Option<Heard> {
        loop {
            if let Some(head) = self.read.first_chunk::<FRAME_HEAD_LEN>() {
                let head = FrameHead::parse(head).unwrap();
                let end = FRAME_HEAD_LEN + head.len;
                if self.read.len() >= end {
                    let frame: Vec<u8> = self.read.drain(..end).collect();
                    let body = &frame[FRAME_HEAD_LEN..];
                    if head.kind == FrameKind::Lent {
                        return Some(self.borrow(body));
                    }
                    return Some(heard(head.kind, body));
                }
            }
            let mut room = vec![0; 1 << 16];
            let flags = rustix::net::RecvFlags::empty();
            let now = rustix::net::RecvFlags::DONTWAIT;
            let flags = if may_be_silent { now } else { flags };
            match rustix::net::recv(&self.stream, &mut room[..], flags) {
                Ok((0, _)) | Err(Errno::AGAIN) if may_be_silent => return None,
                Ok((0, _)) => panic!("the task has gone"),
                Ok((n, _)) => self.read.extend_from_slice(&room[..n]),
                Err(e) => panic!("nothing heard for {LONG:?}: {e}"),
            }
        }
    }

    /// A piece that the task lends.
    fn borrow(&mut self, body: &[u8]) -> Heard {
        let (header, lent) = body.split_first_chunk::<HEADER_LEN>().unwrap();
        let Lent { page, len } = Lent::parse(lent.try_into().unwrap()).unwrap();
        let lender = Lender::open(copy(&self.segment.peers)).unwrap();
        self.lent += 1;
        Heard::Data(Header::parse(header).unwrap(), lender.bytes(page, len).unwrap().to_vec())
    }

    /// Gives back what the task has lent.
    pub(crate) fn taken(&mut self, count: u32) {
        self.lent -= count;
        self.say(&ToTask::Taken { count });
    }

    /// The descriptors of a ring to `peer`, as this side's task gets them.
    fn pair(&self, own: &Segment, peer: &Self, other: &Segment) -> Vec<OwnedFd> {
        let _ = self;
        let fds = [&own.owner, &other.peers, &peer.segment.peers, &peer.bell];
        fds.map(copy).into()
    }

    /// Its own segment, for a test that plays the task as well; opened once.
    pub(crate) fn home(&self) -> towpath_io::shared::Home {
        towpath_io::shared::Home::open(copy(&self.segment.owner)).unwrap()
    }

    /// Offers a ring to this task alone; what its peer would get.
    pub(crate) fn offer_ring(&mut self, peer: &Self) -> PairFds {
        let halves = [0, 1].map(|_| Segment::half().unwrap());
        let fds = self.pair(&halves[0], peer, &halves[1]);
        self.say_with(&ToTask::Ring { peer: peer.id }, &fds);
        let mut fds = peer.pair(&halves[1], self, &halves[0]).into_iter();
        let mut next = || fds.next().unwrap();
        let (own_half, peer_half) = (next(), next());
        PairFds { own_half, peer_half, peer_segment: next(), peer_bell: next() }
    }
}

/// Gives both tasks a ring.
pub(crate) fn ring(a: &mut Side, b: &mut Side) {
    ring_after(a, b, || ());
}

/// The same, with something done between the two.
pub(crate) fn ring_after(a: &mut Side, b: &mut Side, between: impl FnOnce()) {
    let PairFds { own_half, peer_half, peer_segment, peer_bell } = a.offer_ring(b);
    let fds = [own_half, peer_half, peer_segment, peer_bell];
    between();
    b.say_with(&ToTask::Ring { peer: a.id }, &fds);
}

const SILENT: bool = true;
const SILENT_NOT: bool = false;

fn heard(kind: FrameKind, body: &[u8]) -> Heard {
    match kind {
        FrameKind::Control => Heard::Control(decode(body).unwrap()),
        FrameKind::Data => {
            let (head, payload) = body.split_first_chunk::<HEADER_LEN>().unwrap();
            Heard::Data(Header::parse(head).unwrap(), payload.to_vec())
        }
        FrameKind::Multicast => Heard::Multicast(body.to_vec()),
        FrameKind::Channel => {
            let (front, message) = ChannelFront::split(body).unwrap();
            Heard::OnChannel(front, message.to_vec())
        }
        FrameKind::Lent => unreachable!("in the segment"),
    }
}
