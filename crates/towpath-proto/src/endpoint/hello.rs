//! What the two sealed handshake messages carry: transport parameters, then the owner's bytes.
//!
//! ```text
//! 0..2 length n of the parameters | 2..2+n parameters | owner's bytes (refused: text for people)
//! parameter: id u8 | length u8 | value      unknown ids are skipped
//!   1 largest window of a channel (u64, bytes)  2 version chosen (u8, response)
//!   3 refusal (u16, response)  4 channels taken at once (u16)
//!   5 windows of all of them together (u64, bytes)  6 the link is trusted (no value)
//!   7 when it was made (u64, ns since the Unix epoch, initiation)
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use towpath_wire::Instant;
use towpath_wire::bytes::{ParseError, Reader, Writer};

use super::core::Endpoint;
use crate::association::{Keys, PeerLimits};
use crate::config::Config;
use crate::crypto::Secrets;

/// Longest hello that the owner may add, in bytes.
pub const HELLO_MAX: usize = 512;
/// Longest text of a refusal, in bytes.
pub const REFUSAL_TEXT_MAX: usize = 256;
/// Room that a hello with its parameters needs at most.
pub(super) const PAYLOAD_MAX: usize = HELLO_MAX + 64;

const WINDOW: u8 = 1;
const VERSION: u8 = 2;
const REFUSAL: u8 = 3;
const CHANNELS: u8 = 4;
const CREDIT: u8 = 5;
const TRUSTED: u8 = 6;
const STAMP: u8 = 7;

/// An authenticated "no".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why, as a number that the owners agree on.
    pub code: u16,
    /// Why, for people.
    pub text: String,
}

/// Parsed parameters. `content` is what the owner added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello<'a> {
    pub(super) window: u64,
    pub(super) channels_max: u16,
    pub(super) credit: u64,
    pub(super) version: u8,
    pub(super) refusal: Option<u16>,
    pub(super) trusted: bool,
    pub(super) stamp: u64,
    pub(super) content: &'a [u8],
}

impl<'a> Hello<'a> {
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(payload);
        let n = r.u16()?;
        let mut params = Reader::new(r.take(n.into())?);
        let mut hello = Self {
            window: 0,
            channels_max: 0,
            credit: 0,
            version: 0,
            refusal: None,
            trusted: false,
            stamp: 0,
            content: r.rest(),
        };
        while !params.is_empty() {
            let (id, len) = (params.u8()?, params.u8()?);
            let mut value = Reader::new(params.take(len.into())?);
            match id {
                WINDOW => hello.window = value.u64()?,
                VERSION => hello.version = value.u8()?,
                CHANNELS => hello.channels_max = value.u16()?,
                CREDIT => hello.credit = value.u64()?,
                REFUSAL => hello.refusal = Some(value.u16()?),
                TRUSTED => hello.trusted = true,
                STAMP => hello.stamp = value.u64()?,
                _ => {}
            }
        }
        Ok(hello)
    }

    pub(super) const fn limits(&self) -> PeerLimits {
        let Self { window, channels_max, credit, .. } = *self;
        PeerLimits { window, channels_max, credit }
    }

    pub(super) fn emit(&self) -> Vec<u8> {
        let mut buf = [0; PAYLOAD_MAX];
        let mut w = Writer::new(&mut buf[2..]);
        w.put(&[WINDOW, 8]);
        w.u64(self.window);
        w.put(&[VERSION, 1, self.version]);
        w.put(&[CHANNELS, 2]);
        w.u16(self.channels_max);
        w.put(&[CREDIT, 8]);
        w.u64(self.credit);
        if let Some(code) = self.refusal {
            w.put(&[REFUSAL, 2]);
            w.u16(code);
        }
        if self.trusted {
            w.put(&[TRUSTED, 0]);
        }
        if self.stamp > 0 {
            w.put(&[STAMP, 8]);
            w.u64(self.stamp);
        }
        let n = w.used();
        w.put(self.content);
        let end = 2 + w.used();
        buf[..2].copy_from_slice(&(n as u16).to_le_bytes());
        buf[..end].to_vec()
    }
}

impl Endpoint {
    /// Our own parameters, around what the owner has to say.
    pub(super) fn own_hello<'a>(
        &self,
        version: u8,
        refusal: Option<u16>,
        content: &'a [u8],
    ) -> Hello<'a> {
        let Config { window_max, channels_max, credit_max: credit, trusted, .. } = self.config;
        let window = window_max.into();
        Hello { window, channels_max, credit, version, refusal, trusted, stamp: 0, content }
    }

    /// The keys of a new association. Packets go unsealed only where both sides said in their
    /// sealed hellos that they trust the link: each computes the same from the other's word and
    /// its own.
    pub(super) fn packet_keys(&self, now: Instant, secrets: &Secrets, peer_trusts: bool) -> Keys {
        let sealed = !(self.config.trusted && peer_trusts);
        Keys::new(now, secrets, sealed, &*self.crypto)
    }
}

/// The front of `text`, at most `max` bytes, cut between characters.
pub(crate) fn cut_text(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parameters_come_back(
            window: u64,
            version: u8,
            refusal: Option<u16>,
            trusted: bool,
            stamp: u64,
            content in proptest::collection::vec(any::<u8>(), 0..HELLO_MAX),
        ) {
            let channels_max = u16::from(version);
            let credit = !window;
            let content = &content[..];
            let h =
                Hello { window, channels_max, credit, version, refusal, trusted, stamp, content };
            let bytes = h.emit();
            prop_assert_eq!(Hello::parse(&bytes), Ok(h));
        }

        #[test]
        fn any_bytes_parse_or_fail(bytes: Vec<u8>) {
            let _ = Hello::parse(&bytes);
        }
    }

    #[test]
    fn an_unknown_parameter_is_skipped() {
        let bytes = [7, 0, 99, 2, 1, 1, VERSION, 1, 4, b'x'];
        let h = Hello::parse(&bytes).unwrap();
        assert_eq!((h.version, h.content), (4, &b"x"[..]));
    }
}
