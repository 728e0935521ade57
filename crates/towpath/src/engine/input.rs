//! A task's standard input: what came for it and has not been written into its pipe yet. Bounded
//! by the window that its requester was given.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ChildStdin;

use super::poll::Poll;

/// Invariant: `watched` only while `pipe` is there and `waiting` is not empty.
pub(super) struct Input {
    pipe: Option<ChildStdin>,
    waiting: VecDeque<u8>,
    ended: bool,
    watched: bool,
}

impl Input {
    /// For a process whose standard input is this pipe, if it has one.
    pub(super) const fn new(pipe: Option<ChildStdin>) -> Self {
        Self { pipe, waiting: VecDeque::new(), ended: false, watched: false }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Adds what came; `end`: nothing comes after it.
    pub(super) fn add(&mut self, bytes: Vec<u8>, end: bool) {
        self.waiting.extend(bytes);
        self.ended |= end;
    }

    /// Writes what the pipe takes; how many bytes are done with. Has `poll` tell by `key` when it
    /// takes more. A task that closed its input takes nothing: that is thrown away.
    pub(super) fn feed(&mut self, poll: &Poll, key: u64) -> u32 {
        let mut done = 0;
        while let (Some(pipe), false) = (&mut self.pipe, self.waiting.is_empty()) {
            match pipe.write(self.waiting.as_slices().0) {
                Ok(n) => {
                    self.waiting.drain(..n);
                    done += n;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.close(poll),
            }
        }
        if self.pipe.is_none() {
            done += self.waiting.len();
            self.waiting.clear();
        } else if self.waiting.is_empty() && self.ended {
            self.close(poll);
        }
        self.watch(poll, key);
        done as u32
    }

    fn watch(&mut self, poll: &Poll, key: u64) {
        let Some(pipe) = &self.pipe else { return };
        let wanted = !self.waiting.is_empty();
        if wanted != self.watched {
            let changed = if wanted {
                poll.add(pipe, key).and_then(|()| poll.set_writable(pipe, key, true))
            } else {
                poll.remove(pipe)
            };
            self.watched = wanted == changed.is_ok();
        }
    }

    fn close(&mut self, poll: &Poll) {
        if let Some(pipe) = self.pipe.take()
            && std::mem::take(&mut self.watched)
        {
            let _ = poll.remove(&pipe);
        }
    }
}
