//! What a driver supplies for handshake and sealing.
//!
//! The pattern is Noise `IKpsk2`: the initiator knows the responder's static key (from the host
//! table or from a token), both prove theirs, and a pre-shared key admits a newcomer: it is
//! zero between members, whose keys stand in the host table, and derived from the VM key and
//! the token's clear fields for a newcomer. Deleting a host's key from the table is therefore
//! enough to shut it out.

use alloc::boxed::Box;

use siphasher::sip::SipHasher13;
use towpath_wire::packet::DATA_HEADER;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::coding::{Kernel, PLAIN};

/// A host's static public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostKey(pub [u8; 32]);

impl core::fmt::Debug for HostKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for byte in &self.0[..4] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("..")
    }
}

/// A pre-shared key. Not printable; wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Psk(pub [u8; 32]);

impl Drop for Psk {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Psk {}

impl Psk {
    /// Between hosts of the host table.
    pub const MEMBER: Self = Self([0; 32]);
}

impl core::fmt::Debug for Psk {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Psk(..)")
    }
}

/// Bytes did not authenticate, or a handshake message did not belong.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("does not authenticate")]
pub struct CryptoError;

/// A host's cryptography: its static key, handshakes, keyed hashes, randomness.
pub trait Crypto {
    /// Our own static public key.
    fn public_key(&self) -> HostKey;

    /// Starts a handshake towards the holder of `remote`. `prologue` is bound into it.
    fn initiate(&mut self, remote: &HostKey, psk: &Psk, prologue: &[u8]) -> Box<dyn Handshake>;

    /// Starts answering a handshake. The pre-shared key is set later, once the first message
    /// told who asks.
    fn respond(&mut self, prologue: &[u8]) -> Box<dyn Handshake>;

    /// Makes a packet key from a secret.
    fn packet_key(&self, secret: &[u8; 32]) -> Box<dyn PacketKey>;

    /// Makes the key of a trusted link from a secret: packets are neither hidden nor protected
    /// against change, only told from stray ones. See [`HeaderKey`].
    fn header_key(&self, secret: &[u8; 32]) -> Box<dyn PacketKey> {
        Box::new(HeaderKey::new(secret))
    }

    /// Keyed hash of `data`.
    fn mac(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16];

    /// A secret derived one-way from another, by label.
    fn derive(&self, secret: &[u8; 32], label: &[u8]) -> [u8; 32];

    /// Unpredictable bytes (predictable in a simulation).
    fn random(&mut self) -> [u8; 32];

    /// What adds multiples of bytes for coding across paths: no secret of it, but the other thing
    /// that a driver may let the processor do.
    fn coding(&self) -> &'static dyn Kernel {
        &PLAIN
    }
}

/// A handshake under way: message 1 from the initiator, message 2 from the responder.
pub trait Handshake {
    /// Writes our next message with `payload` sealed in it; returns its length.
    fn write(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CryptoError>;

    /// Reads the peer's next message; returns the length of the payload it held.
    fn read(&mut self, message: &[u8], payload: &mut [u8]) -> Result<usize, CryptoError>;

    /// The peer's static key, once known.
    fn remote_key(&self) -> Option<HostKey>;

    /// Sets the pre-shared key (responder, before it writes).
    fn set_psk(&mut self, psk: &Psk) -> Result<(), CryptoError>;

    /// The secrets of both directions, once both messages have passed.
    fn split(self: Box<Self>) -> Secrets;
}

/// What a finished handshake leaves. Further secrets (key epochs, keys of direct routes) are
/// derived from these with [`Crypto::derive`]. Wiped when dropped.
pub struct Secrets {
    /// Seals what we send.
    pub send: [u8; 32],
    /// Opens what we receive.
    pub receive: [u8; 32],
}

impl Drop for Secrets {
    fn drop(&mut self) {
        self.send.zeroize();
        self.receive.zeroize();
    }
}

impl ZeroizeOnDrop for Secrets {}

/// Seals and opens packets of one direction and epoch.
pub trait PacketKey: Send {
    /// Seals in place: the last 16 bytes of `content` receive the tag.
    fn seal(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]);

    /// Opens in place; the plaintext is all but the last 16 bytes of `content`.
    fn open(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) -> Result<(), CryptoError>;

    /// True when content is hidden and protected against change.
    fn seals(&self) -> bool {
        true
    }
}

/// The packet key of a trusted link: the tag is a keyed 64-bit hash (SipHash-1-3: it need only
/// tell strays) of nonce, header and the content's length, followed by zeros. The content itself
/// goes out in clear and is covered by nothing but UDP's checksum; whoever can write to the link
/// can change it. Datagrams of other associations, other numbers or other lengths do not pass.
pub struct HeaderKey(SipHasher13);

impl HeaderKey {
    /// From a secret.
    pub fn new(secret: &[u8; 32]) -> Self {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&secret[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        Self(SipHasher13::new_with_keys(word(0), word(8)))
    }

    fn tag(&self, nonce: [u8; 12], aad: &[u8], content: usize) -> [u8; 16] {
        // In one go: a hash of a few words costs as much as three calls that add to it. Each word
        // is read as it was written: else the processor would wait for the writing to end.
        let mut bytes = [0; 16 + DATA_HEADER];
        bytes[..8].copy_from_slice(&nonce[4..]);
        bytes[8..12].copy_from_slice(&nonce[..4]);
        bytes[12..16].copy_from_slice(&(content as u32).to_le_bytes());
        assert!(aad.len() <= DATA_HEADER, "a header of {} bytes", aad.len());
        bytes[16..16 + aad.len()].copy_from_slice(aad);
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&self.0.hash(&bytes).to_le_bytes());
        tag
    }
}

impl PacketKey for HeaderKey {
    fn seal(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) {
        let len = content.len();
        content[len - 16..].copy_from_slice(&self.tag(nonce, aad, len));
    }

    fn open(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) -> Result<(), CryptoError> {
        let Some(at) = content.len().checked_sub(16) else { return Err(CryptoError) };
        // The hash protects nothing that is worth timing.
        if content[at..] == self.tag(nonce, aad, content.len()) { Ok(()) } else { Err(CryptoError) }
    }

    fn seals(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By an implementation of SipHash-1-3 of its own, over nonce, length and header: two builds
    /// must agree on it.
    #[test]
    fn the_tag_of_a_known_header_is_what_it_always_was() {
        let key = HeaderKey::new(&core::array::from_fn(|i| i as u8));
        let aad: [u8; DATA_HEADER] = core::array::from_fn(|i| 200 + i as u8);
        let mut content = [0; 40];
        key.seal(core::array::from_fn(|i| 100 + i as u8), &aad, &mut content);
        let tag = 0x6c5c_71b5_f8b1_70bc_u64.to_le_bytes();
        assert_eq!((&content[24..32], &content[32..]), (&tag[..], &[0; 8][..]));
    }

    #[test]
    fn a_header_key_opens_what_it_sealed_and_refuses_strays() {
        let (ours, other) = (HeaderKey::new(&[1; 32]), HeaderKey::new(&[2; 32]));
        let mut content = [7; 48];
        ours.seal([1; 12], b"header", &mut content);
        assert_eq!(content[..32], [7; 32]);
        assert!(!ours.seals());
        ours.open([1; 12], b"header", &mut content).unwrap();
        assert!(other.open([1; 12], b"header", &mut content).is_err());
        assert!(ours.open([2; 12], b"header", &mut content).is_err());
        assert!(ours.open([1; 12], b"Header", &mut content).is_err());
        assert!(ours.open([1; 12], b"header", &mut content[1..]).is_err());
        assert!(ours.open([1; 12], b"header", &mut []).is_err());
        for bit in 8 * 32..8 * 48 {
            let mut changed = content;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(ours.open([1; 12], b"header", &mut changed).is_err(), "tag bit {bit}");
        }
    }
}
