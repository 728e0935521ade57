//! The nearest request that passes, as whoever asked would ask for it.

use alloc::vec::Vec;

use towpath_wire::units::nanos;

use super::ledger::{Admission, place_of};
use super::plan::Ask;
use super::refusal::{Nearest, Refusal, Shortage};
use super::request::{Request, Wish};
use crate::spec::limits::INTERVAL_NS_MAX;
use crate::spec::wire::Demand;

/// The least part of 1024.
const LEAST: u32 = 1;

impl Admission {
    /// What a refusal names, as it is asked for: `share(parts)` is the demand of so many parts of
    /// 1024 of the traffic in the units in which it was written, rounded as they are. That is
    /// decided before it is said. Where rounding makes it miss, so are smaller parts, ever further
    /// apart, then the same with a later bound; if none passes, the refusal names none.
    ///
    /// `set` is what was refused together, `refused` the place in it of the request that did not
    /// pass; only that one changes. To be asked for before anything else is admitted.
    pub fn tell(
        &mut self,
        set: &[Request],
        refused: usize,
        refusal: &mut Refusal,
        share: &dyn Fn(u32) -> Option<Demand>,
    ) {
        // The tables are full: no traffic is small enough.
        if matches!(refusal.shortage, Shortage::Channels { .. }) {
            return;
        }
        let asked = set[refused];
        let mut told = Told { admission: self, set: set.to_vec(), refused };
        let named = match refusal.nearest {
            Some(named @ (Nearest::DelayNs(_) | Nearest::JitterNs(_))) => {
                let same = Request { wish: wished(asked.wish, named), ..asked };
                told.passes(&same).then_some(named)
            }
            Some(Nearest::Scaled { parts, .. }) => told.less(&asked, parts, share),
            Some(Nearest::ScaledDelayNs { parts, .. }) => told.later(&asked, parts, share),
            // In these units the least part may be less: its packets may be smaller.
            None if refusal.nothing_passes => told.later(&asked, LEAST, share),
            None => None,
        };
        refusal.nothing_passes &= named.is_none();
        refusal.nearest = named;
    }
}

/// The wish with the bound that is named.
fn wished(wish: Wish, named: Nearest) -> Wish {
    let ns = core::time::Duration::from_nanos;
    match (wish, named) {
        (Wish::Bounded { jitter, .. }, Nearest::DelayNs(delay_ns))
        | (Wish::Bounded { jitter, .. }, Nearest::ScaledDelayNs { delay_ns, .. }) => {
            Wish::Bounded { delay: ns(delay_ns), jitter }
        }
        (Wish::Bounded { delay, .. }, Nearest::JitterNs(jitter_ns)) => {
            Wish::Bounded { delay, jitter: Some(ns(jitter_ns)) }
        }
        (wish, _) => wish,
    }
}

/// A set of which one member is replaced, and decided anew.
struct Told<'a> {
    admission: &'a mut Admission,
    set: Vec<Request>,
    refused: usize,
}

/// `parts` and below, ever further apart.
fn falling(parts: u32) -> impl Iterator<Item = u32> {
    let steps = (0..u32::BITS).map(|k| (1 << k) >> 1);
    steps.map_while(move |step| parts.checked_sub(step)).filter(|parts| *parts > 0)
}

impl Told<'_> {
    fn passes(&mut self, instead: &Request) -> bool {
        self.set[self.refused] = *instead;
        if let [one] = self.set.as_slice() {
            let (admission, ask) = (&mut *self.admission, Ask::of(one));
            let (network, topology) = (&admission.network, &admission.topology);
            return network.decide(topology, &ask, &mut admission.scratch).is_ok();
        }
        let Ok(admitted) = self.admission.admit_all(&self.set) else { return false };
        for answer in admitted {
            self.admission.release(place_of(answer.id));
        }
        true
    }

    /// Less traffic under the same bound; under a later one where that fails.
    fn less(
        &mut self,
        asked: &Request,
        parts: u32,
        share: &dyn Fn(u32) -> Option<Demand>,
    ) -> Option<Nearest> {
        let found = falling(parts).find_map(|parts| {
            let demand = share(parts)?;
            self.passes(&Request { demand, ..*asked }).then_some((parts, demand))
        });
        if let Some((parts, demand)) = found {
            return Some(Nearest::Scaled { parts, rate_bps: demand.buckets.sustained_bps() });
        }
        self.later(asked, parts, share)
    }

    /// Less traffic under a later bound: the least that is known to pass.
    fn later(
        &mut self,
        asked: &Request,
        parts: u32,
        share: &dyn Fn(u32) -> Option<Demand>,
    ) -> Option<Nearest> {
        let Wish::Bounded { delay, .. } = asked.wish else { return None };
        let least = |parts, delay_ns, demand: &Demand| Nearest::ScaledDelayNs {
            parts,
            rate_bps: demand.buckets.sustained_bps(),
            delay_ns,
        };
        let (parts, demand) = falling(parts).find_map(|parts| {
            let demand = share(parts)?;
            let wish = wished(asked.wish, least(parts, INTERVAL_NS_MAX, &demand));
            self.passes(&Request { demand, wish, ..*asked }).then_some((parts, demand))
        })?;
        let of = |delay_ns| least(parts, delay_ns, &demand);
        let with = |delay_ns| Request { demand, wish: wished(asked.wish, of(delay_ns)), ..*asked };
        // No later than it must be: the least of an empty set, or a bisection.
        let soon = self.soonest(&with(INTERVAL_NS_MAX));
        if let Some(soon) = soon.filter(|soon| self.passes(&with(*soon))) {
            return Some(of(soon));
        }
        let (mut low, mut high) = (nanos(delay).min(INTERVAL_NS_MAX), INTERVAL_NS_MAX);
        while high - low > high / 1024 + 1 {
            let middle = low.midpoint(high);
            if self.passes(&with(middle)) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(of(high))
    }

    /// The least bound of a request beside what is reserved now.
    fn soonest(&mut self, request: &Request) -> Option<u64> {
        let (admission, ask) = (&mut *self.admission, Ask::of(request));
        let (network, topology) = (&admission.network, &admission.topology);
        network.least_delay_ns(topology, &ask, &mut admission.scratch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn parts_fall_ever_further() {
        assert_eq!(falling(10).collect::<Vec<_>>(), [10, 9, 8, 6, 2]);
        assert_eq!(falling(1).collect::<Vec<_>>(), [1]);
    }
}
