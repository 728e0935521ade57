//! Hosts' clocks: they drift, and they step forward.

use std::time::Duration;

use towpath_wire::Instant;
use towpath_wire::units::nanos;

/// A host's clock: a line through its last step. Invariants: strictly increasing (a monotonic
/// clock never goes back; it jumps ahead where a machine was suspended), |drift| < 10⁵ ppm.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Simulated time of the last step.
    since: Instant,
    /// What it showed then.
    shown_ns: u64,
    drift_ppm: i32,
}

const MILLION: i128 = 1_000_000;

impl Clock {
    /// A clock that shows `offset_ns` at simulated zero and gains `drift_ppm`.
    pub fn new(offset_ns: u64, drift_ppm: i32) -> Self {
        assert!(drift_ppm.abs() < 100_000, "a clock drifts by less than a tenth");
        Self { since: Instant::ZERO, shown_ns: offset_ns, drift_ppm }
    }

    /// Jumps ahead at simulated time `at`, which is not before the last step.
    pub fn step(&mut self, at: Instant, ahead: Duration) {
        self.shown_ns = (self.local(at) + ahead).as_nanos();
        self.since = at;
    }

    /// What it shows at simulated time `at`.
    pub fn local(&self, at: Instant) -> Instant {
        let t = i128::from(nanos(at.since(self.since)));
        let local = i128::from(self.shown_ns) + t + t * i128::from(self.drift_ppm) / MILLION;
        Instant::from_nanos(local.clamp(0, u64::MAX.into()) as u64)
    }

    /// The simulated time, not before the last step, at which it shows at least `local`.
    pub fn global(&self, local: Instant) -> Instant {
        if local == Instant::NEVER {
            return Instant::NEVER;
        }
        let t = (i128::from(local.as_nanos()) - i128::from(self.shown_ns)).max(0) * MILLION;
        let global = t / (MILLION + i128::from(self.drift_ppm)) + 2;
        let global = i128::from(self.since.as_nanos()) + global;
        Instant::from_nanos(global.clamp(0, u64::MAX.into()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_timer_never_fires_early_and_hardly_late(
            offset in 0..1u64 << 50,
            drift in -500..500i32,
            step_at in 0..1u64 << 44,
            ahead in 0..1u64 << 40,
            at in 0..1u64 << 45,
        ) {
            let mut clock = Clock::new(offset, drift);
            let before = clock.local(Instant::from_nanos(step_at));
            clock.step(Instant::from_nanos(step_at), Duration::from_nanos(ahead));
            prop_assert_eq!(
                clock.local(Instant::from_nanos(step_at)),
                before + Duration::from_nanos(ahead)
            );
            let at = step_at + at;
            let local = clock.local(Instant::from_nanos(at));
            let back = clock.global(local);
            prop_assert!(clock.local(back) >= local);
            prop_assert!(back.as_nanos().abs_diff(at) <= 5);
            // What was due before the step is due at once.
            prop_assert!(clock.global(before).as_nanos().abs_diff(step_at) <= 5);
        }
    }
}
