//! What stands in clear at the front of each datagram.
//!
//! The first byte tells the kind. Only [`Data`] packets flow once two hosts know each other.
//!
//! ```text
//! Data         0 kind=4 | 1 epoch | 2..4 path | 4..8 receiver | 8..16 packet number
//!              16..n sealed | n..n+16 tag
//! Initiation   0 kind=1 | 1 version max | 2 version min | 3 admission | 4..8 sender
//!              8..16 token expiry (unix s) | 16..32 token nonce | 32..n Noise message 1
//!              n..n+16 mac1 | n+16..n+32 mac2
//! Response     0 kind=2 | 1 version | 2..4 zero | 4..8 receiver | 8..12 sender
//!              12..n Noise message 2 | n..n+16 mac1
//! Cookie       0 kind=3 | 1..4 zero | 4..8 receiver | 8..24 cookie | 24..40 mac1
//! Versions     0 kind=5 | 1 version max | 2 version min | 3 zero | 4..8 receiver
//! ```
//! `receiver` is the index that the addressed host chose for this association, `sender` the
//! sender's own. All 16 header bytes of a data packet are authenticated with its content. Nonce
//! of a data packet = path (32 bits) ‖ packet number (64 bits, never reset, never reused).

use crate::bytes::{ParseError, Reader, Writer};
use crate::id::PathId;
use crate::version::VersionRange;

/// Bytes of a [`Data`] packet's header.
pub const DATA_HEADER: usize = 16;
/// Bytes of the authentication tag behind sealed content, and of each MAC and cookie.
pub const TAG: usize = 16;
/// Bytes of an [`Initiation`] before its Noise message.
pub const INITIATION_HEADER: usize = 32;
/// Bytes of a [`Response`] before its Noise message.
pub const RESPONSE_HEADER: usize = 12;
/// Bytes of a [`Cookie`] packet.
pub const COOKIE_LEN: usize = 40;
/// Bytes of a [`Versions`] packet.
pub const VERSIONS_LEN: usize = 8;
/// Largest datagram that is ever sent or accepted.
pub const DATAGRAM_MAX: usize = 65_507;

const KIND_INITIATION: u8 = 1;
const KIND_RESPONSE: u8 = 2;
const KIND_COOKIE: u8 = 3;
const KIND_DATA: u8 = 4;
const KIND_VERSIONS: u8 = 5;

/// On what ground a host asks to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Its key stands in the host table.
    Member,
    /// It holds a token that the VM's founder issued.
    Token {
        /// When the token ends, in seconds since the Unix epoch by the issuer's clock.
        expiry_unix_s: u64,
        /// Distinguishes tokens of one second.
        nonce: [u8; 16],
    },
}

/// The header of a sealed packet.
///
/// ```
/// use towpath_wire::packet::{DATA_HEADER, Data, Packet};
/// use towpath_wire::PathId;
///
/// let data = Data { epoch: 0, path: PathId(1), receiver: 7, number: 42 };
/// let mut datagram = [0; DATA_HEADER + 32];
/// data.emit(&mut datagram);
/// assert_eq!(Packet::parse(&datagram), Ok(Packet::Data(data)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Key epoch, counted modulo 256.
    pub epoch: u8,
    /// Path within the association.
    pub path: PathId,
    /// Index that the receiver chose.
    pub receiver: u32,
    /// Packet number within path and direction.
    pub number: u64,
}

impl Data {
    /// Writes the header to the first [`DATA_HEADER`] bytes of `out`.
    pub fn emit(&self, out: &mut [u8]) {
        // In whole words: what seals reads them at once.
        let kind = u64::from(KIND_DATA) | u64::from(self.epoch) << 8;
        let mut w = Writer::new(out);
        w.u64(kind | u64::from(self.path.0) << 16 | u64::from(self.receiver) << 32);
        w.u64(self.number);
    }
}

/// The first packet of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initiation<'a> {
    /// Versions that the initiator speaks.
    pub versions: VersionRange,
    /// Ground for letting it in.
    pub admission: Admission,
    /// Index that the initiator chose.
    pub sender: u32,
    /// First message of the Noise pattern.
    pub noise: &'a [u8],
    /// Proof that the sender knows the responder's public key.
    pub mac1: [u8; TAG],
    /// Proof that the sender receives at its address; zero when no cookie was asked for.
    pub mac2: [u8; TAG],
    /// Everything that `mac1` covers.
    pub before_mac1: &'a [u8],
    /// Everything that `mac2` covers.
    pub before_mac2: &'a [u8],
}

impl Initiation<'_> {
    /// Writes the first [`INITIATION_HEADER`] bytes.
    pub fn emit_header(out: &mut [u8], versions: VersionRange, adm: &Admission, sender: u32) {
        let mut w = Writer::new(out);
        w.u8(KIND_INITIATION);
        w.u8(versions.max);
        w.u8(versions.min);
        let (ground, expiry, nonce) = match *adm {
            Admission::Member => (0, 0, [0; 16]),
            Admission::Token { expiry_unix_s, nonce } => (1, expiry_unix_s, nonce),
        };
        w.u8(ground);
        w.u32(sender);
        w.u64(expiry);
        w.put(&nonce);
    }
}

/// The responder's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// The version chosen; believed only when the sealed payload repeats it.
    pub version: u8,
    /// Index that the initiator chose.
    pub receiver: u32,
    /// Index that the responder chose.
    pub sender: u32,
    /// Second message of the Noise pattern.
    pub noise: &'a [u8],
    /// Proof that the sender knows the initiator's public key.
    pub mac1: [u8; TAG],
    /// Everything that `mac1` covers.
    pub before_mac1: &'a [u8],
}

impl Response<'_> {
    /// Writes the first [`RESPONSE_HEADER`] bytes.
    pub fn emit_header(out: &mut [u8], version: u8, receiver: u32, sender: u32) {
        let mut w = Writer::new(out);
        w.u8(KIND_RESPONSE);
        w.u8(version);
        w.u16(0);
        w.u32(receiver);
        w.u32(sender);
    }
}

/// A busy responder's request to prove the source address first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// Index that the initiator chose.
    pub receiver: u32,
    /// Key for the `mac2` of the next initiation.
    pub cookie: [u8; TAG],
    /// Binds the cookie to the initiation that caused it.
    pub mac1: [u8; TAG],
}

impl Cookie {
    /// The packet's bytes.
    pub fn emit(&self) -> [u8; COOKIE_LEN] {
        let mut out = [0; COOKIE_LEN];
        let mut w = Writer::new(&mut out);
        w.u32(u32::from(KIND_COOKIE));
        w.u32(self.receiver);
        w.put(&self.cookie);
        w.put(&self.mac1);
        out
    }
}

/// A responder's range of versions, when none was in common. Nothing proves who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// What the responder speaks.
    pub versions: VersionRange,
    /// Index that the initiator chose.
    pub receiver: u32,
}

impl Versions {
    /// The packet's bytes.
    pub fn emit(&self) -> [u8; VERSIONS_LEN] {
        let mut out = [0; VERSIONS_LEN];
        let mut w = Writer::new(&mut out);
        w.u8(KIND_VERSIONS);
        w.u8(self.versions.max);
        w.u8(self.versions.min);
        w.u8(0);
        w.u32(self.receiver);
        out
    }
}

/// Any datagram, taken apart without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Sealed content of an established association.
    Data(Data),
    /// A host asks for an association.
    Initiation(Initiation<'a>),
    /// The answer to an initiation.
    Response(Response<'a>),
    /// Ask again with proof of address.
    Cookie(Cookie),
    /// No version in common.
    Versions(Versions),
}

impl<'a> Packet<'a> {
    /// Takes a datagram apart. Content of a data packet stays sealed behind [`DATA_HEADER`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(datagram);
        match r.u8()? {
            KIND_DATA => parse_data(&mut r).map(Packet::Data),
            KIND_INITIATION => parse_initiation(datagram).map(Packet::Initiation),
            KIND_RESPONSE => parse_response(datagram).map(Packet::Response),
            KIND_COOKIE => parse_cookie(&mut r).map(Packet::Cookie),
            KIND_VERSIONS => parse_versions(&mut r).map(Packet::Versions),
            kind => Err(ParseError::Unknown { field: "packet kind", value: kind.into() }),
        }
    }
}

fn parse_data(r: &mut Reader<'_>) -> Result<Data, ParseError> {
    let data =
        Data { epoch: r.u8()?, path: PathId(r.u16()?), receiver: r.u32()?, number: r.u64()? };
    match r.rest().len() {
        n if n < TAG => Err(ParseError::Truncated { need: TAG, have: n }),
        _ => Ok(data),
    }
}

fn parse_range(r: &mut Reader<'_>) -> Result<VersionRange, ParseError> {
    let (max, min) = (r.u8()?, r.u8()?);
    VersionRange::new(min, max).ok_or(ParseError::Unknown {
        field: "version range",
        value: u16::from_le_bytes([max, min]).into(),
    })
}

fn parse_initiation(datagram: &[u8]) -> Result<Initiation<'_>, ParseError> {
    let macs = datagram.len().saturating_sub(2 * TAG);
    let mut r = Reader::new(datagram);
    r.u8()?;
    let versions = parse_range(&mut r)?;
    let ground = r.u8()?;
    let sender = r.u32()?;
    let (expiry_unix_s, nonce) = (r.u64()?, r.array()?);
    let admission = match ground {
        0 => Admission::Member,
        1 => Admission::Token { expiry_unix_s, nonce },
        value => return Err(ParseError::Unknown { field: "admission", value: value.into() }),
    };
    let noise_len = r.rest().len().saturating_sub(2 * TAG);
    let noise = r.take(noise_len)?;
    let (mac1, mac2) = (r.array()?, r.array()?);
    Ok(Initiation {
        versions,
        admission,
        sender,
        noise,
        mac1,
        mac2,
        before_mac1: &datagram[..macs],
        before_mac2: &datagram[..macs + TAG],
    })
}

fn parse_response(datagram: &[u8]) -> Result<Response<'_>, ParseError> {
    let mut r = Reader::new(datagram);
    r.u8()?;
    let version = r.u8()?;
    r.u16()?;
    let (receiver, sender) = (r.u32()?, r.u32()?);
    let noise_len = r.rest().len().saturating_sub(TAG);
    let noise = r.take(noise_len)?;
    let mac1 = r.array()?;
    let before_mac1 = &datagram[..datagram.len() - TAG];
    Ok(Response { version, receiver, sender, noise, mac1, before_mac1 })
}

fn parse_cookie(r: &mut Reader<'_>) -> Result<Cookie, ParseError> {
    r.take(3)?;
    Ok(Cookie { receiver: r.u32()?, cookie: r.array()?, mac1: r.array()? })
}

fn parse_versions(r: &mut Reader<'_>) -> Result<Versions, ParseError> {
    let versions = parse_range(r)?;
    r.u8()?;
    Ok(Versions { versions, receiver: r.u32()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = Packet::parse(&bytes);
        }

        #[test]
        fn a_data_header_comes_back(epoch: u8, path: u16, receiver: u32, number: u64) {
            let data = Data { epoch, path: PathId(path), receiver, number };
            let mut buf = [0; DATA_HEADER + TAG];
            data.emit(&mut buf);
            prop_assert_eq!(Packet::parse(&buf), Ok(Packet::Data(data)));
        }

        #[test]
        fn an_initiation_comes_back(
            sender: u32,
            expiry_unix_s: u64,
            nonce: [u8; 16],
            noise: Vec<u8>,
            macs: [u8; 32],
        ) {
            let admission = Admission::Token { expiry_unix_s, nonce };
            let versions = VersionRange { min: 1, max: 3 };
            let mut buf = vec![0; INITIATION_HEADER];
            Initiation::emit_header(&mut buf, versions, &admission, sender);
            buf.extend_from_slice(&noise);
            buf.extend_from_slice(&macs);
            let Ok(Packet::Initiation(i)) = Packet::parse(&buf) else {
                panic!("not an initiation");
            };
            prop_assert_eq!((i.versions, i.admission, i.sender), (versions, admission, sender));
            prop_assert_eq!(i.noise, &noise[..]);
            prop_assert_eq!(&i.mac1[..], &macs[..16]);
            prop_assert_eq!(&i.mac2[..], &macs[16..]);
            prop_assert_eq!(i.before_mac2.len(), buf.len() - TAG);
        }

        #[test]
        fn a_response_comes_back(
            version: u8,
            receiver: u32,
            sender: u32,
            noise: Vec<u8>,
            mac1: [u8; 16],
        ) {
            let mut buf = vec![0; RESPONSE_HEADER];
            Response::emit_header(&mut buf, version, receiver, sender);
            buf.extend_from_slice(&noise);
            buf.extend_from_slice(&mac1);
            let Ok(Packet::Response(p)) = Packet::parse(&buf) else { panic!("not a response") };
            prop_assert_eq!((p.version, p.receiver, p.sender), (version, receiver, sender));
            prop_assert_eq!((p.noise, p.mac1), (&noise[..], mac1));
        }
    }

    #[test]
    fn short_answers_come_back() {
        let cookie = Cookie { receiver: 5, cookie: [7; 16], mac1: [8; 16] };
        assert_eq!(Packet::parse(&cookie.emit()), Ok(Packet::Cookie(cookie)));
        let versions = Versions { versions: VersionRange { min: 2, max: 4 }, receiver: 9 };
        assert_eq!(Packet::parse(&versions.emit()), Ok(Packet::Versions(versions)));
    }

    #[test]
    fn a_packet_shorter_than_its_tag_is_truncated() {
        let mut buf = [0; DATA_HEADER + TAG - 1];
        Data { epoch: 0, path: PathId(0), receiver: 0, number: 0 }.emit(&mut buf);
        assert_eq!(Packet::parse(&buf), Err(ParseError::Truncated { need: 16, have: 15 }));
    }
}
