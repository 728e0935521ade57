//! Links: rate, delay, jitter, queue, ECN marks, largest datagram; loss alone and in bursts,
//! reordering, duplication, corruption, cuts.

mod noise;
mod queue;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use towpath_proto::Rng;
use towpath_wire::Instant;
use towpath_wire::packet::DATAGRAM_MAX;

pub(crate) use noise::{Noise, Trip};
pub(crate) use queue::{Queue, RateChange};

/// ECN bits of a datagram that met congestion (RFC 3168 §5).
pub const ECN_CE: u8 = 0b11;

/// What a link is like, in one direction. Probabilities are parts per million.
///
/// **Burst loss** is Gilbert's model with Elliott's extension (Elliott, "Estimates of error rates
/// for codes on burst-noise channels", 1963): before each datagram the link goes from its good to
/// its bad state with `burst_enter_ppm`, back with `burst_leave_ppm`, and in the bad state loses
/// `burst_loss_ppm`. A burst lasts 10⁶ / `burst_leave_ppm` datagrams on average; the share of
/// datagrams sent in the bad state is enter / (enter + leave). `loss_ppm` applies in both states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkSpec {
    /// Rate in bits per second.
    pub rate_bps: u64,
    /// Bytes, framing included, that pass at once after the link was idle for as long as they take
    /// at its rate (a token bucket); 0: none.
    pub rate_burst_bytes: u64,
    /// Propagation delay in microseconds.
    pub delay_us: u64,
    /// Greatest further delay of any datagram, drawn evenly; none overtakes another by it.
    pub jitter_us: u64,
    /// Bytes that wait for the link at most; what comes on top is dropped. The datagram that is
    /// on its way out counts until it has left.
    pub queue_bytes: u64,
    /// Datagrams lost.
    pub loss_ppm: u32,
    /// From the good to the bad state, per datagram; 0: no bursts.
    pub burst_enter_ppm: u32,
    /// From the bad state back to the good one, per datagram.
    pub burst_leave_ppm: u32,
    /// Datagrams lost in the bad state.
    pub burst_loss_ppm: u32,
    /// Datagrams that can carry the mark are marked when so many bytes wait before them.
    pub ecn_mark_bytes: Option<u64>,
    /// Largest datagram that passes (UDP payload); larger ones are dropped without a word.
    pub datagram_bytes_max: u32,
    /// Datagrams delayed by up to `reorder_us` more, so that others overtake them.
    pub reorder_ppm: u32,
    /// Greatest extra delay of a reordered datagram, in microseconds.
    pub reorder_us: u64,
    /// Datagrams that arrive twice.
    pub duplicate_ppm: u32,
    /// Datagrams in which one bit is changed.
    pub corrupt_ppm: u32,
    /// Bytes that each datagram costs on the wire beside its own (UDP, IP and Ethernet: 66).
    pub framing_bytes: u64,
}

impl LinkSpec {
    /// The default: 1 Gbit/s, 100 us, a queue of 256 KiB, no faults.
    pub const PLAIN: Self = Self {
        rate_bps: 1_000_000_000,
        rate_burst_bytes: 0,
        delay_us: 100,
        jitter_us: 0,
        queue_bytes: 256 * 1024,
        loss_ppm: 0,
        burst_enter_ppm: 0,
        burst_leave_ppm: 200_000,
        burst_loss_ppm: 1_000_000,
        ecn_mark_bytes: None,
        datagram_bytes_max: DATAGRAM_MAX as u32,
        reorder_ppm: 0,
        reorder_us: 500,
        duplicate_ppm: 0,
        corrupt_ppm: 0,
        framing_bytes: 66,
    };

    /// The first field that is out of range: its name, its value, what it must be.
    pub fn out_of_range(&self) -> Option<(&'static str, String, &'static str)> {
        let share = "at most 1000000";
        let shares = [
            ("loss_ppm", self.loss_ppm),
            ("burst_enter_ppm", self.burst_enter_ppm),
            ("burst_leave_ppm", self.burst_leave_ppm),
            ("burst_loss_ppm", self.burst_loss_ppm),
            ("reorder_ppm", self.reorder_ppm),
            ("duplicate_ppm", self.duplicate_ppm),
            ("corrupt_ppm", self.corrupt_ppm),
        ];
        if let Some((field, value)) = shares.into_iter().find(|(_, ppm)| *ppm > 1_000_000) {
            return Some((field, value.to_string(), share));
        }
        let bounds = [
            ("rate_bps", self.rate_bps, 1000, 1_000_000_000_000, "between 1000 and 10^12"),
            ("rate_burst_bytes", self.rate_burst_bytes, 0, 1 << 32, "at most 2^32"),
            ("delay_us", self.delay_us, 0, 60_000_000, "at most 60000000"),
            ("jitter_us", self.jitter_us, 0, 60_000_000, "at most 60000000"),
            ("reorder_us", self.reorder_us, 0, 60_000_000, "at most 60000000"),
            ("queue_bytes", self.queue_bytes, 1, 1 << 32, "between 1 and 2^32"),
            ("framing_bytes", self.framing_bytes, 0, 10_000, "at most 10000"),
        ];
        let beyond = bounds.into_iter().find(|(_, v, lo, hi, _)| !(lo..=hi).contains(&v));
        beyond.map(|(field, value, _, _, must)| (field, value.to_string(), must))
    }
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self::PLAIN
    }
}

/// Counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkStats {
    /// Datagrams that came to the link.
    pub offered: u64,
    /// Bytes that it carried, framing included; datagrams lost on the way count.
    pub carried_bytes: u64,
    /// Lost at random, bursts included.
    pub lost: u64,
    /// Dropped for lack of queue.
    pub overflowed: u64,
    /// Dropped because the link was cut.
    pub cut: u64,
    /// Dropped because they were longer than `datagram_bytes_max`.
    pub oversized: u64,
    /// Marked: congestion met.
    pub marked: u64,
    /// Delayed beyond later ones.
    pub reordered: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Delivered with a bit changed.
    pub corrupted: u64,
    /// Most bytes that ever waited.
    pub queue_bytes_max: u64,
}

/// One direction of a link, which any number of host pairs may share.
#[derive(Clone, Debug)]
pub struct Link {
    spec: LinkSpec,
    queue: Queue,
    noise: Noise,
    up: bool,
    /// The latest arrival of what kept its order: jitter makes none overtake it.
    last: Instant,
    rng: Rng,
    /// Counters.
    pub stats: LinkStats,
}

/// When a datagram arrives, and what became of it on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time of arrival.
    pub at: Instant,
    /// A bit to change, counted from the front.
    pub corrupt: Option<usize>,
    /// Its ECN bits.
    pub ecn: u8,
}

impl Link {
    /// A link with its own stream of random numbers.
    pub fn new(spec: LinkSpec, rng: Rng) -> Self {
        Self {
            spec,
            queue: Queue::default(),
            noise: Noise::default(),
            up: true,
            last: Instant::ZERO,
            rng,
            stats: LinkStats::default(),
        }
    }

    /// What it is like.
    pub const fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// Changes what it is like for datagrams that come from now on. What waits already leaves at
    /// the rate that it came at; where the delay becomes shorter, later ones may overtake, as
    /// where a route changes.
    pub const fn set_spec(&mut self, spec: LinkSpec) {
        self.spec = spec;
    }

    /// Cuts or restores it. What is under way still arrives.
    pub const fn set_up(&mut self, up: bool) {
        self.up = up;
    }

    /// Bytes that wait, those on their way out included.
    pub fn queued(&mut self, now: Instant) -> u64 {
        self.queue.queued(now)
    }

    /// Sends a datagram of `len` bytes with these ECN bits; no, one or two arrivals come of it.
    pub fn offer(&mut self, now: Instant, len: usize, ecn: u8) -> [Option<Arrival>; 2] {
        self.stats.offered += 1;
        if !self.up {
            self.stats.cut += 1;
            return [None; 2];
        }
        if len as u64 > u64::from(self.spec.datagram_bytes_max) {
            self.stats.oversized += 1;
            return [None; 2];
        }
        let before = self.queued(now);
        let Some((leaves, size)) = self.queue.push(now, len, &self.spec) else {
            self.stats.overflowed += 1;
            return [None; 2];
        };
        self.stats.queue_bytes_max = self.stats.queue_bytes_max.max(before + len as u64);
        self.stats.carried_bytes += size.as_bytes();
        if self.noise.loses(&self.spec, &mut self.rng) {
            self.stats.lost += 1;
            return [None; 2];
        }
        let ecn = self.mark(before, ecn);
        let (first, second) = Noise::trips(&self.spec, &mut self.rng, len);
        let first = self.arrival(leaves, first, ecn);
        let second = second.map(|second| {
            self.stats.duplicated += 1;
            self.arrival(leaves, second, ecn)
        });
        [Some(first), second]
    }

    fn mark(&mut self, before: u64, ecn: u8) -> u8 {
        let due = self.spec.ecn_mark_bytes.is_some_and(|threshold| before >= threshold);
        if ecn == 0 || !due {
            return ecn;
        }
        self.stats.marked += 1;
        ECN_CE
    }

    fn arrival(&mut self, leaves: Instant, trip: Trip, ecn: u8) -> Arrival {
        let mut at = leaves + Duration::from_micros(self.spec.delay_us) + trip.jitter;
        if self.spec.jitter_us > 0 {
            self.last = self.last.max(at);
            at = self.last;
        }
        if let Some(late) = trip.late {
            self.stats.reordered += 1;
            at += late;
        }
        self.stats.corrupted += u64::from(trip.corrupt.is_some());
        Arrival { at, corrupt: trip.corrupt, ecn }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(spec: LinkSpec) -> Link {
        Link::new(spec, Rng::new(1, 1))
    }

    #[test]
    fn datagrams_queue_behind_each_other_at_the_link_rate() {
        let mut l = link(LinkSpec { rate_bps: 8_000_000, delay_us: 10, ..LinkSpec::PLAIN });
        let at = |l: &mut Link| l.offer(Instant::ZERO, 934, 0)[0].unwrap().at.as_nanos();
        assert_eq!(at(&mut l), 1_010_000);
        assert_eq!(at(&mut l), 2_010_000);
    }

    #[test]
    fn the_queue_has_a_limit_and_drains() {
        let spec = LinkSpec { rate_bps: 8_000_000, queue_bytes: 2500, ..LinkSpec::PLAIN };
        let mut l = link(spec);
        let sent = (0..10).filter(|_| l.offer(Instant::ZERO, 934, 0)[0].is_some()).count();
        assert_eq!((sent, l.stats.overflowed), (2, 8));
        assert_eq!(l.queued(Instant::from_nanos(999_999)), 2 * 934);
        assert_eq!(l.queued(Instant::from_nanos(1_000_000)), 934);
        assert!(l.offer(Instant::from_nanos(2_000_000), 934, 0)[0].is_some());
        assert_eq!(l.stats.queue_bytes_max, 2 * 934);
    }

    #[test]
    fn one_in_ten_is_lost_when_so_told_and_none_passes_a_cut() {
        let mut l = link(LinkSpec { loss_ppm: 100_000, ..LinkSpec::PLAIN });
        let mut now = Instant::ZERO;
        for _ in 0..10_000 {
            now += Duration::from_millis(1);
            l.offer(now, 100, 0);
        }
        assert!(l.stats.lost.abs_diff(1000) < 150, "{}", l.stats.lost);
        l.set_up(false);
        assert_eq!(l.offer(now, 100, 0), [None; 2]);
    }

    #[test]
    fn bursts_are_as_long_and_as_many_as_the_model_says() {
        // One in a hundred begins a burst of five: 4.76 % of all, in runs of 5 on average.
        let spec =
            LinkSpec { burst_enter_ppm: 10_000, burst_leave_ppm: 200_000, ..LinkSpec::PLAIN };
        let mut l = link(spec);
        let (mut now, mut lost, mut runs, mut before) = (Instant::ZERO, 0u32, 0u32, false);
        for _ in 0..200_000 {
            now += Duration::from_millis(1);
            let gone = l.offer(now, 100, 0)[0].is_none();
            lost += u32::from(gone);
            runs += u32::from(gone && !before);
            before = gone;
        }
        let share = f64::from(lost) / 200_000.0;
        assert!((share - 0.01 / 0.21).abs() < 0.004, "{share}");
        let mean = f64::from(lost) / f64::from(runs);
        assert!((mean - 5.0).abs() < 0.4, "{mean}");
    }

    #[test]
    fn marks_take_the_place_of_nothing_and_only_where_they_can() {
        let mut l =
            link(LinkSpec { rate_bps: 8_000_000, ecn_mark_bytes: Some(1800), ..LinkSpec::PLAIN });
        let mut ecn = |bits| l.offer(Instant::ZERO, 934, bits)[0].unwrap().ecn;
        // Before the third one 1868 bytes wait.
        assert_eq!([ecn(2), ecn(2), ecn(2), ecn(0), ecn(1)], [2, 2, ECN_CE, 0, ECN_CE]);
        assert_eq!(l.stats.marked, 2);
    }

    #[test]
    fn what_is_too_long_is_dropped_and_takes_no_time() {
        let mut l = link(LinkSpec { datagram_bytes_max: 1200, ..LinkSpec::PLAIN });
        assert!(l.offer(Instant::ZERO, 1201, 0)[0].is_none());
        let at = l.offer(Instant::ZERO, 1200, 0)[0].unwrap().at;
        assert_eq!(at.as_nanos(), 100_000 + (1200 + 66) * 8);
        assert_eq!(l.stats.oversized, 1);
    }

    #[test]
    fn after_a_change_of_rate_nothing_is_overtaken() {
        let slow = LinkSpec { rate_bps: 8_000_000, delay_us: 0, ..LinkSpec::PLAIN };
        let mut l = link(slow);
        let at = |l: &mut Link| l.offer(Instant::ZERO, 934, 0)[0].unwrap().at.as_nanos();
        assert_eq!(at(&mut l), 1_000_000);
        l.set_spec(LinkSpec { rate_bps: 80_000_000, ..slow });
        assert_eq!(at(&mut l), 1_100_000);
        assert_eq!(l.queued(Instant::from_nanos(1_000_000)), 934);
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        assert_eq!(LinkSpec::PLAIN.out_of_range(), None);
        let beyond = |spec: LinkSpec| spec.out_of_range().map(|(field, _, _)| field);
        let (rate_bps, loss_ppm) = (0, 1_000_001);
        assert_eq!(beyond(LinkSpec { rate_bps, ..LinkSpec::PLAIN }), Some("rate_bps"));
        assert_eq!(beyond(LinkSpec { loss_ppm, ..LinkSpec::PLAIN }), Some("loss_ppm"));
    }
}
