//! A ring with a token, on which the sender's node and all others take turns.

use std::collections::VecDeque;
use std::time::Duration;

use towpath_proto::Rng;
use towpath_wire::Instant;

/// 4500 bytes at 100 Mbit/s.
pub(super) const FRAME: Duration = Duration::from_micros(360);
/// 8 kbit of others at 100 Mbit/s.
const OTHERS_FRAME: Duration = Duration::from_micros(80);
/// Half of the way round: 20 km at 5.085 us, and 20 stations that each delay 0.6 us.
pub(super) const HALF_WAY: Duration = Duration::from_nanos(56_850);
/// Target of the token's rotation: who gets it late sends less.
const TARGET: Duration = Duration::from_millis(8);

/// Where the token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Station {
    Ours,
    Others,
}

/// Invariant: nobody sends without the token; others' frames that come while they send wait for
/// the next turn.
pub(super) struct Ring {
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
    pub(super) fn new(load: u64, rng: Rng) -> Self {
        let mut ring = Self {
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
        let mean = OTHERS_FRAME.as_secs_f64() * 100.0 / self.load.max(1) as f64;
        let uniform = (self.rng.u64() >> 11) as f64 / (1u64 << 53) as f64;
        Duration::from_secs_f64(-mean * (1.0 - uniform).ln())
    }

    /// The token is at our station: packets that leave, `most` at most, each with the instant at
    /// which it has, and when the token goes on.
    pub(super) fn ours(&mut self, now: Instant, most: usize) -> (Vec<(Instant, usize)>, Instant) {
        self.rotation = now.since(self.came);
        self.came = now;
        let until = now + TARGET.saturating_sub(self.rotation);
        let (mut sent, mut at) = (Vec::new(), now);
        while at < until
            && sent.len() < most
            && let Some(packet) = self.queue.pop_front()
        {
            at += FRAME;
            sent.push((at, packet));
        }
        (sent, at)
    }

    /// The token is at the others': when it goes on.
    pub(super) fn others(&mut self, now: Instant) -> Instant {
        let mut at = now;
        while self.next_of_others <= now {
            at += OTHERS_FRAME;
            let gap = self.gap();
            self.next_of_others += gap;
        }
        at
    }
}
