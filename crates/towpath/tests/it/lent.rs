//! Pieces that a task lends its daemon in shared memory, by a task that is played by the test.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::support::{ANY, LONG, Vm, pattern};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use towpath_io::shared::{Frozen, Home};
use towpath_vm::talk::{Enrol, Question, TALK_VERSION, ToDaemon, ToTask, Welcome, decode, encode};
use towpath_wire::TaskId;
use towpath_wire::talk::{FRAME_HEAD_LEN, FrameHead, FrameKind, HEADER_LEN, Header, Lent};

/// What a daemon writes to a task.
#[derive(Debug, PartialEq)]
enum Heard {
    Said(ToTask),
    Piece(Vec<u8>),
}

/// A task without a library.
struct Bare {
    stream: UnixStream,
    id: TaskId,
    home: Home,
}

impl Bare {
    fn enrol(vm: &Vm, host: usize) -> Self {
        let mut stream = UnixStream::connect(vm.socket(host)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let (pid, command) = (std::process::id(), "bare".into());
        let enrol = ToDaemon::Enrol(Enrol { version: TALK_VERSION, claim: None, pid, command });
        write(&mut stream, FrameKind::Control, &encode(&enrol, Vec::new()));
        let (mut fds, mut front) = (Vec::new(), [0; FRAME_HEAD_LEN]);
        receive(&stream, &mut front, &mut fds);
        let mut body = vec![0; FrameHead::parse(&front).unwrap().len];
        receive(&stream, &mut body, &mut fds);
        let Ok(ToTask::Welcome(Welcome { you: id, .. })) = decode(&body) else {
            panic!("not welcome")
        };
        Self { stream, id, home: Home::open(fds.swap_remove(0)).unwrap() }
    }

    fn block(&self, bytes: &[u8]) -> Frozen {
        let mut block = self.home.arena().alloc(bytes.len()).unwrap();
        block.write(0, bytes);
        block.freeze()
    }

    fn lend(&mut self, dst: TaskId, seq: u32, lent: Lent) {
        let (src, total) = (self.id, lent.len.into());
        let header = Header { src, dst, tag: 1, context: 0, seq, format: 0, total, offset: 0 };
        write(&mut self.stream, FrameKind::Lent, &[&header.emit()[..], &lent.emit()].concat());
    }

    /// What the daemon says next, or a piece of a message; nothing: it has ended the connection.
    fn hear(&mut self) -> Option<Heard> {
        let mut front = [0; FRAME_HEAD_LEN];
        self.stream.read_exact(&mut front).ok()?;
        let head = FrameHead::parse(&front).unwrap();
        let mut body = vec![0; head.len];
        self.stream.read_exact(&mut body).ok()?;
        Some(match head.kind {
            FrameKind::Control => Heard::Said(decode(&body).unwrap()),
            _ => Heard::Piece(body[HEADER_LEN..].to_vec()),
        })
    }
}

fn write(stream: &mut UnixStream, kind: FrameKind, body: &[u8]) {
    let head = FrameHead { kind, len: body.len() }.emit();
    stream.write_all(&[&head[..], body].concat()).unwrap();
}

fn receive(stream: &UnixStream, into: &mut [u8], fds: &mut Vec<OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let len = into.len();
    let slices = &mut [IoSliceMut::new(into)];
    let got = recvmsg(stream, slices, &mut ancillary, RecvFlags::WAITALL).unwrap();
    assert_eq!(got.bytes, len);
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
}

#[test]
fn what_was_lent_arrives_after_its_sender_is_gone_and_is_told_as_taken_before() {
    let vm = Vm::up(2);
    let (mut near, mut far) = (vm.task(1), vm.task(2));
    let mut bare = Bare::enrol(&vm, 1);
    let sent = pattern(1, 2000);
    for peer in [&mut near, &mut far] {
        let block = bare.block(&sent);
        for seq in 0..4 {
            bare.lend(peer.id(), seq, Lent { page: block.page() as u32, len: 2000 });
        }
        // It is woken once for all of them.
        assert_eq!(bare.hear(), Some(Heard::Said(ToTask::Taken { count: 4 })));
        for _ in 0..4 {
            assert_eq!(peer.recv(&ANY).unwrap().bytes(), sent);
        }
    }
    // One alone is told with what is written to it anyway: the answer that it waits for.
    let block = bare.block(&sent);
    bare.lend(near.id(), 4, Lent { page: block.page() as u32, len: 100 });
    assert_eq!(near.recv(&ANY).unwrap().len(), 100);
    near.send(bare.id, 2, b"seen").unwrap();
    assert_eq!(bare.hear(), Some(Heard::Piece(b"seen".to_vec())));
    assert_eq!(bare.hear(), Some(Heard::Said(ToTask::Taken { count: 1 })));
    let (id, block) = (bare.id, bare.block(&pattern(1, 10_000)));
    let sent = pattern(1, 10_000);
    bare.lend(far.id(), 4, Lent { page: block.page() as u32, len: 4000 });
    drop((bare, block));
    let last = far.recv(&ANY).unwrap();
    assert_eq!((last.src(), last.bytes()), (id, &sent[..4000]));
}

#[test]
fn a_task_that_lends_what_it_does_not_have_is_cut_off() {
    let vm = Vm::up(1);
    let to = vm.task(1).id();
    let lies = [Lent { page: u32::MAX, len: 1 }, Lent { page: 0, len: u32::MAX }];
    for (n, lent) in (1..).zip(lies) {
        let mut bare = Bare::enrol(&vm, 1);
        bare.lend(to, 0, lent);
        while bare.hear().is_some() {}
        assert_eq!(vm.counter(1, "tasks_cut_off"), n);
    }
    let mut bare = Bare::enrol(&vm, 1);
    write(&mut bare.stream, FrameKind::Lent, &[0; 55]);
    while bare.hear().is_some() {}
    assert_eq!(vm.counter(1, "tasks_cut_off"), 3);
}

/// So many questions, numbered from 0 on, as they are written.
fn questions(count: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..count {
        let ask = ToDaemon::Ask { number: number.into(), question: Question::Hosts };
        let body = encode(&ask, Vec::new());
        bytes.extend(FrameHead { kind: FrameKind::Control, len: body.len() }.emit());
        bytes.extend(body);
    }
    bytes
}

#[test]
fn questions_of_many_turns_are_answered_each_and_in_order() {
    let vm = Vm::up(1);
    let mut bare = Bare::enrol(&vm, 1);
    let mut stream = bare.stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || stream.write_all(&questions(5000)).unwrap());
    for expected in 0..5000 {
        let Some(Heard::Said(ToTask::Answer { number, .. })) = bare.hear() else {
            panic!("answer {expected} is missing")
        };
        assert_eq!(number, expected);
    }
    writer.join().unwrap();
}

#[test]
fn a_task_that_asks_and_never_reads_is_cut_off_and_others_are_served() {
    let vm = Vm::up(1);
    let mut bare = Bare::enrol(&vm, 1);
    let bytes = questions(20_000);
    // It ends with an error: the connection is closed under it.
    while bare.stream.write_all(&bytes).is_ok() {}
    let (mut one, mut two) = (vm.task(1), vm.task(1));
    one.send(two.id(), 1, b"on").unwrap();
    assert_eq!(two.recv(&ANY).unwrap().bytes(), b"on");
    assert_eq!(vm.counter(1, "tasks_cut_off"), 1);
}
