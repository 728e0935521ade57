//! Proof of source address before costly work, without remembering who asked.

use ::core::net::{IpAddr, SocketAddr};
use ::core::time::Duration;
use alloc::collections::BTreeMap;

use towpath_wire::Instant;

use crate::crypto::Crypto;

/// A cookie is valid for one to two of these.
const LIFE: Duration = Duration::from_mins(1);

/// What was proved is counted over this time: a part of a second, so that a whole second's share
/// does not come at once.
const SPAN: Duration = Duration::from_millis(100);
/// One network may have so little of what is read of those who proved their address.
const NETWORK_PART: u32 = 4;

/// Who proved an address, and how often, in the span that began at `begun`. Invariant: `all` is the
/// sum of `by`, and no more than a span's share, so that `by` is bounded, too.
#[derive(Default)]
pub(super) struct Proved {
    begun: Instant,
    all: u32,
    by: BTreeMap<IpAddr, u32>,
}

impl Proved {
    /// Counts one more of `network`, unless there were as many as may be read at `per_s`.
    pub(super) fn takes(&mut self, now: Instant, network: IpAddr, per_s: u32) -> bool {
        if now.since(self.begun) >= SPAN {
            (self.begun, self.all) = (now, 0);
            self.by.clear();
        }
        let most = u128::from(per_s) * SPAN.as_millis() / 1000;
        let most = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        let of = self.by.get(&network).copied().unwrap_or(0);
        let fits = self.all < most && of < (most / NETWORK_PART).max(1);
        if fits {
            self.all += 1;
            self.by.insert(network, of + 1);
        }
        fits
    }
}

/// Counts handshakes and makes cookies. Invariant: `count` is of the second that began at
/// `second`.
pub(super) struct CookieJar {
    secret: [u8; 32],
    previous: [u8; 32],
    renewed: Instant,
    second: Instant,
    count: u32,
    pub(super) proved: Proved,
}

impl CookieJar {
    pub(super) fn new(crypto: &mut dyn Crypto) -> Self {
        Self {
            secret: crypto.random(),
            previous: crypto.random(),
            renewed: Instant::ZERO,
            second: Instant::ZERO,
            count: 0,
            proved: Proved::default(),
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
