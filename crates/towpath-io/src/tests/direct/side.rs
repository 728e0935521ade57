//! Two tasks with a stream between them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, epoll, poll};
use towpath_io::direct::{Offer, Outcome, Push, Rendezvous, SetUpError, Stream};
use towpath_wire::talk::{Header, PIECE_MAX};
use towpath_wire::{HostId, Instant, TaskId};

pub(crate) const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

pub(crate) fn task(slot: u16) -> TaskId {
    HostId::new(slot, 1).unwrap().task(7).unwrap()
}

/// Offers of the one that connects and the one that listens.
pub(crate) fn offers(sealed: bool) -> [Offer; 2] {
    offers_between(1, 2, sealed)
}

pub(crate) fn offers_between(a: u16, b: u16, sealed: bool) -> [Offer; 2] {
    let offer = |me, peer| Offer { me, peer, key: [1; 32], sealed };
    [offer(task(a), task(b)), offer(task(b), task(a))]
}

/// Waits until one of them has something to do.
pub(crate) fn wait(rendezvous: &[&Rendezvous]) {
    let mut fds: Vec<PollFd<'_>> = rendezvous
        .iter()
        .map(|r| PollFd::from_borrowed_fd(r.descriptor(), PollFlags::IN))
        .collect();
    let minute = Duration::from_mins(1).try_into().unwrap();
    assert!(poll(&mut fds, Some(&minute)).unwrap() > 0, "nothing happens");
}

pub(crate) fn next(rendezvous: &mut Rendezvous, now: Instant) -> Result<Stream, SetUpError> {
    loop {
        match rendezvous.advance(now) {
            Some(Outcome::Open(stream)) => return Ok(*stream),
            Some(Outcome::Failed { why, .. }) => return Err(why),
            None => wait(&[rendezvous]),
        }
    }
}

pub(crate) fn connect(offers: [Offer; 2], to: IpAddr) -> [Stream; 2] {
    let [ours, theirs] = offers;
    let now = Instant::ZERO;
    let (mut a, mut b) = (Rendezvous::new().unwrap(), Rendezvous::new().unwrap());
    let port = b.listen(theirs, now).unwrap();
    a.dial(ours, SocketAddr::new(to, port), now).unwrap();
    finish([&mut a, &mut b], now)
}

pub(crate) fn finish([a, b]: [&mut Rendezvous; 2], now: Instant) -> [Stream; 2] {
    let mut streams = [None, None];
    while streams.iter().any(Option::is_none) {
        for (slot, rendezvous) in streams.iter_mut().zip([&mut *a, &mut *b]) {
            match rendezvous.advance(now) {
                Some(Outcome::Open(stream)) => *slot = Some(*stream),
                Some(Outcome::Failed { why, .. }) => panic!("{why}"),
                None => {}
            }
        }
        if streams.iter().any(Option::is_none) {
            wait(&[a, b]);
        }
    }
    streams.map(Option::unwrap)
}

pub(crate) fn byte(seq: u32, at: u64) -> u8 {
    (at.wrapping_mul(31) ^ u64::from(seq).wrapping_mul(7) ^ (at >> 9)) as u8
}

pub(crate) fn payload(seq: u32, offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64).map(|at| byte(seq, at)).collect()
}

pub(crate) fn header(from: TaskId, to: TaskId, seq: u32, total: u64, offset: u64) -> Header {
    Header { src: from, dst: to, tag: 5, context: 0, seq, format: 1, total, offset }
}

/// One task: what it has still to send on its stream, and what it has taken.
pub(crate) struct Side {
    me: TaskId,
    peer: TaskId,
    /// Lengths of the messages to be sent.
    pub(crate) lengths: Vec<u64>,
    /// The next piece of them.
    pub(crate) next: (u32, u64),
    /// The next piece expected of the peer's.
    pub(crate) expected: (u32, u64),
    pub(crate) twice: u64,
}

impl Side {
    pub(crate) fn new(me: TaskId, peer: TaskId, lengths: &[u64]) -> Self {
        let lengths = lengths.to_vec();
        Self { me, peer, lengths, next: (0, 0), expected: (0, 0), twice: 0 }
    }

    pub(crate) fn next_piece(&self) -> Option<(Header, Vec<u8>)> {
        let (seq, offset) = self.next;
        let total = *self.lengths.get(seq as usize)?;
        let len = (total - offset).min(PIECE_MAX as u64) as usize;
        Some((header(self.me, self.peer, seq, total, offset), payload(seq, offset, len)))
    }

    pub(crate) fn sent(&mut self, len: usize) {
        let (seq, offset) = self.next;
        let end = offset + len as u64;
        self.next = if end == self.lengths[seq as usize] { (seq + 1, 0) } else { (seq, end) };
    }

    /// Sends as much as goes.
    pub(crate) fn send(&mut self, stream: &mut Stream) -> bool {
        let mut some = false;
        while let Some((header, bytes)) = self.next_piece() {
            if stream.push(&header, &[&bytes]) != Push::Taken {
                break;
            }
            stream.flush();
            self.sent(bytes.len());
            some = true;
        }
        stream.flush();
        some
    }

    /// Takes a piece in, unless it is here already.
    pub(crate) fn take(&mut self, header: &Header, bytes: &[u8]) {
        assert_eq!((header.src, header.dst), (self.peer, self.me));
        if (header.seq, header.offset) < self.expected {
            self.twice += 1;
            return;
        }
        assert_eq!((header.seq, header.offset), self.expected, "nothing is missing");
        let same = bytes.iter().zip(header.offset..).all(|(b, at)| *b == byte(header.seq, at));
        assert!(same, "content of {header:?}");
        let end = header.offset + bytes.len() as u64;
        self.expected = if end == header.total { (header.seq + 1, 0) } else { (header.seq, end) };
    }

    pub(crate) fn receive(&mut self, stream: &mut Stream) -> bool {
        let mut some = false;
        while let Some(piece) = stream.head() {
            let (header, bytes) = (piece.header, piece.payload.to_vec());
            self.take(&header, &bytes);
            stream.take();
            some = true;
        }
        some
    }

    /// Everything that did not get through by the stream goes to the other side another way.
    pub(crate) fn send_rest(&mut self, stream: &mut Stream, other: &mut Side) {
        stream.untaken(&mut |header, bytes| other.take(header, bytes));
        while let Some((header, bytes)) = self.next_piece() {
            other.take(&header, &bytes);
            self.sent(bytes.len());
        }
    }
}

/// Both sides send and take until `done`, sleeping when there is nothing to do.
pub(crate) fn exchange(
    streams: &mut [Stream; 2],
    sides: &mut [Side; 2],
    mut done: impl FnMut(&[Stream; 2], &[Side; 2]) -> bool,
) {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    for (token, stream) in (0..).zip(&*streams) {
        stream.register(epoll.as_fd(), token).unwrap();
    }
    loop {
        let mut some = false;
        for (side, stream) in sides.iter_mut().zip(&mut *streams) {
            some |= side.receive(stream);
            some |= side.send(stream);
        }
        if done(streams, sides) {
            return;
        }
        if !some && streams.iter().all(Stream::quiet) {
            let mut events = Vec::with_capacity(8);
            let minute = Duration::from_mins(1).try_into().unwrap();
            let room = rustix::buffer::spare_capacity(&mut events);
            let n = epoll::wait(&epoll, room, Some(&minute)).unwrap();
            assert!(n > 0, "neither side has anything to do, and they are not done");
            for event in events {
                streams[event.data.u64() as usize].woken();
            }
        }
    }
}

pub(crate) fn all_taken(_: &[Stream; 2], sides: &[Side; 2]) -> bool {
    let [a, b] = sides;
    a.expected == (b.lengths.len() as u32, 0) && b.expected == (a.lengths.len() as u32, 0)
}

pub(crate) fn sides(a: &[u64], b: &[u64]) -> [Side; 2] {
    [Side::new(task(1), task(2), a), Side::new(task(2), task(1), b)]
}
