//! Our standard input, for the first task.

use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes that may be under way to the task.
pub(super) const WINDOW: u32 = 256 * 1024;

/// Invariant: `room` + bytes under way = [`WINDOW`].
pub(super) struct Input {
    stdin: io::Stdin,
    is_terminal: bool,
    room: usize,
    ended: bool,
    buf: Vec<u8>,
}

impl Input {
    pub(super) fn new() -> Self {
        let stdin = io::stdin();
        let is_terminal = stdin.is_terminal();
        let room = WINDOW as usize;
        Self { stdin, is_terminal, room, ended: false, buf: vec![0; room] }
    }

    /// What to wait for, if there is anything to wait for. A terminal is asked only while we are
    /// in its foreground: to read it from elsewhere would stop us.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        let wanted = !self.ended && self.room > 0 && (!self.is_terminal || is_foreground());
        wanted.then(|| self.stdin.as_fd())
    }

    /// The task took so much.
    pub(super) fn taken(&mut self, bytes: u32) {
        self.room = (self.room + bytes as usize).min(WINDOW as usize);
    }

    /// Reads what is there: bytes, and whether they are the last.
    pub(super) fn read(&mut self) -> (Vec<u8>, bool) {
        let read = loop {
            // Not the buffered reader: what it holds back could not be waited for.
            match rustix::io::read(&self.stdin, &mut self.buf[..self.room]) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return (Vec::new(), false),
                other => break other.unwrap_or(0),
            }
        };
        self.ended = read == 0;
        self.room -= read;
        (self.buf[..read].to_vec(), self.ended)
    }
}

/// True when our process group is the one that the terminal listens to. Fields of
/// `/proc/self/stat` after the name: state, parent, group, session, terminal, its group (proc(5)).
fn is_foreground() -> bool {
    let mut stat = String::new();
    let read = std::fs::File::open("/proc/self/stat").and_then(|mut f| f.read_to_string(&mut stat));
    let Ok(_) = read else { return true };
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    fields.get(2) == fields.get(5)
}
