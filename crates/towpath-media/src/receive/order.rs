//! Datagrams in the order of their numbers.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use serde::Serialize;
use towpath_wire::Instant;

/// Datagrams that wait for an earlier one at most.
pub const HELD_MAX: usize = 128;
/// A number so far from the expected one is of another numbering, if the next one follows it
/// (RFC 3550 appendix A.1).
const FAR: u16 = 1000;
/// Numbers of which it is known whether they came.
const KNOWN: usize = 2048;

/// What happened to datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OrderCounters {
    /// Given up: they did not come in time.
    pub lost: u64,
    /// Came again.
    pub duplicates: u64,
    /// Came after they had been given up.
    pub late: u64,
    /// Came before an earlier one.
    pub reordered: u64,
    /// Times that a sender began anew.
    pub restarts: u64,
    /// Of a numbering that nobody follows.
    pub strays: u64,
}

/// Puts datagrams in order.
///
/// Invariant: what is held is ahead of `next`, at most [`HELD_MAX`] of it, and `next` itself is
/// not held.
#[derive(Debug)]
pub struct Order {
    patience: Duration,
    source: Option<u32>,
    next: u16,
    /// By distance from the first number ever, so that it does not wrap.
    held: BTreeMap<u64, (Instant, Vec<u8>)>,
    /// `next` in the same measure.
    at: u64,
    came: [u64; KNOWN / 64],
    /// The last number of another numbering.
    stray: Option<(u32, u16)>,
    counters: OrderCounters,
}

impl Order {
    /// Waits so long for a datagram that others overtook.
    pub const fn new(patience: Duration) -> Self {
        Self {
            patience,
            source: None,
            next: 0,
            held: BTreeMap::new(),
            at: 0,
            came: [0; KNOWN / 64],
            stray: None,
            counters: OrderCounters {
                lost: 0,
                duplicates: 0,
                late: 0,
                reordered: 0,
                restarts: 0,
                strays: 0,
            },
        }
    }

    /// Takes a datagram of `source` with its number; hands on what is in order now. Gives whether
    /// the datagram counts for its source's statistics.
    pub fn take(
        &mut self,
        now: Instant,
        (source, number): (u32, u16),
        payload: &[u8],
        deliver: &mut impl FnMut(&[u8]),
    ) -> bool {
        let ahead = number.wrapping_sub(self.next);
        let far = (FAR..=u16::MAX - FAR).contains(&ahead);
        if self.source.is_none() {
            self.begin(source, number);
        } else if self.source != Some(source) || far {
            let follows = self.stray == Some((source, number.wrapping_sub(1)));
            self.stray = Some((source, number));
            if !follows {
                self.counters.strays += 1;
                return false;
            }
            self.drain(deliver);
            self.counters.restarts += 1;
            self.begin(source, number);
        }
        self.stray = None;
        let ahead = number.wrapping_sub(self.next).cast_signed();
        let place = self.at.wrapping_add_signed(ahead.into());
        if ahead < 0 {
            let known = self.came(place);
            self.counters.duplicates += u64::from(known);
            self.counters.late += u64::from(!known);
            let bit = place as usize % KNOWN;
            self.came[bit / 64] |= 1 << (bit % 64);
            return false;
        }
        if ahead > 0 {
            if self.held.contains_key(&place) {
                self.counters.duplicates += 1;
                return false;
            }
            self.held.insert(place, (now, payload.to_vec()));
            if self.held.len() > HELD_MAX {
                self.give_up(deliver);
            }
            return true;
        }
        self.counters.reordered += u64::from(!self.held.is_empty());
        self.pass(true);
        deliver(payload);
        self.follow(deliver);
        true
    }

    fn begin(&mut self, source: u32, number: u16) {
        self.source = Some(source);
        self.next = number;
        self.at += KNOWN as u64;
        self.came = [0; KNOWN / 64];
    }

    fn came(&self, place: u64) -> bool {
        let bit = place as usize % KNOWN;
        self.came[bit / 64] >> (bit % 64) & 1 != 0
    }

    /// The next number is done with.
    fn pass(&mut self, came: bool) {
        let bit = self.at as usize % KNOWN;
        let word = &mut self.came[bit / 64];
        *word = *word & !(1 << (bit % 64)) | u64::from(came) << (bit % 64);
        self.at += 1;
        self.next = self.next.wrapping_add(1);
    }

    fn follow(&mut self, deliver: &mut impl FnMut(&[u8])) {
        while let Some((_, payload)) = self.held.remove(&self.at) {
            self.pass(true);
            deliver(&payload);
        }
    }

    /// What is missing before the first that is held is lost.
    fn give_up(&mut self, deliver: &mut impl FnMut(&[u8])) {
        let Some((&first, _)) = self.held.first_key_value() else { return };
        self.counters.lost += first - self.at;
        while self.at < first {
            self.pass(false);
        }
        self.follow(deliver);
    }

    fn drain(&mut self, deliver: &mut impl FnMut(&[u8])) {
        while !self.held.is_empty() {
            self.give_up(deliver);
        }
    }

    /// Gives up what was waited for long enough.
    pub fn handle_timeout(&mut self, now: Instant, deliver: &mut impl FnMut(&[u8])) {
        while self.poll_timeout().is_some_and(|due| due <= now) {
            self.give_up(deliver);
        }
    }

    /// Nothing more comes: what is held is all there is.
    pub fn finish(&mut self, deliver: &mut impl FnMut(&[u8])) {
        self.drain(deliver);
    }

    /// When something is given up next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let (_, (came, _)) = self.held.first_key_value()?;
        Some(*came + self.patience)
    }

    /// What happened so far.
    pub const fn counters(&self) -> &OrderCounters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const PATIENCE: Duration = Duration::from_millis(30);

    fn run(numbers: &[(u64, u16)]) -> (Vec<u16>, OrderCounters) {
        let mut order = Order::new(PATIENCE);
        let mut out = vec![];
        let mut deliver = |bytes: &[u8]| out.push(u16::from_be_bytes([bytes[0], bytes[1]]));
        for &(ms, number) in numbers {
            let now = Instant::from_nanos(ms * 1_000_000);
            order.handle_timeout(now, &mut deliver);
            order.take(now, (1, number), &number.to_be_bytes(), &mut deliver);
        }
        order.finish(&mut deliver);
        (out, *order.counters())
    }

    #[test]
    fn a_gap_is_waited_for_and_then_lost() {
        let (out, counters) =
            run(&[(0, 65_534), (1, 65_535), (2, 1), (10, 0), (20, 3), (49, 4), (51, 5), (52, 2)]);
        assert_eq!(out, [65_534, 65_535, 0, 1, 3, 4, 5]);
        let expected = OrderCounters { lost: 1, late: 1, reordered: 1, ..Default::default() };
        assert_eq!(counters, expected);
    }

    #[test]
    fn another_numbering_counts_once_two_follow_each_other() {
        let (out, counters) = run(&[(0, 5), (1, 6), (2, 30_000), (3, 7), (4, 40_000), (5, 40_001)]);
        assert_eq!(out, [5, 6, 7, 40_001]);
        let expected = OrderCounters { strays: 2, restarts: 1, ..Default::default() };
        assert_eq!(counters, expected);
    }

    proptest! {
        /// Whatever comes twice or late, everything that came goes out once and in order.
        #[test]
        fn once_and_in_order(
            start: u16,
            swaps in prop::collection::vec((0usize..200, 0usize..20), 0..40),
            twice in prop::collection::vec(0usize..200, 0..20),
            gone in prop::collection::btree_set(1usize..200, 0..20),
        ) {
            let mut numbers: Vec<u16> = (0..200u16).map(|k| start.wrapping_add(k)).collect();
            let kept: Vec<u16> = numbers
                .iter()
                .enumerate()
                .filter(|(k, _)| !gone.contains(k))
                .map(|(_, number)| *number)
                .collect();
            numbers.clone_from(&kept);
            for (at, by) in swaps {
                let (at, to) = (1 + at % (numbers.len() - 1), 1 + (at + by) % (numbers.len() - 1));
                numbers.swap(at, to);
            }
            for at in twice {
                let number = numbers[at % numbers.len()];
                numbers.push(number);
            }
            let timed: Vec<_> = numbers.iter().map(|number| (0, *number)).collect();
            let (out, counters) = run(&timed);
            let place = |number: &u16| number.wrapping_sub(start);
            prop_assert!(out.windows(2).all(|pair| place(&pair[0]) < place(&pair[1])));
            prop_assert_eq!(out.len() as u64 + counters.late, kept.len() as u64);
            if counters.late == 0 {
                prop_assert_eq!(out, kept);
            }
        }
    }
}
