//! What a newcomer is given to join: where the leader is, its key, and a secret of its own.
//!
//! ```text
//! "tow1-" base64url of:
//!   0..8 expiry (unix s) | 8..24 nonce | 24..56 pre-shared key | 56..88 leader's static key
//!   88..92 checksum over everything else | 92.. leader's addresses as text,
//!   a comma between two
//! ```
//! The secret is derived from the VM key, expiry and nonce; it does not give the VM key away.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use towpath_node::{Invitation, JoinTarget};
use towpath_proto::{HostKey, Psk};
use zeroize::Zeroizing;

const PREFIX: &str = "tow1-";
const FIXED: usize = 92;
/// Longest token text accepted.
const TEXT_MAX: usize = 1024;
/// Longest that a token for any number of hosts may be good: thirty days.
pub const TTL_MAX_S: u64 = 30 * 24 * 3600;
/// Longest that one for so many hosts may be: a year.
pub const TTL_COUNTED_MAX_S: u64 = 366 * 24 * 3600;

/// A token; with the other addresses where the leader receives, if there are any.
#[derive(Clone, Debug)]
pub struct Token(pub JoinTarget, pub Vec<SocketAddr>);

/// How people call a token: by the beginning of its nonce, which is no secret.
pub(crate) fn id_of(nonce: &[u8; 16]) -> String {
    format!("{:08x}", u32::from_be_bytes([nonce[0], nonce[1], nonce[2], nonce[3]]))
}

impl Token {
    /// How `towpath token --list` calls it.
    pub fn id(&self) -> String {
        id_of(&self.0.invitation.nonce)
    }

    /// Every address of the leader, its first one first.
    pub fn addrs(&self) -> Vec<SocketAddr> {
        [&[self.0.addr], &self.1[..]].concat()
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
        let JoinTarget { addr, key, invitation } = &self.0;
        let mut head = Zeroizing::new(Vec::with_capacity(TEXT_MAX));
        head.extend_from_slice(&invitation.expiry_unix_s.to_le_bytes());
        head.extend_from_slice(&invitation.nonce);
        head.extend_from_slice(&invitation.psk.0);
        head.extend_from_slice(&key.0);
        let others = self.1.iter().map(|other| format!(",{other}"));
        let addrs = addr.to_string() + &others.collect::<String>();
        let sum = checksum([&head, addrs.as_bytes()]);
        head.extend_from_slice(&sum);
        head.extend_from_slice(addrs.as_bytes());
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(&*head))
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let body = text.strip_prefix(PREFIX).ok_or(TokenError::Prefix)?;
        if body.len() > TEXT_MAX {
            return Err(TokenError::Damaged);
        }
        let bytes = URL_SAFE_NO_PAD.decode(body).map_err(|_| TokenError::Damaged)?;
        let bytes = Zeroizing::new(bytes);
        let (fixed, addrs) = bytes.split_at_checked(FIXED).ok_or(TokenError::Damaged)?;
        if checksum([&fixed[..88], addrs]) != fixed[88..] {
            return Err(TokenError::Damaged);
        }
        let field = |at: usize| -> [u8; 32] {
            let mut out = [0; 32];
            out.copy_from_slice(&fixed[at..at + 32]);
            out
        };
        let (mut expiry, mut nonce) = ([0; 8], [0; 16]);
        expiry.copy_from_slice(&fixed[..8]);
        nonce.copy_from_slice(&fixed[8..24]);
        let addrs = std::str::from_utf8(addrs).map_err(|_| TokenError::Damaged)?.split(',');
        let addrs: Result<Vec<SocketAddr>, _> = addrs.map(str::parse).collect();
        let mut others = addrs.map_err(|_| TokenError::Damaged)?;
        let addr = others.remove(0);
        let expiry_unix_s = u64::from_le_bytes(expiry);
        let invitation = Invitation { expiry_unix_s, nonce, psk: Psk(field(24)) };
        Ok(Self(JoinTarget { addr, key: HostKey(field(56)), invitation }, others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(expiry_unix_s: u64, nonce: [u8; 16], port: u16) -> Token {
        let invitation = Invitation { expiry_unix_s, nonce, psk: Psk([5; 32]) };
        let addr = ([127, 0, 0, 1], port).into();
        Token(JoinTarget { addr, key: HostKey([6; 32]), invitation }, Vec::new())
    }

    proptest! {
        #[test]
        fn a_token_comes_back(expiry: u64, nonce: [u8; 16], port: u16) {
            let t = token(expiry, nonce, port);
            let back: Token = t.to_string().parse().unwrap();
            prop_assert_eq!(back.to_string(), t.to_string());
            prop_assert_eq!(back.0.invitation, t.0.invitation);
        }

        #[test]
        fn every_address_comes_back(addrs in proptest::collection::vec(any::<SocketAddr>(), 1..9)) {
            let mut t = token(9, [1; 16], 7077);
            (t.0.addr, t.1) = (addrs[0], addrs[1..].to_vec());
            let back: Token = t.to_string().parse().unwrap();
            let plain = |a: &SocketAddr| (a.ip(), a.port());
            prop_assert!(back.addrs().iter().map(plain).eq(addrs.iter().map(plain)));
        }

        #[test]
        fn any_text_is_a_token_or_an_error(text: String) {
            let _ = text.parse::<Token>();
            let _ = format!("{PREFIX}{text}").parse::<Token>();
        }
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
