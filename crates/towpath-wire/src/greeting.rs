//! Who speaks: the first words between two parts of Towpath that may be of different builds.
//!
//! ```text
//! 0..4 "tow\xF7" | 4..6 protocol (u16, little-endian) | 6 length n | 7..7+n build (UTF-8)
//! ```
//! **Invariant**: this form never changes, so that any two builds can tell each other which they
//! are. What follows it belongs to the protocol and is read by the same build only. Before there
//! was a greeting, the first four bytes on a client's socket were a length of at most 4 MiB and the
//! first byte of a host's hello was at most 2: neither can be taken for the mark, nor the mark for
//! them.

use core::fmt;

/// Version of what clients, daemons and hosts tell each other: one more with each change that a
/// release makes to it. Between releases the build tells.
pub const PROTOCOL: u16 = 1;
/// How a greeting begins.
pub const MARK: [u8; 4] = *b"tow\xF7";
/// Bytes before the build.
const FRONT: usize = 7;
/// Longest build, in bytes.
pub const BUILD_MAX: usize = 64;
/// Longest greeting, in bytes.
pub const GREETING_MAX: usize = FRONT + BUILD_MAX;

/// What one side says of itself. Two sides understand each other only if these are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting<'a> {
    /// Version of the vocabulary that follows.
    pub protocol: u16,
    /// Version and build, for people and to compare; at most [`BUILD_MAX`] bytes.
    pub build: &'a str,
}

/// The bytes are no greeting: they come from a build that knew of none, or from something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no greeting")]
pub struct NoGreeting;

impl<'a> Greeting<'a> {
    /// The greeting at the front of `bytes` and its length; `None` while more bytes are needed.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, NoGreeting> {
        let mark = &bytes[..bytes.len().min(MARK.len())];
        if !MARK.starts_with(mark) {
            return Err(NoGreeting);
        }
        let Some((front, rest)) = bytes.split_first_chunk::<FRONT>() else { return Ok(None) };
        let len = usize::from(front[6]);
        if len > BUILD_MAX {
            return Err(NoGreeting);
        }
        let Some(build) = rest.get(..len) else { return Ok(None) };
        let build = core::str::from_utf8(build).map_err(|_| NoGreeting)?;
        if build.chars().any(char::is_control) {
            return Err(NoGreeting); // it is shown to people
        }
        let protocol = u16::from_le_bytes([front[4], front[5]]);
        Ok(Some((Self { protocol, build }, FRONT + len)))
    }

    /// Its bytes. A longer build is cut.
    pub fn emit(&self) -> ([u8; GREETING_MAX], usize) {
        let build = &self.build[..self.build.floor_char_boundary(BUILD_MAX)];
        let mut out = [0; GREETING_MAX];
        out[..4].copy_from_slice(&MARK);
        out[4..6].copy_from_slice(&self.protocol.to_le_bytes());
        out[6] = build.len() as u8;
        out[FRONT..FRONT + build.len()].copy_from_slice(build.as_bytes());
        (out, FRONT + build.len())
    }
}

impl fmt::Display for Greeting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "towpath {}, protocol {}", self.build, self.protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Never to be changed: other builds send and expect these bytes.
    #[test]
    fn the_bytes_are_those_of_ever() {
        let greeting = Greeting { protocol: 0x0102, build: "0.1.0 (abc)" };
        let (bytes, len) = greeting.emit();
        assert_eq!(&bytes[..len], b"tow\xF7\x02\x01\x0b0.1.0 (abc)");
        let more = [&bytes[..len], b"\x00\x01"].concat();
        assert_eq!(Greeting::parse(&more), Ok(Some((greeting, len))));
    }

    #[test]
    fn what_earlier_builds_said_first_is_no_greeting() {
        // A frame of a client: its length; a hello of a host: its purpose.
        for first in [&[1, 0, 0, 0, 0][..], &[0, 0, 0x40, 0], &[0], &[1], &[2, 9]] {
            assert_eq!(Greeting::parse(first), Err(NoGreeting));
        }
        // What they make of ours: a frame beyond any limit, a purpose that is none.
        assert!(u32::from_le_bytes(MARK) > 4 << 20 && MARK[0] > 2);
    }

    proptest! {
        #[test]
        fn a_greeting_comes_back_once_it_is_whole(protocol: u16, build in "[ -~]{0,64}") {
            let greeting = Greeting { protocol, build: &build };
            let (bytes, len) = greeting.emit();
            for cut in 0..len {
                prop_assert_eq!(Greeting::parse(&bytes[..cut]), Ok(None));
            }
            prop_assert_eq!(Greeting::parse(&bytes[..len]), Ok(Some((greeting, len))));
        }

        #[test]
        fn any_bytes_are_a_greeting_or_none(bytes: Vec<u8>) {
            let _ = Greeting::parse(&bytes);
            let _ = Greeting::parse(&[&MARK[..], &bytes].concat());
        }
    }
}
