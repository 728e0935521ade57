//! Messages of random sizes and bytes that the receiver can check by itself.

use anyhow::bail;
use towpath_proto::Rng;

/// Longest message.
pub(super) const MESSAGE_MAX: u64 = 16_000_000;

/// The messages of one seed, in order: both ends make the same.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Checker {
    rng: Rng,
    /// Messages made so far.
    pub(super) count: u64,
}

impl Checker {
    pub(in crate::bench) const fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed, 7), count: 0 }
    }

    /// The next message, of `most` bytes at most. Each doubling of the size is as likely.
    fn sized(&mut self, most: u64) -> usize {
        let doublings = MESSAGE_MAX.ilog2() + 1;
        let low = 1_u64 << self.rng.below(doublings.into());
        let len = (low + self.rng.below(low)).min(MESSAGE_MAX);
        len.min(most) as usize
    }

    /// The next message; it ends the transfer where `left` bytes are to come.
    pub(super) fn next(&mut self, left: u64) -> Vec<u8> {
        let len = self.sized(left);
        self.bytes(len)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.count += 1;
        let mut bytes = vec![0; len];
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.rng.u64().to_le_bytes()[..part.len()]);
        }
        bytes
    }

    /// Compares a message that arrived with the one that was sent; only the last may be shorter
    /// than drawn.
    ///
    /// # Errors
    /// Names the message and the first byte that differs.
    pub(in crate::bench) fn check(&mut self, arrived: &[u8]) -> anyhow::Result<()> {
        let drawn = self.sized(u64::MAX);
        if arrived.len() > drawn {
            bail!("message {}: {} bytes, sent were {drawn}", self.count, arrived.len());
        }
        let sent = self.bytes(arrived.len());
        match arrived.iter().zip(&sent).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(at) => bail!("message {}: byte {at} differs", self.count - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_make_the_same_and_notice_any_change() {
        let (mut sender, mut receiver) = (Checker::new(3), Checker::new(3));
        let (mut shortest, mut longest, mut left) = (usize::MAX, 0, 100_000_000);
        while left > 0 {
            let message = sender.next(left);
            left -= message.len() as u64;
            shortest = shortest.min(message.len());
            longest = longest.max(message.len());
            receiver.check(&message).unwrap();
        }
        assert!(shortest < 10 && longest > 4_000_000, "{shortest} {longest}");
        let mut message = sender.next(u64::MAX);
        *message.last_mut().unwrap() ^= 1;
        assert!(receiver.clone().check(&message).is_err());
        *message.last_mut().unwrap() ^= 1;
        assert!(receiver.clone().check(&[&message[..], &[0]].concat()).is_err());
        assert!(receiver.check(&message).is_ok());
    }
}
