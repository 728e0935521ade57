//! Cryptography that proves who speaks and hides nothing: a keyed hash as tag.

use alloc::boxed::Box;
use alloc::vec::Vec;

use towpath_proto::crypto::{CryptoError, Handshake, HeaderKey, PacketKey, Secrets};
use towpath_proto::{Crypto, HostKey, Psk, Rng};

/// One host's. Its "secret" key is its public key.
pub(super) struct StandIn {
    key: HostKey,
    rng: Rng,
}

/// A hash of all parts under a key: FNV-1a, four times with different beginnings.
fn digest(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut out = [0; 32];
    for (i, lane) in out.chunks_exact_mut(8).enumerate() {
        let mut hash = 0xcbf2_9ce4_8422_2325 ^ ((i as u64) << 56);
        for byte in key.iter().chain(parts.iter().copied().flatten()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        lane.copy_from_slice(&hash.to_le_bytes());
    }
    out
}

fn tag(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 16] {
    let whole = digest(key, parts);
    core::array::from_fn(|i| whole[i])
}

impl StandIn {
    pub(super) fn new(seed: u64) -> Self {
        let mut crypto = Self { key: HostKey([0; 32]), rng: Rng::new(seed, 7) };
        crypto.key = HostKey(crypto.random());
        crypto
    }

    fn shake(&mut self, remote: Option<HostKey>, psk: Psk, prologue: &[u8]) -> Box<Shake> {
        let initiator = remote.is_some();
        let state = digest(&[0; 32], &[prologue]);
        let ephemeral = self.random();
        Box::new(Shake { own: self.key, remote, psk, initiator, ephemeral, state })
    }
}

impl Crypto for StandIn {
    fn public_key(&self) -> HostKey {
        self.key
    }

    fn initiate(&mut self, remote: &HostKey, psk: &Psk, prologue: &[u8]) -> Box<dyn Handshake> {
        self.shake(Some(*remote), psk.clone(), prologue)
    }

    fn respond(&mut self, prologue: &[u8]) -> Box<dyn Handshake> {
        self.shake(None, Psk::MEMBER, prologue)
    }

    fn packet_key(&self, secret: &[u8; 32]) -> Box<dyn PacketKey> {
        Box::new(Key(HeaderKey::new(secret)))
    }

    fn mac(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        tag(key, &[b"mac", data])
    }

    fn derive(&self, secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
        digest(secret, &[b"derive", label])
    }

    fn random(&mut self) -> [u8; 32] {
        let words: [[u8; 8]; 4] = core::array::from_fn(|_| self.rng.u64().to_le_bytes());
        core::array::from_fn(|i| words[i / 8][i % 8])
    }
}

/// Message 1: static key 32 | ephemeral 32 | payload | tag.
/// Message 2: ephemeral 32 | payload | tag.
struct Shake {
    own: HostKey,
    remote: Option<HostKey>,
    psk: Psk,
    initiator: bool,
    ephemeral: [u8; 32],
    state: [u8; 32],
}

impl Shake {
    /// What the tag of a message is made with: the first with the responder's key, the second
    /// with the pre-shared one.
    fn key(&self, first: bool) -> [u8; 32] {
        let responder =
            if self.initiator { self.remote.map_or([0; 32], |k| k.0) } else { self.own.0 };
        digest(&self.state, &[if first { &responder } else { &self.psk.0 }])
    }
}

impl Handshake for Shake {
    fn write(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CryptoError> {
        let mut message = Vec::new();
        if self.initiator {
            message.extend_from_slice(&self.own.0);
        }
        message.extend_from_slice(&self.ephemeral);
        message.extend_from_slice(payload);
        let key = self.key(self.initiator);
        message.extend_from_slice(&tag(&key, &[&message]));
        self.state = digest(&key, &[&message]);
        out.get_mut(..message.len()).ok_or(CryptoError)?.copy_from_slice(&message);
        Ok(message.len())
    }

    fn read(&mut self, message: &[u8], payload: &mut [u8]) -> Result<usize, CryptoError> {
        let head = if self.initiator { 32 } else { 64 };
        let key = self.key(!self.initiator);
        let body = message.len().checked_sub(16).filter(|body| *body >= head);
        let (body, found) = message.split_at(body.ok_or(CryptoError)?);
        if tag(&key, &[body]) != found {
            return Err(CryptoError);
        }
        if !self.initiator {
            self.remote = Some(HostKey(core::array::from_fn(|i| body[i])));
        }
        self.state = digest(&key, &[message]);
        let content = &body[head..];
        payload.get_mut(..content.len()).ok_or(CryptoError)?.copy_from_slice(content);
        Ok(content.len())
    }

    fn remote_key(&self) -> Option<HostKey> {
        self.remote
    }

    fn set_psk(&mut self, psk: &Psk) -> Result<(), CryptoError> {
        self.psk = psk.clone();
        Ok(())
    }

    fn split(self: Box<Self>) -> Secrets {
        let (up, down) = (digest(&self.state, &[b"up"]), digest(&self.state, &[b"down"]));
        if self.initiator {
            Secrets { send: up, receive: down }
        } else {
            Secrets { send: down, receive: up }
        }
    }
}

/// Tells packets from those of others, by their headers: quick, and enough where nobody changes
/// any.
struct Key(HeaderKey);

impl PacketKey for Key {
    fn seal(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) {
        self.0.seal(nonce, aad, content);
    }

    fn open(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) -> Result<(), CryptoError> {
        self.0.open(nonce, aad, content)
    }
}
