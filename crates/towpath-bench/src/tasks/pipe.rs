//! Pipes: messages of one length in both directions, by turns. The floors are written as plainly
//! as they can be.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytemuck::PodCastError;
use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::thread::futex;
use towpath::task::{Envelope, Task, TaskId, Wanted};

use crate::words::Words;

/// Bytes of a message that shared words carry.
pub(super) const SHORT: usize = 16;
/// Words of a line of memory: a direction's, so that the two do not meet in one.
const LINE: usize = 32;
/// Words that a pipe needs.
pub(super) const WORDS: usize = 2 * LINE;
/// Whoever hears nothing for so long, fails.
const SILENCE: Duration = Duration::from_secs(10);
/// The tag of messages that are measured.
pub(super) const TAG: i64 = 1;

/// One end of a pipe.
pub(super) trait Pipe {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()>;
    /// Fills `bytes` with the next message, which is exactly as long.
    fn receive(&mut self, bytes: &mut [u8]) -> anyhow::Result<()>;
}

/// Which end of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Near,
    Far,
}

/// How an end of shared words waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It looks over and over.
    Awake,
    /// In the kernel, by a futex.
    Asleep,
}

/// A message of 16 bytes in each direction: four words and their number.
pub(super) struct Shared {
    words: Words,
    /// Where the line is that this end writes, and the one that it reads.
    own: usize,
    far: usize,
    sent: u32,
    seen: u32,
    look: Look,
}

impl Shared {
    pub(super) fn new(words: Words, end: End, look: Look) -> anyhow::Result<Self> {
        ensure!(words.len() >= WORDS, "{} shared words, {WORDS} are needed", words.len());
        let (own, far) = if end == End::Near { (0, LINE) } else { (LINE, 0) };
        Ok(Self { words, own, far, sent: 0, seen: 0, look })
    }

    pub(super) fn open(path: &Path, end: End, look: Look) -> anyhow::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        Self::new(Words::open(&file)?, end, look)
    }
}

/// Waits in the kernel until `word` is no longer `old`.
pub(super) fn sleep_on(word: &AtomicU32, old: u32) -> anyhow::Result<()> {
    let time = Timespec { tv_sec: SILENCE.as_secs().cast_signed(), tv_nsec: 0 };
    while word.load(Ordering::Acquire) == old {
        match futex::wait(word, futex::Flags::empty(), old, Some(&time)) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(e) => return Err(e).context("the other end is silent"),
        }
    }
    Ok(())
}

/// Looks at `word` until it is no longer `old`.
pub(super) fn spin_on(word: &AtomicU32, old: u32) -> anyhow::Result<()> {
    // Some four billion fruitless looks take longer than anyone is silent.
    for _ in 0..u32::MAX {
        if word.load(Ordering::Acquire) != old {
            return Ok(());
        }
        std::hint::spin_loop();
    }
    bail!("the other end is silent")
}

impl Pipe for Shared {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let line = &self.words[self.own..self.own + LINE];
        for (word, four) in line[1..].iter().zip(bytes.chunks_exact(4)) {
            let four = four.try_into().expect("four bytes");
            word.store(u32::from_le_bytes(four), Ordering::Relaxed);
        }
        self.sent = self.sent.wrapping_add(1);
        // Publishes the words before it; pairs with the other end's look.
        line[0].store(self.sent, Ordering::Release);
        if self.look == Look::Asleep {
            futex::wake(&line[0], futex::Flags::empty(), 1)?;
        }
        Ok(())
    }

    fn receive(&mut self, bytes: &mut [u8]) -> anyhow::Result<()> {
        let line = &self.words[self.far..self.far + LINE];
        if self.look == Look::Asleep {
            sleep_on(&line[0], self.seen)?;
        } else {
            spin_on(&line[0], self.seen)?;
        }
        self.seen = self.seen.wrapping_add(1);
        for (word, four) in line[1..].iter().zip(bytes.chunks_exact_mut(4)) {
            four.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        Ok(())
    }
}

impl Pipe for UnixStream {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.write_all(bytes)?)
    }

    fn receive(&mut self, bytes: &mut [u8]) -> anyhow::Result<()> {
        Ok(self.read_exact(bytes)?)
    }
}

impl Pipe for TcpStream {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.write_all(bytes)?)
    }

    fn receive(&mut self, bytes: &mut [u8]) -> anyhow::Result<()> {
        Ok(self.read_exact(bytes)?)
    }
}

/// Datagrams. The end that serves learns from the first one whom it talks to.
pub(super) struct Datagrams {
    socket: UdpSocket,
    met: bool,
}

impl Datagrams {
    pub(super) fn serve(at: IpAddr) -> anyhow::Result<(Self, u16)> {
        let socket = UdpSocket::bind((at, 0))?;
        socket.set_read_timeout(Some(SILENCE))?;
        let port = socket.local_addr()?.port();
        Ok((Self { socket, met: false }, port))
    }

    pub(super) fn connect(to: SocketAddr) -> anyhow::Result<Self> {
        let any = if to.ip().is_loopback() { to.ip() } else { Ipv4Addr::UNSPECIFIED.into() };
        let (mut pipe, _) = Self::serve(any)?;
        pipe.socket.connect(to)?;
        pipe.met = true;
        Ok(pipe)
    }
}

impl Pipe for Datagrams {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.socket.send(bytes)?;
        Ok(())
    }

    fn receive(&mut self, bytes: &mut [u8]) -> anyhow::Result<()> {
        let n = if self.met {
            self.socket.recv(bytes)?
        } else {
            let (n, from): (usize, SocketAddr) = self.socket.recv_from(bytes)?;
            self.socket.connect(from)?;
            self.met = true;
            n
        };
        ensure!(n == bytes.len(), "a datagram of {n} bytes, not {}", bytes.len());
        Ok(())
    }
}

pub(super) fn unix_accept(listener: &UnixListener) -> anyhow::Result<UnixStream> {
    let (stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(SILENCE))?;
    Ok(stream)
}

pub(super) fn unix_connect(path: &Path) -> anyhow::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(SILENCE))?;
    Ok(stream)
}

fn tcp_ready(stream: TcpStream) -> anyhow::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    Ok(stream)
}

pub(super) fn tcp_accept(listener: &TcpListener) -> anyhow::Result<TcpStream> {
    tcp_ready(listener.accept()?.0)
}

pub(super) fn tcp_connect(to: SocketAddr) -> anyhow::Result<TcpStream> {
    tcp_ready(TcpStream::connect(to)?)
}

/// Loans between tasks. Only the first messages are copied as a whole, so that they can be
/// compared; of the others, a line of memory at each end is: what is measured is the loan.
pub(super) struct Loans<'a> {
    task: &'a mut Task,
    peer: TaskId,
    /// Messages that are still copied as a whole, out and in.
    whole: [u64; 2],
}

/// Bytes of a loan that are touched at each of its ends.
const TOUCHED: usize = 64;

impl<'a> Loans<'a> {
    pub(super) fn new(task: &'a mut Task, peer: TaskId, whole: u64) -> Self {
        Self { task, peer, whole: [whole; 2] }
    }
}

/// Copies all, or both ends; counts `whole` down.
fn touch(whole: &mut u64, to: &mut [u8], from: &[u8]) {
    if *whole > 0 || from.len() <= 2 * TOUCHED {
        *whole = whole.saturating_sub(1);
        return to.copy_from_slice(from);
    }
    let end = from.len() - TOUCHED;
    to[..TOUCHED].copy_from_slice(&from[..TOUCHED]);
    to[end..].copy_from_slice(&from[end..]);
}

impl Pipe for Loans<'_> {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut loan = self.task.loan(bytes.len())?;
        touch(&mut self.whole[0], &mut loan, bytes);
        Ok(self.task.send_loan(self.peer, Envelope::tag(TAG), loan)?)
    }

    fn receive(&mut self, bytes: &mut [u8]) -> anyhow::Result<()> {
        let wanted = Wanted { source: Some(self.peer), tag: Some(TAG), context: 0 };
        let got = self.task.recv(&wanted)?;
        let (got, len) = (got.bytes(), bytes.len());
        ensure!(got.len() == len, "a message of {} bytes, not {len}", got.len());
        touch(&mut self.whole[1], bytes, got);
        Ok(())
    }
}

/// Messages between tasks, copied out into the receiver's buffer.
pub(super) struct Messages<'a> {
    pub(super) task: &'a mut Task,
    pub(super) peer: TaskId,
}

impl Pipe for Messages<'_> {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.task.send(self.peer, TAG, bytes)?)
    }

    fn receive(&mut self, bytes: &mut [u8]) -> anyhow::Result<()> {
        let wanted = Wanted { source: Some(self.peer), tag: Some(TAG), context: 0 };
        let got = self.task.recv_into(&wanted, bytes)?;
        ensure!(got.len == bytes.len(), "a message of {} bytes, not {}", got.len, bytes.len());
        Ok(())
    }
}

/// The same as arrays of numbers.
pub(super) struct Arrays<'a> {
    pub(super) task: &'a mut Task,
    pub(super) peer: TaskId,
}

impl Arrays<'_> {
    /// Whether messages of so many bytes are arrays.
    pub(super) const fn has(len: usize) -> bool {
        len.is_multiple_of(size_of::<f64>())
    }
}

/// What bytes in memory of their own are as numbers.
fn misplaced(e: PodCastError) -> anyhow::Error {
    anyhow::format_err!("a buffer of bytes is no array of numbers: {e}")
}

impl Pipe for Arrays<'_> {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let values: &[f64] = bytemuck::try_cast_slice(bytes).map_err(misplaced)?;
        Ok(self.task.send_slice(self.peer, TAG, values)?)
    }

    fn receive(&mut self, bytes: &mut [u8]) -> anyhow::Result<()> {
        let wanted = Wanted { source: Some(self.peer), tag: Some(TAG), context: 0 };
        let room: &mut [f64] = bytemuck::try_cast_slice_mut(bytes).map_err(misplaced)?;
        let (got, len) = (self.task.recv_slice_into(&wanted, room)?, size_of_val(room));
        ensure!(got.len == len, "a message of {} bytes, not {len}", got.len);
        Ok(())
    }
}
