//! Links: rate, delay, queue limit, loss, reordering, duplication, corruption, cuts.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use towpath_proto::Rng;
use towpath_wire::{ByteSize, Instant, Rate};

/// What a link is like, in one direction. Probabilities are parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkSpec {
    /// Rate in bits per second.
    pub rate_bps: u64,
    /// Propagation delay in microseconds.
    pub delay_us: u64,
    /// Bytes that wait for the link at most; what comes on top is dropped.
    pub queue_bytes: u64,
    /// Datagrams lost.
    pub loss_ppm: u32,
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

impl Default for LinkSpec {
    fn default() -> Self {
        Self {
            rate_bps: 1_000_000_000,
            delay_us: 100,
            queue_bytes: 256 * 1024,
            loss_ppm: 0,
            reorder_ppm: 0,
            reorder_us: 500,
            duplicate_ppm: 0,
            corrupt_ppm: 0,
            framing_bytes: 66,
        }
    }
}

/// Counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Datagrams that came to the link.
    pub offered: u64,
    /// Lost at random.
    pub lost: u64,
    /// Dropped for lack of queue.
    pub overflowed: u64,
    /// Dropped because the link was cut.
    pub cut: u64,
    /// Delayed beyond later ones.
    pub reordered: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Delivered with a bit changed.
    pub corrupted: u64,
}

/// One direction of a link. Invariant: `free_at` is when its queue will have drained.
#[derive(Clone, Debug)]
pub struct Link {
    spec: LinkSpec,
    free_at: Instant,
    up: bool,
    rng: Rng,
    /// Counters.
    pub stats: LinkStats,
}

/// When a datagram arrives, and which of its bits is changed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time of arrival.
    pub at: Instant,
    /// A bit to change, counted from the front.
    pub corrupt: Option<usize>,
}

impl Link {
    /// A link with its own stream of random numbers.
    pub const fn new(spec: LinkSpec, rng: Rng) -> Self {
        let stats = LinkStats {
            offered: 0,
            lost: 0,
            overflowed: 0,
            cut: 0,
            reordered: 0,
            duplicated: 0,
            corrupted: 0,
        };
        Self { spec, free_at: Instant::ZERO, up: true, rng, stats }
    }

    /// What it is like.
    pub const fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// Changes what it is like from now on.
    pub const fn set_spec(&mut self, spec: LinkSpec) {
        self.spec = spec;
    }

    /// Cuts or restores it. What is under way still arrives.
    pub const fn set_up(&mut self, up: bool) {
        self.up = up;
    }

    /// Sends a datagram of `len` bytes; no, one or two arrivals come of it.
    pub fn offer(&mut self, now: Instant, len: usize) -> [Option<Arrival>; 2] {
        self.stats.offered += 1;
        if !self.up {
            self.stats.cut += 1;
            return [None; 2];
        }
        let rate = Rate::from_bps(self.spec.rate_bps);
        let waiting = rate.bytes_in(self.free_at.since(now));
        if waiting.as_bytes() + len as u64 > self.spec.queue_bytes {
            self.stats.overflowed += 1;
            return [None; 2];
        }
        let size = ByteSize::from_bytes(len as u64 + self.spec.framing_bytes);
        let Some(serialise) = rate.time_for(size) else { return [None; 2] };
        self.free_at = self.free_at.max(now) + serialise;
        if self.rng.chance_ppm(self.spec.loss_ppm) {
            self.stats.lost += 1;
            return [None; 2];
        }
        let first = self.arrival(len);
        let second = self.rng.chance_ppm(self.spec.duplicate_ppm).then(|| {
            self.stats.duplicated += 1;
            self.arrival(len)
        });
        [Some(first), second]
    }

    fn arrival(&mut self, len: usize) -> Arrival {
        let mut at = self.free_at + Duration::from_micros(self.spec.delay_us);
        if self.rng.chance_ppm(self.spec.reorder_ppm) {
            self.stats.reordered += 1;
            at += Duration::from_nanos(self.rng.below(self.spec.reorder_us * 1000));
        }
        let corrupt = self.rng.chance_ppm(self.spec.corrupt_ppm).then(|| {
            self.stats.corrupted += 1;
            self.rng.below(8 * len as u64) as usize
        });
        Arrival { at, corrupt }
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
        let mut l = link(LinkSpec { rate_bps: 8_000_000, delay_us: 10, ..LinkSpec::default() });
        let at = |l: &mut Link| l.offer(Instant::ZERO, 934)[0].unwrap().at.as_nanos();
        assert_eq!(at(&mut l), 1_010_000);
        assert_eq!(at(&mut l), 2_010_000);
    }

    #[test]
    fn the_queue_has_a_limit_and_drains() {
        let spec = LinkSpec { rate_bps: 8_000_000, queue_bytes: 2500, ..LinkSpec::default() };
        let mut l = link(spec);
        let sent = (0..10).filter(|_| l.offer(Instant::ZERO, 934)[0].is_some()).count();
        assert_eq!((sent, l.stats.overflowed), (2, 8));
        assert!(l.offer(Instant::from_nanos(2_000_000), 934)[0].is_some());
    }

    #[test]
    fn one_in_ten_is_lost_when_so_told_and_none_passes_a_cut() {
        let mut l = link(LinkSpec { loss_ppm: 100_000, ..LinkSpec::default() });
        let mut now = Instant::ZERO;
        for _ in 0..10_000 {
            now += Duration::from_millis(1);
            l.offer(now, 100);
        }
        assert!(l.stats.lost.abs_diff(1000) < 150, "{}", l.stats.lost);
        l.set_up(false);
        assert_eq!(l.offer(now, 100), [None; 2]);
    }
}
