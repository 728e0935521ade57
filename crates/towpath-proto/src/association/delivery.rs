//! How much was delivered, and whether it was the window that held the sender back.
//!
//! Each packet remembers how much had been delivered when it was sent: what is delivered until
//! its acknowledgement is a round trip's worth.

use core::time::Duration;

use towpath_wire::Instant;

use crate::recent::Recent;

/// The rate of a path is the best of so many round trips, ...
const RATE_TRIPS: u32 = 10;
/// ... or of this long.
const RATE_SPAN: Duration = Duration::from_millis(200);

/// What a packet remembers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    delivered: u64,
    /// The window held the sender back.
    limited: bool,
    /// As much was under way as was allowed, more or less: what arrives until its acknowledgement
    /// is what the path can deliver.
    filled: bool,
}

/// What the packets settled by one acknowledgement say together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub(crate) bytes: u64,
    /// When the newest of them was sent.
    pub(crate) newest: Instant,
    /// That one had counted as lost.
    pub(crate) late: bool,
    pub(crate) limited: bool,
    /// As much was under way as was allowed when the newest left.
    pub(crate) filled: bool,
    pub(crate) delivered: u64,
    pub(crate) prior_delivered: u64,
}

/// Whether a rate grows (BBR's start-up, Cardwell et al. 2016: full where three round trips in a
/// row brought less than a quarter more).
#[derive(Clone, Copy, Debug)]
struct Growth {
    /// The rate when it grew last.
    base: u64,
    /// Round trips since.
    stalled: u8,
    /// The present round trip ends when so much is delivered that was sent since it began.
    ends: u64,
}

impl Growth {
    const STALLED: u8 = 3;

    const fn new() -> Self {
        Self { base: 0, stalled: 0, ends: 0 }
    }

    const fn learn(&mut self, settled: &Settled, rate: u64) {
        if settled.prior_delivered < self.ends || self.stalled >= Self::STALLED {
            return;
        }
        self.ends = settled.delivered;
        if rate >= self.base + self.base / 4 {
            (self.base, self.stalled) = (rate, 0);
        } else {
            self.stalled += 1;
        }
    }
}

/// Invariant: `settled` is set between the first packet that an acknowledgement settles and
/// [`Delivery::conclude`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// Bytes of datagrams sent, and how many of these counted as lost.
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    /// Bytes per second, the best of late.
    rate: Recent<u64>,
    growth: Growth,
    /// Bytes that it delivers at that rate in its least round trip.
    held: u64,
    delivered: u64,
    /// The application had too little to send, until so much is delivered; 0: it has enough.
    starved_until: u64,
    settled: Option<Settled>,
}

impl Delivery {
    pub(crate) const fn new() -> Self {
        let rate = Recent::new(RATE_SPAN);
        let growth = Growth::new();
        let (sent, lost, held, delivered) = (0, 0, 0, 0);
        Self { sent, lost, rate, growth, held, delivered, starved_until: 0, settled: None }
    }

    /// Bytes per second that the path has delivered, at its best of late; zero before one is known.
    pub(crate) fn rate(&self) -> u64 {
        self.rate.get().unwrap_or(0)
    }

    /// What was known of its rate may not be true any more.
    pub(crate) const fn forget_rate(&mut self) {
        (self.rate, self.growth) = (Recent::new(RATE_SPAN), Growth::new());
    }

    /// The rate still grew in the last three round trips in which the path was filled: there may be
    /// more to be had.
    pub(crate) const fn grows(&self) -> bool {
        self.growth.stalled < Growth::STALLED
    }

    /// Bytes that may be under way beside other paths: a quarter more than the path holds by
    /// itself, once that is known.
    pub(crate) const fn most(&self) -> u64 {
        if self.grows() { u64::MAX } else { self.held + self.held / 4 }
    }

    /// Learns from an acknowledgement how fast the path delivers: what arrived between the
    /// departure of its newest packet and now. Of one that was not filled it says only that the
    /// path is no slower. `trip`: the least round trip, the peer's wait in it.
    pub(crate) fn learn(&mut self, now: Instant, settled: &Settled, trip: Duration) {
        let time = now.since(settled.newest).as_nanos().max(1) as u64;
        let bytes = settled.delivered - settled.prior_delivered;
        let rate = bytes.saturating_mul(1_000_000_000) / time;
        if settled.filled || rate >= self.rate() {
            self.rate.set_span(RATE_SPAN.max(trip * RATE_TRIPS));
            self.rate.take(now, rate);
        }
        self.held = self.rate().saturating_mul(trip.as_micros() as u64) / 1_000_000;
        if settled.filled {
            self.growth.learn(settled, self.rate());
        }
    }

    /// What a packet sent now remembers, which makes `in_flight` bytes of a window under way.
    pub(crate) const fn stamp(&self, in_flight: u64, window: u64) -> Stamp {
        let enough = self.starved_until == 0;
        let limited = 2 * in_flight >= window && enough;
        let most = self.most();
        let filled = enough && (limited || in_flight >= most / 2);
        Stamp { delivered: self.delivered, limited, filled }
    }

    /// There was room, but nothing to send, with `in_flight` bytes under way.
    pub(crate) fn starved(&mut self, in_flight: u64) {
        self.starved_until = (self.delivered + in_flight).max(1);
    }

    /// A packet sent at `sent` has arrived; `late`: it had counted as lost.
    pub(crate) fn settled(&mut self, sent: Instant, stamp: Stamp, bytes: u64, late: bool) {
        self.delivered += bytes;
        if self.delivered > self.starved_until {
            self.starved_until = 0;
        }
        let before = self.settled.map_or(0, |s| s.bytes);
        match &mut self.settled {
            Some(s) if s.newest > sent => s.bytes += bytes,
            _ => {
                self.settled = Some(Settled {
                    bytes: before + bytes,
                    newest: sent,
                    late,
                    limited: stamp.limited,
                    filled: stamp.filled,
                    delivered: 0,
                    prior_delivered: stamp.delivered,
                });
            }
        }
    }

    /// Sums up; `None` when the acknowledgement settled nothing.
    pub(crate) fn conclude(&mut self) -> Option<Settled> {
        let delivered = self.delivered;
        self.settled.take().map(|s| Settled { delivered, ..s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_packet_speaks_for_an_acknowledgement() {
        let us = |n: u64| Instant::from_nanos(n * 1000);
        let mut d = Delivery::new();
        let first = d.stamp(1000, 4000);
        d.settled(us(1), first, 1000, false);
        let one = d.conclude().unwrap();
        assert_eq!((one.bytes, one.delivered, one.prior_delivered), (1000, 1000, 0));
        let (second, third) = (d.stamp(2000, 4000), d.stamp(3000, 4000));
        d.settled(us(3), third, 500, false);
        d.settled(us(2), second, 1000, true);
        let two = d.conclude().unwrap();
        assert_eq!((two.bytes, two.delivered, two.prior_delivered), (1500, 2500, 1000));
        assert_eq!((two.newest, two.late, two.limited), (us(3), false, true));
        assert!(!one.limited, "a quarter of the window");
        assert!(d.conclude().is_none());
    }

    #[test]
    fn what_was_sent_while_the_application_had_nothing_says_so() {
        let mut d = Delivery::new();
        d.starved(2000);
        for limited in [false, false, false, true] {
            let stamp = d.stamp(4000, 4000);
            d.settled(Instant::ZERO, stamp, 1000, false);
            assert_eq!(d.conclude().unwrap().limited, limited, "{}", d.delivered);
        }
    }
}
