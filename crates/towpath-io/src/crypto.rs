//! Noise handshakes (`Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s`, by `snow`) and AES-256-GCM packets
//! (by AWS-LC). Keyed hashes are HMAC-SHA-256.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use towpath_proto::crypto::Secrets;
use towpath_proto::{Crypto, CryptoError, Handshake, HostKey, PacketKey, Psk, Rng};
use zeroize::Zeroizing;

const PATTERN: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";

/// Where randomness comes from.
#[derive(Clone, Debug)]
enum Entropy {
    System,
    /// For simulations only.
    Seeded(Rng),
}

impl Entropy {
    fn fill(&mut self, mut out: &mut [u8]) -> Result<(), snow::Error> {
        match self {
            Self::Seeded(rng) => {
                out.chunks_mut(8)
                    .for_each(|c| c.copy_from_slice(&rng.u64().to_le_bytes()[..c.len()]));
            }
            Self::System => {
                while !out.is_empty() {
                    let flags = rustix::rand::GetRandomFlags::empty();
                    let n =
                        rustix::rand::getrandom(&mut *out, flags).map_err(|_| snow::Error::Rng)?;
                    out = &mut out[n..];
                }
            }
        }
        Ok(())
    }

    fn draw(&mut self) -> [u8; 32] {
        let mut out = [0; 32];
        // Without randomness no key may be made: there is nothing sensible to go on with.
        self.fill(&mut out).expect("the operating system gives random bytes");
        out
    }
}

/// Random bytes from the operating system.
pub(crate) fn random() -> [u8; 32] {
    Entropy::System.draw()
}

impl Random for Entropy {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        self.fill(out)
    }
}

/// Hands `snow` our source of randomness and its own everything else.
struct Resolver(Entropy);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(self.0.clone()))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

/// A host's cryptography.
pub struct RealCrypto {
    secret: Zeroizing<[u8; 32]>,
    public: HostKey,
    entropy: Entropy,
}

impl RealCrypto {
    /// With the host's static secret key and the operating system's randomness.
    pub fn new(secret: impl Into<Zeroizing<[u8; 32]>>) -> Self {
        let secret = secret.into();
        Self { public: public_of(&secret), secret, entropy: Entropy::System }
    }

    /// A fresh static secret key.
    pub fn generate_secret() -> Zeroizing<[u8; 32]> {
        Zeroizing::new(Entropy::System.draw())
    }

    /// For simulations: key and randomness from a seed, anything but secret.
    pub fn seeded(rng: Rng) -> Self {
        let mut entropy = Entropy::Seeded(rng);
        let secret = Zeroizing::new(entropy.draw());
        Self { public: public_of(&secret), secret, entropy }
    }

    fn shake(
        &mut self,
        prologue: &[u8],
        build: impl FnOnce(Builder<'_>) -> Result<HandshakeState, snow::Error>,
    ) -> Box<dyn Handshake> {
        let entropy = match &mut self.entropy {
            Entropy::System => Entropy::System,
            Entropy::Seeded(rng) => Entropy::Seeded(Rng::new(rng.u64(), 1)),
        };
        let params = PATTERN.parse().expect("the pattern is well formed");
        let state = Builder::with_resolver(params, Box::new(Resolver(entropy)))
            .local_private_key(&*self.secret)
            .and_then(|b| b.prologue(prologue))
            .and_then(build)
            .expect("keys have the pattern's lengths");
        Box::new(Shake { state, initiator: false })
    }
}

fn public_of(secret: &[u8; 32]) -> HostKey {
    let mut dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("Curve25519 is built in");
    dh.set(secret);
    let mut key = [0; 32];
    key.copy_from_slice(dh.pubkey());
    HostKey(key)
}

/// Keyed hash of all of `data` (HMAC-SHA-256).
pub(crate) fn hmac(key: &[u8; 32], data: &[&[u8]]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut context = hmac::Context::with_key(&key);
    for part in data {
        context.update(part);
    }
    let mut out = [0; 32];
    out.copy_from_slice(context.sign().as_ref());
    out
}

impl Crypto for RealCrypto {
    fn public_key(&self) -> HostKey {
        self.public
    }

    fn initiate(&mut self, remote: &HostKey, psk: &Psk, prologue: &[u8]) -> Box<dyn Handshake> {
        self.shake(prologue, |b| b.remote_public_key(&remote.0)?.psk(2, &psk.0)?.build_initiator())
    }

    fn respond(&mut self, prologue: &[u8]) -> Box<dyn Handshake> {
        self.shake(prologue, |b| b.psk(2, &Psk::MEMBER.0)?.build_responder())
    }

    fn packet_key(&self, secret: &[u8; 32]) -> Box<dyn PacketKey> {
        let key = UnboundKey::new(&AES_256_GCM, secret).expect("AES-256 keys have 32 bytes");
        Box::new(Aes(LessSafeKey::new(key)))
    }

    fn mac(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        let mut out = [0; 16];
        out.copy_from_slice(&hmac(key, &[b"mac", data])[..16]);
        out
    }

    fn derive(&self, secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
        hmac(secret, &[b"derive", label])
    }

    fn random(&mut self) -> [u8; 32] {
        self.entropy.draw()
    }
}

struct Shake {
    state: HandshakeState,
    initiator: bool,
}

impl Handshake for Shake {
    fn write(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CryptoError> {
        self.initiator = self.state.is_initiator();
        self.state.write_message(payload, out).map_err(|_| CryptoError)
    }

    fn read(&mut self, message: &[u8], payload: &mut [u8]) -> Result<usize, CryptoError> {
        self.state.read_message(message, payload).map_err(|_| CryptoError)
    }

    fn remote_key(&self) -> Option<HostKey> {
        self.state.get_remote_static()?.try_into().ok().map(HostKey)
    }

    fn set_psk(&mut self, psk: &Psk) -> Result<(), CryptoError> {
        self.state.set_psk(2, &psk.0).map_err(|_| CryptoError)
    }

    fn split(mut self: Box<Self>) -> Secrets {
        let (up, down) = self.state.dangerously_get_raw_split();
        if self.initiator {
            Secrets { send: up, receive: down }
        } else {
            Secrets { send: down, receive: up }
        }
    }
}

struct Aes(LessSafeKey);

impl PacketKey for Aes {
    fn seal(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) {
        let (plain, tag) = content.split_at_mut(content.len() - 16);
        let nonce = Nonce::assume_unique_for_key(nonce);
        // The call that writes the tag where it belongs: a thirtieth quicker than to be given it.
        self.0
            .seal_in_place_scatter(nonce, Aad::from(aad), plain, &[], tag)
            .expect("a datagram is within what AES-GCM can seal");
    }

    fn open(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) -> Result<(), CryptoError> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0.open_in_place(nonce, Aad::from(aad), content).map(drop).map_err(|_| CryptoError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every [`Crypto`] promises; the stand-in's own tests ask the same of it.
    fn handshake(psk_i: Psk, psk_r: Psk) -> Result<(Secrets, Secrets), CryptoError> {
        let mut ours = RealCrypto::seeded(Rng::new(1, 1));
        let mut theirs = RealCrypto::seeded(Rng::new(1, 2));
        let mut initiator = ours.initiate(&theirs.public_key(), &psk_i, b"prologue");
        let mut responder = theirs.respond(b"prologue");
        let (mut message, mut payload) = ([0; 256], [0; 256]);
        let len = initiator.write(b"hello", &mut message)?;
        let payload_len = responder.read(&message[..len], &mut payload)?;
        assert_eq!(&payload[..payload_len], b"hello");
        assert_eq!(responder.remote_key(), Some(ours.public_key()));
        responder.set_psk(&psk_r)?;
        let len = responder.write(b"welcome", &mut message)?;
        initiator.read(&message[..len], &mut payload)?;
        Ok((initiator.split(), responder.split()))
    }

    #[test]
    fn both_sides_end_with_the_same_secrets_crosswise() {
        let (i, r) = handshake(Psk([3; 32]), Psk([3; 32])).unwrap();
        assert_eq!((i.send, i.receive), (r.receive, r.send));
        assert_ne!(i.send, i.receive);
    }

    #[test]
    fn the_wrong_pre_shared_key_is_noticed_by_the_initiator() {
        assert_eq!(handshake(Psk([3; 32]), Psk([4; 32])).err(), Some(CryptoError));
    }

    #[test]
    fn a_sealed_packet_opens_only_unchanged() {
        let crypto = RealCrypto::seeded(Rng::new(1, 1));
        let key = crypto.packet_key(&[9; 32]);
        let mut content = [7; 48];
        key.seal([1; 12], b"header", &mut content);
        for bit in 0..8 * content.len() {
            let mut changed = content;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(key.open([1; 12], b"header", &mut changed).is_err(), "bit {bit}");
        }
        assert!(key.open([2; 12], b"header", &mut content.clone()).is_err());
        assert!(key.open([1; 12], b"other!", &mut content.clone()).is_err());
        key.open([1; 12], b"header", &mut content).unwrap();
        assert_eq!(content[..32], [7; 32]);
    }
}
