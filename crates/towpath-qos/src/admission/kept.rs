//! Reservations that outlive their table: what has to be kept of each, and how it is taken up.
//!
//! Budgets depend on what was reserved when they were fixed, so admitting the same requests again
//! in another order gives others. What is kept is the request and, for each hop, what was chosen
//! there; everything else follows, and is looked at again.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::decide::check_request;
use super::ledger::{Admission, Channel};
use super::plan::Ask;
use super::port::{Slot, SlotKind};
use super::request::{Request, ReservationId};
use crate::topology::HOPS_MAX;

/// What was chosen for a reservation with a bound at one hop of its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptHop {
    /// Queueing and transmission at most, in ns.
    pub budget_ns: u64,
    /// Priority level, where the scheduler has them.
    pub level: u8,
    /// Rate reserved here, in bit/s.
    pub rate_bps: u64,
    /// Where the port's test has its points, in ns.
    pub at_ns: [u64; 3],
}

impl Admission {
    /// What has to be kept of a reservation beside its request, hop by hop; `None` where there is
    /// none of this id.
    pub fn kept(&self, id: ReservationId) -> Option<Vec<KeptHop>> {
        let (_, channel) = self.find(id)?;
        let hop = |slot: &Slot| KeptHop {
            budget_ns: slot.budget_ns,
            level: slot.level,
            rate_bps: slot.rate_bps,
            at_ns: slot.pieces.map(|piece| piece.at_ns),
        };
        Some(channel.slots.iter().map(hop).collect())
    }

    /// Takes a reservation with a bound up again, as it was promised: nothing is decided anew.
    /// `None` where it does not follow from its request and what was kept, or where what is there
    /// beside it leaves no room for that.
    pub fn readmit(&mut self, request: &Request, hops: &[KeptHop]) -> Option<ReservationId> {
        let ask = Ask::of(request);
        let mut route = [0_u32; HOPS_MAX];
        let route = check_request(&self.topology, &ask, &mut route).ok()?;
        if hops.len() != route.len() || !self.has_room() {
            return None;
        }
        let rate_bps = ask.load.rate_bps();
        for &port in route {
            let state = self.network.port(port);
            state.check_rate(rate_bps, ask.load.packet_bits).ok()?;
            state.check_turns(rate_bps).ok()?;
            if rate_bps > self.network.free_fabric_bps(port) {
                return None;
            }
        }
        let promised = |(hop, port): (&KeptHop, &u32)| {
            let mut pieces = <[super::profile::Piece; 3]>::default();
            for (piece, at_ns) in pieces.iter_mut().zip(hop.at_ns) {
                piece.at_ns = at_ns;
            }
            Slot {
                port: *port,
                level: hop.level,
                kind: SlotKind::Bounded,
                budget_ns: hop.budget_ns,
                jitter_ns: 0,
                rate_bps: hop.rate_bps,
                memory_bits: 0,
                pieces,
            }
        };
        let promised: Vec<Slot> = hops.iter().zip(route).map(promised).collect();
        let mut slots = Vec::with_capacity(route.len());
        let totals = self.network.replan(&ask, route, &promised, &mut slots)?;
        self.network.cpu(ask.from).check(totals.source_work).ok()?;
        self.network.cpu(ask.to).check(totals.destination_work).ok()?;
        let (owner, lease) = (request.owner, request.lease);
        let slots = slots.into();
        let again = Channel { owner, ask, totals, slots, lease, drains: None, shrinks: None };
        let id = self.insert(again);
        if route.iter().any(|&port| !self.network.port(port).holds_true()) {
            self.end(id);
            return None;
        }
        Some(id)
    }

    /// Ends a reservation at once: for who knows that nothing of it is on its way any more.
    pub fn end(&mut self, id: ReservationId) {
        if let Some((place, _)) = self.find(id) {
            self.release(place);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::format_push_string, reason = "a test's topology, written once")]

    use core::time::Duration;
    use std::format;
    use std::string::String;

    use proptest::prelude::*;
    use towpath_wire::{ByteSize, Instant};

    use super::super::Wish;
    use super::*;
    use crate::spec::wire::Demand;
    use crate::spec::{Bucket, Buckets};
    use crate::topology::{NodeId, Topology};

    /// Four hosts around two switches.
    fn net(scheduler: &str) -> Topology {
        let mut text = String::new();
        for (kind, name) in ["h0", "h1", "h2", "h3"]
            .map(|h| ("host", h))
            .into_iter()
            .chain([("switch", "s0"), ("switch", "s1")])
        {
            text += &format!("[[{kind}]]\nname = \"{name}\"\nscheduler = {scheduler}\n");
        }
        for (a, b) in [("h0", "s0"), ("h1", "s0"), ("h2", "s1"), ("h3", "s1"), ("s0", "s1")] {
            text += &format!("[[link]]\nends = [\"{a}\", \"{b}\"]\nrate_bps = 100_000_000\n");
        }
        Topology::parse(&text).expect("valid")
    }

    fn request(from: u32, to: u32, (burst, rate_bps, delay_us): (u64, u64, u64)) -> Request {
        let packet = ByteSize::from_bytes(1500);
        let buckets = Buckets::one(Bucket { burst_bits: 12_000 + burst, rate_bps });
        let demand = Demand::of_wire(buckets, ByteSize::from_bytes(84), packet);
        let wish = Wish::Bounded { delay: Duration::from_micros(delay_us), jitter: None };
        let (from, to) = (NodeId(from), NodeId(to));
        Request { owner: 1, from, to, demand, wish, lease: Instant::NEVER }
    }

    proptest! {
        /// In whatever order: what is taken up again is what was promised, and what is asked for
        /// next is decided alike.
        #[test]
        fn what_is_kept_is_taken_up_again_as_it_was(
            scheduler in prop::sample::select(std::vec![
                "\"edf\"", "\"jitter-edf\"", "\"fcfs\"", "\"static-priority\"", "\"rcsp\"",
                "\"hfsc\"", "\"wfq\"", "\"drr\"",
            ]),
            asked in proptest::collection::vec(
                (0..4u32, 0..4u32, (0..60_000u64, 64_000..30_000_000u64, 300..60_000u64)), 1..24,
            ),
            ended in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
            turned in any::<bool>(),
        ) {
            let mut first = Admission::new(net(scheduler));
            let mut held = Vec::new();
            for (from, to, terms) in &asked {
                let request = request(*from, *to, *terms);
                if let Ok(admitted) = first.admit(&request) {
                    held.push((admitted.id, request));
                }
            }
            for which in ended {
                if !held.is_empty() {
                    first.end(held.swap_remove(which.index(held.len())).0);
                }
            }
            let all = held.iter();
            let mut kept: Vec<_> =
                all.map(|(id, asked)| (*id, *asked, first.kept(*id).unwrap())).collect();
            if turned {
                kept.reverse();
            }
            let mut second = Admission::new(net(scheduler));
            for (id, request, hops) in &kept {
                let again = second.readmit(request, hops);
                prop_assert!(again.is_some(), "{request:?} {hops:?}");
                let again = again.unwrap();
                let [was, is] = [first.promise(*id), second.promise(again)].map(Option::unwrap);
                prop_assert_eq!((was.delay_ns, was.hops), (is.delay_ns, is.hops));
            }
            prop_assert_eq!(second.recompute(), Ok(()));
            prop_assert_eq!(&first.network, &second.network);
            for (from, to, terms) in asked {
                let next = request(from, to, terms);
                prop_assert_eq!(first.what_if(&next), second.what_if(&next));
            }
        }
    }

    #[test]
    fn what_does_not_follow_from_its_request_is_not_taken_up() {
        let mut admission = Admission::new(net("\"edf\""));
        let asked = request(0, 3, (0, 1_000_000, 10_000));
        let id = admission.admit(&asked).expect("an empty network").id;
        let hops = admission.kept(id).expect("reserved");
        admission.end(id);
        assert_eq!((admission.kept(id), admission.len()), (None, 0));
        assert_eq!(admission.readmit(&asked, &hops[1..]), None, "a hop is missing");
        let mut longer = hops.clone();
        longer[1].budget_ns += 10_000_000;
        assert_eq!(admission.readmit(&asked, &longer), None, "more than was asked for");
        let mut sooner = hops.clone();
        sooner[1].budget_ns = 0;
        assert_eq!(admission.readmit(&asked, &sooner), None, "the points are behind the budget");
        assert!(admission.readmit(&asked, &hops).is_some());
        assert_eq!(admission.recompute(), Ok(()));
    }
}
