//! Losses on a path that carries reserved data beside all else.
//!
//! Reserved datagrams have a mark by which switches put them first, so they overtake the others
//! without any being lost. Each kind keeps its own order, so each is overtaken by its own kind
//! alone: what counts for one is the largest of its kind that was acknowledged, and its kind's
//! round trips. Those in between are of both kinds, so only time says that one is lost (RFC 9002
//! §6.1.2).

use core::time::Duration;

use towpath_wire::Instant;

use super::losses::Losses;
use super::{Outcome, Path};
use crate::rtt::{GRANULARITY, Rtt};

/// Probe time-outs after which a packet is lost that none of its kind has overtaken.
const BEHIND: u32 = 2;

/// Of one kind.
#[derive(Clone, Copy, Debug)]
struct Kind {
    largest_acked: Option<u64>,
    rtt: Rtt,
    /// The last that was settled just now, and when it was sent.
    newest: Option<(u64, Instant)>,
    /// No packet of this kind before is under way.
    from: u64,
}

/// All others, and what is reserved.
#[derive(Debug)]
pub(super) struct Apart([Kind; 2]);

impl Apart {
    /// From the first reserved packet on, which has this number.
    pub(super) fn new(largest_acked: Option<u64>, rtt: Rtt, first: u64) -> Self {
        let others = Kind { largest_acked, rtt, newest: None, from: 0 };
        Self([others, Kind { largest_acked: None, from: first, ..others }])
    }

    /// We did not run until now.
    pub(super) fn slept(&mut self, now: Instant) {
        for kind in &mut self.0 {
            kind.rtt.slept(now);
        }
    }

    /// A packet was settled; later ones come later.
    pub(super) fn settled(&mut self, number: u64, sent: Instant, reserved: bool) {
        self.0[usize::from(reserved)].newest = Some((number, sent));
    }

    /// All that one acknowledgement settles was told.
    pub(super) fn conclude(&mut self, now: Instant) {
        for kind in &mut self.0 {
            let Some((number, sent)) = kind.newest.take() else { continue };
            if kind.largest_acked.is_none_or(|largest| number > largest) {
                kind.largest_acked = Some(number);
                if kind.rtt.counts(sent) {
                    kind.rtt.sample(now, now.since(sent), Duration::ZERO);
                }
            }
        }
    }
}

impl Path {
    /// Gives up what was overtaken by its own kind for too long.
    pub(super) fn detect_apart(&mut self, now: Instant, losses: &mut Losses, out: &mut Outcome) {
        for reserved in [false, true] {
            let Some(kind) =
                self.overtaking.apart.as_ref().map(|apart| apart.0[usize::from(reserved)])
            else {
                return;
            };
            let Some(all) = self.largest_acked else { return };
            // Behind the last of its kind that arrived only the other kind has: that overtakes by
            // its mark, and probes are not sent while it goes on.
            let behind = kind.rtt.probe_timeout(self.ack_rate.delay()) * BEHIND;
            let delay = self.overtaking.reordering.delay(&kind.rtt);
            let (mut from, mut stays) = (kind.from, None);
            losses.from = from;
            // The others are in between.
            while let Some((number, s)) = self.flight.outstanding(from, all) {
                from = number + 1;
                if s.reserved != reserved {
                    continue;
                }
                let overtaken = kind.largest_acked.is_some_and(|top| number < top);
                let delay = if overtaken { delay } else { behind.max(delay) };
                if s.at + delay > now {
                    let at = s.at + delay.max(GRANULARITY);
                    self.loss_at = Some(self.loss_at.map_or(at, |other| other.min(at)));
                    stays = Some(number);
                    break;
                }
                self.lose(now, (number, s), losses, out);
            }
            let from = stays.unwrap_or(all + 1);
            if let Some(apart) = &mut self.overtaking.apart {
                apart.0[usize::from(reserved)].from = from;
            }
        }
        // What is oldest is looked for from there on.
        let _ = self.flight.outstanding(0, self.flight.next());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack_words, at, path};
    use super::super::{Departure, Outcome, Path};

    const DATAGRAM: u32 = 1400;

    fn send(path: &mut Path, ms: u64, reserved: bool) {
        let departure =
            Departure { bytes: DATAGRAM, eliciting: true, reserved, ..Departure::at(at(ms)) };
        path.depart(departure, &[]);
    }

    #[test]
    fn what_overtakes_by_its_mark_loses_nothing_and_what_its_own_kind_overtakes_is_lost() {
        let mut path = path();
        // Numbers 0 to 19: every other one is reserved.
        for n in 0..20 {
            send(&mut path, n, n % 2 == 1);
        }
        // All reserved ones arrive, over 5 ms; the others wait in a queue.
        let out = ack_words(&mut path, at(24), 19, 0x55555);
        assert_eq!(out.packets_lost, 0, "they keep their own order");
        let behind = path.loss_at.expect("they are looked at, though none of their kind came");
        assert!(behind > at(50), "{behind}");
        // Of the first four of these all but the second arrive, the last after 44 ms.
        let out = ack_words(&mut path, at(50), 19, 0x55555 | 1 << 19 | 1 << 15 | 1 << 13);
        assert_eq!(out.packets_lost, 0);
        let due = path.loss_at.expect("one of its kind has overtaken number 2");
        assert!(due > at(50) && due < at(60), "{due}: 9/8 of a round trip of 44 ms after 2");
        let mut out = Outcome::default();
        path.detect_losses(due, &mut out);
        assert_eq!(out.packets_lost, 1);
        // One that no other of its kind comes behind is lost, too, however many reserved ones do.
        let _ = ack_words(&mut path, at(60), 19, 0xfffff);
        send(&mut path, 70, false);
        for n in 21..30 {
            send(&mut path, 50 + n, true);
        }
        let out = ack_words(&mut path, at(84), 29, 0x1ff);
        assert_eq!(out.packets_lost, 0);
        let due = path.loss_at.expect("it is looked at then");
        assert!(due > at(84) && due < at(800), "{due}");
        let mut out = Outcome::default();
        path.detect_losses(due, &mut out);
        assert_eq!((out.packets_lost, path.flight.bytes()), (1, 0), "nothing is under way");
    }

    #[test]
    fn a_reserved_one_that_is_missing_is_lost_by_its_own_kinds_trips() {
        let mut path = path();
        (0..20).for_each(|n| send(&mut path, n, n % 2 == 1));
        let _ = ack_words(&mut path, at(24), 19, 0x55555);
        // A reserved one that is missing is lost by its own kind's round trips.
        for n in 20..24 {
            send(&mut path, 100 + n, true);
        }
        let out = ack_words(&mut path, at(125), 23, 0b1011);
        assert_eq!(out.packets_lost, 0);
        assert!(path.loss_at.expect("number 21 is late") < at(140));
    }

    #[test]
    fn a_path_without_reserved_data_keeps_nothing_of_this() {
        let mut path = path();
        (0..5).for_each(|n| send(&mut path, n, false));
        assert!(path.overtaking.apart.is_none());
        let out = ack_words(&mut path, at(20), 4, 0b01111);
        assert_eq!(out.packets_lost, 1, "three have overtaken it");
    }
}
