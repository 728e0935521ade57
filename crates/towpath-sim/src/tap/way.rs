//! One direction.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use serde::Serialize;
use towpath_proto::Rng;
use towpath_wire::Instant;
use towpath_wire::units::nanos;

use crate::link::{LinkSpec, Noise, Queue, RateChange, Trip};

/// Frames under way in one direction at most.
pub const HELD_MAX: usize = 1 << 18;
/// Bytes under way in one direction at most.
pub const HELD_BYTES_MAX: u64 = 512 << 20;

/// What a direction is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WayState {
    /// Rate, delay, queue and chances; `datagram_bytes_max` is of frames as the tap sees them.
    pub link: LinkSpec,
    /// False: nothing gets through, and nobody is told.
    pub up: bool,
}

/// What became of frames. Of all that came, `frames_in + duplicated` is the sum of `frames_out`,
/// of what was dropped, and of what is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WayStats {
    /// Frames that came.
    pub frames_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Frames that were given on.
    pub frames_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Lost by chance, bursts included.
    pub lost: u64,
    /// Dropped for lack of queue.
    pub overflowed: u64,
    /// Dropped because the link was dead.
    pub cut: u64,
    /// Dropped because they were longer than the link takes.
    pub oversized: u64,
    /// Dropped because more than [`HELD_MAX`] or [`HELD_BYTES_MAX`] were under way: the tap's own
    /// failure, not the link's.
    pub crowded: u64,
    /// Delayed beyond later ones.
    pub reordered: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Delivered with a bit changed.
    pub corrupted: u64,
    /// Most bytes that ever waited.
    pub queue_bytes_max: u64,
}

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// By chance.
    Lost,
    /// The queue was full.
    Overflowed,
    /// The link is dead.
    Cut,
    /// Longer than the link takes.
    Oversized,
    /// The tap holds as much as it may.
    Crowded,
}

/// Invariants: `held` are the arrivals that were not given on yet, `held_bytes` the sum of their
/// lengths; those that keep their order arrive in it as long as the delay does not shrink.
pub(super) struct Way {
    state: WayState,
    queue: Queue,
    noise: Noise,
    seed: u64,
    number: u64,
    held: BinaryHeap<Reverse<Held>>,
    held_bytes: u64,
    order: u64,
    /// The latest arrival of what keeps its order.
    last: Option<Instant>,
    pub(super) stats: WayStats,
}

/// An arrival to come. In order of arrival, equals in order of coming.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    at: Instant,
    order: u64,
    leaves: Instant,
    jitter: Duration,
    late: Option<Duration>,
    frame: Vec<u8>,
}

impl Held {
    /// When it would arrive if it kept its order.
    fn in_order(&self) -> Instant {
        let late = nanos(self.late.unwrap_or_default());
        Instant::from_nanos(self.at.as_nanos() - late)
    }
}

impl Way {
    /// `seed`: of this direction alone.
    pub(super) fn new(state: WayState, seed: u64) -> Self {
        Self {
            state,
            queue: Queue::default(),
            noise: Noise::default(),
            seed,
            number: 0,
            held: BinaryHeap::new(),
            held_bytes: 0,
            order: 0,
            last: None,
            stats: WayStats::default(),
        }
    }

    pub(super) const fn state(&self) -> WayState {
        self.state
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.held.peek().map(|Reverse(held)| held.at)
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes a frame; gives back one that does not get through.
    pub(super) fn offer(&mut self, now: Instant, frame: Vec<u8>) -> Result<(), (Why, Vec<u8>)> {
        let (spec, len) = (self.state.link, frame.len());
        self.stats.frames_in += 1;
        self.stats.bytes_in += len as u64;
        // Its lots are drawn before anything that depends on time.
        let mut rng = Rng::new(self.seed, self.number);
        self.number += 1;
        let lost = self.noise.loses(&spec, &mut rng);
        let (first, second) = Noise::trips(&spec, &mut rng, len);
        if !self.state.up {
            self.stats.cut += 1;
            return Err((Why::Cut, frame));
        }
        if len as u64 > u64::from(spec.datagram_bytes_max) {
            self.stats.oversized += 1;
            return Err((Why::Oversized, frame));
        }
        // It may be doubled.
        let bytes = self.held_bytes + 2 * len as u64;
        if self.held.len() + 2 > HELD_MAX || bytes > HELD_BYTES_MAX {
            self.stats.crowded += 1;
            return Err((Why::Crowded, frame));
        }
        let before = self.queue.queued(now);
        let Some((leaves, _)) = self.queue.push(now, len, &spec) else {
            self.stats.overflowed += 1;
            return Err((Why::Overflowed, frame));
        };
        self.stats.queue_bytes_max = self.stats.queue_bytes_max.max(before + len as u64);
        if lost {
            self.stats.lost += 1;
            return Err((Why::Lost, frame));
        }
        if let Some(second) = second {
            self.stats.duplicated += 1;
            let copy = frame.clone();
            self.hold(leaves, first, frame);
            self.hold(leaves, second, copy);
        } else {
            self.hold(leaves, first, frame);
        }
        Ok(())
    }

    fn hold(&mut self, leaves: Instant, trip: Trip, mut frame: Vec<u8>) {
        if let Some(bit) = trip.corrupt
            && let Some(byte) = frame.get_mut(bit / 8)
        {
            self.stats.corrupted += 1;
            *byte ^= 1 << (bit % 8);
        }
        self.stats.reordered += u64::from(trip.late.is_some());
        self.order += 1;
        self.held_bytes += frame.len() as u64;
        let Trip { jitter, late, .. } = trip;
        let mut held = Held { at: leaves, order: self.order, leaves, jitter, late, frame };
        self.arrive(&mut held);
        self.held.push(Reverse(held));
    }

    /// When it arrives, by when it leaves.
    fn arrive(&mut self, held: &mut Held) {
        let link = &self.state.link;
        held.at = held.leaves + Duration::from_micros(link.delay_us) + held.jitter;
        if link.jitter_us > 0 {
            held.at = held.at.max(self.last.unwrap_or(held.at));
            self.last = Some(held.at);
        }
        held.at += held.late.unwrap_or_default();
    }

    /// The next frame that is due, with when it was.
    pub(super) fn due(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        if self.next()? > now {
            return None;
        }
        let Reverse(Held { at, frame, .. }) = self.held.pop()?;
        self.held_bytes -= frame.len() as u64;
        self.stats.frames_out += 1;
        self.stats.bytes_out += frame.len() as u64;
        Some((at, frame))
    }

    /// From `at` on the direction is another one; gives what does not get through for it.
    pub(super) fn change(&mut self, at: Instant, state: WayState) -> Vec<Vec<u8>> {
        let old = std::mem::replace(&mut self.state, state);
        let rate = RateChange { from: old.link.rate_bps, to: state.link.rate_bps };
        let moves = rate.from != rate.to || old.link.delay_us != state.link.delay_us;
        if state.up && !moves {
            return Vec::new();
        }
        self.queue.change_rate(at, &rate);
        let all = std::mem::take(&mut self.held).into_iter().map(|Reverse(held)| held);
        let (mut waiting, gone): (Vec<Held>, Vec<Held>) = all.partition(|held| held.leaves > at);
        self.held.extend(gone.into_iter().map(Reverse));
        if !state.up {
            self.stats.cut += waiting.len() as u64;
            self.held_bytes -= waiting.iter().map(|held| held.frame.len() as u64).sum::<u64>();
            return waiting.into_iter().map(|held| held.frame).collect();
        }
        waiting.sort_unstable_by_key(|held| held.order);
        // A shorter delay is another route: what comes by it may be first.
        if old.link.delay_us == state.link.delay_us {
            self.last = self.held.iter().map(|Reverse(held)| held.in_order()).max();
        } else {
            self.last = None;
        }
        for mut held in waiting {
            held.leaves = rate.leaves(at, held.leaves);
            self.arrive(&mut held);
            self.held.push(Reverse(held));
        }
        Vec::new()
    }
}
