//! The packet keys of both directions, an epoch after another.
//!
//! Each direction renews its key by itself. The sender goes on to the next epoch only when the
//! peer has acknowledged a packet of the present one, so that the receiver is never more than one
//! epoch behind; the receiver opens packets of the previous epoch for a while, of the present and
//! of the next one, and goes on with the first packet of the next that opens. The epoch stands in
//! the header, counted modulo 256, and picks one key: a forged epoch costs one failed tag check at
//! most. Packet numbers go on across epochs, so one that is out of order with its epoch (RFC 9001
//! §6.4) is not opened at all.

use alloc::boxed::Box;
use alloc::vec::Vec;

use towpath_wire::{Instant, PathId};
use zeroize::Zeroizing;

use crate::config::Rekey;
use crate::crypto::{Crypto, PacketKey, Secrets};

/// Makes the keys of one direction.
struct Chain {
    secret: Zeroizing<[u8; 32]>,
    sealed: bool,
}

impl Chain {
    /// The next epoch's key; the secret that it came from is wiped.
    fn next(&mut self, crypto: &dyn Crypto) -> Box<dyn PacketKey> {
        let key = Zeroizing::new(crypto.derive(&self.secret, b"towpath key"));
        self.secret = Zeroizing::new(crypto.derive(&self.secret, b"towpath epoch"));
        if self.sealed { crypto.packet_key(&key) } else { crypto.header_key(&key) }
    }
}

/// What seals packets.
pub(super) struct Sealing {
    chain: Chain,
    pub(super) key: Box<dyn PacketKey>,
    next: Option<Box<dyn PacketKey>>,
    /// Modulo 256.
    pub(super) epoch: u8,
    /// Packets sealed with `key`.
    packets: u64,
    since: Instant,
    /// The first packet number of this epoch on each path that was there when it began.
    first: Vec<(PathId, u64)>,
}

impl Sealing {
    /// Counts one more packet.
    pub(super) const fn count(&mut self) {
        self.packets += 1;
    }

    /// True when the present key has served long enough and the next one is at hand.
    pub(super) fn is_old(&self, now: Instant, rekey: &Rekey) -> bool {
        (self.packets >= rekey.packets || now.since(self.since) >= rekey.age) && self.next.is_some()
    }

    /// True when the present key may seal nothing more.
    pub(super) const fn is_spent(&self, rekey: &Rekey) -> bool {
        self.packets >= rekey.packets_max
    }

    /// True when `acked`, the largest packet acknowledged on path `path`, is of this epoch.
    pub(super) fn confirmed(&self, path: PathId, acked: Option<u64>) -> bool {
        let first = self.first.iter().find(|(id, _)| *id == path).map_or(0, |(_, first)| *first);
        acked.is_some_and(|n| n >= first)
    }

    /// Goes on to the next epoch; each path's next packet number in `next_numbers`.
    pub(super) fn renew(
        &mut self,
        now: Instant,
        next_numbers: impl Iterator<Item = (PathId, u64)>,
    ) {
        let Some(key) = self.next.take() else { return };
        self.key = key;
        self.epoch = self.epoch.wrapping_add(1);
        (self.packets, self.since) = (0, now);
        self.first.clear();
        self.first.extend(next_numbers);
    }
}

/// The packets of one epoch that came on one path.
#[derive(Clone, Copy, Debug)]
struct Span {
    lowest: u64,
    highest: u64,
}

/// A key to open with, and what came under it.
struct Epoch {
    key: Box<dyn PacketKey>,
    /// Of the paths on which something came.
    spans: Vec<(PathId, Span)>,
}

impl Epoch {
    const fn new(key: Box<dyn PacketKey>) -> Self {
        Self { key, spans: Vec::new() }
    }

    fn span(&self, path: PathId) -> Option<Span> {
        self.spans.iter().find(|(id, _)| *id == path).map(|(_, span)| *span)
    }

    fn begins_after(&self, path: PathId, number: u64) -> bool {
        self.span(path).is_none_or(|s| number < s.lowest)
    }

    fn ends_before(&self, path: PathId, number: u64) -> bool {
        self.span(path).is_none_or(|s| number > s.highest)
    }

    fn note(&mut self, path: PathId, number: u64) {
        match self.spans.iter_mut().find(|(id, _)| *id == path) {
            Some((_, Span { lowest, highest })) => {
                (*lowest, *highest) = ((*lowest).min(number), (*highest).max(number));
            }
            None => self.spans.push((path, Span { lowest: number, highest: number })),
        }
    }
}

/// What came of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// Of the present epoch.
    Present,
    /// Of the next epoch, which is the present one from now on: [`Opening::retire`] follows.
    Next,
    /// Of the previous epoch.
    Previous,
    /// Its tag is wrong.
    Failed,
    /// Its epoch, or its number in that epoch, cannot be.
    Refused,
}

/// What opens packets.
pub(super) struct Opening {
    chain: Chain,
    present: Epoch,
    previous: Option<(Epoch, Instant)>,
    next: Option<Box<dyn PacketKey>>,
    epoch: u8,
    failures: u64,
}

impl Opening {
    /// Opens packet `number` of path `path` in place.
    pub(super) fn open(
        &mut self,
        (epoch, path, number): (u8, PathId, u64),
        nonce: [u8; 12],
        aad: &[u8],
        content: &mut [u8],
    ) -> Opened {
        let previous = self.previous.as_ref().map(|(previous, _)| previous);
        let (key, opened) = match epoch.wrapping_sub(self.epoch) {
            0 if previous.is_none_or(|p| p.ends_before(path, number)) => {
                (&self.present.key, Opened::Present)
            }
            1 if self.present.ends_before(path, number) => {
                let Some(next) = &self.next else { return Opened::Refused };
                (next, Opened::Next)
            }
            u8::MAX if self.present.begins_after(path, number) => {
                let Some(previous) = previous else { return Opened::Refused };
                (&previous.key, Opened::Previous)
            }
            _ => return Opened::Refused,
        };
        if key.open(nonce, aad, content).is_err() {
            self.failures += 1;
            return Opened::Failed;
        }
        match opened {
            Opened::Next => self.advance(),
            Opened::Previous => {
                if let Some((previous, _)) = &mut self.previous {
                    previous.note(path, number);
                }
                return opened;
            }
            _ => {}
        }
        self.present.note(path, number);
        opened
    }

    fn advance(&mut self) {
        let Some(key) = self.next.take() else { return };
        let before = ::core::mem::replace(&mut self.present, Epoch::new(key));
        self.previous = Some((before, Instant::NEVER));
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// The previous key is kept until `until`.
    pub(super) fn retire(&mut self, until: Instant) {
        if let Some((_, at)) = &mut self.previous {
            *at = until;
        }
    }

    /// Drops the previous key once its time is over.
    pub(super) fn forget(&mut self, now: Instant) {
        self.previous.take_if(|(_, until)| *until <= now);
    }

    /// When [`Opening::forget`] has something to drop.
    pub(super) fn forget_at(&self) -> Option<Instant> {
        self.previous.as_ref().map(|(_, until)| *until)
    }

    /// True when more packets failed to open than the keys can stand.
    pub(super) const fn is_spent(&self, rekey: &Rekey) -> bool {
        self.failures >= rekey.failures_max
    }
}

/// The keys of an association. See the module's documentation.
pub struct Keys {
    pub(super) send: Sealing,
    pub(super) receive: Opening,
}

impl Keys {
    /// From a handshake's secrets; packets are hidden and protected where `sealed`.
    pub fn new(now: Instant, secrets: &Secrets, sealed: bool, crypto: &dyn Crypto) -> Self {
        let chain = |secret| Chain { secret: Zeroizing::new(secret), sealed };
        let (mut send, mut receive) = (chain(secrets.send), chain(secrets.receive));
        let (key, present) = (send.next(crypto), Epoch::new(receive.next(crypto)));
        let mut keys = Self {
            send: Sealing {
                chain: send,
                key,
                next: None,
                epoch: 0,
                packets: 0,
                since: now,
                first: Vec::new(),
            },
            receive: Opening {
                chain: receive,
                present,
                previous: None,
                next: None,
                epoch: 0,
                failures: 0,
            },
        };
        keys.replenish(crypto);
        keys
    }

    /// True when [`Keys::replenish`] is wanted.
    pub fn is_short(&self) -> bool {
        self.send.next.is_none() || self.receive.next.is_none()
    }

    /// Makes the keys of the next epochs, so that none has to be made when they begin.
    pub fn replenish(&mut self, crypto: &dyn Crypto) {
        let Self { send, receive } = self;
        send.next.get_or_insert_with(|| send.chain.next(crypto));
        receive.next.get_or_insert_with(|| receive.chain.next(crypto));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::{CryptoError, Handshake, HostKey, Psk};
    use std::cell::Cell;
    use std::rc::Rc;

    std::thread_local! {
        /// Tags checked by any key of this thread.
        static CHECKED: Cell<u32> = const { Cell::new(0) };
    }

    /// A key whose tag is the secret that it came from.
    struct Plain([u8; 16]);

    impl PacketKey for Plain {
        fn seal(&self, _: [u8; 12], _: &[u8], content: &mut [u8]) {
            content.copy_from_slice(&self.0);
        }
        fn open(&self, _: [u8; 12], _: &[u8], content: &mut [u8]) -> Result<(), CryptoError> {
            CHECKED.set(CHECKED.get() + 1);
            if *content == self.0 { Ok(()) } else { Err(CryptoError) }
        }
    }

    /// Derives by multiplying, and counts how often.
    #[derive(Clone, Default)]
    struct Sums(Rc<Cell<u32>>);

    impl Crypto for Sums {
        fn public_key(&self) -> HostKey {
            HostKey([0; 32])
        }
        fn initiate(&mut self, _: &HostKey, _: &Psk, _: &[u8]) -> Box<dyn Handshake> {
            unreachable!("keys need no handshake")
        }
        fn respond(&mut self, _: &[u8]) -> Box<dyn Handshake> {
            unreachable!("keys need no handshake")
        }
        fn packet_key(&self, secret: &[u8; 32]) -> Box<dyn PacketKey> {
            let mut tag = [0; 16];
            tag.copy_from_slice(&secret[..16]);
            Box::new(Plain(tag))
        }
        fn mac(&self, _: &[u8; 32], _: &[u8]) -> [u8; 16] {
            [0; 16]
        }
        fn derive(&self, secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
            self.0.set(self.0.get() + 1);
            let mut state = u64::from_le_bytes(secret[..8].try_into().unwrap());
            for byte in label {
                state =
                    (state ^ u64::from(*byte)).wrapping_mul(0x5851_f42d_4c95_7f2d).rotate_left(29);
            }
            let mut sum = [0; 32];
            sum.chunks_mut(8).for_each(|c| c.copy_from_slice(&state.to_le_bytes()));
            sum
        }
        fn random(&mut self) -> [u8; 32] {
            [0; 32]
        }
    }

    /// Both ends of an association.
    fn pair() -> (Keys, Keys) {
        let at = |send, receive| {
            Keys::new(Instant::ZERO, &Secrets { send, receive }, true, &Sums::default())
        };
        (at([1; 32], [2; 32]), at([2; 32], [1; 32]))
    }

    fn seal(keys: &Keys) -> (u8, [u8; 16]) {
        let mut tag = [0; 16];
        keys.send.key.seal([0; 12], b"", &mut tag);
        (keys.send.epoch, tag)
    }

    fn open(keys: &mut Keys, (epoch, mut tag): (u8, [u8; 16]), path: u16, number: u64) -> Opened {
        let opened = keys.receive.open((epoch, PathId(path), number), [0; 12], b"", &mut tag);
        keys.replenish(&Sums::default());
        opened
    }

    fn renew(keys: &mut Keys, next: u64) {
        let numbers = [(PathId(0), next), (PathId(1), 0)];
        keys.send.renew(Instant::ZERO, numbers.into_iter());
        keys.replenish(&Sums::default());
    }

    #[test]
    fn a_thousand_epochs_follow_each_other_and_none_is_like_another() {
        let (mut a, mut b) = pair();
        let mut seen = std::collections::BTreeSet::new();
        for n in 0..1000 {
            let sealed = seal(&a);
            assert_eq!(usize::from(sealed.0), n % 256);
            assert!(seen.insert(sealed.1), "a key came twice, at epoch {n}");
            let opened = if n == 0 { Opened::Present } else { Opened::Next };
            assert_eq!(open(&mut b, sealed, 0, 2 * n as u64), opened);
            assert_eq!(open(&mut b, sealed, 0, 2 * n as u64 + 1), Opened::Present);
            renew(&mut a, 2 * n as u64 + 2);
        }
    }

    #[test]
    fn any_epoch_costs_one_tag_check_at_most_and_changes_nothing() {
        let (mut a, mut b) = pair();
        open(&mut b, seal(&a), 0, 5);
        renew(&mut a, 10);
        open(&mut b, seal(&a), 0, 10);
        for epoch in 0..=255 {
            CHECKED.set(0);
            let opened = open(&mut b, (epoch, [9; 16]), 0, 11);
            assert!(CHECKED.get() <= 1);
            let known = matches!(epoch, 1 | 2);
            assert_eq!(opened, if known { Opened::Failed } else { Opened::Refused }, "{epoch}");
        }
        assert_eq!(b.receive.failures, 2);
        assert_eq!(open(&mut b, seal(&a), 0, 12), Opened::Present);
    }

    #[test]
    fn numbers_out_of_order_with_their_epoch_are_not_opened() {
        let (mut a, mut b) = pair();
        let old = seal(&a);
        assert_eq!(open(&mut b, old, 0, 5), Opened::Present);
        renew(&mut a, 10);
        let new = seal(&a);
        assert_eq!(open(&mut b, new, 0, 4), Opened::Refused, "below one of the old key");
        assert_eq!(open(&mut b, new, 0, 12), Opened::Next);
        assert_eq!(open(&mut b, old, 0, 13), Opened::Refused, "above one of the new key");
        assert_eq!(open(&mut b, old, 0, 8), Opened::Previous);
        assert_eq!(open(&mut b, new, 0, 8), Opened::Refused, "below one of the old key");
        assert_eq!(open(&mut b, new, 0, 10), Opened::Present);
        assert_eq!(open(&mut b, old, 1, 900), Opened::Previous, "another path, another order");
    }

    #[test]
    fn the_previous_key_serves_until_its_time_and_the_one_before_not_at_all() {
        let (mut a, mut b) = pair();
        let oldest = seal(&a);
        renew(&mut a, 10);
        let old = seal(&a);
        open(&mut b, old, 0, 10);
        b.receive.retire(Instant::from_nanos(100));
        b.receive.forget(Instant::from_nanos(99));
        assert_eq!(open(&mut b, oldest, 0, 3), Opened::Previous);
        renew(&mut a, 20);
        assert_eq!(open(&mut b, seal(&a), 0, 20), Opened::Next);
        assert_eq!(open(&mut b, oldest, 0, 4), Opened::Refused);
        b.receive.retire(Instant::from_nanos(100));
        b.receive.forget(Instant::from_nanos(100));
        assert_eq!(open(&mut b, old, 0, 11), Opened::Refused);
    }

    #[test]
    fn a_key_is_old_by_packets_or_age_and_confirmed_by_one_of_its_own() {
        let rekey = Rekey { packets: 10, packets_max: 12, ..Rekey::default() };
        let (mut a, _) = pair();
        let later = Instant::ZERO + rekey.age;
        assert!(!a.send.is_old(Instant::ZERO, &rekey) && a.send.is_old(later, &rekey));
        (0..10).for_each(|_| a.send.count());
        assert!(a.send.is_old(Instant::ZERO, &rekey) && !a.send.is_spent(&rekey));
        (0..2).for_each(|_| a.send.count());
        assert!(a.send.is_spent(&rekey));
        let (zero, one) = (PathId(0), PathId(1));
        assert!(!a.send.confirmed(zero, None) && a.send.confirmed(zero, Some(0)));
        renew(&mut a, 12);
        assert!(!a.send.is_spent(&rekey));
        assert!(!a.send.confirmed(zero, Some(11)) && a.send.confirmed(zero, Some(12)));
        assert!(a.send.confirmed(one, Some(0)));
        // By number, whatever stands where: path 5 came later.
        assert!(a.send.confirmed(PathId(5), Some(0)));
    }

    #[test]
    fn keys_are_made_ahead_and_each_once() {
        let sums = Sums::default();
        let mut keys =
            Keys::new(Instant::ZERO, &Secrets { send: [1; 32], receive: [2; 32] }, true, &sums);
        assert_eq!(sums.0.get(), 8, "two keys each way, with the secrets after them");
        assert!(!keys.is_short());
        keys.replenish(&sums);
        assert_eq!(sums.0.get(), 8);
        keys.send.renew(Instant::ZERO, [(PathId(0), 0)].into_iter());
        assert!(keys.is_short() && !keys.send.is_old(Instant::NEVER, &Rekey::default()));
        keys.replenish(&sums);
        assert_eq!(sums.0.get(), 10);
    }
}
