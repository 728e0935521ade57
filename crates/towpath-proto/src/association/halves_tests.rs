//! A sending and a receiving half joined by a network that loses, repeats, delays and reorders,
//! and believes things lost that arrive later: what must hold whatever happens.

use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;
use towpath_wire::frame::{Piece, Reliability};
use towpath_wire::{ByteSize, ChannelId, Instant};

use super::receive::{ReceiveHalf, Refused, Renewal};
use super::send::{Next, SendHalf, Settled};
use crate::id::AssociationId;
use crate::memory::{Arrival, Block, HeapMemory, Memory};
use crate::rng::Rng;

const WINDOW: u64 = 512;
const MESSAGES: u64 = 40;
const BLOCK: Block = Block { index: 0, generation: 0 };
const CLASSES: [Reliability; 4] = [
    Reliability::ReliableOrdered,
    Reliability::ReliableUnordered,
    Reliability::Timely,
    Reliability::Unreliable,
];

#[derive(Default)]
struct Outcome {
    len: u32,
    sent: bool,
    abandoned: bool,
    delivered: bool,
}

struct Pair {
    class: Reliability,
    rng: Rng,
    stuck: bool,
    send: SendHalf,
    receive: ReceiveHalf,
    memory: HeapMemory,
    /// Under way, as the sender believes.
    flight: Vec<Next>,
    /// Copies under way that the sender knows nothing of, or believes lost.
    ghosts: Vec<Next>,
    held: Vec<(Block, u32)>,
    outcomes: BTreeMap<u64, Outcome>,
    skipped: u64,
    next: u64,
}

impl Pair {
    fn new(class: Reliability, seed: u64) -> Self {
        Self {
            class,
            rng: Rng::new(seed, 0),
            stuck: seed % 2 == 1,
            send: SendHalf::new(WINDOW, class, 1000),
            receive: ReceiveHalf::new(WINDOW, class),
            // Not always room for a whole window: the driver may refuse.
            memory: HeapMemory::new(ByteSize::from_bytes(WINDOW)),
            flight: Vec::new(),
            ghosts: Vec::new(),
            held: Vec::new(),
            outcomes: BTreeMap::new(),
            skipped: 0,
            next: 0,
        }
    }

    fn push(&mut self) {
        let most = if self.rng.below(4) == 0 { 400 } else { 20 };
        let len = self.rng.below(most) as u32;
        let timely = self.class == Reliability::Timely && self.rng.below(4) > 0;
        let deadline =
            if timely { Instant::from_nanos(self.rng.below(99)) } else { Instant::NEVER };
        let number = self.send.push(BLOCK, len, deadline).unwrap();
        self.outcomes.insert(number, Outcome { len, ..Outcome::default() });
    }

    fn emit(&mut self) -> bool {
        let room = 1 + self.rng.below(200) as usize;
        let last_chance = Instant::from_nanos(self.rng.below(99));
        let next = self.send.next(room, last_chance);
        self.flight.extend(next);
        if self.rng.below(2) == 0 {
            self.send.copy_last_repairs();
        }
        next.is_some()
    }

    /// True when the receiver took it.
    fn arrive(&mut self, what: Next) -> bool {
        let taken = match what {
            Next::Skip { message, charge } => {
                let skipped = self.receive.skip(message, charge, &mut self.memory).unwrap();
                self.skipped += u64::from(skipped);
                true
            }
            Next::Piece(p) => {
                let bytes = std::vec![7; p.len.into()];
                let (channel, message, message_len) = (ChannelId(0), p.message, p.message_len);
                let offset = p.offset;
                let piece = Piece { channel, message, message_len, offset, bytes: &bytes };
                let association = AssociationId(0);
                let arrival = Arrival { association, channel, label: 0, message, len: message_len };
                match self.receive.accept(&piece, &arrival, &mut self.memory) {
                    Ok(_) => true,
                    Err(Refused::NoRoom) => false,
                    Err(Refused::Fault) => panic!("an honest peer is at fault: {arrival:?}"),
                }
            }
        };
        while let Some((number, block, len)) = self.receive.pop_ready() {
            let o = self.outcomes.get_mut(&number).expect("it was sent");
            assert!(!std::mem::replace(&mut o.delivered, true), "{number} exactly once");
            assert_eq!(o.len, len);
            if self.class == Reliability::ReliableOrdered {
                assert_eq!(number, self.next, "in order");
            }
            self.next += 1;
            self.held.push((block, len));
        }
        taken
    }

    fn acked(&mut self, what: Next) {
        match what {
            Next::Skip { message, .. } => self.send.on_skip_acked(message),
            Next::Piece(p) => _ = self.send.on_acked(p.message, p.offset, p.len, Instant::ZERO),
        }
        self.settle();
    }

    fn lost(&mut self, what: Next) {
        match what {
            Next::Skip { message, .. } => self.send.on_skip_lost(message),
            Next::Piece(p) => self.send.on_lost(p.message, p.offset, p.len),
        }
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(settled) = self.send.pop_settled() {
            let (number, sent) = match settled {
                Settled::Sent { number, .. } => (number, true),
                Settled::Abandoned { number, .. } => (number, false),
            };
            let o = self.outcomes.get_mut(&number).unwrap();
            assert!(!o.sent && !o.abandoned, "the fate of {number} is told once");
            (o.sent, o.abandoned) = (sent, !sent);
            assert!(!sent || o.delivered || self.class == Reliability::ReliableOrdered);
        }
    }

    fn release(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let n = self.rng.below(self.held.len() as u64) as usize;
        let (block, len) = self.held.swap_remove(n);
        self.memory.release(block);
        self.receive.release(len);
    }

    /// The receiver tells its credit; the telling may be lost.
    fn renew(&mut self) {
        if self.receive.renewal() != Renewal::Later {
            let limit = self.receive.renew(Instant::ZERO);
            if self.rng.below(3) > 0 {
                self.send.set_limit(limit);
            }
        }
    }

    /// One of those under way; in half the runs never the oldest.
    fn take(list: &mut Vec<Next>, rng: &mut Rng, stuck: bool) -> Option<Next> {
        let spared = u64::from(stuck);
        let n = (list.len() as u64).checked_sub(spared).filter(|n| *n > 0)?;
        Some(list.swap_remove((spared + rng.below(n)) as usize))
    }

    fn step(&mut self) {
        match self.rng.below(12) {
            0 if (self.outcomes.len() as u64) < MESSAGES => self.push(),
            1..=3 => _ = self.emit(),
            4..=6 => {
                let Some(what) = Self::take(&mut self.flight, &mut self.rng, self.stuck) else {
                    return;
                };
                if self.rng.below(4) == 0 {
                    self.ghosts.push(what);
                }
                if self.arrive(what) { self.acked(what) } else { self.lost(what) }
            }
            7 => {
                let Some(what) = Self::take(&mut self.flight, &mut self.rng, self.stuck) else {
                    return;
                };
                if self.rng.below(2) == 0 {
                    self.ghosts.push(what);
                }
                self.lost(what);
            }
            8 => {
                let Some(what) = Self::take(&mut self.ghosts, &mut self.rng, false) else { return };
                if self.arrive(what) && self.rng.below(2) == 0 {
                    self.acked(what);
                }
            }
            9 if self.class == Reliability::Timely && !self.outcomes.is_empty() => {
                let number = self.rng.below(self.outcomes.len() as u64);
                if !number.is_multiple_of(4) {
                    self.send.expire(number);
                    self.settle();
                }
            }
            10 => self.release(),
            _ => self.renew(),
        }
    }

    /// From here on the network is perfect.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            while !self.held.is_empty() {
                self.release();
            }
            if self.receive.renewal() != Renewal::Later {
                self.receive.renew(Instant::ZERO);
            }
            self.send.set_limit(self.receive.renew(Instant::ZERO));
            self.send.copy_last_repairs();
            self.emit();
            let Some(what) = self.flight.pop() else {
                if self.send.is_idle() {
                    return;
                }
                continue;
            };
            if self.arrive(what) { self.acked(what) } else { self.lost(what) }
        }
        panic!("it comes to an end: {:?} {:?}", self.send, self.receive);
    }
}

proptest! {
    #[test]
    fn every_message_has_one_fate_and_all_credit_returns(class in 0..4usize, seed: u64) {
        let class = CLASSES[class];
        let mut pair = Pair::new(class, seed);
        for _ in 0..600 {
            pair.step();
        }
        pair.finish();
        let count = pair.outcomes.len() as u64;
        let delivered = pair.outcomes.values().filter(|o| o.delivered).count() as u64;
        let reliable = !matches!(class, Reliability::Timely | Reliability::Unreliable);
        for (number, o) in &pair.outcomes {
            prop_assert!(o.sent != o.abandoned, "{number} has a fate");
            prop_assert!(o.delivered || o.abandoned, "{number}: sent is delivered");
            prop_assert!(!reliable || o.sent);
        }
        // What is neither delivered nor skipped would hold memory and credit for ever.
        prop_assert_eq!(delivered + pair.skipped, count);
        let (charged, used) = (pair.send.charged(), pair.receive.used());
        prop_assert_eq!(used, (charged, charged), "charged and released there, charged here");
        prop_assert_eq!(pair.memory.used(), 0);
        for ghost in std::mem::take(&mut pair.ghosts) {
            prop_assert!(pair.arrive(ghost), "late copies are taken and change nothing");
        }
        prop_assert_eq!((pair.receive.used(), pair.memory.used()), ((charged, charged), 0));
        prop_assert_eq!(pair.receive.set_last(count), Ok(()));
        prop_assert!(pair.receive.ended());
    }
}
