//! What a newcomer is given to join: who may lead, their keys, and a secret of its own.
//!
//! ```text
//! "tow2-" base64url of:
//!   0..8 expiry (unix s) | 8..24 nonce | 24..56 pre-shared key
//!   56..60 checksum over everything else | 60 hosts (1 to 5), and for each of them:
//!   its static key (32) | addresses (1 to 8), and for each of them:
//!   4 or 6 | the address (4 or 16 bytes) | port (u16)
//! ```
//! The first host is the one that issued it, and led then; the others were those that might come to
//! lead. The secret is derived from the VM key, expiry and nonce; it does not give the VM key away.
//!
//! Tokens of before ("tow1-", with one host, its addresses as text) are read, too: one may stand in
//! a service's file for a year.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use towpath_node::Invitation;
use towpath_proto::{HostKey, Psk};
use zeroize::Zeroizing;

const PREFIX: &str = "tow2-";
const PREFIX_1: &str = "tow1-";
/// Bytes before the checksum, and behind it.
const FIXED: (usize, usize) = (56, 60);
/// The same of a token of before.
const FIXED_1: (usize, usize) = (88, 92);
/// Longest token text accepted.
const TEXT_MAX: usize = 2048;
/// Hosts that a token names at most.
pub const HOSTS_MAX: usize = 5;
/// Addresses of each of them at most.
pub const ADDRS_MAX: usize = 8;
/// Longest that a token for any number of hosts may be good: thirty days.
pub const TTL_MAX_S: u64 = 30 * 24 * 3600;
/// Longest that one for so many hosts may be: a year.
pub const TTL_COUNTED_MAX_S: u64 = 366 * 24 * 3600;

/// A host that may lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its static key.
    pub key: HostKey,
    /// Where it receives: one address at least.
    pub addrs: Vec<SocketAddr>,
}

/// A token. Invariants: `leaders` has one at least, and [`HOSTS_MAX`] at most.
#[derive(Clone, Debug)]
pub struct Token {
    /// What it admits by.
    pub invitation: Invitation,
    /// The host that issued it, then others that may come to lead.
    pub leaders: Vec<Leader>,
}

/// How people call a token: by the beginning of its nonce, which is no secret.
pub(crate) fn id_of(nonce: &[u8; 16]) -> String {
    format!("{:08x}", u32::from_be_bytes([nonce[0], nonce[1], nonce[2], nonce[3]]))
}

impl Token {
    /// How `towpath token --list` calls it.
    pub fn id(&self) -> String {
        id_of(&self.invitation.nonce)
    }

    /// Every address that it names, those of the host that issued it first.
    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.leaders.iter().flat_map(|leader| &leader.addrs).copied().collect()
    }
}

/// Why a text is not a token.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TokenError {
    /// It does not look like one.
    #[error(
        "not a token: it must start with `{PREFIX}`\nhint: copy the whole output of `towpath token`"
    )]
    Prefix,
    /// It was cut or changed on the way.
    #[error("the token is damaged\nhint: copy the whole output of `towpath token`, on one line")]
    Damaged,
}

/// FNV-1a, to tell a mistyped token from a wrong one.
fn checksum(parts: [&[u8]; 2]) -> [u8; 4] {
    let mut h = 0x811c_9dc5_u32;
    for byte in parts.into_iter().flatten() {
        h = (h ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    h.to_le_bytes()
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Invitation { expiry_unix_s, nonce, psk } = &self.invitation;
        let mut head = Zeroizing::new(Vec::with_capacity(TEXT_MAX));
        head.extend_from_slice(&expiry_unix_s.to_le_bytes());
        head.extend_from_slice(nonce);
        head.extend_from_slice(&psk.0);
        let mut hosts = vec![self.leaders.len() as u8];
        for Leader { key, addrs } in &self.leaders {
            hosts.extend_from_slice(&key.0);
            hosts.push(addrs.len() as u8);
            for addr in addrs {
                match addr.ip() {
                    IpAddr::V4(ip) => hosts.extend([&[4][..], &ip.octets()].concat()),
                    IpAddr::V6(ip) => hosts.extend([&[6][..], &ip.octets()].concat()),
                }
                hosts.extend_from_slice(&addr.port().to_le_bytes());
            }
        }
        let sum = checksum([&head, &hosts]);
        head.extend_from_slice(&sum);
        head.extend_from_slice(&hosts);
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(&*head))
    }
}

/// What is left of a token's bytes.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    /// A number of things that follow, one at least.
    fn count(&mut self, most: usize) -> Option<usize> {
        let [count] = self.take()?;
        Some(usize::from(count)).filter(|count| (1..=most).contains(count))
    }

    fn addr(&mut self) -> Option<SocketAddr> {
        let ip: IpAddr = match self.take()? {
            [4] => Ipv4Addr::from(self.take::<4>()?).into(),
            [6] => Ipv6Addr::from(self.take::<16>()?).into(),
            _ => return None,
        };
        Some(SocketAddr::new(ip, u16::from_le_bytes(self.take()?)))
    }

    fn leader(&mut self) -> Option<Leader> {
        let key = HostKey(self.take()?);
        let count = self.count(ADDRS_MAX)?;
        let addrs: Option<Vec<SocketAddr>> = (0..count).map(|_| self.addr()).collect();
        Some(Leader { key, addrs: addrs? })
    }

    fn leaders(&mut self) -> Option<Vec<Leader>> {
        let count = self.count(HOSTS_MAX)?;
        let leaders: Option<Vec<Leader>> = (0..count).map(|_| self.leader()).collect();
        leaders.filter(|_| self.0.is_empty())
    }
}

/// The one host of a token of before: its key, then its addresses as text.
fn leader_1(key: [u8; 32], addrs: &[u8]) -> Option<Vec<Leader>> {
    let addrs = std::str::from_utf8(addrs).ok()?.split(',');
    let addrs: Result<Vec<SocketAddr>, _> = addrs.map(str::parse).collect();
    let addrs = addrs.ok().filter(|addrs| addrs.len() <= ADDRS_MAX)?;
    Some([Leader { key: HostKey(key), addrs }].into())
}

fn parse(bytes: &[u8], is_old: bool) -> Option<Token> {
    let (sum_at, end) = if is_old { FIXED_1 } else { FIXED };
    let (fixed, hosts) = bytes.split_at_checked(end)?;
    if checksum([&fixed[..sum_at], hosts]) != fixed[sum_at..] {
        return None;
    }
    let mut rest = Rest(fixed);
    let expiry_unix_s = u64::from_le_bytes(rest.take()?);
    let invitation = Invitation { expiry_unix_s, nonce: rest.take()?, psk: Psk(rest.take()?) };
    let leaders = if is_old { leader_1(rest.take()?, hosts) } else { Rest(hosts).leaders() };
    Some(Token { invitation, leaders: leaders? })
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let old = text.strip_prefix(PREFIX_1);
        let body = old.or_else(|| text.strip_prefix(PREFIX)).ok_or(TokenError::Prefix)?;
        if body.len() > TEXT_MAX {
            return Err(TokenError::Damaged);
        }
        let bytes = URL_SAFE_NO_PAD.decode(body).map_err(|_| TokenError::Damaged)?;
        let bytes = Zeroizing::new(bytes);
        parse(&bytes, old.is_some()).ok_or(TokenError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(expiry_unix_s: u64, nonce: [u8; 16], port: u16) -> Token {
        let invitation = Invitation { expiry_unix_s, nonce, psk: Psk([5; 32]) };
        let addrs = [([127, 0, 0, 1], port).into()].into();
        Token { invitation, leaders: [Leader { key: HostKey([6; 32]), addrs }].into() }
    }

    /// An address as a token carries it.
    fn addr() -> impl Strategy<Value = SocketAddr> {
        any::<(IpAddr, u16)>().prop_map(|(ip, port)| SocketAddr::new(ip, port))
    }

    proptest! {
        #[test]
        fn a_token_comes_back(expiry: u64, nonce: [u8; 16], port: u16) {
            let t = token(expiry, nonce, port);
            let back: Token = t.to_string().parse().unwrap();
            prop_assert_eq!(back.to_string(), t.to_string());
            prop_assert_eq!(back.invitation, t.invitation);
        }

        #[test]
        fn every_host_and_address_comes_back(
            hosts in proptest::collection::vec(
                (any::<[u8; 32]>(), proptest::collection::vec(addr(), 1..=ADDRS_MAX)),
                1..=HOSTS_MAX,
            ),
        ) {
            let leader = |(key, addrs)| Leader { key: HostKey(key), addrs };
            let leaders: Vec<Leader> = hosts.into_iter().map(leader).collect();
            let t = Token { leaders, ..token(9, [1; 16], 7077) };
            let text = t.to_string();
            prop_assert!(text.len() <= PREFIX.len() + TEXT_MAX);
            let back: Token = text.parse().unwrap();
            prop_assert_eq!(back.leaders, t.leaders);
        }

        #[test]
        fn any_text_is_a_token_or_an_error(text: String, bytes: Vec<u8>) {
            let _ = text.parse::<Token>();
            let _ = format!("{PREFIX}{text}").parse::<Token>();
            let _ = format!("{PREFIX_1}{text}").parse::<Token>();
            // Behind a checksum that is right.
            for (prefix, (at, _)) in [(PREFIX, FIXED), (PREFIX_1, FIXED_1)] {
                let fixed = vec![7; at];
                let sum = checksum([&fixed, &bytes]);
                let body = [&fixed[..], &sum, &bytes].concat();
                let _ = format!("{prefix}{}", URL_SAFE_NO_PAD.encode(body)).parse::<Token>();
            }
        }
    }

    #[test]
    fn a_token_of_before_is_read_as_one_with_one_host() {
        let (addrs, key) = (b"127.0.0.1:7077,[::1]:8", [6; 32]);
        let fixed = [&9_u64.to_le_bytes()[..], &[1; 16], &[5; 32], &key].concat();
        let body = [&fixed[..], &checksum([&fixed, addrs]), addrs].concat();
        let text = format!("{PREFIX_1}{}", URL_SAFE_NO_PAD.encode(body));
        let read: Token = text.parse().unwrap();
        let mut same = token(9, [1; 16], 7077);
        same.leaders[0].addrs.push(([0, 0, 0, 0, 0, 0, 0, 1], 8).into());
        assert_eq!((read.to_string(), read.id()), (same.to_string(), same.id()));
        assert_eq!(text[..90].parse::<Token>().err(), Some(TokenError::Damaged));
    }

    /// What holds a secret wipes it: this does not compile where something does not.
    #[test]
    fn secrets_are_wiped() {
        use crate::config::{ConfigError, key_file};
        use crate::daemon::Role;
        use towpath_io::RealCrypto;
        use towpath_proto::crypto::Secrets;
        use zeroize::ZeroizeOnDrop;

        fn wiped<T: ZeroizeOnDrop>() {}
        type Key = Zeroizing<[u8; 32]>;
        wiped::<Key>();
        wiped::<Psk>();
        wiped::<Secrets>();
        let _: fn(Key) -> Role = Role::Found;
        let _: fn(&std::path::Path) -> Result<Key, ConfigError> = key_file;
        let _: fn() -> Key = RealCrypto::generate_secret;
    }

    #[test]
    fn a_changed_or_cut_token_is_damaged() {
        let text = token(9, [1; 16], 7077).to_string();
        assert_eq!(text[..text.len() - 4].parse::<Token>().err(), Some(TokenError::Damaged));
        let mut changed = text.clone().into_bytes();
        changed[40] = if changed[40] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert_eq!(changed.parse::<Token>().err(), Some(TokenError::Damaged));
        assert_eq!("hello".parse::<Token>().err(), Some(TokenError::Prefix));
    }
}
