//! Cryptography that is looked at: no key may seal two packets under one nonce (RFC 5116 §3.1;
//! with AES-GCM one repeat gives away the key that authenticates).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use towpath_proto::{Crypto, CryptoError, Handshake, HostKey, PacketKey, Psk};

/// How often a nonce was used again, by any host of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Reused(Arc<AtomicU64>);

impl Reused {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A host's cryptography, whose packet keys are looked at.
pub(super) struct Watched {
    pub(super) inner: Box<dyn Crypto>,
    pub(super) reused: Reused,
}

impl Crypto for Watched {
    fn public_key(&self) -> HostKey {
        self.inner.public_key()
    }

    fn initiate(&mut self, remote: &HostKey, psk: &Psk, prologue: &[u8]) -> Box<dyn Handshake> {
        self.inner.initiate(remote, psk, prologue)
    }

    fn respond(&mut self, prologue: &[u8]) -> Box<dyn Handshake> {
        self.inner.respond(prologue)
    }

    fn packet_key(&self, secret: &[u8; 32]) -> Box<dyn PacketKey> {
        let (key, reused) = (self.inner.packet_key(secret), self.reused.clone());
        Box::new(WatchedKey { key, reused, last: RefCell::default() })
    }

    fn header_key(&self, secret: &[u8; 32]) -> Box<dyn PacketKey> {
        self.inner.header_key(secret)
    }

    fn mac(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        self.inner.mac(key, data)
    }

    fn derive(&self, secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
        self.inner.derive(secret, label)
    }

    fn random(&mut self) -> [u8; 32] {
        self.inner.random()
    }
}

struct WatchedKey {
    key: Box<dyn PacketKey>,
    reused: Reused,
    /// By path, the first 32 bits of a nonce: the highest number sealed.
    last: RefCell<BTreeMap<[u8; 4], [u8; 8]>>,
}

impl PacketKey for WatchedKey {
    fn seal(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) {
        let (path, number) = nonce.split_at(4);
        let path = path.try_into().expect("four bytes");
        let number: [u8; 8] = number.try_into().expect("eight bytes");
        // Packets are numbered as they are sealed, so that none but a higher number is new.
        let before = self.last.borrow_mut().insert(path, number);
        if before.is_some_and(|before| before >= number) {
            self.reused.0.fetch_add(1, Ordering::Relaxed);
        }
        self.key.seal(nonce, aad, content);
    }

    fn open(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) -> Result<(), CryptoError> {
        self.key.open(nonce, aad, content)
    }

    fn seals(&self) -> bool {
        self.key.seals()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath_proto::Rng;

    #[test]
    fn a_nonce_used_again_is_counted_by_key_and_path() {
        let inner = crate::swarm::stand_in(Rng::new(1, 1));
        let watched = Watched { inner, reused: Reused::default() };
        let seal = |key: &dyn PacketKey, path: u8, number: u8| {
            let mut nonce = [0; 12];
            (nonce[3], nonce[11]) = (path, number);
            key.seal(nonce, b"", &mut [0; 20]);
        };
        let (a, b) = (watched.packet_key(&[1; 32]), watched.packet_key(&[2; 32]));
        for (key, path, number) in [(&a, 0, 1), (&a, 0, 2), (&a, 1, 1), (&b, 0, 1)] {
            seal(&**key, path, number);
        }
        assert_eq!(watched.reused.count(), 0);
        seal(&*a, 0, 2);
        assert_eq!(watched.reused.count(), 1);
        let trusted = watched.header_key(&[1; 32]);
        assert!(a.seals() && !trusted.seals(), "a trusted link's stays what it is");
    }
}
