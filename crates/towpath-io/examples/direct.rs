//! The direct route beside a bare TCP connection, in one run:
//! `cargo run --release -p towpath-io --example direct -- [rounds]`.
//!
//! A second process answers, on another processor. Between two namespaces:
//! `TOWPATH_PEER="ip netns exec b" TOWPATH_PEER_ADDRESS=10.0.0.2 ip netns exec a direct`.
//! Medians over rounds; in each round every case comes once, so that all meet the same machine.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Instant as WallClock;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::thread::{CpuSet, sched_setaffinity};
use towpath_io::direct::{Offer, Outcome, Push, Rendezvous, Stream};
use towpath_wire::talk::{HEADER_LEN, Header, PIECE_MAX};
use towpath_wire::{HostId, Instant, TaskId};

/// Round trips of one round.
const TRIPS: usize = 2000;
/// Bytes of one round of a stream of messages.
const STREAMED: usize = 128 << 20;

#[derive(Clone, Copy, PartialEq)]
enum Case {
    Echo { len: usize, polled: bool },
    Messages { len: usize },
}

const CASES: [Case; 6] = [
    Case::Echo { len: 16, polled: false },
    Case::Echo { len: 16, polled: true },
    Case::Echo { len: 4096, polled: true },
    Case::Messages { len: 4096 },
    Case::Messages { len: 64 << 10 },
    Case::Messages { len: 1 << 20 },
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wire {
    Bare,
    Clear,
    Sealed,
}

const WIRES: [Wire; 3] = [Wire::Bare, Wire::Clear, Wire::Sealed];

/// One end of a connection that carries messages of known lengths.
enum End {
    Bare(TcpStream),
    Direct { stream: Box<Stream>, epoll: OwnedFd, header: Header },
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("serve") => serve(args[2].parse().expect("a number of rounds")),
        rounds => ask(rounds.map_or(5, |n| n.parse().expect("a number of rounds"))),
    }
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("two processors");
}

fn task(slot: u16) -> TaskId {
    HostId::new(slot, 1).and_then(|host| host.task(1)).expect("small numbers")
}

/// What the task on host `own`, 1 or 2, is offered.
fn offer(own: u16, sealed: bool) -> Offer {
    Offer { me: task(own), peer: task(3 - own), key: [1; 32], sealed }
}

fn open(rendezvous: &mut Rendezvous, asks: bool) -> io::Result<End> {
    loop {
        match rendezvous.advance(Instant::ZERO) {
            Some(Outcome::Open(stream)) => {
                let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
                stream.register(epoll.as_fd(), 0)?;
                let (src, dst) = if asks { (task(1), task(2)) } else { (task(2), task(1)) };
                let (tag, context, seq, format, total, offset) = (0, 0, 0, 0, 0, 0);
                let header = Header { src, dst, tag, context, seq, format, total, offset };
                return Ok(End::Direct { stream, epoll, header });
            }
            Some(Outcome::Failed { why, .. }) => return Err(io::Error::other(why)),
            None => {
                let mut fds = [rustix::event::PollFd::from_borrowed_fd(
                    rendezvous.descriptor(),
                    rustix::event::PollFlags::IN,
                )];
                rustix::event::poll(&mut fds, None)?;
            }
        }
    }
}

impl End {
    /// A message of the bytes of `bytes`, sent whole: the bare one with a header as long as ours.
    fn send(&mut self, bytes: &[u8], polled: bool) -> io::Result<()> {
        match self {
            Self::Bare(stream) => {
                let header = [0; HEADER_LEN];
                let parts = [io::IoSlice::new(&header), io::IoSlice::new(bytes)];
                let mut sent = stream.write_vectored(&parts)?;
                while sent < HEADER_LEN + bytes.len() {
                    sent += stream.write(&bytes[sent - HEADER_LEN..])?;
                }
            }
            Self::Direct { stream, epoll, header } => {
                for (i, piece) in bytes.chunks(PIECE_MAX).enumerate() {
                    let (total, offset) = (bytes.len() as u64, (i * PIECE_MAX) as u64);
                    let header = Header { total, offset, ..*header };
                    while stream.push(&header, &[piece]) != Push::Taken {
                        assert!(stream.head().is_none(), "nothing comes meanwhile");
                        // What was read may have made room.
                        if !stream.has_room() {
                            rest(stream, epoll, polled)?;
                        }
                        stream.flush();
                    }
                    stream.flush();
                }
            }
        }
        Ok(())
    }

    /// A message into `out`, of its length.
    fn receive(&mut self, out: &mut [u8], polled: bool) -> io::Result<()> {
        match self {
            Self::Bare(stream) => {
                let mut header = [0; HEADER_LEN];
                // As whoever knows what comes would: small ones at once.
                if out.len() <= 4096 {
                    let mut whole = [0; HEADER_LEN + 4096];
                    read(stream, &mut whole[..HEADER_LEN + out.len()], polled)?;
                    out.copy_from_slice(&whole[HEADER_LEN..HEADER_LEN + out.len()]);
                } else {
                    read(stream, &mut header, polled)?;
                    read(stream, out, polled)?;
                }
            }
            Self::Direct { stream, epoll, .. } => {
                let mut have = 0;
                while have < out.len() {
                    while let Some(piece) = stream.head() {
                        let end = have + piece.payload.len();
                        out[have..end].copy_from_slice(piece.payload);
                        have = end;
                        stream.take();
                        if have == out.len() {
                            return Ok(());
                        }
                    }
                    rest(stream, epoll, polled)?;
                }
            }
        }
        Ok(())
    }

    fn calls(&self) -> u64 {
        match self {
            Self::Bare(_) => 0,
            Self::Direct { stream, .. } => {
                let counters = stream.counters();
                counters.send_calls + counters.receive_calls
            }
        }
    }
}

fn read(stream: &TcpStream, mut into: &mut [u8], polled: bool) -> io::Result<()> {
    let flags = if polled { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
    while !into.is_empty() {
        match rustix::net::recv(stream, &mut *into, flags) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((n, _)) => into = &mut into[n..],
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

fn rest(stream: &mut Stream, epoll: &OwnedFd, polled: bool) -> io::Result<()> {
    if let Some(end) = stream.ended() {
        return Err(io::Error::other(format!("the stream has ended: {end:?}")));
    }
    if !polled && stream.quiet() {
        let mut events = Vec::with_capacity(1);
        epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), None)?;
    }
    stream.woken();
    Ok(())
}

fn serve(rounds: usize) -> io::Result<()> {
    pin(1);
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let listener = TcpListener::bind(any)?;
    let mut out = io::stdout();
    writeln!(out, "{}", listener.local_addr()?.port())?;
    let bare = listener.accept()?.0;
    bare.set_nodelay(true)?;
    let mut ends = vec![End::Bare(bare)];
    for sealed in [false, true] {
        let mut rendezvous = Rendezvous::new()?;
        let port = rendezvous.listen(offer(2, sealed), Instant::ZERO);
        writeln!(out, "{}", port.map_err(io::Error::other)?)?;
        ends.push(open(&mut rendezvous, false)?);
    }
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..rounds {
        for case in CASES {
            for end in &mut ends {
                match case {
                    Case::Echo { len, polled } => {
                        for _ in 0..TRIPS {
                            end.receive(&mut buffer[..len], polled)?;
                            end.send(&buffer[..len], polled)?;
                        }
                    }
                    Case::Messages { len } => {
                        for _ in 0..STREAMED / len {
                            end.receive(&mut buffer[..len], false)?;
                        }
                        end.send(&[1], false)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn ask(rounds: usize) -> io::Result<()> {
    pin(0);
    let address = std::env::var("TOWPATH_PEER_ADDRESS").unwrap_or("127.0.0.1".into());
    let address: IpAddr = address.parse().map_err(io::Error::other)?;
    let own = std::env::current_exe()?;
    let before = std::env::var("TOWPATH_PEER").unwrap_or_default();
    let mut words: Vec<&std::ffi::OsStr> = before.split_whitespace().map(AsRef::as_ref).collect();
    words.push(own.as_os_str());
    let mut peer = Command::new(words[0])
        .args(&words[1..])
        .args(["serve", &rounds.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    let said = peer.stdout.take().expect("it was asked for");
    let mut ports = BufReader::new(said).lines();
    let mut port = || -> io::Result<u16> {
        let line = ports.next().ok_or(io::ErrorKind::UnexpectedEof)??;
        line.parse().map_err(io::Error::other)
    };
    let bare = TcpStream::connect((address, port()?))?;
    bare.set_nodelay(true)?;
    let mut ends = vec![End::Bare(bare)];
    for sealed in [false, true] {
        let mut rendezvous = Rendezvous::new()?;
        let to = SocketAddr::new(address, port()?);
        let dialled = rendezvous.dial(offer(1, sealed), to, Instant::ZERO);
        dialled.map_err(io::Error::other)?;
        ends.push(open(&mut rendezvous, true)?);
    }
    measure(&mut ends, rounds)?;
    peer.wait().map(drop)
}

fn measure(ends: &mut [End], rounds: usize) -> io::Result<()> {
    let mut results = CASES.map(|_| WIRES.map(|_| Vec::new()));
    let mut calls = [[0.0; WIRES.len()]; CASES.len()];
    let mut buffer = vec![7; 1 << 20];
    for _ in 0..rounds {
        for (c, case) in CASES.into_iter().enumerate() {
            for (w, end) in ends.iter_mut().enumerate() {
                let (result, per_message) = once(end, case, &mut buffer)?;
                results[c][w].push(result);
                calls[c][w] = per_message;
            }
        }
    }
    println!("peer process on another processor; median of {rounds} rounds; ratio to bare TCP");
    for (c, case) in CASES.into_iter().enumerate() {
        let name = match case {
            Case::Echo { len, polled: false } => format!("{len} B round trip, blocking, us"),
            Case::Echo { len, polled: true } => format!("{len} B round trip, polled, us"),
            Case::Messages { len } => format!("{len} B messages one way, GB/s"),
        };
        print!("{name:34}");
        let mut first = None;
        for (w, wire) in WIRES.into_iter().enumerate() {
            let all = &mut results[c][w];
            all.sort_by(f64::total_cmp);
            let median = all[all.len() / 2];
            let ratio = median / *first.get_or_insert(median);
            print!("  {wire:?} {median:.2} ({ratio:.2})");
            if wire != Wire::Bare {
                print!(" {:.2} calls", calls[c][w]);
            }
        }
        println!();
    }
    Ok(())
}

/// Microseconds per round trip or GB/s, and this side's reads and writes per message.
fn once(end: &mut End, case: Case, buffer: &mut [u8]) -> io::Result<(f64, f64)> {
    let before = end.calls();
    let begin = WallClock::now();
    let (result, messages) = match case {
        Case::Echo { len, polled } => {
            let mut trips = Vec::with_capacity(TRIPS);
            for _ in 0..TRIPS {
                let begin = WallClock::now();
                end.send(&buffer[..len], polled)?;
                end.receive(&mut buffer[..len], polled)?;
                trips.push(begin.elapsed().as_nanos() as f64 / 1e3);
            }
            trips.sort_by(f64::total_cmp);
            (trips[TRIPS / 2], TRIPS)
        }
        Case::Messages { len } => {
            for _ in 0..STREAMED / len {
                end.send(&buffer[..len], false)?;
            }
            end.receive(&mut [0], false)?;
            (STREAMED as f64 / begin.elapsed().as_nanos() as f64, STREAMED / len)
        }
    };
    Ok((result, (end.calls() - before) as f64 / messages as f64))
}
