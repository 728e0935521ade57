//! Noise handshakes (`Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s`, by `snow`) and AES-256-GCM packets
//! (by AWS-LC). Keyed hashes are HMAC-SHA-256.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use towpath_proto::coding::Kernel;
use towpath_proto::crypto::Secrets;
use towpath_proto::{Crypto, CryptoError, Handshake, HostKey, PacketKey, Psk, Rng};
use zeroize::Zeroizing;

const PATTERN: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
/// Of streams between tasks.
const PATTERN_DIRECT: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

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

/// A handshake of two that know no key of each other but this one, which both hold: what it ends
/// with is made of keys that are forgotten. `prologue` is bound into it.
pub(crate) fn shake_without_statics(
    psk: &[u8; 32],
    prologue: &[u8],
    initiates: bool,
) -> HandshakeState {
    let params = PATTERN_DIRECT.parse().expect("the pattern is well formed");
    let builder = Builder::with_resolver(params, Box::new(Resolver(Entropy::System)))
        .prologue(prologue)
        .and_then(|b| b.psk(0, psk));
    let state =
        builder.and_then(|b| if initiates { b.build_initiator() } else { b.build_responder() });
    state.expect("keys have the pattern's lengths")
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

    fn coding(&self) -> &'static dyn Kernel {
        crate::coding::best()
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
    fn handshake(psk_i: &Psk, psk_r: &Psk) -> Result<(Secrets, Secrets), CryptoError> {
        let mut ours = RealCrypto::seeded(Rng::new(1, 1));
        let mut theirs = RealCrypto::seeded(Rng::new(1, 2));
        let mut initiator = ours.initiate(&theirs.public_key(), psk_i, b"prologue");
        let mut responder = theirs.respond(b"prologue");
        let (mut message, mut payload) = ([0; 256], [0; 256]);
        let len = initiator.write(b"hello", &mut message)?;
        let payload_len = responder.read(&message[..len], &mut payload)?;
        assert_eq!(&payload[..payload_len], b"hello");
        assert_eq!(responder.remote_key(), Some(ours.public_key()));
        responder.set_psk(psk_r)?;
        let len = responder.write(b"welcome", &mut message)?;
        initiator.read(&message[..len], &mut payload)?;
        Ok((initiator.split(), responder.split()))
    }

    #[test]
    fn both_sides_end_with_the_same_secrets_crosswise() {
        let (i, r) = handshake(&Psk([3; 32]), &Psk([3; 32])).unwrap();
        assert_eq!((i.send, i.receive), (r.receive, r.send));
        assert_ne!(i.send, i.receive);
    }

    #[test]
    fn the_wrong_pre_shared_key_is_noticed_by_the_initiator() {
        assert_eq!(handshake(&Psk([3; 32]), &Psk([4; 32])).err(), Some(CryptoError));
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

    fn hex(bytes: &[u8]) -> String {
        use std::fmt::Write;
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// 0, 1, 2 to 31.
    fn secret() -> [u8; 32] {
        core::array::from_fn(|i| i as u8)
    }

    /// What other builds and other programs make of the same: computed with Python's `hmac` and
    /// `cryptography`. A change of any of these is a change of the wire version.
    #[test]
    fn keyed_hashes_and_derived_secrets_are_what_they_always_were() {
        let crypto = RealCrypto::new(secret());
        assert_eq!(
            hex(&crypto.public_key().0),
            "8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f"
        );
        assert_eq!(hex(&crypto.mac(&secret(), b"datagram")), "b3b4d1baf4d87d09e4ef0d0e478a76de");
        for (label, derived) in [
            ("towpath key", "f0aad36aa4bf9e7060843dd21c8239f4c9fa819e9ee5c2bf4bceffae43820feb"),
            ("towpath epoch", "6d61db8e59031fc35bd67d7111c8feb487d475f42ff065bcd73c35f9ff94592c"),
            ("towpath mac1", "dd2efd3e21adb41446a2b48631884581242ca05084cae6aae041e943d225af61"),
        ] {
            assert_eq!(hex(&crypto.derive(&secret(), label.as_bytes())), derived, "{label}");
        }
        assert_eq!(
            hex(&hmac(&secret(), &[b"da", b"", b"ta"])),
            hex(&hmac(&secret(), &[b"data"])),
            "parts are one behind the other"
        );
    }

    /// The same of a whole packet: header in clear and authenticated, path and number as the
    /// nonce, the key derived from a secret.
    #[test]
    fn a_sealed_packet_is_what_it_always_was() {
        use towpath_proto::machine::{TxBatch, nonce};
        use towpath_proto::{HeapMemory, Memory};
        use towpath_wire::packet::Data;
        use towpath_wire::{ByteSize, PathId};

        let mut memory = HeapMemory::new(ByteSize::from_kib(1));
        let block = memory.put(b"towpath").expect("there is room");
        let crypto = RealCrypto::new(secret());
        let key = crypto.packet_key(&crypto.derive(&secret(), b"towpath key"));
        let (path, number) = (PathId(3), 0x05_0607_0809);
        let header = Data { epoch: 1, path, receiver: 0x0102_0304, number };
        let mut train = [0; 100];
        let mut batch = TxBatch::new(&mut train, &memory, 1);
        let mut packet = batch.packet(100, true);
        packet.body(block, 0, 7);
        let len = packet.seal(&*key, header);
        assert_eq!(
            hex(&train[..len]),
            "04010300040302010908070605000000cc58523b704178d44bef0a7bddf52b5c0cf64bed21831d"
        );
        let (header, content) = train[..len].split_at_mut(16);
        key.open(nonce(path, number), header, content).expect("it is unchanged");
        assert_eq!(&content[..7], b"towpath");
        assert_eq!(nonce(path, number), [0, 0, 0, 3, 0, 0, 0, 5, 6, 7, 8, 9]);
    }

    /// Test case 16 of `McGrew` and Viega's specification of GCM.
    #[test]
    fn packet_keys_are_aes_256_gcm() {
        let half = [
            0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c, 0x6d, 0x6a, 0x8f, 0x94, 0x67, 0x30,
            0x83, 0x08,
        ];
        let key = RealCrypto::new([1; 32]).packet_key(&core::array::from_fn(|i| half[i % 16]));
        let bytes = |text: &str| -> Vec<u8> {
            let digits = text.as_bytes().chunks(2);
            let byte = |d: &[u8]| u8::from_str_radix(str::from_utf8(d).expect("digits"), 16);
            digits.map(|d| byte(d).expect("hexadecimal")).collect()
        };
        let nonce = bytes("cafebabefacedbaddecaf888").try_into().expect("twelve bytes");
        let aad = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let mut content = bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532f\
             cf0e2449a6b525b16aedf5aa0de657ba637b39",
        );
        content.extend([0; 16]);
        key.seal(nonce, &aad, &mut content);
        assert_eq!(
            hex(&content),
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7\
             b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"
        );
    }

    #[test]
    fn what_is_random_does_not_repeat() {
        let mut crypto = RealCrypto::new([1; 32]);
        assert_ne!(crypto.random(), crypto.random());
        assert_ne!(RealCrypto::generate_secret(), RealCrypto::generate_secret());
        let mut seeded = [0; 2].map(|_| RealCrypto::seeded(Rng::new(5, 1)).random());
        assert_eq!(seeded[0], seeded[1], "a simulation draws the same again");
        seeded[0] = [0; 32];
        assert_ne!(seeded[0], seeded[1]);
    }
}
