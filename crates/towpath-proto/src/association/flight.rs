//! Packets of one path whose fate is open, and what they carried.

use core::ops::Range;
use core::time::Duration;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use towpath_wire::{ChannelId, Instant, PathId};

use super::delivery::Stamp;
use super::ring::Ring;

/// Packets between the oldest one under way and the newest at most: half the receiver's window,
/// so that none of them can leave it before its fate is known.
pub(super) const PACKETS_MAX: usize = super::received::WINDOW as usize / 2;
/// Beyond so many packets, mere acknowledgements and lost ones among them, the oldest is
/// forgotten.
const REMEMBERED_MAX: usize = 2 * PACKETS_MAX;

/// What a packet carried that must not be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Data {
        channel: ChannelId,
        message: u64,
        offset: u32,
        len: u16,
    },
    Skip {
        channel: ChannelId,
        message: u64,
    },
    Open(ChannelId),
    Limit(ChannelId),
    CloseChannel(ChannelId),
    PathRetire(PathId),
    /// An offer, by its number.
    PathAdd(PathId),
    /// Something that the peer has rebuilt: nothing is to be sent again.
    Rebuilt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Under way.
    Outstanding,
    /// It held only acknowledgements: nothing to wait for.
    Unasked,
    /// Acknowledged.
    Settled,
    /// Given up; its items are to be sent again.
    Lost,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Instant,
    pub(super) bytes: u32,
    /// How many; [`Flight::push`] counts them.
    pub(super) items: u16,
    pub(super) state: State,
    /// It asked no window.
    pub(super) reserved: bool,
    /// Place of its first item, counted since the path began; [`Flight::push`] sets it.
    pub(super) items_at: u64,
    /// The largest packet that this one acknowledged, plus one.
    pub(super) ack_top: u64,
    pub(super) stamp: Stamp,
}

impl Sent {
    const fn reserved_bytes(&self) -> u64 {
        if self.reserved { self.bytes as u64 } else { 0 }
    }
}

// The formula at the top of the crate's documentation counts on these.
const _: () = assert!(size_of::<Sent>() == 48 && size_of::<Item>() == 24);

/// Invariants: `sent[i]` is packet `base + i`; `next = base + sent.len()`; the items of all
/// packets in `sent` stand in `items` in order, the first of them being item `items_base`;
/// `bytes` is the sum of outstanding bytes, `reserved` of those that asked no window; `unsettled`
/// has the bits of just those packets in `sent` that are outstanding or lost; no packet before
/// `oldest` is outstanding.
#[derive(Debug)]
pub(super) struct Flight {
    next: u64,
    base: u64,
    oldest: u64,
    sent: VecDeque<Sent>,
    unsettled: Ring,
    items: VecDeque<Item>,
    items_base: u64,
    bytes: u64,
    reserved: u64,
}

impl Flight {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            base: 0,
            oldest: 0,
            sent: VecDeque::new(),
            unsettled: Ring::new(),
            items: VecDeque::new(),
            items_base: 0,
            bytes: 0,
            reserved: 0,
        }
    }

    /// The number that the next packet gets.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Bytes under way.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Those of them that asked for a place in the window.
    pub(super) const fn asked(&self) -> u64 {
        self.bytes - self.reserved
    }

    fn add(&mut self, s: &Sent) {
        self.bytes += u64::from(s.bytes);
        self.reserved += s.reserved_bytes();
    }

    fn take(&mut self, s: &Sent) {
        self.bytes -= u64::from(s.bytes);
        self.reserved -= s.reserved_bytes();
    }

    /// True while the oldest packet under way is near enough for one more.
    pub(super) const fn has_room(&self) -> bool {
        self.next - self.oldest < PACKETS_MAX as u64
    }

    /// True when one more packet must be preceded by [`Flight::evict`].
    pub(super) fn is_full(&self) -> bool {
        self.sent.len() >= REMEMBERED_MAX
    }

    /// Forgets the oldest packet; `items` gets what it held if that must go out again.
    pub(super) fn evict(&mut self, items: &mut Vec<Item>) {
        if let Some(s) = self.sent.front()
            && s.state == State::Outstanding
        {
            items.extend(self.items.range(..usize::from(s.items)));
        }
        self.forget_front();
    }

    /// Remembers packet `next` with its items.
    pub(super) fn push(&mut self, sent: Sent, items: &[Item]) {
        if sent.state == State::Outstanding {
            self.add(&sent);
            self.unsettled.set(self.next);
        }
        let items_at = self.items_base + self.items.len() as u64;
        self.items.extend(items);
        self.sent.push_back(Sent { items: items.len() as u16, items_at, ..sent });
        self.next += 1;
    }

    fn forget_front(&mut self) {
        if let Some(s) = self.sent.pop_front() {
            if s.state == State::Outstanding {
                self.take(&s);
            }
            self.unsettled.unset(self.base);
            self.items.drain(..usize::from(s.items));
            self.items_base += u64::from(s.items);
            self.base += 1;
            self.oldest = self.oldest.max(self.base);
        }
    }

    /// Forgets packets at the front whose fate is known; lost ones once they are older than
    /// `keep`, since they may be only late.
    pub(super) fn shrink(&mut self, now: Instant, keep: Duration) {
        while let Some(s) = self.sent.front() {
            let gone = match s.state {
                State::Outstanding => false,
                State::Unasked | State::Settled => true,
                State::Lost => now.since(s.at) > keep,
            };
            if !gone {
                break;
            }
            self.forget_front();
        }
    }

    /// A packet that is remembered.
    pub(super) fn get(&self, number: u64) -> Option<&Sent> {
        self.sent.get(number.checked_sub(self.base)? as usize)
    }

    /// What a packet held.
    pub(super) fn items_of(&self, s: &Sent) -> impl Iterator<Item = Item> + '_ {
        let at = (s.items_at - self.items_base) as usize;
        self.items.range(at..at + usize::from(s.items)).copied()
    }

    /// The peer has what a packet held, though that may not have arrived: `items` gets it, and it
    /// is neither acknowledged nor sent again from now on. False where that is no news.
    pub(super) fn rebuilt(&mut self, number: u64, items: &mut Vec<Item>) -> bool {
        let Some(s) = self.get(number).copied().filter(|s| s.state != State::Settled) else {
            return false;
        };
        let at = (s.items_at - self.items_base) as usize;
        let held = self.items.range_mut(at..at + usize::from(s.items));
        let before = items.len();
        items.extend(held.map(|item| core::mem::replace(item, Item::Rebuilt)));
        let news = items[before..].iter().any(|item| *item != Item::Rebuilt);
        if !news {
            items.truncate(before);
        }
        news
    }

    /// Bit `i`: packet `hi - i` is outstanding or lost.
    pub(super) fn unsettled_below(&self, hi: u64) -> u64 {
        self.unsettled.word_below(hi)
    }

    /// A packet arrived after all; returns it as it was before.
    pub(super) fn settle(&mut self, number: u64) -> Option<Sent> {
        let s = self.sent.get_mut(number.checked_sub(self.base)? as usize)?;
        let before = *s;
        s.state = State::Settled;
        if before.state == State::Outstanding {
            self.take(&before);
        }
        self.unsettled.unset(number);
        Some(before)
    }

    /// A packet under way counts as lost; returns it.
    pub(super) fn give_up(&mut self, number: u64) -> Option<Sent> {
        let s = self.sent.get_mut(number.checked_sub(self.base)? as usize)?;
        s.state = State::Lost;
        let s = *s;
        self.take(&s);
        Some(s)
    }

    /// True when a packet of these was acknowledged.
    pub(super) fn any_settled(&self, mut numbers: Range<u64>) -> bool {
        numbers.any(|n| self.get(n).is_some_and(|s| s.state == State::Settled))
    }

    /// The first packet under way from `from` on, but not beyond `to`.
    pub(super) fn outstanding(&mut self, from: u64, to: u64) -> Option<(u64, Sent)> {
        let first = from.max(self.oldest);
        let mut number = first;
        while number <= to
            && let Some(s) = self.sent.get((number - self.base) as usize).copied()
        {
            if s.state == State::Outstanding {
                break;
            }
            number += 1;
        }
        if first == self.oldest {
            self.oldest = number.min(self.next);
        }
        let s = self.get(number).filter(|_| number <= to)?;
        Some((number, *s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Copy, PartialEq)]
    struct Known {
        state: State,
        bytes: u32,
        items: u16,
    }

    fn sent(at: u64, bytes: u32, state: State) -> Sent {
        let stamp = super::super::delivery::Delivery::new().stamp(0, 0);
        let at = Instant::from_nanos(at);
        let reserved = bytes.is_multiple_of(3);
        Sent { at, bytes, items: 0, state, reserved, items_at: 0, ack_top: 0, stamp }
    }

    /// What a packet of the model holds.
    fn items(number: u64, count: u16) -> Vec<Item> {
        (0..count).map(|i| Item::Limit(ChannelId(number as u32 * 8 + u32::from(i)))).collect()
    }

    proptest! {
        #[test]
        fn it_is_a_table_of_packets(ops in proptest::collection::vec((0..6u8, 0..64u64), 1..300)) {
            let (mut flight, mut known) = (Flight::new(), BTreeMap::new());
            for (now, (op, n)) in ops.into_iter().enumerate() {
                let number = flight.next().saturating_sub(n + 1);
                match op {
                    0 | 1 => {
                        let state = if n % 4 == 0 { State::Unasked } else { State::Outstanding };
                        let (bytes, count) = (n as u32 + 1, n as u16 % 4);
                        known.insert(flight.next(), Known { state, bytes, items: count });
                        let held = items(flight.next(), count);
                        flight.push(sent(now as u64, bytes, state), &held);
                    }
                    2 => {
                        if let Some(k) = known.get_mut(&number)
                            && flight.settle(number).is_some()
                        {
                            k.state = State::Settled;
                        }
                    }
                    3 => {
                        let expected = known
                            .iter()
                            .find(|(n, k)| **n >= number && k.state == State::Outstanding)
                            .map(|(n, _)| *n);
                        let found = flight.outstanding(number, flight.next()).map(|f| f.0);
                        prop_assert_eq!(found, expected);
                        if let Some(n) = found {
                            flight.give_up(n);
                            known.get_mut(&n).unwrap().state = State::Lost;
                        }
                    }
                    4 => {
                        let age = Duration::from_nanos(50);
                        flight.shrink(Instant::from_nanos(now as u64), age);
                    }
                    _ => {
                        let front = flight.next() - flight.sent.len() as u64;
                        let mut again = Vec::new();
                        flight.evict(&mut again);
                        if let Some(k) = known.get_mut(&front) {
                            let due = k.state == State::Outstanding;
                            prop_assert_eq!(again, items(front, if due { k.items } else { 0 }));
                            k.state = State::Settled;
                        }
                    }
                }
                let outstanding = known.values().filter(|k| k.state == State::Outstanding);
                let bytes: Vec<u64> = outstanding.map(|k| k.bytes.into()).collect();
                prop_assert_eq!(flight.bytes(), bytes.iter().sum());
                let asked = bytes.iter().filter(|n| !n.is_multiple_of(3)).sum();
                prop_assert_eq!(flight.asked(), asked);
                for (n, k) in &known {
                    let Some(s) = flight.get(*n) else {
                        prop_assert!(k.state != State::Outstanding, "{} is forgotten", n);
                        continue;
                    };
                    prop_assert_eq!(s.state, k.state);
                    prop_assert_eq!(flight.items_of(s).collect::<Vec<_>>(), items(*n, k.items));
                    let unsettled = flight.unsettled_below(*n) & 1 == 1;
                    let open = matches!(k.state, State::Outstanding | State::Lost);
                    prop_assert_eq!(unsettled, open);
                }
            }
        }
    }
}
