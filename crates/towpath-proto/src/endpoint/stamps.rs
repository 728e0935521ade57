//! The newest handshake seen of each peer that we were connecting to at the same time.

use alloc::collections::BTreeMap;

use crate::crypto::HostKey;

/// Most peers remembered; beyond it the one whose stamp is oldest is forgotten.
const STAMPS_MAX: usize = 4096;

/// Invariant: at most [`STAMPS_MAX`] keys, of peers that we ourselves wanted to connect to.
#[derive(Debug, Default)]
pub(super) struct Stamps(BTreeMap<HostKey, u64>);

impl Stamps {
    /// Takes note of an authentic handshake; true when it is newer than all before.
    pub(super) fn note(&mut self, key: &HostKey, stamp: u64) -> bool {
        if let Some(newest) = self.0.get_mut(key) {
            let newer = stamp > *newest;
            *newest = stamp.max(*newest);
            return newer;
        }
        if self.0.len() >= STAMPS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, stamp)| **stamp).map(|(key, _)| *key);
            oldest.and_then(|key| self.0.remove(&key));
        }
        self.0.insert(*key, stamp);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_newer_ones_pass_and_the_oldest_are_forgotten() {
        let key = |n: u32| {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&n.to_le_bytes());
            HostKey(bytes)
        };
        let mut stamps = Stamps::default();
        assert!(stamps.note(&key(0), 5));
        assert!(!stamps.note(&key(0), 5) && !stamps.note(&key(0), 4));
        assert!(stamps.note(&key(0), 6) && !stamps.note(&key(0), 6));
        for n in 1..=STAMPS_MAX as u32 {
            assert!(stamps.note(&key(n), u64::from(n) + 100));
        }
        assert_eq!(stamps.0.len(), STAMPS_MAX);
        assert!(!stamps.note(&key(1), 101), "still known");
        assert!(stamps.note(&key(0), 1), "forgotten");
    }
}
