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

use towpath_wire::Instant;
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
    /// The first packet number of this epoch on each path.
    first: Vec<u64>,
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
    pub(super) fn confirmed(&self, path: usize, acked: Option<u64>) -> bool {
        acked.is_some_and(|n| n >= self.first.get(path).copied().unwrap_or(0))
    }

    /// Goes on to the next epoch; each path's next packet number in `next_numbers`.
    pub(super) fn renew(&mut self, now: Instant, next_numbers: impl Iterator<Item = u64>) {
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
    /// By path; `None` where nothing came.
    spans: Vec<Option<Span>>,
}

impl Epoch {
    const fn new(key: Box<dyn PacketKey>) -> Self {
        Self { key, spans: Vec::new() }
    }

    fn span(&self, path: usize) -> Option<Span> {
        self.spans.get(path).copied().flatten()
    }

    fn begins_after(&self, path: usize, number: u64) -> bool {
        self.span(path).is_none_or(|s| number < s.lowest)
    }

    fn ends_before(&self, path: usize, number: u64) -> bool {
        self.span(path).is_none_or(|s| number > s.highest)
    }

    fn note(&mut self, path: usize, number: u64) {
        if self.spans.len() <= path {
            self.spans.resize(path + 1, None);
        }
        let Span { lowest, highest } =
            self.spans[path].unwrap_or(Span { lowest: number, highest: number });
        let (lowest, highest) = (lowest.min(number), highest.max(number));
        self.spans[path] = Some(Span { lowest, highest });
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
        (epoch, path, number): (u8, usize, u64),
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
