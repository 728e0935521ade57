//! Connections that are reset, cut and changed on the way.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use towpath_io::direct::{End, Outcome, Push, Rendezvous, Stream};
use towpath_proto::Rng;
use towpath_wire::Instant;

use super::side::{V4, offers, sides};

/// A relay between the two that cuts the connection after so many bytes of one direction, or
/// changes one of them.
struct Relay {
    ends: [TcpStream; 2],
    passed: [u64; 2],
    /// From this end nothing passes any more.
    cut: Option<usize>,
}

enum Fault {
    Reset {
        from: usize,
        at: u64,
    },
    /// The end of the stream, as if the process had died there.
    Cut {
        from: usize,
        at: u64,
    },
    Change {
        from: usize,
        at: u64,
    },
}

/// Two streams with a relay between them.
fn connect_through_relay() -> ([Stream; 2], Relay) {
    let [ours, theirs] = offers(true);
    let now = Instant::ZERO;
    let (mut a, mut b) = (Rendezvous::new().unwrap(), Rendezvous::new().unwrap());
    let port = b.listen(theirs, now).unwrap();
    let listener = TcpListener::bind((V4, 0)).unwrap();
    a.dial(ours, listener.local_addr().unwrap(), now).unwrap();
    let ends = [listener.accept().unwrap().0, TcpStream::connect((V4, port)).unwrap()];
    for end in &ends {
        end.set_nonblocking(true).unwrap();
        end.set_nodelay(true).unwrap();
    }
    let mut relay = Relay { ends, passed: [0; 2], cut: None };
    let mut streams = [None, None];
    while streams.iter().any(Option::is_none) {
        for (slot, rendezvous) in streams.iter_mut().zip([&mut a, &mut b]) {
            if let Some(Outcome::Open(stream)) = rendezvous.advance(now) {
                *slot = Some(*stream);
            }
        }
        relay.pass(None);
    }
    relay.passed = [0; 2];
    (streams.map(Option::unwrap), relay)
}

impl Relay {
    /// Passes on what there is; true when the fault has happened that ends the connection.
    fn pass(&mut self, fault: Option<&Fault>) -> bool {
        let mut buffer = vec![0; 8192];
        for from in [0, 1] {
            if self.cut == Some(from) {
                continue;
            }
            let n = match (&self.ends[from]).read(&mut buffer) {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => return true,
            };
            let bytes = &mut buffer[..n];
            let range = self.passed[from]..self.passed[from] + n as u64;
            self.passed[from] = range.end;
            let until = |at: u64| (at - range.start) as usize;
            match fault {
                Some(Fault::Reset { from: f, at }) if *f == from && range.contains(at) => {
                    self.write(from, &bytes[..until(*at)]);
                    for end in &self.ends {
                        let now = Some(Duration::ZERO);
                        rustix::net::sockopt::set_socket_linger(end, now).unwrap();
                    }
                    return true;
                }
                Some(Fault::Cut { from: f, at }) if *f == from && range.contains(at) => {
                    self.write(from, &bytes[..until(*at)]);
                    self.ends[1 - from].shutdown(Shutdown::Write).unwrap();
                    self.cut = Some(from);
                }
                Some(Fault::Change { from: f, at }) if *f == from && range.contains(at) => {
                    bytes[until(*at)] ^= 0x10;
                    self.write(from, bytes);
                }
                _ => self.write(from, bytes),
            }
        }
        false
    }

    fn write(&self, from: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match (&self.ends[1 - from]).write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => panic!("the relay is full"),
                Err(_) => return,
            }
        }
    }
}

/// Runs both sides with a fault on the way until both know; what did not get through goes
/// another way. How the two streams ended.
fn run_with(fault: &Fault, lengths: [&[u64]; 2]) -> [End; 2] {
    let (mut streams, relay) = connect_through_relay();
    let mut relay = Some(relay);
    let mut sides = sides(lengths[0], lengths[1]);
    while streams.iter().any(|stream| stream.ended().is_none()) {
        for (side, stream) in sides.iter_mut().zip(&mut streams) {
            stream.woken();
            side.receive(stream);
            // A piece at a time, so that the relay's buffers never fill.
            if let Some((header, bytes)) = side.next_piece()
                && stream.push(&header, &[&bytes]) == Push::Taken
            {
                side.sent(bytes.len());
            }
            stream.flush();
        }
        for _ in 0..40 {
            if let Some(it) = &mut relay
                && (it.pass(Some(fault)) || streams.iter().any(|s| s.ended().is_some()))
            {
                relay = None;
            }
        }
    }
    let ends = [*streams[0].ended().unwrap(), *streams[1].ended().unwrap()];
    let [a, b] = &mut sides;
    a.send_rest(&mut streams[0], b);
    b.send_rest(&mut streams[1], a);
    assert_eq!(a.expected, (lengths[1].len() as u32, 0));
    assert_eq!(b.expected, (lengths[0].len() as u32, 0));
    ends
}

const LENGTHS: [&[u64]; 2] =
    [&[10, 200_000, 3, 70_000, 0, 5, 100_000], &[1, 2, 300_000, 4, 65_536, 6]];

#[test]
fn a_reset_anywhere_loses_and_doubles_nothing() {
    let mut rng = Rng::new(8, 1);
    for _ in 0..60 {
        let fault = Fault::Reset { from: (rng.u64() % 2) as usize, at: rng.u64() % 360_000 };
        run_with(&fault, LENGTHS);
    }
}

#[test]
fn an_end_within_a_record_is_told_from_one_between_records() {
    // The first record: one piece of 10 bytes.
    let first = 8 + 8 + 8 + 56 + 10 + 16;
    for (at, end) in [(first, End::Left), (first + 1, End::Cut), (first - 1, End::Cut)] {
        let ends = run_with(&Fault::Cut { from: 0, at }, LENGTHS);
        assert_eq!(ends[1], end, "after {at} bytes");
    }
    let mut rng = Rng::new(8, 2);
    for _ in 0..30 {
        run_with(&Fault::Cut { from: (rng.u64() % 2) as usize, at: rng.u64() % 360_000 }, LENGTHS);
    }
}

#[test]
fn a_changed_byte_ends_the_stream_and_nothing_else() {
    let mut rng = Rng::new(8, 3);
    for _ in 0..30 {
        let fault = Fault::Change { from: 0, at: rng.u64() % 360_000 };
        let [_, end] = run_with(&fault, LENGTHS);
        assert!(matches!(end, End::Bad(_) | End::Cut), "{end:?}");
    }
}
