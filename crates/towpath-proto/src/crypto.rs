//! What a driver supplies for handshake and sealing.
//!
//! The pattern is Noise `IKpsk2`: the initiator knows the responder's static key (from the host
//! table or from a token), both prove theirs, and a pre-shared key admits a newcomer: it is
//! zero between members, whose keys stand in the host table, and derived from the VM key and
//! the token's clear fields for a newcomer. Deleting a host's key from the table is therefore
//! enough to shut it out.

use alloc::boxed::Box;

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

/// A pre-shared key. Not printable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Psk(pub [u8; 32]);

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

    /// Keyed hash of `data`.
    fn mac(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16];

    /// A secret derived one-way from another, by label.
    fn derive(&self, secret: &[u8; 32], label: &[u8]) -> [u8; 32];

    /// Unpredictable bytes (predictable in a simulation).
    fn random(&mut self) -> [u8; 32];
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
/// derived from these with [`Crypto::derive`].
pub struct Secrets {
    /// Seals what we send.
    pub send: [u8; 32],
    /// Opens what we receive.
    pub receive: [u8; 32],
}

/// Seals and opens packets of one direction and epoch.
pub trait PacketKey: Send {
    /// Seals in place: the last 16 bytes of `content` receive the tag.
    fn seal(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]);

    /// Opens in place; the plaintext is all but the last 16 bytes of `content`.
    fn open(&self, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) -> Result<(), CryptoError>;
}
