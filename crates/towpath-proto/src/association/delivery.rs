//! How much was delivered, and whether it was the window that held the sender back.
//!
//! Each packet remembers how much had been delivered when it was sent: what is delivered until
//! its acknowledgement is a round trip's worth.

use towpath_wire::Instant;

/// What a packet remembers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    delivered: u64,
    /// The window held the sender back.
    limited: bool,
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
    pub(crate) delivered: u64,
    pub(crate) prior_delivered: u64,
}

/// Invariant: `settled` is set between the first packet that an acknowledgement settles and
/// [`Delivery::conclude`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivery {
    delivered: u64,
    /// The application had too little to send, until so much is delivered; 0: it has enough.
    starved_until: u64,
    settled: Option<Settled>,
}

impl Delivery {
    /// What a packet sent now remembers, which makes `in_flight` bytes of a window under way.
    pub(crate) const fn stamp(&self, in_flight: u64, window: u64) -> Stamp {
        let limited = 2 * in_flight >= window && self.starved_until == 0;
        Stamp { delivered: self.delivered, limited }
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
        let mut d = Delivery::default();
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
        let mut d = Delivery::default();
        d.starved(2000);
        for limited in [false, false, false, true] {
            let stamp = d.stamp(4000, 4000);
            d.settled(Instant::ZERO, stamp, 1000, false);
            assert_eq!(d.conclude().unwrap().limited, limited, "{}", d.delivered);
        }
    }
}
