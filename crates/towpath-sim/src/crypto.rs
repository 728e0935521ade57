//! The simulator's stand-in for cryptography: a keyed hash as tag, nothing encrypted.
//!
//! It keeps the shape of the real handshake: the wrong pre-shared key, the wrong peer and changed
//! bytes are all noticed where the real one notices them.

use towpath_proto::crypto::Secrets;
use towpath_proto::{Crypto, CryptoError, Handshake, HostKey, PacketKey, Psk, Rng};

use crate::hash::Hash;

/// Stand-in cryptography of one host. Its "secret" key is its public key.
#[derive(Debug)]
pub struct StandIn {
    key: HostKey,
    rng: Rng,
}

fn digest(label: &str, parts: &[&[u8]]) -> [u8; 32] {
    let mut h = Hash::new(0x7059_6174_6877);
    h.bytes(label.as_bytes());
    for part in parts {
        h.bytes(part);
    }
    let mut out = [0; 32];
    out[..16].copy_from_slice(&h.tag());
    h.word(1);
    out[16..].copy_from_slice(&h.tag());
    out
}

fn tag(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 16] {
    let mut h = Hash::new(word(key, 0) ^ word(key, 8));
    for part in parts {
        h.bytes(part);
    }
    h.tag()
}

fn word(key: &[u8; 32], at: usize) -> u64 {
    let mut w = [0; 8];
    w.copy_from_slice(&key[at..at + 8]);
    u64::from_le_bytes(w)
}

fn random(rng: &mut Rng) -> [u8; 32] {
    let mut out = [0; 32];
    out.chunks_exact_mut(8).for_each(|c| c.copy_from_slice(&rng.u64().to_le_bytes()));
    out
}

impl StandIn {
    /// A host's stand-in, from a stream of random numbers.
    pub fn new(mut rng: Rng) -> Self {
        Self { key: HostKey(random(&mut rng)), rng }
    }
}

impl Crypto for StandIn {
    fn public_key(&self) -> HostKey {
        self.key
    }

    fn initiate(&mut self, remote: &HostKey, psk: &Psk, prologue: &[u8]) -> Box<dyn Handshake> {
        Box::new(Shake {
            own: self.key,
            remote: Some(*remote),
            psk: psk.clone(),
            initiator: true,
            ephemeral: random(&mut self.rng),
            state: digest("prologue", &[prologue]),
        })
    }

    fn respond(&mut self, prologue: &[u8]) -> Box<dyn Handshake> {
        Box::new(Shake {
            own: self.key,
            remote: None,
            psk: Psk::MEMBER,
            initiator: false,
            ephemeral: random(&mut self.rng),
            state: digest("prologue", &[prologue]),
        })
    }

    fn packet_key(&self, secret: &[u8; 32]) -> Box<dyn PacketKey> {
        Box::new(Key(word(secret, 0) ^ word(secret, 16)))
    }

    fn mac(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        tag(key, &[data])
    }

    fn derive(&self, secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
        digest("derive", &[secret, label])
    }

    fn random(&mut self) -> [u8; 32] {
        random(&mut self.rng)
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
    fn responder_key(&self) -> [u8; 32] {
        if self.initiator { self.remote.map_or([0; 32], |k| k.0) } else { self.own.0 }
    }
}

impl Handshake for Shake {
    fn write(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CryptoError> {
        let mut message = Vec::new();
        let key = if self.initiator {
            message.extend_from_slice(&self.own.0);
            digest("one", &[&self.state, &self.responder_key()])
        } else {
            digest("two", &[&self.state, &self.psk.0])
        };
        message.extend_from_slice(&self.ephemeral);
        message.extend_from_slice(payload);
        let tag = tag(&key, &[&message]);
        message.extend_from_slice(&tag);
        self.state = digest("state", &[&key, &message]);
        let out = out.get_mut(..message.len()).ok_or(CryptoError)?;
        out.copy_from_slice(&message);
        Ok(message.len())
    }

    fn read(&mut self, message: &[u8], payload: &mut [u8]) -> Result<usize, CryptoError> {
        let head = if self.initiator { 32 } else { 64 };
        if message.len() < head + 16 {
            return Err(CryptoError);
        }
        let key = if self.initiator {
            digest("two", &[&self.state, &self.psk.0])
        } else {
            digest("one", &[&self.state, &self.responder_key()])
        };
        let (body, found) = message.split_at(message.len() - 16);
        if tag(&key, &[body]) != found {
            return Err(CryptoError);
        }
        if !self.initiator {
            let mut remote = [0; 32];
            remote.copy_from_slice(&body[..32]);
            self.remote = Some(HostKey(remote));
        }
        self.state = digest("state", &[&key, message]);
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
        let (up, down) = (digest("up", &[&self.state]), digest("down", &[&self.state]));
        if self.initiator {
            Secrets { send: up, receive: down }
        } else {
            Secrets { send: down, receive: up }
        }
    }
}

struct Key(u64);

impl Key {
    fn tag(&self, nonce: [u8; 12], aad: &[u8], content: &[u8]) -> [u8; 16] {
        let mut h = Hash::new(self.0);
        h.bytes(&nonce);
        h.bytes(aad);
        h.bytes(content);
        h.tag()
    }
}

impl PacketKey for Key {
    fn seal(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) {
        let (plain, tag) = content.split_at_mut(content.len() - 16);
        tag.copy_from_slice(&self.tag(nonce, aad, plain));
    }

    fn open(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) -> Result<(), CryptoError> {
        let (plain, tag) = content.split_at(content.len() - 16);
        if self.tag(nonce, aad, plain) == tag { Ok(()) } else { Err(CryptoError) }
    }
}
