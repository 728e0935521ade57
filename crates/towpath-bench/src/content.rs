//! What a transfer consists of: both ends know it from its seed.

use serde::{Deserialize, Serialize};
use towpath_proto::Rng;

/// Longest message.
pub(super) const MESSAGE_MAX: u32 = 16_000_000;

/// Messages of 1 B to 16 MB, as many of each power of two, until they have so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Content {
    pub(super) seed: u64,
    /// Bytes left.
    pub(super) bytes: u64,
    /// Number of the next message.
    pub(super) next: u64,
}

impl Content {
    /// The next message.
    pub(super) fn message(&mut self) -> Option<Vec<u8>> {
        let len = self.len()?;
        let mut rng = Rng::new(self.seed, 2 * self.next + 1);
        self.bytes -= len as u64;
        self.next += 1;
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&rng.u64().to_le_bytes());
        }
        bytes.truncate(len);
        Some(bytes)
    }

    fn len(&self) -> Option<usize> {
        let mut rng = Rng::new(self.seed, 2 * self.next);
        let most = 1 << rng.below(25);
        let len = (1 + rng.below(most)).min(MESSAGE_MAX.into()).min(self.bytes);
        (len > 0).then_some(len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_the_same_each_time_and_add_up() {
        let all = |seed| {
            let mut c = Content { seed, bytes: 50_000_000, next: 0 };
            std::iter::from_fn(move || c.message()).collect::<Vec<_>>()
        };
        let a = all(1);
        assert_eq!(a.iter().map(Vec::len).sum::<usize>(), 50_000_000);
        assert!(a.iter().all(|m| (1..=MESSAGE_MAX as usize).contains(&m.len())));
        assert!(a.iter().any(|m| m.len() < 100) && a.iter().any(|m| m.len() > 1_000_000));
        assert!(a == all(1) && a != all(2));
    }
}
