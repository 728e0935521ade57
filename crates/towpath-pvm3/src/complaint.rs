//! What the library says on standard error.

use std::fmt::{self, Write};

/// Longest piece that is written at once.
const PIECE_MAX: usize = 1024;

/// Words that are gathered for standard error.
struct Piece {
    bytes: [u8; PIECE_MAX],
    len: usize,
}

/// Writes words, in one piece unless they are very long. Signal handlers do so too: memory, and the
/// standard library's lock, may be taken by what they interrupt, or what a `longjmp` has left.
pub(crate) fn complain(words: fmt::Arguments<'_>) {
    let mut piece = Piece { bytes: [0; PIECE_MAX], len: 0 };
    // There is nobody to tell that standard error is gone.
    let _ = piece.write_fmt(words);
    piece.flush();
}

impl Piece {
    fn flush(&mut self) {
        let mut rest = &self.bytes[..self.len];
        while !rest.is_empty() {
            // SAFETY: `rest` is readable as long as it is.
            let n = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
            let Some(n) = usize::try_from(n).ok().filter(|n| *n > 0) else { break };
            rest = &rest[n..];
        }
        self.len = 0;
    }
}

impl Write for Piece {
    fn write_str(&mut self, words: &str) -> fmt::Result {
        let mut rest = words.as_bytes();
        while !rest.is_empty() {
            if self.len == PIECE_MAX {
                self.flush();
            }
            let n = rest.len().min(PIECE_MAX - self.len);
            self.bytes[self.len..self.len + n].copy_from_slice(&rest[..n]);
            self.len += n;
            rest = &rest[n..];
        }
        Ok(())
    }
}
