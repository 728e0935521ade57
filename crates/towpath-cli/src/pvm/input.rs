//! Lines of standard input, without blocking the rest.

use std::collections::VecDeque;
use std::io::{self, Stdin};
use std::os::fd::{AsFd, BorrowedFd};

/// Longest line, in bytes; a longer one is cut into several.
const LINE_MAX: usize = 64 << 10;

/// What was typed, or piped in.
pub(super) struct Input {
    stdin: Stdin,
    bytes: Vec<u8>,
    lines: VecDeque<String>,
    ended: bool,
}

impl Input {
    /// With lines to go before those of standard input.
    pub(super) fn new(first: &str) -> Self {
        let lines = first.lines().map(String::from).collect();
        Self { stdin: io::stdin(), bytes: Vec::new(), lines, ended: false }
    }

    pub(super) fn next(&mut self) -> Option<String> {
        self.lines.pop_front()
    }

    /// Nothing more comes.
    pub(super) const fn is_over(&self) -> bool {
        self.ended
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.ended).then(|| self.stdin.as_fd())
    }

    /// Reads what there is; to be called when there is something.
    pub(super) fn read(&mut self) -> io::Result<()> {
        let mut piece = [0; 4096];
        match rustix::io::read(&self.stdin, &mut piece) {
            Ok(0) => {
                self.ended = true;
                if !self.bytes.is_empty() {
                    self.line();
                }
            }
            Ok(len) => self.add(&piece[..len]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.line(),
                _ => self.bytes.push(*byte),
            }
            if self.bytes.len() == LINE_MAX {
                self.line();
            }
        }
    }

    fn line(&mut self) {
        let line = String::from_utf8_lossy(&self.bytes).into_owned();
        self.lines.push_back(line);
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let mut input = Input::new("first\n");
        input.add(b"a\nb");
        input.add(b"c\n\n");
        let lines: Vec<String> = std::iter::from_fn(|| input.next()).collect();
        assert_eq!(lines, ["first", "a", "bc", ""]);
    }
}
