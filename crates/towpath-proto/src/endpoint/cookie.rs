//! Proof of source address before costly work, without remembering who asked.

use ::core::net::{IpAddr, SocketAddr};
use ::core::time::Duration;

use towpath_wire::Instant;

use crate::crypto::Crypto;

/// A cookie is valid for one to two of these.
const LIFE: Duration = Duration::from_mins(1);

/// Counts handshakes and makes cookies. Invariant: `count` is of the second that began at
/// `second`.
pub(super) struct CookieJar {
    secret: [u8; 32],
    previous: [u8; 32],
    renewed: Instant,
    second: Instant,
    count: u32,
}

impl CookieJar {
    pub(super) fn new(crypto: &mut dyn Crypto) -> Self {
        Self {
            secret: crypto.random(),
            previous: crypto.random(),
            renewed: Instant::ZERO,
            second: Instant::ZERO,
            count: 0,
        }
    }

    /// Counts one more handshake; true when it is beyond `limit` in this second.
    pub(super) fn busy(&mut self, now: Instant, limit: u32) -> bool {
        if now.since(self.second) >= Duration::from_secs(1) {
            (self.second, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count > limit
    }

    /// The cookie of an address.
    pub(super) fn bake(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        crypto: &mut dyn Crypto,
    ) -> [u8; 16] {
        if now.since(self.renewed) >= LIFE {
            self.previous = self.secret;
            self.secret = crypto.random();
            self.renewed = now;
        }
        address_mac(crypto, &self.secret, remote)
    }

    /// True when `mac2` over `covered` was made with a cookie of this address.
    pub(super) fn proves(
        &self,
        remote: SocketAddr,
        covered: &[u8],
        mac2: &[u8; 16],
        crypto: &dyn Crypto,
    ) -> bool {
        [&self.secret, &self.previous].iter().any(|secret| {
            let cookie = address_mac(crypto, secret, remote);
            crypto.mac(&cookie_key(&cookie), covered) == *mac2
        })
    }
}

/// The key that a cookie stands for.
pub(super) fn cookie_key(cookie: &[u8; 16]) -> [u8; 32] {
    let mut key = [0; 32];
    key[..16].copy_from_slice(cookie);
    key
}

fn address_mac(crypto: &dyn Crypto, secret: &[u8; 32], remote: SocketAddr) -> [u8; 16] {
    let mut bytes = [0; 18];
    match remote.ip() {
        IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes[..16].copy_from_slice(&ip.octets()),
    }
    bytes[16..].copy_from_slice(&remote.port().to_le_bytes());
    crypto.mac(secret, &bytes)
}
