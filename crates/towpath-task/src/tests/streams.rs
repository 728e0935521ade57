//! What streams leave behind.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use towpath_io::direct::{IDLE_TIME, Offer, Outcome, Push, Rendezvous, STREAMS_MAX, Stream};
use towpath_vm::talk::{StreamOffer, ToDaemon, ToTask};
use towpath_wire::{HostId, Instant, TaskId};

use super::actors::{ANY, enrol, header, sent};
use super::stage::{Heard, LONG, Side, Stage};
use crate::error::SendError;
use crate::message::Envelope;
use crate::task::Task;

#[test]
fn a_full_task_that_leaves_delivers_what_a_stream_left() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let peer = HostId::new(2, 1).unwrap().task(1).unwrap();
    let long: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    let rest = header(task.id(), peer, 7, 0, long.len());
    task.held_max = 0;
    task.routes.keep(rest, long.clone().into(), 0);
    side.say(&ToTask::Credit { peer, limit: 1 << 30 });
    // The daemon knows of the pair once something was sent.
    task.endpoint.meet(peer);
    task.leave().unwrap();
    assert_eq!(sent(&mut side, peer), [(0, 7, long)]);
}

#[test]
fn leaving_ends_also_when_a_receiver_takes_nothing() {
    let mut stage = Stage::new();
    let (mut task, _side) = enrol(&mut stage, 1);
    let peer = HostId::new(2, 1).unwrap().task(1).unwrap();
    let rest = header(task.id(), peer, 7, 0, 100_000);
    task.routes.keep(rest, vec![1; 100_000].into(), 0);
    let left = task.settle_streams(Duration::from_millis(5));
    assert_eq!(left, Err(SendError::Undelivered { pieces: 1, seconds: 0 }));
    // It does not wait again for what is given up.
    assert_eq!(task.settle_streams(Duration::from_millis(5)), Ok(()));
}

#[test]
fn a_stream_that_does_not_stand_leaves_nothing_behind() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let host = HostId::new(2, 1).unwrap();
    // A port that nobody listens on any more.
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let nowhere = listener.local_addr().unwrap();
    drop(listener);
    for n in 1..=5 {
        let peer = host.task(n).unwrap();
        let offer = StreamOffer { peer, address: Some(nowhere), key: KEY };
        side.say(&ToTask::Stream(offer));
        let closed = Heard::Control(ToDaemon::CloseDirect { peer });
        let mut heard = None;
        while heard.is_none() {
            task.wait(Some(Duration::from_millis(1))).unwrap();
            heard = side.heard();
        }
        assert_eq!(heard, Some(closed));
    }
    assert_eq!(task.routes.dialled(), 0);
}

const KEY: [u8; 32] = [1; 32];

/// A task of another host, played by the test.
pub(super) struct Peer {
    pub(super) id: TaskId,
    pub(super) stream: Option<Stream>,
    /// The number of its next message.
    next: u32,
}

impl Peer {
    pub(super) fn new(number: u32) -> Self {
        Self::on(2, number)
    }

    /// On the host in that slot.
    pub(super) fn on(slot: u16, number: u32) -> Self {
        Self { id: HostId::new(slot, 1).unwrap().task(number).unwrap(), stream: None, next: 0 }
    }

    /// It asks `task` for a stream, and gets one.
    pub(super) fn joined(mut self, task: &mut Task, side: &mut Side) -> Self {
        self.asks(side);
        let (ports, _) = answers(task, side, 1);
        self.dial(task, ports[0].1);
        self
    }

    /// The kernel takes little of what it is sent. (Left to grow, the kernel's buffers hold about
    /// as much as the stream's, or more.)
    pub(super) fn reads_little(&self, task: &mut Task) {
        let socket = task.routes.open(self.id).and_then(|stream| stream.share()).unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, 64 << 10).unwrap();
        let socket = self.stream.as_ref().unwrap().share().unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 64 << 10).unwrap();
    }

    /// Sends it so much that the kernel does not take all of it now: half of a stream's own room.
    pub(super) fn is_filled(&self, task: &mut Task) {
        self.reads_little(task);
        let filling = vec![1; 50_000];
        for _ in 0..40 {
            let parts: &[&[u8]] = &[&filling];
            let mut header = task.header(self.id, Envelope::tag(1), parts);
            assert_eq!(task.push_stream(&mut header, parts), Ok(true));
        }
        assert!(!task.has_written(self.id));
    }

    /// Reads messages until one with this tag is whole; its bytes.
    pub(super) fn reads_until(&mut self, tag: i64) -> Vec<u8> {
        let stream = self.stream.as_mut().unwrap();
        let mut whole = Vec::new();
        loop {
            stream.woken();
            while let Some(piece) = stream.head() {
                let header = piece.header;
                if header.tag == tag {
                    assert_eq!(header.offset, whole.len() as u64, "in order");
                    whole.extend_from_slice(piece.payload);
                }
                stream.take();
                stream.flush();
                if header.tag == tag && whole.len() as u64 == header.total {
                    return whole;
                }
            }
            std::thread::yield_now();
        }
    }

    /// It asks for a stream.
    pub(super) fn asks(&self, side: &mut Side) {
        side.say(&ToTask::Stream(StreamOffer { peer: self.id, address: None, key: KEY }));
    }

    /// It connects to `task`, which listens.
    pub(super) fn dial(&mut self, task: &mut Task, port: u16) {
        let offer = Offer { me: self.id, peer: task.id(), key: KEY, sealed: true };
        let mut rendezvous = Rendezvous::new().unwrap();
        rendezvous
            .dial(offer, SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Instant::ZERO)
            .unwrap();
        while !task.routes.is_open(self.id) {
            task.poll().unwrap();
            match rendezvous.advance(Instant::ZERO) {
                Some(Outcome::Open(stream)) => self.stream = Some(*stream),
                Some(Outcome::Failed { why, .. }) => panic!("{why}"),
                None => {}
            }
        }
    }

    /// Its next message arrives by its stream.
    fn sends(&mut self, task: &mut Task) {
        let header = header(self.id, task.id(), 1, self.next, 0);
        self.next += 1;
        let stream = self.stream.as_mut().unwrap();
        assert_eq!(stream.push(&header, &[]), Push::Taken);
        stream.flush();
        let got = task.recv_timeout(&ANY, LONG).unwrap().expect("it was sent");
        assert_eq!(got.src(), self.id);
    }
}

fn all_send(peers: &mut [Peer], task: &mut Task) {
    for peer in peers {
        peer.sends(task);
    }
}

/// What the task says to the questions of these peers: who is listened for, and who is not.
pub(super) fn answers(
    task: &mut Task,
    side: &mut Side,
    count: usize,
) -> (Vec<(TaskId, u16)>, Vec<TaskId>) {
    let (mut ports, mut none) = (Vec::new(), Vec::new());
    while ports.len() + none.len() < count {
        task.poll().unwrap();
        while let Some(heard) = side.heard() {
            match heard {
                Heard::Control(ToDaemon::Listening { peer, port }) => ports.push((peer, port)),
                Heard::Control(ToDaemon::CloseDirect { peer }) => none.push(peer),
                _ => {}
            }
        }
    }
    (ports, none)
}

#[test]
fn active_streams_stay_and_the_others_get_theirs_when_some_fall_idle() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let mut peers: Vec<Peer> = (1..=120).map(Peer::new).collect();
    for peer in &peers {
        peer.asks(&mut side);
    }
    let (ports, put_off) = answers(&mut task, &mut side, 120);
    assert_eq!((ports.len(), put_off.len()), (STREAMS_MAX, 120 - STREAMS_MAX));
    for (id, port) in ports {
        peers.iter_mut().find(|peer| peer.id == id).unwrap().dial(&mut task, port);
    }
    let (mut have, mut lack): (Vec<Peer>, Vec<Peer>) =
        peers.into_iter().partition(|peer| peer.stream.is_some());
    for _ in 0..3 {
        all_send(&mut have, &mut task);
        task.routes.pass(IDLE_TIME);
        all_send(&mut have, &mut task);
        for peer in &lack {
            peer.asks(&mut side);
        }
        assert_eq!(answers(&mut task, &mut side, lack.len()).0, []);
        assert!(have.iter().all(|peer| task.routes.is_open(peer.id)));
    }
    task.routes.pass(IDLE_TIME);
    let idle = have.split_off(STREAMS_MAX - lack.len());
    all_send(&mut have, &mut task);
    assert_eq!(idle.len(), lack.len());
    for peer in &mut lack {
        peer.asks(&mut side);
        let (ports, _) = answers(&mut task, &mut side, 1);
        peer.dial(&mut task, ports[0].1);
        peer.sends(&mut task);
    }
    assert!(have.iter().chain(&lack).all(|peer| task.routes.is_open(peer.id)));
    assert!(idle.iter().all(|peer| !task.routes.is_open(peer.id)));
}

/// Whether the task asks for a stream to `peer` when it sends so many messages.
fn asks(task: &mut Task, side: &mut Side, peer: TaskId, messages: usize) -> bool {
    for _ in 0..messages {
        task.send(peer, 1, &[]).unwrap();
    }
    std::iter::from_fn(|| side.heard()).any(|h| h == Heard::Control(ToDaemon::Direct { peer }))
}

#[test]
fn a_stream_that_was_refused_is_asked_for_again_less_and_less_often() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let peer = Peer::new(1).id;
    assert!(asks(&mut task, &mut side, peer, 10));
    for seconds in [2, 4, 8] {
        side.say(&ToTask::NoDirect { peer });
        let (before, wait) = (task.routes.now(), Duration::from_secs(seconds));
        task.poll().unwrap();
        let asks_again = asks(&mut task, &mut side, peer, 10);
        assert!(!asks_again || task.routes.now() >= before + wait, "before {seconds} s");
        task.routes.pass(wait);
        assert!(asks_again || asks(&mut task, &mut side, peer, 1), "after {seconds} s");
    }
}

#[test]
fn that_a_stream_is_over_refuses_no_other() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let mut peer = Peer::new(1);
    peer.asks(&mut side);
    let (ports, _) = answers(&mut task, &mut side, 1);
    peer.dial(&mut task, ports[0].1);
    // It closes it, and its daemon says so when the stream has ended.
    let mut stream = peer.stream.unwrap();
    stream.close();
    while task.routes.count() > 0 || stream.ended().is_none() {
        task.poll().unwrap();
        stream.woken();
        assert!(stream.head().is_none());
    }
    side.say(&ToTask::NoDirect { peer: peer.id });
    task.poll().unwrap();
    assert!(asks(&mut task, &mut side, peer.id, 10));
}

#[test]
fn put_offs_double_up_to_64_seconds() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let peer = Peer::new(1).id;
    assert!(asks(&mut task, &mut side, peer, 10));
    for seconds in [2, 4, 8, 16, 32, 64, 64, 64] {
        side.say(&ToTask::NoDirect { peer });
        let before = task.routes.now();
        task.poll().unwrap();
        // Time passes while this runs, too: just before the end, as far as that is known.
        let wait = Duration::from_secs(seconds);
        task.routes.pass(wait.saturating_sub(Duration::from_millis(900)));
        let early = asks(&mut task, &mut side, peer, 10);
        assert!(!early || task.routes.now() >= before + wait, "before {seconds} s");
        task.routes.pass(Duration::from_millis(900));
        assert!(early || asks(&mut task, &mut side, peer, 1), "after {seconds} s");
    }
}

#[test]
fn the_end_of_a_peer_is_told_behind_what_its_stream_still_brings() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let mut peer = Peer::new(1);
    peer.asks(&mut side);
    let (ports, _) = answers(&mut task, &mut side, 1);
    peer.dial(&mut task, ports[0].1);
    peer.sends(&mut task);
    // The daemons' word is there before the last messages.
    side.say(&ToTask::Gone { peer: peer.id });
    for _ in 0..20 {
        task.poll().unwrap();
    }
    assert!(!task.endpoint.has_ended(peer.id), "its stream stands");
    for _ in 0..3 {
        peer.sends(&mut task);
    }
    let header = header(peer.id, task.id(), 1, peer.next, 0);
    let mut stream = peer.stream.unwrap();
    assert_eq!(stream.push(&header, &[]), Push::Taken);
    stream.flush();
    stream.close();
    let mut got = 0;
    while !task.endpoint.has_ended(peer.id) {
        stream.woken();
        assert!(stream.head().is_none());
        got += usize::from(task.recv_timeout(&ANY, Duration::from_millis(1)).unwrap().is_some());
    }
    while task.recv_timeout(&ANY, Duration::ZERO).unwrap().is_some() {
        got += 1;
    }
    assert_eq!(got, 1, "and none was lost");
}

#[test]
fn a_message_that_a_stream_did_not_take_whole_goes_whole_by_the_daemons() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let mut peer = Peer::new(1);
    peer.asks(&mut side);
    let (ports, _) = answers(&mut task, &mut side, 1);
    peer.dial(&mut task, ports[0].1);
    // Memory is full: the task may not wait for the stream to take the rest.
    let sender = side.id.host().task(99).unwrap();
    side.piece(&header(sender, task.id(), 50, 0, 100), &[5; 100]);
    while !task.poll().unwrap() {}
    task.held_max = 100;
    let long: Vec<u8> = (0..32_u32 << 20).map(|i| (i >> 3) as u8).collect();
    let (id, end) = (peer.id, 7);
    let daemon = std::thread::spawn(move || {
        side.say(&ToTask::Credit { peer: id, limit: 1 << 30 });
        let (mut first, mut whole) = (None, Vec::new());
        loop {
            let Heard::Data(header, bytes) = side.hear() else { continue };
            if side.lent > 0 {
                side.taken(side.lent);
            }
            if header.tag == end {
                return (first, whole);
            }
            assert_eq!((header.tag, header.offset), (1, whole.len() as u64), "in order");
            first.get_or_insert(header.seq);
            whole.extend_from_slice(&bytes);
        }
    });
    task.send(id, 1, &long).unwrap();
    assert!(!task.routes.is_open(id), "its stream was given up");
    assert_eq!(task.recv(&ANY).unwrap().tag(), 50);
    task.send(id, end, b"end").unwrap();
    let (first, whole) = daemon.join().unwrap();
    assert_eq!(first, Some(0));
    assert!(whole == long, "{} bytes of {}", whole.len(), long.len());
}

#[test]
fn a_multicast_that_streams_have_taken_reaches_the_others_though_there_is_no_room_to_wait() {
    let mut stage = Stage::new();
    let (mut task, mut side) = enrol(&mut stage, 1);
    let peer = Peer::new(1).joined(&mut task, &mut side);
    peer.is_filled(&mut task);
    let sender = side.id.host().task(99).unwrap();
    side.piece(&header(sender, task.id(), 50, 0, 100), &[5; 100]);
    let other = peer.id.host().task(77).unwrap();
    side.say(&ToTask::Credit { peer: other, limit: 1 << 30 });
    while !task.poll().unwrap() {}
    task.held_max = 100;
    task.multicast(&[peer.id, other], Envelope::tag(3), &[b"to both"]).unwrap();
    assert!(task.routes.is_open(peer.id) && !task.has_written(peer.id), "it would have to wait");
    let mut to_other = 0;
    while let Some(heard) = side.heard() {
        to_other += usize::from(matches!(heard, Heard::Multicast(_)));
        if let Heard::Data(header, bytes) = heard {
            assert_eq!((header.dst, &bytes[..]), (other, &b"to both"[..]));
            to_other += 1;
        }
    }
    assert_eq!(to_other, 1, "who has no stream gets it by the daemons");
}
