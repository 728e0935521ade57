//! A ring with a token, on which the sender's node and all others take turns.

use std::collections::VecDeque;
use std::time::Duration;

use towpath_proto::Rng;
use towpath_wire::Instant;

/// Target of the token's rotation: who gets it late sends less.
const TARGET: Duration = Duration::from_millis(8);
/// Light over a kilometre of fibre, and what all 20 stations of a ring delay together.
const KILOMETRE_NS: u64 = 5_085;
const STATIONS_NS: u64 = 12_000;

/// A ring's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// A packet on it.
    pub(super) frame: Duration,
    /// A frame of others.
    pub(super) others_frame: Duration,
    /// Half of the way round.
    pub(super) half_way: Duration,
}

impl Shape {
    /// 4500 bytes, and 8 kbit of others, at 100 Mbit/s; 20 km.
    pub(super) const SOURCE: Self = Self {
        frame: Duration::from_micros(360),
        others_frame: Duration::from_micros(80),
        half_way: half_way(20),
    };
}

/// Half of the way round a ring of so many kilometres.
pub(super) const fn half_way(km: u64) -> Duration {
    Duration::from_nanos(km * KILOMETRE_NS / 2 + STATIONS_NS / 2)
}

/// A time drawn with that mean, exponential.
pub(super) fn exponential(rng: &mut Rng, mean_s: f64) -> Duration {
    let uniform = (rng.u64() >> 11) as f64 / (1u64 << 53) as f64;
    Duration::from_secs_f64(-mean_s * (1.0 - uniform).ln())
}

/// Where the token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Station {
    Ours,
    Others,
}

/// Invariant: nobody sends without the token; others' frames that come while they send wait for
/// the next turn.
pub(super) struct Ring {
    shape: Shape,
    pub(super) queue: VecDeque<usize>,
    /// What the token took for its last round.
    pub(super) rotation: Duration,
    came: Instant,
    /// Others' share of the ring, in per cent.
    load: u64,
    next_of_others: Instant,
    rng: Rng,
}

impl Ring {
    pub(super) fn new(shape: Shape, load: u64, rng: Rng) -> Self {
        let mut ring = Self {
            shape,
            queue: VecDeque::new(),
            rotation: Duration::ZERO,
            came: Instant::ZERO,
            load,
            next_of_others: Instant::ZERO,
            rng,
        };
        ring.next_of_others = Instant::ZERO + ring.gap();
        ring
    }

    pub(super) const fn set_load(&mut self, percent: u64) {
        self.load = percent;
    }

    /// Time between two frames of others, exponential.
    fn gap(&mut self) -> Duration {
        let mean = self.shape.others_frame.as_secs_f64() * 100.0 / self.load.max(1) as f64;
        exponential(&mut self.rng, mean)
    }

    /// The token is at our station: until when a packet may begin.
    pub(super) fn token_came(&mut self, now: Instant) -> Instant {
        self.rotation = now.since(self.came);
        self.came = now;
        now + TARGET.saturating_sub(self.rotation)
    }

    /// The token is at our station: packets that leave, `most` at most, each with the instant at
    /// which it has, and when the token goes on.
    pub(super) fn ours(&mut self, now: Instant, most: usize) -> (Vec<(Instant, usize)>, Instant) {
        let until = self.token_came(now);
        let (mut sent, mut at) = (Vec::new(), now);
        while at < until
            && sent.len() < most
            && let Some(packet) = self.queue.pop_front()
        {
            at += self.shape.frame;
            sent.push((at, packet));
        }
        (sent, at)
    }

    /// The token is at the others': when it goes on.
    pub(super) fn others(&mut self, now: Instant) -> Instant {
        let mut at = now;
        if self.load == 0 {
            return at;
        }
        while self.next_of_others <= now {
            at += self.shape.others_frame;
            let gap = self.gap();
            self.next_of_others += gap;
        }
        at
    }
}
