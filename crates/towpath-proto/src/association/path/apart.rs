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
            let Some(top) = kind.largest_acked else { continue };
            let delay = self.overtaking.reordering.delay(&kind.rtt);
            let mut from = kind.from;
            losses.from = from;
            // The others are in between.
            while let Some((number, s)) = self.flight.outstanding(from, top) {
                from = number + 1;
                if s.reserved != reserved {
                    continue;
                }
                if s.at + delay > now {
                    let at = s.at + delay.max(GRANULARITY);
                    self.loss_at = Some(self.loss_at.map_or(at, |other| other.min(at)));
                    from = number;
                    break;
                }
                self.lose(now, (number, s), losses, out);
            }
            if let Some(apart) = &mut self.overtaking.apart {
                apart.0[usize::from(reserved)].from = from;
            }
        }
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
        assert_eq!(path.loss_at, None, "none of their kind has overtaken them");
        // Of the first four of these all but the second arrive, the last after 44 ms.
        let out = ack_words(&mut path, at(50), 19, 0x55555 | 1 << 19 | 1 << 15 | 1 << 13);
        assert_eq!(out.packets_lost, 0);
        let due = path.loss_at.expect("one of its kind has overtaken number 2");
        assert!(due > at(50) && due < at(60), "{due}: 9/8 of a round trip of 44 ms after 2");
        let mut out = Outcome::default();
        path.detect_losses(due, &mut out);
        assert_eq!(out.packets_lost, 1);
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
