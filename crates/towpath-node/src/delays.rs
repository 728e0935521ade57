//! How long messages of a channel take.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

use towpath_vm::channel::Took;
use towpath_wire::Instant;
use towpath_wire::histogram::Histogram;
use towpath_wire::units::nanos;

/// One channel's: from the moment that the transport has a message to that at which it arrived, by
/// our estimate: half the least round trip before we hear of it, so never too early. Bounded by
/// what the transport keeps of a channel; the distribution comes with the first message that
/// arrives, so that idle channels have none.
///
/// Invariant: `sent` has the messages from `first` on that the transport has; [`Instant::NEVER`]
/// stands for one that is settled while older ones are not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays {
    first: u64,
    sent: VecDeque<Instant>,
    seen: Option<Box<Histogram>>,
}

impl Delays {
    /// The transport has the message of this number.
    pub(crate) fn departs(&mut self, number: u64, now: Instant) {
        if number != self.first + self.sent.len() as u64 {
            // Some went past us: of those before nothing is known.
            self.sent.clear();
            self.first = number;
        }
        self.sent.push_back(now);
    }

    /// A message is settled: it `arrived`, or was given up. `trip`: the least round trip of its
    /// connection.
    pub(crate) fn settled(&mut self, number: u64, now: Instant, trip: Duration, arrived: bool) {
        let index = number.checked_sub(self.first).and_then(|n| usize::try_from(n).ok());
        let Some(at) = index.and_then(|index| self.sent.get_mut(index)) else { return };
        let at = core::mem::replace(at, Instant::NEVER);
        while self.sent.pop_front_if(|at| *at == Instant::NEVER).is_some() {
            self.first += 1;
        }
        if arrived && at != Instant::NEVER {
            let took = now.as_nanos().saturating_sub(at.as_nanos());
            let seen = self.seen.get_or_insert_default();
            seen.record(took.saturating_sub(nanos(trip) / 2) / 1000);
        }
    }

    /// Messages that the transport has.
    pub(crate) fn waiting(&self) -> usize {
        self.sent.iter().filter(|at| **at != Instant::NEVER).count()
    }

    /// The same in short.
    pub(crate) fn took(&self) -> Option<Took> {
        let seen = self.seen()?;
        let of = |per_mille| Duration::from_micros(seen.quantile(per_mille));
        Some(Took { p50: of(500), p99: of(990), most: of(1000) })
    }

    /// How long those took that arrived; `None`: none did.
    pub(crate) fn seen(&self) -> Option<&Histogram> {
        self.seen.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_micros(20);

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    fn counted(delays: &Delays) -> (u64, u64) {
        delays.seen().map_or((0, 0), |seen| (seen.count(), seen.sum()))
    }

    #[test]
    fn a_message_took_until_half_a_round_trip_before_we_hear_of_it() {
        let mut delays = Delays::default();
        assert!(delays.seen().is_none(), "an idle channel costs nothing");
        delays.departs(0, at(100));
        delays.departs(1, at(110));
        delays.settled(0, at(150), TRIP, true);
        assert_eq!((counted(&delays), delays.waiting()), ((1, 40), 1));
        delays.settled(1, at(115), TRIP, true);
        assert_eq!((counted(&delays), delays.waiting()), ((2, 40), 0), "never less than nothing");
    }

    #[test]
    fn what_is_given_up_or_settled_out_of_order_is_no_other_message_s_delay() {
        let mut delays = Delays::default();
        (0..4).for_each(|n| delays.departs(n, at(n * 10)));
        delays.settled(2, at(60), TRIP, true);
        assert_eq!((counted(&delays), delays.waiting()), ((1, 30), 3));
        delays.settled(0, at(70), TRIP, false);
        delays.settled(0, at(80), TRIP, true);
        delays.settled(9, at(80), TRIP, true);
        assert_eq!(counted(&delays), (1, 30), "once each, and only what was sent");
        delays.settled(1, at(100), TRIP, true);
        delays.settled(3, at(100), TRIP, true);
        assert_eq!((counted(&delays), delays.waiting()), ((3, 170), 0));
        assert!(delays.sent.is_empty());
        // Others went by the same channel meanwhile.
        delays.departs(9, at(200));
        delays.settled(9, at(230), TRIP, true);
        assert_eq!(counted(&delays), (4, 190));
    }
}
