//! A buffered output that a signal can end even while nobody reads it.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};

/// Bytes kept before they are written.
const BUFFER: usize = 64 * 1024;
/// A pipe that polls as writable takes so many without waiting (`PIPE_BUF`).
const PIPE_PIECE: usize = 4096;
/// How often a wait looks at the flag.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Writes to a pipe, terminal or file. A write that waits for the reader fails with
/// [`io::ErrorKind::TimedOut`] once the interrupt flag is set.
#[derive(Debug)]
pub struct Steady<'a, F: AsFd> {
    to: F,
    buf: Vec<u8>,
    interrupt: &'a AtomicBool,
    /// Regular files never make anyone wait.
    is_file: bool,
}

impl<'a, F: AsFd> Steady<'a, F> {
    /// Writes to `to` until `interrupt` is set.
    pub fn new(to: F, interrupt: &'a AtomicBool) -> Self {
        let is_file =
            fstat(&to).is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile);
        Self { to, buf: Vec::with_capacity(BUFFER), interrupt, is_file }
    }

    /// Bytes that wait to be written.
    pub fn buffered(&self) -> usize {
        self.buf.len()
    }

    fn write_out(&mut self) -> io::Result<()> {
        let mut written = 0;
        let result = loop {
            let rest = &self.buf[written..];
            if rest.is_empty() {
                break Ok(());
            }
            let piece = if self.is_file { rest } else { &rest[..rest.len().min(PIPE_PIECE)] };
            match write_once(self.to.as_fd(), piece, self.is_file) {
                Ok(Some(n)) => written += n,
                Ok(None) if self.interrupt.load(Ordering::Relaxed) => {
                    break Err(io::ErrorKind::TimedOut.into());
                }
                Ok(None) => {}
                Err(e) => break Err(e),
            }
        };
        self.buf.drain(..written);
        result
    }
}

/// Writes some of it; `None` when the reader took nothing for a while.
fn write_once(to: BorrowedFd<'_>, piece: &[u8], is_file: bool) -> io::Result<Option<usize>> {
    if !is_file {
        let mut fds = [PollFd::new(&to, PollFlags::OUT)];
        match poll(&mut fds, Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
    }
    match rustix::io::write(to, piece) {
        Ok(n) => Ok(Some(n)),
        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

impl<F: AsFd> Write for Steady<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buf.len() + bytes.len() > BUFFER {
            self.write_out()?;
        }
        let n = bytes.len().min(BUFFER);
        self.buf.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_out()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_reader_gets_everything() {
        let (mut reader, writer) = io::pipe().unwrap();
        let sent: Vec<u8> = (0..1_000_000u32).map(|i| i as u8).collect();
        let expected = sent.clone();
        let thread = std::thread::spawn(move || {
            let interrupt = AtomicBool::new(false);
            let mut steady = Steady::new(writer, &interrupt);
            steady.write_all(&sent).unwrap();
            steady.flush().unwrap();
        });
        let mut got = vec![];
        reader.read_to_end(&mut got).unwrap();
        thread.join().unwrap();
        assert_eq!(got, expected);
    }

    #[test]
    fn an_interrupt_ends_a_write_that_nobody_reads() {
        let (_reader, writer) = io::pipe().unwrap();
        let interrupt = AtomicBool::new(true);
        let mut steady = Steady::new(writer, &interrupt);
        let err = steady.write_all(&vec![0; 1 << 20]).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_closed_pipe_is_an_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let interrupt = AtomicBool::new(false);
        let mut steady = Steady::new(writer, &interrupt);
        steady.write_all(b"x").unwrap();
        assert_eq!(steady.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
