//! How fast packets arrive: delivery-rate samples, as in draft-ietf-ccwg-bbr §4.1 (Cheng et al.,
//! "Delivery Rate Estimation").
//!
//! Each packet remembers how much had been delivered when it was sent. When it is acknowledged,
//! what was delivered since, over the longer of the time that sending and that acknowledging
//! took, is the rate at which the path let packets through.

use core::time::Duration;

use towpath_wire::Instant;

/// What a packet remembers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    starved: bool,
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
    /// It was sent while the application had too little to send.
    pub(crate) starved: bool,
    pub(crate) prior_in_flight: u64,
    pub(crate) delivered: u64,
    pub(crate) prior_delivered: u64,
    /// Bytes per second.
    pub(crate) rate: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Newest {
    sent: Instant,
    stamp: Stamp,
    late: bool,
    limited: bool,
    in_flight: u64,
    bytes: u64,
}

/// Invariant: `newest` is set between the first packet that an acknowledgement settles and
/// [`Delivery::conclude`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivery {
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// Samples are of the application's rate until so much is delivered; 0: of the path's.
    starved_until: u64,
    newest: Option<Newest>,
}

impl Delivery {
    /// What a packet sent now remembers; `alone`: nothing else is under way.
    pub(crate) fn stamp(&mut self, now: Instant, alone: bool) -> Stamp {
        if alone {
            self.first_sent = now;
            self.delivered_at = now;
        }
        Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            starved: self.starved_until > 0,
        }
    }

    /// There was room, but nothing to send, with `in_flight` bytes under way.
    pub(crate) fn starved(&mut self, in_flight: u64) {
        self.starved_until = (self.delivered + in_flight).max(1);
    }

    /// A packet of `(bytes, limited, late)` sent at `sent`, making `in_flight` bytes under way,
    /// has arrived.
    pub(crate) fn settled(
        &mut self,
        now: Instant,
        sent: Instant,
        stamp: &Stamp,
        (bytes, limited, late): (u32, bool, bool),
        in_flight: u64,
    ) {
        let bytes = u64::from(bytes);
        self.delivered += bytes;
        self.delivered_at = now;
        if self.starved_until > 0 && self.delivered > self.starved_until {
            self.starved_until = 0;
        }
        let before = self.newest.map_or(0, |n| n.bytes);
        match &mut self.newest {
            Some(n) if n.sent > sent => n.bytes += bytes,
            _ => {
                let (stamp, bytes) = (*stamp, before + bytes);
                self.newest = Some(Newest { sent, stamp, late, limited, in_flight, bytes });
            }
        }
    }

    /// Sums up; `None` when the acknowledgement settled nothing. Samples over less than `min_rtt`
    /// would be of a burst and are left out.
    pub(crate) fn conclude(&mut self, now: Instant, min_rtt: Duration) -> Option<Settled> {
        let n = self.newest.take()?;
        self.first_sent = n.sent;
        let sending = n.sent.since(n.stamp.first_sent);
        let interval = sending.max(now.since(n.stamp.delivered_at));
        let known = !interval.is_zero() && interval >= min_rtt && !n.late;
        let bytes = self.delivered - n.stamp.delivered;
        let rate = known.then(|| (u128::from(bytes) * 1_000_000_000 / interval.as_nanos()) as u64);
        Some(Settled {
            bytes: n.bytes,
            newest: n.sent,
            late: n.late,
            limited: n.limited && !n.stamp.starved,
            starved: n.stamp.starved,
            prior_in_flight: n.in_flight,
            delivered: self.delivered,
            prior_delivered: n.stamp.delivered,
            rate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_is_measured_at_its_rate() {
        let us = |n: u64| Instant::from_nanos(n * 1000);
        let mut d = Delivery::default();
        // 1000 bytes every 100 us, each acknowledged a millisecond later: 10 MB/s.
        let mut stamps = std::vec::Vec::new();
        let mut last = None;
        for n in 0..50u64 {
            let now = us(100 * n);
            if n >= 10 {
                let (sent, stamp) = stamps[n as usize - 10];
                d.settled(now, sent, &stamp, (1000, true, false), 0);
                last = d.conclude(now, Duration::from_micros(1000));
            }
            stamps.push((now, d.stamp(now, n == 0)));
        }
        assert_eq!(last.unwrap().rate, Some(10_000_000));
        assert_eq!(last.unwrap().bytes, 1000);
    }

    #[test]
    fn what_was_sent_while_the_application_had_nothing_says_so() {
        let mut d = Delivery::default();
        d.starved(0);
        let stamp = d.stamp(Instant::ZERO, true);
        d.settled(Instant::from_nanos(1000), Instant::ZERO, &stamp, (1000, true, false), 1000);
        let settled = d.conclude(Instant::from_nanos(1000), Duration::ZERO).unwrap();
        assert!(!settled.limited);
    }
}
