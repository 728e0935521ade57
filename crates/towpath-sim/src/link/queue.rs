//! What waits for a link, and when it leaves.

use std::collections::VecDeque;
use std::time::Duration;

use towpath_wire::{ByteSize, Instant, Rate};

use super::LinkSpec;

/// What waits for a link of a rate.
///
/// Invariants: `waiting` holds what has not left yet, in order of leaving; `queued` is the sum of
/// its bytes; no two frames leave closer than the rate says, but for `rate_burst_bytes` after the
/// link was idle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<(Instant, u32)>,
    queued: u64,
    /// When the last will have left, had the link no credit (the theoretical arrival time of the
    /// generic cell rate algorithm, ITU-T I.371).
    free_at: Instant,
}

impl Queue {
    /// Bytes that wait, those on their way out included.
    pub(crate) fn queued(&mut self, now: Instant) -> u64 {
        while let Some((leaves, len)) = self.waiting.front()
            && *leaves <= now
        {
            self.queued -= u64::from(*len);
            self.waiting.pop_front();
        }
        self.queued
    }

    /// Takes `len` bytes in: when they will have left, and what they cost on the wire. `None` where
    /// they do not fit.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        len: usize,
        spec: &LinkSpec,
    ) -> Option<(Instant, ByteSize)> {
        let before = self.queued(now);
        if before + len as u64 > spec.queue_bytes {
            return None;
        }
        let rate = Rate::from_bps(spec.rate_bps);
        let size = ByteSize::from_bytes(len as u64 + spec.framing_bytes);
        let serialise = rate.time_for(size)?;
        let credit = match spec.rate_burst_bytes {
            0 => Duration::ZERO,
            bytes => rate.time_for(ByteSize::from_bytes(bytes))?,
        };
        let earliest = Instant::from_nanos(now.as_nanos().saturating_sub(nanos(credit)));
        self.free_at = self.free_at.max(earliest) + serialise;
        let leaves = self.free_at.max(now);
        self.waiting.push_back((leaves, len as u32));
        self.queued += len as u64;
        Some((leaves, size))
    }

    /// From `at` on the rate is another one: what waits leaves later or earlier.
    pub(crate) fn change_rate(&mut self, at: Instant, change: &RateChange) {
        for (leaves, _) in &mut self.waiting {
            *leaves = change.leaves(at, *leaves);
        }
        self.free_at = change.leaves(at, self.free_at);
    }
}

/// From one rate to another, in bits per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateChange {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl RateChange {
    /// When leaves at the new rate what would leave at the old one. What has left already stays.
    pub(crate) fn leaves(&self, at: Instant, leaves: Instant) -> Instant {
        let left = nanos(leaves.since(at));
        let (from, to) = (u128::from(self.from), u128::from(self.to.max(1)));
        let later = (u128::from(left) * from).div_ceil(to);
        if left == 0 { leaves } else { at + Duration::from_nanos(later as u64) }
    }
}

fn nanos(time: Duration) -> u64 {
    towpath_wire::units::nanos(time)
}
