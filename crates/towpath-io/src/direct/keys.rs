//! Keys of one connection, and how records are sealed with them.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use towpath_proto::PacketKey;
use towpath_proto::crypto::HeaderKey;
use towpath_wire::TaskId;
use zeroize::Zeroize;

use super::record::{HEAD_LEN, TAG_LEN};
use crate::crypto::hmac;

/// What two tasks need to find each other: told to both by their daemons. The key was made by one
/// of them and came over their association; it may be the same when the two connect again. It
/// proves the two to each other, and seals nothing. Wiped when dropped.
#[derive(Clone)]
pub struct Offer {
    /// This task.
    pub me: TaskId,
    /// The other.
    pub peer: TaskId,
    /// What both know, and nobody else.
    pub key: [u8; 32],
    /// False where the operator declared the link as trusted: records then go out in clear, with
    /// a tag that tells strays but does not protect the content. Both sides must say the same.
    pub sealed: bool,
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { me, peer, sealed, .. } = self;
        write!(f, "Offer({me:?} with {peer:?}, sealed: {sealed})")
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// A record did not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unsealed;

/// Seals or opens the records of one direction of one connection.
///
/// **Invariant:** the nonce is the record's number on its connection, and the key is of that
/// connection's handshake; no nonce is used twice with one key, however often two tasks connect.
pub(super) enum RecordKey {
    /// AES-256-GCM.
    Sealed(Box<LessSafeKey>),
    /// A tag over number, head and length.
    Clear(HeaderKey),
}

impl RecordKey {
    /// From one direction's secret of the handshake.
    pub(super) fn derive(secret: &[u8; 32], sealed: bool) -> Self {
        let mut secret = hmac(secret, &[b"towpath direct records"]);
        let made = if sealed {
            let key = UnboundKey::new(&AES_256_GCM, &secret).expect("AES-256 keys have 32 bytes");
            Self::Sealed(Box::new(LessSafeKey::new(key)))
        } else {
            Self::Clear(HeaderKey::new(&secret))
        };
        secret.zeroize();
        made
    }

    fn nonce(number: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_le_bytes());
        nonce
    }

    /// Seals record `number`. `content` is plain text in place, room for `extra`, which is sealed
    /// straight from where it is, and room for the tag.
    pub(super) fn seal(&self, number: u64, head: [u8; HEAD_LEN], content: &mut [u8], extra: &[u8]) {
        let nonce = Self::nonce(number);
        let plain_len = content.len() - TAG_LEN - extra.len();
        match self {
            Self::Sealed(key) => {
                let (plain, rest) = content.split_at_mut(plain_len);
                let nonce = Nonce::assume_unique_for_key(nonce);
                key.seal_in_place_scatter(nonce, Aad::from(head), plain, extra, rest)
                    .expect("a record is within what AES-GCM can seal");
            }
            Self::Clear(key) => {
                content[plain_len..][..extra.len()].copy_from_slice(extra);
                key.seal(nonce, &head, content);
            }
        }
    }

    /// Opens record `number` in place; the plain text is all but the tag.
    pub(super) fn open(
        &self,
        number: u64,
        head: [u8; HEAD_LEN],
        content: &mut [u8],
    ) -> Result<(), Unsealed> {
        let nonce = Self::nonce(number);
        match self {
            Self::Sealed(key) => {
                let nonce = Nonce::assume_unique_for_key(nonce);
                key.open_in_place(nonce, Aad::from(head), content).map(drop).map_err(|_| Unsealed)
            }
            Self::Clear(key) => key.open(nonce, &head, content).map_err(|_| Unsealed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: u8, sealed: bool) -> RecordKey {
        RecordKey::derive(&[secret; 32], sealed)
    }

    fn sealed(key: &RecordKey, number: u64, plain: &[u8], extra: &[u8]) -> Vec<u8> {
        let mut content = vec![0; plain.len() + extra.len() + TAG_LEN];
        content[..plain.len()].copy_from_slice(plain);
        key.seal(number, [7; HEAD_LEN], &mut content, extra);
        content
    }

    #[test]
    fn what_is_sealed_from_elsewhere_is_as_if_it_had_been_in_place() {
        for seals in [true, false] {
            let key = key(1, seals);
            let whole = sealed(&key, 3, b"0123456789abcdefghi", b"");
            assert_eq!(sealed(&key, 3, b"0123456789abcdef", b"ghi"), whole);
            assert_eq!(whole.starts_with(b"0123"), !seals);
            let mut content = whole;
            key.open(3, [7; HEAD_LEN], &mut content).unwrap();
            assert!(content.starts_with(b"0123456789abcdefghi"));
        }
    }

    #[test]
    fn a_sealed_record_opens_only_unchanged_and_in_its_place() {
        let key = key(1, true);
        let record = sealed(&key, 3, b"content", b"");
        for bit in 0..8 * record.len() {
            let mut changed = record.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(3, [7; HEAD_LEN], &mut changed), Err(Unsealed), "bit {bit}");
        }
        assert_eq!(key.open(4, [7; HEAD_LEN], &mut record.clone()), Err(Unsealed));
        assert_eq!(key.open(3, [8; HEAD_LEN], &mut record.clone()), Err(Unsealed));
        assert_eq!(key.open(3, [7; HEAD_LEN], &mut record.clone()), Ok(()));
    }

    #[test]
    fn another_secret_makes_another_key() {
        let first = sealed(&key(1, true), 0, b"content", b"");
        assert_eq!(sealed(&key(1, true), 0, b"content", b""), first);
        assert_ne!(sealed(&key(2, true), 0, b"content", b""), first);
    }
}
