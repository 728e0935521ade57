//! What the two sealed handshake messages carry: transport parameters, then the owner's bytes.
//!
//! ```text
//! 0..2 length n of the parameters | 2..2+n parameters | owner's bytes (refused: text for people)
//! parameter: id u8 | length u8 | value      unknown ids from 128 on are skipped, others refused:
//!                                           see towpath_wire::parameter
//!   1 largest window of a channel (u64, bytes)  2 version chosen (u8, response)
//!   3 refusal (u16, response)  4 channels taken at once (u16)
//!   5 windows of all of them together (u64, bytes)  6 the link is trusted (no value)
//!   7 when it was made (u64, ns since the Unix epoch, initiation)
//!   128 paths that the sender can hold (u16; 1 where it is not said)
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use towpath_wire::Instant;
use towpath_wire::bytes::{ParseError, Reader, Writer};
use towpath_wire::parameter::{self, Parameters, SKIPPABLE};

use super::core::Endpoint;
use crate::association::{Keys, PATHS_MAX, PeerLimits};
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
/// Who does not know it holds one path, and is told of no other.
const PATHS: u8 = SKIPPABLE;

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
    pub(super) paths: u16,
    pub(super) content: &'a [u8],
}

impl<'a> Hello<'a> {
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(payload);
        let n = r.u16()?;
        let params = Parameters::new(r.take(n.into())?);
        let mut hello = Self {
            window: 0,
            channels_max: 0,
            credit: 0,
            version: 0,
            refusal: None,
            trusted: false,
            stamp: 0,
            paths: 1,
            content: r.rest(),
        };
        for parameter in params {
            let (id, mut value) = parameter?;
            match id {
                WINDOW => hello.window = value.u64()?,
                VERSION => hello.version = value.u8()?,
                CHANNELS => hello.channels_max = value.u16()?,
                CREDIT => hello.credit = value.u64()?,
                REFUSAL => hello.refusal = Some(value.u16()?),
                TRUSTED => hello.trusted = true,
                STAMP => hello.stamp = value.u64()?,
                PATHS => hello.paths = value.u16()?.max(1),
                _ => parameter::unknown("hello parameter", id)?,
            }
        }
        Ok(hello)
    }

    pub(super) const fn limits(&self) -> PeerLimits {
        let Self { window, channels_max, credit, paths, .. } = *self;
        PeerLimits { window, channels_max, credit, paths }
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
        if self.paths > 1 {
            w.put(&[PATHS, 2]);
            w.u16(self.paths);
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
        let (window, paths) = (window_max.into(), PATHS_MAX as u16);
        Hello { window, channels_max, credit, version, refusal, trusted, stamp: 0, paths, content }
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
            paths in 1..=u16::MAX,
            content in proptest::collection::vec(any::<u8>(), 0..HELLO_MAX),
        ) {
            let channels_max = u16::from(version);
            let credit = !window;
            let content = &content[..];
            let h = Hello {
                window,
                channels_max,
                credit,
                version,
                refusal,
                trusted,
                stamp,
                paths,
                content,
            };
            let bytes = h.emit();
            prop_assert_eq!(Hello::parse(&bytes), Ok(h));
        }

        #[test]
        fn any_bytes_parse_or_fail(bytes: Vec<u8>) {
            let _ = Hello::parse(&bytes);
        }
    }

    proptest! {
        /// The rule of kinds: what a later build adds changes nothing of the rest, or refuses all
        /// of it by name.
        #[test]
        fn an_unknown_parameter_is_skipped_or_refused_by_its_kind(
            id: u8,
            value in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            prop_assume!(!(WINDOW..=STAMP).contains(&id) && id != PATHS);
            let params = [&[id, value.len() as u8][..], &value, &[VERSION, 1, 4]].concat();
            let bytes = [&(params.len() as u16).to_le_bytes()[..], &params, b"x"].concat();
            let read = Hello::parse(&bytes).map(|h| (h.version, h.content));
            let field = "hello parameter";
            let refused = Err(ParseError::Unknown { field, value: id.into() });
            prop_assert_eq!(read, if id < 128 { refused } else { Ok((4, &b"x"[..])) });
        }
    }

    #[test]
    fn who_says_nothing_of_paths_holds_one() {
        let said = |params: &[u8]| {
            let bytes = [&(params.len() as u16).to_le_bytes()[..], params].concat();
            Hello::parse(&bytes).map(|h| h.limits().paths)
        };
        assert_eq!(said(&[]), Ok(1));
        assert_eq!(said(&[128, 2, 0, 0]), Ok(1), "none is no association");
        assert_eq!(said(&[128, 2, 4, 1]), Ok(260));
        assert_eq!(said(&[128, 4, 3, 0, 9, 9]), Ok(3), "what a later build adds to it");
        assert!(said(&[128, 1, 3]).is_err());
    }
}
